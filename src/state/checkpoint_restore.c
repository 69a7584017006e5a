// SPDX-License-Identifier: Apache-2.0
// Restores a checkpoint: the newest undamaged one, of the same run. Sets
// nothing before all of it is known to fit; only a state may still refuse.
#include "base/plain.h"
#include "base/require.h"
#include "state/checkpoint_file.h"
#include "state/checkpoints.h"
#include "state/own.h"
#include "state/record.h"
#include "state/saved.h"
#include "state/saver_file.h"

typedef struct restoring {
  ls_checkpoints *checkpoints;
  const ls_restore_options *options;
  ls_restore_report *report;
  const ls_checkpoint_file *file;
  ls_value_source source;     // Reads the checkpoint's values.
  uint64_t started;           // File number for lazy variables; 0: none.
  const ls_record **records;  // Record of each state; NULL: not restored.
  ls_saver values;            // The variables to restore.
  int64_t last;               // Considers only checkpoints up to this step.
  ls_passed_over passed;      // Used on rank 0.
  bool setting;               // Everything fits; values are being set.
} restoring;

// ---- Choosing a checkpoint -------------------------------------------------
static ls_status read_whole(const ls_checkpoints *self, int64_t step,
                            ls_checkpoint_file *out) {
  return ls_checkpoint_file_read(self->runtime, ls_checkpoints_reads_from(self),
                                 step, out);
}

// Adds a damaged checkpoint; takes `failure` over.
static void pass_over(restoring *self, int64_t step, ls_status failure) {
  ls_checkpoint_list *list = &self->checkpoints->list;
  ++self->report->damaged;
  for (size_t i = 0; i < list->count; ++i)
    if (list->items[i].step == step) list->items[i].is_damaged = true;
  ls_passed_over_add(&self->passed, step, failure);
}

// Reports a step without a checkpoint, and the first steps that have one.
static ls_status no_such_step(const ls_checkpoints *self, int64_t step) {
  enum { MOST_SHOWN = 8 };
  const ls_checkpoint_list *list = &self->list;
  char steps[MOST_SHOWN * 24 + 40] = "";
  for (size_t i = 0; i < list->count && i < MOST_SHOWN; ++i) {
    const size_t end = strlen(steps);
    ls_format(steps + end, sizeof(steps) - end, "%s %lld", i > 0 ? "," : "",
              (long long)list->items[i].step);
  }
  if (list->count == 0) ls_format(steps, sizeof(steps), " none");
  const size_t end = strlen(steps);
  if (list->count > MOST_SHOWN)
    ls_format(steps + end, sizeof(steps) - end, " and %zu more",
              list->count - MOST_SHOWN);
  return ls_not_found("'%s' has no checkpoint of step %lld; it has%s",
                      self->folder, (long long)step, steps);
}

// Reads the checkpoint of the requested step, else the newest undamaged one.
static ls_status checkpoint_restore_find(restoring *self,
                                         ls_checkpoint_file *out) {
  ls_checkpoints *checkpoints = self->checkpoints;
  const ls_checkpoint_list *list = &checkpoints->list;
  const ls_opt step = self->options->step;
  for (size_t i = list->count; i > 0; --i) {
    const int64_t of = list->items[i - 1].step;
    if (of > self->last || (step.set && of != step.value)) continue;
    const ls_status status = read_whole(checkpoints, of, out);
    self->report->step = of;
    if (ls_status_is_ok(status) || step.set ||
        ls_status_code(status) == LS_RESOURCE_EXHAUSTED)
      return status;
    pass_over(self, of, status);
  }
  if (self->passed.count > 0)
    return ls_passed_over_end(&self->passed, checkpoints->folder);
  return step.set ? no_such_step(checkpoints, step.value)
                  : ls_not_found("'%s' has no checkpoint", checkpoints->folder);
}

