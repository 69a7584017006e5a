// SPDX-License-Identifier: Apache-2.0
//
// Hosts whose data end at different times: each example counts once, whatever
// the others have.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/element_spec.h"
#include "support/estimators.h"

enum { MOST_HOSTS = 4 };

// Examples 0, 1, 2, ... lie on the hosts, one behind the other.
typedef struct uneven {
  estimator_case setup;
  int hosts, cores;  // Of each.
  ls_input_pipeline pipeline;
  const char *iterations;  // Default "3".
  const char *pod;         // Default: one of so many hosts and cores.
  ls_opt replica_cores;    // Cores of a replica.
  ls_nest parts;           // Of a batch over them.
  int64_t counts[MOST_HOSTS];
  int64_t rows;  // Of a host in a step.
} uneven;

static int64_t total(const uneven *u) {
  int64_t all = 0;
  for (int h = 0; h < u->hosts; ++h)
    all += u->counts[h];
  return all;
}

// Example `id`, as of the usual input.
static void fill(int64_t id, float *x, int32_t *y) {
  uint64_t state = (uint64_t)id * 0x9e3779b97f4a7c15u + 777;
  *y = (int32_t)(id % ESTIMATOR_CLASSES);
  for (int i = 0; i < ESTIMATOR_WIDTH; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x[i] = (float)(state >> 40) / (float)(1 << 24) * 0.5f +
           (i % ESTIMATOR_CLASSES == *y ? 0.5f : 0.0f);
  }
}

static ls_nest batch_of(int64_t size) {
  return LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(size, ESTIMATOR_WIDTH)),
                  ls_nest_zeros(LS_DTYPE_I32, LS_SHAPE(size)));
}

static ls_nest specs(void) {
  return LS_TUPLE(
      ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(LS_UNKNOWN_DIM, ESTIMATOR_WIDTH)),
      ls_nest_spec(LS_DTYPE_I32, LS_SHAPE(LS_UNKNOWN_DIM)));
}

static int64_t steps_of(int64_t count, int64_t rows) {
  return (count + rows - 1) / rows;
}

// ---- On the hosts ----------------------------------------------------------
typedef struct host_rows {
  int64_t first, count, rows;
} host_rows;

static ls_nest make_rows(void *user, int64_t index) {
  const host_rows *h = user;
  const int64_t at = index * h->rows;
  const int64_t size = h->count - at < h->rows ? h->count - at : h->rows;
  const ls_nest made = batch_of(size);
  if (ls_nest_is_failed(made)) return made;
  float *x = ls_nest_data(ls_nest_item(made, 0), 0);
  int32_t *y = ls_nest_data(ls_nest_item(made, 1), 0);
  for (int64_t i = 0; i < size; ++i)
    fill(h->first + at + i, x + i * ESTIMATOR_WIDTH, y + i);
  return made;
}

static host_rows hosts[MOST_HOSTS];

static ls_nest input_of_host(void *user, ls_input_call *call) {
  const uneven *u = user;
  ls_input_deployment at;
  expect_ok(ls_user_context_deployment(ls_params_context(call->params), &at));
  host_rows *mine = &hosts[at.invocation];
  *mine = (host_rows){.count = u->counts[at.invocation],
                      .rows = ls_params_i64(call->params, "batch_size", 0)};
  for (int h = 0; h < at.invocation; ++h)
    mine->first += u->counts[h];
  return ls_nest_dataset(ls_dataset_from_function(
      &(ls_index_options){.size = steps_of(mine->count, mine->rows),
                          .element = specs(),
                          .make = make_rows,
                          .user = mine}));
}

// ---- The same on a CPU -----------------------------------------------------
// How many examples host `h` has in a step.
static int64_t rows_in(const uneven *u, int h, int64_t step) {
  const int64_t left = u->counts[h] - step * u->rows;
  return left < 0 ? 0 : left < u->rows ? left : u->rows;
}

static int64_t num_steps(const uneven *u) {
  int64_t most = 0;
  for (int h = 0; h < u->hosts; ++h)
    if (steps_of(u->counts[h], u->rows) > most)
      most = steps_of(u->counts[h], u->rows);
  return most;
}

