// SPDX-License-Identifier: Apache-2.0
//
// Estimators on ranks: each host of a pod is on one rank, which alone draws its
// input; the bytes of the model folder are those of one process.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "estimator/own.h"
#include "lockstep/communicator.h"
#include "lockstep/element_spec.h"
#include "lockstep/host.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/metrics.h"
#include "lockstep/replicate.h"
#include "lockstep/train_and_evaluate.h"
#include "lockstep/training_parts.h"
#include "support/estimators.h"
#include "support/place.h"
#include "support/resumable.h"
#include "support/sanitizer.h"

enum {
  RANKS = 4,
  HOSTS = 4,
  CORES = 8,
  EXAMPLES = 300,
  BATCH = 24,
  WIDTH = 5,
  CLASSES = 3
};

// How often a rank has done what.
typedef struct tally {
  int inputs;          // Calls of the input function.
  int drawn[HOSTS];    // Examples of each host.
  int heard;           // Calls of the host call's function.
  int outside[CORES];  // Calls of the function outside, of each replica.
  int64_t step;        // At the end.
  bool stopped, input_ended;
  double right;  // The last evaluation.
} tally;

typedef struct job job;
typedef struct source {
  job *j;
  int rank, host;
} source;

struct job {
  const char *folder;
  char name[40];
  int hosts, cores;  // Cores of each host.
  const char *iterations;
  int64_t steps, save_steps, save_seconds,
      examples;  // 0 examples: without end.
  bool evaluates, on_cpu, any_batch;
  bool is_uneven;             // The second host has fewer examples.
  const ls_train_stop *stop;  // Rank `stops_on` has it.
  int stops_on;
  int64_t fails_at;  // Example number of rank `fails_on` from 1 on; 0: none.
  int fails_on;
  int fails_to_hear;   // Host call number from 1 on; 0: none.
  bool fails_in_hook;  // After a run on rank `fails_on`.
  bool strays;         // That rank's weights become zeros after a run.
  int64_t check_ranks, seed, checksum, throttle;
  const char *stop_early;
  const char *warm;  // Folder of the initial values.
  job *odd;          // The job of rank 1, if it differs.
  ls_input_pipeline pipeline;
  tally counts[RANKS];
  source sources[RANKS][HOSTS];
};

static int rank_of(const ls_runtime *runtime) {
  const ls_communicator *ranks = ls_runtime_communicator(runtime);
  return ranks != NULL ? ranks->rank : 0;
}

// ---- Input -----------------------------------------------------------------
static ls_status make_example(void *user, int64_t index, ls_nest out) {
  const source *from = user;
  const job *j = from->j;
  tally *t = &from->j->counts[from->rank];
  const int made =
      __atomic_add_fetch(&t->drawn[from->host], 1, __ATOMIC_RELAXED);
  if (j->fails_at > 0 && j->fails_on == from->rank && made >= j->fails_at)
    return LS_STATUS(LS_DATA_LOSS, "the file is torn");
  float *x = ls_nest_data(out, 0);
  int32_t *y = ls_nest_data(out, 1);
  *y = (int32_t)(index % CLASSES);
  for (int i = 0; i < WIDTH; ++i)
    x[i] = (float)((index * 7919 + i * 104729) % 1000) / 2000.0f +
           (i % CLASSES == *y ? 0.5f : 0.0f);
  return ls_ok();
}

static ls_nest input(void *user, ls_input_call *call) {
  job *j = user;
  const int rank = rank_of(ls_runtime_current());
  ls_input_deployment where = {.num_invocations = 1};
  const ls_user_context *context = ls_params_context(call->params);
  const ls_status status =
      context != NULL ? ls_user_context_deployment(context, &where) : ls_ok();
  if (!ls_status_is_ok(status)) return ls_fail(status);
  ++j->counts[rank].inputs;
  source *from = &j->sources[rank][where.invocation];
  *from = (source){j, rank, (int)where.invocation};
  ls_dataset *data = ls_dataset_from_function(&(ls_index_options){
      .size = j->examples > 0 ? j->examples : EXAMPLES,
      .element = LS_TUPLE(ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(WIDTH)),
                          ls_nest_spec(LS_DTYPE_I32, LS_SCALAR)),
      .get = make_example,
      .user = from,
  });
  if (where.num_invocations > 1)
    data = ls_dataset_shard(data, where.num_invocations, where.invocation);
  if (j->is_uneven && where.invocation == 1)
    data = ls_dataset_take(data, BATCH / j->hosts * 7);
  if (call->mode == LS_MODE_TRAIN) {
    data = ls_dataset_shuffle(data, &(ls_shuffle_options){.seed = 5});
    if (j->examples == 0) data = ls_dataset_repeat(data, LS_INFINITE);
  }
  return ls_nest_dataset(ls_dataset_batch(
      data, &(ls_batch_options){
                .size = ls_params_i64(call->params, "batch_size", 1)}));
}

