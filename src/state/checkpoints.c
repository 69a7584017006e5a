// SPDX-License-Identifier: Apache-2.0
#include "state/checkpoints.h"

#include <math.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "runtime/program.h"

// ---- Files -----------------------------------------------------------------
static ls_status remove_file(ls_checkpoints *self, const char *name) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  LS_OWN(ls_text, path) = {.allocator = self->allocator};
  ls_text_append_format(&path, "%s/%s", self->folder, name);
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  return files->remove(files->user, ls_text_data(&path));
}

ls_status ls_checkpoint_remove_file(ls_checkpoints *self, const char *folder,
                                    int64_t step, const char *extension) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  LS_OWN(ls_text, path) = {.allocator = self->allocator};
  ls_checkpoint_path(&path, folder, step, extension);
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  const ls_status status = files->remove(files->user, ls_text_data(&path));
  if (ls_status_code(status) != LS_NOT_FOUND) return status;
  ls_status_free(status);
  return ls_ok();
}

// Removes the .json first: values without it are no checkpoint.
static ls_status remove_checkpoint(ls_checkpoints *self, int64_t step) {
  LS_RETURN_IF_ERROR(
      ls_checkpoint_remove_file(self, self->folder, step, "json"));
  return ls_checkpoint_remove_file(self, self->folder, step, "safetensors");
}

// ---- The list --------------------------------------------------------------
static bool checkpoint_list_insert(ls_checkpoints *self,
                                   ls_checkpoint_info info) {
  ls_checkpoint_list *list = &self->list;
  size_t at = 0;
  while (at < list->count && list->items[at].step < info.step)
    ++at;
  if (at < list->count && list->items[at].step == info.step) {
    list->items[at] = info;
    return true;
  }
  if (!LS_GROW(self->allocator, list->items, list->capacity, list->count + 1))
    return false;
  memmove(&list->items[at + 1], &list->items[at],
          (list->count - at) * sizeof(*list->items));
  list->items[at] = info;
  ++list->count;
  return true;
}

const ls_checkpoint_info *
ls_checkpoint_list_find(const ls_checkpoint_list *list, int64_t step) {
  for (size_t i = 0; i < list->count; ++i)
    if (list->items[i].step == step) return &list->items[i];
  return NULL;
}

static ls_status write_list(ls_checkpoints *self) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  const ls_checkpoint_list *list = &self->list;
  LS_OWN(ls_text, text) = {.allocator = self->allocator};
  LS_OWN(ls_text, path) = {.allocator = self->allocator};
  size_t newest = list->count;  // The newest one not known to be damaged.
  while (newest > 1 && list->items[newest - 1].is_damaged)
    --newest;
  if (newest > 0)
    ls_text_append_format(&text, "model_checkpoint_path: \"model.ckpt-%lld\"\n",
                          (long long)list->items[newest - 1].step);
  for (size_t i = 0; i < list->count; ++i)
    ls_text_append_format(&text,
                          "all_model_checkpoint_paths: \"model.ckpt-%lld\"\n",
                          (long long)list->items[i].step);
  ls_text_append_format(&path, "%s/checkpoint", self->folder);
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  return files->write(files->user, ls_text_data(&path), ls_text_data(&text),
                      text.size);
}

// ---- Opening the list ------------------------------------------------------
static double find_metric(const ls_json *root, const char *name) {
  const ls_json *metrics = ls_json_find(root, "metrics");
  return metrics == NULL || name == NULL
             ? (double)NAN
             : ls_checkpoint_metric_of(ls_json_find(metrics, name));
}

// Reads a checkpoint's .json; of a damaged one only the step is known.
static ls_status read_info(ls_checkpoints *self, int64_t step,
                           ls_checkpoint_info *out) {
  *out = (ls_checkpoint_info){.step = step, .metric = (double)NAN};
  LS_OWN(ls_checkpoint_file, file) = {0};
  const ls_status status =
      ls_checkpoint_file_read_notes(self->runtime, self->folder, step, &file);
  if (ls_status_code(status) == LS_RESOURCE_EXHAUSTED) return status;
  out->is_damaged = ls_status_code(status) == LS_DATA_LOSS ||
                    ls_status_code(status) == LS_INVALID_ARGUMENT;
  ls_status_free(status);
  if (file.root == NULL) return ls_ok();
  const ls_json *wall = ls_json_find(file.root, "wall");
  if (wall != NULL && wall->is_integer) out->wall = wall->integer;
  out->metric = find_metric(file.root, self->options.best_metric);
  return ls_ok();
}

