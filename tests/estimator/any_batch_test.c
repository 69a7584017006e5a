// SPDX-License-Identifier: Apache-2.0
//
// Batches of any size, padded to those of the program, with a mask; and where
// data sets stand when a session begins again.
#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/checkpoint.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/monitored_session.h"
#include "lockstep/ops.h"
#include "support/fed.h"
#include "support/spec.h"

// ---- Examples --------------------------------------------------------------
typedef struct examples {
  int64_t count;
  bool known;    // Values of the graph, in place of a data set.
  int64_t rows;  // Of those.
} examples;

static ls_nest make_examples(void *user, ls_input_call *call) {
  const examples *e = user;
  const int64_t batch = ls_params_i64(call->params, "batch_size", 0);
  if (e->known)
    return ls_leaf(
        ls_add_scalar(ls_iota(LS_DTYPE_F32, LS_SHAPE(e->rows), 0), 1));
  return ls_nest_dataset(fed_rows(e->count, batch));
}

// How often each example came to a core, of what a mask says is real.
typedef struct counts {
  int *seen;
  int64_t size, real, tuples;
} counts;

static void count_core(fed *f, counts *c, int host, int ordinal, int64_t *out) {
  LS_OWN(ls_nest, tuple) = fed_take(f, host, ordinal);
  LS_OWN(ls_feed_element, v) = fed_values(f, tuple);
  const ls_array *x = ls_nest_as_array(v.features);
  const ls_array *mask = ls_nest_as_array(ls_nest_item(tuple, 1));
  assert_int_equal(ls_array_dtype(mask), LS_DTYPE_F32);
  assert_int_equal(ls_array_num_elements(x), ls_array_num_elements(mask));
  *out = 0;
  for (int64_t i = 0; i < ls_array_num_elements(mask); ++i) {
    const double real = ls_array_f64(mask, i);
    assert_true(real == 0 || real == 1);
    if (real == 0) {
      assert_true(ls_array_f64(x, i) == 0);
      continue;
    }
    assert_int_equal(*out, i);  // Real ones come first.
    ++*out;
    ++c->seen[(int64_t)ls_array_f64(x, i)];
  }
  c->real += *out;
  ++c->tuples;
}

static void expect_each_once(const counts *c) {
  assert_int_equal(c->real, c->size);
  for (int64_t i = 0; i < c->size; ++i)
    assert_int_equal(c->seen[i], 1);
}

// All examples of one host with so many cores, in batches of that size.
static void feed_all(const char *pod, int cores, int64_t count, int64_t batch,
                     ls_tpu_config tpu) {
  examples e = {.count = count};
  const bool v2 = tpu.per_host_input == LS_INPUT_PER_HOST_V2;
  LS_OWN_BEGUN(fed, f, fed_begin,
               (fed_facts){.pod = pod,
                           .mode = LS_MODE_EVAL,
                           .batch = batch,
                           .tpu = tpu,
                           .options.any_batch = true,
                           .input = make_examples,
                           .user = &e});
  counts c = {.size = count};
  c.seen = calloc((size_t)count + 1, sizeof(int));
  const int64_t each = (batch + cores - 1) / cores;  // A replica's, padded.
  assert_int_equal(f.seen[0].batch_size, v2 ? each : batch);
  for (;;) {
    const ls_status status = fed_run(&f, 1);
    if (!ls_status_is_ok(status)) {
      expect_status(status, LS_OUT_OF_RANGE, "");
      break;
    }
    int64_t most = 0, least = INT64_MAX;
    for (int i = 0; i < cores; ++i) {
      int64_t real = 0;
      count_core(&f, &c, 0, i, &real);
      most = real > most ? real : most;
      least = real < least ? real : least;
    }
    assert_true(most <= each);
    if (!v2) assert_true(most - least <= 1);
  }
  const int64_t step = v2 ? each * cores : batch;
  assert_int_equal(c.tuples, (count + step - 1) / step * cores);
  expect_each_once(&c);
  free(c.seen);
}

