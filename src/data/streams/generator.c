// SPDX-License-Identifier: Apache-2.0
// Generators: users' sources that are read sequentially.
#include "base/memory/own.h"
#include "base/plain.h"
#include "base/require.h"
#include "base/status_cause.h"
#include "data/stage.h"
#include "lockstep/streams.h"

typedef struct generator {
  ls_dataset dataset;
  char name[64];
  ls_generator_options options;
} generator;

typedef struct generator_stage {
  ls_stage stage;
  void *state;
  bool is_open;
  int64_t position;  // Elements given so far.
  int64_t ended;
} generator_stage;

// ---- Reading ---------------------------------------------------------------
static const ls_generator_options *
generator_options_of(const generator_stage *self) {
  return &((const generator *)self->stage.dataset)->options;
}

static void close_state(generator_stage *self) {
  const ls_generator_options *options = generator_options_of(self);
  if (self->is_open && options->close != NULL) {
    ls_runtime_begin_callback(self->stage.work->runtime);
    options->close(self->state);
    ls_runtime_end_callback(self->stage.work->runtime);
  }
  self->state = NULL;
  self->is_open = false;
}

static ls_status open_state(generator_stage *self) {
  const ls_generator_options *options = generator_options_of(self);
  if (self->is_open) return ls_ok();
  ls_runtime_begin_callback(self->stage.work->runtime);
  const ls_status status =
      options->open(options->user, self->stage.epoch, &self->state);
  ls_runtime_end_callback(self->stage.work->runtime);
  self->is_open = ls_status_is_ok(status);
  return status;
}

static ls_status make_next(generator_stage *self, ls_nest *made) {
  const ls_generator_options *options = generator_options_of(self);
  ls_runtime_begin_callback(self->stage.work->runtime);
  const ls_status status = options->next(self->state, made);
  ls_runtime_end_callback(self->stage.work->runtime);
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(ls_nest_status(*made));
  return ls_dataset_check_element(self->stage.dataset, *made);
}

static ls_status generator_next(ls_stage *stage, ls_nest *element) {
  generator_stage *self = (generator_stage *)stage;
  if (self->ended) return ls_out_of_range("the end of a generator");
  LS_RETURN_IF_ERROR(open_state(self));
  LS_OWN(ls_nest, made) = ls_none();
  const ls_status status = make_next(self, &made);
  self->ended = ls_status_code(status) == LS_OUT_OF_RANGE;
  if (self->ended) return status;
  ++self->position;
  if (ls_status_is_ok(status))
    return ls_element_replace(ls_give(&made), element);
  return ls_status_annotate(status, "element %lld of generator '%s'",
                            (long long)self->position - 1,
                            ((const generator *)stage->dataset)->name);
}

static ls_status generator_restart(ls_stage *stage, int64_t epoch) {
  (void)epoch;  // The stage has stored the epoch already.
  close_state((generator_stage *)stage);
  return ls_ok();
}

// ---- State -----------------------------------------------------------------
static ls_status generator_save(ls_stage *stage, ls_record *record) {
  generator_stage *self = (generator_stage *)stage;
  const ls_generator_options *options = generator_options_of(self);
  ls_record *inner = NULL;
  if (options->save == NULL || !self->is_open || self->ended) return ls_ok();
  LS_RETURN_IF_ERROR(ls_record_add(record, "generator", &inner));
  ls_runtime_begin_callback(stage->work->runtime);
  const ls_status status = options->save(self->state, inner);
  ls_runtime_end_callback(stage->work->runtime);
  return status;
}

// Reads and drops the elements given before the position.
static ls_status read_again(generator_stage *self, int64_t position) {
  LS_OWN(ls_nest, element) = ls_none();
  LS_RETURN_IF_ERROR(open_state(self));
  while (self->position < position) {
    const ls_status status =
        ls_stage_skipped(generator_next(&self->stage, &element));
    if (!self->ended) {
      LS_RETURN_IF_ERROR(status);
      continue;
    }
    ls_status_free(status);
    return LS_STATUS(LS_DATA_LOSS,
                     "the generator ends after %lld elements; when the "
                     "position was saved it had returned %lld",
                     (long long)self->position, (long long)position);
  }
  return ls_ok();
}

static ls_status generator_restore(ls_stage *stage, const ls_record *record) {
  generator_stage *self = (generator_stage *)stage;
  const ls_generator_options *options = generator_options_of(self);
  const ls_record *inner = NULL;
  const int64_t position = self->position;
  close_state(self);
  if (self->ended) return ls_ok();
  self->position = 0;
  if (options->restore == NULL) return read_again(self, position);
  LS_RETURN_OK_IF(LS_NOT_FOUND, ls_record_find(record, "generator", &inner));
  LS_RETURN_IF_ERROR(open_state(self));
  ls_runtime_begin_callback(stage->work->runtime);
  ls_status status = options->restore(self->state, inner);
  ls_runtime_end_callback(stage->work->runtime);
  if (ls_status_is_ok(status)) self->position = position;
  return status;
}

static void generator_close(ls_stage *stage) {
  close_state((generator_stage *)stage);
}

static const ls_stage_class generator_stage_class = {
    .size = sizeof(generator_stage),
    .counters = {LS_STAGE_COUNTER(generator_stage, position),
                 LS_STAGE_COUNTER(generator_stage, ended)},
    .next = generator_next,
    .restart = generator_restart,
    .save = generator_save,
    .restore = generator_restore,
    .id_after = offsetof(generator_stage, position),
    .close = generator_close};

// ---- Making ----------------------------------------------------------------
static void generator_describe(const ls_dataset *dataset, ls_text *text) {
  const generator *self = (const generator *)dataset;
  ls_text_append(text, self->name);
}

static const char *generator_name_of(const ls_generator_options *o) {
  return o->name == NULL ? "generator" : o->name;
}

static ls_status generator_check(const ls_generator_options *o) {
  const char *name = generator_name_of(o);
  if (o->open == NULL || o->next == NULL)
    return ls_invalid_argument("generator '%s' needs `open` and `next`", name);
  if ((o->save == NULL) != (o->restore == NULL))
    return ls_invalid_argument(
        "generator '%s' has one of `save` and `restore`; give both or none",
        name);
  if (o->size.set && o->size.value < LS_INFINITE)
    return ls_invalid_argument(
        "generator '%s' cannot have %lld elements; give their number, "
        "LS_INFINITE, or nothing",
        name, o->size.value);
  return ls_ok();
}

ls_dataset *ls_dataset_from_generator(const ls_generator_options *options) {
  static const ls_dataset_class kind = {.name = "generator",
                                        .describe = generator_describe,
                                        .stage = &generator_stage_class};
  LS_DATASET_REQUIRE(options, generator, &kind, NULL, 0);
  generator *self = (generator *)ls_dataset_new_with(
      &kind, sizeof(*self), NULL, 0,
      ls_user_create(options->user, options->release),
      generator_check(options));
  if (self == NULL || self->dataset.failure != NULL) {
    ls_nest_release(options->element);
    return (ls_dataset *)self;
  }
  self->options = *options;
  self->options.element = ls_none();
  ls_format(self->name, sizeof(self->name), "%s", generator_name_of(options));
  self->options.name = self->name;
  self->dataset.size =
      options->size.set ? options->size.value : LS_UNKNOWN_SIZE;
  return ls_dataset_fail(&self->dataset,
                         ls_dataset_set_spec(&self->dataset, options->element));
}