static bool has_name(const ls_file_entry *entries, size_t count, int64_t step,
                     const char *extension) {
  for (size_t i = 0; i < count; ++i)
    if (ls_checkpoint_step_of(entries[i].name, extension) == step) return true;
  return false;
}

// Returns true for a temporary file of a killed writer.
static bool is_temporary(const char *name) {
  return ls_checkpoint_step_of(name, "safetensors.tmp") >= 0 ||
         ls_checkpoint_step_of(name, "json.tmp") >= 0 ||
         strcmp(name, "checkpoint.tmp") == 0 ||
         strcmp(name, LS_CHECKPOINT_NONCE) == 0 ||
         strcmp(name, LS_CHECKPOINT_NONCE ".tmp") == 0;
}

// Removes files that a killed writer has left: temporary ones, and values
// without a .json. Logs the latter, as a user may have put them there. Without
// the folder's lock, for the reason `refusal`, only warns that they are there.
static ls_status remove_left_over(ls_checkpoints *self, ls_status refusal,
                                  const ls_file_entry *entries, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const char *name = entries[i].name;
    const int64_t step = ls_checkpoint_step_of(name, "safetensors");
    const bool alone = step >= 0 && !has_name(entries, count, step, "json");
    if (entries[i].is_folder || (!alone && !is_temporary(name))) continue;
    if (!ls_status_is_ok(refusal)) {
      ls_runtime_log(self->runtime, LS_LOG_WARNING, "checkpoint",
                     "unfinished files in '%s', such as '%s', are not removed: "
                     "%s",
                     self->folder, name, ls_status_message(refusal));
      return ls_ok();
    }
    if (alone)
      ls_runtime_log(self->runtime, LS_LOG_WARNING, "checkpoint",
                     "removing '%s/%s': values without a .json, as a writer "
                     "that is killed leaves them",
                     self->folder, name);
    LS_RETURN_IF_ERROR(remove_file(self, name));
  }
  return ls_ok();
}

static ls_status take_entries(ls_checkpoints *self,
                              const ls_file_entry *entries, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const int64_t step = ls_checkpoint_step_of(entries[i].name, "json");
    if (entries[i].is_folder || step < 0) continue;
    ls_checkpoint_info info;
    LS_RETURN_IF_ERROR(read_info(self, step, &info));
    if (!checkpoint_list_insert(self, info)) return ls_out_of_memory();
  }
  return ls_ok();
}

// Locks the folder while these checkpoints are open. Sets `*out_refusal` if
// others have locked it, or if it may only be read.
static ls_status lock_folder(ls_checkpoints *self, ls_status *out_refusal) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  if (files->lock == NULL) return ls_ok();
  LS_OWN(ls_text, path) = {.allocator = self->allocator};
  ls_text_append_format(&path, "%s/checkpoint.lock", self->folder);
  LS_RETURN_IF_ERROR(ls_text_status(&path));
  self->asked_nanos = ls_runtime_now(self->runtime);
  const ls_status status =
      files->lock(files->user, ls_text_data(&path), &self->lock);
  if (ls_status_code(status) != LS_FAILED_PRECONDITION &&
      ls_status_code(status) != LS_PERMISSION_DENIED)
    return status;
  *out_refusal = status;
  return ls_ok();
}

// Locks the folder for a save if others have left it. As asking takes a while,
// does so at once only if there is no lock file; one that a killed process has
// left is found in time. A save goes on without the lock, for whatever reason.
static void lock_if_free(ls_checkpoints *self) {
  const int64_t pause_nanos = 10 * INT64_C(1000000000);
  const ls_file_system *files = ls_runtime_files(self->runtime);
  LS_OWN(ls_text, path) = {.allocator = self->allocator};
  LS_OWN(ls_status, refusal) = ls_ok();
  bool is_there = false;
  if (self->lock != NULL) return;
  ls_text_append_format(&path, "%s/checkpoint.lock", self->folder);
  ls_status_free(files->exists(files->user, ls_text_data(&path), &is_there));
  if (is_there &&
      ls_runtime_now(self->runtime) - self->asked_nanos < pause_nanos)
    return;
  ls_status_free(lock_folder(self, &refusal));
}