// ---- The model -------------------------------------------------------------
static job *now;

static ls_status count_heard(ls_host_call *call) {
  const int heard = __atomic_add_fetch(
      &now->counts[rank_of(call->runtime)].heard, 1, __ATOMIC_RELAXED);
  if (now->fails_to_hear > 0 && heard == now->fails_to_hear)
    return LS_STATUS(LS_DATA_LOSS, "the log is full");
  ls_host_done(call, ls_ok());
  return ls_ok();
}
static const ls_host_kernel heard_kernel = {.name = "ranks_heard",
                                            .start = count_heard};

static ls_status count_outside(ls_host_call *call) {
  __atomic_add_fetch(
      &now->counts[rank_of(call->runtime)].outside[call->replica], 1,
      __ATOMIC_RELAXED);
  ls_host_done(call, ls_ok());
  return ls_ok();
}
static const ls_host_kernel outside_kernel = {.name = "ranks_outside",
                                              .start = count_outside};

static ls_nest hear(ls_nest tensors, void *user) {
  (void)user;
  const ls_tensor said = ls_nest_tensor(tensors, 0);
  return ls_nest_op(ls_host_call_add(&heard_kernel, NULL, &said, 1));
}

static ls_nest go_outside(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_op told = ls_host_call_add(&outside_kernel, NULL, &x, 1);
  LS_CONTROL_SCOPE(&told, 1);
  return ls_leaf(ls_mul_scalar(x, 2));
}

static ls_nest measure(ls_nest tensors, void *user) {
  (void)user;
  return ls_nest_dict("", (const char *const[]){"right"},
                      (ls_nest[]){ls_metric_accuracy(ls_nest_tensor(tensors, 0),
                                                     ls_nest_tensor(tensors, 1),
                                                     ls_no_weights(), "right")},
                      1);
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  ls_variable *weights = NULL;
  LS_OWN(ls_nest, said) = ls_none();
  LS_OWN(ls_nest, measured) = ls_none();
  LS_OWN(ls_nest, twice) = ls_none();
  LS_OWN(ls_nest, given) = ls_none();
  LS_RETURN_IF_ERROR(
      ls_weight_create(&(ls_weight_options){.name = "weights",
                                            .shape = LS_SHAPE(WIDTH, CLASSES)},
                       &weights));
  const ls_tensor dropped =
      call->mode == LS_MODE_TRAIN
          ? ls_dropout(call->features.as.tensor, 0.1, true, NULL)
          : call->features.as.tensor;
  const ls_tensor product = ls_matmul(dropped, ls_variable_read(weights));
  ls_variable_release(weights);
  given = LS_TUPLE(ls_leaf(product));
  const job *j = user;
  twice = j->on_cpu ? ls_nest_retain(given)
                    : ls_outside_compilation(go_outside, NULL, given);
  LS_RETURN_IF_ERROR(ls_nest_status(twice));
  const ls_tensor logits =
      ls_nest_is_node(twice) ? ls_nest_tensor(twice, 0) : twice.as.tensor;
  const ls_tensor labels = call->labels.as.tensor;
  ls_estimator_spec_options o = {.mode = call->mode};
  o.loss = ls_mean_softmax_cross_entropy(logits, labels);
  said = LS_LIST(ls_leaf(logits));
  o.host_call = (ls_host_function){.call = hear, .tensors = said};
  measured = LS_LIST(ls_leaf(labels),
                     ls_leaf(ls_convert(ls_argmax(logits, 1), LS_DTYPE_I32)));
  if (call->mode == LS_MODE_EVAL)
    o.eval_metrics = (ls_host_function){.call = measure, .tensors = measured};
  else
    LS_RETURN_IF_ERROR(cross_shard_train_op(o.loss, &o.train_op));
  return ls_tpu_estimator_spec_create(&o, out);
}

static ls_opt some(int64_t count) {
  return count > 0 ? (ls_opt)LS_SOME(count) : (ls_opt){0};
}

