// SPDX-License-Identifier: Apache-2.0

#include <stdio.h>

#include "state/saver_file.h"

// ---- Layouts ---------------------------------------------------------------
// Kernels in PyTorch's layout: [outputs, inputs, ...], which become [...,
// inputs, outputs].

// Returns true for variables that are kernels, by the end of their name.
static bool is_kernel(const char *name) {
  static const char end[] = "kernel";
  const size_t size = strlen(name), length = sizeof(end) - 1;
  return size >= length && strcmp(name + size - length, end) == 0 &&
         (size == length || strchr("/_", name[size - length - 1]) != NULL);
}

static const ls_flat_kernel *find_flat(const ls_value_choice *choice,
                                       const char *name) {
  for (size_t i = 0; i < choice->num_flat; ++i)
    if (strcmp(choice->flat[i].variable, name) == 0) return &choice->flat[i];
  return NULL;
}

// Returns the shape of PyTorch's array for a kernel of this shape.
static ls_shape torch_shape(ls_shape kernel) {
  ls_shape shape = {.rank = kernel.rank};
  shape.dim[0] = kernel.dim[kernel.rank - 1];
  shape.dim[1] = kernel.dim[kernel.rank - 2];
  for (int i = 2; i < kernel.rank; ++i)
    shape.dim[i] = kernel.dim[i - 2];
  return shape;
}

// Returns true for names of weights as PyTorch has them: "hidden.weight".
static bool layout_is_torch_name(const char *name) {
  const char *end = strrchr(name, '.');
  return end != NULL && strcmp(end, ".weight") == 0;
}

// Returns true if an entry's dtype is the variable's, or converted to it.
static bool fits_dtype(const ls_value_choice *choice,
                       const ls_variable *variable,
                       const ls_safetensors_entry *entry) {
  return entry->dtype == variable->type.dtype ||
         (choice->convert == LS_FLAG_ON && ls_dtype_is_float(entry->dtype) &&
          ls_dtype_is_float(variable->type.dtype));
}

static bool fits_own(const ls_value_choice *choice, const ls_variable *variable,
                     const ls_safetensors_entry *entry) {
  return fits_dtype(choice, variable, entry) &&
         ls_shape_equal(entry->shape, variable->type.shape);
}

static bool fits_torch(const ls_value_choice *choice,
                       const ls_variable *variable,
                       const ls_safetensors_entry *entry) {
  return variable->type.shape.rank >= 2 &&
         fits_dtype(choice, variable, entry) &&
         ls_shape_equal(entry->shape, torch_shape(variable->type.shape));
}

// Finds a layer of convolution before variable `index` whose images are the
// inputs of a dense kernel, flattened; returns its number of filters, else 0.
static int64_t find_filters(const ls_restore_plan *plan, size_t index) {
  const ls_shape shape = plan->saver->variables[index]->type.shape;
  for (size_t i = index; i-- > 0;) {
    const ls_shape before = plan->saver->variables[i]->type.shape;
    if (!is_kernel(plan->variables[i]) || before.rank < 2) continue;
    const int64_t filters = before.dim[before.rank - 1];
    return before.rank == 4 && filters > 0 && shape.dim[0] > filters &&
                   shape.dim[0] % filters == 0
               ? filters
               : 0;
  }
  return 0;
}

