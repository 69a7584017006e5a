// SPDX-License-Identifier: Apache-2.0
//
// Loads an ONNX file: its weights as variables; and applies it.
#include "onnx/onnx_load.h"

#include <math.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "graph/trial.h"
#include "onnx/hlo.h"

// ---- Weights ---------------------------------------------------------------
// The last one of all uses counts.
typedef enum role {
  ROLE_NONE,
  ROLE_ELEMENT,  // A weight, unless all its elements are equal.
  ROLE_FACTOR,   // A weight, unless it is a single number.
  ROLE_WEIGHT,
  ROLE_STATISTIC,
  ROLE_SETTING
} role;

static role hlo_role_of(const ls_onnx_node *node, size_t input) {
  static const char *const settings[] = {"maximum", "minimum", "clamp",
                                         "select",  "compare", "power",
                                         NULL},
                           *const with_settings[] = {"pad", "reduce",
                                                     "reduce_window", NULL};
  if (ls_onnx_is_one_of(node->type, settings) ||
      (input > 0 && ls_onnx_is_one_of(node->type, with_settings)))
    return ROLE_SETTING;
  const ls_onnx_op *op = ls_hlo_op_find(node->domain, node->type);
  return op != NULL && op->binary != NULL ? ROLE_ELEMENT : ROLE_WEIGHT;
}

// Returns the role of an operand.
static role role_of(const ls_onnx_file *file, const ls_onnx_node *node,
                    size_t input) {
  static const char *const with_settings[] = {
      "Clip", "Pad", "Resize", "Upsample", "Dropout", "OneHot", "Range", NULL};
  if (file->types != NULL) return hlo_role_of(node, input);
  if (strcmp(node->type, "BatchNormalization") == 0 && input > 2)
    return ROLE_STATISTIC;
  if (input > 0 && ls_onnx_is_one_of(node->type, with_settings))
    return ROLE_SETTING;
  const bool scales = strcmp(node->type, "Mul") == 0 ||
                      strcmp(node->type, "Div") == 0 ||
                      strcmp(node->type, "Pow") == 0;
  return scales ? ROLE_FACTOR : ROLE_WEIGHT;
}

static bool is_finite_array(const ls_array *array) {
  const int64_t count = ls_array_num_elements(array);
  for (int64_t i = 0; i < count; ++i)
    if (!isfinite(ls_array_f64(array, i))) return false;
  return true;
}

static bool is_one_value(const ls_array *array) {
  const int64_t count = ls_array_num_elements(array);
  for (int64_t i = 1; i < count; ++i)
    if (ls_array_f64(array, i) != ls_array_f64(array, 0)) return false;
  return true;
}

// Returns true for a constant that is a weight by its use and its elements.
static bool is_weight(const char *name, role own, const ls_array *array) {
  return own != ROLE_NONE && own != ROLE_SETTING && name[0] != '%' &&
         !(own == ROLE_ELEMENT && is_one_value(array)) &&
         !(own == ROLE_FACTOR && ls_array_num_elements(array) == 1) &&
         ls_array_shape(array).rank > 0 && is_finite_array(array);
}

// Returns true unless a StableHLO text gives one element for all.
static bool is_whole(const ls_onnx_file *file,
                     const ls_onnx_initializer *given) {
  return file->types == NULL || ls_shape_equal(file->types[given->value].shape,
                                               ls_array_shape(given->array));
}

// Returns all elements of a weight.
static ls_status make_whole(const ls_onnx_file *file,
                            const ls_onnx_initializer *given,
                            ls_array **out_array) {
  const ls_dtype dtype = ls_array_dtype(given->array);
  *out_array = ls_array_retain(given->array);
  if (is_whole(file, given)) return ls_ok();
  ls_array_release(*out_array);
  *out_array = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create(dtype, file->types[given->value].shape, out_array));
  const int64_t count = ls_array_num_elements(*out_array);
  for (int64_t i = 0; i < count; ++i)
    ls_array_set_f64(*out_array, i, ls_array_f64(given->array, 0));
  return ls_ok();
}

