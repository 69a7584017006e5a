// SPDX-License-Identifier: Apache-2.0
//
// Arrays as variables on a strategy's host, and data sets of their rows. An
// array is copied slice by slice, so that no program holds more than a slice.
#include <string.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "data/own.h"
#include "distribute/base/strategy.h"
#include "distribute/input/feed.h"
#include "distribute/input/input.h"
#include "graph/graph.h"
#include "graph/own.h"
#include "lockstep/eager.h"

enum { SLICE_BYTES = 64 << 20 };

typedef struct filling {
  const ls_array_dataset_options *options;
  ls_device_name host;
} filling;

// ---- Checks -----------------------------------------------------------------
static ls_status array_dataset_check_leaf(ls_nest arrays, size_t index,
                                          ls_nest leaf) {
  char path[200];
  const ls_array *array = ls_nest_as_array(leaf);
  ls_input_leaf_path(arrays, index, path, sizeof(path));
  if (array == NULL)
    return ls_invalid_argument("leaf %s of an array data set is no array: %s",
                               path, LS_NEST_TEXT(leaf));
  if (ls_array_shape(array).rank < 1)
    return ls_invalid_argument(
        "leaf %s of an array data set is a scalar: it has no rows", path);
  return ls_ok();
}

// ---- One array --------------------------------------------------------------
static int64_t rows_of_slice(const filling *f, const ls_array *array) {
  const int64_t rows = ls_array_shape(array).dim[0];
  const int64_t bytes =
      f->options->slice_bytes > 0 ? f->options->slice_bytes : SLICE_BYTES;
  return ls_slice_rows(bytes,
                       rows == 0 ? 0 : (int64_t)ls_array_size(array) / rows);
}

// The rows of a slice, and their indices.
typedef struct slice {
  ls_nest rows;
  ls_array *numbers;
} slice;

static ls_status take_slice(ls_array *array, int64_t first, int64_t count,
                            slice *out) {
  LS_RETURN_IF_ERROR(
      ls_array_create(LS_DTYPE_I64, LS_SHAPE(count), &out->numbers));
  int64_t *numbers = ls_array_mutable_data(out->numbers);
  for (int64_t i = 0; i < count; ++i)
    numbers[i] = first + i;
  return ls_array_rows(array, first, count, &out->rows);
}

static void drop_slice(slice *s) {
  ls_array_release(s->numbers);
  ls_nest_release(s->rows);
}

LS_OWNED_STRUCT(slice, drop_slice)

static ls_status write_eagerly(ls_variable *variable, const slice *s) {
  LS_RETURN_IF_ERROR(ls_frame_begin());
  const ls_tensor rows = ls_constant(ls_nest_as_array(s->rows));
  const ls_status status = ls_tensor_status(
      ls_variable_scatter_update(variable, ls_constant(s->numbers), rows));
  return ls_status_join(status, ls_frame_end(NULL));
}

// The op that writes a slice, and its placeholders.
typedef struct writing {
  ls_op op;
  ls_tensor rows, numbers;
} writing;

static ls_status build_writing(ls_variable *variable, const ls_array *array,
                               writing *out) {
  ls_shape shape = ls_array_shape(array);
  shape.dim[0] = LS_UNKNOWN_DIM;
  out->rows = ls_placeholder(ls_array_dtype(array), shape, NULL);
  out->numbers = ls_placeholder(LS_DTYPE_I64, LS_SHAPE(-1), NULL);
  out->op = ls_tensor_op(
      ls_variable_scatter_update(variable, out->numbers, out->rows));
  return ls_op_is_failed(out->op) ? ls_graph_error(ls_graph_current())
                                  : ls_ok();
}

static ls_status write_in_session(ls_session *session, const writing *w,
                                  const slice *s) {
  LS_OWN(ls_nest, results) = ls_none();
  const ls_feed feeds[] = {{w->rows, ls_nest_as_array(s->rows)},
                           {w->numbers, s->numbers}};
  return ls_session_run(session, ls_nest_op(w->op), feeds, 2, &results);
}

static ls_status array_dataset_initialize(ls_session *session,
                                          const ls_variable *variable) {
  LS_OWN(ls_nest, results) = ls_none();
  return ls_session_run(session, ls_nest_op(variable->initializer), NULL, 0,
                        &results);
}