// Checks the images that a dense kernel's inputs are, which only the user
// knows.
static ls_status check_flat(const ls_restore_plan *plan,
                            const ls_value_choice *choice, size_t index,
                            ls_kernel_layout *out) {
  const ls_variable *variable = plan->saver->variables[index];
  const int64_t inputs = variable->type.shape.dim[0];
  const ls_flat_kernel *flat = find_flat(choice, plan->variables[index]);
  const int64_t filters = find_filters(plan, index);
  if (flat == NULL && filters == 0) return ls_ok();
  if (flat == NULL)
    return ls_invalid_argument(
        "variable '%s' of %s comes after a convolution with %lld filters: if "
        "its inputs are images, PyTorch flattens them channels first; give "
        "their size: --layout torch,%s=%lldxHEIGHTxWIDTH, or =%lldx1x1 if they "
        "are none",
        variable->name,
        LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape),
        (long long)filters, plan->variables[index], (long long)filters,
        (long long)inputs);
  if (flat->channels * flat->height * flat->width != inputs)
    return ls_invalid_argument(
        "variable '%s' has %lld inputs, which are no images of %lldx%lldx%lld",
        variable->name, (long long)inputs, (long long)flat->channels,
        (long long)flat->height, (long long)flat->width);
  out->inputs = flat->channels;
  out->spatial = flat->height * flat->width;
  return ls_ok();
}

// Checks that each kernel whose images are given is one of the plan, once.
//   LS_INVALID_ARGUMENT  one is not
static ls_status layout_check_flat(const ls_restore_plan *plan,
                                   const ls_value_choice *choice) {
  const size_t count = plan->saver->num_variables;
  for (size_t f = 0; f < choice->num_flat; ++f) {
    const char *name = choice->flat[f].variable;
    size_t i = 0;
    if (find_flat(choice, name) != &choice->flat[f])
      return ls_invalid_argument("the images of '%s' are given twice", name);
    while (i < count && strcmp(plan->variables[i], name) != 0)
      ++i;
    if (i < count && plan->entries[i] != NULL && plan->layouts[i].outputs > 0 &&
        plan->saver->variables[i]->type.shape.rank == 2)
      continue;
    return ls_invalid_argument(
        "images are given for '%s', which is not a dense kernel that is "
        "restored from PyTorch's layout",
        name);
  }
  return ls_ok();
}

// Finds out if an entry fits variable `index`, and stores its layout in the
// plan.
//   LS_INVALID_ARGUMENT  the layout is in doubt
static ls_status layout_find(ls_restore_plan *plan,
                             const ls_value_choice *choice, size_t index,
                             const ls_safetensors_entry *entry,
                             bool *out_fits) {
  const ls_variable *variable = plan->saver->variables[index];
  const ls_shape shape = variable->type.shape;
  ls_kernel_layout *layout = &plan->layouts[index];
  *out_fits = fits_own(choice, variable, entry);
  if (!is_kernel(plan->variables[index]) || shape.rank < 2) return ls_ok();
  if (choice->layout == LS_LAYOUT_TORCH) {
    *out_fits = fits_torch(choice, variable, entry);
    layout->outputs = shape.dim[shape.rank - 1];
    layout->inputs = shape.dim[shape.rank - 2];
    layout->spatial = 1;
    for (int i = 0; i + 2 < shape.rank; ++i)
      layout->spatial *= shape.dim[i];
    return *out_fits && shape.rank == 2
               ? check_flat(plan, choice, index, layout)
               : ls_ok();
  }
  // A square matrix has the same shape in both.
  if (choice->layout == LS_LAYOUT_OWN || !*out_fits ||
      !fits_torch(choice, variable, entry) ||
      !layout_is_torch_name(entry->name))
    return ls_ok();
  return ls_invalid_argument(
      "array '%s' of %s is called as PyTorch's are, and would fit variable "
      "'%s' in both layouts: give --layout torch ([outputs, inputs, ...]) or "
      "--layout own",
      entry->name, LS_SHAPE_TEXT(entry->dtype, entry->shape), variable->name);
}

// Returns the end of the message about an entry that does not fit: the layout
// in which it would, or "".
static const char *layout_advice(const ls_restore_plan *plan,
                                 const ls_value_choice *choice, size_t index,
                                 const ls_safetensors_entry *entry) {
  const ls_variable *variable = plan->saver->variables[index];
  if (!is_kernel(plan->variables[index])) return "";
  if (choice->layout == LS_LAYOUT_TORCH)
    return fits_own(choice, variable, entry)
               ? ": it is in our layout, not in that of --layout torch (in C "
                 ".layout of ls_value_choice)"
               : "";
  return fits_torch(choice, variable, entry)
             ? ": it fits with --layout torch (in C .layout = LS_LAYOUT_TORCH "
               "of ls_value_choice)"
             : "";
}

