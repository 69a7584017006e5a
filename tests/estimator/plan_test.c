// SPDX-License-Identifier: Apache-2.0
//
// What follows from an estimator's configuration and its system.
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "estimator/config/config.h"
#include "estimator/config/plan.h"
#include "estimator/own.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/spec.h"

// ---- A world that is ours --------------------------------------------------
typedef struct world {
  counted runtime;
  int warnings;
  char last_warning[300];
  // A system that answers: hosts with so many cores each, in a row, or on odd
  // hosts from the last to the first.
  int hosts, each, queries, topologies;
  const char *devices[64];
  char names[64][64];
  ls_topology *topology;
  ls_tpu_resolver *resolver;
  ls_run_config *config;
  ls_plans *plans;
} world;

static void note(void *user, const ls_log_line *line) {
  world *w = user;
  if (line->level != LS_LOG_WARNING) return;
  ++w->warnings;
  snprintf(w->last_warning, sizeof(w->last_warning), "%s", line->text);
}

static const char *no_environment(void *user, const char *name) {
  (void)user;
  (void)name;
  return NULL;
}

static ls_status query(void *user, const ls_tpu_question *question,
                       ls_tpu_answer *out) {
  world *w = user;
  ++w->queries;
  out->devices = w->devices;
  size_t count = 0;
  for (int h = 0; h < w->hosts; ++h) {
    snprintf(w->names[count], 64, "/job:worker/task:%d/device:CPU:0", h);
    ++count;
    for (int i = 0; i < w->each; ++i, ++count)
      snprintf(w->names[count], 64, "/job:worker/task:%d/device:TPU:%d", h, i);
  }
  for (size_t i = 0; i < count; ++i)
    w->devices[i] = w->names[i];
  out->num_devices = count;
  if (!question->wants_topology) return ls_ok();
  ++w->topologies;
  out->topology = ls_topology_serialized(w->topology, &out->topology_size);
  return ls_ok();
}

// Hosts split x; chips have two cores.
static ls_topology *topology_of(int hosts, int each, bool turns) {
  const int32_t mesh[] = {hosts * each / 4, 2, 1, 2};
  LS_OWN(ls_array, places) = NULL;
  ls_topology *topology = NULL;
  expect_ok(ls_array_create(LS_DTYPE_I32, LS_SHAPE(hosts, each, 4), &places));
  for (int i = 0; i < hosts * each; ++i) {
    const int host = i / each, first = host * each;
    const int at = turns && host % 2 == 1 ? first + each - 1 - i % each : i;
    ls_array_set_i64(places, 4 * i, at / 4);
    ls_array_set_i64(places, 4 * i + 1, at / 2 % 2);
    ls_array_set_i64(places, 4 * i + 2, 0);
    ls_array_set_i64(places, 4 * i + 3, at % 2);
  }
  expect_ok(ls_topology_create(mesh, 4, places, &topology));
  return topology;
}

typedef struct facts {
  int hosts, each;  // 0 hosts: the local system.
  ls_tpu_config tpu;
  ls_opt train, eval, predict;
  ls_flag use_tpu, eval_on_tpu;
  bool any_batch, turns;
  const char *evaluation_master, *master;
} facts;

static void begin(world *w, facts f) {
  *w = (world){.hosts = f.hosts, .each = f.each};
  w->runtime = counted_begin_with((ls_runtime_options){
      .threads = 1, .log = note, .log_user = w, .environment = no_environment});
  if (f.hosts > 0) {
    if (f.each > 0 && f.each % 4 == 0)
      w->topology = topology_of(f.hosts, f.each, f.turns);
    expect_ok(ls_tpu_resolver_create(
        &(ls_tpu_resolver_options){
            .name = "grpc://h0,h1,h2,h3", .query = query, .user = w},
        &w->resolver));
  }
  expect_ok(ls_tpu_run_config_create(
      &(ls_run_config_options){.resolver = w->resolver,
                               .master = f.master,
                               .evaluation_master = f.evaluation_master,
                               .tpu = &f.tpu},
      &w->config));
  expect_ok(ls_plans_create(
      &(ls_estimator_facts){.config = w->config,
                            .batch_sizes = {[LS_MODE_TRAIN] = f.train,
                                            [LS_MODE_EVAL] = f.eval,
                                            [LS_MODE_PREDICT] = f.predict},
                            .use_tpu = f.use_tpu,
                            .eval_on_tpu = f.eval_on_tpu,
                            .any_batch = f.any_batch},
      &w->plans));
}

static void end(world *w) {
  ls_plans_destroy(w->plans);
  ls_run_config_release(w->config);
  if (w->resolver != NULL) ls_tpu_resolver_release(w->resolver);
  if (w->topology != NULL) ls_topology_release(w->topology);
  counted_end(&w->runtime);
}
LS_OWNED_STRUCT(world, end)

static const ls_plan *in(const world *w, ls_estimator_mode mode) {
  const ls_plan *plan = NULL;
  expect_ok(ls_plans_get(w->plans, mode, false, &plan));
  return plan;
}

