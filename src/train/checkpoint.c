// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/safetensors.h"
#include "lockstep/eager.h"

enum { NUMBER_SIZE = 32, MOST_NOTES = 8 };

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

// ---- Writing ---------------------------------------------------------------
static ls_status write_arrays(ls_runtime *runtime, const char *path,
                              const variable_list *variables,
                              ls_safetensor *tensors,
                              const ls_safetensors_note *notes,
                              size_t num_notes) {
  for (size_t i = 0; i < variables->count; ++i) {
    tensors[i].name = ls_variable_name(variables->items[i]);
    LS_RETURN_IF_ERROR(
        ls_variable_value(variables->items[i], &tensors[i].array));
  }
  return ls_safetensors_write(runtime, path, tensors, variables->count, notes,
                              num_notes);
}

static ls_status write_variables(ls_runtime *runtime, const char *path,
                                 const ls_model *model, bool all,
                                 const ls_safetensors_note *notes,
                                 size_t num_notes) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  variable_list variables;
  LS_RETURN_IF_ERROR(list(allocator, model, all, &variables));
  ls_safetensor *tensors =
      ls_new_array(allocator, ls_safetensor, variables.count + 1);
  const ls_status status =
      tensors != NULL
          ? write_arrays(runtime, path, &variables, tensors, notes, num_notes)
          : ls_out_of_memory();
  for (size_t i = 0; tensors != NULL && i < variables.count; ++i)
    ls_array_release(tensors[i].array);
  ls_release(allocator, tensors);
  ls_release(allocator, variables.items);
  return status;
}

ls_status ls_checkpoint_write(ls_runtime *runtime, const char *path,
                              const ls_model *model, int64_t steps,
                              const ls_checkpoint_notes *notes) {
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
    snprintf(texts[count], NUMBER_SIZE, "%.3f", notes->seconds);
    list_of_notes[count] = (ls_safetensors_note){"seconds", texts[count]};
    ++count;
  }
  return write_variables(runtime, path, model, notes != NULL, list_of_notes,
                         count);
}

// ---- Reading ---------------------------------------------------------------
static const char *find_note(const ls_safetensors *file, const char *key) {
  for (size_t i = 0; i < file->num_notes; ++i) {
    if (strcmp(file->notes[i].key, key) == 0) return file->notes[i].value;
  }
  return NULL;
}

static ls_status read_count(const ls_safetensors *file, const char *path,
                            const char *key, int64_t *out_count) {
  const char *text = find_note(file, key);
  char *end = NULL;
  errno = 0;
  *out_count = text != NULL ? strtoll(text, &end, 10) : -1;
  if (text != NULL && end != text && *end == '\0' && errno == 0) return ls_ok();
  return LS_STATUS(LS_DATA_LOSS, "'%s' is damaged: its note \"%s\" is '%s'",
                   path, key, text != NULL ? text : "missing");
}

static ls_status check_model(const ls_safetensors *file, const char *path,
                             const ls_model *model) {
  const char *name = find_note(file, "model");
  if (name != NULL && strcmp(name, model->type->name) == 0) return ls_ok();
  return ls_invalid_argument("'%s' is of model '%s', not of '%s'", path,
                             name != NULL ? name : "", model->type->name);
}

static ls_status read_notes(const ls_safetensors *file, const char *path,
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
  const char *seconds = find_note(file, "seconds");
  notes->seconds = seconds != NULL ? strtod(seconds, NULL) : 0;
  return ls_ok();
}

static ls_status restore(const ls_safetensors *file, const char *path,
                         ls_variable *variable) {
  const char *name = ls_variable_name(variable);
  const ls_array *array = ls_safetensors_find(file, name);
  if (array == NULL)
    return LS_STATUS(LS_DATA_LOSS, "'%s' holds no array '%s'", path, name);
  return ls_status_annotate(ls_variable_set_value(variable, array),
                            "while reading '%s'", path);
}

static ls_status restore_all(ls_runtime *runtime, const ls_safetensors *file,
                             const char *path, const ls_model *model,
                             ls_checkpoint_notes *notes) {
  LS_RETURN_IF_ERROR(check_model(file, path, model));
  if (notes != NULL) LS_RETURN_IF_ERROR(read_notes(file, path, notes));
  variable_list variables;
  LS_RETURN_IF_ERROR(
      list(ls_runtime_allocator(runtime), model, notes != NULL, &variables));
  ls_status status = ls_ok();
  for (size_t i = 0; ls_status_is_ok(status) && i < variables.count; ++i)
    status = restore(file, path, variables.items[i]);
  ls_release(variables.allocator, variables.items);
  return status;
}

ls_status ls_checkpoint_read(ls_runtime *runtime, const char *path,
                             const ls_model *model,
                             ls_checkpoint_notes *notes) {
  ls_safetensors file;
  LS_RETURN_IF_ERROR(ls_safetensors_read(runtime, path, &file));
  const ls_status status = restore_all(runtime, &file, path, model, notes);
  ls_safetensors_deinit(&file);
  return status;
}
