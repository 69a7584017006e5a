// SPDX-License-Identifier: Apache-2.0
//
// Op makers: user functions that run on the host.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "graph/make/make.h"
#include "lockstep/host.h"

// The function of an op. `structure` is the structure of its results, with
// empty leaves.
typedef struct function {
  ls_object object;
  ls_allocator *allocator;
  ls_host_callback call;
  void *user;
  ls_nest structure;
} function;

static void host_function_destroy(ls_object *object) {
  function *self = (function *)object;
  ls_nest_release(self->structure);
  ls_release(self->allocator, self);
}

// Returns true if two replicas' functions are the same.
static bool host_function_is_same(const ls_object *a, const ls_object *b) {
  const function *x = (const function *)a, *y = (const function *)b;
  return x->call == y->call && x->user == y->user;
}

static const ls_object_type function_type = {.name = "host function",
                                             .destroy = host_function_destroy,
                                             .equal = host_function_is_same};
LS_OWNED_POINTER(function, ls_object_release)

// ---- A call ----------------------------------------------------------------
// Copies all inputs into `leaves`; on failure frees all copies.
static ls_status copy_inputs(const ls_host_call *call, ls_nest *leaves) {
  for (size_t i = 0; i < call->num_inputs; ++i) {
    ls_array *copy = NULL;
    const ls_status status = ls_array_create_copy(call->input_types[i].dtype,
                                                  call->input_types[i].shape,
                                                  call->inputs[i], &copy);
    leaves[i] = ls_status_is_ok(status) ? ls_nest_array(copy) : ls_none();
    if (ls_status_is_ok(status)) continue;
    for (size_t k = 0; k < i; ++k)
      ls_nest_release(leaves[k]);
    return status;
  }
  return ls_ok();
}

static ls_status call_function(const function *self, const ls_host_call *call) {
  LS_OWN_ARRAY_OR_RETURN(self->allocator, ls_nest, leaves,
                         call->num_inputs + 1);
  LS_RETURN_IF_ERROR(copy_inputs(call, leaves));
  LS_OWN(ls_nest, values) =
      call->num_inputs == 0
          ? ls_none()
          : ls_nest_pack(self->structure, leaves, call->num_inputs);
  LS_RETURN_IF_ERROR(ls_nest_status(values));
  return self->call(values, self->user);
}

static ls_status host_function_start(ls_host_call *call) {
  ls_host_done(
      call, call_function((const function *)(const void *)call->state, call));
  return ls_ok();
}

static const ls_host_kernel kernel = {.name = "host_function",
                                      .start = host_function_start};

// ---- The op ----------------------------------------------------------------
static ls_nest empty_leaf(ls_nest leaf, void *user) {
  (void)leaf, (void)user;
  return ls_none();
}

static ls_status take_tensors(ls_nest tensors, ls_nest *leaves,
                              ls_tensor *inputs, size_t count) {
  ls_nest_flatten(tensors, leaves, count);
  for (size_t i = 0; i < count; ++i) {
    if (leaves[i].kind != LS_KIND_TENSOR)
      return ls_invalid_argument(
          "leaf %zu of a host function's arguments is no tensor", i);
    inputs[i] = leaves[i].as.tensor;
  }
  return ls_ok();
}

static ls_status host_function_make_state(ls_host_callback call, void *user,
                                          ls_nest tensors, function **out) {
  ls_allocator *allocator = ls_current_allocator();
  LS_NEW_OR_RETURN(allocator, function, self);
  ls_object_init(&self->object, &function_type);
  self->allocator = allocator;
  self->call = call;
  self->user = user;
  self->structure = ls_nest_map(tensors, empty_leaf, NULL);
  *out = self;
  return ls_nest_status(self->structure);
}

static ls_status host_function_make(ls_host_callback call, void *user,
                                    ls_nest tensors, ls_op *out_op) {
  if (call == NULL) return ls_invalid_argument("a host function is NULL");
  LS_RETURN_IF_ERROR(ls_nest_status(tensors));
  ls_allocator *allocator = ls_current_allocator();
  const size_t count =
      tensors.kind == LS_KIND_NONE ? 0 : ls_nest_num_leaves(tensors);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count + 1);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_tensor, inputs, count + 1);
  LS_RETURN_IF_ERROR(take_tensors(tensors, leaves, inputs, count));
  LS_OWN(function, state) = NULL;
  LS_RETURN_IF_ERROR(host_function_make_state(call, user, tensors, &state));
  *out_op = ls_host_call_add(&kernel, &state->object, inputs, count);
  return ls_ok();
}

ls_op ls_host_function_op(ls_host_callback fn, void *user, ls_nest tensors) {
  ls_op made = {0};
  const ls_status status = host_function_make(fn, user, tensors, &made);
  if (!ls_status_is_ok(status)) ls_make_failed("host_function", status);
  return made;
}