static const ls_plan *of_training(const world *w) {
  return in(w, LS_MODE_TRAIN);
}

static const ls_plan *of_export(const world *w, ls_estimator_mode mode) {
  const ls_plan *plan = NULL;
  expect_ok(ls_plans_get(w->plans, mode, true, &plan));
  return plan;
}

static void expect_refused(const world *w, ls_estimator_mode mode, ls_code code,
                           const char *says) {
  const ls_plan *plan = NULL;
  expect_status(ls_plans_get(w->plans, mode, false, &plan), code, says);
  assert_null(plan);
}

static void expect_invalid(facts f, ls_estimator_mode mode, ls_code code,
                           const char *says) {
  LS_OWN_BEGUN(world, w, begin, f);
  expect_refused(&w, mode, code, says);
}

// ---- The system ------------------------------------------------------------
TEST(one_shard_is_one_core) {
  LS_SPEC("E34");
  LS_OWN_BEGUN(world, w, begin,
               (facts){.tpu.num_shards = LS_SOME(1), .train = LS_SOME(3)});
  assert_int_equal(w.warnings, 1);
  assert_non_null(strstr(w.last_warning, "num_shards is 1"));
  const ls_plan *plan = of_training(&w);
  assert_int_equal(plan->system->num_cores, 1);
  assert_int_equal(plan->system->num_hosts, 1);
  assert_int_equal(plan->system->cores_per_host, 1);
  assert_false(plan->on_cpu);
  end(&w);
  // Two are a number as any other, and so is one with model parallelism.
  begin(&w, (facts){.hosts = 1, .each = 2, .tpu.num_shards = LS_SOME(2)});
  assert_int_equal(w.warnings, 0);
  assert_int_equal(of_training(&w)->system->num_cores, 2);
  end(&w);
  begin(&w, (facts){.hosts = 1,
                    .each = 4,
                    .tpu = {.num_shards = LS_SOME(1),
                            .num_cores_per_replica = LS_SOME(4)}});
  assert_int_equal(w.warnings, 0);
  assert_int_equal(of_training(&w)->system->num_cores, 4);
}

TEST(a_mode_is_needed_and_systems_are_asked_once) {
  LS_SPEC("E35 E36");
  facts f = {.hosts = 2,
             .each = 4,
             .tpu.per_host_input = LS_INPUT_BROADCAST,
             .eval = LS_SOME(8),
             .predict = LS_SOME(8)};
  LS_OWN_BEGUN(world, w, begin, f);
  expect_refused(&w, LS_MODE_NONE, LS_FAILED_PRECONDITION, "mode");
  expect_refused(&w, LS_NUM_MODES, LS_FAILED_PRECONDITION, "mode");
  assert_int_equal(w.queries, 0);
  // Once, whatever the mode and however often.
  for (int i = 0; i < 2; ++i)
    for (ls_estimator_mode mode = LS_MODE_TRAIN; mode < LS_NUM_MODES; ++mode) {
      assert_int_equal(in(&w, mode)->mode, mode);
      assert_ptr_equal(in(&w, mode), in(&w, mode));
      assert_ptr_equal(in(&w, mode)->system, of_training(&w)->system);
    }
  assert_int_equal(w.queries, 1);
  assert_int_equal(w.topologies, 0);
  end(&w);
  // Evaluation has a master of its own, which is asked by itself.
  f.evaluation_master = "";
  begin(&w, f);
  const ls_plan_system *same = of_training(&w)->system;
  assert_int_equal(same->num_hosts, 2);
  assert_int_equal(in(&w, LS_MODE_EVAL)->system->num_hosts, 1);  // The local.
  assert_int_equal(w.queries, 1);
  assert_ptr_equal(in(&w, LS_MODE_PREDICT)->system, same);
  end(&w);
  // A topology is asked for where replicas have several cores, and only there.
  begin(
      &w,
      (facts){.hosts = 2, .each = 4, .tpu.num_cores_per_replica = LS_SOME(2)});
  assert_non_null(of_training(&w)->system->assignment);
  assert_int_equal(w.topologies, 1);
}

// A system that did not answer is asked again.
TEST(what_is_refused_is_resolved_again) {
  LS_OWN_BEGUN(world, w, begin, (facts){.hosts = 2});
  expect_refused(&w, LS_MODE_TRAIN, LS_NOT_FOUND, "no TPU");
  w.each = 4;
  assert_int_equal(of_training(&w)->system->num_replicas, 8);
  assert_int_equal(w.queries, 2);
}