static ls_status load_variables(ls_onnx *self, const ls_onnx_options *options) {
  const ls_onnx_file *file = &self->file;
  // The number of elements that texts give as one for all.
  int64_t grown = 0;
  LS_OWN_ARRAY_OR_RETURN(self->allocator, role, roles, file->num_values);
  for (size_t i = 0; i < file->num_nodes; ++i)
    for (size_t k = 0; k < file->nodes[i].num_inputs; ++k) {
      const role found = role_of(file, &file->nodes[i], k);
      role *known = &roles[file->nodes[i].inputs[k]];
      if (found > *known) *known = found;
    }
  for (size_t i = 0; i < file->num_initializers; ++i) {
    const ls_onnx_initializer *given = &file->initializers[i];
    const char *name = file->names[given->value];
    const role own = roles[given->value];
    const int64_t count =
        is_whole(file, given)
            ? 0
            : ls_shape_num_elements(file->types[given->value].shape);
    if (!ls_dtype_is_float(ls_array_dtype(given->array)) ||
        (!given->is_variable && !is_weight(name, own, given->array)) ||
        count < 0 || count > LS_ONNX_MOST_ELEMENTS - grown)
      continue;
    grown += count;
    LS_OWN(ls_array, whole) = NULL;
    LS_RETURN_IF_ERROR(make_whole(file, given, &whole));
    const bool trains = own != ROLE_STATISTIC && !given->is_fixed &&
                        options->trainable != LS_FLAG_OFF;
    LS_RETURN_IF_ERROR(ls_variable_create(
        &(ls_variable_options){.name = name,
                               .initial_array = whole,
                               .trainable = trains ? LS_FLAG_ON : LS_FLAG_OFF},
        &self->variables[i]));
  }
  return ls_ok();
}

static ls_status check_ops(const ls_onnx_file *file) {
  for (size_t i = 0; i < file->num_nodes; ++i) {
    const ls_onnx_node *node = &file->nodes[i];
    const ls_onnx_op *op = ls_onnx_op_find(file, node);
    if (op == NULL)
      return ls_unimplemented("'%s': op %s%s%s of node '%s'", file->path,
                              node->domain, node->domain[0] != '\0' ? "." : "",
                              node->type, node->name);
    if (node->num_inputs < op->least || node->num_inputs > op->most ||
        (op->least > 0 && node->inputs[0] == 0) || node->num_outputs == 0)
      return LS_STATUS(
          file->types != NULL ? LS_UNIMPLEMENTED : LS_INVALID_ARGUMENT,
          "'%s': op %s of node '%s' has %zu inputs and %zu outputs", file->path,
          node->type, node->name, node->num_inputs, node->num_outputs);
  }
  return ls_ok();
}

static ls_status load_all(ls_onnx *self, const ls_onnx_options *options) {
  static const ls_onnx_options defaults = {0};
  LS_RETURN_IF_ERROR(check_ops(&self->file));
  LS_ARENA_SET_OR_RETURN(&self->file.memory, ls_variable *, self->variables,
                         self->file.num_initializers + 1);
  return LS_TRIAL(ls_status_annotate(
      load_variables(self, options != NULL ? options : &defaults),
      "while loading '%s'", self->file.path));
}

ls_status ls_onnx_load(const char *path, const ls_onnx_options *options,
                       ls_onnx **out_onnx) {
  LS_REQUIRE_OUT(out_onnx, path);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_NEW_OR_RETURN(allocator, ls_onnx, self);
  self->allocator = allocator;
  LS_RETURN_IF_ERROR(
      ls_onnx_file_open(ls_runtime_current(), path, &self->file));
  LS_RETURN_IF_ERROR(load_all(self, options));
  return ls_hand_over(&self, out_onnx);
}

ls_status ls_onnx_decode(const char *path, const void *data, size_t size,
                         ls_onnx **out_onnx) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_NEW_OR_RETURN(allocator, ls_onnx, self);
  self->allocator = allocator;
  LS_RETURN_IF_ERROR(
      ls_onnx_file_decode(ls_runtime_current(), path, data, size, &self->file));
  LS_RETURN_IF_ERROR(load_all(self, NULL));
  return ls_hand_over(&self, out_onnx);
}