static ls_nest make_step(void *user, int64_t step) {
  const uneven *u = user;
  int64_t size = 0, first = 0, at = 0;
  for (int h = 0; h < u->hosts; ++h)
    size += rows_in(u, h, step);
  const ls_nest made = batch_of(size);
  if (ls_nest_is_failed(made)) return made;
  float *x = ls_nest_data(ls_nest_item(made, 0), 0);
  int32_t *y = ls_nest_data(ls_nest_item(made, 1), 0);
  for (int h = 0; h < u->hosts; ++h) {
    for (int64_t i = 0; i < rows_in(u, h, step); ++i, ++at)
      fill(first + step * u->rows + i, x + at * ESTIMATOR_WIDTH, y + at);
    first += u->counts[h];
  }
  return made;
}

static ls_nest input_of_all(void *user, ls_input_call *call) {
  uneven *u = user;
  (void)call;
  return ls_nest_dataset(ls_dataset_from_function(&(ls_index_options){
      .size = num_steps(u), .element = specs(), .make = make_step, .user = u}));
}

// ---- Cases -----------------------------------------------------------------
static ls_input_function input_of(uneven *u) {
  return (ls_input_function){
      .call = u->setup.way == ON_TPU ? input_of_host : input_of_all, .user = u};
}

static void begin_case(uneven *u, estimator_way way, const char *folder,
                       bool goes_on, bool any_batch) {
  static char pods[2][60];
  static int next;
  char *pod = pods[next++ % 2];
  const int replicas = u->hosts * u->cores;
  ls_tpu_config tpu = {.iterations_per_loop =
                           u->iterations != NULL ? u->iterations : "3",
                       .num_cores_per_replica = u->replica_cores,
                       .input_partition_dims = u->parts,
                       .per_host_input = u->pipeline};
  snprintf(pod, sizeof(pods[0]), "virtual:%dx1,cores=1,hosts=%d", replicas,
           u->hosts);
  const int64_t batch = u->rows * u->hosts;
  u->setup = (estimator_case){.way = way,
                              .replicas = replicas,
                              .batch = batch,
                              .any_batch = any_batch,
                              .folder = folder,
                              .goes_on = goes_on,
                              .config.random_seed = LS_SOME(3),
                              .config.tpu = &tpu,
                              .config.master = way != ON_TPU    ? NULL
                                               : u->pod != NULL ? u->pod
                                                                : pod};
  estimator_case_begin(&u->setup);
}

static void begin(uneven *u, estimator_way way, const char *folder,
                  bool goes_on) {
  begin_case(u, way, folder, goes_on, way == ON_TPU);
}

static ls_training_end train(uneven *u, int64_t max_steps) {
  ls_training_end end;
  expect_ok(ls_estimator_train(
      u->setup.estimator,
      &(ls_estimator_training){.input = input_of(u),
                               .max_steps = LS_SOME(max_steps)},
      &end));
  return end;
}

static ls_nest evaluate(uneven *u) {
  ls_nest metrics = ls_none();
  expect_ok(ls_estimator_evaluate(
      u->setup.estimator, &(ls_estimator_evaluation){.input = input_of(u)},
      &metrics));
  return metrics;
}

static const uneven cases[] = {
    {.hosts = 2, .cores = 1, .rows = 8, .counts = {45, 19}},
    {.hosts = 2, .cores = 3, .rows = 9, .counts = {10, 41}},
    {.hosts = 4, .cores = 2, .rows = 8, .counts = {17, 0, 40, 3}},
    {.hosts = 2, .cores = 1, .rows = 8, .counts = {0, 24}},
    {.hosts = 2, .cores = 2, .rows = 8, .counts = {16, 16}},
};