// ---- Replicas --------------------------------------------------------------
TEST(model_parallelism_deals_cores_to_replicas) {
  LS_SPEC("E37 E38");
  static const struct {
    int64_t cores, replicas, per_host;
    int32_t last[4];  // Of replica 0: relative to its first.
  } rows[] = {{1, 8, 4, {0, 0, 0, 0}},
              {2, 4, 2, {0, 0, 0, 1}},
              {4, 2, 1, {0, 1, 0, 1}},
              {8, 1, 0, {1, 1, 0, 1}}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN_BEGUN(
        world, w, begin,
        (facts){.hosts = 2,
                .each = 4,
                .tpu = {.num_cores_per_replica = LS_SOME(rows[i].cores),
                        .per_host_input = LS_INPUT_PER_HOST_V2},
                .eval = LS_SOME(8)});
    const ls_plan_system *system = of_training(&w)->system;
    assert_true(ls_plan_is_model_parallel(of_training(&w)));
    assert_int_equal(system->num_replicas, rows[i].replicas);
    assert_int_equal(system->replicas_per_host, rows[i].per_host);
    ls_device_assignment *assignment = system->assignment;
    assert_ptr_equal(assignment, in(&w, LS_MODE_EVAL)->system->assignment);
    assert_int_equal(ls_device_assignment_num_replicas(assignment),
                     rows[i].replicas);
    assert_int_equal(ls_device_assignment_num_cores_per_replica(assignment),
                     rows[i].cores);
    ls_coordinate first, last;
    expect_ok(ls_device_assignment_place(assignment, 0, 0, &first));
    expect_ok(ls_device_assignment_place(assignment, 0,
                                         (int32_t)rows[i].cores - 1, &last));
    // The ring order goes round the block; a small one is a row.
    if (rows[i].cores <= 2)
      for (int k = 0; k < 4; ++k)
        assert_int_equal(last.at[k] - first.at[k], rows[i].last[k]);
  }
  // Without it there is no assignment, and each core is a replica.
  world w;
  begin(&w, (facts){.hosts = 2, .each = 4});
  assert_false(ls_plan_is_model_parallel(of_training(&w)));
  assert_null(of_training(&w)->system->assignment);
  assert_int_equal(of_training(&w)->system->num_replicas, 8);
  assert_int_equal(of_training(&w)->system->replicas_per_host, 4);
  end(&w);
  begin(&w, (facts){.hosts = 2,
                    .each = 4,
                    .use_tpu = LS_FLAG_OFF,
                    .tpu.num_cores_per_replica = LS_SOME(2)});
  assert_null(of_training(&w)->system);
  end(&w);
  // More cores than there are, or a number that does not divide them.
  expect_invalid(
      (facts){.hosts = 2, .each = 4, .tpu.num_cores_per_replica = LS_SOME(16)},
      LS_MODE_TRAIN, LS_INVALID_ARGUMENT, "is 16, the system has 8 cores");
  expect_invalid(
      (facts){.hosts = 3, .each = 4, .tpu.num_cores_per_replica = LS_SOME(8)},
      LS_MODE_TRAIN, LS_FAILED_PRECONDITION,
      "is 8, which does not divide the system's 12 cores");
}

TEST(every_shape_of_a_replica_is_known) {
  LS_SPEC("E37");
  static const struct {
    int64_t cores;
    const char *pod;
    int32_t blocks[4];
  } rows[] = {
      {1, "virtual:8x8", {1, 1, 1, 1}},  {2, "virtual:8x8", {1, 1, 1, 2}},
      {4, "virtual:8x8", {1, 2, 1, 2}},  {8, "virtual:8x8", {2, 2, 1, 2}},
      {16, "virtual:8x8", {4, 2, 1, 2}}, {32, "virtual:8x8", {4, 4, 1, 2}},
      {64, "virtual:8x8", {8, 4, 1, 2}}, {128, "virtual:8x8", {8, 8, 1, 2}}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN_BEGUN(
        world, w, begin,
        (facts){.master = rows[i].pod,
                .tpu = {.num_cores_per_replica = LS_SOME(rows[i].cores),
                        .per_host_input = LS_INPUT_PER_HOST_V2}});
    ls_device_assignment *assignment = of_training(&w)->system->assignment;
    // Its cores fill a block of that shape.
    for (int axis = 0; axis < 4; ++axis) {
      int32_t least = INT32_MAX, most = 0;
      for (int32_t c = 0; c < (int32_t)rows[i].cores; ++c) {
        ls_coordinate at;
        expect_ok(ls_device_assignment_place(assignment, 0, c, &at));
        least = at.at[axis] < least ? at.at[axis] : least;
        most = at.at[axis] > most ? at.at[axis] : most;
      }
      assert_int_equal(most - least + 1, rows[i].blocks[axis]);
    }
  }
}

