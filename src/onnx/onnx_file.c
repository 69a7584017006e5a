// SPDX-License-Identifier: Apache-2.0
//
// Reads ModelProto: the graph, its nodes and values.
#include "onnx/onnx_file.h"

#include "base/runtime_internal.h"
#include "io/protobuf/onnx.h"
#include "onnx/hlo.h"

enum { OLDEST_OPSET = 7, NEWEST_OPSET = 23 };

// ---- Values ----------------------------------------------------------------
// Numbers a name; "" is 0.
static ls_status intern_value(ls_onnx_reader *r, const char *name,
                              uint32_t *out_value) {
  const size_t size = strlen(name);
  ls_onnx_file *file = r->file;
  *out_value = 0;
  if (size == 0) return ls_ok();
  const void *found = ls_map_find(&r->values, name, size);
  *out_value = (uint32_t)(uintptr_t)found;
  if (found != NULL) return ls_ok();
  if (file->num_values >= UINT32_MAX)
    return ls_onnx_damaged(r, "it has too many values");
  *out_value = (uint32_t)file->num_values;
  if (!ls_map_insert(&r->values, name, size, (void *)(uintptr_t)*out_value))
    return ls_out_of_memory();
  file->num_values++;
  return ls_ok();
}

static ls_status read_text_field(ls_onnx_reader *r, const ls_proto_field *field,
                                 const char **out_text) {
  *out_text = ls_onnx_string(r, field);
  return *out_text != NULL ? ls_ok() : ls_onnx_damaged(r, "a name is no text");
}

// ---- Attributes ------------------------------------------------------------
static double real_of(uint32_t bits) {
  float real = 0;
  memcpy(&real, &bits, sizeof(real));
  return (double)real;
}

static ls_status add_real(ls_onnx_reader *r, ls_onnx_attr *attr,
                          uint32_t bits) {
  LS_ONNX_PUSH_OR_RETURN(r, double, real, attr->reals, attr->count);
  *real = real_of(bits);
  return ls_ok();
}

static ls_status add_reals(ls_onnx_reader *r, ls_onnx_attr *attr,
                           const ls_proto_field *field) {
  if (field->type != LS_PROTO_BYTES)
    return add_real(r, attr, (uint32_t)field->value);
  for (uint64_t i = 0; i + 4 <= field->value; i += 4)
    LS_RETURN_IF_ERROR(add_real(r, attr, ls_load_le32(field->at + i)));
  return ls_ok();
}

static ls_status add_text(ls_onnx_reader *r, ls_onnx_attr *attr,
                          const ls_proto_field *field) {
  LS_ONNX_PUSH_OR_RETURN(r, const char *, text, attr->texts, attr->count);
  return read_text_field(r, field, text);
}

static ls_status read_attr_field(ls_onnx_reader *r, const ls_proto_field *field,
                                 void *out) {
  static const ls_onnx_attr_kind kinds[] = {
      [ATTR_FLOAT] = LS_ONNX_FLOAT,   [ATTR_INT] = LS_ONNX_INT,
      [ATTR_STRING] = LS_ONNX_STRING, [ATTR_TENSOR] = LS_ONNX_TENSOR,
      [ATTR_GRAPH] = LS_ONNX_GRAPH,   [ATTR_FLOATS] = LS_ONNX_FLOATS,
      [ATTR_INTS] = LS_ONNX_INTS,     [ATTR_STRINGS] = LS_ONNX_STRINGS};
  ls_onnx_attr *attr = out;
  const char *name = "";
  if (field->number == ATTR_NAME) return read_text_field(r, field, &attr->name);
  // Writers of proto3 leave a number or text out that is 0 or empty.
  if (field->number == ATTR_TYPE && attr->kind == 0 &&
      field->value <= LS_ONNX_STRING)
    attr->kind = (ls_onnx_attr_kind)field->value;
  if (field->number < ATTR_FLOAT || field->number > ATTR_STRINGS)
    return ls_ok();
  if (attr->count > 0 && attr->kind != kinds[field->number])
    return ls_onnx_damaged(r, "an attribute has lists of two kinds");
  attr->kind = kinds[field->number];
  switch (attr->kind) {
  case LS_ONNX_FLOAT:
    attr->real = real_of((uint32_t)field->value);
    return ls_ok();
  case LS_ONNX_INT:
    attr->number = (int64_t)field->value;
    return ls_ok();
  case LS_ONNX_STRING:
    return read_text_field(r, field, &attr->text);
  case LS_ONNX_TENSOR:
    return ls_onnx_read_tensor(r, field, &name, &attr->array);
  case LS_ONNX_FLOATS:
    return add_reals(r, attr, field);
  case LS_ONNX_INTS:
    return ls_onnx_add_numbers(r, field, &attr->numbers, &attr->count);
  case LS_ONNX_STRINGS:
    return add_text(r, attr, field);
  default:
    return ls_ok();
  }
}

