// SPDX-License-Identifier: Apache-2.0
#include "cli/compare/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Elements --------------------------------------------------------------
// Returns the number of parts of an element, of which complex ones have two.
static int count_parts(const ls_array *array) {
  return ls_dtype_is_complex(ls_array_dtype(array)) ? 2 : 1;
}

static size_t size_of_part(const ls_array *array) {
  return ls_dtype_size(ls_array_dtype(array)) / (size_t)count_parts(array);
}

static double part_of(const ls_array *array, int64_t index, int part) {
  return count_parts(array) == 2 ? cli_array_part(array, index, part)
                                 : ls_array_f64(array, index);
}

// Returns the bits of a part of up to 8 bytes.
static uint64_t bits_of(const ls_array *array, int64_t index, int part) {
  const size_t size = size_of_part(array);
  const unsigned char *at =
      (const unsigned char *)ls_array_data(array) +
      ((size_t)index * (size_t)count_parts(array) + (size_t)part) * size;
  uint8_t u8;
  uint16_t u16;
  uint32_t u32;
  uint64_t u64 = 0;
  switch (size) {
  case 1:
    memcpy(&u8, at, 1);
    return u8;
  case 2:
    memcpy(&u16, at, 2);
    return u16;
  case 4:
    memcpy(&u32, at, 4);
    return u32;
  default:
    memcpy(&u64, at, size < 8 ? size : 8);
    return u64;
  }
}

// Maps floats to integers in the same order: both zeros are 0.
static int64_t compare_place_of(uint64_t bits, size_t size) {
  const uint64_t sign = UINT64_C(1) << (8 * size - 1);
  return bits & sign ? -(int64_t)(bits & (sign - 1)) : (int64_t)bits;
}

static uint64_t apart(uint64_t a, uint64_t b, size_t size) {
  const int64_t x = compare_place_of(a, size), y = compare_place_of(b, size);
  return x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x;
}

static void add_floats(cli_difference *all, const ls_array *a,
                       const ls_array *b, int64_t i) {
  bool is_nan = false;
  for (int part = 0; part < count_parts(a); ++part) {
    const double x = part_of(a, i, part), y = part_of(b, i, part);
    is_nan |= isnan(x) || isnan(y);
    if (isnan(x) || isnan(y)) continue;
    const double absolute = fabs(x - y);
    const double larger = fmax(fabs(x), fabs(y));
    all->absolute = fmax(all->absolute, absolute);
    if (larger > 0 && isfinite(larger))
      all->relative = fmax(all->relative, absolute / larger);
    const uint64_t ulp =
        apart(bits_of(a, i, part), bits_of(b, i, part), size_of_part(a));
    if (ulp > all->ulp) all->ulp = ulp;
  }
  all->nans += is_nan;
}

static void add_integers(cli_difference *all, const ls_array *a,
                         const ls_array *b, int64_t i) {
  const int64_t x = ls_array_i64(a, i), y = ls_array_i64(b, i);
  const bool is_unsigned = ls_dtype_is_unsigned(ls_array_dtype(a));
  const bool x_larger = is_unsigned ? (uint64_t)x > (uint64_t)y : x > y;
  const uint64_t ulp =
      x_larger ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x;
  if (ulp > all->ulp) all->ulp = ulp;
  all->absolute = fmax(all->absolute, (double)ulp);
  const double larger = is_unsigned
                            ? fmax((double)(uint64_t)x, (double)(uint64_t)y)
                            : fmax(fabs((double)x), fabs((double)y));
  if (larger > 0) all->relative = fmax(all->relative, (double)ulp / larger);
}

static bool has_ulps(ls_dtype dtype) {
  return ls_dtype_is_float(dtype) || ls_dtype_is_complex(dtype);
}

static bool are_of_one_type(const ls_array *a, const ls_array *b) {
  return ls_array_dtype(a) == ls_array_dtype(b) &&
         ls_shape_equal(ls_array_shape(a), ls_array_shape(b));
}

cli_difference cli_compare(const ls_array *a, const ls_array *b) {
  cli_difference all = {.first = -1, .count = !are_of_one_type(a, b)};
  const ls_dtype dtype = ls_array_dtype(a);
  const size_t size = ls_dtype_size(dtype);
  const int64_t count = ls_array_num_elements(a);
  const char *x = ls_array_data(a), *y = ls_array_data(b);
  if (all.count > 0 || memcmp(x, y, (size_t)count * size) == 0) return all;
  for (int64_t i = 0; i < count; ++i) {
    const size_t at = (size_t)i * size;
    if (memcmp(x + at, y + at, size) == 0) continue;
    if (all.count++ == 0) all.first = i;
    if (has_ulps(dtype))
      add_floats(&all, a, b, i);
    else
      add_integers(&all, a, b, i);
  }
  return all;
}

