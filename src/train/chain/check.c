// SPDX-License-Identifier: Apache-2.0
// Checks of a run against its chain.
#include "lockstep/chain.h"

#include <stdarg.h>

#include "base/require.h"
#include "state/saved.h"
#include "train/chain/chain.h"
#include "train/run_plan.h"

// A checkpoint, as the chain says.
typedef struct saved {
  int64_t step;
  const ls_json *parts;
  bool is_former;    // The run went on from an earlier step since.
  bool may_be_gone;  // Newer ones are all that is kept.
} saved;

typedef struct checking {
  ls_runtime *runtime;
  const char *folder;
  const ls_chain_report *report;
  ls_chain_result *result;
  ls_chain_lines lines;
  ls_part_reader reader;
  ls_text text, path;
  // Contents of lines: the last configuration, parts of the data and the end,
  // and the step of the last line; checkpoints; lines with metrics.
  const ls_json *config, *data, *end;
  const char *config_file;
  int64_t step;
  int64_t keep;  // Number of newest checkpoints that stay; below 1: all.
  saved *items;
  size_t count;
  const ls_json **metrics;
  size_t num_metrics;
} checking;

static void checking_deinit(checking *c) {
  ls_chain_lines_deinit(&c->lines);
  ls_part_reader_deinit(&c->reader);
  ls_text_deinit(&c->text);
  ls_text_deinit(&c->path);
}
LS_OWNED_STRUCT(checking, checking_deinit)

LS_PRINTF(3, 4)
static void tell(checking *c, bool differs, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ls_text_clear(&c->text);
  ls_text_append_format_v(&c->text, format, arguments);
  va_end(arguments);
  c->result->differences += differs;
  if (c->report != NULL && c->report->tell != NULL)
    c->report->tell(c->report->user, ls_text_data(&c->text), differs);
}

// Tells that a file is missing or damaged. Returns what is no fault of it.
static ls_status tell_damage(checking *c, const char *name, ls_status status) {
  const ls_code code = ls_status_code(status);
  if (code == LS_OK || code == LS_RESOURCE_EXHAUSTED || code == LS_UNAVAILABLE)
    return status;
  tell(c, true, "%s: %s", name, ls_status_message(status));
  ls_status_free(status);
  return ls_ok();
}

static ls_status name_file(checking *c, const char *name) {
  ls_text_clear(&c->path);
  ls_text_append_format(&c->path, "%s/%s", c->folder, name);
  return ls_text_status(&c->path);
}

// ---- Lines -----------------------------------------------------------------
static saved *find_saved(const checking *c, int64_t step) {
  for (size_t i = 0; i < c->count; ++i)
    if (c->items[i].step == step) return &c->items[i];
  return NULL;
}

// Notes which checkpoints are gone once one of `step` is there.
static void drop_others(checking *c, int64_t step) {
  for (size_t i = 0; i < c->count && c->keep > 0; ++i) {
    if (c->items[i].may_be_gone || c->items[i].is_former) continue;
    int64_t newer = c->items[i].step < step;
    for (size_t k = 0; k < c->count; ++k)
      newer += !c->items[k].is_former && c->items[k].step != step &&
               c->items[k].step > c->items[i].step;
    c->items[i].may_be_gone |= newer >= c->keep;
  }
}

static void take_saved(checking *c, int64_t step, const ls_json *parts) {
  saved *item = find_saved(c, step);
  if (item == NULL) item = &c->items[c->count++];
  *item = (saved){.step = step, .parts = parts};
  drop_others(c, step);
}

static void go_on_from(checking *c, int64_t step, const ls_json *root) {
  c->config = ls_json_find(root, "config");
  c->keep = ls_chain_number(root, "keep");
  if (c->keep < 0) c->keep = ls_chain_number(c->config, "keep");
  c->end = NULL;
  for (size_t i = 0; i < c->count; ++i)
    c->items[i].is_former |= c->items[i].step > step;
  while (c->num_metrics > 0 &&
         ls_chain_number(c->metrics[c->num_metrics - 1], "step") >= step)
    --c->num_metrics;
}

static void take_line(checking *c, const ls_json *root) {
  const char *event = ls_chain_text(root, "event");
  const ls_json *parts = ls_json_find(root, "parts");
  const int64_t step = ls_chain_number(root, "step");
  if (strcmp(event, "data") == 0) {
    c->data = parts;
    return;
  }
  if (strcmp(event, "begin") == 0 || strcmp(event, "resume") == 0)
    go_on_from(c, step, root);
  if (strcmp(event, "end") == 0)
    c->end = parts;
  else if (parts != NULL)
    take_saved(c, step, parts);
  c->step = step;
  c->metrics[c->num_metrics++] = root;
}

