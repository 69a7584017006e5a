// SPDX-License-Identifier: Apache-2.0
#include "serve/lowered.h"

#include "base/runtime_internal.h"

// Batch sizes to compare: large primes, which no model's own size equals by
// chance. The last is far from the others, so that nonlinear sizes differ from
// the line there.
static const int64_t any_batch[LS_LOWERED_SIZES] = {10007, 10009, 10037,
                                                    1000003};

// ---- Lowering --------------------------------------------------------------
static bool has_value(const struct ls_store *store,
                      const ls_variable *variable) {
  (void)store, (void)variable;
  return true;
}

// A back end that changes nothing and computes nothing.
static const struct ls_backend_vtable no_backend = {.name = "export"};

static ls_status feed_type(const ls_serve_value *input, int64_t batch,
                           bool *out_unknown, ls_type *out) {
  *out = ls_graph_type(input->tensor.graph, input->tensor.ref);
  bool fits = out->shape.rank != LS_UNKNOWN_RANK;
  for (int32_t i = 0; fits && i < out->shape.rank; ++i) {
    if (out->shape.dim[i] >= 0) continue;
    fits = i == 0;
    *out_unknown = true;
    out->shape.dim[0] = batch;
  }
  const ls_type built = ls_graph_type(input->tensor.graph, input->tensor.ref);
  return fits ? ls_ok()
              : ls_unimplemented("input '%s' is %s: only the batch size, the "
                                 "first dimension, may be unknown",
                                 input->name,
                                 LS_SHAPE_TEXT(built.dtype, built.shape));
}

static ls_status lower_one(const ls_lower_request *request, ls_arena *memory,
                           size_t index, ls_lowered_signature *out) {
  const ls_serve_signature *s = out->signature;
  ls_backend backend = {.vtable = &no_backend,
                        .runtime = request->graph->runtime};
  ls_lower_request own = *request;
  ls_type *types = ls_arena_new_array(memory, ls_type, s->num_inputs + 1);
  own.outputs = ls_arena_new_array(memory, uint32_t, s->num_outputs + 1);
  if (types == NULL || own.outputs == NULL) return ls_out_of_memory();
  bool unknown = false;
  for (size_t i = 0; i < s->num_inputs; ++i)
    LS_RETURN_IF_ERROR(
        feed_type(&s->inputs[i], out->batch[index], &unknown, &types[i]));
  own.feed_types = types;
  LS_RETURN_IF_ERROR(ls_lower(&backend, &own, &out->programs[index]));
  if (index == 0) out->outputs = own.outputs;
  if (!unknown) out->count = 1;
  return ls_ok();
}

static ls_status lower_all(ls_graph *graph, ls_arena *memory,
                           ls_lowered_signature *out) {
  const ls_serve_signature *s = out->signature;
  uint64_t *fetches = ls_arena_new_array(memory, uint64_t, s->num_outputs + 1);
  uint64_t *feeds = ls_arena_new_array(memory, uint64_t, s->num_inputs + 1);
  if (fetches == NULL || feeds == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < s->num_outputs; ++i)
    fetches[i] = s->outputs[i].tensor.ref;
  for (size_t i = 0; i < s->num_inputs; ++i)
    feeds[i] = s->inputs[i].tensor.ref;
  ls_lower_request request = {.graph = graph,
                              .fetches = fetches,
                              .num_fetches = s->num_outputs,
                              .feeds = feeds,
                              .num_feeds = s->num_inputs,
                              .variables = {.has_value = has_value}};
  LS_RETURN_IF_ERROR(ls_lower_gather(&request, memory, &out->gathered));
  for (size_t i = 0; i < out->count; ++i)
    LS_RETURN_IF_ERROR(lower_one(&request, memory, i, out));
  return ls_ok();
}

// ---- Comparing the programs ------------------------------------------------
static ls_status differs(const ls_lowered_signature *self, const ls_node *node,
                         const char *noun) {
  char text[LS_MAX_FULL_NAME], place[LS_MAX_FULL_NAME];
  return ls_unimplemented(
      "an export for any batch size of %s: its %s depends on the batch size "
      "other than by a factor%s",
      ls_emit_describe_op(ls_lowered_body(self), node, text, sizeof(text)),
      noun,
      ls_emit_describe_place(ls_lowered_body(self), node, place,
                             sizeof(place)));
}