// ---- Printing --------------------------------------------------------------
// Formats an element and its bits: "0.5 (0x3f000000)"; of a complex one both
// parts: "1-2i (0x3f800000 0xc0000000)".
static void print_element(const ls_array *array, int64_t index,
                          char text[160]) {
  enum { ROOM = 160 };
  const ls_dtype dtype = ls_array_dtype(array);
  const int digits = 2 * (int)size_of_part(array);
  const int reals = size_of_part(array) == 8   ? 17
                    : size_of_part(array) == 4 ? 9
                                               : 5;
  const unsigned long long bits = bits_of(array, index, 0);
  if (ls_dtype_is_complex(dtype))
    snprintf(text, ROOM, "%.*g%+.*gi (0x%0*llx 0x%0*llx)", reals,
             part_of(array, index, 0), reals, part_of(array, index, 1), digits,
             bits, digits, (unsigned long long)bits_of(array, index, 1));
  else if (ls_dtype_is_float(dtype))
    snprintf(text, ROOM, "%.*g (0x%0*llx)", reals, ls_array_f64(array, index),
             digits, bits);
  else if (ls_dtype_is_unsigned(dtype))
    snprintf(text, ROOM, "%llu (0x%0*llx)",
             (unsigned long long)ls_array_i64(array, index), digits, bits);
  else
    snprintf(text, ROOM, "%lld (0x%0*llx)",
             (long long)ls_array_i64(array, index), digits, bits);
}

// Formats an index: "[2,7]"; "" for a scalar.
static void print_index(ls_shape shape, int64_t index, char *text,
                        size_t size) {
  int64_t places[LS_MAX_RANK];
  text[0] = '\0';
  if (shape.rank == 0) return;
  for (int i = shape.rank; i > 0; --i) {
    places[i - 1] = index % shape.dim[i - 1];
    index /= shape.dim[i - 1];
  }
  for (int i = 0; i < shape.rank; ++i) {
    const size_t at = strlen(text);
    snprintf(text + at, size - at, "%c%lld", i == 0 ? '[' : ',',
             (long long)places[i]);
  }
  const size_t at = strlen(text);
  snprintf(text + at, size - at, "]");
}

static void print_name(const char *indent, const char *name) {
  fputs(indent, stdout);
  cli_print_clean(name);
  fputs(": ", stdout);
}

void cli_print_difference(const char *indent, const char *name,
                          const ls_array *a, const ls_array *b,
                          const cli_difference *d) {
  char index[128], one[160], other[160];
  const ls_dtype dtype = ls_array_dtype(a);
  const ls_shape shape = ls_array_shape(a);
  print_name(indent, name);
  if (d->first < 0) {
    printf("%s and %s\n", LS_SHAPE_TEXT(dtype, shape),
           LS_SHAPE_TEXT(ls_array_dtype(b), ls_array_shape(b)));
    return;
  }
  print_index(shape, d->first, index, sizeof(index));
  print_element(a, d->first, one);
  print_element(b, d->first, other);
  printf("%lld of %lld elements of %s; first ", (long long)d->count,
         (long long)ls_array_num_elements(a), LS_SHAPE_TEXT(dtype, shape));
  cli_print_clean(name);
  printf("%s is %s and %s", index, one, other);
  printf("; at most %.6g apart, relative %.3g", d->absolute, d->relative);
  if (has_ulps(dtype)) printf(", %llu ulp", (unsigned long long)d->ulp);
  if (d->nans > 0) printf("; %lld are no numbers", (long long)d->nans);
  printf("\n");
}

static void compare_print_json(const char *name, const ls_array *a,
                               const ls_array *b, const cli_difference *d) {
  char index[128], one[160], other[160];
  const ls_shape shape = ls_array_shape(a);
  print_index(shape, d->first, index, sizeof(index));
  print_element(a, d->first, one);
  print_element(b, d->first, other);
  cli_print_text('{', "array", name);
  printf(",\"type\":\"%s\",\"elements\":%lld,\"different\":%lld,\"first\":%s,"
         "\"values\":[\"%s\",\"%s\"]",
         LS_SHAPE_TEXT(ls_array_dtype(a), shape),
         (long long)ls_array_num_elements(a), (long long)d->count,
         shape.rank > 0 ? index : "[]", one, other);
  cli_print_member(',', "absolute", d->absolute, 17);
  cli_print_member(',', "relative", d->relative, 17);
  printf(",\"ulp\":%llu,\"no_numbers\":%lld}\n", (unsigned long long)d->ulp,
         (long long)d->nans);
}

// ---- Files -----------------------------------------------------------------
// An array's name and number.
typedef struct named {
  const char *name;
  size_t index;
} named;

typedef struct comparing {
  const ls_saved_file *a, *b;
  named *names[2];   // Sorted names of both files,
  size_t counts[2];  // and their numbers.
  const cli_compare_options *options;
  const char *indent;
  size_t different;
} comparing;

static size_t compare_count_of(const ls_saved_file *file) {
  ls_saved_info info;
  ls_saved_file_describe(file, &info);
  return info.num_entries;
}

static const char *path_of(const ls_saved_file *file) {
  ls_saved_info info;
  ls_saved_file_describe(file, &info);
  return info.path;
}