static ls_status check_lines(checking *c) {
  ls_chain_lines *lines = &c->lines;
  const ls_status status = ls_chain_read(c->runtime, c->folder, lines);
  if (ls_status_code(status) == LS_NOT_FOUND) {
    ls_status_free(status);
    return ls_not_found(
        "the run in '%s' has no " LS_CHAIN_FILE
        ": only runs with `attest`, or lockstep train --attest, have a chain",
        c->folder);
  }
  LS_RETURN_IF_ERROR(status);
  LS_ARENA_SET_OR_RETURN(&lines->arena, saved, c->items, lines->count + 1);
  LS_ARENA_SET_OR_RETURN(&lines->arena, const ls_json *, c->metrics,
                         lines->count + 1);
  for (size_t i = 0; i < lines->count; ++i) {
    const ls_chain_line *line = &lines->items[i];
    if (line->root == NULL)
      tell(c, true, LS_CHAIN_FILE ": line %zu was changed", i + 1);
    else if (!line->follows)
      tell(c, true,
           LS_CHAIN_FILE ": line %zu does not follow the line before it: lines "
                         "were removed, added or moved",
           i + 1);
    if (line->root != NULL) take_line(c, line->root);
  }
  if (lines->count == 0) tell(c, true, LS_CHAIN_FILE " has no line");
  if (lines->complete < lines->size)
    tell(c, false,
         LS_CHAIN_FILE ": the last line is incomplete: the run was stopped "
                       "while it was written");
  c->result->lines = (int64_t)lines->count;
  memcpy(c->result->head, lines->head, sizeof(lines->head));
  return ls_ok();
}

// ---- Configuration ---------------------------------------------------------
static void append_value(ls_text *text, const ls_json *value) {
  ls_json_writer json = {.text = text};
  if (value == NULL)
    ls_text_append(text, "missing");
  else if (value->kind == LS_JSON_STRING)
    ls_json_string(&json, value->string);
  else if (value->kind == LS_JSON_BOOL)
    ls_json_bool(&json, value->boolean);
  else if (value->kind == LS_JSON_NUMBER && value->is_integer)
    ls_json_i64(&json, value->integer);
  else if (value->kind == LS_JSON_NUMBER)
    ls_json_f64(&json, value->number);
  else
    ls_text_append(text, value->kind == LS_JSON_NULL    ? "null"
                         : value->kind == LS_JSON_ARRAY ? "a list"
                                                        : "an object");
}

// Compares a member of two configurations; NULL: one has none.
static ls_status compare_member(checking *c, const ls_json *now,
                                const ls_json *was, bool tells,
                                bool *out_differs) {
  LS_OWN(ls_text, one) = {.allocator = ls_runtime_allocator(c->runtime)};
  LS_OWN(ls_text, other) = {.allocator = ls_runtime_allocator(c->runtime)};
  append_value(&one, now);
  append_value(&other, was);
  LS_RETURN_IF_ERROR(ls_text_status(&one));
  LS_RETURN_IF_ERROR(ls_text_status(&other));
  if (strcmp(ls_text_data(&one), ls_text_data(&other)) == 0) return ls_ok();
  *out_differs = true;
  if (tells)
    tell(c, true, "%s: \"%s\" is %s, it was %s", c->config_file,
         (was != NULL ? was : now)->key, ls_text_data(&one),
         ls_text_data(&other));
  return ls_ok();
}

// Compares a configuration with the one of a line; `tells` the differences.
static ls_status compare_config(checking *c, const ls_json *now,
                                const ls_json *was, bool tells,
                                bool *out_differs) {
  *out_differs = was == NULL || was->kind != LS_JSON_OBJECT;
  if (*out_differs) return ls_ok();
  for (const ls_json *at = was->first; at != NULL; at = at->next) {
    const ls_json *same = ls_json_find(now, at->key);
    // A file edited by hand may lack the checksum.
    if (same != NULL || strcmp(at->key, "crc32c") != 0)
      LS_RETURN_IF_ERROR(compare_member(c, same, at, tells, out_differs));
  }
  for (const ls_json *at = now->first; at != NULL; at = at->next)
    if (ls_json_find(was, at->key) == NULL)
      LS_RETURN_IF_ERROR(compare_member(c, at, NULL, tells, out_differs));
  return ls_ok();
}

