// SPDX-License-Identifier: Apache-2.0
//
// A training run with every single request for memory refused in turn, and
// every call to the file system: it leaves nothing, or a run that can be gone
// on with; the second try ends with the same model, the same evaluation and the
// same metrics.
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/chain.h"
#include "lockstep/nn.h"
#include "lockstep/train.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/memory_files.h"

// ---- A model ---------------------------------------------------------------
// Each class has a weight for its feature.
typedef struct weights {
  ls_variable *w;
  ls_optimizer *optimizer;
} weights;
static weights the_weights;  // Of one model at a time.

static void destroy_weights(void *self) {
  weights *it = self;
  if (it == NULL) return;
  ls_variable_release(it->w);
  ls_optimizer_release(it->optimizer);
  *it = (weights){0};
}

static ls_status create_weights(const ls_model_options *options,
                                void **out_self) {
  weights *it = *out_self = &the_weights;
  it->optimizer = ls_optimizer_retain(options->optimizer);
  const float initial[] = {0.5F, -0.25F, 1};
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(3), initial, &array));
  return ls_variable_create(
      &(ls_variable_options){.name = "w", .initial_array = array}, &it->w);
}

static ls_tensor apply(const weights *it, ls_nest args) {
  return ls_mul(ls_nest_tensor(args, 0), ls_variable_read(it->w));
}

static ls_nest train_step(ls_nest args, void *self) {
  const weights *it = self;
  const ls_tensor labels = ls_nest_tensor(args, 1);
  const ls_tensor logits = apply(it, args);
  const ls_tensor loss = ls_mean_softmax_cross_entropy(logits, labels);
  ls_optimizer_minimize(it->optimizer, loss);
  const char *const keys[] = {"loss", "accuracy"};
  const ls_nest items[] = {ls_leaf(loss), ls_leaf(ls_accuracy(logits, labels))};
  return ls_nest_dict("", keys, items, 2);
}

static ls_nest logits(ls_nest args, void *self) {
  return ls_leaf(apply(self, args));
}

static size_t variables(void *self, ls_variable **out, size_t capacity) {
  if (capacity > 0) out[0] = ((const weights *)self)->w;
  return 1;
}

static ls_optimizer *optimizer(void *self) {
  return ((const weights *)self)->optimizer;
}

static const ls_model_type type = {
    .name = "weights",
    .example_shape = {.rank = 1, .dim = {3}},
    .num_classes = 3,
    .create = create_weights,
    .destroy = destroy_weights,
    .train_step = train_step,
    .logits = logits,
    .variables = variables,
    .optimizer = optimizer,
};

// ---- A run -----------------------------------------------------------------
// Two epochs of a full batch and a smaller one.
enum { EXAMPLES = 6, TESTS = 5, BATCH = 4, STEPS_PER_EPOCH = 2, NUM_STEPS = 4 };

typedef struct run {
  int replicas;
  bool tried;  // To train over another run.
  ls_dataset *train, *test;
  ls_strategy *strategy;
  ls_optimizer *optimizer;
  ls_model model;
  ls_train_stop stop;
  int64_t stop_at;  // 0: never.
  ls_train_result result;
} run;

static void drop(void *user) {
  run *self = user;
  ls_model_destroy(&self->model);
  ls_optimizer_release(self->optimizer);
  if (self->strategy != NULL) ls_strategy_release(self->strategy);
  ls_dataset_release(self->train);
  ls_dataset_release(self->test);
  *self = (run){.replicas = self->replicas, .tried = self->tried};
}

static ls_status make(run *self) {
  drop(self);
  ls_synthetic_options made_up = {.size = EXAMPLES,
                                  .shape = type.example_shape,
                                  .num_classes = type.num_classes};
  self->train = ls_dataset_synthetic(&made_up);
  LS_RETURN_IF_ERROR(ls_dataset_status(self->train));
  made_up.size = TESTS;
  made_up.sample = 1;
  self->test = ls_dataset_synthetic(&made_up);
  LS_RETURN_IF_ERROR(ls_dataset_status(self->test));
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(self->replicas)},
      &self->strategy));
  LS_RETURN_IF_ERROR(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.5, .momentum = 0.5},
                    &self->optimizer));
  ls_status status = ls_ok();
  {
    LS_STRATEGY_SCOPE(self->strategy);
    status = ls_scope_status();
    if (ls_status_is_ok(status))
      status = ls_model_create(
          &type,
          &(ls_model_options){.optimizer = self->optimizer, .metrics = true},
          &self->model);
  }
  return status;
}

