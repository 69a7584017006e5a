// SPDX-License-Identifier: Apache-2.0
//
// Iterators in graphs: an op reads the next element and returns the values of
// all replicas. Each of several concurrent runs gets an element.
#include <string.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "data/composite.h"
#include "distribute/input/input.h"
#include "graph/context.h"
#include "lockstep/host.h"
#include "lockstep/ops.h"

// ---- State ------------------------------------------------------------------
typedef struct reading {
  ls_object object;
  ls_allocator *allocator;
  ls_distributed_iterator *iterator;
  // True if the last output tells whether there is an element.
  bool is_optional;
  ls_mutex lock;  // Guards `used`; held briefly.
  ls_nest used;   // An element whose memory may be used again, or none.
} reading;

static void destroy_reading(ls_object *object) {
  reading *self = (reading *)object;
  ls_nest_release(self->used);
  ls_mutex_deinit(&self->lock);
  ls_distributed_iterator_release(self->iterator);
  ls_release(self->allocator, self);
}
LS_OWNED_POINTER(reading, ls_object_release)

static const ls_object_type reading_type = {.name = "reading of an iterator",
                                            .destroy = destroy_reading};

static size_t count_values(const reading *self) {
  const ls_distributed_dataset *data = self->iterator->data;
  return data->num_replicas * data->num_leaves;
}

// Infers the types of the values, replica by replica, each with all leaves.
static ls_status infer_values(const ls_object *state, const ls_type *in,
                              size_t num_in, ls_type *out, size_t *num_out) {
  const reading *self = (const reading *)state;
  const ls_distributed_dataset *data = self->iterator->data;
  const size_t room = *num_out, count = count_values(self);
  (void)in, (void)num_in;
  *num_out = count + self->is_optional;
  if (*num_out > room) return ls_ok();
  for (size_t i = 0; i < count; ++i)
    out[i] = ls_input_type_of(data, i % data->num_leaves, i / data->num_leaves);
  if (self->is_optional) out[count] = (ls_type){LS_DTYPE_BOOL, LS_SCALAR};
  return ls_ok();
}

// ---- Call -------------------------------------------------------------------
// Indices in the call's room: of the element, and of the mark that it exists.
enum { HAS_ELEMENT = 3 };
_Static_assert(sizeof(ls_nest) <= HAS_ELEMENT * sizeof(void *),
               "an element fits a call's room");

static ls_nest *element_of(ls_host_call *call) {
  return (ls_nest *)(void *)&call->room[0];
}

// Makes zeros and empty strings as values, of size 0 in dimensions that are not
// known.
static ls_status fill_zeros(ls_distributed_iterator *iterator) {
  const ls_distributed_dataset *data = iterator->data;
  for (size_t l = 0; l < data->num_leaves; ++l)
    for (size_t r = 0; r < data->num_replicas; ++r) {
      ls_nest *part = &iterator->parts[l * data->num_replicas + r];
      ls_leaf_spec spec = data->leaves[l];
      spec.type = ls_input_type_of(data, l, r);
      if (!ls_shape_is_known(spec.type.shape))
        spec.type = ls_input_empty_type(data, l);
      LS_RETURN_IF_ERROR(
          spec.kind == LS_LEAF_DENSE
              ? ls_take_nest(ls_nest_zeros(spec.type.dtype, spec.type.shape),
                             part)
              : ls_composite_empty(&spec, part));
    }
  return ls_ok();
}

// Makes zeros instead of an element.
static ls_status make_zeros(ls_distributed_iterator *iterator,
                            ls_nest *element) {
  ls_status status = fill_zeros(iterator);
  if (ls_status_is_ok(status)) status = ls_input_pack(iterator, element);
  ls_input_release_parts(iterator);
  return status;
}

// Reads an element, or zeros at the end. Requires the iterator's lock.
static ls_status read_next(reading *self, ls_host_call *call,
                           ls_nest *element) {
  ls_distributed_iterator *iterator = self->iterator;
  bool has_element = true;
  LS_RETURN_IF_ERROR(self->is_optional
                         ? ls_input_try_advance(iterator, element, &has_element)
                         : ls_input_advance(iterator, element));
  memcpy(&call->room[HAS_ELEMENT], &has_element, sizeof(has_element));
  return has_element ? ls_ok() : make_zeros(iterator, element);
}

