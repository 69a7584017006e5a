// SPDX-License-Identifier: Apache-2.0
#include "data/stage.h"

#include <stdio.h>

#include "base/status_cause.h"

// ---- Making ----------------------------------------------------------------
static ls_status open_inputs(ls_stage *self) {
  const ls_dataset *dataset = self->dataset;
  if (self->kind->keeps_inputs_closed || dataset->num_inputs == 0)
    return ls_ok();
  LS_SET_ARRAY_OR_RETURN(self->work->allocator, ls_stage *, self->inputs,
                         dataset->num_inputs);
  for (size_t i = 0; i < dataset->num_inputs; ++i) {
    LS_RETURN_IF_ERROR(
        ls_stage_open(dataset->inputs[i], self->work, &self->inputs[i]));
    self->inputs[i]->outer = self;
    self->num_inputs = i + 1;
  }
  return ls_ok();
}

static void close_inputs(ls_stage *stage) {
  ls_allocator *allocator = stage->work->allocator;
  for (size_t i = 0; i < stage->num_inputs; ++i)
    ls_stage_close(stage->inputs[i]);
  ls_release(allocator, stage->inputs);
  ls_release(allocator, stage);
}

static ls_status open_stage(const ls_stage_class *kind,
                            const ls_dataset *dataset, ls_work *work,
                            ls_stage **out_stage) {
  ls_stage *self = ls_allocate_zeroed(
      work->allocator, 1, kind->size > 0 ? kind->size : sizeof(ls_stage));
  LS_RETURN_IF_NO_MEMORY(self);
  self->kind = kind;
  self->dataset = dataset;
  self->work = work;
  ls_status status = open_inputs(self);
  if (!ls_status_is_ok(status)) {
    close_inputs(self);
    return status;
  }
  if (kind->open != NULL) status = kind->open(self);
  if (ls_status_is_ok(status))
    *out_stage = self;
  else
    ls_stage_close(self);
  return status;
}

void ls_stage_close(ls_stage *stage) {
  if (stage == NULL) return;
  if (stage->kind->close != NULL) stage->kind->close(stage);
  close_inputs(stage);
}

// ---- Reading a stage -------------------------------------------------------
// Stores the stage at work for progress reports. If stages read in parallel,
// stores one of them.
static void stage_look_at(ls_work *work, const ls_dataset *dataset,
                          int64_t since) {
  __atomic_store_n(&work->since, since, __ATOMIC_RELAXED);
  __atomic_store_n(&work->at, dataset, __ATOMIC_RELAXED);
}

ls_status ls_stage_next(ls_stage *stage, ls_nest *element) {
  ls_work *work = stage->work;
  const int64_t began = ls_runtime_now(work->runtime);
  const int number = ls_work_stage(work, stage->dataset);
  const ls_dataset *const outer = __atomic_load_n(&work->at, __ATOMIC_RELAXED);
  stage_look_at(work, stage->dataset, began);
  const ls_status status = stage->kind->next(stage, element);
  const int64_t all = ls_runtime_now(work->runtime) - began;
  stage_look_at(work, outer, began + all);
  ls_runtime_note_input(work->runtime);
  // Subtracts the time from the reading stage's own.
  ls_mutex_lock(&work->lock);
  if (number >= 0 && !stage->counts_itself) {
    work->counts[number].nanos += all - stage->inner_nanos;
    work->counts[number].elements += ls_status_is_ok(status);
  }
  ls_mutex_unlock(&work->lock);
  stage->inner_nanos = 0;
  if (stage->outer != NULL) stage->outer->inner_nanos += all;
  return status;
}

#define FOR_COUNTERS(stage, counter)                                           \
  for (const ls_stage_counter *counter = (stage)->kind->counters;              \
       counter < (stage)->kind->counters + 3 && counter->name != NULL;         \
       ++counter)

static int64_t *number_at(const ls_stage *stage, size_t offset) {
  return (int64_t *)(void *)((char *)(uintptr_t)stage + offset);
}

