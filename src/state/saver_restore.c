// SPDX-License-Identifier: Apache-2.0
// Restores values: once everything in the file is known to fit, reads and sets
// each value.
#include <stdlib.h>

#include "base/require.h"
#include "base/trace.h"
#include "base/values/array_internal.h"
#include "lockstep/saved_file.h"
#include "runtime/store.h"
#include "state/own.h"
#include "state/saver_file.h"

// ---- Components ------------------------------------------------------------
// Finds the entries of all components in `parts`, which has room for one more;
// false if the file has another number of them, or of another type.
static ls_status find_parts(const ls_value_source *source, ls_arena *arena,
                            const ls_variable *variable, const char *name,
                            const ls_safetensors_entry **parts,
                            bool *out_found) {
  const size_t count = variable->num_components;
  *out_found = count > 0;
  for (size_t i = 0; i <= count; ++i) {
    const char *entry = ls_saver_part_name(arena, name, i);
    if (entry == NULL) return ls_out_of_memory();
    parts[i] = ls_value_source_find(source, entry);
    const bool good = parts[i] != NULL &&
                      parts[i]->dtype == variable->type.dtype &&
                      ls_shape_equal(parts[i]->shape, variable->type.shape);
    if (good != (i < count)) *out_found = false;
  }
  return ls_ok();
}

// ---- Setting ---------------------------------------------------------------
// Values read directly into the store, all at once.
typedef struct stored {
  ls_allocator *allocator;
  ls_variable **variables;
  ls_safetensors_wish *wishes;
  size_t count, variables_capacity, wishes_capacity;
  // Values that cannot be read in place: read to arrays first, then set.
  struct made {
    ls_variable *variable;
    ls_array *value;
  } * made;
  size_t num_made, made_capacity;
} stored;

static ls_status add_stored(stored *all, ls_variable *variable,
                            const ls_safetensors_entry *entry) {
  const size_t needed = all->count + 1;
  if (!LS_GROW(all->allocator, all->variables, all->variables_capacity,
               needed) ||
      !LS_GROW(all->allocator, all->wishes, all->wishes_capacity, needed))
    return ls_out_of_memory();
  all->variables[all->count] = variable;
  all->wishes[all->count++] = (ls_safetensors_wish){.entry = entry};
  return ls_ok();
}

// Reads values; those that the plan's check has verified without checksums.
static ls_status get_planned(const ls_value_source *source,
                             ls_safetensors_wish *wishes, size_t count) {
  ls_workers *workers = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_workers(source->runtime, &workers));
  return source->get(source->self, workers, wishes, count,
                     source->is_checked ? LS_SUMS_HELD : LS_SUMS_NONE);
}

static ls_status read_stored(const ls_restore_plan *plan, const stored *all) {
  const ls_value_source *source = plan->source;
  ls_many many;
  LS_RETURN_IF_ERROR(
      ls_many_enter(plan->store, all->variables, all->count, true, &many));
  for (size_t i = 0; i < all->count; ++i)
    all->wishes[i].data = many.data[i];
  ls_status status = get_planned(source, all->wishes, all->count);
  // A failed read does not prove that the file is damaged.
  if (ls_status_code(status) == LS_UNAVAILABLE) {
    ls_status_free(status);
    status = get_planned(source, all->wishes, all->count);
  }
  ls_many_leave(&many, ls_status_is_ok(status));
  return status;
}

// Reads a value in another layout than the variable's.
static ls_status read_permuted(const ls_restore_plan *plan,
                               const ls_kernel_layout *layout,
                               const ls_safetensors_entry *entry,
                               ls_array *value) {
  LS_OWN(ls_array, given) = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_unwritten(entry->dtype, entry->shape, &given));
  LS_RETURN_IF_ERROR(
      get_planned(plan->source,
                  &(ls_safetensors_wish){.entry = entry,
                                         .data = ls_array_mutable_data(given)},
                  1));
  ls_layout_permute(layout, ls_dtype_size(entry->dtype), ls_array_data(given),
                    ls_array_mutable_data(value));
  return ls_ok();
}

// Replaces floats by those of another dtype.
static ls_status convert_made(struct made *made) {
  const ls_dtype dtype = made->variable->type.dtype;
  LS_OWN(ls_array, given) = made->value;
  made->value = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_unwritten(dtype, ls_array_shape(given), &made->value));
  for (int64_t i = 0; i < ls_array_num_elements(given); ++i)
    ls_array_set_f64(made->value, i, ls_array_f64(given, i));
  return ls_ok();
}

