// SPDX-License-Identifier: Apache-2.0
// Batches without an example, whose mean loss is no number: they count nothing
// in that of an evaluation, on a CPU and with any number of replicas.
#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/ops.h"
#include "lockstep/streams.h"
#include "support/estimators.h"

typedef struct source {
  int at;
} source;

static ls_status open_source(void *user, int64_t epoch, void **out_state) {
  (void)epoch;
  *(source *)user = (source){0};
  *out_state = user;
  return ls_ok();
}

// 3 rows of 1, none, 2 rows of 6: the mean is 3.
static ls_status next_batch(void *state, ls_nest *out_element) {
  static const int64_t rows[] = {3, 0, 2};
  source *self = state;
  if ((size_t)self->at == LS_COUNT_OF(rows))
    return LS_STATUS(LS_OUT_OF_RANGE, "end");
  const int64_t count = rows[self->at++];
  *out_element = ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(count, 1));
  float *x = ls_nest_data(*out_element, 0);
  for (int64_t i = 0; i < count && x != NULL; ++i)
    x[i] = count == 3 ? 1 : 6;
  return ls_nest_status(*out_element);
}

static ls_nest input(void *user, ls_input_call *call) {
  (void)call;
  return ls_nest_dataset(ls_dataset_from_generator(&(ls_generator_options){
      .element = ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(-1, 1)),
      .open = open_source,
      .next = next_batch,
      .user = user}));
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(call->features, 0);
  return ls_estimator_spec_create(
      &(ls_estimator_spec_options){.mode = call->mode,
                                   .loss = ls_reduce_mean(x, LS_ALL_AXES)},
      out);
}

TEST(a_batch_without_examples_counts_nothing) {
  static const struct {
    estimator_way way;
    int replicas;
  } rows[] = {{ON_CPU, 1}, {IN_STRATEGY, 1}, {IN_STRATEGY, 2}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(estimator_case, c) = {.way = rows[i].way,
                                 .replicas = rows[i].replicas,
                                 .folder = "empty-batches",
                                 .more.model_fn = {.call = model}};
    source s = {0};
    LS_OWN(ls_nest, metrics) = ls_none();
    estimator_case_begin(&c);
    expect_ok(ls_estimator_evaluate(
        c.estimator,
        &(ls_estimator_evaluation){.input = {.call = input, .user = &s}},
        &metrics));
    const double loss = estimator_metric(metrics, "loss");
    if (!(loss > 2.999 && loss < 3.001))
      fail_msg("row %zu: the loss is %g, not 3", i, loss);
  }
}
