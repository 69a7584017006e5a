// SPDX-License-Identifier: Apache-2.0
#include "train/folder/saves.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "base/status_cause.h"
#include "data/dataset.h"
#include "engine/backend.h"
#include "lockstep/function_plan.h"
#include "lockstep/tasks.h"
#include "runtime/program.h"
#include "state/checkpoint_file.h"
#include "state/checkpoints.h"
#include "state/record.h"

static const char former_name[] = "checkpoint.safetensors";
static const char model_name[] = "model.safetensors";

// ---- Identity of resumable runs --------------------------------------------
static ls_status hash_data(const ls_saves *saves, const ls_dataset *data,
                           char text[17]) {
  uint64_t hash = 0;
  LS_RETURN_IF_ERROR(ls_train_identify_data(saves->runtime, data, &hash));
  snprintf(text, 17, "%016llx", (unsigned long long)hash);
  return ls_ok();
}

static ls_status saves_set_type(ls_record *record, const ls_dataset *dataset) {
  LS_OWN(ls_text, text) = {.allocator = record->allocator};
  ls_structure_print(dataset->structure, dataset->leaves, &text);
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  return ls_record_set_text(record, "type of examples", ls_text_data(&text));
}

static ls_status identify_data(ls_saves *saves) {
  const ls_train_options *o = &saves->plan->options;
  char contents[17];
  LS_RETURN_IF_ERROR(ls_record_set_i64(saves->identity, "number of examples",
                                       saves->plan->examples));
  LS_RETURN_IF_ERROR(saves_set_type(saves->identity, o->train));
  LS_RETURN_IF_ERROR(hash_data(saves, o->train, contents));
  if (o->test != NULL)
    LS_RETURN_IF_ERROR(hash_data(saves, o->test, saves->test_hash));
  return ls_record_set_text(saves->identity, "hash of the data", contents);
}

static ls_status identify(ls_saves *saves) {
  const ls_train_config *config = &saves->plan->config;
  const struct {
    const char *name;
    int64_t value;
  } counts[] = {{"number of replicas", config->replicas},
                {"batch size", config->batch_size},
                {"seed", config->seed}};
  ls_record *record = saves->identity;
  ls_backend *backend = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_backend(saves->runtime, &backend));
  LS_RETURN_IF_ERROR(ls_record_set_text(
      record, "model", saves->plan->options.model->type->name));
  LS_RETURN_IF_ERROR(ls_record_set_text(record, "math", config->math));
  LS_RETURN_IF_ERROR(ls_record_set_text(record, "numerics",
                                        backend->vtable->numerics_id(backend)));
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i)
    LS_RETURN_IF_ERROR(
        ls_record_set_i64(record, counts[i].name, counts[i].value));
  return identify_data(saves);
}

// Returns the folder of the run that is resumed or gone on from.
static const char *former_folder(const ls_saves *saves) {
  const char *from = saves->plan->options.from;
  return from != NULL ? from : saves->folder;
}

// Returns the difference from a former run, or logs it if it is allowed.
static ls_status refuse_difference(const ls_saves *saves, ls_status status) {
  if (ls_status_is_ok(status) || !saves->plan->options.inexact) return status;
  ls_runtime_log(saves->runtime, LS_LOG_WARNING, "train",
                 "going on all the same, so results will differ: %s",
                 ls_status_message(status));
  ls_status_free(status);
  return ls_ok();
}

// ---- States ----------------------------------------------------------------
static ls_status find_optional(const ls_record *record, const char *name,
                               int64_t *out_value, bool *out_found) {
  const ls_status status = ls_record_get_i64(record, name, out_value);
  *out_found = ls_status_is_ok(status);
  return ls_status_unless(status, LS_NOT_FOUND);
}

static ls_status save_config(const ls_saves *saves, ls_record *record) {
  LS_OWN(ls_text, text) = {.allocator = ls_runtime_allocator(saves->runtime)};
  ls_train_config_print(&saves->plan->config, &text);
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  return ls_record_set_text(record, LS_CONFIG_ENTRY, ls_text_data(&text));
}