// Rank 0 chooses a checkpoint, and the other ranks read the same one.
static ls_status read_on_ranks(restoring *self, ls_checkpoint_file *out) {
  ls_checkpoints *checkpoints = self->checkpoints;
  ls_ranks *ranks = &checkpoints->ranks;
  ls_restore_report *report = self->report;
  const bool leads = ls_checkpoints_leads(checkpoints);
  LS_RETURN_IF_ERROR(ls_ranks_agree(
      ranks, leads ? checkpoint_restore_find(self, out) : ls_ok()));
  struct {
    int64_t step;
    uint64_t damaged;
  } found = {report->step, report->damaged};
  LS_RETURN_IF_ERROR(ls_ranks_send(ranks, &found, sizeof(found)));
  report->step = found.step;
  report->damaged = (size_t)found.damaged;
  LS_RETURN_IF_ERROR(ls_checkpoints_bring(checkpoints, found.step));
  return ls_ranks_agree(
      ranks, leads ? ls_ok() : read_whole(checkpoints, found.step, out));
}

// ---- Checking a checkpoint -------------------------------------------------
static void print_entry(const ls_record_entry *entry, char *buffer,
                        size_t size) {
  if (entry == NULL)
    ls_format(buffer, size, "nothing");
  else if (entry->kind == LS_ENTRY_I64)
    ls_format(buffer, size, "%lld", (long long)entry->number);
  else if (entry->kind == LS_ENTRY_TEXT)
    ls_format(buffer, size, "'%s'", entry->data);
  else
    ls_format(buffer, size, "%zu bytes", entry->size);
}

static bool checkpoint_restore_is_same(const ls_record_entry *a,
                                       const ls_record_entry *b) {
  return a != NULL && a->kind == b->kind && a->number == b->number &&
         a->size == b->size && memcmp(a->data, b->data, a->size) == 0;
}

// Checks that the checkpoint has each entry of this run's identity.
static ls_status check_identity(const ls_checkpoints *self,
                                const ls_checkpoint_file *file,
                                const ls_record *saved) {
  const ls_record *own = self->options.identity;
  size_t at = 0;
  ls_map_item item;
  char other[1200] = "";
  while (own != NULL && ls_map_next(&own->entries, &at, &item)) {
    const ls_record_entry *wanted = item.value;
    const ls_record_entry *has = ls_map_find_text(&saved->entries, item.key);
    if (checkpoint_restore_is_same(has, wanted)) continue;
    char present[200], was[200];
    print_entry(wanted, present, sizeof(present));
    print_entry(has, was, sizeof(was));
    const size_t end = strlen(other);
    ls_format(other + end, sizeof(other) - end,
              "%s its %s is %s, here it is %s", end > 0 ? ";" : "",
              (const char *)item.key, was, present);
  }
  return other[0] == '\0'
             ? ls_ok()
             : ls_invalid_argument("'%s' belongs to another run:%s", file->path,
                                   other);
}

static ls_status checkpoint_restore_check_run(ls_checkpoints *self,
                                              const ls_checkpoint_file *file,
                                              bool inexact,
                                              ls_restore_report *report) {
  LS_OWN(ls_record, saved) = NULL;
  LS_RETURN_IF_ERROR(ls_checkpoint_file_record(file, "identity", &saved));
  const ls_status status = check_identity(self, file, saved);
  if (ls_status_code(status) != LS_INVALID_ARGUMENT || !inexact) return status;
  ls_runtime_log(self->runtime, LS_LOG_WARNING, "checkpoint",
                 "going on all the same, so results will differ: %s",
                 ls_status_message(status));
  ls_status_free(status);
  report->inexact = true;
  return ls_ok();
}

