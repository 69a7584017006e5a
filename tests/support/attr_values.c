// SPDX-License-Identifier: Apache-2.0
#include "support/attr_values.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/callbacks.h"
#include "graph/variables/variable.h"
#include "lockstep/host.h"
#include "support/callbacks.h"
#include "support/expect.h"

attr_holdings attr_values_held;

void attr_values_hold(ls_runtime *runtime) {
  static ls_object other, gradient;
  static const ls_object_type other_type = {.name = "other"};
  attr_holdings *held = &attr_values_held;
  ls_variable *variable = NULL;
  ls_object_init(&other, &other_type);
  ls_object_init(&gradient, &ls_custom_gradient_type);
  held->other = &other;
  held->gradient = &gradient;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &held->array));
  expect_ok(ls_variable_make(runtime, "w", (ls_type){LS_DTYPE_F32, LS_SCALAR},
                             false, &variable));
  held->variable = &variable->object;
}

void attr_values_release(void) {
  ls_object_release(attr_values_held.variable);
  ls_array_release(attr_values_held.array);
}

static const ls_host_kernel kernel = {.name = "nothing",
                                      .start = finish_at_once};

static void add(attr_values *v, const ls_attr_info *info, ls_attr attr) {
  assert_true(v->count < ATTR_VALUES);
  attr.name = info->name;
  attr.kind = info->kind;
  v->items[v->count++] = attr;
}

static void add_numbers(attr_values *v, const ls_attr_info *info, int64_t value,
                        size_t count) {
  static int64_t items[ATTR_VALUES][LS_MAX_REPLICAS + 1];
  static int64_t many[2][LS_MAX_OPERANDS + 1];  // One attribute has as many.
  static size_t next;
  const size_t at = next++;
  assert_true(count <= LS_MAX_OPERANDS + 1);
  int64_t *to =
      count <= LS_MAX_REPLICAS + 1 ? items[at % ATTR_VALUES] : many[at % 2];
  for (size_t i = 0; i < count; ++i)
    to[i] = value;
  add(v, info, (ls_attr){.as.ints = {to, count}});
}

static void add_sizes(attr_values *v, const ls_attr_info *info, ls_size size,
                      size_t count) {
  static ls_size items[ATTR_VALUES][LS_MAX_RANK + 1];
  static size_t next;
  ls_size *to = items[next++ % ATTR_VALUES];
  for (size_t i = 0; i < count; ++i)
    to[i] = size;
  add(v, info, (ls_attr){.as.sizes = {to, count}});
}

static void add_words(attr_values *v, const ls_attr_info *info) {
  static char words[ATTR_VALUES][32];
  static size_t next;
  for (const char *word = info->words; *word != '\0';) {
    const size_t length = strcspn(word, ",");
    char *to = words[next++ % ATTR_VALUES];
    snprintf(to, sizeof(words[0]), "%.*s", (int)length, word);
    add(v, info, (ls_attr){.as.string = to});
    word += length;
    word += strspn(word, ", ");
  }
}

attr_values attr_values_within(const ls_attr_info *info) {
  attr_values v = {.count = 0};
  switch (info->kind) {
  case LS_ATTR_INT:
  case LS_ATTR_BOOL:
    add(&v, info, (ls_attr){.as.i = info->least});
    add(&v, info, (ls_attr){.as.i = info->most});
    break;
  case LS_ATTR_FLOAT:
    add(&v, info, (ls_attr){.as.f = info->otherwise.f});
    add(&v, info, (ls_attr){.as.f = 1e300});
    break;
  case LS_ATTR_STRING:
    add_words(&v, info);
    break;
  case LS_ATTR_DTYPE:
    add(&v, info, (ls_attr){.as.dtype = LS_DTYPE_NONE + 1});
    add(&v, info, (ls_attr){.as.dtype = LS_DTYPE_COUNT - 1});
    break;
  case LS_ATTR_SHAPE:
    add(&v, info, (ls_attr){.as.shape = LS_SCALAR});
    add(&v, info, (ls_attr){.as.shape = LS_SHAPE(LS_UNKNOWN_DIM, 0)});
    break;
  case LS_ATTR_INTS:
    add_numbers(&v, info, 0, 0);
    add_numbers(&v, info, info->least, 1);
    add_numbers(&v, info, info->most, 1);
    if (info->count <= LS_MAX_RANK) {
      add_numbers(&v, info, info->least, info->count);
      add_numbers(&v, info, info->most, info->count);
    }
    break;
  case LS_ATTR_SIZES:
    add_sizes(&v, info, (ls_size){LS_SIZE_CONSTANT, -1}, 1);
    add_sizes(&v, info, (ls_size){LS_SIZE_CONSTANT, 0}, LS_MAX_RANK);
    add_sizes(&v, info, (ls_size){LS_SIZE_CONSTANT, LS_MAX_SIZE}, 1);
    add_sizes(&v, info, (ls_size){LS_SIZE_CONSTANT, LS_MAX_SIZE}, LS_MAX_RANK);
    break;
  case LS_ATTR_ARRAY:
    add(&v, info, (ls_attr){.as.array = attr_values_held.array});
    break;
  case LS_ATTR_OBJECT:
    if (info->object == &ls_variable_object_type)
      add(&v, info, (ls_attr){.as.object = attr_values_held.variable});
    else
      add(&v, info,
          (ls_attr){.as.object = info->object == NULL
                                     ? attr_values_held.other
                                     : attr_values_held.gradient});
    break;
  case LS_ATTR_KERNEL:
    add(&v, info, (ls_attr){.as.kernel = &kernel});
    break;
  default:
    break;
  }
  return v;
}