// Finds the line through two sizes; returns false if the others are not on it.
static bool find_line(const ls_lowered_signature *self, const int64_t *sizes,
                      ls_dim *out) {
  const int64_t rise = sizes[1] - sizes[0];
  const int64_t run = self->batch[1] - self->batch[0];
  *out = (ls_dim){.scale = rise / run};
  out->offset = sizes[0] - out->scale * self->batch[0];
  bool lies = rise % run == 0;
  for (size_t p = 2; p < LS_LOWERED_SIZES; ++p)
    lies = lies && sizes[p] == out->scale * self->batch[p] + out->offset;
  return lies;
}

static bool same_array(const ls_array *a, const ls_array *b) {
  if (ls_array_dtype(a) != ls_array_dtype(b) ||
      !ls_shape_equal(ls_array_shape(a), ls_array_shape(b)))
    return false;
  if (ls_array_dtype(a) == LS_DTYPE_STRING) return false;
  return ls_array_size(a) == 0 ||
         memcmp(ls_array_data(a), ls_array_data(b), ls_array_size(a)) == 0;
}

static bool same_attr(const ls_lowered_signature *self,
                      const ls_attr *const *attr) {
  const ls_attr *a = attr[0];
  for (size_t p = 1; p < self->count; ++p) {
    const ls_attr *b = attr[p];
    if (b->kind != a->kind || b->id != a->id) return false;
    if (a->kind == LS_ATTR_INT && a->as.i != b->as.i) return false;
    if (a->kind == LS_ATTR_ARRAY && a->as.array != b->as.array &&
        !same_array(a->as.array, b->as.array))
      return false;
    if (a->kind == LS_ATTR_INTS && a->as.ints.count != b->as.ints.count)
      return false;
    if (a->kind == LS_ATTR_FLOAT &&
        memcmp(&a->as.f, &b->as.f, sizeof(a->as.f)) != 0)
      return false;
  }
  // Attributes with sizes, and limits of slices, follow from the result's
  // shape.
  if (a->kind != LS_ATTR_INTS || a->id == LS_ATTR_ID_LIMITS) return true;
  for (size_t i = 0; i < a->as.ints.count; ++i) {
    ls_dim line;
    int64_t numbers[LS_LOWERED_SIZES];
    for (size_t p = 0; p < LS_LOWERED_SIZES; ++p)
      numbers[p] = attr[p]->as.ints.items[i];
    if (!find_line(self, numbers, &line) || line.scale != 0) return false;
  }
  return true;
}

static ls_status compare_shapes(const ls_lowered_signature *self,
                                const ls_node *const *nodes, uint32_t output) {
  const int32_t rank = nodes[0]->outputs[output].shape.rank;
  for (size_t p = 1; p < LS_LOWERED_SIZES; ++p)
    if (nodes[p]->outputs[output].shape.rank != rank)
      return differs(self, nodes[0], "rank");
  for (int32_t i = 0; i < rank; ++i) {
    ls_dim line;
    int64_t sizes[LS_LOWERED_SIZES];
    for (size_t p = 0; p < LS_LOWERED_SIZES; ++p)
      sizes[p] = nodes[p]->outputs[output].shape.dim[i];
    if (!find_line(self, sizes, &line)) return differs(self, nodes[0], "size");
  }
  return ls_ok();
}

// Returns true for a slice that may end before its limit where the batch does:
// the probes are too large to tell.
static bool ends_with_batch(const ls_lowered_signature *self,
                            const ls_node *const *nodes) {
  const ls_node *a = nodes[0];
  if (a->num_inputs == 0 || ls_node_int(a, LS_ATTR_ID_CLAMP) == 0) return false;
  const ls_shape
      size = a->outputs[0].shape,
      other = nodes[1]->outputs[0].shape,
      from = ls_graph_type(self->programs[0]->body, a->inputs[0]).shape,
      to = ls_graph_type(self->programs[1]->body, nodes[1]->inputs[0]).shape;
  for (int32_t i = 0; i < size.rank; ++i)
    if (size.dim[i] == other.dim[i] && from.dim[i] != to.dim[i]) return true;
  return false;
}