// Reads the folder, and removes files that are no complete pair; makes a
// missing folder.
static ls_status checkpoint_list_open(ls_checkpoints *self) {
  const ls_file_system *files = ls_runtime_files(self->runtime);
  LS_OWN_MEMORY(self->allocator, ls_file_entry, entries) = NULL;
  LS_OWN(ls_status, refusal) = ls_ok();
  size_t count = 0;
  if (files->list == NULL)
    return ls_unimplemented(
        "checkpoints in '%s': the file system cannot list folders",
        self->folder);
  if (!self->only_reads) {
    LS_RETURN_IF_ERROR(files->make_directories(files->user, self->folder));
    LS_RETURN_IF_ERROR(lock_folder(self, &refusal));
  }
  LS_RETURN_IF_ERROR(files->list(files->user, self->folder, self->allocator,
                                 &entries, &count));
  LS_RETURN_IF_ERROR(take_entries(self, entries, count));
  return self->only_reads ? ls_ok()
                          : remove_left_over(self, refusal, entries, count);
}

// ---- Keeping ---------------------------------------------------------------
// Returns true if checkpoint `i` is among the best.
static bool is_best(const ls_checkpoints *self, size_t i) {
  const ls_checkpoint_list *list = &self->list;
  const bool high = self->options.best_is_high == LS_FLAG_ON;
  const double own = list->items[i].metric;
  int64_t better = 0;
  if (self->options.best_metric == NULL || isnan(own)) return false;
  if (list->items[i].is_damaged) return false;
  for (size_t k = 0; k < list->count; ++k) {
    const double other = list->items[k].metric;
    if (list->items[k].is_damaged) continue;
    // Among equal metrics the older checkpoint is better.
    better += !isnan(other) && (high ? other > own : other < own);
    better += k < i && other == own;
  }
  return better < self->options.keep_best.value;
}

// Returns true if checkpoint `i` is the first of its period of hours.
static bool is_of_its_hours(const ls_checkpoints *self, size_t i) {
  const double hours = self->options.keep_every_hours;
  if (!(hours > 0)) return false;
  const double nanos = hours * 3600e9;
  const double own = floor((double)self->list.items[i].wall / nanos);
  return i == 0 || floor((double)self->list.items[i - 1].wall / nanos) != own;
}

static bool is_kept(const ls_checkpoints *self, size_t i) {
  const ls_checkpoint_list *list = &self->list;
  const int64_t keep = self->options.keep.value;
  const int64_t *asked = self->options.kept_step;
  const int64_t step = list->items[i].step;
  if (step == list->written || (asked != NULL && *asked > 0 && *asked == step))
    return true;
  if (step > list->future_of) return false;
  size_t newer = 0;  // Damaged checkpoints do not count.
  for (size_t k = i + 1; k < list->count; ++k)
    newer += !list->items[k].is_damaged;
  return keep == 0 || newer < (size_t)keep || is_best(self, i) ||
         is_of_its_hours(self, i);
}

static ls_status drop_others(ls_checkpoints *self) {
  ls_checkpoint_list *list = &self->list;
  for (size_t i = list->count; i > 0; --i) {
    if (is_kept(self, i - 1)) continue;
    LS_RETURN_IF_ERROR(remove_checkpoint(self, list->items[i - 1].step));
    memmove(&list->items[i - 1], &list->items[i],
            (list->count - i) * sizeof(*list->items));
    --list->count;
  }
  return ls_ok();
}

// Removes checkpoints that are not to be kept. The newest one is known to be
// undamaged.
static ls_status checkpoint_list_tidy(ls_checkpoints *self) {
  const size_t before = self->list.count;
  LS_RETURN_IF_ERROR(drop_others(self));
  return self->list.count == before ? ls_ok() : write_list(self);
}

// Adds a checkpoint just written, removes others that are not to be kept, and
// writes the list.
static ls_status checkpoint_list_add(ls_checkpoints *self,
                                     const ls_checkpoint_content *content) {
  ls_checkpoint_info info = {
      .step = content->step, .wall = content->wall, .metric = (double)NAN};
  const char *best = self->options.best_metric;
  for (size_t i = 0; i < content->num_metrics && best != NULL; ++i)
    if (strcmp(content->metrics[i].name, best) == 0)
      info.metric = content->metrics[i].value;
  if (!checkpoint_list_insert(self, info)) return ls_out_of_memory();
  self->list.written = info.step;
  LS_RETURN_IF_ERROR(write_list(self));
  LS_RETURN_IF_ERROR(checkpoint_list_tidy(self));
  self->list.future_of = INT64_MAX;
  return ls_ok();
}

