// SPDX-License-Identifier: Apache-2.0
#include "train/loop.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/threads/worker.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "data/iterator.h"
#include "graph/context.h"
#include "lockstep/function_plan.h"
#include "lockstep/infeed.h"
#include "tpu/own.h"
#include "tpu/pod/core_queues.h"
#include "tpu/steps/steps.h"
#include "tpu/strategy/strategy.h"

// ---- Feeders ---------------------------------------------------------------
typedef struct ls_feeder {
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
} ls_feeder;

// ---- Batches ---------------------------------------------------------------
static const ls_array *feeder_part_of(ls_nest leaf, size_t replica) {
  return ls_nest_as_array(ls_distributed_component(leaf, replica));
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

// Takes the next batch for a loop into `*args`. Returns false if a stop was
// requested or, as `out` says, the input failed.
static bool feed_next(const ls_feeder_options *from, const ls_cancel *cancel,
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
    parts[i] = ls_nest_retain(
        ls_distributed_component(ls_nest_item(args, i), (size_t)r));
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

// Feeds `wanted` batches. If it ends early it closes the first core's infeed,
// so that the loop ends, too.
static ls_feeder_result feed(ls_feeder *self, int64_t wanted) {
  ls_feeder_result fed = {0};
  while (fed.batches < wanted) {
    ls_nest *batch = &self->batches.items[self->next++ % self->batches.count];
    if (!feed_next(&self->options, self->cancel, batch, &fed)) break;
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

// Drops the tuples left in the queues.
static void reset_queues(const ls_feeder *self) {
  const int32_t replicas = ls_strategy_num_replicas(self->options.strategy);
  for (int32_t r = 0; r < replicas; ++r)
    ls_queue_reset(self->queues[r]->tuples,
                   ls_pod_generation(self->queues[r]->core->pod));
}

// Waits for the job's end. `fails`: the loop has failed and takes no more
// batches.
static void feeder_end(ls_feeder *self, bool fails, ls_feeder_result *out_fed) {
  if (fails) ls_cancel_request(self->cancel);
  ls_worker_wait(&self->worker);
  *out_fed = self->fed;
  self->fed = (ls_feeder_result){0};
  if (fails) ls_cancel_reset(self->cancel);
  if (fails || ls_queue_is_closed(self->queues[0]->tuples)) reset_queues(self);
}

// ---- Making a feeder -------------------------------------------------------
static ls_status find_queues(ls_feeder *self) {
  const ls_feeder_options *o = &self->options;
  const int32_t replicas = ls_strategy_num_replicas(o->strategy);
  LS_SET_ARRAY_OR_RETURN(self->allocator, ls_core_queue *, self->queues,
                         (size_t)replicas);
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

// Accepts NULL.
static void feeder_destroy(ls_feeder *self) {
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
LS_OWNED_POINTER(ls_feeder, feeder_destroy)

static ls_status feeder_create(const ls_feeder_options *options,
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
  return ls_hand_over(&self, out_feeder);
}

enum {
  ELEMENTS = 2,
  NUMBERS = 2
};  // ELEMENTS: examples and labels; NUMBERS:
    // loss and the task's metric.

struct ls_device_loop {
  ls_allocator *allocator;
  ls_device_loop_options options;
  const char *keys[NUMBERS];
  ls_type elements[ELEMENTS];  // Types of a replica's part.
  ls_dtype numbers[NUMBERS];
  ls_function *function;
  ls_feeder *feeder;  // NULL: batches are arguments.
  ls_nest batch;      // The batch last read, copied to the arguments.
  ls_nest args;       // The number of steps, then the batches, if any.
  ls_nest results;
  ls_nest last;  // The results last returned.
};

static size_t count_replicas(const ls_device_loop *self) {
  return (size_t)ls_strategy_num_replicas(self->options.from.strategy);
}

// ---- Tracing ---------------------------------------------------------------
typedef struct tracing {
  const ls_device_loop *loop;
  ls_tensor batches[ELEMENTS];  // Batches that are arguments.
} tracing;

// Returns batch `i` of the arguments.
static ls_nest batch_at(const tracing *t, ls_tensor i) {
  ls_nest items[ELEMENTS];
  const ls_tensor zero = ls_scalar(LS_DTYPE_I64, 0);
  for (size_t e = 0; e < ELEMENTS; ++e) {
    const ls_shape shape = t->loop->elements[e].shape;
    ls_tensor starts[LS_MAX_RANK] = {i};
    ls_shape sizes = {.rank = shape.rank + 1, .dim = {1}};
    for (int d = 0; d < shape.rank; ++d) {
      starts[d + 1] = zero;
      sizes.dim[d + 1] = shape.dim[d];
    }
    items[e] = ls_leaf(
        ls_reshape(ls_dynamic_slice(t->batches[e], starts, sizes), shape));
  }
  return ls_nest_sequence(LS_KIND_TUPLE, items, ELEMENTS);
}

static ls_status call_model(const ls_model *model, ls_nest elements,
                            ls_nest *out_made) {
  ls_examples_entry examples;
  ls_examples_enter(&examples, LS_EXAMPLES_ALIKE, elements);
  const ls_nest made = model->type->train_step(elements, model->self);
  ls_examples_leave(&examples);
  return ls_take_nest(made, out_made);
}

// Makes one step; the loop's state is the results of all steps so far.
static ls_status device_loop_make_step(ls_step *step, void *user) {
  const tracing *t = user;
  LS_OWN(ls_nest, elements) = ls_none();
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(ls_take_nest(t->loop->feeder != NULL
                                      ? ls_nest_retain(step->elements)
                                      : batch_at(t, step->index),
                                  &elements));
  LS_RETURN_IF_ERROR(call_model(&t->loop->options.model, elements, &made));
  for (size_t k = 0; k < NUMBERS; ++k) {
    const ls_tensor number =
        ls_nest_tensor(ls_nest_find(made, t->loop->keys[k]), 0);
    step->state[k] = ls_dynamic_update_slice(
        step->state[k], ls_reshape(number, LS_SHAPE(1)), &step->index);
  }
  return ls_ok();
}

static ls_status device_loop_make_queue(const ls_device_loop *self,
                                        ls_infeed_queue **out_queue) {
  ls_dtype dtypes[ELEMENTS];
  ls_shape shapes[ELEMENTS];  // Shapes of whole batches.
  for (size_t e = 0; e < ELEMENTS; ++e) {
    dtypes[e] = self->elements[e].dtype;
    shapes[e] = self->elements[e].shape;
    shapes[e].dim[0] *= (int64_t)count_replicas(self);
  }
  return ls_infeed_queue_create(&(ls_infeed_options){.dtypes = dtypes,
                                                     .num_dtypes = ELEMENTS,
                                                     .shapes = shapes,
                                                     .num_shapes = ELEMENTS},
                                out_queue);
}

static ls_status build_steps(const ls_device_loop *self, ls_nest args,
                             ls_tensor *numbers) {
  tracing t = {.loop = self};
  LS_OWN(ls_infeed_queue, queue) = NULL;
  for (size_t e = 0; e < ELEMENTS && self->feeder == NULL; ++e)
    t.batches[e] = ls_nest_tensor(args, 1 + e);
  if (self->feeder != NULL)
    LS_RETURN_IF_ERROR(device_loop_make_queue(self, &queue));
  for (size_t k = 0; k < NUMBERS; ++k)
    numbers[k] = ls_fill(self->numbers[k], LS_SHAPE(self->options.most), 0);
  return ls_step_loop_build(&(ls_step_loop){.step = device_loop_make_step,
                                            .limit = ls_nest_tensor(args, 0),
                                            .user = &t,
                                            .infeed = queue},
                            numbers, NUMBERS, NULL);
}

// Makes a replica's steps, as many as its first argument says.
static ls_nest make_steps(ls_nest args, void *user) {
  ls_tensor numbers[NUMBERS];
  LS_RETURN_FAILED_IF_ERROR(build_steps(user, args, numbers));
  return LS_LIST(ls_leaf(numbers[0]), ls_leaf(numbers[1]));
}

// ---- Batches as arguments --------------------------------------------------
// Makes room for one leaf of a run's batches.
static ls_nest device_loop_make_room(const ls_device_loop *self,
                                     size_t element) {
  const size_t replicas = count_replicas(self);
  const ls_type *type = &self->elements[element];
  ls_shape shape = {.rank = type->shape.rank + 1, .dim = {self->options.most}};
  for (int d = 0; d < type->shape.rank; ++d)
    shape.dim[d + 1] = type->shape.dim[d];
  LS_OWN_ARRAY(self->allocator, ls_nest, parts, replicas);
  if (parts == NULL) return ls_fail(ls_out_of_memory());
  for (size_t r = 0; r < replicas; ++r)
    parts[r] = ls_nest_zeros(type->dtype, shape);
  return replicas == 1 ? parts[0]
                       : ls_nest_distributed(LS_PER_REPLICA, parts, replicas);
}

static void copy_batch(const ls_device_loop *self, int64_t k) {
  for (size_t e = 0; e < ELEMENTS; ++e)
    for (size_t r = 0; r < count_replicas(self); ++r) {
      const ls_array *from = ls_nest_as_array(
          ls_distributed_component(ls_nest_item(self->batch, e), r));
      const ls_nest to =
          ls_distributed_component(ls_nest_item(self->args, 1 + e), r);
      const size_t size = ls_array_size(from);
      memcpy((char *)ls_nest_data(to, 0) + (size_t)k * size,
             ls_array_data(from), size);
    }
}

static ls_status take_batches(ls_device_loop *self, int64_t steps,
                              ls_feeder_result *out) {
  while (out->batches < steps &&
         feed_next(&self->options.from, NULL, &self->batch, out))
    copy_batch(self, out->batches - 1);
  return out->status;
}

// ---- Running ---------------------------------------------------------------
static ls_status device_loop_run(ls_device_loop *self, int64_t steps) {
  ls_array_set_i64(ls_nest_as_array(ls_nest_item(self->args, 0)), 0, steps);
  return ls_strategy_run(self->options.from.strategy, ls_traced(self->function),
                         self->args, &self->results);
}

static ls_status run_fed(ls_device_loop *self, int64_t steps,
                         ls_feeder_result *out) {
  LS_RETURN_IF_ERROR(ls_worker_post(&self->feeder->worker, steps));
  const ls_status status = device_loop_run(self, steps);
  feeder_end(self->feeder, !ls_status_is_ok(status), out);
  if (ls_status_is_ok(status)) return status;
  ls_status_free(out->status);  // The loop takes no more batches.
  out->status = ls_ok();
  return status;
}

static ls_status run_given(ls_device_loop *self, int64_t steps,
                           ls_feeder_result *out) {
  const ls_status status = take_batches(self, steps, out);
  out->status = status;  // Status of the batch after the ones run.
  if (out->batches == 0) return ls_ok();
  const ls_status ran = device_loop_run(self, out->batches);
  if (ls_status_is_ok(ran)) return ran;
  ls_status_free(out->status);
  out->status = ls_ok();
  return ran;
}

ls_status ls_device_loop_run(ls_device_loop *self, int64_t steps,
                             uint64_t step_number, ls_feeder_result *out) {
  *out = (ls_feeder_result){0};
  ls_function_set_steps(self->function, step_number);
  return self->feeder != NULL ? run_fed(self, steps, out)
                              : run_given(self, steps, out);
}

// Computes ls_train_mean of a step's results; all steps have equally many
// examples.
static ls_status find_mean(const ls_device_loop *self, size_t number, int64_t k,
                           double *out_mean) {
  const ls_nest leaf = ls_nest_item(self->results, number);
  const size_t replicas = count_replicas(self);
  const int64_t rows = self->elements[0].shape.dim[0];
  double sum = 0;
  for (size_t r = 0; r < replicas; ++r) {
    const ls_array *array = ls_nest_as_array(ls_distributed_component(leaf, r));
    if (array == NULL) return ls_internal("a loop of steps returns no numbers");
    const double value = ls_array_f64(array, k);
    if (replicas == 1) {
      *out_mean = value;
      return ls_ok();
    }
    sum += value * (double)rows;
  }
  *out_mean = sum / (double)(rows * (int64_t)replicas);
  return ls_ok();
}

ls_status ls_device_loop_numbers(const ls_device_loop *self, int64_t k,
                                 ls_step_numbers *out) {
  LS_RETURN_IF_ERROR(find_mean(self, 0, k, &out->loss));
  LS_RETURN_IF_ERROR(find_mean(self, 1, k, &out->accuracy));
  const double numbers[NUMBERS] = {out->loss, out->accuracy};
  for (size_t i = 0; i < NUMBERS; ++i)
    ls_array_set_f64(ls_nest_as_array(ls_nest_item(self->last, i)), 0,
                     numbers[i]);
  return ls_ok();
}

ls_nest ls_device_loop_results(const ls_device_loop *self) {
  return self->last;
}

// ---- Making ----------------------------------------------------------------
static ls_status find_types(ls_device_loop *self, ls_nest results) {
  for (size_t e = 0; e < ELEMENTS; ++e) {
    const ls_array *array = ls_nest_as_array(
        ls_distributed_component(ls_nest_item(self->options.from.like, e), 0));
    self->elements[e] = (ls_type){ls_array_dtype(array), ls_array_shape(array)};
    if (self->elements[e].shape.rank == LS_MAX_RANK && self->feeder == NULL)
      return ls_unimplemented("examples of %d dimensions as arguments of a "
                              "loop of steps: %d are possible",
                              LS_MAX_RANK, LS_MAX_RANK - 1);
  }
  for (size_t k = 0; k < NUMBERS; ++k) {
    const ls_array *array = ls_nest_as_array(
        ls_distributed_component(ls_nest_find(results, self->keys[k]), 0));
    if (array == NULL || ls_array_num_elements(array) != 1)
      return ls_invalid_argument("\"%s\" of a step is no number",
                                 self->keys[k]);
    self->numbers[k] = ls_array_dtype(array);
  }
  return ls_ok();
}

static ls_status make_args(ls_device_loop *self) {
  ls_nest items[1 + ELEMENTS] = {ls_nest_zeros(LS_DTYPE_I64, LS_SCALAR)};
  size_t count = 1;
  for (size_t e = 0; e < ELEMENTS && self->feeder == NULL; ++e)
    items[count++] = device_loop_make_room(self, e);
  return ls_take_nest(ls_nest_sequence(LS_KIND_TUPLE, items, count),
                      &self->args);
}

static ls_status make_last(ls_device_loop *self) {
  ls_nest items[NUMBERS];
  for (size_t i = 0; i < NUMBERS; ++i)
    items[i] = ls_nest_zeros(LS_DTYPE_F64, LS_SCALAR);
  return ls_take_nest(ls_nest_dict("", self->keys, items, NUMBERS),
                      &self->last);
}

static ls_status device_loop_fill(ls_device_loop *self, ls_nest results) {
  const ls_device_loop_options *o = &self->options;
  if (o->by_infeed) LS_RETURN_IF_ERROR(feeder_create(&o->from, &self->feeder));
  LS_RETURN_IF_ERROR(find_types(self, results));
  LS_RETURN_IF_ERROR(make_args(self));
  LS_RETURN_IF_ERROR(make_last(self));
  return ls_function_create(&(ls_function_options){.call = make_steps,
                                                   .user = self,
                                                   .name = "train_steps",
                                                   .seed = o->seed},
                            &self->function);
}

ls_status ls_device_loop_create(const ls_device_loop_options *options,
                                ls_device_loop **out_loop) {
  ls_allocator *allocator = ls_runtime_allocator(options->from.runtime);
  LS_OWN_NEW_OR_RETURN(allocator, ls_device_loop, self);
  self->allocator = allocator;
  self->options = *options;
  self->keys[0] = "loss";
  self->keys[1] = ls_model_type_task(options->model.type)->metric;
  self->options.from.like = ls_nest_retain(options->from.like);
  self->options.results = ls_none();
  LS_RETURN_IF_ERROR(device_loop_fill(self, options->results));
  return ls_hand_over(&self, out_loop);
}

void ls_device_loop_destroy(ls_device_loop *self) {
  if (self == NULL) return;
  feeder_destroy(self->feeder);
  ls_function_release(self->function);
  ls_nest_release(self->options.from.like);
  ls_nest_release(self->batch);
  ls_nest_release(self->args);
  ls_nest_release(self->results);
  ls_nest_release(self->last);
  ls_release(self->allocator, self);
}