static ls_status fail_after_run(void *user, ls_run_context *context,
                                ls_nest results) {
  (void)user, (void)context, (void)results;
  return LS_STATUS(LS_DATA_LOSS, "the hook fails");
}

static ls_status lose_weights(void *user, ls_run_context *context,
                              ls_nest results) {
  static const float none[WIDTH * CLASSES];
  ls_nest leaf = ls_none();
  LS_OWN(ls_array, zeros) = NULL;
  (void)user, (void)results;
  (void)ls_graph_collection(ls_run_context_graph(context),
                            LS_COLLECTION_TRAINABLE_VARIABLES, &leaf, 1);
  LS_RETURN_IF_ERROR(ls_array_create_copy(
      LS_DTYPE_F32, LS_SHAPE(WIDTH, CLASSES), none, &zeros));
  return ls_session_set_variable_value(ls_run_context_session(context),
                                       ls_nest_as_variable(leaf), zeros);
}

// ---- A rank ----------------------------------------------------------------
static ls_status train(job *j, tally *t) {
  LS_OWN(ls_hook, hook) = NULL;
  if ((j->fails_in_hook || j->strays) && t == &j->counts[j->fails_on])
    LS_RETURN_IF_ERROR(ls_hook_create(
        &(ls_hook_options){.name = "of the test",
                           .after_run =
                               j->strays ? lose_weights : fail_after_run},
        &hook));
  const ls_train_stop *stop = t == &j->counts[j->stops_on] ? j->stop : NULL;
  char name[80];
  LS_OWN(ls_run_config, config) = NULL;
  LS_OWN(ls_estimator, estimator) = NULL;
  snprintf(name, sizeof(name), "virtual:%dx1,cores=1,hosts=%d",
           j->hosts * j->cores, j->hosts);
  const ls_tpu_config tpu = {.iterations_per_loop =
                                 j->iterations != NULL ? j->iterations : "3",
                             .per_host_input = j->pipeline};
  LS_RETURN_IF_ERROR(ls_tpu_run_config_create(
      &(ls_run_config_options){.master = name,
                               .model_dir = j->folder,
                               .random_seed = LS_SOME(11 + j->seed),
                               .save_checkpoints_steps = some(j->save_steps),
                               .save_checkpoints_secs = some(j->save_seconds),
                               .tpu = &tpu},
      &config));
  const ls_warm_start warm = {.path = j->warm};
  LS_RETURN_IF_ERROR(ls_estimator_create(
      &(ls_estimator_options){.model_fn = {.call = model, .user = j},
                              .config = config,
                              .any_batch = j->any_batch,
                              .warm_start = j->warm != NULL ? &warm : NULL,
                              .eval_on_tpu =
                                  j->on_cpu ? LS_FLAG_OFF : LS_FLAG_DEFAULT,
                              .train_batch_size = LS_SOME(BATCH),
                              .eval_batch_size = LS_SOME(BATCH)},
      &estimator));
  const ls_input_function from = {.call = input, .user = j};
  if (!j->evaluates) {
    ls_training_end end = {0};
    LS_RETURN_IF_ERROR(ls_estimator_train(
        estimator,
        &(ls_estimator_training){.input = from,
                                 .max_steps = LS_SOME(j->steps),
                                 .hooks = &hook,
                                 .num_hooks = hook != NULL,
                                 .stop = stop,
                                 .lines = {.metrics = j->checksum > 0,
                                           .checksum = j->checksum,
                                           .check_ranks = j->check_ranks}},
        &end));
    t->step = end.step;
    t->stopped = end.stopped;
    t->input_ended = end.input_ended;
    return ls_ok();
  }
  ls_train_and_evaluation end = {0};
  const ls_status status = ls_train_and_evaluate(
      estimator,
      &(ls_train_spec){.input = from, .max_steps = LS_SOME(j->steps)},
      &(ls_eval_spec){.input = from,
                      .steps = LS_SOME(3),
                      .throttle_secs = LS_SOME(j->throttle),
                      .stop_early = j->stop_early},
      &end);
  t->step = end.training.step;
  if (ls_status_is_ok(status) && end.metrics.kind == LS_KIND_DICT &&
      t == j->counts)
    t->right = estimator_metric(end.metrics, "right");
  ls_train_and_evaluation_deinit(&end);
  return status;
}

static ls_status work(ls_communicator *communicator, void *user) {
  job *j = user;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  return train(communicator->rank == 1 && j->odd != NULL ? j->odd : j,
               &j->counts[communicator->rank]);
}

