// SPDX-License-Identifier: Apache-2.0
// Kernels in PyTorch's layout: [outputs, inputs, ...], which become [...,
// inputs, outputs].

#include "state/saver_file.h"

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

bool ls_layout_is_torch_name(const char *name) {
  const char *end = strrchr(name, '.');
  return end != NULL && strcmp(end, ".weight") == 0;
}

static bool fits_own(const ls_value_choice *choice, const ls_variable *variable,
                     const ls_safetensors_entry *entry) {
  return ls_restore_fits_dtype(choice, variable, entry) &&
         ls_shape_equal(entry->shape, variable->type.shape);
}

static bool fits_torch(const ls_value_choice *choice,
                       const ls_variable *variable,
                       const ls_safetensors_entry *entry) {
  return variable->type.shape.rank >= 2 &&
         ls_restore_fits_dtype(choice, variable, entry) &&
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
    return before.rank == 4 && shape.dim[0] > filters &&
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

ls_status ls_layout_check_flat(const ls_restore_plan *plan,
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

ls_status ls_layout_find(ls_restore_plan *plan, const ls_value_choice *choice,
                         size_t index, const ls_safetensors_entry *entry,
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
      !ls_layout_is_torch_name(entry->name))
    return ls_ok();
  return ls_invalid_argument(
      "array '%s' of %s is called as PyTorch's are, and would fit variable "
      "'%s' in both layouts: give --layout torch ([outputs, inputs, ...]) or "
      "--layout own",
      entry->name, LS_SHAPE_TEXT(entry->dtype, entry->shape), variable->name);
}

const char *ls_layout_advice(const ls_restore_plan *plan,
                             const ls_value_choice *choice, size_t index,
                             const ls_safetensors_entry *entry) {
  const ls_variable *variable = plan->saver->variables[index];
  if (!is_kernel(plan->variables[index])) return "";
  if (choice->layout == LS_LAYOUT_TORCH)
    return fits_own(choice, variable, entry)
               ? ": it is in our layout, not in that of --layout torch"
               : "";
  return fits_torch(choice, variable, entry) ? ": it fits with --layout torch"
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
