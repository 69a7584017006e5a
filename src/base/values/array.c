// SPDX-License-Identifier: Apache-2.0
// Arrays: header and elements in one block, the elements on a cache line.
//
// The bytes of strings follow the table of their addresses in the same block,
// or are in a block of their own if they came later. Elements of resource and
// variant arrays are NULL or an ls_object of which the array owns a reference;
// a view owns none.
#include "lockstep/array.h"

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/status_cause.h"
#include "base/values/array_internal.h"
#include "base/values/numbers.h"
#include "lockstep/object.h"
#include "lockstep/shape_rules.h"

struct ls_array {
  ls_object object;
  ls_allocator *allocator;
  ls_dtype dtype;
  ls_shape shape;
  int64_t num_elements;
  size_t size;
  void *data;
  bool is_view;
  bool is_lent;                 // Elements of another array: ls_array_own.
  bool is_absent;               // Has no value: its elements are zeros.
  ls_arrival *arrival;          // Elements that a device writes, or NULL.
  char *bytes;                  // Bytes of strings, if in a block of their own.
  void (*release)(void *user);  // Called at a view's end.
  void *user;
};

// Room before the elements. The allocator need not align the block to a cache
// line: its aligned requests do not reuse freed memory.
enum { HEAD_SIZE = sizeof(ls_array) + LS_CACHE_LINE - 1 };

static void *allocate_block(ls_allocator *allocator, size_t size) {
  return size >= LS_HUGE_PAGE
             ? ls_allocate_large(allocator, size)
             : allocator->allocate(allocator, size, _Alignof(max_align_t));
}

static void *array_elements_of(ls_array *array) {
  const uintptr_t behind = (uintptr_t)(array + 1);
  return (char *)(array + 1) + (0 - behind) % LS_CACHE_LINE;
}

static bool holds_objects(ls_dtype dtype) {
  return dtype == LS_DTYPE_RESOURCE || dtype == LS_DTYPE_VARIANT;
}

static void end_arrival(const ls_array *array) {
  if (array->arrival != NULL) array->arrival->end(array->arrival);
}

static void destroy_array(ls_object *object) {
  ls_array *array = (ls_array *)object;
  end_arrival(array);
  if (array->arrival != NULL) array->arrival->destroy(array->arrival);
  if (array->is_view) {
    if (array->release != NULL) array->release(array->user);
  } else if (holds_objects(array->dtype) && !array->is_lent) {
    void **objects = array->data;
    for (int64_t i = 0; i < array->num_elements; ++i)
      ls_object_release(objects[i]);
  }
  ls_release(array->allocator, array->bytes);
  ls_release(array->allocator, array);
}

static void print_array(const ls_object *object, char *buffer, size_t size) {
  ls_array_print((const ls_array *)object, buffer, size);
}

static const ls_object_type array_type = {
    .name = "array", .destroy = destroy_array, .print = print_array};

// ---- Creation --------------------------------------------------------------
static ls_status array_check_type(ls_dtype dtype, ls_shape shape) {
  if (ls_dtype_size(dtype) == 0)
    return ls_invalid_argument("an array of dtype %s, which has no data",
                               ls_dtype_name(dtype));
  LS_RETURN_IF_ERROR(ls_shape_check(shape));
  if (!ls_shape_is_known(shape))
    return ls_invalid_argument("an array of shape %s; it must be known",
                               LS_SHAPE_TEXT(dtype, shape));
  return ls_ok();
}

// Allocates an array with room for `extra` bytes after the header; fills in the
// header only.
static ls_status make_array(ls_dtype dtype, ls_shape shape, size_t extra,
                            ls_array **out_array) {
  ls_allocator *allocator = ls_current_allocator();
  size_t total = 0;
  ls_array *array = NULL;
  if (!__builtin_add_overflow(extra, (size_t)HEAD_SIZE, &total))
    array = allocate_block(allocator, total);
  if (array == NULL)
    return LS_NO_MEMORY("no memory for %s: %zu bytes",
                        LS_SHAPE_TEXT(dtype, shape), extra);
  *array = (ls_array){.allocator = allocator, .dtype = dtype};
  ls_object_init(&array->object, &array_type);
  array->shape.rank = shape.rank;  // Dimensions beyond the rank are 0.
  memcpy(array->shape.dim, shape.dim, (size_t)shape.rank * sizeof(int64_t));
  array->num_elements = ls_shape_num_elements(shape);
  array->size = (size_t)array->num_elements * ls_dtype_size(dtype);
  array->data = array_elements_of(array);
  *out_array = array;
  return ls_ok();
}