static void run(job *j, int ranks) {
  now = j;
  memset(j->counts, 0, sizeof(j->counts));
  expect_ok(ls_standin_run(ranks, work, j));
}

// ---- Folders ---------------------------------------------------------------
// Reads a file; a .json without the time at which it was written.
static char *read_file(const char *folder, const char *name, size_t *out_size) {
  char path[120];
  snprintf(path, sizeof(path), "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  if (file == NULL) fail_msg("there is no '%s'", path);
  char *bytes = calloc(1, 1 << 20);
  assert_non_null(bytes);
  *out_size = fread(bytes, 1, (1 << 20) - 1, file);
  fclose(file);
  char *wall = strstr(name, ".json") != NULL ? strstr(bytes, "\"wall\"") : NULL;
  if (wall == NULL) return bytes;
  const char *rest = strchr(wall, ',');
  char *tail = strstr(bytes, ",\"crc32c\":\"");
  assert_true(rest != NULL && tail != NULL);
  *tail = '\0';
  memmove(wall, rest, strlen(rest) + 1);
  *out_size = strlen(bytes);
  return bytes;
}

static void expect_equal_file(const char *a, const char *b, const char *name) {
  size_t sizes[2];
  char *bytes[2] = {read_file(a, name, &sizes[0]),
                    read_file(b, name, &sizes[1])};
  if (sizes[0] != sizes[1] || memcmp(bytes[0], bytes[1], sizes[0]) != 0)
    fail_msg("%s/%s and %s/%s differ", a, name, b, name);
  free(bytes[0]);
  free(bytes[1]);
}

static void expect_same_folder(const char *a, const char *b, int64_t step) {
  char name[60];
  expect_equal_file(a, b, "graph.ls");
  snprintf(name, sizeof(name), "model.ckpt-%" PRId64 ".safetensors", step);
  expect_equal_file(a, b, name);
  snprintf(name, sizeof(name), "model.ckpt-%" PRId64 ".json", step);
  expect_equal_file(a, b, name);
}

// ---- Whose work ------------------------------------------------------------
// A host's examples are drawn on its rank alone, host calls are made on the
// first, and each replica is outside once a step, where it runs.
static void expect_work(const job *j, int ranks, int64_t steps, int feeders) {
  const int replicas = j->hosts * j->cores;
  const ls_communicator all = {.ranks = ranks};
  for (int k = 0; k < ranks; ++k) {
    const tally *t = &j->counts[k];
    assert_int_equal(t->step, j->steps);
    for (int h = 0; h < feeders; ++h)
      assert_true((t->drawn[h] > 0) == (h * ranks / j->hosts == k));
    assert_int_equal(t->heard, k == 0 ? steps : 0);
    for (int r = 0; r < replicas; ++r)
      assert_int_equal(t->outside[r],
                       ls_communicator_find(&all, r, replicas) == k ? steps
                                                                    : 0);
  }
}

// ---- Training --------------------------------------------------------------
static void train_on(job *j, const char *name, int ranks) {
  snprintf(j->name, sizeof(j->name), "%s-%d", name, ranks);
  j->folder = j->name;
  remove_folder(j->folder);
  run(j, ranks);
}

static void expect_same_on_ranks(job j, const char *name, int feeders) {
  train_on(&j, name, 1);
  char alone[40];
  snprintf(alone, sizeof(alone), "%s", j.folder);
  expect_work(&j, 1, j.steps, feeders);
  for (int ranks = 2; ranks <= RANKS && ranks <= j.hosts * j.cores; ++ranks) {
    train_on(&j, name, ranks);
    expect_work(&j, ranks, j.steps, feeders);
    expect_same_folder(alone, j.folder, j.steps);
  }
}

TEST(an_estimator_on_ranks_gives_the_bytes_of_one_process) {
  static const int pods[][2] = {{1, 4}, {2, 2}, {4, 1}, {3, 2}, {2, 1}, {1, 8}};
  for (size_t i = 0; i < LS_COUNT_OF(pods); ++i) {
    const job j = {.hosts = pods[i][0],
                   .cores = pods[i][1],
                   .steps = 17,
                   .save_steps = 5,
                   .check_ranks = 2};
    expect_same_on_ranks(j, "straight", j.hosts);
  }
}

TEST(so_it_does_where_one_host_feeds_all) {
  const job j = {.hosts = 2,
                 .cores = 2,
                 .steps = 9,
                 .save_steps = 5,
                 .pipeline = LS_INPUT_BROADCAST};
  expect_same_on_ranks(j, "broadcast", 1);
}

TEST(a_training_goes_on_on_another_number_of_ranks) {
  job j = {.hosts = 4, .cores = 2, .steps = 20, .save_steps = 5};
  train_on(&j, "whole", 1);
  char whole[40];
  snprintf(whole, sizeof(whole), "%s", j.folder);
  j.steps = 5;
  train_on(&j, "parts", 3);
  static const int ranks[] = {2, 4, 1};
  for (size_t i = 0; i < LS_COUNT_OF(ranks); ++i) {
    j.steps += 5;
    run(&j, ranks[i]);
  }
  expect_same_folder(whole, j.folder, 20);
}

// ---- Evaluations -----------------------------------------------------------
static void expect_same_evaluations(job j, const char *name) {
  double right = 0;
  for (int ranks = 1; ranks <= RANKS; ++ranks) {
    train_on(&j, name, ranks);
    for (int k = 0; k < ranks; ++k)
      assert_int_equal(j.counts[k].step, j.steps);
    if (ranks == 1) right = j.counts[0].right;
    assert_true(right > 0 && j.counts[0].right == right);
    char first[50];
    snprintf(first, sizeof(first), "%s-1", name);
    expect_same_folder(first, j.folder, j.steps);
  }
}

TEST(evaluations_in_between_measure_the_same) {
  const job j = {.hosts = 2,
                 .cores = 2,
                 .steps = 9,
                 .save_steps = 4,
                 .evaluates = true,
                 .pipeline = LS_INPUT_BROADCAST};
  expect_same_evaluations(j, "evaluated");
}

TEST(evaluations_on_a_cpu_are_those_of_rank_0) {
  const job j = {.hosts = 2,
                 .cores = 2,
                 .steps = 9,
                 .save_steps = 4,
                 .evaluates = true,
                 .on_cpu = true};
  expect_same_evaluations(j, "on-cpu");
}

// ---- Ends ------------------------------------------------------------------
// Results of a rank, with the same end on all.
static int64_t train_to_end(job *j, const char *name, int ranks) {
  train_on(j, name, ranks);
  for (int k = 1; k < ranks; ++k) {
    assert_int_equal(j->counts[k].step, j->counts[0].step);
    assert_int_equal(j->counts[k].stopped, j->counts[0].stopped);
    assert_int_equal(j->counts[k].input_ended, j->counts[0].input_ended);
  }
  return j->counts[0].step;
}

// With batches of any size, they end with the last.
static void expect_end_on_ranks(int hosts, bool any_batch) {
  char name[30], first[40];
  snprintf(name, sizeof(name), "ends-%d-%d", hosts, any_batch);
  job j = {.hosts = hosts,
           .cores = 2,
           .steps = 1000,
           .save_steps = 3,
           .examples = 12 * 18 + 1,
           .is_uneven = true,
           .any_batch = any_batch};
  const int64_t step = train_to_end(&j, name, 1);
  assert_true(j.counts[0].input_ended && step == (any_batch ? 10 : 7));
  snprintf(first, sizeof(first), "%s", j.folder);
  for (int ranks = 2; ranks <= RANKS; ++ranks) {
    assert_int_equal(train_to_end(&j, name, ranks), step);
    assert_true(j.counts[0].input_ended);
    expect_same_folder(first, j.folder, step);
    for (int k = 0; k < ranks; ++k)
      for (int h = 0; h < hosts; ++h)
        assert_true((j.counts[k].drawn[h] > 0) == (h * ranks / hosts == k));
  }
}

TEST(all_ranks_end_with_the_first_input_that_ends) {
  for (int hosts = 2; hosts <= HOSTS; hosts += 2)
    for (int any = 0; any < 2; ++any)
      expect_end_on_ranks(hosts, any == 1);
}

TEST(a_stop_on_one_rank_stops_all_after_the_same_step) {
  ls_train_stop stop = {0};
  ls_train_stop_request(&stop);
  job j = {.hosts = 2,
           .cores = 2,
           .steps = 20,
           .save_steps = 50,
           .stop = &stop,
           .stops_on = 2};
  assert_int_equal(train_to_end(&j, "stopped", 3), 0);
  assert_true(j.counts[0].stopped);
  assert_false(j.counts[0].input_ended);
}

TEST(saves_and_runs_by_time_go_by_the_clock_of_rank_0) {
  job j = {.hosts = 2,
           .cores = 1,
           .steps = 9,
           .save_seconds = 1,
           .iterations = "1s"};
  train_on(&j, "timed", 2);
  expect_work(&j, 2, 9, 2);
}

// ---- Failures --------------------------------------------------------------
static void expect_failure(job j, const char *text) {
  j.hosts = 3;
  j.cores = 2;
  j.steps = 1000;
  j.save_steps = 500;
  j.folder = "failed";
  remove_folder(j.folder);
  now = &j;
  expect_status(ls_standin_run(3, work, &j), LS_DATA_LOSS, text);
}

TEST(a_failure_on_one_rank_ends_all) {
  for (int rank = 0; rank < 3; ++rank) {
    expect_failure((job){.fails_at = 40, .fails_on = rank}, "the file is torn");
    expect_failure((job){.fails_in_hook = true, .fails_on = rank},
                   "the hook fails");
  }
  expect_failure((job){.fails_to_hear = 5}, "the log is full");
  expect_failure((job){.strays = true, .fails_on = 1, .check_ranks = 4},
                 "another value of variable 'weights' at step 6");
}

// ---- Refused ---------------------------------------------------------------
// The job of rank 1 differs, and no rank waits for it.
static void expect_odd(const job *like, job odd, const char *text) {
  job j = *like;
  j.folder = odd.folder = "odd";
  j.odd = &odd;
  remove_folder(j.folder);
  now = &j;
  expect_status(ls_standin_run(2, work, &j), LS_FAILED_PRECONDITION, text);
}

TEST(options_that_differ_are_named_before_the_first_step) {
  const job like = {.hosts = 2, .cores = 1, .steps = 9, .save_steps = 3};
  job odd[9];
  for (size_t i = 0; i < LS_COUNT_OF(odd); ++i)
    odd[i] = like;
  odd[0].seed = 1;
  expect_odd(&like, odd[0], "ranks 0 and 1 train with another seed: 11 and 12");
  odd[1].steps = 8;
  expect_odd(&like, odd[1], "another number of steps: 9 and 8");
  odd[2].save_steps = 2;
  expect_odd(&like, odd[2], "another number of steps between saves: 3 and 2");
  odd[3].checksum = 1;
  expect_odd(&like, odd[3], "another use of lines of metrics: 0 and 1");
  odd[4].check_ranks = 1;
  expect_odd(&like, odd[4], "another check_ranks: 0 and 1");
  odd[5].iterations = "1";
  expect_odd(&like, odd[5], "another iterations_per_loop: 3 and 1");
  odd[6].evaluates = true;
  expect_odd(&like, odd[6], "another use of evaluations: 0 and 1");
  job evaluates = like;
  evaluates.evaluates = true;
  evaluates.on_cpu = odd[7].on_cpu = true;
  expect_odd(&evaluates, odd[7], "another use of evaluations: 1 and 0");
  odd[8] = evaluates;
  odd[8].stop_early = "loss";
  expect_odd(&evaluates, odd[8],
             "another rule of early stopping: none and loss");
}

TEST(data_and_initial_values_that_differ_are_named_before_the_first_step) {
  job like = {.hosts = 2, .cores = 1, .steps = 6, .save_steps = 3};
  job odd = like;
  odd.examples = EXAMPLES + 1;
  like.examples = EXAMPLES;
  expect_odd(&like, odd,
             "ranks 0 and 1 begin with another data, by their hash");
  static const char *const folders[] = {"warm-0", "warm-1"};
  for (int i = 0; i < 2; ++i) {
    job old = {.folder = folders[i],
               .hosts = 2,
               .cores = 1,
               .steps = 3,
               .save_steps = 3,
               .seed = i};
    remove_folder(old.folder);
    run(&old, 1);
  }
  like.examples = 0;
  odd = like;
  like.warm = folders[0];
  odd.warm = folders[1];
  expect_odd(&like, odd,
             "ranks 0 and 1 begin with another value of variable 'weights' at "
             "step 0: ");
}

TEST(more_ranks_than_cores_are_refused_on_all) {
  job j = {.hosts = 1, .cores = 2, .steps = 5, .save_steps = 5};
  j.folder = "refused";
  now = &j;
  expect_status(ls_standin_run(3, work, &j), LS_INVALID_ARGUMENT,
                "2 cores on 3 ranks");
}