static ls_status save_run(void *self, ls_record *record) {
  const ls_saves *saves = self;
  const bool known = saves->program.all[0] != '\0';
  const ls_program_identity *program = known ? &saves->program : &saves->wanted;
  const char *rule = saves->plan->options.stop_early;
  LS_RETURN_IF_ERROR(save_config(saves, record));
  if (rule != NULL)
    LS_RETURN_IF_ERROR(ls_early_stop_save(&saves->early, rule, record));
  LS_RETURN_IF_ERROR(
      ls_record_set_i64(record, "nanos", (int64_t)(saves->seconds * 1e9)));
  LS_RETURN_IF_ERROR(ls_record_set_text(record, "test set", saves->test_hash));
  LS_RETURN_IF_ERROR(ls_record_set_text(record, "program", program->all));
  LS_RETURN_IF_ERROR(ls_record_set_text(record, "program ops", program->ops));
  LS_RETURN_IF_ERROR(
      ls_record_set_text(record, "program lowered", program->lowered));
  LS_RETURN_IF_ERROR(
      ls_record_set_text(record, "program lowered ops", program->lowered_ops));
  return ls_record_set_i64(
      record, "steps", known ? saves->plan->num_steps : saves->wanted_steps);
}

// Checkpoints of earlier versions lack the text: sets `out` to "" for those.
static ls_status restore_lowered(const ls_record *record, const char *name,
                                 char out[33]) {
  const char *text = "";
  const ls_status status = ls_record_get_text(record, name, &text);
  snprintf(out, 33, "%s", ls_status_is_ok(status) ? text : "");
  return ls_status_unless(status, LS_NOT_FOUND);
}

// Checks that a run with a test set is not resumed with another one: its values
// are compared with those of the former. Checkpoints of earlier versions lack
// the hash.
static ls_status check_test_set(const ls_saves *saves,
                                const ls_record *record) {
  const char *was = "";
  LS_RETURN_IF_ERROR(ls_status_unless(
      ls_record_get_text(record, "test set", &was), LS_NOT_FOUND));
  if (was[0] == '\0' || saves->test_hash[0] == '\0' ||
      strcmp(was, saves->test_hash) == 0)
    return ls_ok();
  return refuse_difference(
      saves, ls_invalid_argument("'%s' belongs to another run: its hash of the "
                                 "test data is '%s', here it is '%s'",
                                 former_folder(saves), was, saves->test_hash));
}

static ls_status restore_run(void *self, const ls_record *record) {
  ls_saves *saves = self;
  const char *all = NULL, *ops = NULL;
  int64_t nanos = 0;
  LS_RETURN_IF_ERROR(check_test_set(saves, record));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "nanos", &nanos));
  LS_RETURN_IF_ERROR(ls_record_get_text(record, "program", &all));
  LS_RETURN_IF_ERROR(ls_record_get_text(record, "program ops", &ops));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "steps", &saves->wanted_steps));
  const char *rule = saves->plan->options.stop_early;
  if (rule != NULL)
    LS_RETURN_IF_ERROR(ls_early_stop_restore(&saves->early, rule, record));
  saves->seconds = (double)nanos * 1e-9;
  snprintf(saves->wanted.all, sizeof(saves->wanted.all), "%s", all);
  snprintf(saves->wanted.ops, sizeof(saves->wanted.ops), "%s", ops);
  LS_RETURN_IF_ERROR(
      restore_lowered(record, "program lowered", saves->wanted.lowered));
  return restore_lowered(record, "program lowered ops",
                         saves->wanted.lowered_ops);
}

// Saves the functions' call counts, on which random draws depend.
static ls_status save_functions(void *self, ls_record *record) {
  const ls_saves *saves = self;
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(saves->runtime, &state));
  LS_RETURN_IF_ERROR(
      ls_record_set_i64(record, "eager", (int64_t)state->eager_random));
  if (saves->evaluate != NULL)
    LS_RETURN_IF_ERROR(
        ls_record_set_i64(record, "evaluate", (int64_t)saves->evaluated));
  return ls_record_set_i64(record, "train_step",
                           (int64_t)ls_function_steps(saves->step));
}

static ls_status restore_functions(void *self, const ls_record *record) {
  const ls_saves *saves = self;
  ls_runtime_state *state = NULL;
  int64_t steps = 0, eager = 0, evaluated = 0;
  bool has = false;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(saves->runtime, &state));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "train_step", &steps));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "eager", &eager));
  LS_RETURN_IF_ERROR(find_optional(record, "evaluate", &evaluated, &has));
  ls_function_set_steps(saves->step, (uint64_t)steps);
  if (has && saves->evaluate != NULL)
    ls_function_set_steps(saves->evaluate, (uint64_t)evaluated);
  state->eager_random = (uint64_t)eager;
  return ls_ok();
}

