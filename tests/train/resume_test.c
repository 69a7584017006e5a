// SPDX-License-Identifier: Apache-2.0
// A run that is stopped and resumed ends with the bits it would have had.
#include "support/expect.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/runtime_internal.h"
#include "lockstep/nn.h"
#include "lockstep/train.h"

// ---- A model with dropout --------------------------------------------------
typedef struct net {
  ls_dense_layer *hidden, *logits;
  ls_optimizer *optimizer;
} net;
static net the_net;  // One at a time.

static void destroy_net(void *self) {
  net *n = self;
  if (n == NULL) return;
  ls_dense_layer_destroy(n->hidden);
  ls_dense_layer_destroy(n->logits);
  ls_optimizer_release(n->optimizer);
  *n = (net){0};
}

static ls_status create_net(const ls_model_options *options, void **out_self) {
  net *n = *out_self = &the_net;
  LS_RETURN_IF_ERROR(ls_dense_layer_create(
      &(ls_dense_options){.name = "hidden", .inputs = 6, .units = 5},
      &n->hidden));
  LS_RETURN_IF_ERROR(ls_dense_layer_create(
      &(ls_dense_options){.name = "logits", .inputs = 5, .units = 3},
      &n->logits));
  n->optimizer = ls_optimizer_retain(options->optimizer);
  return ls_ok();
}

static ls_tensor apply(const net *n, ls_tensor x, bool training) {
  x = ls_relu(ls_dense_layer_apply(n->hidden, x));
  return ls_dense_layer_apply(n->logits, ls_dropout(x, 0.5, training, NULL));
}

static ls_nest train_net(ls_nest args, void *self) {
  const net *n = self;
  const ls_tensor labels = ls_nest_tensor(args, 1);
  const ls_tensor logits = apply(n, ls_nest_tensor(args, 0), true);
  const ls_tensor loss = ls_mean_softmax_cross_entropy(logits, labels);
  ls_optimizer_minimize(n->optimizer, loss);
  const char *const keys[] = {"loss", "accuracy"};
  const ls_nest items[] = {ls_leaf(loss), ls_leaf(ls_accuracy(logits, labels))};
  return ls_nest_dict("", keys, items, 2);
}

static ls_nest net_logits(ls_nest args, void *self) {
  return ls_leaf(apply(self, ls_nest_tensor(args, 0), false));
}

static size_t net_variables(void *self, ls_variable **out, size_t capacity) {
  const net *n = self;
  ls_variable *all[4] = {NULL};
  size_t count = ls_dense_layer_variables(n->hidden, all, 2);
  count += ls_dense_layer_variables(n->logits, all + count, 2);
  for (size_t i = 0; i < count && i < capacity; ++i)
    out[i] = all[i];
  return count;
}

static ls_optimizer *net_optimizer(void *self) {
  return ((net *)self)->optimizer;
}

static const ls_model_type net_type = {
    .name = "net",
    .batch_size = 8,
    .epochs = 3,
    .example_shape = {.rank = 1, .dim = {6}},
    .num_classes = 3,
    .create = create_net,
    .destroy = destroy_net,
    .train_step = train_net,
    .logits = net_logits,
    .variables = net_variables,
    .optimizer = net_optimizer,
};

// ---- Runs ------------------------------------------------------------------
enum { STEPS_PER_EPOCH = 11, NUM_STEPS = 27 };

typedef struct run_options {
  const char *optimizer, *folder;
  int64_t replicas, batch_size;
  int64_t accumulate;
  int64_t stop_at;  // 0: never.
  bool resume;
  const char *from;
  ls_opt from_step;
  ls_train_log log;
  int64_t save_seconds, save_steps;
  bool save_goes_on;
  ls_flag save_background;
  const ls_runtime_options *runtime;
} run_options;

typedef struct watcher {
  ls_train_stop stop;
  int64_t stop_at;
} watcher;

