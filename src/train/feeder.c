// SPDX-License-Identifier: Apache-2.0
#include "base/values/nest_internal.h"
#include "train/device_loop.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/threads/worker.h"
#include "base/values/nest_builder.h"
#include "data/iterator.h"
#include "lockstep/infeed.h"
#include "tpu/pod/core_queues.h"
#include "tpu/strategy/strategy.h"

struct ls_feeder {
  ls_allocator *allocator;
  ls_feeder_options options;
  ls_core_queue **queues;  // One per replica.
  // Batches in use: a batch's arrays are reused once the cores have taken its
  // tuples.
  ls_nests batches;
  size_t next;
  ls_cancel *cancel;
  ls_worker worker;
  ls_feeder_result fed;  // Result of the last job, valid once the worker waits.
};

// ---- Batches ---------------------------------------------------------------
// Returns one replica's part of a leaf; a leaf that is not sharded is its only
// part.
static const ls_array *feeder_part_of(ls_nest leaf, size_t replica) {
  return ls_nest_as_array(leaf.kind == LS_KIND_DISTRIBUTED
                              ? ls_distributed_component(leaf, replica)
                              : leaf);
}

static bool is_part_like(const ls_array *a, const ls_array *b) {
  return a != NULL && b != NULL && ls_array_dtype(a) == ls_array_dtype(b) &&
         ls_shape_equal(ls_array_shape(a), ls_array_shape(b));
}

static bool is_like(ls_nest args, ls_nest like) {
  bool is_same = ls_nest_count(args) == ls_nest_count(like);
  for (size_t i = 0; is_same && i < ls_nest_count(args); ++i) {
    const ls_nest leaf = ls_nest_item(args, i);
    const size_t parts =
        leaf.kind == LS_KIND_DISTRIBUTED ? ls_distributed_count(leaf) : 1;
    for (size_t r = 0; r < parts && is_same; ++r)
      is_same = is_part_like(feeder_part_of(leaf, r),
                             feeder_part_of(ls_nest_item(like, i), 0));
  }
  return is_same;
}

bool ls_batch_is_even(ls_nest args) { return is_like(args, args); }

typedef struct wait {
  const ls_feeder_options *from;
  const ls_cancel *cancel;
} wait;

// Counts waiting as progress, so the stall detector does not fire.
static bool stops(void *user) {
  const wait *w = user;
  ls_runtime_note_input(w->from->runtime);
  return ls_train_stop_requested(w->from->stop) ||
         (w->cancel != NULL && ls_cancel_is_requested(w->cancel));
}

static ls_status take_batch(const ls_feeder_options *from, ls_nest *args) {
  LS_RETURN_IF_ERROR(ls_iterator_next(from->input, args));
  LS_RETURN_IF_ERROR(ls_train_check_labels(from->type, *args, NULL));
  return is_like(*args, from->like)
             ? ls_ok()
             : ls_invalid_argument("a batch in a loop of steps is %s, of "
                                   "another shape than earlier ones",
                                   LS_NEST_TEXT(*args));
}

bool ls_feed_next(const ls_feeder_options *from, const ls_cancel *cancel,
                  ls_nest *args, ls_feeder_result *out) {
  wait w = {from, cancel};
  const bool ready = ls_iterator_wait(from->input, stops, &w);
  out->stalls = !ready;
  out->asked = !ready || ls_train_stop_requested(from->stop);
  if (out->asked) return false;
  out->status = take_batch(from, args);
  if (ls_status_is_ok(out->status)) ++out->batches;
  return ls_status_is_ok(out->status);
}

// ---- Feeding ---------------------------------------------------------------
static ls_status put_part(const ls_feeder *self, ls_nest args, int32_t r) {
  ls_nest parts[2];
  for (size_t i = 0; i < 2; ++i) {
    const ls_nest leaf = ls_nest_item(args, i);
    parts[i] = ls_nest_retain(leaf.kind == LS_KIND_DISTRIBUTED
                                  ? ls_distributed_component(leaf, (size_t)r)
                                  : leaf);
  }
  LS_OWN(ls_nest, tuple) = ls_nest_sequence(LS_KIND_TUPLE, parts, 2);
  LS_RETURN_IF_ERROR(ls_nest_status(tuple));
  return ls_core_put(self->queues[r]->core, tuple);
}