// Returns the elements' bytes. At most 2^46 elements of 16 bytes: no overflow.
static size_t data_size(ls_dtype dtype, ls_shape shape) {
  return (size_t)ls_shape_num_elements(shape) * ls_dtype_size(dtype);
}

void ls_array_mark_absent(ls_array *array) { array->is_absent = true; }

bool ls_array_is_absent(const ls_array *array) { return array->is_absent; }

static void zero(ls_array *array) { memset(array->data, 0, array->size); }

ls_status ls_array_create_unwritten(ls_dtype dtype, ls_shape shape,
                                    ls_array **out_array) {
  *out_array = NULL;
  LS_RETURN_IF_ERROR(array_check_type(dtype, shape));
  LS_RETURN_IF_ERROR(
      make_array(dtype, shape, data_size(dtype, shape), out_array));
  if (dtype == LS_DTYPE_STRING || holds_objects(dtype)) zero(*out_array);
  return ls_ok();
}

bool ls_dtype_owns_elements(ls_dtype dtype) {
  return dtype == LS_DTYPE_STRING || holds_objects(dtype);
}

void ls_array_lend(ls_array *array) {
  array->is_lent = ls_dtype_owns_elements(array->dtype);
}

void ls_strings_copy(ls_bytes *strings, size_t count, char *place) {
  for (size_t i = 0; i < count; ++i) {
    const size_t length = strings[i].size;
    if (length > 0) memcpy(place, strings[i].data, length);
    place[length] = '\0';
    strings[i].data = place;
    place += length + 1;
  }
}

static ls_status own_strings(ls_array *array) {
  const size_t count = (size_t)array->num_elements;
  ls_bytes *strings = array->data;
  size_t size = 0;
  for (size_t i = 0; i < count; ++i)
    size += strings[i].size + 1;
  char *place = ls_allocate(array->allocator, size + 1);
  if (place == NULL) return ls_out_of_memory();
  array->bytes = place;
  ls_strings_copy(strings, count, place);
  return ls_ok();
}

ls_status ls_array_own(ls_array *array) {
  if (!array->is_lent) return ls_ok();
  if (array->dtype == LS_DTYPE_STRING) {
    LS_RETURN_IF_ERROR(own_strings(array));
  } else {
    void **objects = array->data;
    for (int64_t i = 0; i < array->num_elements; ++i)
      ls_object_retain(objects[i]);
  }
  array->is_lent = false;
  return ls_ok();
}

ls_status ls_array_create(ls_dtype dtype, ls_shape shape,
                          ls_array **out_array) {
  LS_REQUIRE_OUT(out_array);
  LS_RETURN_IF_ERROR(ls_array_create_unwritten(dtype, shape, out_array));
  zero(*out_array);
  return ls_ok();
}

static ls_status copy_strings(ls_shape shape, const ls_bytes *strings,
                              ls_array **out_array) {
  const size_t count = (size_t)ls_shape_num_elements(shape);
  size_t size = data_size(LS_DTYPE_STRING, shape);
  for (size_t i = 0; i < count; ++i) {
    if (__builtin_add_overflow(size, strings[i].size, &size) ||
        __builtin_add_overflow(size, (size_t)1, &size)) {
      size = SIZE_MAX;
      break;
    }
  }
  LS_RETURN_IF_ERROR(make_array(LS_DTYPE_STRING, shape, size, out_array));
  ls_bytes *copies = (*out_array)->data;
  char *place = (char *)(copies + count);
  for (size_t i = 0; i < count; ++i) {
    copies[i] = (ls_bytes){place, strings[i].size};
    if (strings[i].size > 0) memcpy(place, strings[i].data, strings[i].size);
    place[strings[i].size] = '\0';
    place += strings[i].size + 1;
  }
  return ls_ok();
}

