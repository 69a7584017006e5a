// SPDX-License-Identifier: Apache-2.0
//
// Hooks around a run that calls functions: its memory.
#include "lockstep/hook.h"
#include "lockstep/ops.h"
#include "lockstep/train.h"
#include "support/counted.h"
#include "support/fault.h"

enum { HOOKS = 6, BATCH = 8, STEPS = 16 };

// ---- A run -----------------------------------------------------------------
static ls_nest step_with_summary(ls_nest args, void *self) {
  const ls_nest made = ls_model_find("tiny")->train_step(args, self);
  if (!ls_nest_is_failed(made))
    (void)ls_summary("loss", ls_nest_tensor(ls_nest_find(made, "loss"), 0));
  return made;
}

static void forget(void *user, const ls_summary_record *record) {
  (void)user, (void)record;
}

// All that are for functions, but a profiler; `every` so many steps. A save
// with a listener is waited for: what writes it takes memory beside some later
// step.
static ls_status make_hooks(int64_t every, ls_summary_writer *writer,
                            ls_hook **hooks) {
  static const char *const names[] = {"loss", "accuracy"};
  static const ls_save_listener nobody;
  LS_RETURN_IF_ERROR(
      ls_saver_hook(&(ls_saver_hook_options){.folder = "train_hooks_memory",
                                             .every_steps = LS_SOME(every),
                                             .listeners = &nobody,
                                             .num_listeners = 1},
                    &hooks[0]));
  LS_RETURN_IF_ERROR(ls_counter_hook(
      &(ls_counter_hook_options){.every_steps = LS_SOME(every)}, &hooks[1]));
  LS_RETURN_IF_ERROR(
      ls_summary_hook(&(ls_summary_hook_options){.writer = writer,
                                                 .every_steps = LS_SOME(every)},
                      &hooks[2]));
  LS_RETURN_IF_ERROR(ls_log_hook(
      &(ls_log_hook_options){
          .names = names, .num_values = 2, .every_steps = LS_SOME(every)},
      &hooks[3]));
  LS_RETURN_IF_ERROR(
      ls_stop_at_step_hook((ls_opt){0}, LS_SOME(1000), &hooks[4]));
  return ls_nan_hook_named("loss", LS_FLAG_DEFAULT, &hooks[5]);
}

typedef struct job {
  ls_train_options options;
  int64_t replicas, every;
  ls_strategy *strategy;
  ls_model_type type;
  ls_model model;
  ls_dataset *train;
  ls_summary_writer *writer;
  ls_hook *hooks[HOOKS];
} job;

static ls_status make(job *it) {
  it->type = *ls_model_find("tiny");
  it->type.train_step = step_with_summary;
  it->train = ls_dataset_synthetic(
      &(ls_synthetic_options){.size = BATCH * STEPS,
                              .shape = it->type.example_shape,
                              .num_classes = it->type.num_classes});
  if (it->train == NULL) return LS_STATUS(LS_RESOURCE_EXHAUSTED, "no data");
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(it->replicas)},
      &it->strategy));
  LS_RETURN_IF_ERROR(ls_model_create(
      &it->type, &(ls_model_options){.metrics = true}, &it->model));
  LS_RETURN_IF_ERROR(ls_summary_writer_create(forget, NULL, &it->writer));
  return make_hooks(it->every, it->writer, it->hooks);
}

static ls_status train(job *it) {
  ls_train_result result;
  LS_RETURN_IF_ERROR(make(it));
  it->options.model = &it->model;
  it->options.strategy = it->strategy;
  it->options.train = it->train;
  it->options.batch_size = BATCH;
  it->options.epochs = 1;
  it->options.hooks = it->hooks;
  it->options.num_hooks = HOOKS;
  LS_SUMMARY_SCOPE(it->writer);
  return ls_train(&it->options, &result);
}

static ls_status run(const job *wanted) {
  job it = *wanted;
  const ls_status status = train(&it);
  for (size_t i = 0; i < HOOKS; ++i)
    ls_hook_release(it.hooks[i]);
  ls_summary_writer_release(it.writer);
  ls_model_destroy(&it.model);
  ls_dataset_release(it.train);
  if (it.strategy != NULL) ls_strategy_release(it.strategy);
  return status;
}

// ---- Tests -----------------------------------------------------------------
typedef struct watch {
  const counted *memory;
  ls_allocator_counts before;
  int compared;
} watch;

// From the report of one step to that of the next, hooks and all.
static void look(void *user, const ls_train_report *report) {
  watch *w = user;
  const ls_allocator_counts now = counted_now(w->memory);
  if (report->epoch_step > 4 && !report->epoch_end) {
    assert_int_equal(now.allocations, w->before.allocations);
    ++w->compared;
  }
  w->before = now;
}

TEST(hooks_of_a_steady_step_take_no_memory) {
  for (int64_t replicas = 1; replicas <= 3; replicas += 2) {
    LS_OWN(counted, memory) = counted_begin(0);
    watch w = {.memory = &memory};
    expect_ok(run(&(job){.options = {.report = look, .report_user = &w},
                         .replicas = replicas,
                         .every = 100}));
    assert_int_equal(w.compared, STEPS - 4);
  }
}

MEMORY_TEST(train_with_hooks) {
  return run(&(job){.options = {.steps = 3}, .replicas = 1, .every = 2});
}