// ---- Arrays by name --------------------------------------------------------
static int by_name(const void *a, const void *b) {
  return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static ls_status sort_names(const ls_saved_file *file, size_t count,
                            named **out) {
  CLI_OWN_ARRAY_OR_RETURN(named, names, count);
  for (size_t i = 0; i < count; ++i) {
    ls_saved_entry entry;
    LS_RETURN_IF_ERROR(ls_saved_file_entry(file, i, &entry));
    names[i] = (named){entry.name, i};
  }
  qsort(names, count, sizeof(*names), by_name);
  return cli_hand_over(&names, out);
}

// Finds the array of this name in file 0 or 1; NULL if there is none.
static const named *compare_find(const comparing *c, int which,
                                 const char *name) {
  const named wanted = {.name = name};
  return bsearch(&wanted, c->names[which], c->counts[which], sizeof(wanted),
                 by_name);
}

// ---- Differences -----------------------------------------------------------
// Counts an array that differs; returns true if it is to be listed.
static bool is_shown(comparing *c) {
  if (c->different == 0 && c->options->heading != NULL)
    printf("%s\n", c->options->heading);
  return c->different++ < c->options->most;
}

static void print_alone(comparing *c, const ls_saved_entry *entry,
                        const ls_saved_file *file) {
  const char *type = LS_SHAPE_TEXT(entry->type.dtype, entry->type.shape);
  if (!is_shown(c)) return;
  if (!c->options->json) {
    print_name(c->indent, entry->name);
    printf("only in '%s', %s\n", path_of(file), type);
    return;
  }
  cli_print_text('{', "array", entry->name);
  cli_print_text(',', "only_in", path_of(file));
  printf(",\"type\":\"%s\"}\n", type);
}

static void print_types(comparing *c, const ls_saved_entry *a,
                        const ls_saved_entry *b) {
  const char *one = LS_SHAPE_TEXT(a->type.dtype, a->type.shape);
  const char *other = LS_SHAPE_TEXT(b->type.dtype, b->type.shape);
  if (!is_shown(c)) return;
  if (!c->options->json) {
    print_name(c->indent, a->name);
    printf("%s and %s\n", one, other);
    return;
  }
  cli_print_text('{', "array", a->name);
  printf(",\"types\":[\"%s\",\"%s\"]}\n", one, other);
}

static ls_status compare_values(comparing *c, const char *name, size_t i,
                                size_t k) {
  CLI_OWN(ls_array, a) = NULL;
  CLI_OWN(ls_array, b) = NULL;
  LS_RETURN_IF_ERROR(ls_saved_file_read(c->a, i, &a));
  LS_RETURN_IF_ERROR(ls_saved_file_read(c->b, k, &b));
  const cli_difference found = cli_compare(a, b);
  if (found.count == 0 || !is_shown(c)) return ls_ok();
  if (c->options->json)
    compare_print_json(name, a, b, &found);
  else
    cli_print_difference(c->indent, name, a, b, &found);
  return ls_ok();
}

static ls_status compare_entry(comparing *c, size_t i) {
  ls_saved_entry a, b;
  LS_RETURN_IF_ERROR(ls_saved_file_entry(c->a, i, &a));
  if (!cli_words_fit(c->options->only, a.name)) return ls_ok();
  const named *found = compare_find(c, 1, a.name);
  if (found == NULL) {
    print_alone(c, &a, c->a);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_saved_file_entry(c->b, found->index, &b));
  if (a.type.dtype == b.type.dtype &&
      ls_shape_equal(a.type.shape, b.type.shape))
    return compare_values(c, a.name, i, found->index);
  print_types(c, &a, &b);
  return ls_ok();
}

static ls_status compare_entries(comparing *c) {
  for (size_t i = 0; i < c->counts[0]; ++i)
    LS_RETURN_IF_ERROR(compare_entry(c, i));
  for (size_t i = 0; i < c->counts[1]; ++i) {
    ls_saved_entry entry;
    LS_RETURN_IF_ERROR(ls_saved_file_entry(c->b, i, &entry));
    if (cli_words_fit(c->options->only, entry.name) &&
        compare_find(c, 0, entry.name) == NULL)
      print_alone(c, &entry, c->b);
  }
  return ls_ok();
}

ls_status cli_compare_files(const ls_saved_file *a, const ls_saved_file *b,
                            const cli_compare_options *options,
                            size_t *out_different) {
  CLI_OWN_MEMORY(named, one) = NULL;
  CLI_OWN_MEMORY(named, other) = NULL;
  const size_t counts[] = {compare_count_of(a), compare_count_of(b)};
  LS_RETURN_IF_ERROR(sort_names(a, counts[0], &one));
  LS_RETURN_IF_ERROR(sort_names(b, counts[1], &other));
  comparing c = {.a = a,
                 .b = b,
                 .names = {one, other},
                 .counts = {counts[0], counts[1]},
                 .options = options,
                 .indent = options->heading != NULL ? "  " : ""};
  LS_RETURN_IF_ERROR(compare_entries(&c));
  if (c.different > options->most && !options->json)
    printf("%sand %zu more\n", c.indent, c.different - options->most);
  *out_different = c.different;
  return ls_ok();
}