// ---- States ----------------------------------------------------------------
static ls_status choose_states(const restoring *self, ls_name_choice *out) {
  const ls_restore_options *o = self->options;
  const ls_checkpoints_options *has = &self->checkpoints->options;
  *out = (ls_name_choice){
      .only = o->states, .num_only = o->num_states, .noun = "state"};
  LS_OWN_ARRAY_OR_RETURN(self->checkpoints->allocator, const char *, names,
                         has->num_states + 1);
  for (size_t i = 0; i < has->num_states; ++i)
    names[i] = has->states[i].name;
  return ls_name_choice_check(out, names, has->num_states);
}

static ls_status find_states(const restoring *self, const ls_record *all) {
  static const ls_record empty;
  const ls_checkpoints_options *has = &self->checkpoints->options;
  ls_name_choice choice;
  LS_RETURN_IF_ERROR(choose_states(self, &choice));
  for (size_t i = 0; i < has->num_states; ++i) {
    const char *name = has->states[i].name;
    if (!ls_name_is_chosen(&choice, name)) continue;
    ls_status status = ls_record_find(all, name, &self->records[i]);
    if (ls_status_code(status) == LS_NOT_FOUND &&
        self->checkpoints->allows_missing) {
      ls_status_free(status);
      status = ls_ok();
      self->records[i] = &empty;
    }
    LS_RETURN_IF_ERROR(ls_status_annotate(
        status, "'%s' does not have the state '%s'", self->file->path, name));
  }
  return ls_ok();
}

static ls_status restore_states(const restoring *self) {
  const ls_checkpoints_options *has = &self->checkpoints->options;
  for (size_t i = 0; i < has->num_states; ++i) {
    const ls_saveable *state = &has->states[i];
    if (self->records[i] == NULL) continue;
    LS_RETURN_IF_ERROR(
        ls_status_annotate(state->restore(state->self, self->records[i]),
                           "while restoring '%s'", state->name));
    ++self->report->states;
  }
  return ls_ok();
}

// ---- All -------------------------------------------------------------------
// Checks that everything to restore is there and fits.
static ls_status prepare_restore(restoring *self, ls_record **states,
                                 ls_restore_plan *plan) {
  LS_RETURN_IF_ERROR(checkpoint_restore_check_run(
      self->checkpoints, self->file, self->options->inexact == LS_FLAG_ON,
      self->report));
  // Values that differ between replicas fit only the same run.
  if (self->report->inexact) self->values.exact = false;
  LS_RETURN_IF_ERROR(ls_checkpoint_file_record(self->file, "state", states));
  LS_RETURN_IF_ERROR(find_states(self, *states));
  const ls_status status =
      ls_restore_plan_make(&self->values, &self->source, &self->options->values,
                           self->started, plan);
  self->report->values = plan->report;
  return status;
}

// Restores states first, since they may still refuse; variables are known to
// fit.
static ls_status run_restore(restoring *self, const ls_restore_plan *plan) {
  LS_RETURN_IF_ERROR(restore_states(self));
  self->setting = true;
  return ls_restore_plan_run(plan);
}

// Returns true if the whole run is restored, not a part of it.
static bool is_whole(const restoring *self) {
  const ls_restore_report *report = self->report;
  return report->variables ==
             self->checkpoints->options.values->num_variables &&
         report->states == self->checkpoints->options.num_states;
}

static ls_status restore_from(restoring *self) {
  ls_checkpoints *checkpoints = self->checkpoints;
  ls_restore_report *report = self->report;
  LS_OWN(ls_record, states) = NULL;
  LS_OWN(ls_restore_plan, plan) = {0};
  LS_OWN_ARRAY(checkpoints->allocator, const ls_record *, records,
               checkpoints->options.num_states + 1);
  self->records = records;
  self->values = *checkpoints->options.values;
  // A checkpoint that does not fit on one rank is restored on none.
  LS_RETURN_IF_ERROR(
      ls_ranks_agree(&checkpoints->ranks,
                     records == NULL ? ls_out_of_memory()
                                     : prepare_restore(self, &states, &plan)));
  LS_RETURN_IF_ERROR(
      ls_ranks_agree(&checkpoints->ranks, run_restore(self, &plan)));
  report->variables = report->values.count[LS_VALUE_RESTORED] +
                      report->values.count[LS_VALUE_RENAMED];
  if (is_whole(self)) {
    checkpoints->saved_step = report->step;
    checkpoints->list.future_of =
        self->options->step.set ? report->step : INT64_MAX;
  }
  return ls_ok();
}

