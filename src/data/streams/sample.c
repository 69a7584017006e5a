// SPDX-License-Identifier: Apache-2.0
// Sample: chooses at random among data sets.
#include <math.h>

#include "base/values/random.h"
#include "data/stage.h"
#include "lockstep/streams.h"

typedef struct sample {
  ls_dataset dataset;
  uint64_t seed;
  bool stop_at_first;
  double *weights;  // One per input.
} sample;

typedef struct sample_stage {
  ls_stage stage;
  int64_t position;  // Elements given.
  size_t last;       // The input of the last element.
  int64_t ended;
  bool *gone;  // True for inputs that have ended.
} sample_stage;

static const sample *sample_of(const ls_stage *stage) {
  return (const sample *)stage->dataset;
}

// ---- Choosing --------------------------------------------------------------
// Chooses the input for the element at this position among those that have not
// ended: a function of seeds, epoch and position. Returns the number of inputs
// if all have ended.
static size_t sample_choose(const sample_stage *self) {
  const sample *dataset = sample_of(&self->stage);
  const size_t count = self->stage.num_inputs;
  double total = 0;
  size_t last = count;
  for (size_t i = 0; i < count; ++i)
    if (!self->gone[i]) total += dataset->weights[i];
  uint32_t bits[4];
  ls_random_bits(&(ls_random_key){.seed = self->stage.work->seed,
                                  .stream = dataset->seed,
                                  .step = (uint64_t)self->stage.epoch,
                                  .id = (uint64_t)self->position},
                 0, bits);
  double left = ls_random_uniform_f64(bits[0], bits[1]) * total;
  for (size_t i = 0; i < count; ++i) {
    if (self->gone[i] || !(dataset->weights[i] > 0)) continue;
    last = i;
    if (left < dataset->weights[i]) break;
    left -= dataset->weights[i];
  }
  return last;
}

static ls_status sample_next(ls_stage *stage, ls_nest *element) {
  sample_stage *self = (sample_stage *)stage;
  while (!self->ended) {
    const size_t chosen = sample_choose(self);
    if (chosen == stage->num_inputs) break;
    const ls_status status = ls_stage_next(stage->inputs[chosen], element);
    if (ls_status_code(status) != LS_OUT_OF_RANGE) {
      self->last = chosen;
      ++self->position;
      return status;
    }
    ls_status_free(status);
    self->gone[chosen] = true;
    if (sample_of(stage)->stop_at_first) break;
  }
  self->ended = true;
  return ls_out_of_range("all data sets to sample from have ended");
}

static ls_status sample_restart(ls_stage *stage, int64_t epoch) {
  sample_stage *self = (sample_stage *)stage;
  memset(self->gone, 0, stage->num_inputs * sizeof(*self->gone));
  for (size_t i = 0; i < stage->num_inputs; ++i)
    LS_RETURN_IF_ERROR(ls_stage_restart(stage->inputs[i], epoch));
  return ls_ok();
}

static ls_status sample_save(ls_stage *stage, ls_record *record) {
  const sample_stage *self = (const sample_stage *)stage;
  LS_RETURN_IF_ERROR(ls_record_set_bytes(
      record, "gone", self->gone, stage->num_inputs * sizeof(*self->gone)));
  for (size_t i = 0; i < stage->num_inputs; ++i)
    LS_RETURN_IF_ERROR(ls_stage_save_input(stage, i, record));
  return ls_ok();
}

static ls_status sample_restore(ls_stage *stage, const ls_record *record) {
  sample_stage *self = (sample_stage *)stage;
  const void *gone = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(ls_record_get_bytes(record, "gone", &gone, &size));
  if (size != stage->num_inputs)
    return ls_invalid_argument("the position is of %zu data sets, not of %zu",
                               size, stage->num_inputs);
  for (size_t i = 0; i < size; ++i)
    LS_RETURN_IF_ERROR(ls_stage_restore_input(stage, i, record));
  for (size_t i = 0; i < size; ++i)
    self->gone[i] = ((const char *)gone)[i] != 0;
  return ls_ok();
}

static int64_t sample_id(const ls_stage *stage) {
  return ls_stage_id(stage->inputs[((const sample_stage *)stage)->last]);
}

static void sample_close(ls_stage *stage) {
  ls_release(stage->work->allocator, ((sample_stage *)stage)->gone);
}

static ls_status sample_open(ls_stage *stage) {
  sample_stage *self = (sample_stage *)stage;
  self->gone = ls_new_array(stage->work->allocator, bool, stage->num_inputs);
  return self->gone != NULL ? ls_ok() : ls_out_of_memory();
}