// ---- Nodes -----------------------------------------------------------------
static ls_status add_value(ls_onnx_reader *r, const ls_proto_field *field,
                           const uint32_t **values, size_t *count) {
  const char *name = NULL;
  LS_RETURN_IF_ERROR(read_text_field(r, field, &name));
  LS_ONNX_PUSH_OR_RETURN(r, uint32_t, value, *values, *count);
  return intern_value(r, name, value);
}

static ls_status read_node_field(ls_onnx_reader *r, const ls_proto_field *field,
                                 void *out) {
  ls_onnx_node *node = out;
  switch (field->number) {
  case NODE_INPUT:
    return add_value(r, field, &node->inputs, &node->num_inputs);
  case NODE_OUTPUT:
    return add_value(r, field, &node->outputs, &node->num_outputs);
  case NODE_NAME:
    return read_text_field(r, field, &node->name);
  case NODE_OP:
    return read_text_field(r, field, &node->type);
  case NODE_DOMAIN:
    return read_text_field(r, field, &node->domain);
  case NODE_ATTRIBUTE: {
    LS_ONNX_PUSH_OR_RETURN(r, ls_onnx_attr, attr, node->attrs, node->num_attrs);
    attr->name = attr->text = "";
    return ls_onnx_read_message(r, field, read_attr_field, attr);
  }
  default:
    return ls_ok();
  }
}

static ls_status read_node(ls_onnx_reader *r, const ls_proto_field *field) {
  LS_ONNX_PUSH_OR_RETURN(r, ls_onnx_node, node, r->file->nodes,
                         r->file->num_nodes);
  node->type = node->name = node->domain = "";
  LS_RETURN_IF_ERROR(ls_onnx_read_message(r, field, read_node_field, node));
  if (strcmp(node->domain, "ai.onnx") == 0) node->domain = "";
  return ls_ok();
}

// ---- Inputs and outputs ----------------------------------------------------
static ls_status read_dim(ls_onnx_reader *r, const ls_proto_field *field,
                          void *out) {
  (void)r;
  if (field->number == DIM_VALUE && field->type == LS_PROTO_VARINT)
    *(int64_t *)out = (int64_t)field->value;
  return ls_ok();
}

static ls_status read_shape(ls_onnx_reader *r, const ls_proto_field *field,
                            void *out) {
  ls_shape *shape = out;
  int64_t size = LS_UNKNOWN_DIM;
  if (field->number != SHAPE_DIM) return ls_ok();
  LS_RETURN_IF_ERROR(ls_onnx_read_message(r, field, read_dim, &size));
  if (shape->rank >= LS_MAX_RANK || size > INT32_MAX)
    return ls_unimplemented("'%s': a value of more than %d dimensions, or of "
                            "2^31 elements along one",
                            r->file->path, LS_MAX_RANK);
  // Some exporters write 0 or -1 for a size that varies.
  shape->dim[shape->rank++] = size > 0 ? size : LS_UNKNOWN_DIM;
  return ls_ok();
}

static ls_status read_tensor_type(ls_onnx_reader *r,
                                  const ls_proto_field *field, void *out) {
  ls_type *type = out;
  if (field->number == TYPE_ELEMENT)
    type->dtype = ls_onnx_dtype_of((int64_t)field->value);
  if (field->number != TYPE_SHAPE) return ls_ok();
  type->shape = LS_SCALAR;
  return ls_onnx_read_message(r, field, read_shape, &type->shape);
}

static ls_status read_type(ls_onnx_reader *r, const ls_proto_field *field,
                           void *out) {
  if (field->number != TYPE_TENSOR) return ls_ok();
  return ls_onnx_read_message(r, field, read_tensor_type, out);
}

