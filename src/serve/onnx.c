// SPDX-License-Identifier: Apache-2.0
#include "serve/onnx.h"

#include "base/runtime_internal.h"
#include "graph/variables/variable.h"
#include "io/protobuf/onnx.h"
#include "io/protobuf/protobuf.h"

// Opset 17, which readers have supported since 2022.
enum { IR_VERSION = 8, OPSET = 17 };
enum { TYPE_IS_INT = 2, TYPE_IS_INTS = 7 };

// ---- Nodes -----------------------------------------------------------------
static const char *onnx_name_of(ls_onnx_writer *o, ls_emitted value) {
  ls_text_clear(&o->name);
  ls_emit_name(&o->e, value, &o->name);
  return ls_text_data(&o->name);
}

void ls_onnx_begin(ls_onnx_writer *o, const char *op) {
  o->began = ls_proto_begin(&o->nodes, GRAPH_NODE);
  ls_proto_string(&o->nodes, NODE_OP, op);
}

void ls_onnx_input(ls_onnx_writer *o, ls_emitted value) {
  ls_proto_string(&o->nodes, NODE_INPUT, onnx_name_of(o, value));
}

void ls_onnx_output(ls_onnx_writer *o, ls_emitted value) {
  ls_proto_string(&o->nodes, NODE_OUTPUT, onnx_name_of(o, value));
}

void ls_onnx_int(ls_onnx_writer *o, const char *name, int64_t value) {
  const size_t began = ls_proto_begin(&o->nodes, NODE_ATTRIBUTE);
  ls_proto_string(&o->nodes, ATTR_NAME, name);
  ls_proto_i64(&o->nodes, ATTR_INT, value);
  ls_proto_i64(&o->nodes, ATTR_TYPE, TYPE_IS_INT);
  ls_proto_end(&o->nodes, began);
}

void ls_onnx_ints(ls_onnx_writer *o, const char *name, const int64_t *values,
                  size_t count) {
  const size_t began = ls_proto_begin(&o->nodes, NODE_ATTRIBUTE);
  ls_proto_string(&o->nodes, ATTR_NAME, name);
  for (size_t i = 0; i < count; ++i)
    ls_proto_i64(&o->nodes, ATTR_INTS, values[i]);
  ls_proto_i64(&o->nodes, ATTR_TYPE, TYPE_IS_INTS);
  ls_proto_end(&o->nodes, began);
}

void ls_onnx_end(ls_onnx_writer *o) { ls_proto_end(&o->nodes, o->began); }

void ls_onnx_write_node(ls_onnx_writer *o, const char *op, const ls_emitted *in,
                        size_t count, ls_emitted out) {
  ls_onnx_begin(o, op);
  for (size_t i = 0; i < count; ++i)
    ls_onnx_input(o, in[i]);
  ls_onnx_output(o, out);
  ls_onnx_end(o);
}

// ---- Tensors ---------------------------------------------------------------
void ls_onnx_write_initializer(ls_onnx_writer *o, const char *name,
                               const ls_array *array) {
  const ls_shape shape = ls_array_shape(array);
  const int64_t dtype = ls_onnx_dtype(ls_array_dtype(array));
  if (dtype == 0) {
    ls_emit_refuse(&o->e, ls_dtype_name(ls_array_dtype(array)));
    return;
  }
  ls_text *out = &o->initializers;
  const size_t began = ls_proto_begin(out, GRAPH_INITIALIZER);
  for (int32_t i = 0; i < shape.rank; ++i)
    ls_proto_i64(out, TENSOR_DIM, shape.dim[i]);
  ls_proto_i64(out, TENSOR_TYPE, dtype);
  ls_proto_string(out, TENSOR_NAME, name);
  ls_proto_bytes(out, TENSOR_RAW, ls_array_data(array), ls_array_size(array));
  ls_proto_end(out, began);
}

ls_emitted ls_onnx_i64s(ls_onnx_writer *o, const int64_t *values,
                        size_t count) {
  LS_OWN(ls_array, array) = NULL;
  ls_emit_fail(&o->e,
               ls_array_create_copy(LS_DTYPE_I64, LS_SHAPE((int64_t)count),
                                    values, &array));
  const ls_batch_dims dims = {.rank = 1, .dim = {ls_dim_of((int64_t)count)}};
  const ls_emitted out = ls_emit_value(&o->e, LS_DTYPE_I64, dims, NULL);
  if (ls_status_is_ok(o->e.status))
    ls_onnx_write_initializer(o, onnx_name_of(o, out), array);
  return out;
}