TEST(each_example_is_fed_once) {
  static const struct {
    const char *pod;
    int cores;
  } pods[] = {{"virtual:1x1,cores=1", 1},
              {"virtual:3x1,cores=1", 3},
              {"virtual:4x2,cores=1", 8}};
  static const struct {
    int64_t count, batch;
  } sizes[] = {{107, 1}, {1007, 64}, {1007, 1000}, {128, 64}, {5, 64}};
  static const ls_tpu_config ways[] = {
      {.num_shards = {0}},
      {.per_host_input = LS_INPUT_PER_HOST_V2},
      {.eval_training_input = LS_INPUT_SLICED}};
  for (size_t p = 0; p < LS_COUNT_OF(pods); ++p)
    for (size_t s = 0; s < LS_COUNT_OF(sizes); ++s)
      for (size_t w = 0; w < LS_COUNT_OF(ways); ++w)
        feed_all(pods[p].pod, pods[p].cores, sizes[s].count, sizes[s].batch,
                 ways[w]);
}

TEST(all_cores_get_the_padded_batch_that_is_broadcast) {
  examples e = {.count = 5};
  LS_OWN_BEGUN(fed, f, fed_begin,
               (fed_facts){.pod = "virtual:3x1,cores=1",
                           .mode = LS_MODE_TRAIN,
                           .batch = 4,
                           .tpu.per_host_input = LS_INPUT_BROADCAST,
                           .options.any_batch = true,
                           .input = make_examples,
                           .user = &e});
  expect_ok(fed_run(&f, 2));
  for (int i = 0; i < 3; ++i) {
    FED_EXPECT(&f, 0, i, 0, 1, 2, 3);
    LS_OWN(ls_nest, tuple) = fed_take(&f, 0, i);
    const ls_array *mask = ls_nest_as_array(ls_nest_item(tuple, 1));
    assert_true(ls_array_f64(mask, 0) == 1 && ls_array_f64(mask, 1) == 0);
  }
}

// Seven rows on three cores: 3, 2, 2, each in room for three.
TEST(values_are_padded_in_the_graph) {
  fed f;
  examples e = {.known = true, .rows = 7};
  fed_begin(&f, (fed_facts){.pod = "virtual:3x1,cores=1",
                            .mode = LS_MODE_TRAIN,
                            .batch = 8,
                            .options.any_batch = true,
                            .input = make_examples,
                            .user = &e});
  expect_ok(fed_run(&f, 1));
  FED_EXPECT(&f, 0, 0, 1, 2, 3);
  FED_EXPECT(&f, 0, 1, 4, 5, 0);
  FED_EXPECT(&f, 0, 2, 6, 7, 0);
  fed_close(&f);
  fed_begin(&f, (fed_facts){.pod = "virtual:3x1,cores=1",
                            .mode = LS_MODE_TRAIN,
                            .batch = 24,
                            .tpu.per_host_input = LS_INPUT_PER_SHARD_V1,
                            .options.any_batch = true,
                            .input = make_examples,
                            .user = &e});
  expect_ok(fed_run(&f, 1));
  for (int i = 0; i < 3; ++i)
    FED_EXPECT(&f, 0, i, 1, 2, 3, 4, 5, 6, 7, 0);
  fed_close(&f);
  // More than there is room for is refused.
  e.rows = 10;
  const fed_facts facts = {.pod = "virtual:3x1,cores=1",
                           .mode = LS_MODE_TRAIN,
                           .batch = 8,
                           .options.any_batch = true,
                           .input = make_examples,
                           .user = &e};
  fed_refused(facts, LS_INVALID_ARGUMENT, "The real batch size");
}

// ---- Hosts ------------------------------------------------------------------
// Five rows on the first host, two on the second.
static ls_nest make_unevenly(void *user, ls_input_call *call) {
  ls_input_deployment at;
  (void)user;
  expect_ok(ls_user_context_deployment(ls_params_context(call->params), &at));
  return ls_nest_dataset(
      fed_rows(at.invocation == 0 ? 5 : 2,
               ls_params_i64(call->params, "batch_size", 0)));
}

