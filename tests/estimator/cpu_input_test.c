// SPDX-License-Identifier: Apache-2.0
//
// Input on CPUs: what becomes features and labels, and how a session reads it.
#include <string.h>

#include "estimator/input/input.h"
#include "lockstep/monitored_session.h"
#include "lockstep/ops.h"
#include "support/fed.h"
#include "support/spec.h"

static fed_facts on_cpu(ls_estimator_mode mode,
                        ls_nest (*input)(void *, ls_input_call *)) {
  return (fed_facts){.pod = "virtual:2x1,cores=1",
                     .mode = mode,
                     .batch = 4,
                     .not_on_cores = true,
                     .input = input};
}

// ---- Values ----------------------------------------------------------------
static ls_nest number(double value) {
  return ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(4), value));
}

static ls_nest a_pair(void *user, ls_input_call *call) {
  (void)user, (void)call;
  return LS_TUPLE(number(1), number(2));
}
static ls_nest a_list(void *user, ls_input_call *call) {
  (void)user, (void)call;
  return LS_LIST(number(1), number(2));
}
static ls_nest a_single(void *user, ls_input_call *call) {
  (void)user, (void)call;
  return number(1);
}
static ls_nest a_triple(void *user, ls_input_call *call) {
  (void)user, (void)call;
  return LS_TUPLE(number(1), number(2), number(3));
}

TEST(a_pair_is_features_and_labels) {
  LS_SPEC("E176");
  static const struct {
    ls_nest (*input)(void *, ls_input_call *);
    ls_kind features, labels;
  } rows[] = {{a_pair, LS_KIND_TENSOR, LS_KIND_TENSOR},
              {a_list, LS_KIND_LIST, LS_KIND_NONE},
              {a_single, LS_KIND_TENSOR, LS_KIND_NONE}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    for (ls_estimator_mode mode = LS_MODE_TRAIN; mode < LS_NUM_MODES; ++mode) {
      ls_cpu_input input;
      LS_OWN_BEGUN(fed, f, fed_open, on_cpu(mode, rows[i].input));
      expect_ok(ls_cpu_input_make(&f.calls, &input));
      assert_int_equal(input.features.kind, rows[i].features);
      assert_int_equal(input.labels.kind, rows[i].labels);
      assert_null(input.hook);
      assert_null(input.iterator);
      ls_cpu_input_drop(&input);
    }
  ls_cpu_input input;
  LS_OWN_BEGUN(fed, f, fed_open, on_cpu(LS_MODE_TRAIN, a_triple));
  expect_status(ls_cpu_input_make(&f.calls, &input), LS_INVALID_ARGUMENT,
                "len 2 tuple");
}

TEST(slices_are_for_cores) {
  LS_SPEC("E105");
  ls_cpu_input input;
  fed_facts facts = on_cpu(LS_MODE_EVAL, a_pair);
  facts.tpu.eval_training_input = LS_INPUT_SLICED;
  LS_OWN_BEGUN(fed, f, fed_open, facts);
  expect_status(ls_cpu_input_make(&f.calls, &input), LS_INVALID_ARGUMENT,
                "eval_training_input_configuration");
}

// ---- Data sets -------------------------------------------------------------
static ls_nest full_rows(void *user, ls_input_call *call) {
  (void)user;
  ls_dataset *made =
      ls_dataset_convert(ls_dataset_range(0, 10, 1), 0,
                         &(ls_convert_options){.dtype = LS_DTYPE_F32});
  return ls_nest_dataset(ls_dataset_batch(
      made,
      &(ls_batch_options){.size = ls_params_i64(call->params, "batch_size", 0),
                          .remainder = LS_REMAINDER_DROP}));
}

// Sums of batches until the loop ends, and how many.
static int read_all(fed *f, const ls_cpu_input *input, double *sums,
                    int64_t *rows) {
  ls_monitored_session *session = NULL;
  ls_nest results = ls_none();
  int count = 0;
  ls_hook *hooks[] = {input->hook};
  const ls_tensor sum =
      ls_reduce_sum(ls_nest_tensor(input->features, 0), LS_ALL_AXES);
  expect_ok(ls_monitored_session_create(
      &(ls_monitored_options){
          .graph = f->graph, .hooks = hooks, .num_hooks = 1},
      &session));
  ls_status status = ls_ok();
  for (;;) {
    status = ls_monitored_session_run(session, ls_leaf(sum), NULL, 0, &results);
    if (!ls_status_is_ok(status)) break;
    rows[count] = ls_cpu_input_rows(input);
    sums[count++] = ls_array_f64(ls_nest_as_array(results), 0);
  }
  assert_int_equal(ls_status_code(status), LS_OUT_OF_RANGE);
  expect_ok(ls_monitored_session_close(session, status));
  return count;
}

TEST(a_last_short_batch_is_used_on_a_cpu) {
  LS_SPEC("E176");
  ls_cpu_input input;
  double sums[8];
  int64_t rows[8];
  LS_OWN_BEGUN(fed, f, fed_open, on_cpu(LS_MODE_EVAL, ten_fed_rows));
  expect_ok(ls_cpu_input_make(&f.calls, &input));
  assert_int_equal(f.seen[0].batch_size, 4);
  assert_non_null(input.iterator);
  assert_int_equal(read_all(&f, &input, sums, rows), 3);
  assert_true(sums[0] == 6 && sums[1] == 22 && sums[2] == 17);
  assert_true(rows[0] == 4 && rows[1] == 4 && rows[2] == 2);
  expect_contains(f.infos_text, "began 1 data set of the input in ");
  ls_cpu_input_drop(&input);
}

TEST(batches_of_one_size_are_read_by_the_graph) {
  LS_SPEC("E176");
  ls_cpu_input input;
  double sums[8];
  int64_t rows[8];
  LS_OWN_BEGUN(fed, f, fed_open, on_cpu(LS_MODE_TRAIN, full_rows));
  expect_ok(ls_cpu_input_make(&f.calls, &input));
  assert_int_equal(read_all(&f, &input, sums, rows), 2);
  assert_true(sums[0] == 6 && sums[1] == 22);
  assert_int_equal(rows[0], 4);
  ls_cpu_input_drop(&input);
}
