// SPDX-License-Identifier: Apache-2.0
// The op that gets an iterator's next element. With input threads it runs on
// the run's own thread: it takes an element made ahead, or registers and
// continues once there is one. Without input threads elements are made on a
// host thread, which may run user functions.
#include <string.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/nest_internal.h"
#include "data/iterator.h"

// ---- A call ----------------------------------------------------------------
// A call's room holds the element and, while the call waits, the next waiting
// call.
enum { NEXT_CALL = 3 };
_Static_assert(sizeof(ls_nest) <= NEXT_CALL * sizeof(void *),
               "an element fits a call's room");

static ls_nest *element_of(ls_host_call *call) {
  return (ls_nest *)(void *)&call->room[0];
}

// Returns the arrays of an element, in `room` if there are few.
enum { ROOM = 64 };
static const ls_nest *arrays_of(const ls_iterator *self, ls_host_call *call,
                                ls_nest room[ROOM]) {
  const size_t count = call->num_outputs;
  ls_nest *leaves = room;
  if (count > ROOM) leaves = ls_new_array(self->work.allocator, ls_nest, count);
  if (leaves != NULL) ls_nest_flatten(*element_of(call), leaves, count);
  return leaves;
}

static void drop_arrays(const ls_iterator *self, const ls_nest *leaves,
                        const ls_nest *room) {
  if (leaves != room) ls_release(self->work.allocator, leaves);
}

// Checks that the element has the types the op declared.
static ls_status get_next_check_sizes(const ls_iterator *self,
                                      ls_host_call *call) {
  ls_nest room[ROOM];
  const ls_nest *leaves = arrays_of(self, call, room);
  ls_status status = leaves == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t i = 0; i < call->num_outputs && ls_status_is_ok(status); ++i) {
    const ls_array *array = ls_nest_as_array(leaves[i]);
    const ls_type *type = &call->output_types[i];
    if (array == NULL || !ls_shape_equal(ls_array_shape(array), type->shape))
      status = ls_invalid_argument("leaf %zu of an element of '%s' is not %s",
                                   i, self->work.name,
                                   LS_SHAPE_TEXT(type->dtype, type->shape));
  }
  drop_arrays(self, leaves, room);
  return status;
}

// Makes the element that stands for another rank's.
static ls_status make_absent(const ls_iterator *self, ls_nest *element) {
  const ls_dataset *dataset = self->dataset;
  const size_t count = dataset->num_leaves;
  if (element->kind != LS_KIND_NONE) return ls_ok();
  LS_OWN_ARRAY_OR_RETURN(self->work.allocator, ls_nest, leaves, count + 1);
  for (size_t i = 0; i < count; ++i) {
    const ls_type *type = &dataset->leaves[i].type;
    LS_RETURN_IF_ERROR(
        ls_take_nest(ls_nest_zeros(type->dtype, type->shape), &leaves[i]));
    ls_array *array = ls_nest_as_array(leaves[i]);
    if (type->dtype == LS_DTYPE_BOOL)
      memset(ls_array_mutable_data(array), 1, ls_array_size(array));
  }
  return ls_take_nest(ls_nest_pack(dataset->structure, leaves, count), element);
}

// Reads the element for a call; the lock of calls is held.
static ls_status get_next_read_element(ls_iterator *self, ls_host_call *call) {
  *element_of(call) =
      self->num_returned > 0 ? self->returned[--self->num_returned] : ls_none();
  ls_status status = self->is_elsewhere
                         ? make_absent(self, element_of(call))
                         : ls_iterator_next(self, element_of(call));
  if (ls_status_is_ok(status)) status = get_next_check_sizes(self, call);
  if (!ls_status_is_ok(status)) {
    ls_nest_release(*element_of(call));
    *element_of(call) = ls_none();
  }
  return status;
}

// Gives the run the element's arrays without a copy.
static ls_status take_element(ls_host_call *call) {
  const ls_iterator *self = (const ls_iterator *)call->state;
  ls_nest room[ROOM];
  const ls_nest *leaves = arrays_of(self, call, room);
  ls_status status = leaves == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t i = 0; call->outputs != NULL && i < call->num_outputs &&
                     ls_status_is_ok(status);
       ++i)
    status = ls_host_give(call, i, ls_array_data(ls_nest_as_array(leaves[i])));
  drop_arrays(self, leaves, room);
  return status;
}