// ---- Input -----------------------------------------------------------------
TEST(how_input_is_fed_follows_from_mode_and_configuration) {
  LS_SPEC("E39");
  for (ls_input_pipeline p = LS_INPUT_PER_SHARD_V1; p <= LS_INPUT_BROADCAST;
       ++p)
    for (int sliced = 0; sliced < 2; ++sliced)
      for (ls_estimator_mode mode = LS_MODE_TRAIN; mode < LS_NUM_MODES;
           ++mode) {
        LS_OWN_BEGUN(world, w, begin,
                     (facts){.hosts = 1,
                             .each = 4,
                             .tpu = {.per_host_input = p,
                                     .eval_training_input =
                                         sliced ? LS_INPUT_SLICED : 0},
                             .eval = LS_SOME(8),
                             .predict = LS_SOME(8)});
        const ls_estimator_input input = in(&w, mode)->input;
        const bool trains = mode == LS_MODE_TRAIN;
        assert_int_equal(input.way == LS_FEED_CORES,
                         trains && p == LS_INPUT_PER_SHARD_V1);
        assert_int_equal(input.way == LS_FEED_REPLICAS,
                         p == LS_INPUT_PER_HOST_V2 && (!sliced || trains));
        assert_int_equal(input.way == LS_FEED_SLICES, sliced && !trains);
        assert_int_equal(input.broadcast,
                         p == LS_INPUT_BROADCAST || (sliced && !trains));
        assert_false(input.per_replica);
      }
  for (int64_t cores = 4; cores <= 8; cores *= 2) {
    LS_OWN_BEGUN(world, w, begin,
                 (facts){.hosts = 2,
                         .each = 4,
                         .tpu = {.num_cores_per_replica = LS_SOME(cores),
                                 .per_host_input = LS_INPUT_PER_HOST_V2}});
    assert_int_equal(of_training(&w)->input.per_replica, cores == 8);
  }
}

TEST(what_runs_on_cpus_is_not_checked) {
  LS_SPEC("E40");
  // A configuration that cannot be on a TPU.
  const facts wrong = {.hosts = 2,
                       .each = 4,
                       .tpu.num_shards = LS_SOME(3),
                       .eval_on_tpu = LS_FLAG_OFF};
  LS_OWN_BEGUN(world, w, begin, wrong);
  assert_true(in(&w, LS_MODE_EVAL)->on_cpu);
  for (ls_estimator_mode mode = LS_MODE_TRAIN; mode < LS_NUM_MODES; ++mode)
    assert_true(of_export(&w, mode)->on_cpu);
  assert_int_equal(w.queries, 0);
  expect_refused(&w, LS_MODE_TRAIN, LS_INVALID_ARGUMENT, "num_shards");
  end(&w);
  facts off = wrong;
  off.use_tpu = LS_FLAG_OFF;
  off.eval_on_tpu = LS_FLAG_DEFAULT;
  begin(&w, off);
  assert_int_equal(w.warnings, 1);
  assert_non_null(strstr(w.last_warning, "eval_on_tpu"));
  for (ls_estimator_mode mode = LS_MODE_TRAIN; mode < LS_NUM_MODES; ++mode)
    assert_true(in(&w, mode)->on_cpu);
  assert_int_equal(w.queries, 0);
  end(&w);
  // What can be is checked once for each mode.
  begin(&w, (facts){.hosts = 2,
                    .each = 4,
                    .tpu.per_host_input = LS_INPUT_PER_HOST_V2,
                    .eval = LS_SOME(8)});
  for (int i = 0; i < 3; ++i)
    assert_false(in(&w, LS_MODE_EVAL)->on_cpu);
  assert_int_equal(w.warnings, 1);  // Of PER_HOST_V2 on two hosts.
  expect_refused(&w, LS_MODE_PREDICT, LS_INVALID_ARGUMENT,
                 "predict_batch_size");
}

static void expect_sizes(facts f, ls_estimator_mode mode, int64_t input,
                         int64_t model) {
  // No other mode's.
  *(mode == LS_MODE_TRAIN  ? &f.train
    : mode == LS_MODE_EVAL ? &f.eval
                           : &f.predict) = (ls_opt)LS_SOME(64);
  LS_OWN_BEGUN(world, w, begin, f);
  const ls_plan *plan = in(&w, mode);
  assert_true(plan->input_batch_size.set && plan->model_batch_size.set);
  assert_int_equal(plan->input_batch_size.value, input);
  assert_int_equal(plan->model_batch_size.value, model);
}

TEST(batches_are_shared_out) {
  LS_SPEC("E41");
  const facts two_hosts = {.hosts = 2, .each = 4};
  facts f = two_hosts;
  expect_sizes(f, LS_MODE_TRAIN, 32, 8);  // By host.
  f.tpu.per_host_input = LS_INPUT_PER_SHARD_V1;
  expect_sizes(f, LS_MODE_TRAIN, 8, 8);
  f.tpu.per_host_input = LS_INPUT_PER_HOST_V2;
  expect_sizes(f, LS_MODE_TRAIN, 8, 8);
  expect_sizes(f, LS_MODE_EVAL, 8, 8);
  f.tpu.per_host_input = LS_INPUT_BROADCAST;
  expect_sizes(f, LS_MODE_TRAIN, 64, 64);
  expect_sizes(f, LS_MODE_PREDICT, 64, 64);
  f = two_hosts;
  f.tpu.eval_training_input = LS_INPUT_SLICED;
  expect_sizes(f, LS_MODE_EVAL, 64, 8);
  f = two_hosts;
  f.tpu.num_cores_per_replica = (ls_opt)LS_SOME(2);
  expect_sizes(f, LS_MODE_TRAIN, 32, 16);
  f.tpu.num_cores_per_replica = (ls_opt)LS_SOME(8);  // Across hosts.
  f.tpu.per_host_input = LS_INPUT_PER_HOST_V2;
  expect_sizes(f, LS_MODE_TRAIN, 64, 64);
  f = two_hosts;
  f.use_tpu = LS_FLAG_OFF;
  expect_sizes(f, LS_MODE_TRAIN, 64, 64);
  // Not given, on a CPU.
  LS_OWN_BEGUN(world, w, begin, f);
  assert_false(of_training(&w)->input_batch_size.set);
  assert_false(of_training(&w)->model_batch_size.set);
}

