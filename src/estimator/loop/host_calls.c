// SPDX-License-Identifier: Apache-2.0
// Host calls: tensors that steps send to their hosts, and the functions that
// hosts call with them.
#include "estimator/loop/program.h"

#include <string.h>

#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "estimator/spec/calls.h"
#include "lockstep/infeed.h"
#include "lockstep/ops.h"
#include "tpu/feeds/feed.h"

void ls_host_calls_init(ls_host_calls *calls, const ls_plan *plan) {
  *calls = (ls_host_calls){.allocator = ls_current_allocator(), .plan = plan};
}

void ls_host_calls_deinit(ls_host_calls *calls) {
  for (size_t i = 0; i < calls->num_calls; ++i)
    ls_nest_release(calls->calls[i].function.tensors);
  ls_release(calls->allocator, calls->tensors);
  *calls = (ls_host_calls){0};
}

// ---- In a step -------------------------------------------------------------
static ls_status check_rows(const ls_host_calls *calls, const char *name,
                            ls_tensor tensor) {
  if (calls->plan->input.way == LS_FEED_ALL ||
      ls_tensor_shape(tensor).rank != 0)
    return ls_ok();
  return ls_failed_precondition(
      "all tensors of %s must preserve batch size dimension, by which "
      "replicas' parts are put together: '%s' is a scalar",
      name, ls_tensor_name(tensor));
}

static ls_status host_calls_append(ls_host_calls *calls, const char *name,
                                   ls_nest nest, size_t count) {
  LS_OWN_ARRAY_OR_RETURN(calls->allocator, ls_nest, leaves, count + 1);
  LS_RETURN_IF_NO_MEMORY(LS_GROW(calls->allocator, calls->tensors,
                                 calls->capacity, calls->count + count + 1));
  ls_nest_flatten(nest, leaves, count);
  for (size_t i = 0; i < count; ++i) {
    if (leaves[i].kind != LS_KIND_TENSOR)
      return ls_invalid_argument("item %zu of %s[1] is no tensor", i, name);
    LS_RETURN_IF_ERROR(check_rows(calls, name, leaves[i].as.tensor));
    calls->tensors[calls->count + i] = leaves[i].as.tensor;
  }
  return ls_ok();
}

ls_status ls_host_calls_record(ls_host_calls *calls, const char *name,
                               const ls_host_function *function) {
  const size_t count = ls_nest_num_leaves(function->tensors);
  if (function->call == NULL && function->tensors.kind == LS_KIND_NONE)
    return ls_ok();
  if (calls->num_calls == LS_MOST_HOST_CALLS)
    return ls_internal("more than %d functions on hosts", LS_MOST_HOST_CALLS);
  LS_RETURN_IF_ERROR(host_calls_append(calls, name, function->tensors, count));
  ls_recorded_call *call = &calls->calls[calls->num_calls++];
  *call = (ls_recorded_call){.name = name,
                             .function = *function,
                             .first = calls->count,
                             .count = count};
  call->function.tensors = ls_nest_retain(function->tensors);
  calls->count += count;
  return ls_ok();
}

ls_status ls_host_calls_pace(ls_host_calls *calls) {
  if (calls->num_calls == 0 || calls->count > 0) return ls_ok();
  const ls_tensor token = ls_reshape(ls_scalar(LS_DTYPE_I32, 0), LS_SHAPE(1));
  LS_RETURN_IF_ERROR(host_calls_append(calls, "a step", ls_leaf(token), 1));
  calls->count = 1;
  return ls_ok();
}

ls_status ls_host_calls_enqueue(ls_host_calls *calls,
                                const ls_tensor *condition, ls_op *out_op) {
  *out_op = (ls_op){0};
  if (calls->count == 0) return ls_ok();
  LS_DEVICE_SCOPE("/device:TPU_REPLICATED_CORE:0");
  // There is room after the tensors.
  if (condition != NULL) calls->tensors[calls->count] = *condition;
  *out_op = condition != NULL
                ? ls_feed_enqueue_if(calls->tensors, calls->count + 1)
                : ls_outfeed_enqueue_tuple(calls->tensors, calls->count);
  return ls_op_is_failed(*out_op) ? ls_graph_take_error(ls_graph_current())
                                  : ls_ok();
}

// ---- On the hosts ----------------------------------------------------------
// Returns true for a host call without tensors, which must be made to wait for
// a step's tuples. Metrics without tensors do not wait: their values are read
// after the last step.
static bool takes_nothing(const ls_recorded_call *call) {
  return call->count == 0 && strcmp(call->name, "host_call") == 0;
}