void ls_layout_permute(const ls_kernel_layout *layout, size_t element_size,
                       const void *from, void *to) {
  const char *source = from;
  const int64_t outputs = layout->outputs, inputs = layout->inputs;
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t i = 0; i < inputs; ++i)
      for (int64_t s = 0; s < layout->spatial; ++s, source += element_size)
        memcpy((char *)to +
                   (size_t)((s * inputs + i) * outputs + o) * element_size,
               source, element_size);
}

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
    torch |= layout_is_torch_name(source->entries[i].name);
  return ls_not_found(
      "'%s' has no array '%s', which variable '%s' of %s needs; it has "
      "%zu%s%s%s",
      source->path, name, variable->name,
      LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape),
      source->num_entries, held,
      source->num_entries > MOST_SHOWN ? ", ..." : "",
      torch ? "; these look like PyTorch's names: map them to the model's, as "
              "in --map hidden.weight=hidden/kernel, with --layout torch; in "
              "C .names and .layout of ls_value_choice "
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
      layout_advice(plan, choice, index, entry));
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
    add_fault(plan, layout_find(plan, choice, index, entry, &fits));
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
    if (plan->taken[i] ||
        ls_value_source_whole(plan->source, entry->name) != NULL)
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
static bool is_read(const ls_restore_plan *plan, const bool *restored,
                    size_t index) {
  const ls_safetensors_entry *entries = plan->source->entries;
  const ls_safetensors_entry *whole =
      plan->saver->exact
          ? ls_value_source_whole(plan->source, entries[index].name)
          : NULL;
  return restored[index] || (whole != NULL && restored[whole - entries]);
}

// Checks that all values to set can be read.
static ls_status restore_plan_check_values(ls_restore_plan *plan) {
  const ls_value_source *source = plan->source;
  ls_workers *workers = NULL;
  if (source->is_checked) return ls_ok();
  LS_RETURN_IF_ERROR(ls_runtime_workers(source->runtime, &workers));
  LS_ARENA_ARRAY_OR_RETURN(&plan->arena, ls_safetensors_wish, wishes,
                           source->num_entries);
  LS_ARENA_ARRAY_OR_RETURN(&plan->arena, bool, restored, source->num_entries);
  for (size_t i = 0; i < plan->saver->num_variables; ++i)
    if (plan->entries[i] != NULL)
      restored[plan->entries[i] - source->entries] = true;
  size_t count = 0;
  for (size_t i = 0; i < source->num_entries; ++i)
    if (is_read(plan, restored, i)) wishes[count++].entry = &source->entries[i];
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
  LS_RETURN_IF_ERROR(layout_check_flat(plan, choice));
  return restore_plan_check_values(plan);
}

ls_status ls_restore_plan_make(const ls_saver *saver,
                               const ls_value_source *source,
                               const ls_value_choice *choice, uint64_t started,
                               ls_restore_plan *out_plan) {
  static const ls_value_choice all;
  *out_plan = (ls_restore_plan){.saver = saver, .started = started};
  ls_arena_init(&out_plan->arena, ls_runtime_allocator(source->runtime));
  LS_ARENA_NEW_OR_RETURN(&out_plan->arena, ls_value_source, sorted);
  *sorted = *source;
  LS_RETURN_IF_ERROR(ls_value_source_sort(sorted, &out_plan->arena));
  out_plan->source = sorted;
  return restore_plan_make(out_plan, choice != NULL ? choice : &all);
}

void ls_restore_plan_deinit(ls_restore_plan *plan) {
  ls_status_free(plan->fault);
  if (plan->arena.allocator != NULL) ls_arena_deinit(&plan->arena);
  *plan = (ls_restore_plan){0};
}