enum { DEFAULT_KEEP = 5, DEFAULT_SECONDS = 60 };

// ---- Writing ---------------------------------------------------------------
static void release_content(ls_checkpoints *self) {
  ls_checkpoint_content *content = &self->content;
  // Keeps the snapshot's memory for the next save.
  const ls_snapshot values = content->values;
  ls_record_destroy(content->identity);
  ls_record_destroy(content->state);
  for (size_t i = 0; i < content->num_metrics; ++i)
    ls_release(self->allocator, content->metrics[i].name);
  ls_release(self->allocator, content->metrics);
  *content = (ls_checkpoint_content){.values = values};
}

// Writes this rank's part.
static ls_status write_share(ls_checkpoints *self) {
  ls_ranks alone = {0};
  ls_ranks *ranks = self->shares ? &self->writers : &alone;
  const ls_checkpoint_content *content = &self->content;
  if (!ls_checkpoints_leads(self))
    return self->shares ? ls_checkpoint_file_help(self->runtime, self->folder,
                                                  content, ranks)
                        : ls_ok();
  lock_if_free(self);
  // Continues after a failure: the other ranks wait for this rank's write.
  const ls_status tidied = self->tidies ? checkpoint_list_tidy(self) : ls_ok();
  self->tidies = false;
  ls_status status = ls_checkpoint_file_write(
      self->runtime, self->folder, content,
      ls_checkpoint_list_find(&self->list, content->step) != NULL, ranks);
  if (ls_status_is_ok(status)) status = checkpoint_list_add(self, content);
  if (ls_status_is_ok(status) && self->written.call != NULL)
    status = self->written.call(self->written.user, content->step);
  return ls_status_join(status, tidied);
}

static ls_status write_content(ls_checkpoints *self) {
  const ls_status status = ls_ranks_agree(&self->writers, write_share(self));
  return ls_status_join(status, ls_checkpoints_send_list(self, &self->writers));
}

// Runs on the writer thread.
static void write_always(void *user) {
  ls_checkpoints *self = user;
  ls_worker_give_way();
  for (int64_t step = 0; ls_worker_next(&self->worker, &step);) {
    const ls_status status = ls_status_annotate(
        write_content(self), "while saving the checkpoint of step %lld",
        (long long)step);
    release_content(self);
    self->failure = ls_status_join(self->failure, status);
  }
}

// Returns and forgets the failure of the last background save.
static ls_status take_failure(ls_checkpoints *self) {
  const ls_status status = self->failure;
  self->failure = ls_ok();
  if (ls_status_is_ok(status) || self->options.goes_on != LS_FLAG_ON)
    return status;
  if (ls_checkpoints_leads(self))
    ls_runtime_log(self->runtime, LS_LOG_WARNING, "checkpoint", "%s",
                   ls_status_message(status));
  ls_status_free(status);
  return ls_ok();
}

ls_status ls_checkpoints_wait(ls_checkpoints *checkpoints) {
  LS_REQUIRE(checkpoints);
  ls_worker_wait(&checkpoints->worker);
  return take_failure(checkpoints);
}

ls_status ls_checkpoints_check(ls_checkpoints *checkpoints) {
  LS_REQUIRE(checkpoints);
  return ls_checkpoints_have_failed(checkpoints) ? take_failure(checkpoints)
                                                 : ls_ok();
}

ls_status ls_checkpoints_begin(ls_checkpoints *self, const char *call) {
  if (self->busy)
    return ls_failed_precondition(
        "%s is called by a state of these checkpoints while they are saved or "
        "restored: '%s'",
        call, self->folder);
  self->busy = true;
  return ls_ok();
}

void ls_checkpoints_end(ls_checkpoints *self) { self->busy = false; }

void ls_checkpoints_on_written(ls_checkpoints *self,
                               ls_status (*call)(void *user, int64_t step),
                               void *user) {
  self->written.call = call;
  self->written.user = user;
}