// Compares the file with the last line that has a configuration and, if nothing
// was saved since, with those before it: a run that is killed after its line
// may have the former file.
static ls_status check_members(checking *c, const ls_json *now,
                               bool *out_differs) {
  bool has_saved = false;
  *out_differs = true;
  for (size_t i = c->lines.count; i > 0; --i) {
    const ls_json *root = c->lines.items[i - 1].root;
    const ls_json *config = ls_json_find(root, "config");
    if (config == NULL) {
      has_saved |= ls_json_find(root, "metrics") != NULL;
      continue;
    }
    LS_RETURN_IF_ERROR(compare_config(c, now, config, false, out_differs));
    if (!*out_differs) return ls_ok();
    if (has_saved) break;
  }
  return compare_config(c, now, c->config, true, out_differs);
}

static ls_status check_config(checking *c) {
  const ls_file_system *files = ls_runtime_files(c->runtime);
  LS_OWN_MEMORY(ls_runtime_allocator(c->runtime), char, bytes) = NULL;
  size_t size = 0;
  const ls_json *now = NULL;
  bool differs = false;
  if (c->config == NULL || c->config->first == NULL) return ls_ok();
  c->config_file = ls_json_find(c->config, "estimator") != NULL
                       ? "estimator.json"
                       : LS_CONFIG_FILE;
  LS_RETURN_IF_ERROR(name_file(c, c->config_file));
  ls_status status =
      files->read(files->user, ls_text_data(&c->path), SIZE_MAX,
                  ls_runtime_allocator(c->runtime), &bytes, &size);
  if (ls_status_is_ok(status))
    status = ls_json_parse(&c->lines.arena, ls_text_data(&c->path), bytes, size,
                           &now);
  if (ls_status_is_ok(status)) {
    LS_RETURN_IF_ERROR(check_members(c, now, &differs));
    if (differs) return ls_ok();
    status =
        ls_train_config_check_sum(ls_text_data(&c->path), now, bytes, size);
  }
  return tell_damage(c, c->config_file, status);
}

// ---- Files -----------------------------------------------------------------
// Adds a file to a part, unless it is missing or damaged, which is told.
static ls_status read_file(checking *c, const char *name, int64_t from,
                           int64_t to, ls_part *part, bool *out_is_read) {
  *out_is_read = false;
  LS_RETURN_IF_ERROR(name_file(c, name));
  const ls_status status =
      ls_part_add_file(&c->reader, ls_text_data(&c->path), from, to, part);
  *out_is_read = ls_status_is_ok(status);
  return tell_damage(c, name, status);
}

static ls_status check_part(checking *c, const ls_json *written,
                            const char *name, const ls_part *part,
                            bool may_differ) {
  LS_OWN(ls_text, difference) = {.allocator = ls_runtime_allocator(c->runtime)};
  if (ls_part_matches(written, part, &difference)) return ls_ok();
  LS_RETURN_IF_ERROR(ls_text_status(&difference));
  tell(c, !may_differ, "%s %s%s", name, ls_text_data(&difference),
       may_differ ? ": the run was stopped after saving it once more" : "");
  return ls_ok();
}

// Checks files. `may_differ`: one without values may.
static ls_status check_files(checking *c, const ls_json *parts,
                             bool may_differ) {
  for (const ls_json *at = parts->first; at != NULL; at = at->next) {
    const char *name = ls_chain_text(at, "name");
    const bool has_values = strstr(name, ".safetensors") != NULL;
    ls_part part = {0};
    bool is_read = false;
    if (name[0] == '\0' || strchr(name, '/') != NULL)
      tell(c, true, LS_CHAIN_FILE ": '%s' is no file of a run", name);
    else
      LS_RETURN_IF_ERROR(read_file(c, name, 0, -1, &part, &is_read));
    if (is_read)
      LS_RETURN_IF_ERROR(
          check_part(c, at, name, &part, may_differ && !has_values));
  }
  return ls_ok();
}

static bool has_step(const int64_t *steps, size_t count, int64_t step) {
  for (size_t i = 0; i < count; ++i)
    if (steps[i] == step) return true;
  return false;
}

// Checks that each checkpoint has its line: all but one that a run which was
// stopped has saved last.
static void check_unknown(checking *c, const int64_t *steps, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (find_saved(c, steps[i]) != NULL) continue;
    const bool differs = steps[i] <= c->step || i + 1 < count || c->end != NULL;
    if (!differs) drop_others(c, steps[i]);
    tell(c, differs, "the checkpoint of step %lld has no line in the chain%s",
         (long long)steps[i],
         differs ? "" : ": the run was stopped before it was written");
  }
}