static ls_status save_input(void *self, ls_record *record) {
  const ls_saves *saves = self;
  ls_record *place = NULL;
  LS_RETURN_IF_ERROR(
      ls_record_set_i64(record, "epoch", ls_iterator_epoch(saves->input)));
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "position",
                                       ls_iterator_position(saves->input)));
  if (saves->input_stalls) return ls_ok();
  LS_RETURN_IF_ERROR(ls_record_add(record, "iterator", &place));
  return ls_iterator_save(saves->input, place);
}

// Reads a stream up to the saved position.
static ls_status seek_input(const ls_saves *saves, const ls_record *record) {
  int64_t epoch = 0, position = 0;
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "epoch", &epoch));
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "position", &position));
  LS_RETURN_IF_ERROR(ls_iterator_seek_epoch(saves->input, epoch));
  return ls_iterator_seek(saves->input, position);
}

// The loop sets the input's position of an inexact run from its steps.
static ls_status restore_input(void *self, const ls_record *record) {
  const ls_saves *saves = self;
  const ls_record *place = NULL;
  ls_status status = ls_record_find(record, "iterator", &place);
  if (ls_status_code(status) == LS_NOT_FOUND) {
    ls_status_free(status);
    return seek_input(saves, record);
  }
  if (ls_status_is_ok(status))
    status = ls_iterator_restore(saves->input, place);
  if (ls_status_code(status) != LS_INVALID_ARGUMENT ||
      !saves->plan->options.inexact)
    return status;
  ls_runtime_log(saves->runtime, LS_LOG_WARNING, "train", "%s",
                 ls_status_message(status));
  ls_status_free(status);
  return ls_ok();
}

static ls_status list_states(ls_saves *saves) {
  const ls_train_options *o = &saves->plan->options;
  const ls_saveable own[LS_RUN_STATES] = {
      {LS_CONFIG_STATE, saves, save_run, restore_run},
      {"functions", saves, save_functions, restore_functions},
      {"input", saves, save_input, restore_input}};
  LS_SET_ARRAY_OR_RETURN(ls_runtime_allocator(saves->runtime), ls_saveable,
                         saves->states, LS_RUN_STATES + o->num_states);
  memcpy(saves->states, own, sizeof(own));
  for (size_t i = 0; i < o->num_states; ++i)
    saves->states[LS_RUN_STATES + i] = o->states[i];
  return ls_ok();
}

// ---- Making ----------------------------------------------------------------
ls_status ls_saves_init(ls_saves *saves, ls_runtime *runtime,
                        const ls_run_plan *plan, const char *folder,
                        ls_function *step, ls_function *evaluate,
                        ls_iterator *input) {
  *saves = (ls_saves){.runtime = runtime,
                      .plan = plan,
                      .folder = folder,
                      .step = step,
                      .evaluate = evaluate,
                      .input = input,
                      .saving = {.yields = true, .saved = -1}};
  if (folder == NULL && plan->options.from == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_train_prepare_optimizer(runtime, plan->options.model));
  LS_RETURN_IF_ERROR(ls_train_variables(runtime, plan->options.model, true,
                                        &saves->variables,
                                        &saves->values.num_variables));
  saves->values.variables = saves->variables;
  saves->values.exact = true;
  LS_RETURN_IF_ERROR(ls_record_create(&saves->identity));
  LS_RETURN_IF_ERROR(identify(saves));
  return list_states(saves);
}

ls_status ls_saves_deinit(ls_saves *saves) {
  if (saves->runtime == NULL) return ls_ok();
  ls_allocator *allocator = ls_runtime_allocator(saves->runtime);
  const ls_status status = ls_saving_close(&saves->saving);
  ls_record_destroy(saves->identity);
  ls_release(allocator, saves->states);
  ls_release(allocator, saves->variables);
  *saves = (ls_saves){0};
  return status;
}

static ls_checkpoints_options options_of(const ls_saves *saves,
                                         const ls_run_ranks *ranks,
                                         const char *folder) {
  const ls_train_options *o = &saves->plan->options;
  ls_checkpoints_options options = {
      .folder = folder,
      .values = &saves->values,
      .states = saves->states,
      .num_states = LS_RUN_STATES + o->num_states,
      .identity = saves->identity,
      .keep = o->keep,
      .keep_every_hours = o->keep_every_hours,
      .best_metric = o->keep_best,
      .best_is_high = ls_train_config_keeps_highest(&saves->plan->config)
                          ? LS_FLAG_ON
                          : LS_FLAG_OFF,
      .background = o->save_background,
      .ranks = ranks->all.communicator != NULL ? LS_FLAG_ON : LS_FLAG_OFF,
      .goes_on = o->save_goes_on ? LS_FLAG_ON : LS_FLAG_OFF};
  if (o->save_steps > 0) options.every_steps = LS_SOME(o->save_steps);
  if (o->save_seconds > 0) options.every_seconds = LS_SOME(o->save_seconds);
  return options;
}

