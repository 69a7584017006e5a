// SPDX-License-Identifier: Apache-2.0
// Flat map and interleave: a function makes a data set of each element; they
// are read one after another, or several in turn.
//
// Each slot has one open data set. A saved position has, for each slot, the
// input's state before the slot's element, so that the function can be called
// again, and the data set's state.
#include <stdio.h>

#include "base/memory/own.h"
#include "base/plain.h"
#include "base/require.h"
#include "base/status_cause.h"
#include "data/streams.h"
#include "lockstep/streams.h"

enum { DEFAULT_CYCLE = 8, MOST_SLOTS = 4096 };

typedef struct interleave {
  ls_dataset dataset;
  char name[64];
  ls_flat_options options;  // `result` is empty.
} interleave;

typedef struct slot {
  ls_record *before;  // The input's state before this slot's element.
  ls_dataset *dataset;
  ls_stage *stage;  // NULL: the slot is free.
} slot;

typedef struct interleave_stage {
  ls_stage stage;
  slot *slots;
  int64_t at, turn;  // Slot that is read; elements read in its turn.
  int64_t ended;     // The input has ended.
  int64_t id;
  ls_nest outer;  // Reused for the input's elements.
} interleave_stage;

static const interleave *interleave_of(const interleave_stage *self) {
  return (const interleave *)self->stage.dataset;
}

static void free_slot(slot *freed) {
  ls_stage_close(freed->stage);
  ls_dataset_release(freed->dataset);
  ls_record_destroy(freed->before);
  *freed = (slot){0};
}
LS_OWNED_STRUCT(slot, free_slot)

static void free_slots(ls_stage *stage) {
  interleave_stage *self = (interleave_stage *)stage;
  for (int64_t i = 0;
       self->slots != NULL && i < interleave_of(self)->options.cycle; ++i)
    free_slot(&self->slots[i]);
}

// ---- Slots -----------------------------------------------------------------
// Calls the function with the element, and opens the data set it returns.
static ls_status open_inner(interleave_stage *self, slot *opened) {
  const interleave *dataset = interleave_of(self);
  ls_work *work = self->stage.work;
  const ls_map_call call =
      ls_map_call_make(work->seed, dataset->options.stream, self->stage.epoch,
                       ls_stage_id(self->stage.inputs[0]));
  ls_runtime_begin_callback(work->runtime);
  opened->dataset =
      dataset->options.call(self->outer, &call, dataset->options.user);
  ls_runtime_end_callback(work->runtime);
  if (opened->dataset == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_status_annotate(
      ls_dataset_status(opened->dataset), "%s '%s' of element %lld",
      self->stage.dataset->kind->name, dataset->name, (long long)call.id));
  LS_RETURN_IF_ERROR(
      ls_stage_open_inner(opened->dataset, &self->stage, &opened->stage));
  return ls_stage_restart(opened->stage, self->stage.epoch);
}

// Reads the input's next element into a free slot, which stays free on failure.
static ls_status fill_slot(interleave_stage *self, slot *filled) {
  ls_stage *input = self->stage.inputs[0];
  LS_OWN(slot, made) = {0};
  LS_RETURN_IF_ERROR(ls_record_create(&made.before));
  LS_RETURN_IF_ERROR(ls_stage_save(input, made.before));
  const ls_status status = ls_stage_next(input, &self->outer);
  self->ended = ls_status_code(status) == LS_OUT_OF_RANGE;
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(ls_stage_no_end(open_inner(self, &made)));
  return ls_hand_over(&made, filled);
}

static void interleave_go_on(interleave_stage *self) {
  self->at = (self->at + 1) % interleave_of(self)->options.cycle;
  self->turn = 0;
}

