// SPDX-License-Identifier: Apache-2.0
//
// Exporters: decide which evaluated models are exported, and how many exports
// are kept on disk.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/require.h"
#include "base/status_cause.h"
#include "estimator/calls/estimator.h"
#include "estimator/config/config.h"
#include "estimator/own.h"
#include "lockstep/events.h"
#include "lockstep/train_and_evaluate.h"

enum { KEPT = 5 };

struct ls_exporter {
  ls_allocator *allocator;
  ls_exporter_options options;
  char *name, *events;
  int64_t keep;  // Number of exports to keep; 0: all.
  ls_nest best;  // Metrics of the best evaluation; none if not known.
  char *folder;  // Folder of the exports to which it belongs; NULL: none.
};

// ---- Making ----------------------------------------------------------------
static ls_status exporter_check(const ls_exporter_options *o) {
  if (o->name == NULL || o->name[0] == 0)
    return ls_invalid_argument("an exporter needs a name");
  LS_RETURN_IF_ERROR(ls_file_name_check("the name of an exporter", o->name));
  if (o->kind < LS_EXPORTER_LATEST || o->kind > LS_EXPORTER_BEST)
    return ls_invalid_argument("exporter '%s' is of kind %d", o->name,
                               (int)o->kind);
  if (o->receiver.call == NULL)
    return ls_invalid_argument("exporter '%s' needs a receiver_fn", o->name);
  if (o->keep.set && o->keep.value < 1)
    return ls_invalid_argument(
        "exporter '%s' keeps %lld exports: give 1 or more", o->name,
        (long long)o->keep.value);
  if (o->kind != LS_EXPORTER_BEST && (o->is_better != NULL || o->events))
    return ls_invalid_argument("exporter '%s': %s is of those of the best",
                               o->name,
                               o->events != NULL ? "events" : "is_better");
  return ls_ok();
}

static ls_status exporter_fill(ls_exporter *self,
                               const ls_exporter_options *o) {
  ls_allocator *allocator = ls_current_allocator();
  self->allocator = allocator;
  self->options = *o;
  self->keep = o->keep.set                    ? o->keep.value
               : o->kind == LS_EXPORTER_FINAL ? 0
                                              : KEPT;
  LS_RETURN_IF_ERROR(ls_keep_text(allocator, o->name, &self->name));
  return ls_keep_text(allocator, o->events, &self->events);
}

ls_status ls_exporter_create(const ls_exporter_options *options,
                             ls_exporter **out_exporter) {
  LS_REQUIRE_OUT(out_exporter, options);
  LS_REQUIRE_ITEMS(options->assets, options->num_assets);
  LS_RETURN_IF_ERROR(exporter_check(options));
  LS_OWN_NEW_OR_RETURN(ls_current_allocator(), ls_exporter, self);
  LS_RETURN_IF_ERROR(exporter_fill(self, options));
  return ls_hand_over(&self, out_exporter);
}

void ls_exporter_destroy(ls_exporter *self) {
  if (self == NULL) return;
  ls_allocator *allocator = self->allocator;
  ls_nest_release(self->best);
  ls_release(allocator, self->name);
  ls_release(allocator, self->events);
  ls_release(allocator, self->folder);
  ls_release(allocator, self);
}

const char *ls_exporter_name(const ls_exporter *self) { return self->name; }

bool ls_exporter_is_for_end(const ls_exporter *self) {
  return self->options.kind == LS_EXPORTER_FINAL;
}

// ---- The folder ------------------------------------------------------------
// Returns an export's time in seconds from its folder's name; -1 if the folder
// is no export.
static int64_t find_second(const ls_file_entry *entry) {
  const char *name = entry->name;
  if (!entry->is_folder || name[0] == 0 ||
      strspn(name, "0123456789") != strlen(name))
    return -1;
  return (int64_t)strtoll(name, NULL, 10);
}