static void drop_element(ls_host_call *call) {
  ls_iterator *self = (ls_iterator *)call->state;
  ls_nest element = *element_of(call);
  *element_of(call) = ls_none();
  ls_mutex_lock(&self->calls_lock);
  if (self->num_returned < LS_RETURNED && element.kind != LS_KIND_NONE) {
    self->returned[self->num_returned++] = element;
    element = ls_none();
  }
  ls_mutex_unlock(&self->calls_lock);
  ls_nest_release(element);
}

static void get_next_tell(const ls_object *state, char *buffer, size_t size) {
  const ls_iterator *self = (const ls_iterator *)state;
  ls_work_tell((ls_work *)(uintptr_t)&self->work, buffer, size);
}

// ---- Waiting calls ---------------------------------------------------------
static void element_ready(void *user);

// Takes the first waiting call if its element is ready or no thread will ever
// make it; the lock of calls is held.
static ls_host_call *take_call(ls_iterator *self, bool *nobody_comes) {
  ls_host_call *call = self->first_call;
  if (call == NULL || self->wished) return NULL;
  ls_iterator_retain(self);
  self->wished = !ls_ahead_is_ready(self->ahead, element_ready, self);
  if (self->wished &&
      (ls_ahead_has_threads(self->ahead) || !ls_ahead_withdraw(self->ahead)))
    return NULL;
  *nobody_comes = self->wished;
  self->wished = false;
  ls_object_release(self);
  self->first_call = call->room[NEXT_CALL];
  if (self->first_call == NULL) self->last_call = NULL;
  return call;
}

// Stores the status of a call, instead of an element, until the call ends.
static void keep_status(ls_host_call *call, ls_status status) {
  if (!ls_status_is_ok(status)) *element_of(call) = ls_none();
  if (!ls_status_is_ok(status)) call->room[1] = status;
}

static ls_status kept_status(ls_host_call *call) {
  if (element_of(call)->kind != LS_KIND_NONE) return ls_ok();
  const ls_status status = (ls_status)call->room[1];
  call->room[1] = NULL;
  return status;
}

// Takes all calls that can end now, as a list, each with its element or status.
static ls_host_call *take_calls(ls_iterator *self) {
  ls_host_call *first = NULL, *last = NULL, *call = NULL;
  ls_mutex_lock(&self->calls_lock);
  for (;;) {
    bool nobody_comes = false;
    call = take_call(self, &nobody_comes);
    if (call == NULL) break;
    keep_status(call,
                nobody_comes
                    ? LS_STATUS(LS_RESOURCE_EXHAUSTED,
                                "no input thread could be started for '%s'",
                                self->work.name)
                    : get_next_read_element(self, call));
    call->room[NEXT_CALL] = NULL;
    if (last != NULL)
      last->room[NEXT_CALL] = call;
    else
      first = call;
    last = call;
  }
  ls_mutex_unlock(&self->calls_lock);
  return first;
}

// Does not touch the iterator: once its last run has ended and the user has
// released it, it may be gone.
static void end_calls(ls_host_call *call) {
  while (call != NULL) {
    ls_host_call *next = call->room[NEXT_CALL];
    ls_host_done(call, kept_status(call));
    call = next;
  }
}

static void element_ready(void *user) {
  ls_iterator *self = user;
  ls_mutex_lock(&self->calls_lock);
  self->wished = false;
  ls_mutex_unlock(&self->calls_lock);
  ls_host_call *calls = take_calls(self);
  ls_iterator_release(self);  // The reference of `ready`; calls hold their own.
  end_calls(calls);
}

// Ends the call at once.
static ls_status start_here(ls_host_call *call) {
  ls_iterator *self = (ls_iterator *)call->state;
  ls_mutex_lock(&self->calls_lock);
  const ls_status status = get_next_read_element(self, call);
  ls_mutex_unlock(&self->calls_lock);
  ls_host_done(call, status);
  return ls_ok();
}

static ls_status start_inline(ls_host_call *call) {
  ls_iterator *self = (ls_iterator *)call->state;
  if (self->is_elsewhere) return start_here(call);
  call->room[NEXT_CALL] = NULL;
  ls_mutex_lock(&self->calls_lock);
  const bool first = self->first_call == NULL;
  if (first)
    self->first_call = call;
  else
    self->last_call->room[NEXT_CALL] = call;
  self->last_call = call;
  ls_mutex_unlock(&self->calls_lock);
  if (first) end_calls(take_calls(self));
  return ls_ok();
}