void ls_onnx_destroy(ls_onnx *onnx) {
  if (onnx == NULL) return;
  for (size_t i = 0; onnx->variables != NULL && i < onnx->file.num_initializers;
       ++i)
    ls_variable_release(onnx->variables[i]);
  ls_onnx_file_deinit(&onnx->file);
  ls_release(onnx->allocator, onnx);
}

// ---- Lists -----------------------------------------------------------------
size_t ls_onnx_variables(const ls_onnx *onnx, ls_variable **variables,
                         size_t capacity) {
  size_t count = 0;
  for (size_t i = 0; i < onnx->file.num_initializers; ++i) {
    if (onnx->variables[i] == NULL) continue;
    if (count < capacity) variables[count] = onnx->variables[i];
    ++count;
  }
  return count;
}

static size_t list_ports(const ls_onnx_port *ports, size_t count,
                         ls_serving_value *values, size_t capacity) {
  for (size_t i = 0; i < count && i < capacity; ++i)
    values[i] =
        (ls_serving_value){.name = ports[i].name, .type = ports[i].type};
  return count;
}

size_t ls_onnx_inputs(const ls_onnx *onnx, ls_serving_value *values,
                      size_t capacity) {
  return list_ports(onnx->file.inputs, onnx->file.num_inputs, values, capacity);
}

size_t ls_onnx_outputs(const ls_onnx *onnx, ls_serving_value *values,
                       size_t capacity) {
  return list_ports(onnx->file.outputs, onnx->file.num_outputs, values,
                    capacity);
}

// ---- Applying --------------------------------------------------------------
static ls_tensor convert_input(ls_tensor x, const ls_onnx_port *port) {
  return ls_tensor_dtype(x) == port->type.dtype
             ? x
             : ls_convert(x, port->type.dtype);
}

static ls_status take_inputs(ls_onnx_build *b, ls_nest inputs) {
  const ls_onnx_file *file = b->file;
  for (size_t i = 0; i < file->num_inputs; ++i) {
    const ls_onnx_port *port = &file->inputs[i];
    const ls_nest leaf = inputs.kind == LS_KIND_DICT
                             ? ls_nest_find(inputs, port->name)
                         : ls_nest_is_node(inputs) ? ls_nest_item(inputs, i)
                         : i == 0                  ? inputs
                                                   : ls_none();
    const ls_tensor x = ls_nest_tensor(leaf, 0);
    if (leaf.kind != LS_KIND_TENSOR || x.ref == 0)
      return ls_invalid_argument("input '%s' of '%s' is no tensor", port->name,
                                 file->path);
    const ls_shape has = ls_tensor_shape(x);
    if (has.rank < 0 ||
        (port->type.shape.rank >= 0 && has.rank != port->type.shape.rank))
      return ls_invalid_argument(
          "input '%s' of '%s' is %s, got %s", port->name, file->path,
          LS_SHAPE_TEXT(port->type.dtype, port->type.shape),
          LS_SHAPE_TEXT(ls_tensor_dtype(x), has));
    b->values[port->value].tensor = convert_input(x, port);
  }
  return ls_ok();
}

// Marks the nodes that the wanted values need.
static ls_status mark_needed(const ls_onnx_file *file, ls_arena *memory,
                             const uint32_t *wanted, size_t count,
                             bool **out_needed) {
  LS_ARENA_ARRAY_OR_RETURN(memory, bool, needed, file->num_nodes + 1);
  LS_ARENA_ARRAY_OR_RETURN(memory, bool, uses, file->num_values);
  for (size_t i = 0; i < count; ++i)
    uses[wanted[i]] = true;
  for (size_t i = file->num_nodes; i-- > 0;) {
    const ls_onnx_node *node = &file->nodes[i];
    for (size_t k = 0; k < node->num_outputs; ++k)
      needed[i] |= node->outputs[k] != 0 && uses[node->outputs[k]];
    for (size_t k = 0; needed[i] && k < node->num_inputs; ++k)
      uses[node->inputs[k]] = true;
  }
  *out_needed = needed;
  return ls_ok();
}