static ls_status restore_open(restoring *self, const ls_saved_file *file) {
  if (self->options->step.set)
    return ls_invalid_argument(
        "a restore is of an open file or of step %lld, not of both",
        self->options->step.value);
  if (file->checkpoint.root == NULL)
    return ls_invalid_argument("'%s' is no checkpoint, and has no states; "
                               "ls_saved_file_restore restores its variables",
                               file->source.path);
  self->file = &file->checkpoint;
  self->source = file->source;
  self->started = file->number;
  self->report->step = file->step;
  return restore_from(self);
}

static ls_status checkpoint_restore_one(restoring *self) {
  LS_OWN(ls_checkpoint_file, file) = {0};
  self->report->states = 0;
  ls_status status = read_on_ranks(self, &file);
  if (ls_status_is_ok(status)) {
    self->file = &file;
    self->source = ls_value_source_of(&file.values);
    self->source.is_checked = true;
    status = restore_from(self);
  }
  ls_checkpoints_take_back(self->checkpoints, self->report->step);
  return status;
}

// Asks rank 0 whether a checkpoint that was undamaged a moment ago cannot be
// read any more: then an older one is used.
static ls_status ask_again(const restoring *self, ls_status status,
                           bool *out_again) {
  const ls_code code = ls_status_code(status);
  char again = self->setting && !self->options->step.set &&
               (code == LS_UNAVAILABLE || code == LS_DATA_LOSS);
  const ls_status sent =
      ls_ranks_send(&self->checkpoints->ranks, &again, sizeof(again));
  *out_again = ls_status_is_ok(sent) && again != 0;
  return ls_status_join(status, sent);
}

static ls_status restore_found(restoring *self) {
  ls_checkpoints *checkpoints = self->checkpoints;
  self->last = INT64_MAX;
  for (;;) {
    bool again = false;
    self->setting = false;
    ls_status status = checkpoint_restore_one(self);
    checkpoints->tidies = ls_status_is_ok(status) && !self->options->step.set;
    if (!ls_status_is_ok(status)) status = ask_again(self, status, &again);
    if (again) {
      self->last = self->report->step - 1;
      pass_over(self, self->report->step, status);
      continue;
    }
    if (ls_status_is_ok(status) && ls_checkpoints_leads(checkpoints))
      ls_passed_over_log(&self->passed, checkpoints->runtime,
                         checkpoints->folder, self->report->step);
    ls_passed_over_deinit(&self->passed);
    return status;
  }
}

static ls_status restore_chosen(restoring *self) {
  LS_RETURN_IF_ERROR(ls_checkpoints_wait(self->checkpoints));
  return self->options->file != NULL ? restore_open(self, self->options->file)
                                     : restore_found(self);
}

ls_status ls_checkpoints_restore(ls_checkpoints *checkpoints,
                                 const ls_restore_options *options,
                                 ls_restore_report *report) {
  LS_REQUIRE(checkpoints);
  const ls_restore_options none = {0};
  ls_restore_report unwanted;
  if (options == NULL) options = &none;
  if (report == NULL) report = &unwanted;
  *report = (ls_restore_report){0};
  LS_RETURN_IF_ERROR(
      ls_checkpoints_begin(checkpoints, "ls_checkpoints_restore"));
  restoring self = {
      .checkpoints = checkpoints, .options = options, .report = report};
  const ls_status status = restore_chosen(&self);
  ls_checkpoints_end(checkpoints);
  return status;
}