// ---- Evaluation ------------------------------------------------------------
TEST(each_example_of_each_host_is_evaluated_once) {
  LS_SPEC("E214");
  static const uneven large[] = {
      {.hosts = 2, .cores = 1, .rows = 64, .counts = {9000, 1007}},
      {.hosts = 2, .cores = 4, .rows = 100, .counts = {7, 10000}},
      {.hosts = 4, .cores = 2, .rows = 64, .counts = {1, 6000, 0, 4006}},
      {.hosts = 4, .cores = 1, .rows = 1, .counts = {100, 20, 7, 0}},
  };
  uneven trained = {.hosts = 1, .cores = 1, .rows = 64, .counts = {2000}};
  begin(&trained, ON_CPU, "uneven-eval", false);
  (void)train(&trained, 20);
  estimator_case_end(&trained.setup);
  for (size_t i = 0; i < LS_COUNT_OF(large); ++i) {
    uneven cpu = large[i], cores = large[i];
    cores.pipeline = LS_INPUT_PER_HOST_V2;
    begin(&cpu, ON_CPU, "uneven-eval", true);
    const ls_nest wanted = evaluate(&cpu);
    estimator_case_end(&cpu.setup);
    begin(&cores, ON_TPU, "uneven-eval", true);
    const ls_nest got = evaluate(&cores);
    assert_true(estimator_metric(got, "count") == (double)total(&cores));
    static const char *const names[] = {"accuracy", "mean", "loss"};
    for (int k = 0; k < 3; ++k)
      assert_true(fabs(estimator_metric(got, names[k]) -
                       estimator_metric(wanted, names[k])) < 1e-5);
    // Again: each evaluation begins at the start of all data.
    const ls_nest again = evaluate(&cores);
    assert_true(estimator_metric(again, "count") == (double)total(&cores));
    ls_nest_release(again);
    ls_nest_release(got);
    ls_nest_release(wanted);
    estimator_case_end(&cores.setup);
  }
}

// What one host reads, and all are given parts of.
TEST(slices_on_several_hosts_are_evaluated_once) {
  LS_SPEC("E214");
  static const struct {
    const char *pod;
    ls_opt cores;  // Of a replica.
  } pods[] = {{"virtual:2x1,cores=1,hosts=2", {0}},
              {"virtual:4x2,cores=1,hosts=4", {0}},
              {"virtual:2x2,hosts=2", {.set = true, .value = 2}}};
  for (size_t i = 0; i < LS_COUNT_OF(pods); ++i)
    for (int64_t batch = 7; batch <= 70; batch += 63) {
      LS_OWN(estimator_case,
             c) = {.way = ON_TPU,
                   .examples = 10007,
                   .batch = batch,
                   .any_batch = true,
                   .config.tpu =
                       &(ls_tpu_config){.eval_training_input = LS_INPUT_SLICED,
                                        .num_cores_per_replica = pods[i].cores},
                   .config.master = pods[i].pod};
      LS_OWN(ls_nest, metrics) = ls_none();
      estimator_case_begin(&c);
      expect_ok(ls_estimator_evaluate(
          c.estimator, &(ls_estimator_evaluation){.input = estimator_input(&c)},
          &metrics));
      assert_true(estimator_metric(metrics, "count") == 10007);
      assert_true(fabs(estimator_metric(metrics, "loss") -
                       estimator_metric(metrics, "mean")) < 1e-5);
    }
}

// As many steps as are asked for, and not more.
TEST(an_evaluation_of_some_steps_takes_those_of_all_hosts) {
  uneven u = cases[0];
  u.pipeline = LS_INPUT_PER_HOST_V2;
  begin(&u, ON_TPU, "uneven-some", false);
  static const int64_t wanted[] = {16, 32, 43, 51, 59, 64, 64};
  for (int steps = 1; steps <= 7; ++steps) {
    LS_OWN(ls_nest, metrics) = ls_none();
    expect_ok(ls_estimator_evaluate(
        u.setup.estimator,
        &(ls_estimator_evaluation){.input = input_of(&u),
                                   .steps = LS_SOME(steps)},
        &metrics));
    assert_true(estimator_metric(metrics, "count") ==
                (double)wanted[steps - 1]);
  }
  estimator_case_end(&u.setup);
}

// ---- Training --------------------------------------------------------------
static void train_both(const uneven *like, ls_input_pipeline pipeline) {
  uneven cpu = *like, cores = *like;
  const int64_t steps = num_steps(like);
  cores.pipeline = pipeline;
  begin(&cpu, ON_CPU, "uneven-cpu", false);
  begin(&cores, ON_TPU, "uneven-cores", false);
  // To the end of the data; then once more, to the middle of it.
  for (int round = 1; round <= 2; ++round) {
    const int64_t most = round == 1 ? 1000 : steps + steps / 2;
    const ls_training_end a = train(&cpu, most), b = train(&cores, most);
    assert_int_equal(a.step, round == 1 ? steps : most);
    assert_int_equal(b.step, a.step);
    assert_true(b.input_ended == (round == 1));
    estimator_cases_expect_equal(&cpu.setup, &cores.setup, 1e-5);
  }
  estimator_case_end(&cpu.setup);
  estimator_case_end(&cores.setup);
}