static void watch(void *user, const ls_train_report *report) {
  watcher *w = user;
  if (report->step == w->stop_at) ls_train_stop_request(&w->stop);
}

static ls_status train(const run_options *r, ls_train_result *result) {
  ls_dataset *data = NULL, *test = NULL;
  ls_strategy *strategy = NULL;
  ls_optimizer *optimizer = NULL;
  ls_model model = {0};
  ls_synthetic_options made_up = {.size = 83,
                                  .shape = net_type.example_shape,
                                  .num_classes = net_type.num_classes};
  data = ls_dataset_synthetic(&made_up);
  made_up.sample = 1;
  test = ls_dataset_synthetic(&made_up);
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(r->replicas)}, &strategy));
  expect_ok(ls_optimizer_create(
      r->optimizer,
      &(ls_optimizer_options){
          .learning_rate = 0.05,
          .schedule = {LS_SCHEDULE_LINEAR, .steps = NUM_STEPS},
          .accumulate = r->accumulate},
      &optimizer));
  expect_ok(ls_model_create(
      &net_type, &(ls_model_options){.optimizer = optimizer}, &model));
  watcher w = {.stop_at = r->stop_at};
  const ls_status status =
      ls_train(&(ls_train_options){.model = &model,
                                   .strategy = strategy,
                                   .train = data,
                                   .test = test,
                                   .batch_size = r->batch_size,
                                   .steps = NUM_STEPS,
                                   .seed = 5,
                                   .run_folder = r->folder,
                                   .overwrite = !r->resume,
                                   .resume = r->resume,
                                   .from = r->from,
                                   .from_step = r->from_step,
                                   .log = r->log,
                                   .checksum = r->log.line != NULL ? 5 : 0,
                                   .save_seconds = r->save_seconds,
                                   .save_steps = r->save_steps,
                                   .save_goes_on = r->save_goes_on,
                                   .save_background = r->save_background,
                                   .log_every = 4,
                                   .stop = &w.stop,
                                   .report = watch,
                                   .report_user = &w},
               result);
  ls_model_destroy(&model);
  ls_optimizer_release(optimizer);
  ls_strategy_release(strategy);
  ls_dataset_release(data);
  ls_dataset_release(test);
  return status;
}

// Under a runtime of its own, as another process would.
static ls_status run(const run_options *r, ls_train_result *result) {
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(r->runtime, &runtime));
  ls_runtime_make_current(runtime);
  ls_status status = train(r, result);
  ls_status copy = ls_status_clone(status);
  ls_status_free(status);
  ls_runtime_make_current(NULL);
  expect_ok(ls_runtime_destroy(runtime));
  return copy;
}

static char *read_file(const char *folder, const char *name, size_t *out_size) {
  const ls_file_system *files = ls_file_system_system();
  char path[128], *data = NULL;
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  expect_ok(files->read(files->user, path, SIZE_MAX, ls_allocator_system(),
                        &data, out_size));
  return data;
}

static void write_file(const char *folder, const char *name, const char *data,
                       size_t size) {
  const ls_file_system *files = ls_file_system_system();
  char path[128];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  expect_ok(files->write(files->user, path, data, size));
}

static void remove_file(const char *folder, const char *name) {
  const ls_file_system *files = ls_file_system_system();
  char path[128];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  expect_ok(files->remove(files->user, path));
}

static void expect_same_file(const char *a, const char *b, const char *name) {
  size_t sizes[2] = {0};
  char *left = read_file(a, name, &sizes[0]);
  char *right = read_file(b, name, &sizes[1]);
  assert_int_equal(sizes[0], sizes[1]);
  assert_memory_equal(left, right, sizes[0]);
  ls_release(ls_allocator_system(), left);
  ls_release(ls_allocator_system(), right);
}