static ls_status read_port_field(ls_onnx_reader *r, const ls_proto_field *field,
                                 void *out) {
  ls_onnx_port *port = out;
  if (field->number == VALUE_NAME)
    return read_text_field(r, field, &port->name);
  if (field->number != VALUE_TYPE) return ls_ok();
  return ls_onnx_read_message(r, field, read_type, &port->type);
}

static ls_status read_port(ls_onnx_reader *r, const ls_proto_field *field,
                           ls_onnx_port **ports, size_t *count) {
  LS_ONNX_PUSH_OR_RETURN(r, ls_onnx_port, port, *ports, *count);
  port->name = "";
  port->type.shape = LS_SHAPE_UNKNOWN;
  LS_RETURN_IF_ERROR(ls_onnx_read_message(r, field, read_port_field, port));
  return intern_value(r, port->name, &port->value);
}

static ls_status read_initializer(ls_onnx_reader *r,
                                  const ls_proto_field *field) {
  const char *name = "";
  LS_ONNX_PUSH_OR_RETURN(r, ls_onnx_initializer, made, r->file->initializers,
                         r->file->num_initializers);
  LS_RETURN_IF_ERROR(ls_onnx_read_tensor(r, field, &name, &made->array));
  return intern_value(r, name, &made->value);
}

// ---- The graph -------------------------------------------------------------
static ls_status read_graph_field(ls_onnx_reader *r,
                                  const ls_proto_field *field, void *out) {
  ls_onnx_file *file = out;
  switch (field->number) {
  case GRAPH_NODE:
    return read_node(r, field);
  case GRAPH_INITIALIZER:
    return read_initializer(r, field);
  case GRAPH_INPUT:
    return read_port(r, field, &file->inputs, &file->num_inputs);
  case GRAPH_OUTPUT:
    return read_port(r, field, &file->outputs, &file->num_outputs);
  case GRAPH_VALUE:
    return read_port(r, field, &file->between, &file->num_between);
  default:
    return ls_ok();
  }
}

typedef struct opset_parts {
  const char *domain;
  int64_t version;
} opset_parts;

static ls_status read_opset(ls_onnx_reader *r, const ls_proto_field *field,
                            void *out) {
  opset_parts *opset = out;
  if (field->number == OPSET_DOMAIN)
    return read_text_field(r, field, &opset->domain);
  if (field->number == OPSET_VERSION) opset->version = (int64_t)field->value;
  return ls_ok();
}

static ls_status read_model_field(ls_onnx_reader *r,
                                  const ls_proto_field *field, void *out) {
  bool *has_graph = out;
  opset_parts opset = {.domain = ""};
  if (field->number == MODEL_GRAPH) {
    *has_graph = true;
    return ls_onnx_read_message(r, field, read_graph_field, r->file);
  }
  if (field->number != MODEL_OPSET) return ls_ok();
  LS_RETURN_IF_ERROR(ls_onnx_read_message(r, field, read_opset, &opset));
  if (opset.domain[0] == '\0' || strcmp(opset.domain, "ai.onnx") == 0)
    r->file->opset = opset.version;
  return ls_ok();
}

// ---- Checks ----------------------------------------------------------------
// Drops inputs that have an initializer: it is their default.
static void drop_default_inputs(ls_onnx_file *file, const bool *is_made) {
  size_t count = 0;
  for (size_t i = 0; i < file->num_inputs; ++i)
    if (!is_made[file->inputs[i].value])
      file->inputs[count++] = file->inputs[i];
  file->num_inputs = count;
}

static ls_status mark_made(const ls_onnx_file *file, bool *is_made,
                           uint32_t value) {
  if (value != 0 && is_made[value])
    return ls_invalid_argument("'%s' is damaged: '%s' is made twice",
                               file->path, file->names[value]);
  is_made[value] = true;
  return ls_ok();
}

static ls_status check_order(ls_onnx_reader *r, bool *is_made) {
  const ls_onnx_file *file = r->file;
  for (size_t i = 0; i < file->num_nodes; ++i) {
    const ls_onnx_node *node = &file->nodes[i];
    for (size_t k = 0; k < node->num_inputs; ++k)
      if (!is_made[node->inputs[k]])
        return ls_invalid_argument(
            "'%s' is damaged: node '%s' (%s) takes '%s', which no input, "
            "initializer or earlier node gives",
            file->path, node->name, node->type, file->names[node->inputs[k]]);
    for (size_t k = 0; k < node->num_outputs; ++k)
      LS_RETURN_IF_ERROR(mark_made(file, is_made, node->outputs[k]));
  }
  for (size_t i = 0; i < file->num_outputs; ++i)
    if (!is_made[file->outputs[i].value])
      return ls_invalid_argument("'%s' is damaged: nothing makes output '%s'",
                                 file->path, file->outputs[i].name);
  return ls_ok();
}