// Reads the value of a handle, of a variable made of components, or of one in
// another layout or dtype.
static ls_status add_made(const ls_restore_plan *plan, stored *all,
                          size_t index) {
  ls_variable *variable = plan->saver->variables[index];
  const ls_safetensors_entry *entry = plan->entries[index];
  LS_RETURN_IF_NO_MEMORY(LS_GROW(all->allocator, all->made, all->made_capacity,
                                 all->num_made + 1));
  struct made *made = &all->made[all->num_made];
  *made = (struct made){.variable = variable};
  LS_RETURN_IF_ERROR(ls_array_create_unwritten(
      entry->dtype, variable->type.shape, &made->value));
  ++all->num_made;
  ls_safetensors_wish wish = {.entry = entry,
                              .data = ls_array_mutable_data(made->value)};
  LS_RETURN_IF_ERROR(
      plan->layouts[index].outputs > 0
          ? read_permuted(plan, &plan->layouts[index], entry, made->value)
          : get_planned(plan->source, &wish, 1));
  return entry->dtype == variable->type.dtype ? ls_ok() : convert_made(made);
}

static ls_status set_made(const ls_restore_plan *plan, const stored *all) {
  for (size_t i = 0; i < all->num_made; ++i)
    LS_RETURN_IF_ERROR(
        ls_state_write(plan->store, all->made[i].variable, all->made[i].value));
  return ls_ok();
}

static ls_status add_parts(const ls_restore_plan *plan, stored *all,
                           ls_arena *arena, size_t index, bool *out_done) {
  const ls_variable *variable = plan->saver->variables[index];
  LS_ARENA_ARRAY_OR_RETURN(arena, const ls_safetensors_entry *, parts,
                           variable->num_components + 1);
  LS_RETURN_IF_ERROR(find_parts(plan->source, arena, variable,
                                plan->names[index], parts, out_done));
  for (size_t i = 0; *out_done && i < variable->num_components; ++i)
    LS_RETURN_IF_ERROR(add_stored(all, variable->components[i], parts[i]));
  return ls_ok();
}

// Returns true if the variable was initialized from this file.
static bool has_started_with(const ls_variable *variable, const ls_store *store,
                             uint64_t started) {
  return started != 0 && variable->restored_from == started &&
         ls_store_has_value(store, variable);
}

static ls_status saver_restore_one(const ls_restore_plan *plan, ls_arena *arena,
                                   size_t index, stored *all) {
  ls_variable *variable = plan->saver->variables[index];
  const ls_safetensors_entry *entry = plan->entries[index];
  bool done =
      entry == NULL || has_started_with(variable, plan->store, plan->started);
  if (!done && plan->saver->exact)
    LS_RETURN_IF_ERROR(add_parts(plan, all, arena, index, &done));
  if (done) return ls_ok();
  return variable->num_targets == 0 && !ls_store_divides_value(variable) &&
                 plan->layouts[index].outputs == 0 &&
                 entry->dtype == variable->type.dtype
             ? add_stored(all, variable, entry)
             : add_made(plan, all, index);
}

static void stored_deinit(stored *all) {
  for (size_t i = 0; i < all->num_made; ++i)
    ls_array_release(all->made[i].value);
  ls_release(all->allocator, all->made);
  ls_release(all->allocator, all->variables);
  ls_release(all->allocator, all->wishes);
}
LS_OWNED_STRUCT(stored, stored_deinit)

static ls_status saver_restore_all(const ls_restore_plan *plan) {
  ls_allocator *allocator = ls_runtime_allocator(plan->source->runtime);
  const size_t count = plan->saver->num_variables;
  LS_OWN(ls_arena, names) = {.allocator = allocator};
  LS_OWN(stored, all) = {.allocator = allocator};
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(saver_restore_one(plan, &names, i, &all));
  LS_RETURN_IF_ERROR(read_stored(plan, &all));
  LS_RETURN_IF_ERROR(set_made(plan, &all));
  for (size_t i = 0; i < count; ++i)
    if (plan->entries[i] != NULL) plan->saver->variables[i]->restored_from = 0;
  return ls_ok();
}