// ---- Opening ---------------------------------------------------------------
static ls_status checkpoints_check_options(const ls_checkpoints_options *o) {
  if (o->keep.value < 0 || o->keep_best.value < 0 || o->every_steps.value < 0 ||
      o->every_seconds.value < 0 || o->keep_every_hours < 0)
    return ls_invalid_argument(
        "options of checkpoints below 0: keep %lld, keep_best %lld, "
        "every_steps %lld, every_seconds %lld, keep_every_hours %g",
        o->keep.value, o->keep_best.value, o->every_steps.value,
        o->every_seconds.value, o->keep_every_hours);
  for (size_t i = 0; i < o->num_states; ++i) {
    const ls_saveable *state = &o->states[i];
    if (state->name == NULL || state->save == NULL || state->restore == NULL)
      return ls_invalid_argument(
          "state %zu of checkpoints has no name, save or restore", i);
    for (size_t k = 0; k < i; ++k)
      if (strcmp(o->states[k].name, state->name) == 0)
        return ls_invalid_argument("two states of checkpoints are called '%s'",
                                   state->name);
  }
  return ls_ok();
}

static void checkpoints_with_defaults(ls_checkpoints_options *o) {
  if (!o->keep.set) o->keep = LS_SOME(DEFAULT_KEEP);
  if (!o->keep_best.set) o->keep_best = LS_SOME(1);
  if (!o->every_steps.set && !o->every_seconds.set)
    o->every_seconds = LS_SOME(DEFAULT_SECONDS);
}

// Opens the folder on this rank alone.
static ls_status open_own(ls_checkpoints *self) {
  const char *folder = self->options.folder;
  LS_RETURN_IF_ERROR(ls_keep_text(self->allocator, folder, &self->folder));
  self->options.folder = self->folder;
  self->saved_nanos = ls_runtime_now(self->runtime);
  return ls_checkpoints_leads(self) ? checkpoint_list_open(self) : ls_ok();
}

static ls_status open_ranks(ls_checkpoints *self) {
  static const char name[] = "checkpoints";
  uint64_t number = 0;
  if (self->options.ranks != LS_FLAG_ON) return ls_ok();
  LS_RETURN_IF_ERROR(ls_runtime_number_for_ranks(self->runtime, &number));
  LS_RETURN_IF_ERROR(
      ls_ranks_init(&self->ranks, self->runtime, name, 2 * number));
  return ls_ranks_init(&self->writers, self->runtime, name, 2 * number + 1);
}

static ls_status open_folder(ls_checkpoints *self) {
  ls_communicator *communicator = ls_runtime_communicator(self->runtime);
  ls_status status = open_ranks(self);
  // Cancels the communicator, on which other ranks would wait for this one.
  if (!ls_status_is_ok(status) && communicator != NULL)
    communicator->cancel(communicator, status);
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(ls_ranks_agree(&self->ranks, open_own(self)));
  LS_RETURN_IF_ERROR(ls_checkpoints_meet(self));
  if (self->options.background != LS_FLAG_OFF)
    status = ls_worker_start(&self->worker, "ls-save", self->runtime,
                             write_always, self);
  return ls_ranks_agree(&self->ranks, status);
}

static ls_status checkpoints_open(const ls_checkpoints_options *options,
                                  bool only_reads,
                                  ls_checkpoints **out_checkpoints) {
  LS_RETURN_IF_ERROR(checkpoints_check_options(options));
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_NEW_OR_RETURN(allocator, ls_checkpoints, self);
  self->runtime = runtime;
  ls_runtime_note_made(runtime, LS_MADE_CHECKPOINTS);
  self->allocator = allocator;
  self->options = *options;
  self->only_reads = only_reads;
  self->list.written = -1;
  self->list.future_of = INT64_MAX;
  checkpoints_with_defaults(&self->options);
  ls_status status = open_folder(self);
  if (ls_status_is_ok(status))
    *out_checkpoints = self;
  else
    status = ls_status_join(status, ls_checkpoints_close(self));
  return status;
}

ls_status ls_checkpoints_open(const ls_checkpoints_options *options,
                              ls_checkpoints **out_checkpoints) {
  LS_REQUIRE_OUT(out_checkpoints, options, options->folder, options->values);
  LS_REQUIRE_ITEMS(options->states, options->num_states);
  return checkpoints_open(options, false, out_checkpoints);
}