// Removes a waiting call. Returns false if it does not wait any more.
static bool leave_line(ls_iterator *self, ls_host_call *call) {
  ls_host_call *before = NULL, *found = self->first_call;
  while (found != NULL && found != call) {
    before = found;
    found = found->room[NEXT_CALL];
  }
  if (found == NULL) return false;
  if (before == NULL)
    self->first_call = call->room[NEXT_CALL];
  else
    before->room[NEXT_CALL] = call->room[NEXT_CALL];
  if (self->last_call == call) self->last_call = before;
  return true;
}

static void cancel_call(ls_host_call *call) {
  ls_iterator *self = (ls_iterator *)call->state;
  ls_mutex_lock(&self->calls_lock);
  const bool left = leave_line(self, call);
  const bool withdrawn = left && self->first_call == NULL && self->wished &&
                         ls_ahead_withdraw(self->ahead);
  if (withdrawn) self->wished = false;
  ls_mutex_unlock(&self->calls_lock);
  if (withdrawn) ls_iterator_release(self);
  if (!left) return;
  ls_host_done(call,
               LS_STATUS(LS_CANCELLED, "the run left '%s'", self->work.name));
}

// ---- The op ----------------------------------------------------------------
static ls_status infer_element(const ls_object *state, const ls_type *in,
                               size_t num_in, ls_type *out, size_t *num_out) {
  (void)in, (void)num_in;
  const ls_dataset *dataset = ((const ls_iterator *)state)->dataset;
  const size_t room = *num_out;
  *num_out = dataset->num_leaves;
  for (size_t i = 0; i < dataset->num_leaves && dataset->num_leaves <= room;
       ++i)
    out[i] = dataset->leaves[i].type;
  return ls_ok();
}

static const ls_host_kernel inline_kernel = {
    .name = "iterator_get_next",
    .infer = infer_element,
    .start = start_inline,
    .flags = LS_HOST_INLINE | LS_HOST_WAITS | LS_HOST_ENDS | LS_HOST_GIVES,
    .take = take_element,
    .cancel = cancel_call,
    .end = drop_element,
    .tell = get_next_tell,
};
static const ls_host_kernel host_kernel = {
    .name = "iterator_get_next_on_host",
    .infer = infer_element,
    .start = start_here,
    .flags = LS_HOST_ENDS | LS_HOST_GIVES,
    .take = take_element,
    .end = drop_element,
    .tell = get_next_tell,
};

static ls_status get_next_check_static(const ls_dataset *dataset) {
  for (size_t i = 0; i < dataset->num_leaves; ++i) {
    const ls_leaf_spec *leaf = &dataset->leaves[i];
    if (leaf->kind == LS_LEAF_DENSE && ls_shape_is_known(leaf->type.shape))
      continue;
    return ls_invalid_argument(
        "get_next of a graph needs elements of known shapes; leaf %zu is %s: "
        "drop or pad a last batch that is not full",
        i, LS_SHAPE_TEXT(leaf->type.dtype, leaf->type.shape));
  }
  return ls_ok();
}

// Warns of a get-next op in a loop of the program that builds the graph: each
// iteration adds an op.
static void warn_of_many(ls_iterator *iterator) {
  enum { MOST = 32 };
  const ls_graph *graph = ls_graph_current();
  if (graph == NULL || ls_graph_is_eager(graph)) return;
  const int count = __atomic_add_fetch(&iterator->num_ops, 1, __ATOMIC_RELAXED);
  if (count <= MOST) return;
  ls_runtime_log(
      iterator->work.runtime, LS_LOG_WARNING, "data",
      "get_next of '%s' was called %d times while a graph was built: each call "
      "adds an op; call it once, and run its results repeatedly",
      iterator->work.name, count);
}

ls_nest ls_iterator_get_next(ls_iterator *iterator) {
  if (iterator == NULL)
    return ls_fail(ls_null_argument("ls_iterator_get_next", "iterator"));
  const ls_dataset *dataset = iterator->dataset;
  LS_RETURN_FAILED_IF_ERROR(get_next_check_static(dataset));
  warn_of_many(iterator);
  const bool alone = iterator->prefetch == 0;
  const ls_op op = ls_host_call_add(alone ? &host_kernel : &inline_kernel,
                                    &iterator->object, NULL, 0);
  LS_OWN_ARRAY(dataset->allocator, ls_nest, leaves, dataset->num_leaves);
  if (leaves == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < dataset->num_leaves; ++i)
    leaves[i] = ls_leaf(ls_op_output(op, (unsigned)i));
  return ls_nest_pack(dataset->structure, leaves, dataset->num_leaves);
}