static ls_emitted batch(ls_onnx_writer *o) {
  if (o->batch != 0) return o->batch;
  const ls_batch_dims one = {.rank = 1, .dim = {ls_dim_of(1)}};
  o->batch = ls_emit_value(&o->e, LS_DTYPE_I64, one, NULL);
  ls_onnx_begin(o, "Shape");
  ls_onnx_input(o, o->source);
  ls_onnx_output(o, o->batch);
  ls_onnx_int(o, "start", 0);
  ls_onnx_int(o, "end", 1);
  ls_onnx_end(o);
  return o->batch;
}

// Makes an i64[1] tensor of a size that depends on the batch.
static ls_emitted size_tensor(ls_onnx_writer *o, ls_dim size) {
  ls_emitted value = batch(o);
  if (size.scale != 1)
    value = ls_emit_2(&o->e, LS_OP_MUL, value, ls_onnx_i64s(o, &size.scale, 1));
  if (size.offset != 0)
    value =
        ls_emit_2(&o->e, LS_OP_ADD, value, ls_onnx_i64s(o, &size.offset, 1));
  return value;
}

ls_emitted ls_onnx_sizes(ls_onnx_writer *o, const ls_dim *sizes,
                         int32_t count) {
  int64_t known[LS_MAX_RANK];
  ls_emitted parts[LS_MAX_RANK];
  bool all_known = true;
  for (int32_t i = 0; i < count; ++i) {
    known[i] = sizes[i].offset;
    all_known &= sizes[i].scale == 0;
  }
  if (all_known) return ls_onnx_i64s(o, known, (size_t)count);
  for (int32_t i = 0; i < count; ++i)
    parts[i] = sizes[i].scale == 0 ? ls_onnx_i64s(o, &known[i], 1)
                                   : size_tensor(o, sizes[i]);
  const ls_batch_dims dims = {.rank = 1, .dim = {ls_dim_of(count)}};
  const ls_emitted out = ls_emit_value(&o->e, LS_DTYPE_I64, dims, NULL);
  ls_onnx_begin(o, "Concat");
  for (int32_t i = 0; i < count; ++i)
    ls_onnx_input(o, parts[i]);
  ls_onnx_output(o, out);
  ls_onnx_int(o, "axis", 0);
  ls_onnx_end(o);
  return out;
}

// ---- The graph -------------------------------------------------------------
static void write_type(ls_text *out, unsigned field, const char *name,
                       int64_t dtype, const ls_batch_dims *dims) {
  const size_t value = ls_proto_begin(out, field);
  ls_proto_string(out, VALUE_NAME, name);
  const size_t type = ls_proto_begin(out, VALUE_TYPE);
  const size_t tensor = ls_proto_begin(out, TYPE_TENSOR);
  ls_proto_i64(out, TYPE_ELEMENT, dtype);
  const size_t shape = ls_proto_begin(out, TYPE_SHAPE);
  for (int32_t i = 0; i < dims->rank; ++i) {
    const ls_dim d = dims->dim[i];
    const size_t dim = ls_proto_begin(out, SHAPE_DIM);
    if (d.scale == 0)
      ls_proto_i64(out, DIM_VALUE, d.offset);
    else if (d.scale == 1 && d.offset == 0)
      ls_proto_string(out, DIM_PARAM, "batch");
    ls_proto_end(out, dim);
  }
  ls_proto_end(out, shape);
  ls_proto_end(out, tensor);
  ls_proto_end(out, type);
  ls_proto_end(out, value);
}

// Inputs, outputs and values share one namespace: appends `end` to a name while
// it is taken.
static const char *own_name(ls_onnx_writer *o, const char *name,
                            const char *end) {
  if (name[0] == '%') ls_emit_refuse(&o->e, "a name that begins with '%'");
  while (name != NULL && ls_map_find_text(&o->names, name) != NULL)
    name = ls_arena_format(o->e.memory, "%s/%s", name, end);
  if (name != NULL && ls_map_insert_text(&o->names, name, o)) return name;
  ls_emit_fail(&o->e, ls_out_of_memory());
  return "";
}