ls_status ls_saves_open(ls_saves *saves, const ls_run_ranks *ranks) {
  if (saves->folder == NULL) return ls_ok();
  const ls_checkpoints_options options =
      options_of(saves, ranks, saves->folder);
  return ls_saving_open(&saves->saving, &options);
}

// ---- Other runs' files -----------------------------------------------------
bool ls_saves_owns(const char *name) {
  static const char *const extensions[] = {"json", "safetensors", "json.tmp",
                                           "safetensors.tmp"};
  for (size_t i = 0; i < LS_COUNT_OF(extensions); ++i)
    if (ls_checkpoint_step_of(name, extensions[i]) >= 0) return true;
  return strcmp(name, "checkpoint") == 0 || strcmp(name, former_name) == 0;
}

// ---- Resuming --------------------------------------------------------------
static ls_status look_for(const ls_saves *saves, const char *folder,
                          const char *name, ls_text *path, bool *out_exists) {
  const ls_file_system *files = ls_runtime_files(saves->runtime);
  ls_text_clear(path);
  ls_text_append_format(path, "%s/%s", folder, name);
  LS_RETURN_IF_ERROR(ls_text_status(path));
  return files->exists(files->user, ls_text_data(path), out_exists);
}

// Reads an earlier version's file. Its position is its number of steps; the
// loop sets the iterator from that.
static ls_status read_former(ls_saves *saves, const char *path,
                             int64_t *out_steps) {
  const ls_train_config *config = &saves->plan->config;
  ls_former_notes notes = {.replicas = config->replicas,
                           .batch_size = config->batch_size,
                           .seed = config->seed,
                           .examples = saves->plan->examples,
                           .inexact = saves->plan->options.inexact};
  LS_RETURN_IF_ERROR(ls_former_checkpoint_read(
      saves->runtime, path, saves->plan->options.model, &notes));
  ls_function_set_steps(saves->step, (uint64_t)notes.steps);
  saves->seconds = notes.seconds;
  *out_steps = notes.steps;
  return ls_ok();
}

// Reads the file of an earlier version once, and removes it when there is a
// checkpoint of the same step.
static ls_status take_over(ls_saves *saves, ls_run_ranks *ranks,
                           const char *path, bool read, int64_t *out_steps) {
  const ls_file_system *files = ls_runtime_files(saves->runtime);
  if (read) {
    LS_RETURN_IF_ERROR(
        ls_run_ranks_agree(ranks, read_former(saves, path, out_steps)));
    LS_RETURN_IF_ERROR(ls_saving_save(&saves->saving, *out_steps, NULL, 0));
    LS_RETURN_IF_ERROR(ls_saving_wait(&saves->saving));
  }
  return ls_run_ranks_agree(ranks, ls_run_ranks_writes(ranks)
                                       ? files->remove(files->user, path)
                                       : ls_ok());
}

static ls_status saves_restore(const ls_saves *saves,
                               ls_checkpoints *checkpoints, ls_opt step,
                               int64_t *out_steps) {
  ls_restore_report report;
  LS_RETURN_IF_ERROR(ls_checkpoints_restore(
      checkpoints,
      &(ls_restore_options){
          .step = step,
          .inexact = saves->plan->options.inexact ? LS_FLAG_ON : LS_FLAG_OFF},
      &report));
  *out_steps = report.step;
  return ls_ok();
}

// Files in rank 0's folder besides checkpoints.
enum { HAS_MODEL = 1, HAS_FORMER = 2 };
static ls_status saves_look(const ls_saves *saves, ls_text *path,
                            int64_t *out_has) {
  bool former = false, model = false;
  LS_RETURN_IF_ERROR(look_for(saves, saves->folder, model_name, path, &model));
  LS_RETURN_IF_ERROR(
      look_for(saves, saves->folder, former_name, path, &former));
  *out_has = (model ? HAS_MODEL : 0) | (former ? HAS_FORMER : 0);
  return ls_ok();
}

