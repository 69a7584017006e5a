// SPDX-License-Identifier: Apache-2.0

#include <stdio.h>

#include "state/saver_file.h"

const char *ls_value_fate_name(ls_value_fate fate) {
  static const char *const names[LS_VALUE_FATES] = {
      [LS_VALUE_RESTORED] = "restored", [LS_VALUE_RENAMED] = "renamed",
      [LS_VALUE_MISSING] = "missing",   [LS_VALUE_OTHER_TYPE] = "other type",
      [LS_VALUE_LEFT_OUT] = "left out", [LS_VALUE_EXTRA] = "extra",
  };
  return (unsigned)fate < LS_VALUE_FATES ? names[fate] : "?";
}

// ---- Faults ----------------------------------------------------------------
static ls_status restore_plan_missing(const ls_value_source *source,
                                      const ls_variable *variable,
                                      const char *name) {
  enum { MOST_SHOWN = 3 };
  char held[200] = "";
  bool torch = false;
  for (size_t i = 0; i < source->num_entries && i < MOST_SHOWN; ++i) {
    const size_t at = strlen(held);
    snprintf(held + at, sizeof(held) - at, "%s'%s'", i == 0 ? ": " : ", ",
             source->entries[i].name);
  }
  for (size_t i = 0; i < source->num_entries; ++i)
    torch |= ls_layout_is_torch_name(source->entries[i].name);
  return ls_not_found(
      "'%s' has no array '%s', which variable '%s' of %s needs; it has "
      "%zu%s%s%s",
      source->path, name, variable->name,
      LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape),
      source->num_entries, held,
      source->num_entries > MOST_SHOWN ? ", ..." : "",
      torch ? "; these look like PyTorch's names: map them to the model's, as "
              "in --map hidden.weight=hidden/kernel, with --layout torch "
              "(docs/from-pytorch.md)"
            : "");
}

static ls_status other_type(const ls_restore_plan *plan,
                            const ls_value_choice *choice, size_t index,
                            const ls_safetensors_entry *entry) {
  const ls_variable *variable = plan->saver->variables[index];
  return ls_invalid_argument(
      "'%s' has array '%s' of %s; variable '%s' needs %s%s", plan->source->path,
      entry->name, LS_SHAPE_TEXT(entry->dtype, entry->shape), variable->name,
      LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape),
      ls_layout_advice(plan, choice, index, entry));
}

static void add_fault(ls_restore_plan *plan, ls_status status) {
  if (ls_status_is_ok(status)) return;
  if (plan->num_faults++ == 0)
    plan->fault = status;
  else
    ls_status_free(status);
}

// Returns the first fault, and says how many there are.
static ls_status take_fault(ls_restore_plan *plan) {
  const ls_status first = plan->fault;
  plan->fault = ls_ok();
  return plan->num_faults < 2
             ? first
             : ls_status_annotate(
                   first,
                   "%zu of %zu variables cannot be restored, this is the first",
                   plan->num_faults, plan->saver->num_variables);
}

// ---- Variables -------------------------------------------------------------
bool ls_restore_fits_dtype(const ls_value_choice *choice,
                           const ls_variable *variable,
                           const ls_safetensors_entry *entry) {
  return entry->dtype == variable->type.dtype ||
         (choice->convert == LS_FLAG_ON && ls_dtype_is_float(entry->dtype) &&
          ls_dtype_is_float(variable->type.dtype));
}

static void restore_plan_tell(ls_restore_plan *plan,
                              const ls_value_choice *choice,
                              const ls_value_note *note) {
  ++plan->report.count[note->fate];
  if (choice->tell != NULL) choice->tell(choice->user, note);
}

static void plan_variable(ls_restore_plan *plan, const ls_value_choice *choice,
                          const ls_name_choice *names, size_t index) {
  const ls_variable *variable = plan->saver->variables[index];
  const char *name = plan->variables[index], *wanted = plan->names[index];
  const ls_safetensors_entry *entry =
      ls_value_source_find(plan->source, wanted);
  ls_value_note note = {.fate = LS_VALUE_RESTORED,
                        .variable = name,
                        .entry = wanted,
                        .type = variable->type};
  if (entry != NULL) {
    note.entry_type = (ls_type){entry->dtype, entry->shape};
    plan->taken[entry - plan->source->entries] = true;
  }
  bool fits = false;
  if (entry != NULL && ls_name_is_chosen(names, name))
    add_fault(plan, ls_layout_find(plan, choice, index, entry, &fits));
  if (!ls_name_is_chosen(names, name)) {
    note.fate = LS_VALUE_LEFT_OUT;
  } else if (entry == NULL) {
    note.fate = LS_VALUE_MISSING;
    if (choice->missing != LS_FLAG_ON)
      add_fault(plan, restore_plan_missing(plan->source, variable, wanted));
  } else if (!fits) {
    note.fate = LS_VALUE_OTHER_TYPE;
    if (choice->other_types != LS_FLAG_ON)
      add_fault(plan, other_type(plan, choice, index, entry));
  } else {
    plan->entries[index] = entry;
    if (strcmp(wanted, name) != 0) note.fate = LS_VALUE_RENAMED;
  }
  restore_plan_tell(plan, choice, &note);
}