ls_status ls_array_create_copy(ls_dtype dtype, ls_shape shape, const void *data,
                               ls_array **out_array) {
  LS_REQUIRE_OUT(out_array);
  LS_RETURN_IF_ERROR(array_check_type(dtype, shape));
  if (dtype == LS_DTYPE_STRING) return copy_strings(shape, data, out_array);
  LS_RETURN_IF_ERROR(
      make_array(dtype, shape, data_size(dtype, shape), out_array));
  ls_array *array = *out_array;
  if (array->size > 0) memcpy(array->data, data, array->size);
  if (holds_objects(dtype)) {
    void **objects = array->data;
    for (int64_t i = 0; i < array->num_elements; ++i)
      ls_object_retain(objects[i]);
  }
  return ls_ok();
}

ls_status ls_array_create_view(ls_dtype dtype, ls_shape shape, void *data,
                               void (*release)(void *user), void *user,
                               ls_array **out_array) {
  LS_REQUIRE_OUT(out_array);
  LS_RETURN_IF_ERROR(array_check_type(dtype, shape));
  if (dtype == LS_DTYPE_STRING)
    return ls_invalid_argument("a view of strings, %s; they must be copied",
                               LS_SHAPE_TEXT(dtype, shape));
  LS_RETURN_IF_ERROR(make_array(dtype, shape, 0, out_array));
  ls_array *array = *out_array;
  array->data = data;
  array->is_view = true;
  array->release = release;
  array->user = user;
  return ls_ok();
}

// ---- Getters ---------------------------------------------------------------
LS_COUNTED(ls_array)
bool ls_array_is_unique(const ls_array *array) {
  return ls_object_is_unique(array);
}

ls_dtype ls_array_dtype(const ls_array *array) { return array->dtype; }
ls_shape ls_array_shape(const ls_array *array) { return array->shape; }
int64_t ls_array_num_elements(const ls_array *array) {
  return array->num_elements;
}
size_t ls_array_size(const ls_array *array) { return array->size; }
const void *ls_array_data(const ls_array *array) {
  end_arrival(array);
  return array->data;
}
void *ls_array_mutable_data(ls_array *array) {
  end_arrival(array);
  return array->data;
}

// ---- Arrivals --------------------------------------------------------------
void *ls_array_place(ls_array *array) { return array->data; }
ls_arrival *ls_array_arrival(const ls_array *array) { return array->arrival; }
void ls_array_expect(ls_array *array, ls_arrival *arrival) {
  array->arrival = arrival;
}

ls_status ls_array_wait(const ls_array *array) {
  LS_REQUIRE(array);
  end_arrival(array);
  return array->arrival != NULL ? array->arrival->status(array->arrival)
                                : ls_ok();
}

// ---- Conversion ------------------------------------------------------------
static bool is_inside(const ls_array *array, int64_t index) {
  return index >= 0 && index < array->num_elements;
}

static void *element_at(const ls_array *array, int64_t index) {
  return (char *)(uintptr_t)ls_array_data(array) +
         (size_t)index * ls_dtype_size(array->dtype);
}

double ls_array_f64(const ls_array *array, int64_t index) {
  double value = 0;
  if (is_inside(array, index))
    ls_values_to_f64(array->dtype, element_at(array, index), 1, &value);
  return value;
}

int64_t ls_array_i64(const ls_array *array, int64_t index) {
  int64_t value = 0;
  if (is_inside(array, index))
    ls_values_to_i64(array->dtype, element_at(array, index), 1, &value);
  return value;
}

void ls_array_set_f64(ls_array *array, int64_t index, double value) {
  if (is_inside(array, index))
    ls_values_from_f64(array->dtype, &value, 1, element_at(array, index));
}

void ls_array_set_i64(ls_array *array, int64_t index, int64_t value) {
  if (is_inside(array, index))
    ls_values_from_i64(array->dtype, &value, 1, element_at(array, index));
}

static bool same_strings(const ls_bytes *a, const ls_bytes *b, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (a[i].size != b[i].size ||
        (a[i].size > 0 && memcmp(a[i].data, b[i].data, a[i].size) != 0))
      return false;
  return true;
}

bool ls_array_is_same(const ls_array *a, const ls_array *b) {
  if (a == b) return true;
  if (a->dtype != b->dtype || !ls_shape_equal(a->shape, b->shape)) return false;
  return a->dtype == LS_DTYPE_STRING
             ? same_strings(a->data, b->data, a->num_elements)
             : memcmp(ls_array_data(a), ls_array_data(b), a->size) == 0;
}