static ls_status make_nodes(ls_onnx_build *b, const bool *needed) {
  const ls_onnx_file *file = b->file;
  for (size_t i = 0; i < file->num_nodes; ++i) {
    if (!needed[i]) continue;
    ls_onnx_make_node(b, &file->nodes[i]);
    if (!ls_status_is_ok(b->status))
      return ls_status_annotate(
          ls_give(&b->status), "op %s of node '%s' in '%s'",
          file->nodes[i].type, file->nodes[i].name, file->path);
  }
  return ls_ok();
}

ls_status ls_onnx_make(const ls_onnx *onnx, ls_nest inputs, bool training,
                       const uint32_t *wanted, size_t count,
                       ls_tensor *out_tensors) {
  const ls_onnx_file *file = &onnx->file;
  LS_OWN(ls_arena, memory) = {.allocator = onnx->allocator};
  bool *needed = NULL;
  ls_onnx_build b = {.file = file, .memory = &memory, .is_training = training};
  LS_ARENA_SET_OR_RETURN(&memory, ls_onnx_value, b.values, file->num_values);
  LS_RETURN_IF_ERROR(mark_needed(file, &memory, wanted, count, &needed));
  for (size_t i = 0; i < file->num_initializers; ++i) {
    ls_onnx_value *value = &b.values[file->initializers[i].value];
    value->variable = onnx->variables[i];
    if (value->variable == NULL) value->array = file->initializers[i].array;
  }
  LS_RETURN_IF_ERROR(take_inputs(&b, inputs));
  if (file->types != NULL) ls_hlo_take_batch(&b);
  LS_RETURN_IF_ERROR(ls_give(&b.status));
  LS_RETURN_IF_ERROR(make_nodes(&b, needed));
  for (size_t i = 0; i < count; ++i)
    out_tensors[i] = file->types != NULL ? ls_hlo_output(&b, wanted[i])
                                         : ls_onnx_tensor(&b, wanted[i]);
  return ls_status_annotate(b.status, "as an output of '%s'", file->path);
}

ls_nest(ls_onnx_apply)(const ls_onnx *onnx, ls_nest inputs, bool training) {
  if (onnx == NULL) return ls_fail(ls_null_argument("ls_onnx_apply", "onnx"));
  const ls_onnx_file *file = &onnx->file;
  const size_t count = file->num_outputs;
  LS_OWN_ARRAY(onnx->allocator, uint32_t, wanted, count);
  LS_OWN_ARRAY(onnx->allocator, ls_tensor, tensors, count);
  LS_OWN_ARRAY(onnx->allocator, ls_nest, leaves, count);
  LS_OWN_ARRAY(onnx->allocator, const char *, names, count);
  if (wanted == NULL || tensors == NULL || leaves == NULL || names == NULL)
    return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i)
    wanted[i] = file->outputs[i].value;
  ls_status status =
      ls_onnx_make(onnx, inputs, training, wanted, count, tensors);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  for (size_t i = 0; i < count; ++i) {
    leaves[i] = ls_leaf(tensors[i]);
    names[i] = file->outputs[i].name;
  }
  return ls_nest_dict("", names, leaves, count);
}

uint32_t ls_onnx_logits(const ls_onnx_file *file) {
  uint32_t value = file->outputs[0].value;
  if (file->types != NULL) return ls_hlo_logits(file, value);
  const int32_t rank = file->outputs[0].type.shape.rank;
  for (size_t i = file->num_nodes; i-- > 0;) {
    const ls_onnx_node *node = &file->nodes[i];
    const ls_onnx_attr *axis = ls_onnx_attr_find(node, "axis");
    const bool is_softmax =
        strcmp(node->type, "Softmax") == 0 &&
        (axis == NULL || axis->number == -1 || axis->number == rank - 1) &&
        (rank == 2 || file->opset >= 13);
    if (node->num_outputs != 1 || node->outputs[0] != value) continue;
    if (strcmp(node->type, "Identity") != 0 && !is_softmax) break;
    value = node->inputs[0];
    if (is_softmax) return value;
  }
  return file->outputs[0].value;
}