static void watch(void *user, const ls_train_report *report) {
  run *self = user;
  if (report->step == self->stop_at) ls_train_stop_request(&self->stop);
}

static ls_status train(run *self, bool overwrite, bool resume) {
  return ls_train(&(ls_train_options){.model = &self->model,
                                      .strategy = self->strategy,
                                      .train = self->train,
                                      .test = self->test,
                                      .batch_size = BATCH,
                                      .steps = NUM_STEPS,
                                      .run_folder = "run",
                                      .overwrite = overwrite,
                                      .resume = resume,
                                      .save_seconds = 2,
                                      .keep = LS_SOME(1),
                                      .save_background = LS_FLAG_OFF,
                                      .events = "",
                                      .attest = true,
                                      .log_every = 1,
                                      .stop = &self->stop,
                                      .report = watch,
                                      .report_user = self},
                  &self->result);
}

// ---- The folder ------------------------------------------------------------
static memory_files files;

static bool is_there(const char *path) {
  return memory_files_find(&files, path) != NULL;
}

// But for the last one, which may be cut off.
static void expect_whole_lines(const memory_file *file) {
  const char *line = file->data;
  for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    const char *next = strstr(line + 1, "{\"step\"");
    if (line[0] != '{' || end[-1] != '}' || (next != NULL && next < end))
      fail_msg("metrics.jsonl has a line '%.*s'", (int)(end - line), line);
  }
}

// Nothing at all, or the files of a run alone.
static void expect_no_remains(void) {
  static const char *const known[] = {"run",
                                      "run/config.json",
                                      "run/metrics.jsonl",
                                      "run/model.safetensors",
                                      "run/checkpoint",
                                      "run/chain.jsonl"};
  const bool kept = is_there("run/.overwritten/phase");
  for (size_t i = 0; i < files.count; ++i) {
    bool ours = false;
    for (size_t k = 0; k < LS_COUNT_OF(known); ++k)
      ours = ours || strcmp(files.items[i].path, known[k]) == 0;
    ours = ours || strncmp(files.items[i].path, "run/events", 10) == 0 ||
           // Put back or removed by whoever opens the folder next.
           ((kept || files.items[i].folder) &&
            strncmp(files.items[i].path, "run/.overwritten", 16) == 0) ||
           (strncmp(files.items[i].path, "run/model.ckpt-", 15) == 0 &&
            strstr(files.items[i].path, ".tmp") == NULL);
    if (!ours) fail_msg("'%s' is left", files.items[i].path);
    if (strstr(files.items[i].path, "jsonl") != NULL)
      expect_whole_lines(&files.items[i]);
  }
  if (files.count > 0 && !kept && !is_there("run/config.json"))
    fail_msg("a folder without a run is left");
}