// ---- Validation ------------------------------------------------------------
TEST(a_system_that_does_not_fit_is_refused_in_order) {
  LS_SPEC("E42");
  // No cores: whatever num_shards says.
  expect_invalid((facts){.hosts = 2, .tpu.num_shards = LS_SOME(3)},
                 LS_MODE_TRAIN, LS_NOT_FOUND,
                 "/job:worker/replica:0/task:1/device:CPU:0");
  expect_invalid((facts){.hosts = 2,
                         .each = 4,
                         .tpu.num_shards = LS_SOME(3),
                         .train = LS_SOME(7)},
                 LS_MODE_TRAIN, LS_INVALID_ARGUMENT,
                 "num_shards is not set correctly for the system at "
                 "'grpc://h0:8470': expected 8, got 3");
  expect_invalid((facts){.hosts = 2,
                         .each = 4,
                         .tpu = {.num_shards = LS_SOME(3),
                                 .num_cores_per_replica = LS_SOME(8)}},
                 LS_MODE_TRAIN, LS_INVALID_ARGUMENT, "expected 1, got 3");
  expect_invalid(
      (facts){.hosts = 2, .each = 4, .tpu.num_cores_per_replica = LS_SOME(8)},
      LS_MODE_TRAIN, LS_INVALID_ARGUMENT,
      "num_cores_per_replica is 8, a host has 4 cores");
  LS_OWN_BEGUN(world, w, begin,
               (facts){.hosts = 2,
                       .each = 4,
                       .tpu = {.num_shards = LS_SOME(1),
                               .num_cores_per_replica = LS_SOME(8),
                               .per_host_input = LS_INPUT_PER_HOST_V2}});
  assert_false(in(&w, LS_MODE_TRAIN)->on_cpu);
}

TEST(a_batch_that_cannot_be_shared_out_is_refused) {
  LS_SPEC("E43");
  const facts one_host = {.hosts = 1, .each = 4};
  facts f = one_host;
  f.train = (ls_opt)LS_SOME(6);
  expect_invalid(
      f, LS_MODE_TRAIN, LS_INVALID_ARGUMENT,
      "train batch size 6 is not divisible by 4 replicas: choose 4 or 8 "
      "(from the command: --batch-size N), or set "
      "ls_estimator_options.any_batch");
  f = one_host;
  expect_invalid(f, LS_MODE_EVAL, LS_INVALID_ARGUMENT, "eval_batch_size");
  expect_invalid(f, LS_MODE_PREDICT, LS_INVALID_ARGUMENT, "predict_batch_size");
  f.eval = f.predict = (ls_opt)LS_SOME(5);
  expect_invalid(f, LS_MODE_EVAL, LS_INVALID_ARGUMENT, "eval batch size 5");
  expect_invalid(f, LS_MODE_PREDICT, LS_INVALID_ARGUMENT,
                 "predict batch size 5");
  // Broadcast, or told that any can be.
  f.train = (ls_opt)LS_SOME(6);
  for (int i = 0; i < 2; ++i) {
    f.any_batch = i == 0;
    f.tpu.per_host_input = i == 0 ? 0 : LS_INPUT_BROADCAST;
    LS_OWN_BEGUN(world, w, begin, f);
    for (ls_estimator_mode mode = LS_MODE_TRAIN; mode < LS_NUM_MODES; ++mode)
      assert_false(in(&w, mode)->on_cpu);
  }
}