static const ls_stage_class sample_stage_class = {
    .size = sizeof(sample_stage),
    .counters = {LS_STAGE_COUNTER(sample_stage, position),
                 LS_STAGE_COUNTER(sample_stage, ended)},
    .open = sample_open,
    .next = sample_next,
    .restart = sample_restart,
    .save = sample_save,
    .restore = sample_restore,
    .id = sample_id,
    .close = sample_close};

// ---- Making ----------------------------------------------------------------
static void sample_destroy(ls_dataset *dataset) {
  ls_release(dataset->allocator, ((sample *)dataset)->weights);
}

static void sample_describe(const ls_dataset *dataset, ls_text *text) {
  const sample *self = (const sample *)dataset;
  ls_text_append_format(text, "seed=%llu", (unsigned long long)self->seed);
  if (self->stop_at_first) ls_text_append(text, ", stop_at_first");
  ls_text_append(text, ", weights=[");
  for (size_t i = 0; i < dataset->num_inputs; ++i)
    ls_text_append_format(text, "%s%.17g", i > 0 ? ", " : "", self->weights[i]);
  ls_text_append_char(text, ']');
}

static ls_status sample_check(size_t count, const ls_sample_options *o) {
  bool any = o->weights == NULL;
  if (count == 0) return ls_invalid_argument("there is no data set to sample");
  for (size_t i = 0; i < count && o->weights != NULL; ++i) {
    const double weight = o->weights[i];
    if (!(weight >= 0) || !isfinite(weight))
      return ls_invalid_argument(
          "weight %zu of a sample is %g; it must be a number, at least 0", i,
          weight);
    any = any || weight > 0;
  }
  return any ? ls_ok() : ls_invalid_argument("all weights of a sample are 0");
}

static ls_dataset *sample_make(ls_dataset *const *inputs, size_t count,
                               const ls_sample_options *o);

static ls_dataset *sample_remake(const ls_dataset *dataset,
                                 ls_dataset **inputs) {
  const sample *self = (const sample *)dataset;
  return sample_make(inputs, dataset->num_inputs,
                     &(ls_sample_options){.weights = self->weights,
                                          .seed = self->seed,
                                          .stop_at_first = self->stop_at_first
                                                               ? LS_FLAG_ON
                                                               : LS_FLAG_OFF});
}

// Returns infinite if an input is endless, whatever is drawn, else the sum of
// sizes.
static int64_t size_of(const sample *self) {
  int64_t sum = 0;
  if (self->stop_at_first) return LS_UNKNOWN_SIZE;
  for (size_t i = 0; i < self->dataset.num_inputs; ++i) {
    const int64_t size = self->dataset.inputs[i]->size;
    if (!(self->weights[i] > 0)) continue;
    if (size == LS_INFINITE) return LS_INFINITE;
    if (size == LS_UNKNOWN_SIZE || sum == LS_UNKNOWN_SIZE ||
        __builtin_add_overflow(sum, size, &sum))
      sum = LS_UNKNOWN_SIZE;
  }
  return sum;
}

static ls_dataset *sample_make(ls_dataset *const *inputs, size_t count,
                               const ls_sample_options *o) {
  static const ls_dataset_class kind = {.name = "sample",
                                        .destroy = sample_destroy,
                                        .describe = sample_describe,
                                        .remake = sample_remake,
                                        .stage = &sample_stage_class};
  sample *self =
      LS_DATASET_NEW(sample, &kind, inputs, count, sample_check(count, o));
  if (self == NULL || !ls_status_is_ok(self->dataset.failure))
    return (ls_dataset *)self;
  ls_dataset *dataset = &self->dataset;
  dataset->indexed = false;
  self->seed = o->seed;
  self->stop_at_first = o->stop_at_first == LS_FLAG_ON;
  self->weights = ls_new_array(dataset->allocator, double, count);
  if (self->weights == NULL)
    return ls_dataset_fail(dataset, ls_out_of_memory());
  for (size_t i = 0; i < count; ++i)
    self->weights[i] = o->weights == NULL ? 1 : o->weights[i];
  dataset->size = size_of(self);
  return ls_dataset_fail(dataset, ls_dataset_merge_leaves(dataset));
}

ls_dataset *ls_dataset_sample(ls_dataset *const *datasets, size_t count,
                              const ls_sample_options *options) {
  const ls_sample_options none = {0};
  return sample_make(datasets, datasets == NULL ? 0 : count,
                     options == NULL ? &none : options);
}