static uint64_t mix(uint64_t sum, const void *bytes, size_t size) {
  for (size_t i = 0; i < size; ++i)
    sum = (sum ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
  return sum;
}

// The lines of metrics.jsonl, but for what they say of time.
static uint64_t mix_metrics(uint64_t sum) {
  const memory_file *file = memory_files_find(&files, "run/metrics.jsonl");
  assert_non_null(file);
  const char *at = file->data, *end = at + file->size;
  for (; at < end; at += strcspn(at, "\n") + 1) {
    const char *time = strstr(at, ",\"examples_per_second\"");
    const size_t line = strcspn(at, "\n");
    const bool has_time = time != NULL && time < at + line;
    const char *seconds = strstr(at, ",\"seconds\"");
    sum = mix(sum, at, (size_t)((has_time ? time : seconds) - at));
  }
  return sum;
}

static void print_difference(void *user, const char *text, bool differs) {
  (void)user;
  if (differs) print_error("%s\n", text);
}

// The model, the evaluation and the metrics, which are as the chain says.
static double outcome(void *user) {
  const run *self = user;
  const ls_chain_report report = {print_difference, NULL};
  ls_chain_result checked;
  expect_no_remains();
  expect_ok(ls_chain_check("run", &report, &checked));
  assert_int_equal(checked.differences, 0);
  assert_int_equal(self->result.steps, NUM_STEPS);
  const memory_file *model = memory_files_find(&files, "run/model.safetensors");
  assert_non_null(model);
  uint64_t sum = mix(0, model->data, model->size);
  sum = mix(sum, &self->result.test, sizeof(self->result.test));
  return (double)(mix_metrics(sum) >> 11);
}

// ---- Time ------------------------------------------------------------------
// A second passes with each look at the clock.
static int64_t next_second(void *user) {
  (void)user;
  static int64_t seconds;
  return __atomic_add_fetch(&seconds, 1, __ATOMIC_RELAXED) * 1000000000;
}

static const ls_clock clock_of_looks = {.now = next_second,
                                        .wall = next_second};

static ls_runtime_options options_of_runs(void) {
  static ls_file_system system;
  system = memory_files_system(&files);
  return (ls_runtime_options){
      .clock = &clock_of_looks, .file_system = &system, .threads = 1};
}

static void expect_survived(const char *name, ls_status (*begin)(void *),
                            ls_status (*act)(void *)) {
  refuse_each(&(fault_scenario){.name = name,
                                .size = sizeof(run),
                                .begin = begin,
                                .act = act,
                                .outcome = outcome,
                                .end = drop,
                                .options = options_of_runs()});
  memory_files_clear(&files);
}

// ---- Scenarios -------------------------------------------------------------
// A user who begins a run, and goes on with what is there after a failure.
static ls_status begin_or_go_on(void *user) {
  run *self = user;
  expect_no_remains();
  LS_RETURN_IF_ERROR(make(self));
  return train(self, false,
               is_there("run/config.json") ||
                   is_there("run/.overwritten/phase"));
}

static ls_status without_a_run(void *user) {
  memory_files_clear(&files);
  ((run *)user)->replicas = 2;
  return ls_ok();
}

TEST(a_run_survives) {
  expect_survived("trained", without_a_run, begin_or_go_on);
}

// A run that was stopped in its second epoch, and its model as it is now.
static ls_status stop_run(run *self, int replicas) {
  memory_files_clear(&files);
  self->replicas = replicas;
  LS_RETURN_IF_ERROR(make(self));
  self->stop_at = STEPS_PER_EPOCH + 1;
  LS_RETURN_IF_ERROR(train(self, false, false));
  self->stop_at = 0;
  self->stop = (ls_train_stop){0};
  return ls_ok();
}

static ls_status stopped_run(void *user) { return stop_run(user, 2); }
static ls_status stopped_run_of_one(void *user) { return stop_run(user, 1); }

static ls_status go_on(void *user) {
  expect_no_remains();
  return train(user, false, true);
}

TEST(going_on_with_a_run_survives) {
  expect_survived("gone on with", stopped_run, go_on);
}

// After a failure the one run or the other is there to go on with.
static ls_status train_over(void *user) {
  run *self = user;
  expect_no_remains();
  if (self->tried) return begin_or_go_on(self);
  self->tried = true;
  LS_RETURN_IF_ERROR(make(self));
  return train(self, true, false);
}

TEST(training_over_a_run_survives) {
  expect_survived("trained over", stopped_run_of_one, train_over);
}

// ---- Files that fail -------------------------------------------------------
// One life with call `nth` to the file system failing. Whether there were so
// many.
static bool live(ls_status (*begin)(void *), ls_status (*act)(void *), int nth,
                 double *out_outcome) {
  run self = {0};
  expect_ok(begin(&self));
  files.fail_at = nth;
  const ls_status status = act(&self);
  const bool failed = files.fail_at <= 0 && nth > 0;
  files.fail_at = 0;
  if (!ls_status_is_ok(status)) {
    expect_status(status, LS_UNAVAILABLE, "cannot");
    expect_ok(act(&self));
  }
  *out_outcome = outcome(&self);
  drop(&self);
  return failed;
}

TEST(files_that_fail_are_survived) {
  static ls_status (*const rows[][2])(void *) = {
      {without_a_run, begin_or_go_on},
      {stopped_run, go_on},
      {stopped_run_of_one, train_over}};
  counted memory = counted_begin_with(options_of_runs());
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    double wanted = 0, got = 0;
    live(rows[i][0], rows[i][1], 0, &wanted);
    int nth = 1;
    for (; live(rows[i][0], rows[i][1], nth, &got); ++nth)
      if (memcmp(&wanted, &got, sizeof(got)) != 0)
        fail_msg("row %zu ends otherwise after call %d failed", i, nth);
    assert_true(nth > 10);
  }
  counted_end(&memory);
  memory_files_clear(&files);
}