TEST(several_hosts_need_a_way_to_feed_them) {
  LS_SPEC("E44");
  const facts two_hosts = {.hosts = 2,
                           .each = 4,
                           .train = LS_SOME(8),
                           .eval = LS_SOME(8),
                           .predict = LS_SOME(8)};
  facts f = two_hosts;
  static const char *const says[] = {"one host", "BROADCAST", "PER_HOST_V2",
                                     "on 2 hosts with 8 replicas"};
  for (size_t i = 0; i < LS_COUNT_OF(says); ++i) {
    expect_invalid(f, LS_MODE_EVAL, LS_INVALID_ARGUMENT, says[i]);
    expect_invalid(f, LS_MODE_PREDICT, LS_INVALID_ARGUMENT, says[i]);
  }
  expect_invalid(f, LS_MODE_EVAL, LS_INVALID_ARGUMENT, "mode eval");
  expect_invalid(f, LS_MODE_PREDICT, LS_INVALID_ARGUMENT, "mode predict");
  f.tpu.per_host_input = LS_INPUT_PER_HOST_V2;
  expect_invalid(f, LS_MODE_PREDICT, LS_INVALID_ARGUMENT, "mode predict");
  LS_OWN_BEGUN(world, w, begin, f);
  assert_false(in(&w, LS_MODE_EVAL)->on_cpu);
  assert_int_equal(w.warnings, 1);
  assert_non_null(strstr(w.last_warning, "PER_HOST_V2"));
  end(&w);
  // One replica over both hosts can predict.
  f.tpu.num_cores_per_replica = (ls_opt)LS_SOME(8);
  begin(&w, f);
  assert_false(in(&w, LS_MODE_PREDICT)->on_cpu);
  end(&w);
  f = two_hosts;
  f.tpu.per_host_input = LS_INPUT_BROADCAST;
  begin(&w, f);
  for (ls_estimator_mode mode = LS_MODE_TRAIN; mode < LS_NUM_MODES; ++mode)
    assert_false(in(&w, mode)->on_cpu);
  assert_int_equal(w.warnings, 0);
  end(&w);
  f = two_hosts;
  f.tpu.eval_training_input = LS_INPUT_SLICED;
  begin(&w, f);
  assert_false(in(&w, LS_MODE_EVAL)->on_cpu);
  assert_false(in(&w, LS_MODE_PREDICT)->on_cpu);
  end(&w);
  // Training needs none of it.
  begin(&w, two_hosts);
  assert_false(in(&w, LS_MODE_TRAIN)->on_cpu);
}

// ---- Places ----------------------------------------------------------------
static void expect_job(const char *master, const char *given,
                       const ls_cluster_spec *cluster, const char *wanted) {
  LS_OWN(counted, c) = counted_begin_with(
      (ls_runtime_options){.threads = 1, .environment = no_environment});
  LS_OWN(ls_run_config, config) = NULL;
  ls_session_config session = {0};
  expect_ok(ls_cluster_spec_copy(cluster, &session.cluster));
  expect_ok(ls_tpu_run_config_create(
      &(ls_run_config_options){.master = master,
                               .session_config = &session,
                               .tpu = &(ls_tpu_config){.tpu_job_name = given}},
      &config));
  ls_session_config_deinit(&session);
  const char *job = NULL;
  const ls_run_values *values = ls_run_config_values(config);
  const ls_status status = ls_configured_job(values, values->master, &job);
  if (wanted != NULL && wanted[0] == '!') {
    expect_status(status, LS_INVALID_ARGUMENT, "tpu_job_name");
  } else {
    expect_ok(status);
    if (wanted == NULL)
      assert_null(job);
    else
      assert_string_equal(job, wanted);
  }
}

TEST(the_job_follows_from_master_and_cluster) {
  LS_SPEC("E45");
  static const char *const addresses[] = {"a:1"};
  const ls_cluster_job jobs[] = {{"coordinator", addresses, 1},
                                 {"pod", addresses, 1},
                                 {"other", addresses, 1}};
  const ls_cluster_job worker = {"tpu_worker", addresses, 1};
  const ls_cluster_spec one = {jobs + 1, 1}, two = {jobs, 2},
                        no_coordinator = {jobs + 1, 2}, three = {jobs, 3},
                        reserved = {&worker, 1};
  expect_job("", "mine", NULL, "mine");
  expect_job("grpc://a:1", "mine", &three, "mine");
  expect_job("", NULL, &three, NULL);
  expect_job("local", NULL, &three, NULL);
  expect_job("grpc://a:1", NULL, NULL, "tpu_worker");
  expect_job("grpc://a:1", NULL, &one, "pod");
  expect_job("grpc://a:1", NULL, &two, "pod");
  expect_job("grpc://a:1", NULL, &no_coordinator, "!");
  expect_job("grpc://a:1", NULL, &three, "!");
  expect_job("grpc://a:1", NULL, &reserved, "!");
  expect_job("virtual:2x1", NULL, NULL, "worker");
}

static void expect_host(const world *w, ls_opt host, ls_opt replica,
                        const char *wanted) {
  ls_device_name name;
  const ls_user_context user = {.plan = of_training(w)};
  expect_ok(ls_user_context_place_host(&user, host, replica, &name));
  assert_string_equal(name.text, wanted);
}