// The steps of the lines of metrics.jsonl; a test's is negative.
static size_t metric_steps(const char *folder, int64_t *steps,
                           size_t capacity) {
  size_t size = 0, count = 0;
  char *text = read_file(folder, "metrics.jsonl", &size);
  for (char *at = text; *at != '\0';) {
    char *end = strchr(at, '\n');
    assert_non_null(end);
    *end = '\0';
    long long step = 0;
    assert_int_equal(sscanf(at, "{\"step\":%lld,", &step), 1);
    assert_true(count < capacity);
    steps[count++] = strstr(at, "test_loss") != NULL ? -step : step;
    at = end + 1;
  }
  ls_release(ls_allocator_system(), text);
  return count;
}

// ---- Equal bits ------------------------------------------------------------
TEST(a_resumed_run_ends_as_if_it_had_not_stopped) {
  static const char *const optimizers[] = {"sgd", "adam"};
  static const int64_t stops[] = {7, STEPS_PER_EPOCH, 26};
  for (size_t i = 0; i < 2; ++i) {
    for (int64_t replicas = 1; replicas <= 2; ++replicas) {
      run_options r = {.optimizer = optimizers[i],
                       .folder = "straight",
                       .replicas = replicas};
      ls_train_result straight, result;
      expect_ok(run(&r, &straight));
      assert_int_equal(straight.steps, NUM_STEPS);
      r.folder = "resumed";
      for (size_t k = 0; k < 3; ++k) {
        r.resume = false;
        r.stop_at = stops[k];
        expect_ok(run(&r, &result));
        assert_true(result.stopped);
        assert_int_equal(result.steps, stops[k]);
        r.resume = true;
        r.stop_at = 0;
        expect_ok(run(&r, &result));
        assert_int_equal(result.steps, NUM_STEPS);
        expect_same_file("straight", "resumed", "model.safetensors");
        assert_true(result.test.loss == straight.test.loss);
      }
    }
  }
}

static void expect_often_stopped(run_options r) {
  ls_train_result result;
  r.folder = "straight";
  expect_ok(run(&r, &result));
  r.folder = "often";
  for (int64_t step = 1; step <= NUM_STEPS; step += 5) {
    r.stop_at = step;
    expect_ok(run(&r, &result));
    r.resume = true;
  }
  r.stop_at = 0;
  expect_ok(run(&r, &result));
  expect_same_file("straight", "often", "model.safetensors");
}

TEST(a_run_can_be_stopped_many_times) {
  expect_often_stopped((run_options){.optimizer = "adamw", .replicas = 1});
}

TEST(so_can_one_that_accumulates_gradients) {
  // Steps 1, 6, 11 and so on are in the middle of four calls.
  expect_often_stopped(
      (run_options){.optimizer = "adam", .replicas = 3, .accumulate = 4});
}

TEST(a_finished_run_that_is_resumed_is_evaluated_only) {
  run_options r = {.optimizer = "sgd", .folder = "done", .replicas = 1};
  ls_train_result first, second;
  expect_ok(run(&r, &first));
  r.resume = true;
  expect_ok(run(&r, &second));
  assert_int_equal(second.steps, NUM_STEPS);
  assert_true(second.tested && second.test.loss == first.test.loss);
}

TEST(the_metrics_are_those_of_one_run) {
  run_options r = {
      .optimizer = "sgd", .folder = "metrics", .replicas = 1, .stop_at = 12};
  ls_train_result result;
  expect_ok(run(&r, &result));
  // As if the run had been killed later than it was saved.
  size_t size = 0;
  char *text = read_file("metrics", "metrics.jsonl", &size);
  char longer[4096];
  const int length = snprintf(longer, sizeof(longer),
                              "%s{\"step\":14,\"epoch\":2}\n{\"step\":1", text);
  ls_release(ls_allocator_system(), text);
  write_file("metrics", "metrics.jsonl", longer, (size_t)length);
  r.stop_at = 0;
  r.resume = true;
  expect_ok(run(&r, &result));
  static const int64_t wanted[] = {4,  8,  11, -11, 12,  // Stopped.
                                   16, 20, 22, -22, 26, 27, -27};
  int64_t steps[32];
  assert_int_equal(metric_steps("metrics", steps, 32), 12);
  assert_memory_equal(steps, wanted, sizeof(wanted));
}