static ls_status check_graph(ls_onnx_reader *r, bool has_graph) {
  ls_onnx_file *file = r->file;
  ls_map_item item;
  if (!has_graph || file->opset == 0)
    return ls_onnx_damaged(r, "it has no graph, or no version of its ops");
  if (file->opset < OLDEST_OPSET || file->opset > NEWEST_OPSET)
    return ls_unimplemented("'%s': ops of version %lld (opset), only %d to %d",
                            file->path, (long long)file->opset, OLDEST_OPSET,
                            NEWEST_OPSET);
  LS_ARENA_ARRAY_OR_RETURN(&file->memory, bool, is_made, file->num_values);
  LS_ARENA_ARRAY_OR_RETURN(&file->memory, const char *, names,
                           file->num_values);
  names[0] = "";
  for (size_t at = 0; ls_map_next(&r->values, &at, &item);) {
    const char *name = ls_arena_string(&file->memory, item.key);
    LS_RETURN_IF_NO_MEMORY(name);
    names[(uintptr_t)item.value] = name;
  }
  file->names = names;
  for (size_t i = 0; i < file->num_initializers; ++i)
    LS_RETURN_IF_ERROR(mark_made(file, is_made, file->initializers[i].value));
  is_made[0] = false;
  drop_default_inputs(file, is_made);
  for (size_t i = 0; i < file->num_inputs; ++i) {
    if (file->inputs[i].value == 0 || file->inputs[i].type.dtype == 0)
      return ls_unimplemented("'%s': input '%s', which is no tensor of numbers",
                              file->path, file->inputs[i].name);
    LS_RETURN_IF_ERROR(mark_made(file, is_made, file->inputs[i].value));
  }
  is_made[0] = true;
  if (file->num_outputs == 0) return ls_onnx_damaged(r, "it has no output");
  return check_order(r, is_made);
}

ls_status ls_onnx_file_decode(ls_runtime *runtime, const char *path,
                              const void *data, size_t size,
                              ls_onnx_file *out_file) {
  *out_file = (ls_onnx_file){.num_values = 1};
  ls_arena_init(&out_file->memory, ls_runtime_allocator(runtime));
  out_file->path = ls_arena_string(&out_file->memory, path);
  LS_RETURN_IF_NO_MEMORY(out_file->path);
  if (size > 4 && memcmp(data, "ML\xEFR", 4) == 0)
    return ls_unimplemented(
        "'%s' is MLIR's bytecode: write it as text, in JAX with "
        "jax.jit(f).lower(x).as_text(), else with stablehlo-opt",
        path);
  if (ls_hlo_is_path(path)) return ls_hlo_decode(runtime, data, size, out_file);
  ls_onnx_reader r = {.runtime = runtime, .file = out_file};
  bool has_graph = false;
  ls_map_init(&r.values, out_file->memory.allocator);
  const ls_proto_field all = {
      .type = LS_PROTO_BYTES, .value = size, .at = data};
  ls_status status =
      ls_onnx_read_message(&r, &all, read_model_field, &has_graph);
  if (ls_status_is_ok(status)) status = check_graph(&r, has_graph);
  ls_map_deinit(&r.values);
  return status;
}

ls_status ls_onnx_file_open(ls_runtime *runtime, const char *path,
                            ls_onnx_file *out_file) {
  const ls_file_system *files = ls_runtime_files(runtime);
  *out_file = (ls_onnx_file){0};
  LS_OWN_MEMORY(ls_runtime_allocator(runtime), char, data) = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(files->read(files->user, path, INT32_MAX,
                                 ls_runtime_allocator(runtime), &data, &size));
  return ls_onnx_file_decode(runtime, path, data, size, out_file);
}

void ls_onnx_file_deinit(ls_onnx_file *file) {
  for (size_t i = 0; i < file->num_arrays; ++i)
    ls_array_release(file->arrays[i]);
  ls_arena_deinit(&file->memory);
  *file = (ls_onnx_file){0};
}