static ls_status saves_resume(ls_saves *saves, ls_run_ranks *ranks,
                              ls_text *path, int64_t *out_steps) {
  size_t count = 0;
  int64_t has = 0;
  LS_RETURN_IF_ERROR(
      ls_checkpoints_list(saves->saving.checkpoints, NULL, 0, &count));
  LS_RETURN_IF_ERROR(ls_run_ranks_agree(ranks, saves_look(saves, path, &has)));
  LS_RETURN_IF_ERROR(ls_ranks_send(&ranks->all, &has, sizeof(has)));
  const bool former = (has & HAS_FORMER) != 0;
  if ((has & HAS_MODEL) != 0 && !former && count == 0)
    return ls_not_found("the run in '%s' cannot be resumed: its checkpoints "
                        "are gone",
                        saves->folder);
  if (count > 0) {
    LS_RETURN_IF_ERROR(saves_restore(saves, saves->saving.checkpoints,
                                     (ls_opt){0}, out_steps));
    saves->saving.saved = *out_steps;
  }
  return former ? take_over(saves, ranks, ls_text_data(path), count == 0,
                            out_steps)
                : ls_ok();
}

ls_status ls_saves_resume(ls_saves *saves, ls_run_ranks *ranks,
                          int64_t *out_steps) {
  *out_steps = 0;
  LS_RETURN_IF_ERROR(ls_saves_open(saves, ranks));
  LS_OWN(ls_text, path) = {.allocator = ls_runtime_allocator(saves->runtime)};
  return saves_resume(saves, ranks, &path, out_steps);
}

static ls_status find_run(const ls_saves *saves, const char *folder) {
  bool exists = false;
  LS_OWN(ls_text, path) = {.allocator = ls_runtime_allocator(saves->runtime)};
  LS_RETURN_IF_ERROR(look_for(saves, folder, LS_CONFIG_FILE, &path, &exists));
  return exists ? ls_ok()
                : ls_not_found("there is no run to go on from in '%s'", folder);
}

ls_status ls_saves_go_on(ls_saves *saves, ls_run_ranks *ranks,
                         int64_t *out_steps) {
  const ls_train_options *o = &saves->plan->options;
  LS_RETURN_IF_ERROR(ls_run_ranks_agree(
      ranks, ls_run_ranks_writes(ranks) ? find_run(saves, o->from) : ls_ok()));
  ls_checkpoints_options options = options_of(saves, ranks, o->from);
  options.background = LS_FLAG_OFF;  // Nothing is saved there.
  ls_checkpoints *checkpoints = NULL;
  LS_RETURN_IF_ERROR(ls_checkpoints_open_to_read(&options, &checkpoints));
  const ls_status status =
      saves_restore(saves, checkpoints, o->from_step, out_steps);
  return ls_status_join(status, ls_checkpoints_close(checkpoints));
}

// ---- The step's program ----------------------------------------------------
static ls_status compare_programs(const ls_saves *saves) {
  // With another number of steps the schedule has other constants.
  const bool all = saves->wanted_steps == saves->plan->num_steps;
  const char *was = all ? saves->wanted.all : saves->wanted.ops;
  const char *current = all ? saves->program.all : saves->program.ops;
  const char *ran = all ? saves->wanted.lowered : saves->wanted.lowered_ops;
  const char *runs = all ? saves->program.lowered : saves->program.lowered_ops;
  if (was[0] == '\0' || strcmp(current, was) == 0) return ls_ok();
  // Strategies of different kinds may build different graphs that lower to the
  // same program.
  if (ran[0] != '\0' && strcmp(runs, ran) == 0) return ls_ok();
  return ls_invalid_argument("the run in '%s' has another program: that of its "
                             "step is %s, here it is %s",
                             former_folder(saves), was, current);
}

ls_status ls_saves_check_program(ls_saves *saves, int64_t examples) {
  const ls_run_plan *plan = saves->plan;
  const int64_t full = plan->options.batch_size < plan->examples
                           ? plan->options.batch_size
                           : plan->examples;
  if (saves->identity == NULL || saves->program.all[0] != '\0' ||
      examples != full)
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_train_identify_program(saves->step, &saves->program));
  return refuse_difference(saves, compare_programs(saves));
}

// Returns true if the run may be saved: its program is known, or need not be
// that of a checkpoint.
bool ls_saves_are_known(const ls_saves *saves) {
  return saves->program.all[0] != '\0' || saves->wanted.all[0] == '\0';
}