TEST(hosts_without_examples_count_nothing_in_a_step) {
  LS_SPEC("E214");
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    train_both(&cases[i], LS_INPUT_PER_HOST_V2);
    train_both(&cases[i], LS_INPUT_PER_HOST_V1);
  }
}

TEST(a_training_goes_on_where_some_hosts_have_ended) {
  LS_SPEC("E215");
  uneven whole = cases[2], parts = cases[2];
  whole.pipeline = parts.pipeline = LS_INPUT_PER_HOST_V2;
  begin(&whole, ON_TPU, "uneven-whole", false);
  assert_int_equal(train(&whole, 1000).step, 5);
  for (int step = 1; step <= 5; ++step) {
    begin(&parts, ON_TPU, "uneven-parts", step > 1);
    assert_int_equal(train(&parts, step).step, step);
    if (step < 5) estimator_case_end(&parts.setup);
  }
  estimator_cases_expect_equal(&whole.setup, &parts.setup, 0);
  estimator_case_end(&parts.setup);
  estimator_case_end(&whole.setup);
}

TEST(an_end_before_the_steps_can_be_an_error) {
  uneven u = cases[0];
  ls_training_end end;
  u.pipeline = LS_INPUT_PER_HOST_V2;
  begin(&u, ON_TPU, "uneven-end", false);
  estimator_case_end(&u.setup);
  u.setup.more.input_end_fails = true;
  u.setup.config.tpu = &(ls_tpu_config){.per_host_input = u.pipeline};
  u.setup.estimator = NULL;
  estimator_case_begin(&u.setup);
  expect_status(
      ls_estimator_train(u.setup.estimator,
                         &(ls_estimator_training){.input = input_of(&u),
                                                  .max_steps = LS_SOME(7)},
                         &end),
      LS_OUT_OF_RANGE, "shall not end");
  expect_ok(ls_estimator_train(
      u.setup.estimator,
      &(ls_estimator_training){.input = input_of(&u), .max_steps = LS_SOME(6)},
      &end));
  assert_int_equal(end.step, 6);
  estimator_case_end(&u.setup);
}

// ---- Whole steps of all hosts ----------------------------------------------
// Without batches of any size, the first host whose data end, ends them all.
static const struct {
  uneven hosts;
  int64_t steps;
} whole_steps[] = {
    {{.hosts = 2, .cores = 2, .rows = 8, .counts = {56, 56}}, 7},
    {{.hosts = 2, .cores = 2, .rows = 8, .counts = {93, 61}}, 7},
    {{.hosts = 4, .cores = 2, .rows = 8, .counts = {40, 57, 39, 80}}, 4},
};

static void expect_training_to_end(uneven *u, const char *folder,
                                   int64_t steps) {
  begin_case(u, ON_TPU, folder, false, false);
  const ls_training_end end = train(u, 1000);
  assert_int_equal(end.step, steps);
  assert_true(end.input_ended);
}

TEST(a_training_ends_after_the_last_step_that_all_hosts_have) {
  LS_SPEC("E173");
  static const char *const iterations[] = {"2", "4", "7", "100"};
  for (size_t i = 0; i < LS_COUNT_OF(whole_steps); ++i)
    for (int v2 = 0; v2 < 2; ++v2) {
      uneven single = whole_steps[i].hosts;
      single.pipeline = v2 ? LS_INPUT_PER_HOST_V2 : LS_INPUT_PER_HOST_V1;
      single.iterations = "1";
      expect_training_to_end(&single, "uneven-single", whole_steps[i].steps);
      for (size_t k = 0; k < LS_COUNT_OF(iterations); ++k) {
        uneven loop = single;
        loop.iterations = iterations[k];
        expect_training_to_end(&loop, "uneven-loop", whole_steps[i].steps);
        estimator_cases_expect_equal(&single.setup, &loop.setup, 0);
        estimator_case_end(&loop.setup);
      }
      estimator_case_end(&single.setup);
    }
}