static ls_status exporter_list(const ls_file_system *files, const char *folder,
                               ls_file_entry **out_entries, size_t *out_count) {
  *out_entries = NULL;
  *out_count = 0;
  if (files->list == NULL)
    return ls_unimplemented(
        "the file system does not list folders, which exporters need");
  return ls_status_unless(files->list(files->user, folder,
                                      ls_current_allocator(), out_entries,
                                      out_count),
                          LS_NOT_FOUND);
}

static ls_status has_export(const ls_file_system *files, const char *folder,
                            bool *out_has) {
  LS_OWN_MEMORY(ls_current_allocator(), ls_file_entry, entries) = NULL;
  size_t count = 0;
  *out_has = false;
  LS_RETURN_IF_ERROR(exporter_list(files, folder, &entries, &count));
  for (size_t i = 0; i < count; ++i)
    if (find_second(&entries[i]) >= 0) *out_has = true;
  return ls_ok();
}

static ls_status take_oldest(const ls_file_system *files, const char *folder,
                             int64_t keep, bool *out_taken) {
  LS_OWN_MEMORY(ls_current_allocator(), ls_file_entry, entries) = NULL;
  const ls_file_entry *oldest = NULL;
  int64_t num_exports = 0;
  size_t count = 0;
  *out_taken = false;
  LS_RETURN_IF_ERROR(exporter_list(files, folder, &entries, &count));
  for (size_t i = 0; i < count; ++i) {
    const int64_t second = find_second(&entries[i]);
    if (second < 0) continue;
    ++num_exports;
    if (oldest == NULL || second < find_second(oldest)) oldest = &entries[i];
  }
  if (num_exports <= keep) return ls_ok();
  LS_RETURN_IF_ERROR(ls_folder_remove_entry(files, folder, oldest));
  *out_taken = true;
  return ls_ok();
}

// Removes old exports. A failure is logged; it is no error of the training.
static void keep_newest(const ls_exporter *self, ls_runtime *runtime,
                        const char *folder) {
  const ls_file_system *files = ls_runtime_files(runtime);
  bool taken = self->keep > 0;
  ls_status status = ls_ok();
  while (taken && ls_status_is_ok(status))
    status = take_oldest(files, folder, self->keep, &taken);
  if (!ls_status_is_ok(status))
    ls_runtime_log(runtime, LS_LOG_WARNING, "estimator",
                   "exporter '%s' keeps more than %lld exports: %s", self->name,
                   (long long)self->keep, ls_status_message(status));
  ls_status_free(status);
}

// ---- The best --------------------------------------------------------------
static bool is_better(const ls_exporter *self, ls_nest metrics) {
  if (self->best.kind == LS_KIND_NONE) return true;
  if (self->options.is_better != NULL)
    return self->options.is_better(self->options.user, self->best, metrics);
  const double best = ls_params_f64(self->best, "loss", (double)NAN);
  const double loss = ls_params_f64(metrics, "loss", (double)NAN);
  return loss < best || (isnan(best) && !isnan(loss));
}

static void set_best(ls_exporter *self, ls_nest metrics) {
  ls_nest_release(self->best);
  self->best = ls_nest_retain(metrics);
}

// Collects the metrics of the step at `*at`, and advances `*at` to the next
// step.
static ls_status next_metrics(const ls_event_numbers *numbers, size_t *at,
                              ls_nest *out) {
  const int64_t step = numbers->items[*at].step;
  for (; *at < numbers->count && numbers->items[*at].step == step; ++*at)
    LS_RETURN_IF_ERROR(ls_params_set(out, numbers->items[*at].tag,
                                     ls_nest_f64(numbers->items[*at].value)));
  return ls_params_set(out, "global_step", ls_nest_i64(step));
}

