// SPDX-License-Identifier: Apache-2.0
#include "tpu/strategy/replica.h"

#include "tpu/replicate/context.h"

static ls_status replica_begin(ls_tpu_replica *r, ls_strategy *strategy,
                               bool in_computation) {
  ls_context *context = ls_context_current();
  *r =
      (ls_tpu_replica){.entry.strategy = strategy, .outer_same = context->same};
  LS_RETURN_IF_ERROR(ls_replicas_take(strategy, &r->replica));
  r->entry.replica = r->replica;
  if (in_computation) r->replica->graph = ls_graph_resolve(ls_graph_current());
  ls_distribution_push(context, &r->entry);
  return ls_ok();
}

void ls_tpu_replica_end(ls_tpu_replica *r) {
  ls_context *context = ls_context_current();
  ls_distribute_scoped_of(context)->distribution = r->entry.outer;
  context->same = r->outer_same;
  ls_same_values_deinit(&r->same);
  ls_replicas_give(r->entry.strategy, r->replica);
}

ls_status ls_tpu_replica_begin(ls_tpu_replica *out, ls_strategy *strategy) {
  LS_RETURN_IF_ERROR(replica_begin(out, strategy, true));
  out->replica->device_of_all = "/device:TPU_REPLICATED_CORE:0";
  out->same = (ls_same_values){.allocator = strategy->allocator,
                               .graph = out->replica->graph};
  ls_context_current()->same = &out->same;
  return ls_ok();
}

// In a computation its variables are the replica's own, as those of all.
ls_status ls_tpu_class_call_each(ls_strategy *strategy, ls_callback callback,
                                 ls_nest args, void *user, ls_nest *results) {
  ls_tpu_replica r;
  LS_RETURN_IF_ERROR(
      replica_begin(&r, strategy, ls_tpu_context_current() != NULL));
  r.replica->is_alone = true;
  const ls_status status = ls_take_nest(callback(args, user), results);
  ls_tpu_replica_end(&r);
  return status;
}