// ---- From another run ------------------------------------------------------
// Copies the text of a line up to its times.
static void keep_line(void *user, const char *line) {
  char *lines = user;
  const char *end = strstr(line, ",\"examples_per_second");
  if (end == NULL) end = strstr(line, ",\"seconds");
  if (end == NULL) end = strchr(line, '\n');
  assert_non_null(end);
  const size_t size = strlen(lines);
  assert_true(size + (size_t)(end - line) + 2 < 2048);
  snprintf(lines + size, 2048 - size, "%.*s\n", (int)(end - line), line);
}

TEST(a_run_goes_on_from_any_checkpoint_of_another_one) {
  run_options r = {.optimizer = "adam",
                   .folder = "straight",
                   .replicas = 2,
                   .accumulate = 2,
                   .save_steps = 4};
  ls_train_result straight, result;
  char lines[2048] = "", again[2048];
  r.log = (ls_train_log){keep_line, lines};
  expect_ok(run(&r, &straight));
  size_t size = 0;
  char *metrics = read_file("straight", "metrics.jsonl", &size);
  r.from = "straight";
  r.log.user = again;
  for (int64_t step = 16; step <= 24; step += 4) {
    // In a folder of its own, then in memory.
    r.folder = "branch";
    r.from_step = LS_SOME(step);
    for (int i = 0; i < 2; ++i) {
      again[0] = '\0';
      expect_ok(run(&r, &result));
      assert_int_equal(result.steps, NUM_STEPS);
      assert_true(result.test.loss == straight.test.loss);
      // The checksum is the same, and if an epoch has ended before, so are the
      // lines after it.
      char *sum = strstr(again, "{\"step\":25,\"checksum\"");
      assert_non_null(sum);
      if (step > 22) *strchr(sum, '\n') = '\0';
      assert_non_null(strstr(lines, sum));
      r.folder = NULL;
    }
    expect_same_file("straight", "branch", "model.safetensors");
  }
  size_t after = 0;
  char *now = read_file("straight", "metrics.jsonl", &after);
  assert_int_equal(size, after);
  assert_memory_equal(metrics, now, size);
  ls_release(ls_allocator_system(), metrics);
  ls_release(ls_allocator_system(), now);
}

TEST(a_checkpoint_that_is_not_there_is_named) {
  run_options r = {.optimizer = "sgd",
                   .folder = "straight",
                   .replicas = 1,
                   .save_steps = 10};
  ls_train_result result;
  expect_ok(run(&r, &result));
  r.folder = "branch";
  r.from = "nowhere";
  expect_status(run(&r, &result), LS_NOT_FOUND,
                "there is no run to go on from in 'nowhere'");
  r.from = "straight";
  r.from_step = LS_SOME(13);
  expect_status(run(&r, &result), LS_NOT_FOUND,
                "'straight' has no checkpoint of step 13; it has ");
  r.from_step = LS_SOME(20);
  r.replicas = 2;
  expect_status(run(&r, &result), LS_INVALID_ARGUMENT, "number of replicas");
  r.resume = true;
  expect_status(run(&r, &result), LS_INVALID_ARGUMENT,
                "a run either resumes in its folder or goes on from that of "
                "another one, 'straight'");
  r.from = NULL;
  r.resume = false;
  expect_status(run(&r, &result), LS_INVALID_ARGUMENT,
                "from_step is 20, but `from` names no run");
}

// ---- Saving ----------------------------------------------------------------
typedef struct world {
  int64_t now;          // A second passes with each look at the clock.
  const char *refused;  // Writing a file of this name fails.
  int checkpoints;
} world;