static ls_status start_reading(ls_host_call *call) {
  ls_runtime *before = ls_runtime_make_current(call->runtime);
  reading *self = (reading *)call->state;
  ls_mutex_lock(&self->lock);
  ls_nest element = ls_give(&self->used);
  ls_mutex_unlock(&self->lock);
  ls_mutex_lock(&self->iterator->lock);
  const ls_status status = read_next(self, call, &element);
  ls_mutex_unlock(&self->iterator->lock);
  ls_runtime_make_current(before);
  if (ls_status_is_ok(status))
    *element_of(call) = element;
  else
    ls_nest_release(element);
  LS_RETURN_IF_ERROR(status);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static ls_status give_value(const reading *self, ls_host_call *call,
                            const ls_nest *leaves, size_t output) {
  const ls_distributed_dataset *data = self->iterator->data;
  const size_t leaf = output % data->num_leaves;
  const size_t replica = output / data->num_leaves;
  const ls_type *type = &call->output_types[output];
  const ls_nest value = leaves[leaf];
  const ls_array *array =
      ls_nest_as_array(ls_distributed_component(value, replica));
  char path[200];
  if (array == NULL || ls_array_dtype(array) != type->dtype ||
      !ls_shape_equal(ls_array_shape(array), type->shape))
    return ls_invalid_argument(
        "leaf %s of an element of iterator '%s' is %s for replica %zu, not %s "
        "as declared",
        ls_input_leaf_path(data->structure, leaf, path, sizeof(path)),
        self->iterator->name,
        array == NULL
            ? "no array"
            : LS_SHAPE_TEXT(ls_array_dtype(array), ls_array_shape(array)),
        replica, LS_SHAPE_TEXT(type->dtype, type->shape));
  return ls_host_give(call, output, ls_array_data(array));
}

// Passes the values to the run, which may read them in place.
static ls_status take_values(ls_host_call *call) {
  const reading *self = (const reading *)call->state;
  const size_t count = count_values(self);
  if (call->outputs == NULL) return ls_ok();
  LS_OWN_MEMORY(self->allocator, ls_nest, leaves) = NULL;
  LS_RETURN_IF_ERROR(
      ls_input_leaves(self->iterator, *element_of(call), &leaves));
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(give_value(self, call, leaves, i));
  return self->is_optional ? ls_host_give(call, count, &call->room[HAS_ELEMENT])
                           : ls_ok();
}

static void drop_values(ls_host_call *call) {
  reading *self = (reading *)call->state;
  ls_nest element = ls_give(element_of(call));
  ls_mutex_lock(&self->lock);
  if (self->used.kind == LS_KIND_NONE) self->used = ls_give(&element);
  ls_mutex_unlock(&self->lock);
  ls_nest_release(element);
}

static const ls_host_kernel reading_kernel = {.name = "distributed_get_next",
                                              .infer = infer_values,
                                              .start = start_reading,
                                              .flags =
                                                  LS_HOST_ENDS | LS_HOST_GIVES,
                                              .take = take_values,
                                              .end = drop_values};

// ---- Build ------------------------------------------------------------------
static ls_status
input_ops_check_types(const ls_distributed_iterator *iterator) {
  const ls_distributed_dataset *data = iterator->data;
  char path[200];
  for (size_t l = 0; l < data->num_leaves; ++l) {
    ls_input_leaf_path(data->structure, l, path, sizeof(path));
    if (data->leaves[l].kind != LS_LEAF_DENSE)
      return ls_unimplemented(
          "leaf %s of iterator '%s' is not dense: it has no tensor", path,
          iterator->name);
    for (size_t r = 0; r < data->num_replicas; ++r) {
      const ls_type type = ls_input_type_of(data, l, r);
      if (!ls_shape_is_known(type.shape))
        return ls_invalid_argument(
            "leaf %s of iterator '%s' is %s for replica %zu: an op needs a "
            "shape that is known; drop the last batch if it is not full",
            path, iterator->name, LS_SHAPE_TEXT(type.dtype, type.shape), r);
    }
  }
  return ls_ok();
}

// Warns if a loop of the user's reads while a graph is built, because each read
// makes an op.
static void warn_of_many(ls_distributed_iterator *iterator) {
  enum { MOST = 32 };
  if (++iterator->num_ops <= MOST) return;
  ls_runtime_log(
      iterator->data->runtime, LS_LOG_WARNING, "distribute",
      "get_next of iterator '%s' was called %d times while a graph was built: "
      "each call adds an op; call it once, and run its results repeatedly",
      iterator->name, iterator->num_ops);
}

// Checks that no value belongs to another rank: it could not become a tensor
// here.
static ls_status check_own(const ls_distributed_iterator *iterator) {
  const ls_distributed_dataset *data = iterator->data;
  if (data->end_own - data->first_own == data->num_replicas) return ls_ok();
  return ls_failed_precondition(
      "an op that reads iterator '%s', which has only the values of replicas "
      "%zu to %zu of %zu, as other ranks have the others: read it outside of "
      "graphs, and pass its values as arguments of run; or distribute the data "
      "set while a graph is built",
      iterator->name, data->first_own, data->end_own, data->num_replicas);
}

// Adds the op, and returns the replicas' values on the replicas' devices.
static ls_status add_reading(ls_distributed_iterator *iterator,
                             bool is_optional, ls_op *out_op) {
  const ls_distributed_dataset *data = iterator->data;
  LS_OWN(reading, self) = ls_new(iterator->allocator, reading);
  LS_RETURN_IF_NO_MEMORY(self);
  ls_object_init(&self->object, &reading_type);
  self->allocator = iterator->allocator;
  self->iterator = ls_distributed_iterator_retain(iterator);
  self->is_optional = is_optional;
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  *out_op = ls_host_call_add(&reading_kernel, &self->object, NULL, 0);
  if (ls_op_is_failed(*out_op)) return ls_graph_error(ls_graph_current());
  for (size_t i = 0; i < count_values(self); ++i) {
    const size_t leaf = i % data->num_leaves, replica = i / data->num_leaves;
    LS_DEVICE_SCOPE(data->places == NULL ? NULL : data->places[replica]);
    iterator->parts[leaf * data->num_replicas + replica] =
        ls_leaf(ls_identity(ls_op_output(*out_op, (unsigned)i)));
  }
  return ls_graph_error(ls_graph_current());
}

static ls_status input_ops_build(ls_distributed_iterator *iterator,
                                 bool is_optional, ls_nest *out_element) {
  const ls_distributed_dataset *data = iterator->data;
  const size_t count = data->num_leaves * data->num_replicas;
  ls_op op = {0};
  ls_nest element = ls_none();
  LS_RETURN_IF_ERROR(check_own(iterator));
  LS_RETURN_IF_ERROR(input_ops_check_types(iterator));
  warn_of_many(iterator);
  ls_status status = add_reading(iterator, is_optional, &op);
  if (ls_status_is_ok(status)) status = ls_input_pack(iterator, &element);
  ls_input_release_parts(iterator);
  LS_RETURN_IF_ERROR(status);
  if (is_optional)
    element = LS_TUPLE(ls_leaf(ls_op_output(op, (unsigned)count)), element);
  return ls_take_nest(element, out_element);
}

// Reads in eager mode; returns a tuple (has_value, element).
static ls_nest advance_eagerly(ls_distributed_iterator *iterator) {
  bool has_value = false;
  ls_nest element = ls_none();
  ls_status status = ls_input_try_advance(iterator, &element, &has_value);
  if (ls_status_is_ok(status) && !has_value)
    status = make_zeros(iterator, &element);
  return ls_status_is_ok(status) ? LS_TUPLE(ls_nest_bool(has_value), element)
                                 : ls_fail(status);
}

static ls_nest get_next(ls_distributed_iterator *iterator, bool is_optional,
                        const char *what) {
  ls_graph *graph = NULL;
  ls_nest element = ls_none();
  if (iterator == NULL) return ls_fail(ls_null_argument(what, "iterator"));
  LS_RETURN_FAILED_IF_ERROR(ls_graph_find_current(&graph));
  const bool is_eager = graph->kind == LS_GRAPH_EAGER;
  ls_status status = ls_input_check_place(iterator, what);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (is_eager && is_optional) return advance_eagerly(iterator);
  status = is_eager ? ls_input_advance(iterator, &element)
                    : input_ops_build(iterator, is_optional, &element);
  return ls_status_is_ok(status) ? element : ls_fail(status);
}

ls_nest ls_distributed_iterator_get_next(ls_distributed_iterator *iterator) {
  return get_next(iterator, false, "get_next");
}

ls_nest ls_distributed_iterator_get_next_as_optional(
    ls_distributed_iterator *iterator) {
  return get_next(iterator, true, "get_next_as_optional");
}