static ls_status interleave_next(ls_stage *stage, ls_nest *element) {
  interleave_stage *self = (interleave_stage *)stage;
  const interleave *dataset = interleave_of(self);
  for (int64_t free = 0; free < dataset->options.cycle;) {
    slot *current = &self->slots[self->at];
    ls_status status = ls_ok();
    if (current->stage == NULL && !self->ended) {
      status = fill_slot(self, current);
      if (!ls_status_is_ok(status) && !self->ended) return status;
      ls_status_free(status);
    }
    if (current->stage == NULL) {
      ++free;
      interleave_go_on(self);
      continue;
    }
    free = 0;
    status = ls_stage_next(current->stage, element);
    if (ls_status_code(status) == LS_OUT_OF_RANGE) {
      ls_status_free(status);
      free_slot(current);
      interleave_go_on(self);
      continue;
    }
    self->id = ls_stage_id(current->stage);
    if (++self->turn >= dataset->options.block) interleave_go_on(self);
    return ls_status_is_ok(status)
               ? ls_dataset_check_element(stage->dataset, *element)
               : status;
  }
  return ls_out_of_range("all data sets of the elements have ended");
}

// ---- State -----------------------------------------------------------------
static ls_status save_slot(const slot *saved, int64_t number,
                           ls_record *record) {
  char name[32];
  ls_record *inner = NULL, *state = NULL;
  snprintf(name, sizeof(name), "slot%lld", (long long)number);
  LS_RETURN_IF_ERROR(ls_record_add(record, name, &inner));
  LS_RETURN_IF_ERROR(ls_record_add(inner, "before", &state));
  LS_RETURN_IF_ERROR(ls_record_copy(state, saved->before));
  LS_RETURN_IF_ERROR(ls_record_add(inner, "state", &state));
  return ls_stage_save(saved->stage, state);
}

static ls_status interleave_save(ls_stage *stage, ls_record *record) {
  interleave_stage *self = (interleave_stage *)stage;
  for (int64_t i = 0; i < interleave_of(self)->options.cycle; ++i)
    if (self->slots[i].stage != NULL)
      LS_RETURN_IF_ERROR(save_slot(&self->slots[i], i, record));
  return ls_stage_save_input(stage, 0, record);
}

static ls_status restore_slot(interleave_stage *self, int64_t number,
                              const ls_record *record) {
  char name[32];
  const ls_record *inner = NULL, *before = NULL, *state = NULL;
  slot *restored = &self->slots[number];
  snprintf(name, sizeof(name), "slot%lld", (long long)number);
  LS_RETURN_OK_IF(LS_NOT_FOUND, ls_record_find(record, name, &inner));
  LS_RETURN_IF_ERROR(ls_record_find(inner, "before", &before));
  LS_RETURN_IF_ERROR(ls_record_find(inner, "state", &state));
  LS_RETURN_IF_ERROR(ls_stage_restore(self->stage.inputs[0], before));
  LS_RETURN_IF_ERROR(fill_slot(self, restored));
  return ls_stage_restore(restored->stage, state);
}

static ls_status interleave_restore(ls_stage *stage, const ls_record *record) {
  interleave_stage *self = (interleave_stage *)stage;
  const int64_t cycle = interleave_of(self)->options.cycle;
  const int64_t at = self->at, ended = self->ended;
  self->at = 0;
  if (at >= cycle)
    return ls_invalid_argument("slot %lld of %lld is none", (long long)at,
                               (long long)cycle);
  for (int64_t i = 0; i < cycle; ++i)
    LS_RETURN_IF_ERROR(restore_slot(self, i, record));
  self->at = at;
  self->ended = ended;
  return ls_stage_restore_input(stage, 0, record);
}

static void interleave_close(ls_stage *stage) {
  interleave_stage *self = (interleave_stage *)stage;
  free_slots(stage);
  ls_nest_release(self->outer);
  ls_release(stage->work->allocator, self->slots);
}

static ls_status interleave_open(ls_stage *stage) {
  interleave_stage *self = (interleave_stage *)stage;
  self->slots = ls_new_array(stage->work->allocator, slot,
                             (size_t)interleave_of(self)->options.cycle);
  return self->slots != NULL ? ls_ok() : ls_out_of_memory();
}

static const ls_stage_class interleave_stage_class = {
    .size = sizeof(interleave_stage),
    .counters = {LS_STAGE_COUNTER(interleave_stage, at),
                 LS_STAGE_COUNTER(interleave_stage, turn),
                 LS_STAGE_COUNTER(interleave_stage, ended)},
    .open = interleave_open,
    .next = interleave_next,
    .forget = free_slots,
    .save = interleave_save,
    .restore = interleave_restore,
    .id_field = offsetof(interleave_stage, id),
    .close = interleave_close};