// Puts the last core's part first: its queue is the last to have room again, so
// that one wait suffices, and the cores are not interrupted by a wake-up each.
static ls_status feeder_put(const ls_feeder *self, ls_nest args) {
  const int32_t replicas = ls_strategy_num_replicas(self->options.strategy);
  for (int32_t r = replicas; r-- > 0;)
    LS_RETURN_IF_ERROR(put_part(self, args, r));
  return ls_ok();
}

static ls_feeder_result feed(ls_feeder *self, int64_t wanted) {
  ls_feeder_result fed = {0};
  while (fed.batches < wanted) {
    ls_nest *batch = &self->batches.items[self->next++ % self->batches.count];
    if (!ls_feed_next(&self->options, self->cancel, batch, &fed)) break;
    fed.status = feeder_put(self, *batch);
    if (ls_status_is_ok(fed.status)) continue;
    --fed.batches;
    break;
  }
  if (fed.batches < wanted) ls_core_queue_close(self->queues[0]);
  return fed;
}

static void feeder_work(void *user) {
  ls_feeder *self = user;
  (void)ls_cancel_make_current(self->cancel);
  for (int64_t wanted = 0; ls_worker_next(&self->worker, &wanted);)
    self->fed = feed(self, wanted);
  (void)ls_cancel_make_current(NULL);
}

ls_status ls_feeder_begin(ls_feeder *self, int64_t batches) {
  return ls_worker_post(&self->worker, batches);
}

// Drops the tuples left in the queues.
static void reset_queues(const ls_feeder *self) {
  const int32_t replicas = ls_strategy_num_replicas(self->options.strategy);
  for (int32_t r = 0; r < replicas; ++r)
    ls_queue_reset(self->queues[r]->tuples,
                   ls_pod_generation(self->queues[r]->core->pod));
}

void ls_feeder_end(ls_feeder *self, bool fails, ls_feeder_result *out_fed) {
  if (fails) ls_cancel_request(self->cancel);
  ls_worker_wait(&self->worker);
  *out_fed = self->fed;
  self->fed = (ls_feeder_result){0};
  if (fails) ls_cancel_reset(self->cancel);
  if (fails || ls_queue_is_closed(self->queues[0]->tuples)) reset_queues(self);
}

// ---- Making ----------------------------------------------------------------
static ls_status find_queues(ls_feeder *self) {
  const ls_feeder_options *o = &self->options;
  const int32_t replicas = ls_strategy_num_replicas(o->strategy);
  self->queues =
      ls_new_array(self->allocator, ls_core_queue *, (size_t)replicas);
  if (self->queues == NULL) return ls_out_of_memory();
  for (int32_t r = 0; r < replicas; ++r) {
    ls_core *core = NULL;
    LS_RETURN_IF_ERROR(ls_strategy_core(o->strategy, r, &core));
    const ls_status status = ls_core_queue_of(core, false, &self->queues[r]);
    if (!ls_status_is_ok(status)) ls_core_release(core);
    LS_RETURN_IF_ERROR(status);
  }
  // Besides the batches in the queues, one is being taken and one is being
  // made.
  return ls_nests_init(&self->batches, self->allocator,
                       (size_t)self->queues[0]->core->pod->queue_depth + 2);
}

ls_status ls_feeder_create(const ls_feeder_options *options,
                           ls_feeder **out_feeder) {
  ls_allocator *allocator = ls_runtime_allocator(options->runtime);
  LS_OWN_NEW_OR_RETURN(allocator, ls_feeder, self);
  self->allocator = allocator;
  self->options = *options;
  self->options.like = ls_nest_retain(options->like);
  LS_RETURN_IF_ERROR(find_queues(self));
  LS_RETURN_IF_ERROR(ls_cancel_create(options->runtime, &self->cancel));
  LS_RETURN_IF_ERROR(ls_worker_start(&self->worker, "feeder", options->runtime,
                                     feeder_work, self));
  *out_feeder = ls_give(&self);
  return ls_ok();
}

void ls_feeder_destroy(ls_feeder *self) {
  if (self == NULL) return;
  ls_worker_join(&self->worker);
  ls_status_free(self->fed.status);
  ls_cancel_destroy(self->cancel);
  ls_nest_release(self->options.like);
  ls_nests_deinit(&self->batches);
  const int32_t replicas = ls_strategy_num_replicas(self->options.strategy);
  for (int32_t r = 0; self->queues != NULL && r < replicas; ++r)
    if (self->queues[r] != NULL) ls_core_release(self->queues[r]->core);
  ls_release(self->allocator, self->queues);
  ls_release(self->allocator, self);
}
