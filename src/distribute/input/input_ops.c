// SPDX-License-Identifier: Apache-2.0
//
// Iterators in graphs: one op reads the next element, and one a replica gives
// its value.
//
// What was read lies in a reading, which all ops of one get_next share. Each
// element has a token there, which goes from op to op: so they run one behind
// the other, and an op does not give the element of another run. Those of a few
// runs at the same time are there side by side.
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "distribute/base/strategy.h"
#include "distribute/input/input.h"
#include "graph/graph.h"
#include "lockstep/host.h"

// ---- What is read -----------------------------------------------------------
typedef struct slot {
  ls_nest element;  // None: the end.
  int64_t token;    // 0: of no run.
  size_t given;     // Values; all of them: it may be overwritten.
} slot;

// Runs may leave out values, so that their elements stay until there is no
// other slot.
enum { SLOTS = 4 };
typedef struct reading {
  ls_object object;
  ls_allocator *allocator;
  ls_distributed_iterator *iterator;
  bool is_optional;
  ls_mutex lock;  // Guards what follows.
  slot slots[SLOTS];
  int64_t last_token;
} reading;

typedef struct value {
  ls_object object;
  ls_allocator *allocator;
  reading *of;
  size_t replica;
} value;

static void destroy_reading(ls_object *object) {
  reading *self = (reading *)object;
  for (size_t i = 0; i < SLOTS; ++i)
    ls_nest_release(self->slots[i].element);
  ls_mutex_deinit(&self->lock);
  ls_distributed_iterator_release(self->iterator);
  ls_release(self->allocator, self);
}

static void destroy_value(ls_object *object) {
  value *self = (value *)object;
  ls_object_release(self->of);
  ls_release(self->allocator, self);
}

LS_OWNED_POINTER(reading, ls_object_release)
LS_OWNED_POINTER(value, ls_object_release)

static const ls_object_type reading_type = {.name = "reading of an iterator",
                                            .destroy = destroy_reading};
static const ls_object_type value_type = {.name = "value of an iterator",
                                          .destroy = destroy_value};

static ls_status make_reading(ls_distributed_iterator *iterator,
                              bool is_optional, reading **out_reading) {
  LS_NEW_OR_RETURN(iterator->allocator, reading, self);
  *out_reading = self;
  ls_object_init(&self->object, &reading_type);
  self->allocator = iterator->allocator;
  self->iterator = ls_distributed_iterator_retain(iterator);
  self->is_optional = is_optional;
  return ls_mutex_init(&self->lock);
}

// ---- The op that reads ------------------------------------------------------
static ls_status infer_read(const ls_object *state, const ls_type *in,
                            size_t num_in, ls_type *out, size_t *num_out) {
  (void)in;
  (void)num_in;
  *num_out = ((const reading *)state)->is_optional ? 2 : 1;
  out[0] = (ls_type){LS_DTYPE_I64, LS_SCALAR};
  out[1] = (ls_type){LS_DTYPE_BOOL, LS_SCALAR};
  return ls_ok();
}

// Finds a slot that nobody needs any more, or NULL; `oldest`: else the oldest.
// The lock is held.
static slot *find_slot(reading *self, bool oldest) {
  slot *found = &self->slots[0];
  for (size_t i = 0; i < SLOTS; ++i) {
    slot *candidate = &self->slots[i];
    if (candidate->token == 0 ||
        candidate->given >= self->iterator->data->num_replicas)
      return candidate;
    if (candidate->token < found->token) found = candidate;
  }
  return oldest ? found : NULL;
}

// Takes an element that may be overwritten, or none.
static ls_nest take_used(reading *self) {
  ls_nest element = ls_none();
  ls_mutex_lock(&self->lock);
  slot *used = find_slot(self, false);
  if (used != NULL) {
    element = used->element;
    *used = (slot){0};
  }
  ls_mutex_unlock(&self->lock);
  return element;
}

static int64_t put_element(reading *self, ls_nest element) {
  ls_mutex_lock(&self->lock);
  slot *target = find_slot(self, true);
  ls_nest_release(target->element);
  *target = (slot){.element = element, .token = ++self->last_token};
  const int64_t token = target->token;
  ls_mutex_unlock(&self->lock);
  return token;
}

// While one run waits for data others still get their values.
static ls_status read_next(reading *self, int64_t *token, bool *out_has) {
  ls_mutex_lock(&self->iterator->lock);
  ls_nest element = take_used(self);
  ls_status status = ls_input_advance(self->iterator, &element);
  *out_has = ls_status_is_ok(status);
  if (!*out_has) {
    ls_nest_release(element);
    element = ls_none();
  }
  if (self->is_optional && ls_status_code(status) == LS_OUT_OF_RANGE) {
    ls_status_free(status);
    status = ls_ok();
  }
  if (ls_status_is_ok(status)) *token = put_element(self, element);
  ls_mutex_unlock(&self->iterator->lock);
  return status;
}