ls_status ls_stage_restart(ls_stage *stage, int64_t epoch) {
  stage->epoch = epoch;
  if (stage->kind->forget != NULL) stage->kind->forget(stage);
  FOR_COUNTERS(stage, counter) * number_at(stage, counter->offset) = 0;
  if (stage->kind->restart != NULL) return stage->kind->restart(stage, epoch);
  for (size_t i = 0; i < stage->num_inputs; ++i)
    LS_RETURN_IF_ERROR(ls_stage_restart(stage->inputs[i], epoch));
  return ls_ok();
}

ls_status ls_stage_save(ls_stage *stage, ls_record *record) {
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "epoch", stage->epoch));
  FOR_COUNTERS(stage, counter)
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, counter->name,
                                       *number_at(stage, counter->offset)));
  if (stage->kind->save != NULL) return stage->kind->save(stage, record);
  for (size_t i = 0; i < stage->num_inputs; ++i)
    LS_RETURN_IF_ERROR(ls_stage_save_input(stage, i, record));
  return ls_ok();
}

ls_status ls_stage_restore(ls_stage *stage, const ls_record *record) {
  if (stage->kind->forget != NULL) stage->kind->forget(stage);
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "epoch", &stage->epoch));
  FOR_COUNTERS(stage, counter)
  LS_RETURN_IF_ERROR(ls_stage_get_count(record, counter->name,
                                        number_at(stage, counter->offset)));
  if (stage->kind->restore != NULL) return stage->kind->restore(stage, record);
  for (size_t i = 0; i < stage->num_inputs; ++i)
    LS_RETURN_IF_ERROR(ls_stage_restore_input(stage, i, record));
  return ls_ok();
}

ls_status ls_stage_skip_inputs(ls_stage *stage, int64_t count) {
  for (size_t i = 0; i < stage->num_inputs; ++i)
    LS_RETURN_IF_ERROR(ls_stage_skip(stage->inputs[i], count));
  return ls_ok();
}

ls_status ls_stage_skip(ls_stage *stage, int64_t count) {
  if (count <= 0) return ls_ok();
  if (stage->kind->skip != NULL) return stage->kind->skip(stage, count);
  LS_OWN(ls_nest, element) = ls_none();
  for (int64_t i = 0; i < count; ++i)
    LS_RETURN_OK_IF(LS_OUT_OF_RANGE,
                    ls_stage_skipped(ls_stage_next(stage, &element)));
  return ls_ok();
}

ls_status ls_stage_skipped(ls_status status) {
  const ls_cause cause = ls_status_cause(status);
  if (ls_status_code(status) == LS_OUT_OF_RANGE || cause == LS_CAUSE_MEMORY ||
      cause == LS_CAUSE_CANCEL)
    return status;
  ls_status_free(status);
  return ls_ok();
}

ls_status ls_stage_no_end(ls_status status) {
  if (ls_status_code(status) != LS_OUT_OF_RANGE) return status;
  ls_status other = ls_invalid_argument(
      "%s (reported as OUT_OF_RANGE, the end of a data set)",
      ls_status_message(status));
  ls_status_free(status);
  return other;
}

int64_t ls_stage_id(const ls_stage *stage) {
  const ls_stage_class *kind = stage->kind;
  if (kind->id != NULL) return kind->id(stage);
  if (kind->id_field > 0) return *number_at(stage, kind->id_field);
  if (kind->id_after > 0) return *number_at(stage, kind->id_after) - 1;
  return stage->num_inputs > 0 ? ls_stage_id(stage->inputs[0]) : 0;
}

ls_status ls_stage_get_count(const ls_record *record, const char *name,
                             int64_t *out_count) {
  int64_t count = 0;
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, name, &count));
  if (count < 0 || count > INT64_MAX / 4)
    return ls_invalid_argument("'%s' of a position is %lld, which is no count",
                               name, (long long)count);
  *out_count = count;
  return ls_ok();
}

static const char *input_name(size_t i, char room[32]) {
  snprintf(room, 32, "input%zu", i);
  return room;
}

ls_status ls_stage_save_input(ls_stage *stage, size_t i, ls_record *record) {
  char name[32];
  ls_record *inner = NULL;
  LS_RETURN_IF_ERROR(ls_record_add(record, input_name(i, name), &inner));
  return ls_stage_save(stage->inputs[i], inner);
}