static void onnx_declare(ls_onnx_writer *o, ls_array *const *values,
                         ls_text *graph) {
  const ls_program *program = o->program->programs[0];
  const ls_serve_signature *s = o->program->signature;
  for (size_t i = 0; i < s->num_inputs; ++i) {
    const uint64_t ref = program->body->parameters[i];
    const ls_batch_dims dims = ls_emit_source_dims(&o->e.base.source, ref);
    const ls_dtype dtype = ls_graph_type(program->body, ref).dtype;
    const char *name = own_name(o, s->inputs[i].name, "input");
    const ls_emitted value = ls_emit_value(&o->e, dtype, dims, name);
    if (dims.rank > 0 && dims.dim[0].scale == 1) o->source = value;
    if (ls_onnx_dtype(dtype) == 0) ls_emit_refuse(&o->e, ls_dtype_name(dtype));
    ls_emit_bind(&o->e, ref, value);
    write_type(graph, GRAPH_INPUT, name, ls_onnx_dtype(dtype), &dims);
  }
  o->outputs = ls_arena_new_array(o->e.memory, const char *, s->num_outputs);
  if (o->outputs == NULL) ls_emit_fail(&o->e, ls_out_of_memory());
  for (size_t i = 0; o->outputs != NULL && i < s->num_outputs; ++i)
    o->outputs[i] = own_name(o, s->outputs[i].name, "output");
  for (size_t i = 0; i < program->num_uses; ++i) {
    const uint64_t ref = program->body->parameters[program->num_inputs + i];
    const ls_variable *variable = (void *)program->uses[i].variable;
    const char *name = own_name(o, variable->name, "variable");
    ls_emit_bind(&o->e, ref,
                 ls_emit_value(&o->e, variable->type.dtype,
                               ls_emit_source_dims(&o->e.base.source, ref),
                               name));
    if (program->uses[i].read) ls_onnx_write_initializer(o, name, values[i]);
  }
}

static void give_outputs(ls_onnx_writer *o, ls_text *graph) {
  const ls_program *program = o->program->programs[0];
  const ls_serve_signature *s = o->program->signature;
  for (size_t i = 0; i < s->num_outputs; ++i) {
    const uint64_t ref = program->body->results[o->program->outputs[i]];
    const ls_emitted made = ls_emit_of(&o->e, ref);
    const ls_emitted_value value = *ls_emit_look(&o->e, made);
    const char *name = o->outputs[i];
    const ls_emitted out = ls_emit_value(&o->e, value.dtype, value.dims, name);
    if (!ls_status_is_ok(o->e.status)) return;
    ls_onnx_write_node(o, "Identity", &made, 1, out);
    write_type(graph, GRAPH_OUTPUT, name, ls_onnx_dtype(value.dtype),
               &value.dims);
  }
}

static ls_status write_model(ls_onnx_writer *o, ls_text *graph, ls_text *out) {
  LS_RETURN_IF_ERROR(ls_status_clone(o->e.status));
  LS_RETURN_IF_ERROR(ls_text_status(&o->nodes));
  LS_RETURN_IF_ERROR(ls_text_status(&o->initializers));
  const size_t bytes = o->initializers.size + o->nodes.size + graph->size;
  if (bytes > INT32_MAX - (1 << 20))
    return ls_unimplemented("ONNX of signature '%s', which has %zu bytes: a "
                            "file of one message has less than 2 GiB",
                            o->program->signature->key, bytes);
  ls_proto_i64(out, MODEL_IR, IR_VERSION);
  ls_proto_string(out, MODEL_PRODUCER, "lockstep");
  const size_t opset = ls_proto_begin(out, MODEL_OPSET);
  ls_proto_i64(out, OPSET_VERSION, OPSET);
  ls_proto_end(out, opset);
  const size_t began = ls_proto_begin(out, MODEL_GRAPH);
  ls_proto_string(out, GRAPH_NAME, o->program->signature->key);
  ls_text_append_bytes(out, ls_text_data(&o->nodes), o->nodes.size);
  ls_text_append_bytes(out, ls_text_data(&o->initializers),
                       o->initializers.size);
  ls_text_append_bytes(out, ls_text_data(graph), graph->size);
  ls_proto_end(out, began);
  return ls_text_status(out);
}

ls_status ls_write_onnx(const ls_lowered_signature *program,
                        ls_array *const *values, ls_arena *memory,
                        ls_text *out) {
  ls_onnx_writer o = {.program = program};
  ls_emitter_init(&o.e, &ls_onnx_language, ls_lowered_source(program), memory,
                  &o);
  ls_text graph = {.allocator = memory->allocator};
  ls_text_init(&o.nodes, memory->allocator);
  ls_text_init(&o.initializers, memory->allocator);
  ls_text_init(&o.name, memory->allocator);
  ls_map_init(&o.names, memory->allocator);
  if (ls_status_is_ok(o.e.status)) onnx_declare(&o, values, &graph);
  ls_status_free(ls_emit_program(&o.e));
  if (ls_status_is_ok(o.e.status)) give_outputs(&o, &graph);
  const ls_status status = write_model(&o, &graph, out);
  ls_text_deinit(&graph);
  ls_text_deinit(&o.nodes);
  ls_text_deinit(&o.initializers);
  ls_text_deinit(&o.name);
  ls_map_deinit(&o.names);
  ls_emitter_deinit(&o.e);
  return status;
}