static ls_status check_checkpoints(checking *c) {
  LS_OWN_MEMORY(ls_runtime_allocator(c->runtime), int64_t, steps) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(
      ls_saved_find_steps(c->runtime, c->folder, &steps, &count));
  check_unknown(c, steps, count);
  for (size_t i = 0; i < c->count; ++i) {
    const saved *item = &c->items[i];
    const bool is_last = item->step == c->step && c->end == NULL;
    if (item->is_former) continue;
    if (!has_step(steps, count, item->step) && item->may_be_gone) {
      ++c->result->gone;
      continue;
    }
    LS_RETURN_IF_ERROR(check_files(c, item->parts, is_last));
    ++c->result->checkpoints;
  }
  return c->end != NULL ? check_files(c, c->end, false) : ls_ok();
}

// Checks the lines of metrics.jsonl from each line of the chain to the next.
static ls_status check_metrics(checking *c) {
  static const char name[] = "metrics.jsonl";
  ls_part part;
  int64_t from = 0, step = 0;
  ls_part_begin(&part);
  for (size_t i = 0; i < c->num_metrics; ++i) {
    char sha[LS_SHA256_TEXT];
    const ls_json *metrics = ls_json_find(c->metrics[i], "metrics");
    const int64_t to = ls_chain_number(metrics, "bytes");
    const int64_t to_step = ls_chain_number(c->metrics[i], "step");
    bool is_read = true;
    if (to > from)
      LS_RETURN_IF_ERROR(read_file(c, name, from, to, &part, &is_read));
    if (!is_read) return ls_ok();
    ls_sha256_print(&part.sha, sha);
    if (strcmp(sha, ls_chain_text(metrics, "sha256")) != 0) {
      tell(c, true,
           "%s differs in bytes %lld to %lld, in lines of steps %lld to %lld",
           name, (long long)from, (long long)to - 1, (long long)step + 1,
           (long long)to_step);
      return ls_ok();
    }
    from = to;
    step = to_step;
  }
  return ls_ok();
}

// ---- Data ------------------------------------------------------------------
static ls_status check_data_part(void *user, const char *name,
                                 const ls_part *part) {
  checking *c = user;
  const ls_json *written = c->data;
  if (written != NULL) c->data = written->next;
  ++c->result->parts;
  if (part->block == 0)
    tell(c, false, "%s is not covered: it cannot be read again", name);
  if (written != NULL) return check_part(c, written, name, part, false);
  tell(c, true, "%s is not of the run's data", name);
  return ls_ok();
}

static ls_status check_data(checking *c, const ls_dataset *const *datasets) {
  if (c->data == NULL) {
    tell(c, false,
         "the data are not in the chain: the run was stopped before "
         "it had read them all");
    return ls_ok();
  }
  c->data = c->data->first;
  LS_RETURN_IF_ERROR(
      ls_parts_of_data(&c->reader, datasets, 2, check_data_part, c));
  for (; c->data != NULL; c->data = c->data->next)
    tell(c, true, "%s is missing", ls_chain_text(c->data, "name"));
  return ls_ok();
}

// ---- Calls -----------------------------------------------------------------
static ls_status begin_check(checking *c, const char *run_folder,
                             const ls_chain_report *report,
                             ls_chain_result *result) {
  *c = (checking){.runtime = ls_runtime_current(),
                  .folder = run_folder,
                  .report = report,
                  .result = result};
  *result = (ls_chain_result){0};
  if (c->runtime == NULL) return ls_out_of_memory();
  c->reader.runtime = c->runtime;
  ls_text_init(&c->text, ls_runtime_allocator(c->runtime));
  ls_text_init(&c->path, ls_runtime_allocator(c->runtime));
  return check_lines(c);
}

ls_status ls_chain_check(const char *run_folder, const ls_chain_report *report,
                         ls_chain_result *out_result) {
  LS_REQUIRE_OUT(out_result, run_folder);
  LS_OWN(checking, c) = {0};
  LS_RETURN_IF_ERROR(begin_check(&c, run_folder, report, out_result));
  LS_RETURN_IF_ERROR(check_config(&c));
  LS_RETURN_IF_ERROR(check_metrics(&c));
  return check_checkpoints(&c);
}

ls_status ls_chain_check_data(const char *run_folder, const ls_dataset *train,
                              const ls_dataset *test,
                              const ls_chain_report *report,
                              ls_chain_result *out_result) {
  LS_REQUIRE_OUT(out_result, run_folder, train);
  LS_OWN(checking, c) = {0};
  LS_RETURN_IF_ERROR(begin_check(&c, run_folder, NULL, out_result));
  c.report = report;
  out_result->differences = 0;
  return check_data(&c, (const ls_dataset *const[]){train, test});
}