static ls_status start_read(ls_host_call *call) {
  int64_t token = 0;
  bool has = false;
  ls_runtime *before = ls_runtime_make_current(call->runtime);
  reading *self = (reading *)call->state;
  const ls_status status = read_next(self, &token, &has);
  ls_runtime_make_current(before);
  LS_RETURN_IF_ERROR(status);
  memcpy(call->outputs[0], &token, sizeof(token));
  if (self->is_optional) memcpy(call->outputs[1], &has, sizeof(has));
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel read_kernel = {.name = "distributed_get_next",
                                           .infer = infer_read,
                                           .start = start_read,
                                           .flags = LS_HOST_ENDS};

// ---- The ops that give ------------------------------------------------------
static ls_status infer_value(const ls_object *state, const ls_type *in,
                             size_t num_in, ls_type *out, size_t *num_out) {
  const value *self = (const value *)state;
  const ls_distributed_dataset *data = self->of->iterator->data;
  const size_t room = *num_out;
  (void)in;
  (void)num_in;
  *num_out = data->num_leaves;
  if (data->num_leaves > room) return ls_ok();
  for (size_t l = 0; l < data->num_leaves; ++l)
    out[l] = ls_input_type_of(data, l, self->replica);
  return ls_ok();
}

static ls_status input_ops_give_leaf(const value *self, ls_host_call *call,
                                     size_t leaf, ls_nest from) {
  const ls_type *type = &call->output_types[leaf];
  if (from.kind == LS_KIND_DISTRIBUTED)
    from = ls_distributed_component(from, self->replica);
  const ls_array *array = ls_nest_as_array(from);
  char path[200];
  const ls_distributed_dataset *data = self->of->iterator->data;
  if (array == NULL || ls_array_dtype(array) != type->dtype ||
      !ls_shape_equal(ls_array_shape(array), type->shape))
    return ls_invalid_argument(
        "leaf %s of an element of iterator '%s' is %s for replica %zu, not %s "
        "as was said",
        ls_input_leaf_path(data->structure, leaf, path, sizeof(path)),
        self->of->iterator->name,
        array == NULL
            ? "no array"
            : LS_SHAPE_TEXT(ls_array_dtype(array), ls_array_shape(array)),
        self->replica, LS_SHAPE_TEXT(type->dtype, type->shape));
  memcpy(call->outputs[leaf], ls_array_data(array), ls_array_size(array));
  return ls_ok();
}

static ls_status give_leaves(const value *self, ls_host_call *call) {
  reading *of = self->of;
  int64_t token = 0;
  memcpy(&token, call->inputs[0], sizeof(token));
  slot *at = NULL;
  for (size_t i = 0; i < SLOTS; ++i)
    if (of->slots[i].token == token) at = &of->slots[i];
  if (at == NULL)
    return ls_failed_precondition(
        "iterator '%s' was read by too many runs at the same time: %d may",
        of->iterator->name, SLOTS);
  ++at->given;
  // Without a value outputs are zeros, and strings are empty.
  if (at->element.kind == LS_KIND_NONE) {
    for (size_t l = 0; l < call->num_outputs; ++l) {
      const ls_type *type = &call->output_types[l];
      memset(call->outputs[l], 0,
             (size_t)ls_shape_num_elements(type->shape) *
                 ls_dtype_size(type->dtype));
    }
    return ls_ok();
  }
  LS_OWN_MEMORY(of->iterator->allocator, ls_nest, leaves) = NULL;
  LS_RETURN_IF_ERROR(ls_input_leaves(of->iterator, at->element, &leaves));
  for (size_t l = 0; l < call->num_outputs; ++l)
    LS_RETURN_IF_ERROR(input_ops_give_leaf(self, call, l, leaves[l]));
  return ls_ok();
}

static ls_status start_value(ls_host_call *call) {
  const value *self = (const value *)call->state;
  ls_mutex_lock(&self->of->lock);
  const ls_status status = give_leaves(self, call);
  // Bytes of strings are copied here.
  if (ls_status_is_ok(status)) ls_host_done(call, ls_ok());
  ls_mutex_unlock(&self->of->lock);
  return status;
}

static const ls_host_kernel value_kernel = {.name = "distributed_value",
                                            .infer = infer_value,
                                            .start = start_value,
                                            .flags = LS_HOST_MAY_BE_DROPPED |
                                                     LS_HOST_INLINE};

// ---- Building ---------------------------------------------------------------
static ls_status
input_ops_check_types(const ls_distributed_iterator *iterator) {
  const ls_distributed_dataset *data = iterator->data;
  char path[200];
  for (size_t l = 0; l < data->num_leaves; ++l) {
    ls_input_leaf_path(data->structure, l, path, sizeof(path));
    if (data->leaves[l].kind != LS_LEAF_DENSE)
      return ls_unimplemented(
          "leaf %s of iterator '%s' is not dense: it has no "
          "tensor",
          path, iterator->name);
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

// Who reads in a loop while a graph is built gets an op each time.
static void warn_of_many(ls_distributed_iterator *iterator) {
  enum { MOST = 32 };
  if (++iterator->num_ops <= MOST) return;
  char key[100];
  snprintf(key, sizeof(key), "get_next %p %d", (const void *)iterator,
           iterator->num_ops);
  ls_log_limited(iterator->data->runtime, key, 1, LS_LOG_WARNING, "distribute",
                 "get_next of iterator '%s' is called for the %d. time while a "
                 "graph is built: each call is another op; call it once, and "
                 "run what it gives again and again",
                 iterator->name, iterator->num_ops);
}

static ls_status add_value(reading *source, ls_tensor token, size_t replica) {
  ls_distributed_iterator *iterator = source->iterator;
  const ls_distributed_dataset *data = iterator->data;
  LS_OWN(value, state) = ls_new(iterator->allocator, value);
  LS_RETURN_IF_NO_MEMORY(state);
  ls_object_init(&state->object, &value_type);
  state->allocator = iterator->allocator;
  state->of = ls_object_retain(source);
  state->replica = replica;
  LS_DEVICE_SCOPE(data->places == NULL ? NULL : data->places[replica]);
  const ls_op op = ls_host_call_add(&value_kernel, &state->object, &token, 1);
  if (ls_op_is_failed(op)) return ls_graph_error(ls_graph_current());
  for (size_t l = 0; l < data->num_leaves; ++l)
    iterator->parts[l * data->num_replicas + replica] =
        ls_leaf(ls_op_output(op, (unsigned)l));
  return ls_ok();
}

// Checks that no value is another rank's, which is no tensor here.
static ls_status check_own(const ls_distributed_iterator *iterator) {
  const ls_distributed_dataset *data = iterator->data;
  if (data->end_own - data->first_own == data->num_replicas) return ls_ok();
  return ls_failed_precondition(
      "an op that reads iterator '%s', which has values of replicas %zu to %zu "
      "of %zu alone, as other ranks have the others: read it outside of "
      "graphs, "
      "and give its values as arguments of run; or distribute the data set "
      "while a graph is built",
      iterator->name, data->first_own, data->end_own, data->num_replicas);
}

static ls_status add_values(ls_distributed_iterator *iterator, reading *source,
                            ls_tensor token, ls_nest *out_element) {
  for (size_t r = 0; r < iterator->data->num_replicas; ++r)
    LS_RETURN_IF_ERROR(add_value(source, token, r));
  return ls_input_pack(iterator, out_element);
}

static ls_status input_ops_build(ls_distributed_iterator *iterator,
                                 bool is_optional, ls_nest *out_element) {
  LS_OWN(reading, source) = NULL;
  ls_nest element = ls_none();
  LS_RETURN_IF_ERROR(check_own(iterator));
  LS_RETURN_IF_ERROR(input_ops_check_types(iterator));
  LS_RETURN_IF_ERROR(make_reading(iterator, is_optional, &source));
  warn_of_many(iterator);
  const ls_op op = ls_host_call_add(&read_kernel, &source->object, NULL, 0);
  if (ls_op_is_failed(op)) return ls_graph_error(ls_graph_current());
  const ls_status status =
      add_values(iterator, source, ls_op_output(op, 0), &element);
  ls_input_release_parts(iterator);
  LS_RETURN_IF_ERROR(status);
  if (is_optional) element = LS_TUPLE(ls_leaf(ls_op_output(op, 1)), element);
  return ls_take_nest(element, out_element);
}

static ls_nest get_next(ls_distributed_iterator *iterator, bool is_optional,
                        const char *what) {
  const ls_graph *graph = ls_graph_current();
  ls_nest element = ls_none();
  if (iterator == NULL) return ls_fail(ls_null_argument(what, "iterator"));
  if (graph == NULL) return ls_fail(ls_out_of_memory());
  ls_status status = ls_input_check_place(iterator, what);
  if (ls_status_is_ok(status) && graph->kind != LS_GRAPH_EAGER)
    status = input_ops_build(iterator, is_optional, &element);
  else if (ls_status_is_ok(status))
    status = ls_input_advance(iterator, &element);
  if (graph->kind == LS_GRAPH_EAGER && is_optional) {
    const bool has = ls_status_is_ok(status);
    if (ls_status_code(status) == LS_OUT_OF_RANGE) {
      ls_status_free(status);
      status = ls_ok();
    }
    if (ls_status_is_ok(status)) return LS_TUPLE(ls_nest_bool(has), element);
  }
  return ls_status_is_ok(status) ? element : ls_fail(status);
}

ls_nest ls_distributed_iterator_get_next(ls_distributed_iterator *iterator) {
  return get_next(iterator, false, "get_next");
}

ls_nest ls_distributed_iterator_get_next_as_optional(
    ls_distributed_iterator *iterator) {
  return get_next(iterator, true, "get_next_as_optional");
}