TEST(an_evaluation_ends_after_the_last_step_that_all_hosts_have) {
  LS_SPEC("E173");
  for (size_t i = 0; i < LS_COUNT_OF(whole_steps); ++i)
    for (int more = 0; more < 3; ++more) {
      uneven u = whole_steps[i].hosts;
      const int64_t steps = whole_steps[i].steps;
      LS_OWN(ls_nest, metrics) = ls_none();
      u.pipeline = LS_INPUT_PER_HOST_V2;
      begin_case(&u, ON_TPU, "uneven-whole", false, false);
      expect_ok(ls_estimator_evaluate(
          u.setup.estimator,
          &(ls_estimator_evaluation){.input = input_of(&u),
                                     .steps = LS_SOME(steps + more)},
          &metrics));
      assert_true(estimator_metric(metrics, "count") ==
                  (double)(steps * u.rows * u.hosts));
      estimator_case_end(&u.setup);
    }
}

// ---- Replicas on several hosts ---------------------------------------------
// Each of four replicas is on two of four hosts, though a host has as many
// cores as a replica. They are fed one by one, as hosts of one core are.
TEST(replicas_that_lie_across_hosts_are_fed_one_by_one) {
  LS_SPEC("E117");
  const ls_nest parts =
      LS_LIST(LS_LIST(ls_nest_i64(4), ls_nest_i64(2)), LS_LIST(ls_nest_i64(1)));
  uneven single = {
      .hosts = 4, .cores = 1, .rows = 8, .counts = {40, 57, 39, 80}};
  single.pipeline = LS_INPUT_PER_HOST_V2;
  expect_training_to_end(&single, "uneven-single", 4);
  for (int cut = 0; cut < 2; ++cut) {
    uneven across = single;
    across.pod = "virtual:4x4,hosts=4";
    across.replica_cores = (ls_opt)LS_SOME(8);
    across.parts = cut ? parts : ls_none();
    expect_training_to_end(&across, "uneven-across", 4);
    estimator_cases_expect_equal(&single.setup, &across.setup, 0);
    estimator_case_end(&across.setup);
  }
  estimator_case_end(&single.setup);
  ls_nest_release(parts);
}

TEST(replicas_that_lie_across_hosts_need_input_of_their_own) {
  uneven u = {.hosts = 4,
              .cores = 1,
              .rows = 8,
              .counts = {40, 40, 40, 40},
              .pod = "virtual:4x4,hosts=4",
              .pipeline = LS_INPUT_PER_HOST_V1,
              .replica_cores = LS_SOME(8)};
  ls_training_end end;
  begin_case(&u, ON_TPU, "uneven-v1", false, false);
  expect_status(
      ls_estimator_train(u.setup.estimator,
                         &(ls_estimator_training){.input = input_of(&u),
                                                  .max_steps = LS_SOME(7)},
                         &end),
      LS_INVALID_ARGUMENT,
      "num_cores_per_replica is 8, and replicas of so many cores lie across "
      "the 4 hosts of 'virtual:4x4,hosts=4': only with PER_HOST_V2");
  estimator_case_end(&u.setup);
}

// ---- What fails ------------------------------------------------------------
static ls_nest half_values(void *user, ls_input_call *call) {
  const uneven *u = user;
  ls_input_deployment at;
  expect_ok(ls_user_context_deployment(ls_params_context(call->params), &at));
  return at.invocation == 0
             ? input_of_host(user, call)
             : LS_TUPLE(ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(u->rows, 6), 1)),
                        ls_leaf(ls_fill(LS_DTYPE_I32, LS_SHAPE(u->rows), 1)));
}

TEST(hosts_of_data_sets_and_of_values_are_refused) {
  for (int any_batch = 0; any_batch < 2; ++any_batch) {
    uneven u = cases[0];
    ls_training_end end;
    u.pipeline = LS_INPUT_PER_HOST_V1;
    begin_case(&u, ON_TPU, "uneven-values", false, any_batch == 1);
    expect_status(
        ls_estimator_train(
            u.setup.estimator,
            &(ls_estimator_training){.input = {.call = half_values, .user = &u},
                                     .max_steps = LS_SOME(7)},
            &end),
        LS_INVALID_ARGUMENT, "none for another");
    estimator_case_end(&u.setup);
  }
}

// The first real cause is told, also of a host that others wait for.
static ls_nest fail_later(void *user, int64_t index) {
  (void)user;
  return index < 2 ? make_rows(&hosts[1], index)
                   : LS_FAIL(LS_DATA_LOSS, "the disk of host 1 is gone");
}