// ---- Entries without a variable --------------------------------------------
static void plan_extras(ls_restore_plan *plan, const ls_value_choice *choice) {
  for (size_t i = 0; i < plan->source->num_entries; ++i) {
    const ls_safetensors_entry *entry = &plan->source->entries[i];
    if (plan->taken[i] || ls_value_source_is_part(plan->source, entry->name))
      continue;
    restore_plan_tell(
        plan, choice,
        &(ls_value_note){.fate = LS_VALUE_EXTRA,
                         .entry = entry->name,
                         .entry_type = {entry->dtype, entry->shape}});
    if (choice->extra == LS_FLAG_OFF && plan->num_faults == 0)
      add_fault(plan, ls_invalid_argument(
                          "'%s' has array '%s' of %s, which no variable uses",
                          plan->source->path, entry->name,
                          LS_SHAPE_TEXT(entry->dtype, entry->shape)));
  }
}

// ---- Values ----------------------------------------------------------------
// Returns true if an entry is read: for a variable, or as a component's entry
// of one.
static bool is_read(const ls_restore_plan *plan, size_t index) {
  const char *name = plan->source->entries[index].name;
  const size_t whole = plan->saver->exact ? ls_saver_part_of(name) : 0;
  for (size_t i = 0; i < plan->saver->num_variables; ++i) {
    const ls_safetensors_entry *entry = plan->entries[i];
    if (entry == NULL) continue;
    if (entry == &plan->source->entries[index] ||
        (whole > 0 && strncmp(entry->name, name, whole) == 0 &&
         entry->name[whole] == '\0'))
      return true;
  }
  return false;
}

// Checks that all values to set can be read.
static ls_status restore_plan_check_values(ls_restore_plan *plan) {
  const ls_value_source *source = plan->source;
  ls_workers *workers = NULL;
  if (source->is_checked) return ls_ok();
  LS_RETURN_IF_ERROR(ls_runtime_workers(source->runtime, &workers));
  LS_ARENA_ARRAY_OR_RETURN(&plan->arena, ls_safetensors_wish, wishes,
                           source->num_entries);
  size_t count = 0;
  for (size_t i = 0; i < source->num_entries; ++i)
    if (is_read(plan, i)) wishes[count++].entry = &source->entries[i];
  return ls_status_annotate(
      source->get(source->self, workers, wishes, count, LS_SUMS_HELD),
      "while restoring '%s'", source->path);
}

// ---- Making the plan -------------------------------------------------------
static ls_status allocate(ls_restore_plan *plan) {
  const size_t count = plan->saver->num_variables;
  plan->variables = ls_arena_new_array(&plan->arena, const char *, count);
  plan->names = ls_arena_new_array(&plan->arena, const char *, count);
  plan->entries =
      ls_arena_new_array(&plan->arena, const ls_safetensors_entry *, count);
  plan->layouts = ls_arena_new_array(&plan->arena, ls_kernel_layout, count);
  plan->taken =
      ls_arena_new_array(&plan->arena, bool, plan->source->num_entries);
  return plan->variables != NULL && plan->names != NULL &&
                 plan->entries != NULL && plan->layouts != NULL &&
                 plan->taken != NULL
             ? ls_ok()
             : ls_out_of_memory();
}

static ls_status restore_plan_make(ls_restore_plan *plan,
                                   const ls_value_choice *choice) {
  const ls_saver *saver = plan->saver;
  const ls_name_choice names = {.only = choice->only,
                                .num_only = choice->num_only,
                                .except = choice->except,
                                .num_except = choice->num_except,
                                .maps = choice->names,
                                .num_maps = choice->num_names,
                                .back = true,
                                .noun = "variable"};
  LS_RETURN_IF_ERROR(ls_saver_open(saver, &plan->store));
  LS_RETURN_IF_ERROR(allocate(plan));
  for (size_t i = 0; i < saver->num_variables; ++i)
    plan->variables[i] = ls_saver_name(saver, i);
  LS_RETURN_IF_ERROR(
      ls_name_choice_check(&names, plan->variables, saver->num_variables));
  for (size_t i = 0; i < saver->num_variables; ++i) {
    plan->names[i] = ls_name_map_to(&names, &plan->arena, plan->variables[i]);
    if (plan->names[i] == NULL) return ls_out_of_memory();
  }
  for (size_t i = 0; i < saver->num_variables; ++i)
    plan_variable(plan, choice, &names, i);
  plan_extras(plan, choice);
  LS_RETURN_IF_ERROR(take_fault(plan));
  LS_RETURN_IF_ERROR(ls_layout_check_flat(plan, choice));
  return restore_plan_check_values(plan);
}

ls_status ls_restore_plan_make(const ls_saver *saver,
                               const ls_value_source *source,
                               const ls_value_choice *choice, uint64_t started,
                               ls_restore_plan *out_plan) {
  static const ls_value_choice all;
  *out_plan =
      (ls_restore_plan){.saver = saver, .source = source, .started = started};
  ls_arena_init(&out_plan->arena, ls_runtime_allocator(source->runtime));
  return restore_plan_make(out_plan, choice != NULL ? choice : &all);
}

void ls_restore_plan_deinit(ls_restore_plan *plan) {
  ls_status_free(plan->fault);
  if (plan->arena.allocator != NULL) ls_arena_deinit(&plan->arena);
  *plan = (ls_restore_plan){0};
}
