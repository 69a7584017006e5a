// SPDX-License-Identifier: Apache-2.0
#include "support/rank_job.h"

#include <stdlib.h>
#include <string.h>

#include "lockstep/optimizer_state.h"
#include "lockstep/train.h"
#include "lockstep/training_parts.h"
#include "support/expect.h"
#include "support/place.h"

enum { MOST_VARIABLES = 96, MOST_BYTES = 2 << 20 };

static ls_status record_array(rank_record *to, const ls_array *array) {
  const size_t size = ls_array_size(array);
  if (to->size + size > MOST_BYTES) return ls_internal("too many results");
  memcpy(to->bytes + to->size, ls_array_data(array), size);
  to->size += size;
  return ls_ok();
}

static ls_status record_nest(rank_record *to, ls_nest nest) {
  for (size_t i = 0; i < ls_nest_count(nest); ++i)
    LS_RETURN_IF_ERROR(record_nest(to, ls_nest_item(nest, i)));
  for (size_t r = 0; r < ls_distributed_count(nest); ++r)
    LS_RETURN_IF_ERROR(record_nest(to, ls_distributed_component(nest, r)));
  const ls_array *array = ls_nest_as_array(nest);
  return array != NULL ? record_array(to, array) : ls_ok();
}

// A model, and a step of it for a strategy's replicas.
typedef struct setup {
  ls_model model;
  ls_strategy *strategy;
  ls_function *function;
  ls_nest args, result;
} setup;

static ls_status set_up(setup *self, const rank_job *work) {
  const ls_model_type *type = work->type;
  LS_RETURN_IF_ERROR(ls_model_create(type, NULL, &self->model));
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = work->step != NULL ? work->step
                                                        : type->train_step,
                             .user = self->model.self},
      &self->function));
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(work->replicas)},
      &self->strategy));
  LS_OWN(ls_nest, batch) = ls_none();
  LS_RETURN_IF_ERROR(ls_model_synthetic_batch(type, work->batch, &batch));
  return ls_train_split(self->strategy, batch, &self->args);
}

static void tear_down(setup *self) {
  ls_nest_release(self->args);
  ls_nest_release(self->result);
  ls_function_release(self->function);
  if (self->strategy != NULL) ls_strategy_release(self->strategy);
  ls_model_destroy(&self->model);
}

static ls_status record_variables(rank_record *to, const ls_model *model) {
  ls_variable *variables[MOST_VARIABLES];
  size_t count = model->type->variables(model->self, variables, MOST_VARIABLES);
  count += ls_optimizer_variables(model->type->optimizer(model->self),
                                  variables + count, MOST_VARIABLES - count);
  if (count > MOST_VARIABLES) return ls_internal("too many variables");
  for (size_t i = 0; i < count; ++i) {
    LS_OWN(ls_array, value) = NULL;
    LS_RETURN_IF_ERROR(ls_variable_value(variables[i], &value));
    const ls_status status = record_array(to, value);
    LS_RETURN_IF_ERROR(status);
  }
  return ls_ok();
}

// From now on rank 1's nth request fails. 0: none.
static void fail_request(const rank_job *work, const rank_record *out,
                         uint64_t nth) {
  if (work->memory != NULL && out == &work->records[1])
    ls_counting_allocator_fail_at(work->memory, nth);
}

static ls_status train(const rank_job *work, rank_record *out) {
  setup self = {.args = ls_none(), .result = ls_none()};
  ls_status status = set_up(&self, work);
  fail_request(work, out, work->nth);
  for (int i = 0; i < work->steps && ls_status_is_ok(status); ++i) {
    status = ls_strategy_run(self.strategy, ls_traced(self.function), self.args,
                             &self.result);
    if (ls_status_is_ok(status)) status = record_nest(out, self.result);
  }
  fail_request(work, out, 0);
  if (ls_status_is_ok(status)) status = record_variables(out, &self.model);
  tear_down(&self);
  return status;
}

// A rank: a runtime of its own.
ls_status rank_job_train(ls_communicator *communicator, void *user) {
  rank_job *work = user;
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
      .allocator = work->memory != NULL && communicator->rank == 1
                       ? ls_counting_allocator_allocator(work->memory)
                       : NULL,
      .threads = work->threads,
      .communicator = communicator,
      .math = communicator->rank > 0 && communicator->rank == work->direct
                  ? LS_MATH_DIRECT
                  : LS_MATH_FAST});
  return train(work, &work->records[communicator->rank]);
}

void rank_job_init(rank_job *self) {
  for (int i = 0; i < MOST_RANKS; ++i) {
    self->records[i] = (rank_record){.bytes = malloc(MOST_BYTES)};
    assert_non_null(self->records[i].bytes);
  }
}

void rank_job_deinit(rank_job *self) {
  for (int i = 0; i < MOST_RANKS; ++i)
    free(self->records[i].bytes);
}