// ---- Making ----------------------------------------------------------------
static void interleave_describe(const ls_dataset *dataset, ls_text *text) {
  const interleave *self = (const interleave *)dataset;
  const ls_flat_options *o = &self->options;
  ls_text_append(text, self->name);
  if (o->stream != 0)
    ls_text_append_format(text, ", stream=%llu", (unsigned long long)o->stream);
  if (o->cycle != 1)
    ls_text_append_format(text, ", cycle=%lld, block=%lld", (long long)o->cycle,
                          (long long)o->block);
}

static ls_dataset *interleave_remake(const ls_dataset *dataset,
                                     ls_dataset **inputs);

static const ls_dataset_class flat_map_class = {.name = "flat_map",
                                                .describe = interleave_describe,
                                                .remake = interleave_remake,
                                                .stage =
                                                    &interleave_stage_class};
static const ls_dataset_class interleave_class = {
    .name = "interleave",
    .describe = interleave_describe,
    .remake = interleave_remake,
    .stage = &interleave_stage_class};

static ls_status interleave_check(const ls_dataset_class *kind,
                                  const ls_flat_options *o) {
  if (o->call == NULL)
    return ls_invalid_argument("%s needs a function `call`", kind->name);
  if (o->result.kind == LS_KIND_NONE)
    return ls_invalid_argument("%s needs the types of elements: give `result`",
                               kind->name);
  if (kind == &flat_map_class && (o->cycle != 0 || o->block != 0))
    return ls_invalid_argument(
        "flat_map reads one data set after another: give no `cycle` or "
        "`block`, or use interleave");
  if (o->cycle < 0 || o->cycle > MOST_SLOTS || o->block < 0)
    return ls_invalid_argument("interleave of %lld data sets by %lld elements: "
                               "1 to %d data sets and 1 element or more are "
                               "possible",
                               (long long)o->cycle, (long long)o->block,
                               MOST_SLOTS);
  return ls_ok();
}

static ls_dataset *interleave_make(const ls_dataset_class *kind,
                                   ls_dataset *input, const ls_flat_options *o,
                                   ls_user *user, ls_nest result) {
  interleave *self = (interleave *)ls_dataset_new_with(
      kind, sizeof(*self), &input, 1, user, interleave_check(kind, o));
  if (self == NULL || !ls_status_is_ok(self->dataset.failure)) {
    ls_nest_release(result);
    return (ls_dataset *)self;
  }
  const bool flat = kind == &flat_map_class;
  self->options = *o;
  self->options.result = ls_none();
  ls_format(self->name, sizeof(self->name), "%s",
            o->name != NULL ? o->name : kind->name);
  self->options.name = self->name;
  if (o->cycle == 0) self->options.cycle = flat ? 1 : DEFAULT_CYCLE;
  if (o->block == 0) self->options.block = 1;
  self->dataset.indexed = false;
  self->dataset.size = LS_UNKNOWN_SIZE;
  return ls_dataset_fail(&self->dataset,
                         ls_dataset_set_spec(&self->dataset, result));
}

static ls_dataset *interleave_remake(const ls_dataset *dataset,
                                     ls_dataset **inputs) {
  const interleave *self = (const interleave *)dataset;
  const ls_nest result = ls_dataset_spec_nest(dataset);
  ls_flat_options options = self->options;
  options.result = result;  // Set for the check only.
  if (dataset->kind == &flat_map_class) options.cycle = options.block = 0;
  return interleave_make(dataset->kind, inputs[0], &options,
                         ls_object_retain(dataset->user), result);
}

static ls_dataset *make_new(const ls_dataset_class *kind, ls_dataset *input,
                            const ls_flat_options *options) {
  return interleave_make(kind, input, options,
                         ls_user_create(options->user, options->release),
                         options->result);
}

ls_dataset *ls_dataset_flat_map(ls_dataset *dataset,
                                const ls_flat_options *options) {
  LS_DATASET_REQUIRE(options, interleave, &flat_map_class, &dataset, 1);
  return make_new(&flat_map_class, dataset, options);
}

ls_dataset *ls_dataset_interleave(ls_dataset *dataset,
                                  const ls_flat_options *options) {
  LS_DATASET_REQUIRE(options, interleave, &interleave_class, &dataset, 1);
  return make_new(&interleave_class, dataset, options);
}