ls_status ls_checkpoints_open_to_read(const ls_checkpoints_options *options,
                                      ls_checkpoints **out_checkpoints) {
  *out_checkpoints = NULL;
  return checkpoints_open(options, true, out_checkpoints);
}

ls_status ls_checkpoints_close(ls_checkpoints *checkpoints) {
  ls_checkpoints *self = checkpoints;
  if (self == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_checkpoints_begin(self, "ls_checkpoints_close"));
  const ls_file_system *files = ls_runtime_files(self->runtime);
  ls_worker_join(&self->worker);
  if (self->lock != NULL) files->unlock(files->user, self->lock);
  const ls_status status = take_failure(self);
  ls_snapshot_deinit(&self->content.values);
  ls_ranks_deinit(&self->ranks);
  ls_ranks_deinit(&self->writers);
  ls_release(self->allocator, self->list.items);
  ls_release(self->allocator, self->folder);
  ls_release(self->allocator, self->copies);
  ls_runtime_release(self->runtime, LS_MADE_CHECKPOINTS, self);
  return status;
}

// ---- Saving ----------------------------------------------------------------
bool ls_checkpoints_are_writing(ls_checkpoints *self) {
  return !ls_worker_is_idle(&self->worker);
}

bool ls_checkpoints_have_failed(ls_checkpoints *self) {
  return ls_worker_is_idle(&self->worker) && !ls_status_is_ok(self->failure);
}

bool ls_checkpoints_are_due(const ls_checkpoints *self, int64_t step) {
  const ls_checkpoints_options *o = &self->options;
  const int64_t nanos = ls_runtime_now(self->runtime) - self->saved_nanos;
  const int64_t every = o->every_steps.set ? o->every_steps.value : 0;
  return (every > 0 && step > self->saved_step &&
          step / every != self->saved_step / every) ||
         (o->every_seconds.set &&
          (double)nanos >= (double)o->every_seconds.value * 1e9);
}

// Ignores failed messages between ranks: the save will report them.
bool ls_checkpoints_due(const ls_checkpoints *checkpoints, int64_t step) {
  ls_ranks *ranks = (ls_ranks *)(uintptr_t)&checkpoints->ranks;
  char due = (char)ls_checkpoints_are_due(checkpoints, step);
  const ls_status status = ls_ranks_send(ranks, &due, sizeof(due));
  if (!ls_status_is_ok(status)) due = 1;
  ls_status_free(status);
  return due != 0;
}

static ls_status copy_metrics(ls_checkpoints *self,
                              const ls_checkpoint_metric *metrics,
                              size_t count) {
  ls_checkpoint_content *content = &self->content;
  LS_SET_ARRAY_OR_RETURN(self->allocator, ls_checkpoint_metric,
                         content->metrics, count);
  for (size_t i = 0; i < count; ++i) {
    const char *given = metrics[i].name;
    char *name = ls_copy_text(self->allocator, given, strlen(given));
    LS_RETURN_IF_NO_MEMORY(name);
    content->metrics[content->num_metrics++] =
        (ls_checkpoint_metric){name, metrics[i].value};
  }
  return ls_ok();
}

static ls_status save_states(const ls_checkpoints *self, ls_record *state) {
  for (size_t i = 0; i < self->options.num_states; ++i) {
    const ls_saveable *item = &self->options.states[i];
    ls_record *record = NULL;
    LS_RETURN_IF_ERROR(ls_record_add(state, item->name, &record));
    LS_RETURN_IF_ERROR(ls_status_annotate(item->save(item->self, record),
                                          "while saving '%s'", item->name));
  }
  return ls_ok();
}

// Copies everything that is to be written.
static ls_status fill_content(ls_checkpoints *self, int64_t step,
                              const ls_checkpoint_metric *metrics,
                              size_t num_metrics) {
  ls_checkpoint_content *content = &self->content;
  content->step = step;
  content->wall = ls_runtime_wall(self->runtime);
  // A step that is saved again without metrics keeps the one it is chosen by.
  const ls_checkpoint_info *known = ls_checkpoint_list_find(&self->list, step);
  const ls_checkpoint_metric kept = {self->options.best_metric,
                                     known != NULL ? known->metric : NAN};
  if (num_metrics == 0 && kept.name != NULL && !isnan(kept.value))
    LS_RETURN_IF_ERROR(copy_metrics(self, &kept, 1));
  else
    LS_RETURN_IF_ERROR(copy_metrics(self, metrics, num_metrics));
  LS_RETURN_IF_ERROR(ls_record_create(&content->state));
  LS_RETURN_IF_ERROR(save_states(self, content->state));
  if (self->options.identity != NULL) {
    LS_RETURN_IF_ERROR(ls_record_create(&content->identity));
    LS_RETURN_IF_ERROR(
        ls_record_copy(content->identity, self->options.identity));
  }
  // Ranks without a part in the writing take an empty part.
  const size_t parts = self->shares ? ls_ranks_count(&self->ranks) : 1;
  const size_t part = self->shares || ls_checkpoints_leads(self)
                          ? ls_ranks_own(&self->ranks)
                          : parts;
  return ls_snapshot_take(&content->values, self->runtime, self->options.values,
                          NULL, 0, part, parts);
}