// ---- Processes that are killed ---------------------------------------------
static memory_files copy_files(void) {
  memory_files copy = files;
  for (size_t i = 0; i < copy.count; ++i) {
    copy.items[i].data = malloc(copy.items[i].size + 1);
    assert_non_null(copy.items[i].data);
    if (copy.items[i].size > 0)
      memcpy(copy.items[i].data, files.items[i].data, copy.items[i].size);
  }
  return copy;
}

// Folders do not count.
static size_t count_files(const memory_files *all) {
  size_t count = 0;
  for (size_t i = 0; i < all->count; ++i)
    count += all->items[i].folder ? 0 : 1;
  return count;
}

static bool are_files(const memory_files *wanted) {
  if (count_files(wanted) != count_files(&files)) return false;
  for (size_t i = 0; i < wanted->count; ++i) {
    const memory_file *want = &wanted->items[i];
    const memory_file *got = memory_files_find(&files, want->path);
    if (!want->folder && (got == NULL || got->size != want->size ||
                          memcmp(got->data, want->data, want->size) != 0))
      return false;
  }
  return true;
}

static bool has_checkpoint(void) {
  for (size_t i = 0; i < files.count; ++i)
    if (strncmp(files.items[i].path, "run/model.ckpt-", 15) == 0 &&
        strstr(files.items[i].path, ".json") != NULL)
      return true;
  return false;
}

// Trains over a run until call `nth` to the file system, from which on none is
// heard. Returns false once the old run is gone.
static bool train_over_killed(int nth, bool *out_is_old) {
  run self = {.replicas = 1};
  expect_ok(stopped_run_of_one(&self));
  memory_files old = copy_files();
  expect_ok(make(&self));
  files.fail_at = nth;
  files.is_killed = true;
  const ls_status status = train(&self, true, false);
  assert_true(files.fail_at <= 0);
  files.fail_at = 0;
  files.is_killed = false;
  const bool was_kept = is_there("run/.overwritten");
  ls_status_free(status);
  // What opens the folder first finds the one run or the other.
  ls_train_config *config = NULL;
  expect_ok(ls_train_config_read("run", &config));
  ls_train_config_destroy(config);
  *out_is_old = are_files(&old);
  if (!*out_is_old && !has_checkpoint())
    fail_msg("neither run is there after a kill at call %d", nth);
  expect_no_remains();
  assert_false(is_there("run/.overwritten/phase"));
  expect_ok(make(&self));
  expect_ok(ls_train_load("run", &self.model));
  drop(&self);
  memory_files_clear(&old);
  return *out_is_old || was_kept;
}

TEST(a_killed_run_leaves_the_old_one_or_a_checkpoint) {
  counted memory = counted_begin_with(options_of_runs());
  bool is_old = true, was_old = true;
  int nth = 1, kept = 0;
  for (; train_over_killed(nth, &is_old); ++nth) {
    if (is_old && !was_old) fail_msg("the old run is back at call %d", nth);
    was_old = is_old;
    kept += is_old ? 1 : 0;
  }
  assert_false(is_old);
  assert_true(kept > 20);
  counted_end(&memory);
  memory_files_clear(&files);
}