static int64_t next_second(void *user) {
  return __atomic_add_fetch(&((world *)user)->now, 1000000000,
                            __ATOMIC_RELAXED);
}

static ls_status refuse(world *w, const char *path) {
  const char *end = strrchr(path, '.');
  if (strstr(path, ".ckpt-") != NULL && strcmp(end, ".json") == 0)
    ++w->checkpoints;
  return w->refused != NULL && strstr(path, w->refused) != NULL
             ? LS_STATUS(LS_UNAVAILABLE,
                         "cannot write '%s': No space left on device", path)
             : ls_ok();
}

static ls_status write_or_refuse(void *user, const char *path, const void *data,
                                 size_t size) {
  LS_RETURN_IF_ERROR(refuse(user, path));
  return ls_file_system_system()->write(NULL, path, data, size);
}

static ls_status create_or_refuse(void *user, const char *path, bool join,
                                  void **out_file) {
  LS_RETURN_IF_ERROR(refuse(user, path));
  return ls_file_system_system()->create(NULL, path, join, out_file);
}

TEST(a_run_is_saved_now_and_then) {
  world w = {0};
  ls_file_system files = *ls_file_system_system();
  files.write = write_or_refuse;
  files.create = create_or_refuse;
  files.user = &w;
  const ls_clock clock = {.now = next_second, .wall = next_second, .user = &w};
  const ls_runtime_options options = {.file_system = &files, .clock = &clock};
  run_options r = {.optimizer = "sgd",
                   .folder = "saved",
                   .replicas = 1,
                   .save_seconds = 1000000,
                   .save_background = LS_FLAG_OFF,
                   .runtime = &options};
  ls_train_result result;
  expect_ok(run(&r, &result));
  assert_int_equal(w.checkpoints, 1);  // The end.
  w.checkpoints = 0;
  r.save_seconds = 1;
  expect_ok(run(&r, &result));
  assert_int_equal(w.checkpoints, NUM_STEPS);
}

static void count_warnings(void *user, const ls_log_line *line) {
  *(int *)user += line->level == LS_LOG_WARNING;
}

TEST(what_cannot_be_written_leaves_the_last_checkpoint) {
  world w = {0};
  ls_file_system files = *ls_file_system_system();
  files.write = write_or_refuse;
  files.create = create_or_refuse;
  files.user = &w;
  const ls_runtime_options options = {.file_system = &files};
  run_options r = {.optimizer = "adam",
                   .folder = "straight",
                   .replicas = 1,
                   .runtime = &options};
  ls_train_result result;
  expect_ok(run(&r, &result));
  r.folder = "full";
  r.stop_at = 9;
  expect_ok(run(&r, &result));
  r.stop_at = 0;
  r.resume = true;
  static const char *const refused[] = {"model.safetensors", ".ckpt-",
                                        "config.json"};
  for (size_t i = 0; i < 3; ++i) {
    w.refused = refused[2 - i];
    expect_status(run(&r, &result), LS_UNAVAILABLE, "No space left on device");
  }
  w.refused = NULL;
  expect_ok(run(&r, &result));
  expect_same_file("straight", "full", "model.safetensors");
}

// Written in the background: the step behind knows of it, or one more.
TEST(a_save_that_failed_ends_the_run_or_is_told) {
  world w = {.refused = ".ckpt-"};
  ls_file_system files = *ls_file_system_system();
  files.write = write_or_refuse;
  files.create = create_or_refuse;
  files.user = &w;
  int warnings = 0;
  const ls_runtime_options options = {
      .file_system = &files, .log = count_warnings, .log_user = &warnings};
  run_options r = {.optimizer = "sgd",
                   .folder = "unsaved",
                   .replicas = 1,
                   .save_steps = 5,
                   .runtime = &options};
  ls_train_result result;
  expect_status(run(&r, &result), LS_UNAVAILABLE,
                "while saving the checkpoint of step 5");
  assert_in_range(result.steps, 5, 10);
  assert_int_equal(warnings, 0);
  r.save_goes_on = true;
  expect_ok(run(&r, &result));
  assert_int_equal(result.steps, NUM_STEPS);
  assert_int_equal(warnings, NUM_STEPS / 5 + 1);
}