static double real_of(fed *f, int host) {
  LS_OWN(ls_nest, tuple) = fed_take(f, host, 0);
  const ls_array *mask = ls_nest_as_array(ls_nest_item(tuple, 1));
  return ls_array_f64(mask, 0) + ls_array_f64(mask, 1);
}

static void begin_unevenly(fed *f) {
  fed_begin(f, (fed_facts){.pod = "virtual:2x1,cores=1,hosts=2",
                           .mode = LS_MODE_TRAIN,
                           .batch = 4,
                           .tpu.per_host_input = LS_INPUT_PER_HOST_V2,
                           .options.any_batch = true,
                           .input = make_unevenly});
}

TEST(hosts_that_have_ended_are_fed_padding) {
  LS_SPEC("E117");
  LS_OWN_BEGUN(fed, f, begin_unevenly);
  assert_string_equal(f.seen[0].scope, "input_pipeline_task0/");
  assert_string_equal(f.seen[1].scope, "input_pipeline_task1/");
  char *text = NULL;
  expect_ok(ls_graph_print(f.graph, &text));
  assert_non_null(strstr(text, "input_pipeline_task0/InfeedQueue/enqueue"));
  assert_non_null(strstr(text, "input_pipeline_task1/InfeedQueue/enqueue"));
  ls_text_release(text);
  // More than there is: three steps, and the end.
  expect_status(fed_run(&f, 5), LS_OUT_OF_RANGE, "all hosts have ended");
  FED_EXPECT(&f, 0, 0, 0, 1);
  FED_EXPECT(&f, 1, 0, 0, 1);
  FED_EXPECT(&f, 0, 0, 2, 3);
  FED_EXPECT(&f, 1, 0, 0, 0);
  FED_EXPECT(&f, 0, 0, 4, 0);
  FED_EXPECT(&f, 1, 0, 0, 0);
  // Nobody was fed more. The end is told again and again.
  expect_status(fed_run(&f, 1), LS_OUT_OF_RANGE, "all hosts have ended");
  fed_close(&f);
  begin_unevenly(&f);
  expect_ok(fed_run(&f, 3));
  static const double wanted[2][3] = {{2, 2, 1}, {2, 0, 0}};
  for (int step = 0; step < 3; ++step)
    for (int host = 0; host < 2; ++host)
      assert_true(real_of(&f, host) == wanted[host][step]);
}

// A prediction's padded size is a multiple of the replicas.
TEST(predictions_of_any_size_are_shared_out) {
  examples e = {.count = 5};
  LS_OWN_BEGUN(fed, f, fed_begin,
               (fed_facts){.pod = "virtual:3x1,cores=1",
                           .mode = LS_MODE_PREDICT,
                           .batch = 4,
                           .options.any_batch = true,
                           .input = make_examples,
                           .user = &e});
  expect_ok(fed_run(&f, 0));
  // Rows 0 to 3 and two that are padded; row 4 and five.
  FED_EXPECT(&f, 0, 0, 0, 1);
  FED_EXPECT(&f, 0, 1, 2, 3);
  FED_EXPECT(&f, 0, 2, 0, 0);
  FED_EXPECT(&f, 0, 0, 4, 0);
}

// ---- Sessions --------------------------------------------------------------
static ls_status save_place(void *self, ls_record *record) {
  return ls_iterator_save(self, record);
}
static ls_status restore_place(void *self, const ls_record *record) {
  return ls_iterator_restore(self, record);
}

typedef struct failing {
  int runs, fails_at;
} failing;

static ls_status maybe_fail(void *user, ls_run_context *context,
                            ls_nest results) {
  failing *f = user;
  (void)context, (void)results;
  return ++f->runs == f->fails_at
             ? LS_STATUS(LS_ABORTED, "the system was taken away")
             : ls_ok();
}