TEST(hosts_and_cores_have_their_places) {
  LS_SPEC("E46");
  ls_device_name name;
  const ls_opt none = {0};
  LS_OWN_BEGUN(world, w, begin, (facts){.hosts = 2, .each = 4});
  expect_host(&w, (ls_opt)LS_SOME(1), none, "/job:worker/task:1/device:CPU:0");
  expect_host(&w, none, (ls_opt)LS_SOME(3), "/job:worker/task:0/device:CPU:0");
  expect_host(&w, none, (ls_opt)LS_SOME(4), "/job:worker/task:1/device:CPU:0");
  const ls_user_context user = {.plan = of_training(&w)};
  expect_status(ls_user_context_place_host(&user, (ls_opt)LS_SOME(0),
                                           (ls_opt)LS_SOME(0), &name),
                LS_FAILED_PRECONDITION, "host 0 and by replica 0");
  expect_status(
      ls_user_context_place_host(&user, none, (ls_opt)LS_SOME(8), &name),
      LS_INVALID_ARGUMENT, "replica 8 of 8");
  end(&w);
  // Without a job.
  begin(&w, (facts){0});
  expect_host(&w, none, none, "/replica:0/task:0/device:CPU:0");
  expect_host(&w, none, (ls_opt)LS_SOME(3), "/replica:0/task:0/device:CPU:0");
  expect_host(&w, (ls_opt)LS_SOME(1), none, "/replica:0/task:0/device:CPU:0");
  end(&w);
  // By the assignment.
  begin(
      &w,
      (facts){.hosts = 2, .each = 4, .tpu.num_cores_per_replica = LS_SOME(4)});
  ls_device_assignment *assignment = of_training(&w)->system->assignment;
  for (int32_t r = 0; r < 2; ++r) {
    expect_ok(ls_device_assignment_host(assignment, r, 0, "worker", &name));
    expect_host(&w, none, (ls_opt)LS_SOME(r), name.text);
  }
}

TEST(replicas_have_cores_on_their_hosts) {
  LS_SPEC("E47");
  ls_device_name name, wanted;
  int64_t ordinal = 0;
  LS_OWN_BEGUN(world, w, begin, (facts){.hosts = 2, .each = 4});
  const ls_user_context user = {.plan = of_training(&w)};
  for (int64_t r = 0; r < 8; ++r) {
    char text[64];
    expect_ok(ls_user_context_device_for_replica(&user, r, &name, &ordinal));
    snprintf(text, sizeof(text), "/job:worker/task:%d/device:CPU:0",
             (int)(r / 4));
    assert_string_equal(name.text, text);
    assert_int_equal(ordinal, r % 4);
  }
  expect_status(ls_user_context_device_for_replica(&user, 8, &name, &ordinal),
                LS_INVALID_ARGUMENT, "replica 8 of 8");
  end(&w);
  // Those of the second host stand the other way round.
  begin(&w, (facts){.hosts = 2,
                    .each = 4,
                    .turns = true,
                    .tpu.num_cores_per_replica = LS_SOME(2)});
  static const int64_t of_hosts[][2] = {{0, 2}, {3, 1}};
  const ls_plan *plan = of_training(&w);
  ls_device_assignment *assignment = plan->system->assignment;
  for (int32_t host = 0; host < 2; ++host) {
    int32_t replicas[4], of_core = 0;
    size_t count = 0;
    expect_ok(ls_device_assignment_replicas_on(assignment, host, 0, replicas, 4,
                                               &count));
    for (size_t i = 0; i < count; ++i) {
      const ls_replica_core core = plan->system->replicas[replicas[i]];
      expect_ok(
          ls_device_assignment_ordinal(assignment, replicas[i], 0, &of_core));
      assert_int_equal(core.host, host);
      assert_int_equal(core.ordinal, of_core);
      assert_int_equal(core.ordinal, of_hosts[host][i]);
      expect_ok(ls_device_assignment_host(assignment, replicas[i], 0, "worker",
                                          &wanted));
      name = ls_plan_replica_host(plan, replicas[i]);
      assert_string_equal(name.text, wanted.text);
    }
  }
}

// ---- As users see it -------------------------------------------------------
static void expect_deployment(facts f, int64_t invocations, int64_t replicas) {
  ls_input_deployment d;
  LS_OWN_BEGUN(world, w, begin, f);
  const ls_user_context user = {.plan = of_training(&w),
                                .is_input = true,
                                .host = {"/job:worker/task:1/device:CPU:0"},
                                .invocation = 1};
  expect_ok(ls_user_context_deployment(&user, &d));
  assert_string_equal(d.host.text, "/job:worker/task:1/device:CPU:0");
  assert_int_equal(d.invocation, 1);
  assert_int_equal(d.num_invocations, invocations);
  assert_int_equal(d.num_replicas, replicas);
}

TEST(a_deployment_says_how_often_input_is_made) {
  LS_SPEC("E49");
  const facts two_hosts = {.hosts = 2, .each = 4};
  facts f = two_hosts;
  expect_deployment(f, 2, 4);
  f.tpu.per_host_input = LS_INPUT_PER_SHARD_V1;
  expect_deployment(f, 8, 1);
  f.tpu.per_host_input = LS_INPUT_PER_HOST_V2;
  expect_deployment(f, 2, 4);
  f.tpu.per_host_input = LS_INPUT_BROADCAST;
  expect_deployment(f, 1, 8);
  f = two_hosts;
  f.tpu.num_cores_per_replica = (ls_opt)LS_SOME(2);
  expect_deployment(f, 2, 2);
  f.tpu.num_cores_per_replica = (ls_opt)LS_SOME(8);
  f.tpu.per_host_input = LS_INPUT_PER_HOST_V2;
  expect_deployment(f, 1, 1);
}

