// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/plain.h"
#include "state/saver_file.h"

enum { NUMBER_SIZE = 32, MOST_NOTES = 8, MOST_SECONDS = 1000000000 };

// The notes that are whole numbers.
static const struct {
  const char *key;
  const char *text;  // For messages; NULL: may differ.
  size_t offset;
} counts[] = {
    {"replicas", "replicas", offsetof(ls_checkpoint_notes, replicas)},
    {"batch_size", "examples a batch",
     offsetof(ls_checkpoint_notes, batch_size)},
    {"seed", "as seed", offsetof(ls_checkpoint_notes, seed)},
    {"examples", "examples to train on",
     offsetof(ls_checkpoint_notes, examples)},
    {"step", NULL, offsetof(ls_checkpoint_notes, steps)},
};

// ---- Variables -------------------------------------------------------------
typedef struct variable_list {
  ls_allocator *allocator;
  ls_variable **items;
  size_t count;
} variable_list;

// The model's variables and, if asked for, its optimizer's.
static ls_status list(ls_allocator *allocator, const ls_model *model, bool all,
                      variable_list *out) {
  const ls_model_type *type = model->type;
  const ls_optimizer *optimizer =
      all && type->optimizer != NULL ? type->optimizer(model->self) : NULL;
  const size_t own = type->variables(model->self, NULL, 0);
  const size_t more =
      optimizer != NULL ? ls_optimizer_variables(optimizer, NULL, 0) : 0;
  *out = (variable_list){.allocator = allocator, .count = own + more};
  out->items = ls_new_array(allocator, ls_variable *, own + more + 1);
  if (out->items == NULL) return ls_out_of_memory();
  type->variables(model->self, out->items, own);
  if (optimizer != NULL)
    ls_optimizer_variables(optimizer, out->items + own, more);
  return ls_ok();
}

// `all`: what the same run goes on from.
static ls_saver saver_of(const variable_list *variables, bool all) {
  return (ls_saver){.variables = variables->items,
                    .num_variables = variables->count,
                    .exact = all};
}

// ---- Writing ---------------------------------------------------------------
ls_status ls_checkpoint_write(ls_runtime *runtime, const char *path,
                              const ls_model *model, int64_t steps,
                              const ls_checkpoint_notes *notes) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  char texts[MOST_NOTES][NUMBER_SIZE];
  ls_safetensors_note list_of_notes[MOST_NOTES] = {{"model", model->type->name},
                                                   {"step", texts[0]}};
  size_t count = 2;
  snprintf(texts[0], NUMBER_SIZE, "%lld", (long long)steps);
  for (size_t i = 0; notes != NULL && counts[i].text != NULL; ++i, ++count) {
    const void *at = (const char *)notes + counts[i].offset;
    snprintf(texts[count], NUMBER_SIZE, "%lld",
             (long long)*(const int64_t *)at);
    list_of_notes[count] = (ls_safetensors_note){counts[i].key, texts[count]};
  }
  if (notes != NULL) {
    ls_format(texts[count], NUMBER_SIZE, "%.3f", notes->seconds);
    list_of_notes[count] = (ls_safetensors_note){"seconds", texts[count]};
    ++count;
  }
  variable_list variables;
  LS_RETURN_IF_ERROR(list(allocator, model, notes != NULL, &variables));
  const ls_saver saver = saver_of(&variables, notes != NULL);
  const ls_status status =
      ls_saver_save_with(&saver, path, list_of_notes, count);
  ls_release(allocator, variables.items);
  return status;
}

// ---- Reading ---------------------------------------------------------------
static const char *find_note(const ls_safetensors_file *file, const char *key) {
  for (size_t i = 0; i < file->num_notes; ++i) {
    if (strcmp(file->notes[i].key, key) == 0) return file->notes[i].value;
  }
  return NULL;
}

static ls_status damaged_note(const char *path, const char *key,
                              const char *text) {
  return LS_STATUS(LS_DATA_LOSS, "'%s' is damaged: its note \"%s\" is '%s'",
                   path, key, text != NULL ? text : "missing");
}

static ls_status read_count(const ls_safetensors_file *file, const char *path,
                            const char *key, int64_t *out_count) {
  const char *text = find_note(file, key);
  char *end = NULL;
  errno = 0;
  *out_count = text != NULL ? strtoll(text, &end, 10) : -1;
  if (text != NULL && end != text && *end == '\0' && errno == 0) return ls_ok();
  return damaged_note(path, key, text);
}

// How long the run has taken; never so long that nanoseconds would overflow.
static ls_status read_seconds(const ls_safetensors_file *file, const char *path,
                              double *out_seconds) {
  const char *text = find_note(file, "seconds");
  char *end = NULL;
  *out_seconds = text != NULL ? ls_read_f64(text, &end) : -1;
  if (text != NULL && end != text && *end == '\0' && *out_seconds >= 0 &&
      *out_seconds < MOST_SECONDS)
    return ls_ok();
  return damaged_note(path, "seconds", text);
}

static ls_status check_model(const ls_safetensors_file *file, const char *path,
                             const ls_model *model) {
  const char *name = find_note(file, "model");
  if (name != NULL && strcmp(name, model->type->name) == 0) return ls_ok();
  return ls_invalid_argument("'%s' is of model '%s', not of '%s'", path,
                             name != NULL ? name : "", model->type->name);
}

static ls_status read_notes(const ls_safetensors_file *file, const char *path,
                            ls_checkpoint_notes *notes) {
  for (size_t i = 0; i < LS_COUNT_OF(counts); ++i) {
    int64_t *at = (int64_t *)(void *)((char *)notes + counts[i].offset);
    int64_t value = 0;
    LS_RETURN_IF_ERROR(read_count(file, path, counts[i].key, &value));
    if (counts[i].text != NULL && value != *at)
      return ls_invalid_argument(
          "the run of '%s' has %lld %s, this one has %lld", path,
          (long long)value, counts[i].text, (long long)*at);
    *at = value;
  }
  if (notes->steps < 0)
    return LS_STATUS(LS_DATA_LOSS, "'%s' is damaged: it is of step %lld", path,
                     (long long)notes->steps);
  return read_seconds(file, path, &notes->seconds);
}

static ls_status restore_all(ls_runtime *runtime,
                             const ls_safetensors_file *file, const char *path,
                             const ls_model *model,
                             ls_checkpoint_notes *notes) {
  LS_RETURN_IF_ERROR(check_model(file, path, model));
  if (notes != NULL) LS_RETURN_IF_ERROR(read_notes(file, path, notes));
  variable_list variables;
  LS_RETURN_IF_ERROR(
      list(ls_runtime_allocator(runtime), model, notes != NULL, &variables));
  const ls_saver saver = saver_of(&variables, notes != NULL);
  const ls_status status = ls_saver_restore_from(&saver, file);
  ls_release(variables.allocator, variables.items);
  return status;
}

ls_status ls_checkpoint_read(ls_runtime *runtime, const char *path,
                             const ls_model *model,
                             ls_checkpoint_notes *notes) {
  ls_safetensors_file file;
  LS_RETURN_IF_ERROR(ls_safetensors_open(runtime, path, &file));
  const ls_status status = restore_all(runtime, &file, path, model, notes);
  ls_safetensors_close(&file);
  return status;
}
