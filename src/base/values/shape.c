// SPDX-License-Identifier: Apache-2.0
// Shapes: rules and text.
#include "lockstep/shape.h"
#include "lockstep/shape_rules.h"

#include "base/require.h"
#include "base/text.h"

static const int64_t max_elements = INT64_C(1) << 46;

bool ls_shape_is_known(ls_shape shape) {
  if (shape.rank < 0) return false;
  for (int i = 0; i < shape.rank; ++i)
    if (shape.dim[i] < 0) return false;
  return true;
}

bool ls_shape_equal(ls_shape a, ls_shape b) {
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i)
    if (a.dim[i] != b.dim[i]) return false;
  return true;
}

bool ls_shape_compatible(ls_shape a, ls_shape b) {
  if (a.rank < 0 || b.rank < 0) return true;
  if (a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i)
    if (a.dim[i] >= 0 && b.dim[i] >= 0 && a.dim[i] != b.dim[i]) return false;
  return true;
}

// Prints a shape for a message, without a dtype: "[2,?]".
static const char *print_dims(ls_shape shape, char *buffer, size_t size) {
  ls_shape_print(LS_DTYPE_NONE, shape, buffer, size);
  return buffer + strlen(ls_dtype_name(LS_DTYPE_NONE));
}
#define DIMS_TEXT(shape) print_dims((shape), (char[200]){0}, 200)

ls_status ls_shape_merge(ls_shape a, ls_shape b, ls_shape *out_shape) {
  LS_REQUIRE_OUT(out_shape);
  *out_shape = LS_SHAPE_UNKNOWN;
  if (!ls_shape_compatible(a, b))
    return ls_invalid_argument("shapes %s and %s cannot be the same one",
                               DIMS_TEXT(a), DIMS_TEXT(b));
  *out_shape = a.rank < 0 ? b : a;
  if (a.rank < 0 || b.rank < 0) return ls_ok();
  for (int i = 0; i < a.rank; ++i)
    if (a.dim[i] < 0) out_shape->dim[i] = b.dim[i];
  return ls_ok();
}

// Broadcasts two dimensions; returns false if they do not fit. Unknown with 1
// stays unknown; unknown with any other gives that one.
static bool broadcast_dim(int64_t a, int64_t b, int64_t *out_dim) {
  if (a == b || b == 1) {
    *out_dim = a;
  } else if (a == 1) {
    *out_dim = b;
  } else if (a < 0 || b < 0) {
    *out_dim = a < 0 ? b : a;
  } else {
    return false;
  }
  return true;
}

ls_status ls_shape_broadcast(ls_shape a, ls_shape b, ls_shape *out_shape) {
  LS_REQUIRE_OUT(out_shape);
  *out_shape = LS_SHAPE_UNKNOWN;
  if (a.rank < 0 || b.rank < 0) return ls_ok();
  ls_shape result = {.rank = a.rank > b.rank ? a.rank : b.rank};
  for (int back = 1; back <= result.rank; ++back) {
    const int64_t dim_a = back <= a.rank ? a.dim[a.rank - back] : 1;
    const int64_t dim_b = back <= b.rank ? b.dim[b.rank - back] : 1;
    if (!broadcast_dim(dim_a, dim_b, &result.dim[result.rank - back]))
      return ls_invalid_argument("shapes %s and %s do not broadcast: %lld "
                                 "against %lld, counted %d from the end",
                                 DIMS_TEXT(a), DIMS_TEXT(b), (long long)dim_a,
                                 (long long)dim_b, back);
  }
  *out_shape = result;
  return ls_ok();
}

// Multiplies the known dimensions that are not 0; saturates.
static int64_t product_of_others(ls_shape shape) {
  int64_t product = 1;
  for (int i = 0; i < shape.rank; ++i) {
    if (shape.dim[i] > 0 &&
        __builtin_mul_overflow(product, shape.dim[i], &product)) {
      return INT64_MAX;
    }
  }
  return product;
}

int64_t ls_shape_num_elements(ls_shape shape) {
  if (!ls_shape_is_known(shape)) return -1;
  for (int i = 0; i < shape.rank; ++i)
    if (shape.dim[i] == 0) return 0;
  return product_of_others(shape);
}