// As it is on a CPU, where ls_params_context gives none.
TEST(no_context_is_refused) {
  const ls_user_context *none = ls_params_context(ls_none());
  ls_input_deployment deployment;
  ls_device_name host;
  ls_device_assignment *assignment = NULL;
  int64_t count = 0;
  assert_null(none);
  const ls_status refused[] = {
      ls_user_context_deployment(none, &deployment),
      ls_user_context_host(none, &host),
      ls_user_context_assignment(none, &assignment),
      ls_user_context_replicas_per_host(none, &count),
      ls_user_context_num_replicas(none, &count),
      ls_user_context_num_hosts(none, &count),
      ls_user_context_device_for_replica(none, 0, &host, &count),
      ls_user_context_place_host(none, (ls_opt){0}, (ls_opt){0}, &host)};
  for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); ++i)
    expect_status(refused[i], LS_INVALID_ARGUMENT, "user is NULL");
}

TEST(each_function_may_ask_what_is_its_own) {
  LS_SPEC("E50");
  ls_input_deployment deployment;
  ls_device_name host;
  ls_device_assignment *assignment = NULL;
  int64_t count = 0;
  LS_OWN_BEGUN(world, w, begin, (facts){.hosts = 2, .each = 4});
  ls_user_context model = {.plan = of_training(&w)};
  ls_user_context input = {
      .plan = of_training(&w), .is_input = true, .host = {"here"}};
  expect_status(ls_user_context_deployment(&model, &deployment),
                LS_FAILED_PRECONDITION, "must not be called from model_fn");
  expect_status(ls_user_context_host(&model, &host), LS_FAILED_PRECONDITION,
                "must not be called from model_fn");
  expect_ok(ls_user_context_host(&input, &host));
  assert_string_equal(host.text, "here");
  expect_status(ls_user_context_assignment(&input, &assignment),
                LS_FAILED_PRECONDITION, "must not be called from input_fn");
  expect_ok(ls_user_context_assignment(&model, &assignment));
  assert_null(assignment);
  // What both may.
  ls_user_context *const both[] = {&model, &input};
  for (size_t i = 0; i < 2; ++i) {
    expect_ok(ls_user_context_replicas_per_host(both[i], &count));
    assert_int_equal(count, 4);
    expect_ok(ls_user_context_num_replicas(both[i], &count));
    assert_int_equal(count, 8);
    expect_ok(ls_user_context_num_hosts(both[i], &count));
    assert_int_equal(count, 2);
    expect_ok(ls_user_context_device_for_replica(both[i], 6, &host, &count));
    assert_string_equal(host.text, "/job:worker/task:1/device:CPU:0");
    assert_int_equal(count, 2);
    expect_ok(ls_user_context_place_host(both[i], (ls_opt){0},
                                         (ls_opt)LS_SOME(3), &host));
    assert_string_equal(host.text, "/job:worker/task:0/device:CPU:0");
  }
  end(&w);
  begin(
      &w,
      (facts){.hosts = 2, .each = 4, .tpu.num_cores_per_replica = LS_SOME(2)});
  model.plan = of_training(&w);
  expect_status(ls_user_context_replicas_per_host(&model, &count),
                LS_INVALID_ARGUMENT, "num_of_replicas_per_host");
  expect_ok(ls_user_context_assignment(&model, &assignment));
  assert_non_null(assignment);
}

TEST(a_plain_configuration_is_refused) {
  LS_OWN(ls_run_config, config) = NULL;
  ls_plans *plans = NULL;
  expect_ok(ls_run_config_create(NULL, &config));
  expect_status(
      ls_plans_create(&(ls_estimator_facts){.config = config}, &plans),
      LS_INVALID_ARGUMENT, "config is no configuration of a TPU run");
  assert_null(plans);
}

TEST(a_job_that_is_too_long_is_refused) {
  char job[sizeof(ls_device_name)];
  memset(job, 'j', sizeof(job) - 1);
  job[sizeof(job) - 1] = '\0';
  expect_invalid((facts){.tpu.tpu_job_name = job}, LS_MODE_TRAIN,
                 LS_INVALID_ARGUMENT, "is too long for the name of a device");
}

MEMORY_TEST(plan_training) {
  LS_OWN(ls_run_config, config) = NULL;
  ls_plans *plans = NULL;
  const ls_plan *plan = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_run_config_create(
      &(ls_run_config_options){
          .master = "virtual:2x2",
          .tpu = &(ls_tpu_config){.num_cores_per_replica = LS_SOME(2)}},
      &config));
  ls_status status = ls_plans_create(
      &(ls_estimator_facts){.config = config,
                            .batch_sizes = {[LS_MODE_TRAIN] = LS_SOME(8)}},
      &plans);
  if (ls_status_is_ok(status))
    status = ls_plans_get(plans, LS_MODE_TRAIN, false, &plan);
  ls_plans_destroy(plans);
  return status;
}