// Dequeues a replica's tuple on the replica's host.
static ls_status take_one(const ls_host_calls *calls, const ls_type *types,
                          int64_t replica, ls_op *out_op) {
  const int64_t ordinal = calls->plan->system->replicas[replica].ordinal;
  const ls_device_name host = ls_plan_replica_host(calls->plan, replica);
  LS_DEVICE_SCOPE(host.text);
  *out_op = ls_outfeed_dequeue_tuple(types, calls->count, ordinal);
  return ls_op_is_failed(*out_op) ? ls_graph_take_error(ls_graph_current())
                                  : ls_ok();
}

// Joins element i of all replicas.
static ls_status host_calls_join(ls_host_calls *calls, const ls_op *ops,
                                 ls_tensor *parts, int64_t replicas, size_t i) {
  for (int64_t r = 0; r < replicas; ++r)
    parts[r] = ls_op_output(ops[r], (unsigned)i);
  calls->tensors[i] = calls->plan->input.way != LS_FEED_ALL && replicas > 1
                          ? ls_concatenate(parts, (size_t)replicas, 0)
                          : parts[0];
  return ls_tensor_is_failed(calls->tensors[i])
             ? ls_graph_take_error(ls_graph_current())
             : ls_ok();
}

static ls_status take_all(ls_host_calls *calls, int64_t replicas,
                          ls_type *types, ls_op *ops, ls_tensor *parts) {
  for (size_t i = 0; i < calls->count; ++i)
    types[i] = (ls_type){ls_tensor_dtype(calls->tensors[i]),
                         ls_tensor_shape(calls->tensors[i])};
  for (int64_t r = 0; r < replicas; ++r)
    LS_RETURN_IF_ERROR(take_one(calls, types, r, &ops[r]));
  const ls_device_name host = ls_plan_replica_host(calls->plan, 0);
  LS_DEVICE_SCOPE(host.text);
  for (size_t i = 0; i < calls->count; ++i)
    LS_RETURN_IF_ERROR(host_calls_join(calls, ops, parts, replicas, i));
  for (size_t i = 0; i < calls->num_calls; ++i)
    if (takes_nothing(&calls->calls[i]) && calls->taken.id == 0)
      calls->taken = ls_group(ops, (size_t)replicas, NULL);
  return ls_ok();
}

ls_status ls_host_calls_take(ls_host_calls *calls, ls_nest *out_ops) {
  const size_t replicas = (size_t)calls->plan->system->num_replicas;
  ls_allocator *allocator = calls->allocator;
  LS_OWN(ls_nest_builder, list) = {0};
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_type, types, calls->count + 1);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_op, ops, replicas + 1);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_tensor, parts, replicas + 1);
  if (calls->count > 0) {
    LS_RETURN_IF_ERROR(take_all(calls, (int64_t)replicas, types, ops, parts));
    for (size_t r = 0; r < replicas; ++r)
      ls_nest_builder_append(&list, ls_nest_op(ops[r]));
  }
  return ls_take_nest(ls_nest_builder_finish(&list, LS_KIND_LIST), out_ops);
}

// Packs a function's tensors as hosts have them: joined, or one replica's.
static ls_status pack_tensors(const ls_host_calls *calls,
                              const ls_recorded_call *call, ls_nest *out_nest) {
  LS_OWN_ARRAY_OR_RETURN(calls->allocator, ls_nest, leaves, call->count + 1);
  for (size_t i = 0; i < call->count; ++i)
    leaves[i] = ls_leaf(calls->tensors[call->first + i]);
  return ls_take_nest(ls_nest_pack(call->function.tensors, leaves, call->count),
                      out_nest);
}

ls_status ls_host_calls_call(const ls_host_calls *calls, const char *name,
                             ls_nest *out_made) {
  size_t i = 0;
  *out_made = ls_none();
  while (i < calls->num_calls && strcmp(calls->calls[i].name, name) != 0)
    ++i;
  if (i == calls->num_calls) return ls_ok();
  LS_OWN(ls_nest, tensors) = ls_none();
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(pack_tensors(calls, &calls->calls[i], &tensors));
  ls_host_function function = calls->calls[i].function;
  function.tensors = tensors;
  if (function.call == NULL) {
    return ls_hand_over(&tensors, out_made);
  }
  const ls_device_name host = ls_plan_replica_host(calls->plan, 0);
  LS_DEVICE_SCOPE(host.text);
  LS_CONTROL_SCOPE(&calls->taken, takes_nothing(&calls->calls[i]));
  LS_RETURN_IF_ERROR(
      ls_take_nest(ls_host_function_call(&function, name), &made));
  LS_RETURN_IF_ERROR(ls_graph_take_error(ls_graph_current()));
  return ls_hand_over(&made, out_made);
}