attr_values attr_values_beyond(const ls_attr_info *info) {
  attr_values v = {.count = 0};
  switch (info->kind) {
  case LS_ATTR_INT:
  case LS_ATTR_BOOL:
    if (info->least > INT64_MIN) {
      add(&v, info, (ls_attr){.as.i = info->least - 1});
      add(&v, info, (ls_attr){.as.i = INT64_MIN});
    }
    if (info->most < INT64_MAX) {
      add(&v, info, (ls_attr){.as.i = info->most + 1});
      add(&v, info, (ls_attr){.as.i = INT64_MAX});
    }
    break;
  case LS_ATTR_FLOAT:
    if (isinf(info->least_real)) break;
    add(&v, info, (ls_attr){.as.f = nextafter(info->least_real, -1)});
    add(&v, info, (ls_attr){.as.f = (double)INFINITY});
    add(&v, info, (ls_attr){.as.f = (double)NAN});
    break;
  case LS_ATTR_STRING:
    add(&v, info, (ls_attr){.as.string = ""});
    add(&v, info, (ls_attr){.as.string = "s"});
    add(&v, info, (ls_attr){.as.string = info->words});
    add(&v, info, (ls_attr){.as.string = "nothing of the kind"});
    if (strchr(info->words, ',') == NULL) v.items[2] = v.items[--v.count];
    break;
  case LS_ATTR_DTYPE:
    add(&v, info, (ls_attr){.as.dtype = LS_DTYPE_NONE});
    add(&v, info, (ls_attr){.as.dtype = LS_DTYPE_COUNT});
    break;
  case LS_ATTR_SHAPE:
    add(&v, info, (ls_attr){.as.shape = {.rank = LS_MAX_RANK + 1}});
    add(&v, info, (ls_attr){.as.shape = LS_SHAPE(-2)});
    break;
  case LS_ATTR_INTS:
    if (info->least > INT64_MIN) add_numbers(&v, info, info->least - 1, 1);
    if (info->most < INT64_MAX) add_numbers(&v, info, info->most + 1, 1);
    add_numbers(&v, info, info->least, info->count + 1);
    break;
  case LS_ATTR_SIZES:
    add_sizes(&v, info, (ls_size){LS_SIZE_CONSTANT, -2}, 1);
    add_sizes(&v, info, (ls_size){LS_SIZE_CONSTANT, LS_MAX_SIZE + 1}, 1);
    add_sizes(&v, info, (ls_size){LS_SIZE_CONSTANT, 1}, LS_MAX_RANK + 1);
    add_sizes(&v, info, (ls_size){ATTR_OPERANDS, 0}, 1);
    add_sizes(&v, info, (ls_size){-2, 0}, 1);
    add_sizes(&v, info, (ls_size){0, LS_MAX_RANK}, 1);
    break;
  case LS_ATTR_ARRAY:
    add(&v, info, (ls_attr){.as.array = NULL});
    break;
  case LS_ATTR_KERNEL:
    add(&v, info, (ls_attr){.as.kernel = NULL});
    break;
  case LS_ATTR_OBJECT:
    if (info->object == NULL) break;
    add(&v, info, (ls_attr){.as.object = NULL});
    add(&v, info, (ls_attr){.as.object = attr_values_held.other});
    break;
  default:
    break;
  }
  return v;
}
