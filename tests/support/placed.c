// SPDX-License-Identifier: Apache-2.0
#include "support/placed.h"
#include "lockstep/graph_ops.h"
#include "runtime/own.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 1024 };

ls_nest placed_on(const char *const *devices, const ls_tensor *items,
                  size_t count) {
  ls_nest leaves[MOST];
  for (size_t i = 0; i < count; ++i)
    leaves[i] = ls_leaf(items[i]);
  const ls_nest made =
      ls_nest_distributed_on(LS_PER_REPLICA, leaves, devices, count);
  expect_ok(ls_nest_status(made));
  return made;
}

ls_nest placed_values(const char *type, ls_dtype dtype, size_t count,
                      int64_t size, const double *numbers) {
  static char names[MOST][80];
  const char *devices[MOST];
  ls_tensor items[MOST];
  const int64_t step = size == 0 ? 1 : size;
  for (size_t i = 0; i < count; ++i) {
    LS_OWN(ls_array, array) = NULL;
    expect_ok(
        ls_array_create(dtype, size == 0 ? LS_SCALAR : LS_SHAPE(size), &array));
    for (int64_t k = 0; k < step; ++k)
      ls_array_set_f64(array, k, numbers[(int64_t)i * step + k]);
    snprintf(names[i], sizeof(names[i]), LOCAL_DEVICE "%s:%zu", type, i);
    devices[i] = names[i];
    {
      LS_DEVICE_SCOPE(devices[i]);
      items[i] = ls_constant(array);
    }
  }
  return placed_on(devices, items, count);
}

static ls_array *fetch(ls_nest leaf, size_t component) {
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_nest, out) = ls_none();
  const ls_nest item = leaf.kind == LS_KIND_DISTRIBUTED
                           ? ls_distributed_component(leaf, component)
                           : leaf;
  assert_int_equal(item.kind, LS_KIND_TENSOR);
  expect_ok(ls_session_create(item.as.tensor.graph, &session));
  expect_ok(ls_session_run(session, item, NULL, 0, &out));
  return ls_array_retain(ls_nest_as_array(out));
}

void expect_fetched(ls_nest leaf, size_t component, const double *numbers,
                    size_t count) {
  LS_OWN(ls_array, array) = fetch(leaf, component);
  assert_int_equal(ls_array_num_elements(array), count);
  for (size_t i = 0; i < count; ++i)
    if (ls_array_f64(array, (int64_t)i) != numbers[i])
      fail_msg("component %zu: element %zu is %g, wanted %g", component, i,
               ls_array_f64(array, (int64_t)i), numbers[i]);
}

void expect_fetched_bytes(ls_nest leaf, const void *bytes, size_t size) {
  for (size_t i = 0; i < ls_distributed_count(leaf); ++i) {
    LS_OWN(ls_array, array) = fetch(leaf, i);
    assert_int_equal(ls_array_size(array), size);
    assert_memory_equal(ls_array_data(array), bytes, size);
  }
}

size_t count_ops(const ls_graph *graph, const char *type, const char *device) {
  size_t count = 0;
  char name[80];
  snprintf(name, sizeof(name), LOCAL_DEVICE "%s", device != NULL ? device : "");
  for (size_t i = 0; i < ls_graph_num_ops(graph); ++i) {
    const ls_op op = ls_graph_op(graph, i);
    count += strcmp(ls_op_type_name(op), type) == 0 &&
             (device == NULL || strcmp(ls_op_device(op), name) == 0);
  }
  return count;
}

const char *component_on(ls_nest leaf, size_t component) {
  const ls_nest item = ls_distributed_component(leaf, component);
  const char *device = ls_op_device(ls_tensor_op(ls_nest_tensor(item, 0)));
  const char *short_name = strstr(device, "/device:");
  return short_name == NULL ? device : short_name + strlen("/device:");
}

// ---- Log -------------------------------------------------------------------
static void keep_line(void *user, const ls_log_line *line) {
  logged_runtime *self = user;
  const size_t used = strlen(self->text);
  static const char *const levels[] = {"error", "warning", "info", "debug"};
  snprintf(self->text + used, sizeof(self->text) - used, "%s: %s\n",
           levels[line->level], line->text);
}

void logged_runtime_begin(logged_runtime *self) {
  *self = (logged_runtime){0};
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.log = keep_line, .log_user = self, .threads = 1},
      &self->runtime));
  self->before = ls_runtime_make_current(self->runtime);
}

void logged_runtime_end(logged_runtime *self) {
  ls_runtime_make_current(self->before);
  expect_ok(ls_runtime_destroy(self->runtime));
}

size_t count_logged(const logged_runtime *self, const char *text) {
  size_t count = 0;
  for (const char *at = self->text; (at = strstr(at, text)) != NULL; ++at)
    ++count;
  return count;
}