static ls_nest failing_input(void *user, ls_input_call *call) {
  ls_input_deployment at;
  expect_ok(ls_user_context_deployment(ls_params_context(call->params), &at));
  const ls_nest made = input_of_host(user, call);
  if (at.invocation == 0) return made;
  ls_nest_release(made);
  return ls_nest_dataset(ls_dataset_from_function(&(ls_index_options){
      .size = 5, .element = specs(), .make = fail_later, .user = user}));
}

TEST(an_input_that_fails_is_told) {
  uneven u = cases[0];
  ls_training_end end;
  ls_nest metrics = ls_none();
  u.pipeline = LS_INPUT_PER_HOST_V2;
  begin(&u, ON_TPU, "uneven-fails", false);
  const ls_input_function input = {.call = failing_input, .user = &u};
  expect_status(ls_estimator_train(u.setup.estimator,
                                   &(ls_estimator_training){
                                       .input = input, .max_steps = LS_SOME(7)},
                                   &end),
                LS_DATA_LOSS, "the disk of host 1");
  expect_status(ls_estimator_evaluate(
                    u.setup.estimator,
                    &(ls_estimator_evaluation){.input = input}, &metrics),
                LS_DATA_LOSS, "the disk of host 1");
  estimator_case_end(&u.setup);
}

// ---- Prediction ------------------------------------------------------------
static int predict(estimator_case *c, double *numbers, int room) {
  ls_predictions *predictions = NULL;
  LS_OWN(ls_nest, row) = ls_none();
  int count = 0;
  expect_ok(ls_estimator_predict(
      c->estimator, &(ls_estimator_prediction){.input = estimator_input(c)},
      &predictions));
  for (;;) {
    const ls_status status = ls_predictions_next(predictions, &row);
    if (!ls_status_is_ok(status)) {
      expect_status(status, LS_OUT_OF_RANGE, "");
      break;
    }
    assert_true(count < room);
    numbers[count++] =
        ls_array_f64(ls_nest_as_array(ls_nest_find(row, "probabilities")), 0);
  }
  expect_ok(ls_predictions_close(predictions));
  return count;
}

TEST(slices_on_several_hosts_are_predicted_with_their_rest) {
  enum { ROWS = 51 };
  static const struct {
    const char *pod;
    int64_t batch;
    ls_tpu_config tpu;
  } ways[] = {
      {"virtual:2x1,cores=1,hosts=2",
       8,
       {.eval_training_input = LS_INPUT_SLICED}},
      {"virtual:4x2,cores=1,hosts=4",
       7,
       {.eval_training_input = LS_INPUT_SLICED}},
      {"virtual:6x1,cores=1,hosts=2",
       100,
       {.eval_training_input = LS_INPUT_SLICED}},
      {"virtual:4x1,cores=1,hosts=2",
       7,
       {.per_host_input = LS_INPUT_BROADCAST}},
      // Replicas of two cores.
      {"virtual:2x2,hosts=2",
       7,
       {.eval_training_input = LS_INPUT_SLICED,
        .num_cores_per_replica = {.set = true, .value = 2}}},
      {"virtual:2x2,hosts=2",
       7,
       {.per_host_input = LS_INPUT_BROADCAST,
        .num_cores_per_replica = {.set = true, .value = 2}}},
      // One replica over both hosts.
      {"virtual:2x2,cores=2,hosts=2",
       7,
       {.per_host_input = LS_INPUT_PER_HOST_V2,
        .num_cores_per_replica = {.set = true, .value = 8}}},
  };
  double wanted[ROWS], got[ROWS];
  estimator_case cpu = {.folder = "slices", .examples = ROWS, .batch = 10};
  estimator_case_begin(&cpu);
  (void)estimator_case_train(&cpu, 4);
  assert_int_equal(predict(&cpu, wanted, ROWS), ROWS);
  estimator_case_end(&cpu);
  for (size_t w = 0; w < LS_COUNT_OF(ways); ++w) {
    LS_OWN(estimator_case, c) = {.way = ON_TPU,
                                 .folder = "slices",
                                 .goes_on = true,
                                 .examples = ROWS,
                                 .batch = ways[w].batch,
                                 .any_batch = true,
                                 .config.tpu = &ways[w].tpu,
                                 .config.master = ways[w].pod};
    estimator_case_begin(&c);
    assert_int_equal(predict(&c, got, ROWS), ROWS);
    for (int i = 0; i < ROWS; ++i)
      assert_true(fabs(got[i] - wanted[i]) < 1e-6);
  }
}