ls_status ls_stage_restore_input(ls_stage *stage, size_t i,
                                 const ls_record *record) {
  char name[32];
  const ls_record *inner = NULL;
  LS_RETURN_IF_ERROR(ls_record_find(record, input_name(i, name), &inner));
  return ls_stage_restore(stage->inputs[i], inner);
}

// ---- Stage of an indexed data set ------------------------------------------
// A stage that reads an indexed data set, one element after the other.
typedef struct index_stage {
  ls_stage base;
  int64_t index;  // Index of the next element.
} index_stage;

static ls_status next_indexed(ls_stage *stage, ls_nest *element) {
  index_stage *self = (index_stage *)stage;
  const ls_dataset *dataset = stage->dataset;
  if (dataset->size >= 0 && self->index >= dataset->size)
    return ls_out_of_range("the end of data set '%s'", dataset->kind->name);
  const int64_t index = self->index++;  // An element that fails is read, too.
  ls_fetch *fetch = ls_work_take_fetch(stage->work);
  if (fetch == NULL) return ls_out_of_memory();
  fetch->epoch = stage->epoch;
  const ls_status status = ls_dataset_get(dataset, fetch, index, element);
  ls_work_give_fetch(stage->work, fetch);
  return ls_stage_no_end(status);
}

static ls_status restore_indexed(ls_stage *stage, const ls_record *record) {
  index_stage *self = (index_stage *)stage;
  const int64_t size = stage->dataset->size;
  (void)record;
  if (size < 0 || self->index <= size) return ls_ok();
  self->index = size;
  return ls_invalid_argument("the position is after the %lld elements of '%s'",
                             (long long)size, stage->dataset->kind->name);
}

static ls_status skip_indexed(ls_stage *stage, int64_t count) {
  index_stage *self = (index_stage *)stage;
  const int64_t size = stage->dataset->size;
  if (size >= 0 && count > size - self->index)
    self->index = size;
  else
    self->index += count;
  return ls_ok();
}

static int64_t id_indexed(const ls_stage *stage) {
  const index_stage *self = (const index_stage *)stage;
  const ls_fetch fetch = {.seed = stage->work->seed, .epoch = stage->epoch};
  return self->index > 0
             ? ls_dataset_id(stage->dataset, &fetch, self->index - 1)
             : 0;
}

static const ls_stage_class index_class = {
    .size = sizeof(index_stage),
    .counters = {LS_STAGE_COUNTER(index_stage, index)},
    .keeps_inputs_closed = true,
    .next = next_indexed,
    .restore = restore_indexed,
    .skip = skip_indexed,
    .id = id_indexed};

ls_status ls_stage_open(const ls_dataset *dataset, ls_work *work,
                        ls_stage **out_stage) {
  *out_stage = NULL;
  LS_RETURN_IF_ERROR(ls_dataset_status(dataset));
  if (!dataset->indexed)
    return open_stage(dataset->kind->stage, dataset, work, out_stage);
  LS_RETURN_IF_ERROR(open_stage(&index_class, dataset, work, out_stage));
  (*out_stage)->counts_itself = true;
  return ls_ok();
}

static void set_around(ls_stage *stage, uint32_t around) {
  stage->around = around;
  for (size_t i = 0; i < stage->num_inputs; ++i)
    set_around(stage->inputs[i], around);
}

// Counts the data sets around the inner one: reading recurses through all of
// them on one stack.
ls_status ls_stage_open_inner(const ls_dataset *dataset, const ls_stage *outer,
                              ls_stage **out_stage) {
  *out_stage = NULL;
  LS_RETURN_IF_ERROR(ls_dataset_status(dataset));
  const uint64_t around = (uint64_t)outer->around + outer->dataset->nodes;
  if (around + dataset->nodes > LS_MOST_DATASETS)
    return ls_invalid_argument(
        "the function of '%s' returns data sets whose functions return others, "
        "%llu in all, more than %d: does it return its own data set?",
        outer->dataset->kind->name,
        (unsigned long long)(around + dataset->nodes), LS_MOST_DATASETS);
  LS_RETURN_IF_ERROR(ls_stage_open(dataset, outer->work, out_stage));
  set_around(*out_stage, (uint32_t)around);
  return ls_ok();
}