TEST(a_run_that_cannot_begin_leaves_no_folder) {
  world w = {.refused = "config.json"};
  ls_file_system files = *ls_file_system_system();
  files.write = write_or_refuse;
  files.create = create_or_refuse;
  files.user = &w;
  const ls_runtime_options options = {.file_system = &files};
  const run_options r = {.optimizer = "sgd",
                         .folder = "never",
                         .replicas = 1,
                         .runtime = &options};
  ls_train_result result;
  expect_status(run(&r, &result), LS_UNAVAILABLE, "config.json");
  bool exists = true;
  expect_ok(files.exists(NULL, "never", &exists));
  assert_false(exists);
}

// ---- What cannot be resumed ------------------------------------------------
static void begin_and_stop(run_options *r, const char *folder) {
  ls_train_result result;
  *r = (run_options){
      .optimizer = "adam", .folder = folder, .replicas = 1, .stop_at = 7};
  expect_ok(run(r, &result));
  r->stop_at = 0;
  r->resume = true;
}

TEST(another_run_is_not_gone_on_with) {
  run_options r;
  ls_train_result result;
  begin_and_stop(&r, "other");
  r.batch_size = 4;
  expect_status(run(&r, &result), LS_INVALID_ARGUMENT,
                "its batch size is 8, here it is 4");
  r.batch_size = 0;
  r.replicas = 2;
  expect_status(run(&r, &result), LS_INVALID_ARGUMENT,
                "its number of replicas is 1, here it is 2");
  r.replicas = 1;
  r.optimizer = "momentum";
  expect_status(run(&r, &result), LS_NOT_FOUND, "has no array 'momentum/step'");
  r.folder = "nowhere";
  expect_status(run(&r, &result), LS_NOT_FOUND,
                "'nowhere' is no run folder: it has no config.json");
}

TEST(a_damaged_checkpoint_is_refused) {
  run_options r;
  ls_train_result result;
  begin_and_stop(&r, "damaged-run");
  size_t size = 0;
  char *data = read_file("damaged-run", "model.ckpt-7.safetensors", &size);
  write_file("damaged-run", "model.ckpt-7.safetensors", data, size - 5);
  expect_status(run(&r, &result), LS_DATA_LOSS,
                "'damaged-run/model.ckpt-7.safetensors'");
  data[size - 3] ^= 4;
  write_file("damaged-run", "model.ckpt-7.safetensors", data, size);
  expect_status(run(&r, &result), LS_DATA_LOSS, "does not match");
  ls_release(ls_allocator_system(), data);
  remove_file("damaged-run", "model.ckpt-7.safetensors");
  expect_status(run(&r, &result), LS_NOT_FOUND, "model.ckpt-7.safetensors");
  remove_file("damaged-run", "model.ckpt-7.json");
  expect_status(run(&r, &result), LS_NOT_FOUND, "its checkpoints are gone");
}

TEST(a_run_that_never_saved_anything_starts_anew) {
  run_options r;
  ls_train_result result;
  begin_and_stop(&r, "killed");
  remove_file("killed", "model.ckpt-7.json");
  remove_file("killed", "model.safetensors");
  expect_ok(run(&r, &result));
  r.resume = false;
  r.folder = "straight";
  expect_ok(run(&r, &result));
  expect_same_file("straight", "killed", "model.safetensors");
  expect_status(ls_train(&(ls_train_options){0}, &result), LS_INVALID_ARGUMENT,
                "ls_train: options->strategy is NULL");
}