// What comes to core 0 in runs that feed one element each, of a monitored
// session. Run `fails_at` ends with the loss of its session (0: none does);
// checkpoints are saved each step, unless there is no folder.
static void run_monitored(const char *folder, int fails_at,
                          const double *wanted, int count) {
  examples e = {.count = 1000};
  LS_OWN_BEGUN(fed, f, fed_begin,
               (fed_facts){.pod = "virtual:2x1,cores=1",
                           .mode = LS_MODE_TRAIN,
                           .batch = 4,
                           .seed = LS_SOME(7),
                           .input = make_examples,
                           .user = &e});
  const ls_type type = {LS_DTYPE_F32, LS_SHAPE(2)};
  ls_nest takes[2];
  for (int i = 0; i < 2; ++i) {
    LS_DEVICE_SCOPE(i == 0 ? "/job:worker/task:0/device:TPU:0"
                           : "/job:worker/task:0/device:TPU:1");
    takes[i] = ls_leaf(ls_op_output(ls_infeed_dequeue_tuple(&type, 1), 0));
  }
  ls_variable *step = NULL;
  expect_ok(ls_global_step_get(f.graph, &step));
  const ls_tensor next =
      ls_variable_assign_add(step, ls_scalar(LS_DTYPE_I64, 1));
  failing state = {.fails_at = fails_at};
  ls_hook *hooks[4] = {f.feed.hook};
  size_t num_hooks = 3;
  expect_ok(ls_eval_iterations_hook(1, &hooks[1]));
  expect_ok(ls_hook_create(
      &(ls_hook_options){.user = &state, .after_run = maybe_fail}, &hooks[2]));
  const ls_saveable place = {"input/0", f.feed.iterators[0], save_place,
                             restore_place};
  if (folder != NULL)
    expect_ok(ls_saver_hook(&(ls_saver_hook_options){.folder = folder,
                                                     .states = &place,
                                                     .num_states = 1,
                                                     .every_steps = LS_SOME(1),
                                                     .graph_text = LS_FLAG_OFF},
                            &hooks[num_hooks++]));
  ls_monitored_session *session = NULL;
  ls_nest results = ls_none();
  expect_ok(ls_monitored_session_create(
      &(ls_monitored_options){.graph = f.graph,
                              .hooks = hooks,
                              .num_hooks = num_hooks,
                              .checkpoints = folder,
                              .states = &place,
                              .num_states = folder != NULL},
      &session));
  const ls_nest fetches =
      LS_LIST(ls_nest_retain(f.feed.ops), takes[0], takes[1], ls_leaf(next));
  for (int k = 0; k < count; ++k) {
    expect_ok(ls_monitored_session_run(session, fetches, NULL, 0, &results));
    assert_true(ls_array_f64(ls_nest_as_array(ls_nest_item(results, 1)), 0) ==
                wanted[k]);
  }
  ls_nest_release(fetches);
  expect_ok(ls_monitored_session_close(session, ls_ok()));
  for (size_t i = 1; i < num_hooks; ++i)
    ls_hook_release(hooks[i]);
  expect_contains(f.infos_text, "began 1 data set of the input in ");
}

TEST(sessions_read_from_where_they_were_restored) {
  LS_SPEC("E120");
  char folder[] = "/tmp/places-XXXXXX";
  assert_non_null(mkdtemp(folder));
  // Without checkpoints a new session reads from the start.
  run_monitored(NULL, 0, (const double[]){0, 4, 8}, 3);
  run_monitored(NULL, 2, (const double[]){0, 0, 4}, 3);
  // With them it goes on behind the steps that were made, whatever was read:
  // in the same process, and in others.
  run_monitored(folder, 3, (const double[]){0, 4, 8, 12}, 4);
  run_monitored(folder, 0, (const double[]){16, 20}, 2);
  run_monitored(folder, 1, (const double[]){24, 28}, 2);
}