// Finds the best of the earlier evaluations in the event files, except the
// evaluation being exported.
static ls_status recover(ls_exporter *self, const char *folder, int64_t step) {
  LS_OWN(ls_event_numbers, numbers) = NULL;
  LS_RETURN_IF_ERROR(ls_events_read(folder, NULL, &numbers));
  for (size_t at = 0; at < numbers->count;) {
    const bool is_this = numbers->items[at].step == step;
    LS_OWN(ls_nest, metrics) = ls_none();
    LS_RETURN_IF_ERROR(next_metrics(numbers, &at, &metrics));
    if (!is_this && is_better(self, metrics)) set_best(self, metrics);
  }
  return ls_ok();
}

static ls_status recover_from(ls_exporter *self, const ls_estimator *estimator,
                              const ls_exporter_call *call) {
  const int64_t step = ls_params_i64(call->metrics, "global_step", -1);
  if (self->events != NULL) return recover(self, self->events, step);
  LS_OWN(ls_text, folder) = {0};
  LS_RETURN_IF_ERROR(
      ls_print_eval_folder(estimator, call->evaluation, &folder));
  return recover(self, ls_text_data(&folder), step);
}

// Recovers the best for exports to another folder than those before.
static ls_status recover_for(ls_exporter *self, const ls_estimator *estimator,
                             const ls_exporter_call *call, const char *folder) {
  if (self->folder != NULL && strcmp(self->folder, folder) == 0) return ls_ok();
  ls_release(self->allocator, self->folder);
  self->folder = NULL;
  set_best(self, ls_none());
  LS_RETURN_IF_ERROR(recover_from(self, estimator, call));
  return ls_keep_text(self->allocator, folder, &self->folder);
}

// ---- Exporting -------------------------------------------------------------
static ls_status exporter_is_wanted(ls_exporter *self,
                                    const ls_estimator *estimator,
                                    const ls_exporter_call *call,
                                    const char *folder, bool *out_wanted) {
  bool has = false;
  *out_wanted = self->options.kind == LS_EXPORTER_LATEST || call->is_final;
  if (self->options.kind != LS_EXPORTER_BEST) return ls_ok();
  LS_RETURN_IF_ERROR(recover_for(self, estimator, call, folder));
  LS_RETURN_IF_ERROR(
      has_export(ls_runtime_files(estimator->runtime), folder, &has));
  *out_wanted = !has || is_better(self, call->metrics);
  return ls_ok();
}

static ls_status export_to(ls_exporter *self, ls_estimator *estimator,
                           const ls_exporter_call *call, const char *folder,
                           char **out_path) {
  bool wanted = false;
  LS_RETURN_IF_ERROR(
      exporter_is_wanted(self, estimator, call, folder, &wanted));
  if (!wanted) return ls_ok();
  LS_RETURN_IF_ERROR(ls_estimator_export(
      estimator,
      &(ls_estimator_exporting){.base = folder,
                                .receiver = self->options.receiver,
                                .checkpoint = call->checkpoint,
                                .assets = self->options.assets,
                                .num_assets = self->options.num_assets,
                                .onnx = self->options.onnx,
                                .stablehlo = self->options.stablehlo,
                                .batch_size = self->options.batch_size},
      out_path));
  if (self->options.kind == LS_EXPORTER_BEST && is_better(self, call->metrics))
    set_best(self, call->metrics);
  ls_runtime_log(estimator->runtime, LS_LOG_INFO, "estimator",
                 "exporter '%s' wrote %s", self->name, *out_path);
  keep_newest(self, estimator->runtime, folder);
  return ls_ok();
}

ls_status ls_exporter_export(ls_exporter *exporter, ls_estimator *estimator,
                             const ls_exporter_call *call, char **out_path) {
  LS_REQUIRE_OUT(out_path, exporter, estimator, call);
  LS_OWN(ls_text, folder) = {.allocator = ls_current_allocator()};
  ls_text_append_format(&folder, "%s/export/%s", estimator->model_dir,
                        exporter->name);
  LS_RETURN_IF_ERROR(ls_text_status(&folder));
  return ls_status_annotate(
      export_to(exporter, estimator, call, ls_text_data(&folder), out_path),
      "exporter '%s'", exporter->name);
}