static ls_status array_dataset_fill(const filling *f, ls_variable *variable,
                                    ls_array *array) {
  writing w = {0};
  ls_session *session = f->options->session;
  const int64_t rows = ls_array_shape(array).dim[0];
  const int64_t most = rows_of_slice(f, array);
  if (session != NULL) {
    LS_RETURN_IF_ERROR(array_dataset_initialize(session, variable));
    LS_RETURN_IF_ERROR(build_writing(variable, array, &w));
  }
  for (int64_t first = 0; first < rows; first += most) {
    LS_OWN(slice, s) = {.rows = ls_none()};
    LS_RETURN_IF_ERROR(take_slice(
        array, first, rows - first < most ? rows - first : most, &s));
    LS_RETURN_IF_ERROR(session != NULL ? write_in_session(session, &w, &s)
                                       : write_eagerly(variable, &s));
  }
  return ls_ok();
}

static ls_status make_variable(const filling *f, ls_array *array,
                               ls_nest *out_variable) {
  const char *const none[] = {NULL};
  LS_OWN(ls_variable, variable) = NULL;
  LS_RETURN_IF_ERROR(
      ls_variable_create(&(ls_variable_options){.name = "array_dataset",
                                                .dtype = ls_array_dtype(array),
                                                .shape = ls_array_shape(array),
                                                .trainable = LS_FLAG_OFF,
                                                .single_device = f->host.text,
                                                .collections = none},
                         &variable));
  LS_RETURN_IF_ERROR(array_dataset_fill(f, variable, array));
  *out_variable = ls_nest_variable(variable);
  return ls_ok();
}

// ---- All arrays -------------------------------------------------------------
static ls_nest variable_of_array(ls_nest leaf, void *user) {
  ls_nest variable = ls_none();
  return ls_made_nest(make_variable(user, ls_nest_as_array(leaf), &variable),
                      &variable);
}

static ls_nest value_of_variable(ls_nest leaf, void *user) {
  const filling *f = user;
  ls_array *value = NULL;
  ls_variable *variable = ls_nest_as_variable(leaf);
  LS_RETURN_FAILED_IF_ERROR(
      f->options->session != NULL
          ? ls_session_variable_value(f->options->session, variable, &value)
          : ls_variable_value(variable, &value));
  return ls_nest_array(value);
}

static ls_status array_dataset_check(ls_allocator *allocator, ls_nest arrays) {
  const size_t count = ls_nest_num_leaves(arrays);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count + 1);
  ls_nest_flatten(arrays, leaves, count);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(array_dataset_check_leaf(arrays, i, leaves[i]));
  return ls_ok();
}

static ls_status array_dataset_make(filling *f, ls_strategy *strategy,
                                    ls_nest arrays, ls_nest *out_variables,
                                    ls_dataset **out_dataset) {
  LS_RETURN_IF_ERROR(array_dataset_check(strategy->allocator, arrays));
  LS_STRATEGY_SCOPE(strategy);
  LS_DEVICE_SCOPE(f->host.text);
  LS_OWN(ls_nest, variables) = ls_nest_map(arrays, variable_of_array, f);
  LS_RETURN_IF_ERROR(ls_nest_status(variables));
  LS_OWN(ls_dataset, dataset) =
      ls_dataset_from_arrays(ls_nest_map(variables, value_of_variable, f));
  LS_RETURN_IF_ERROR(ls_dataset_status(dataset));
  if (out_variables != NULL) *out_variables = ls_give(&variables);
  return ls_hand_over(&dataset, out_dataset);
}

ls_status ls_strategy_array_dataset(ls_strategy *strategy, ls_nest arrays,
                                    const ls_array_dataset_options *options,
                                    ls_nest *out_variables,
                                    ls_dataset **out_dataset) {
  LS_CLEAR_OUT(out_variables);
  LS_REQUIRE_OUT(out_dataset, strategy);
  const ls_array_dataset_options defaults = {0};
  filling f = {.options = options != NULL ? options : &defaults};
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(ls_graph_find_current(&graph));
  LS_RETURN_IF_ERROR(ls_nest_status(arrays));
  if (ls_nest_num_leaves(arrays) == 0)
    return ls_invalid_argument("an array data set of no arrays");
  if (graph->kind != LS_GRAPH_EAGER && f.options->session == NULL)
    return ls_invalid_argument(
        "an array data set while graph '%s' is built needs a session, which "
        "has its variables' values",
        graph->name);
  if (graph->kind == LS_GRAPH_EAGER && f.options->session != NULL)
    return ls_invalid_argument(
        "an array data set with a session in eager mode, where variables have "
        "values of their own");
  LS_RETURN_IF_ERROR(ls_device_host(ls_strategy_device(strategy, 0), &f.host));
  return array_dataset_make(&f, strategy, arrays, out_variables, out_dataset);
}
