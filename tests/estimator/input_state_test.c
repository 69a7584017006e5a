// SPDX-License-Identifier: Apache-2.0
// The place in an input that a checkpoint has: another input's is left, and
// what fails for another reason is told.
#include "data/own.h"
#include "estimator/calls/job.h"
#include "lockstep/iterator.h"
#include "support/fault.h"

typedef struct place {
  ls_record *record;
  uint64_t seed;
  bool fits;  // It is one of this seed.
} place;

static ls_status open_input(uint64_t seed, ls_iterator **out_iterator) {
  LS_OWN(ls_dataset, data) = ls_dataset_range(0, 10, 1);
  *out_iterator = NULL;
  if (data == NULL) return ls_out_of_memory();
  return ls_iterator_create(
      data, &(ls_iterator_options){.name = "input", .seed = seed},
      out_iterator);
}

static ls_status restore(void *user) {
  const place *p = user;
  ls_estimator estimator = {.runtime = ls_runtime_current()};
  LS_OWN(ls_iterator, input) = NULL;
  ls_job job = {.estimator = &estimator};
  LS_OWN(ls_nest, element) = ls_none();
  LS_RETURN_IF_ERROR(open_input(p->seed, &input));
  job.iterators = &input;
  job.num_iterators = 1;
  ls_job_set_state(&job);
  ls_status status = job.state.restore(job.state.self, p->record);
  if (ls_status_is_ok(status)) assert_int_equal(job.restored, p->fits);
  if (ls_status_is_ok(status)) status = ls_iterator_next(input, &element);
  if (ls_status_is_ok(status))
    assert_int_equal(*(const int64_t *)ls_nest_data(element, 0),
                     p->fits ? 3 : 0);
  return status;
}

static void save(place *p) {
  ls_estimator estimator = {.runtime = ls_runtime_current()};
  LS_OWN(ls_iterator, input) = NULL;
  ls_job job = {.estimator = &estimator};
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(open_input(1, &input));
  job.iterators = &input;
  job.num_iterators = 1;
  for (int i = 0; i < 3; ++i)
    expect_ok(ls_iterator_next(input, &element));
  ls_job_set_state(&job);
  expect_ok(ls_record_create(&p->record));
  expect_ok(job.state.save(job.state.self, p->record));
}

TEST(only_another_input_begins_anew) {
  place p = {.seed = 1, .fits = true};
  save(&p);
  REFUSE_EACH(restore, &p);
  p.seed = 2;
  p.fits = false;
  REFUSE_EACH(restore, &p);
  ls_record_destroy(p.record);
}