ls_status ls_shape_check(ls_shape shape) {
  if (shape.rank < LS_UNKNOWN_RANK || shape.rank > LS_MAX_RANK)
    return ls_invalid_argument("rank %d; 0 to %d are possible, %d for unknown",
                               shape.rank, LS_MAX_RANK, LS_UNKNOWN_RANK);
  for (int i = 0; i < shape.rank; ++i) {
    if (shape.dim[i] < LS_UNKNOWN_DIM || shape.dim[i] > max_elements)
      return ls_invalid_argument(
          "dimension %d of %s; 0 to %lld are possible, %d (? in a text) for "
          "unknown",
          i, DIMS_TEXT(shape), (long long)max_elements, LS_UNKNOWN_DIM);
  }
  // Refuses the product without zero dimensions, too: strides are products of
  // some dimensions.
  if (product_of_others(shape) > max_elements)
    return ls_invalid_argument("%s has more than %lld elements",
                               DIMS_TEXT(shape), (long long)max_elements);
  return ls_ok();
}

// ---- Text ------------------------------------------------------------------
// Appends a piece, truncated to what fits.
static void shape_put(char *buffer, size_t size, size_t *used,
                      const char *piece) {
  for (; *piece != '\0' && *used + 1 < size; ++piece)
    buffer[(*used)++] = *piece;
  if (size > 0) buffer[*used] = '\0';
}

const char *ls_shape_print(ls_dtype dtype, ls_shape shape, char *buffer,
                           size_t size) {
  size_t used = 0;
  shape_put(buffer, size, &used, ls_dtype_name(dtype));
  shape_put(buffer, size, &used, "[");
  if (shape.rank < 0) shape_put(buffer, size, &used, "...");
  for (int i = 0; i < shape.rank && i < LS_MAX_RANK; ++i) {
    char number[24];
    if (i > 0) shape_put(buffer, size, &used, ",");
    shape_put(buffer, size, &used,
              shape.dim[i] == LS_UNKNOWN_DIM
                  ? "?"
                  : ls_print_i64(shape.dim[i], number));
  }
  shape_put(buffer, size, &used, "]");
  return buffer;
}

static ls_status wrong_place(const char *text, const char *place,
                             const char *want) {
  return ls_invalid_argument(
      "'%.100s' is not a shape: %s expected at character %td", text, want,
      place - text + 1);
}

// Reads "?" or a number without a leading zero; moves `*place` past it.
static ls_status parse_dim(const char *text, const char **place,
                           int64_t *out_dim) {
  const char *start = *place;
  if (*start == '?') {
    *out_dim = LS_UNKNOWN_DIM;
    *place = start + 1;
    return ls_ok();
  }
  int64_t value = 0;
  const char *at = start;
  for (; *at >= '0' && *at <= '9'; ++at) {
    if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
        __builtin_add_overflow(value, (int64_t)(*at - '0'), &value)) {
      return wrong_place(text, start, "a smaller number");
    }
  }
  if (at == start) return wrong_place(text, start, "a number or ?");
  if (*start == '0' && at > start + 1)
    return wrong_place(text, start, "a number without a leading zero");
  *out_dim = value;
  *place = at;
  return ls_ok();
}

// Reads the sizes after "[", up to the end of the text.
static ls_status parse_dims(const char *text, const char *place,
                            ls_shape *out_shape) {
  ls_shape shape = {0};
  if (strncmp(place, "...", 3) == 0) {
    shape = LS_SHAPE_UNKNOWN;
    place += 3;
  } else {
    while (*place != ']' || shape.rank > 0) {
      if (shape.rank == LS_MAX_RANK)
        return wrong_place(text, place, "no ninth dimension");
      LS_RETURN_IF_ERROR(parse_dim(text, &place, &shape.dim[shape.rank++]));
      if (*place != ',') break;
      ++place;
    }
  }
  if (*place != ']') return wrong_place(text, place, "',' or ']'");
  if (place[1] != '\0') return wrong_place(text, place + 1, "the end");
  LS_RETURN_IF_ERROR(ls_shape_check(shape));
  *out_shape = shape;
  return ls_ok();
}

ls_status ls_shape_parse(const char *text, ls_dtype *out_dtype,
                         ls_shape *out_shape) {
  LS_REQUIRE_OUT(out_dtype);
  LS_REQUIRE_OUT(out_shape, text);
  *out_shape = LS_SCALAR;
  const size_t name_size = strcspn(text, "[");
  char name[16] = "";
  if (name_size >= sizeof(name))
    return wrong_place(text, text, "a dtype and '['");
  memcpy(name, text, name_size);
  ls_dtype dtype = LS_DTYPE_NONE;
  ls_status status = ls_dtype_parse(name, &dtype);
  if (!ls_status_is_ok(status))
    return ls_status_annotate(status, "at character 1 of '%.100s'", text);
  if (text[name_size] != '[') return wrong_place(text, text + name_size, "'['");
  LS_RETURN_IF_ERROR(parse_dims(text, text + name_size + 1, out_shape));
  *out_dtype = dtype;
  return ls_ok();
}