// Copies on all ranks; fails on all if it fails on one.
static ls_status fill_all(ls_checkpoints *self, int64_t step,
                          const ls_checkpoint_metric *metrics,
                          size_t num_metrics) {
  LS_RETURN_IF_ERROR(ls_ranks_gather_parts(&self->ranks, self->options.values));
  const ls_status status = fill_content(self, step, metrics, num_metrics);
  const ls_snapshot *values = &self->content.values;
  LS_RETURN_IF_ERROR(ls_ranks_agree_on(
      &self->ranks, status, ls_status_is_ok(status) ? values->header_crc : 0,
      "variables"));
  // Uses the clock of rank 0.
  return ls_ranks_send(&self->ranks, &self->content.wall,
                       sizeof(self->content.wall));
}

// Pauses the writing now and then in favour of training steps, unless a thread
// waits for it.
static void pause_writing(void *user) {
  enum { PAUSE_NANOS = 3000000 };
  ls_checkpoints *self = user;
  ls_worker_rest(&self->worker, PAUSE_NANOS);
}

static ls_status hand_over(ls_checkpoints *self) {
  if (self->worker.is_started) {
    self->content.pause = (ls_pause){pause_writing, self};
    return ls_worker_post(&self->worker, self->content.step);
  }
  const ls_status status = write_content(self);
  release_content(self);
  return status;
}

static ls_status checkpoints_save(ls_checkpoints *self, int64_t step,
                                  const ls_checkpoint_metric *metrics,
                                  size_t num_metrics) {
  LS_RETURN_IF_ERROR(ls_checkpoints_wait(self));
  ls_status status = fill_all(self, step, metrics, num_metrics);
  if (ls_status_is_ok(status)) {
    status = hand_over(self);
    self->saved_step = step;
    self->saved_nanos = ls_runtime_now(self->runtime);
  } else {
    release_content(self);
  }
  return ls_status_annotate(status, "while saving the checkpoint of step %lld",
                            (long long)step);
}

ls_status ls_checkpoints_save(ls_checkpoints *checkpoints, int64_t step,
                              const ls_checkpoint_metric *metrics,
                              size_t num_metrics) {
  LS_REQUIRE(checkpoints);
  LS_REQUIRE_EACH_FIELD(metrics, num_metrics, name);
  if (step < 0)
    return ls_invalid_argument("there is no checkpoint of step %lld",
                               (long long)step);
  for (size_t i = 0; i < num_metrics; ++i)
    for (size_t k = 0; k < i; ++k)
      if (strcmp(metrics[i].name, metrics[k].name) == 0)
        return ls_invalid_argument(
            "two metrics of the checkpoint of step %lld are called '%s'",
            (long long)step, metrics[i].name);
  LS_RETURN_IF_ERROR(ls_checkpoints_begin(checkpoints, "ls_checkpoints_save"));
  const ls_status status =
      checkpoints_save(checkpoints, step, metrics, num_metrics);
  ls_checkpoints_end(checkpoints);
  return status;
}

ls_status ls_checkpoints_list(ls_checkpoints *checkpoints, int64_t *steps,
                              size_t capacity, size_t *out_count) {
  LS_REQUIRE_OUT(out_count, checkpoints);
  LS_REQUIRE_ITEMS(steps, capacity);
  ls_worker_wait(&checkpoints->worker);
  *out_count = checkpoints->list.count;
  for (size_t i = 0; i < checkpoints->list.count && i < capacity; ++i)
    steps[i] = checkpoints->list.items[i].step;
  return ls_ok();
}