static ls_status compare_node(const ls_lowered_signature *self, size_t place) {
  const ls_node *nodes[LS_LOWERED_SIZES];
  for (size_t p = 0; p < LS_LOWERED_SIZES; ++p)
    nodes[p] = self->programs[p]->body->nodes[place];
  const ls_node *a = nodes[0];
  for (size_t p = 1; p < self->count; ++p) {
    const ls_node *b = nodes[p];
    if (a->type != b->type || a->id != b->id ||
        a->num_inputs != b->num_inputs || a->num_outputs != b->num_outputs ||
        a->num_attrs != b->num_attrs)
      return differs(self, a, "form");
    for (uint32_t i = 0; i < a->num_inputs; ++i)
      if (a->inputs[i] != b->inputs[i]) return differs(self, a, "operands");
  }
  for (uint32_t i = 0; i < a->num_attrs; ++i) {
    const ls_attr *attrs[LS_LOWERED_SIZES];
    for (size_t p = 0; p < LS_LOWERED_SIZES; ++p)
      attrs[p] = &nodes[p]->attrs[i];
    if (!same_attr(self, attrs)) return differs(self, a, a->attrs[i].name);
  }
  for (uint32_t k = 0; k < a->num_outputs; ++k)
    LS_RETURN_IF_ERROR(compare_shapes(self, nodes, k));
  return ends_with_batch(self, nodes) ? differs(self, a, "end") : ls_ok();
}

static ls_status lowered_compare(const ls_lowered_signature *self) {
  if (self->count == 1) return ls_ok();
  const ls_graph *body = ls_lowered_body(self);
  for (size_t p = 1; p < self->count; ++p)
    if (self->programs[p]->body->num_nodes != body->num_nodes)
      return ls_unimplemented("an export of signature '%s' for any batch size: "
                              "its ops depend on it; give a batch size",
                              self->signature->key);
  for (size_t i = 0; i < body->num_nodes; ++i)
    LS_RETURN_IF_ERROR(compare_node(self, i));
  return ls_ok();
}

ls_status ls_lower_signature(ls_graph *graph,
                             const ls_serve_signature *signature, int64_t batch,
                             ls_arena *memory, ls_lowered_signature *out) {
  *out = (ls_lowered_signature){.signature = signature,
                                .count = batch > 0 ? 1 : LS_LOWERED_SIZES};
  for (size_t i = 0; i < LS_LOWERED_SIZES; ++i)
    out->batch[i] = batch > 0 ? batch : any_batch[i];
  LS_RETURN_IF_ERROR(lower_all(graph, memory, out));
  const ls_program *program = out->programs[0];
  for (size_t i = 0; i < program->num_uses; ++i)
    if (program->uses[i].written)
      return ls_unimplemented(
          "an export of signature '%s', which writes variable '%s'",
          signature->key,
          ((const ls_variable *)program->uses[i].variable)->name);
  return lowered_compare(out);
}

void ls_lowered_signature_deinit(ls_lowered_signature *self) {
  for (size_t i = 0; i < LS_LOWERED_SIZES; ++i)
    if (self->programs[i] != NULL) ls_object_release(self->programs[i]);
  ls_graph_free(self->gathered);
}

// ---- Sizes -----------------------------------------------------------------
static ls_dim dim_of(const ls_lowered_signature *self, const int64_t *sizes) {
  ls_dim line = {.offset = sizes[0]};
  if (self->count > 1) find_line(self, sizes, &line);
  return line;
}

static ls_batch_dims lowered_dims(const void *source, uint64_t ref) {
  const ls_lowered_signature *self = source;
  ls_shape shapes[LS_LOWERED_SIZES];
  for (size_t p = 0; p < LS_LOWERED_SIZES; ++p)
    shapes[p] =
        ls_graph_type(self->programs[p < self->count ? p : 0]->body, ref).shape;
  ls_batch_dims dims = {.rank = shapes[0].rank};
  for (int32_t i = 0; i < dims.rank; ++i) {
    int64_t sizes[LS_LOWERED_SIZES];
    for (size_t p = 0; p < LS_LOWERED_SIZES; ++p)
      sizes[p] = shapes[p].dim[i];
    dims.dim[i] = dim_of(self, sizes);
  }
  return dims;
}

ls_emit_source ls_lowered_source(const ls_lowered_signature *self) {
  return (ls_emit_source){ls_lowered_body(self), lowered_dims, self};
}