ls_status ls_restore_plan_run(const ls_restore_plan *plan) {
  ls_runtime *runtime = plan->source->runtime;
  const int64_t began = ls_span_begin(runtime);
  const ls_status status = saver_restore_all(plan);
  if (began != LS_NO_SPAN)
    ls_span_end(runtime, &(ls_span){.kind = "restore",
                                    .name = plan->source->path,
                                    .began = began});
  return ls_status_annotate(status, "while restoring '%s'", plan->source->path);
}

// ---- Sources ---------------------------------------------------------------
static int compare_names(const void *a, const void *b) {
  return strcmp((*(const ls_safetensors_entry *const *)a)->name,
                (*(const ls_safetensors_entry *const *)b)->name);
}

ls_status ls_value_source_sort(ls_value_source *source, ls_arena *arena) {
  const size_t count = source->num_entries;
  LS_ARENA_ARRAY_OR_RETURN(arena, const ls_safetensors_entry *, sorted, count);
  for (size_t i = 0; i < count; ++i)
    sorted[i] = &source->entries[i];
  if (count > 1) qsort(sorted, count, sizeof(*sorted), compare_names);
  source->by_name = sorted;
  return ls_ok();
}

// Compares an entry's name with the first `length` characters of `name`.
static int compare_to(const ls_safetensors_entry *entry, const char *name,
                      size_t length) {
  const int order = strncmp(entry->name, name, length);
  return order != 0 ? order : entry->name[length] != '\0';
}

static const ls_safetensors_entry *find_entry(const ls_value_source *source,
                                              const char *name, size_t length) {
  size_t low = 0, high = source->num_entries;
  if (source->by_name == NULL) {
    while (low < high && compare_to(&source->entries[low], name, length) != 0)
      ++low;
    return low < high ? &source->entries[low] : NULL;
  }
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const int order = compare_to(source->by_name[middle], name, length);
    if (order == 0) return source->by_name[middle];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

const ls_safetensors_entry *ls_value_source_find(const ls_value_source *source,
                                                 const char *name) {
  return find_entry(source, name, strlen(name));
}

const ls_safetensors_entry *ls_value_source_whole(const ls_value_source *source,
                                                  const char *name) {
  const size_t whole = ls_saver_part_of(name);
  return whole > 0 ? find_entry(source, name, whole) : NULL;
}

ls_status ls_value_source_get(const ls_value_source *source,
                              const ls_safetensors_entry *entry, void *data) {
  ls_workers *workers = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_workers(source->runtime, &workers));
  return source->get(source->self, workers,
                     &(ls_safetensors_wish){.entry = entry, .data = data}, 1,
                     LS_SUMS_HELD);
}

static ls_status get_safetensors(const void *self, ls_workers *workers,
                                 ls_safetensors_wish *wishes, size_t count,
                                 ls_sums sums) {
  return ls_safetensors_get_many(self, workers, wishes, count, sums);
}

ls_value_source ls_value_source_of(const ls_safetensors_file *file) {
  return (ls_value_source){.runtime = file->runtime,
                           .path = file->path,
                           .entries = file->entries,
                           .num_entries = file->num_entries,
                           .self = file,
                           .get = get_safetensors};
}

// ---- Restoring -------------------------------------------------------------
ls_status ls_saver_restore_source(const ls_saver *saver,
                                  const ls_value_source *source,
                                  const ls_value_choice *choice,
                                  uint64_t started, ls_value_report *report) {
  LS_OWN(ls_restore_plan, plan) = {0};
  const ls_status status =
      ls_restore_plan_make(saver, source, choice, started, &plan);
  if (report != NULL) *report = plan.report;
  LS_RETURN_IF_ERROR(status);
  return ls_restore_plan_run(&plan);
}

ls_status ls_saver_restore_from(const ls_saver *saver,
                                const ls_safetensors_file *file) {
  const ls_value_source source = ls_value_source_of(file);
  return ls_saver_restore_source(saver, &source, NULL, 0, NULL);
}

ls_status ls_saver_restore(const ls_saver *saver, const char *path) {
  LS_REQUIRE(saver, path);
  return ls_saver_restore_part(saver, path, NULL, NULL);
}

ls_status ls_saver_restore_part(const ls_saver *saver, const char *path,
                                const ls_value_choice *choice,
                                ls_value_report *report) {
  LS_REQUIRE(saver, path);
  if (report != NULL) *report = (ls_value_report){0};
  LS_OWN(ls_saved_file, file) = NULL;
  LS_RETURN_IF_ERROR(ls_saved_file_open(path, &file));
  return ls_saved_file_restore_part(file, saver, choice, report);
}
