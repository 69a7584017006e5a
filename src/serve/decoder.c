// SPDX-License-Identifier: Apache-2.0
//
// Logits of a language model, token by token.
//
// A step computes one token from ops that treat tokens alike: they are copied
// with operands of one token. A value that differs by position, such as learned
// positions, is read at the token's. Causal attention of one token needs the
// keys and values of those before, which variables keep. Keys of positions that
// are not filled must have no weight; as the kernel has no mask, each head gets
// one more column: MASK in the query, and -MASK in such keys, 0 in others. A
// weight is then exactly 0, or its score exactly that without the column, so
// that a step's logits have the bits of the whole window's.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "graph/copy.h"
#include "graph/gather/gather.h"
#include "graph/own.h"
#include "graph/trial.h"
#include "graph/variables/variable.h"
#include "serve/serving.h"

#include <math.h>

static const double MASK = 6e4;   // Finite in every type of floats.
static const double LEAST = 1e4;  // Scores that are so much less count as 0.

struct ls_decoder {
  ls_arena memory;
  ls_graph *graph;
  ls_session *session;
  ls_tensor tokens, logits;          // The model's: of whole windows.
  ls_tensor token, position, count;  // Placeholders of a step, and of a window.
  ls_tensor first, next;             // Logits [1, 1, classes] of a token.
  ls_variable **caches;              // Keys and values. Owned.
  size_t num_caches;
  bool is_incremental;
  // Arrays of these placeholders, and results.
  ls_array *window, *one, *number;
  ls_nest whole, row;
  int64_t length, filled;  // Tokens of a window, and known ones.
};

// ---- A step ----------------------------------------------------------------
typedef struct stepping {
  ls_decoder *self;
  ls_arena *memory;
  bool *varies;       // By position of ops: true if tokens differ.
  ls_tensor *values;  // By position: the values of one token.
  // Ops that set the caches: from a window, by a step.
  ls_op *writes, *updates;
} stepping;

static ls_status refuse_op(const stepping *s, const ls_node *node) {
  return ls_unimplemented("logits token by token after %s '%s'",
                          ls_node_info(node)->name,
                          ls_node_name(s->self->graph, (ls_node *)node));
}

static bool is_varying(const stepping *s, uint64_t ref) {
  return s->varies[ls_graph_position(s->self->graph, ls_ref_id(ref))];
}

// Returns a value of one token, or one that all tokens have in common.
static ls_tensor value_of(const stepping *s, uint64_t ref) {
  ls_graph *graph = s->self->graph;
  return is_varying(s, ref)
             ? s->values[ls_graph_position(graph, ls_ref_id(ref))]
             : (ls_tensor){graph, ref};
}

static ls_shape shape_of(const stepping *s, uint64_t ref) {
  return ls_graph_type(s->self->graph, ref).shape;
}

// Finds an operand of an elementwise op. Tokens are dimension 1 of its result.
static ls_status align_operand(const stepping *s, const ls_node *node,
                               uint32_t index, ls_tensor *out) {
  const uint64_t ref = node->inputs[index];
  const ls_shape shape = shape_of(s, ref);
  const int rank = node->outputs[0].shape.rank;
  const int axis = 1 - (rank - shape.rank);
  *out = value_of(s, ref);
  if (shape.rank < 0 || (is_varying(s, ref) && axis != 1))
    return refuse_op(s, node);
  if (is_varying(s, ref) || axis < 0 || shape.dim[axis] == 1) return ls_ok();
  if (shape.dim[axis] != s->self->length) return refuse_op(s, node);
  *out = ls_gather(*out, ls_reshape(s->self->position, LS_SHAPE(1)), axis);
  return ls_ok();
}

// Returns true if an op computes each token alone, from its first operand, or
// from all.
static bool is_by_token(const stepping *s, const ls_node *node) {
  const bool first = is_varying(s, node->inputs[0]);
  const int rank = shape_of(s, node->inputs[0]).rank;
  bool others = false;
  for (uint32_t i = 1; i < node->num_inputs; ++i)
    others |= is_varying(s, node->inputs[i]);
  switch (node->type) {
  case LS_OP_GATHER:
    return !first && others && ls_node_int(node, LS_ATTR_ID_AXIS) == 0;
  case LS_OP_MATMUL:
  case LS_OP_DENSE:
    return first && rank == 3 && !others &&
           shape_of(s, node->inputs[1]).rank == 2 &&
           (node->type == LS_OP_DENSE ||
            ls_node_int(node, LS_ATTR_ID_TRANSPOSE_A) == 0);
  default:
    break;
  }
  const unsigned rows = ls_node_info(node)->traits & LS_OP_ALL_ROWS;
  return first && rank >= 3 && !others &&
         (rows == LS_OP_LINES_OF_FIRST ||
          (rows == LS_OP_LINES && node->num_inputs == 1));
}

// ---- Attention -------------------------------------------------------------
// Adds a column to each head of queries or keys: [1, tokens, heads * depth].
static ls_tensor widen_heads(ls_tensor x, int64_t tokens, int64_t heads,
                             ls_tensor column) {
  const int64_t depth = ls_tensor_shape(x).dim[2] / heads;
  const ls_tensor parts[] = {
      ls_reshape(x, LS_SHAPE(1, tokens, heads, depth)),
      ls_broadcast(ls_convert(column, ls_tensor_dtype(x)),
                   LS_SHAPE(1, tokens, heads, 1))};
  return ls_reshape(ls_concatenate(parts, 2, 3),
                    LS_SHAPE(1, tokens, heads * (depth + 1)));
}

// Keeps a value of all tokens: sets all for a window, and a row for a step.
// Returns it after the step.
static ls_status add_cache(stepping *s, ls_tensor window, ls_tensor row,
                           ls_tensor *out) {
  ls_decoder *self = s->self;
  const int64_t width = ls_tensor_shape(row).dim[2];
  ls_variable **cache = &self->caches[self->num_caches];
  LS_RETURN_IF_ERROR(ls_variable_create(
      &(ls_variable_options){.name = "cache",
                             .dtype = ls_tensor_dtype(row),
                             .shape = LS_SHAPE(1, self->length, width),
                             .trainable = LS_FLAG_OFF,
                             .collections = &(const char *){NULL}},
      cache));
  const ls_tensor zero = ls_scalar_i64(LS_DTYPE_I64, 0);
  const ls_tensor starts[] = {zero, self->position, zero};
  window = ls_reshape(window, LS_SHAPE(1, self->length, width));
  *out = ls_dynamic_update_slice(ls_variable_read(*cache), row, starts);
  s->writes[self->num_caches] =
      ls_tensor_op(ls_variable_assign(*cache, window));
  s->updates[self->num_caches] = ls_tensor_op(ls_variable_assign(*cache, *out));
  ++self->num_caches;
  return ls_ok();
}

// Finds q, k and v, as operands or side by side in one.
static void split_operands(const ls_tensor *operands, uint32_t count,
                           ls_tensor out[3]) {
  const int64_t width = ls_tensor_shape(operands[0]).dim[2] / 3;
  for (int i = 0; i < 3; ++i)
    out[i] = count == 3
                 ? operands[i]
                 : ls_slice_axis(operands[0], 2, i * width, (i + 1) * width);
}

static ls_status step_attention(stepping *s, const ls_node *node,
                                ls_tensor *out) {
  const ls_decoder *self = s->self;
  const int64_t heads = ls_node_int(node, LS_ATTR_ID_NUM_HEADS);
  const ls_attr *given = ls_node_attr(node, LS_ATTR_ID_SCALE);
  ls_tensor all[3] = {{0}}, one[3] = {{0}}, step[3], window[3], k, v;
  for (uint32_t i = 0; i < node->num_inputs; ++i) {
    if (ls_node_int(node, LS_ATTR_ID_CAUSAL) == 0 ||
        !is_varying(s, node->inputs[i]) ||
        shape_of(s, node->inputs[i]).dim[2] < 1)
      return refuse_op(s, node);
    all[i] = (ls_tensor){self->graph, node->inputs[i]};
    one[i] = value_of(s, node->inputs[i]);
  }
  split_operands(one, node->num_inputs, step);
  split_operands(all, node->num_inputs, window);
  const int64_t depth = ls_tensor_shape(step[0]).dim[2] / heads;
  const double scale = given != NULL ? given->as.f : 1 / sqrt((double)depth);
  if (!(scale * MASK * MASK > LEAST)) return refuse_op(s, node);
  const ls_tensor is_filled = ls_less(
      ls_iota(LS_DTYPE_I64, LS_SHAPE(1, self->length, 1, 1), 1), self->count);
  const ls_tensor none = ls_scalar(LS_DTYPE_F32, 0);
  const ls_tensor hidden =
      ls_select(is_filled, none, ls_scalar(LS_DTYPE_F32, -MASK));
  const ls_tensor own = widen_heads(step[1], 1, heads, none);
  LS_RETURN_IF_ERROR(add_cache(
      s, widen_heads(window[1], self->length, heads, hidden), own, &k));
  LS_RETURN_IF_ERROR(add_cache(s, window[2], step[2], &v));
  const ls_tensor q =
      widen_heads(step[0], 1, heads, ls_scalar(LS_DTYPE_F32, MASK));
  *out = ls_attention(
      q, k, v, &(ls_attention_options){.num_heads = heads, .scale = scale});
  return ls_ok();
}

// ---- Ops -------------------------------------------------------------------
static ls_status step_op(stepping *s, const ls_node *node, ls_tensor *out) {
  const unsigned traits = ls_node_info(node)->traits;
  if (node->type == LS_OP_CUSTOM_GRADIENT) {
    const int64_t first = ls_node_int(node, LS_ATTR_ID_NUM_INPUTS);
    *out = value_of(s, node->inputs[first]);
    return ls_ok();
  }
  if (node->type == LS_OP_ATTENTION) return step_attention(s, node, out);
  LS_ARENA_ARRAY_OR_RETURN(s->memory, ls_tensor, operands, node->num_inputs);
  if ((traits & LS_OP_ELEMENTWISE) != 0) {
    for (uint32_t i = 0; i < node->num_inputs; ++i)
      LS_RETURN_IF_ERROR(align_operand(s, node, i, &operands[i]));
  } else {
    if (!is_by_token(s, node)) return refuse_op(s, node);
    for (uint32_t i = 0; i < node->num_inputs; ++i)
      operands[i] = value_of(s, node->inputs[i]);
  }
  ls_op copy = {0};
  LS_RETURN_IF_ERROR(
      ls_graph_copy_op(s->self->graph, node, operands, NULL, 0, &copy));
  *out = ls_op_output(copy, 0);
  return ls_ok();
}

// Computes a token's value of an op, if it depends on tokens.
static ls_status step_node(stepping *s, size_t position) {
  const ls_node *node = s->self->graph->nodes[position];
  const unsigned never = LS_OP_EFFECT | LS_OP_RANDOM | LS_OP_VARYING |
                         LS_OP_ON_HOST | LS_OP_LINEAR;
  for (uint32_t i = 0; i < node->num_inputs; ++i)
    s->varies[position] |= is_varying(s, node->inputs[i]);
  if ((ls_node_info(node)->traits & never) != 0) return refuse_op(s, node);
  if (!s->varies[position]) return ls_ok();
  const ls_shape shape = node->outputs[0].shape;
  if (node->num_outputs != 1 || node->num_regions > 0 || shape.rank < 2 ||
      shape.dim[1] != s->self->length)
    return refuse_op(s, node);
  return step_op(s, node, &s->values[position]);
}

static ls_status find_needed(const ls_decoder *self, ls_arena *memory,
                             const bool **out) {
  return ls_graph_find_needed(&(ls_gather_request){.graph = self->graph,
                                                   .fetches = &self->logits.ref,
                                                   .num_fetches = 1,
                                                   .feeds = &self->tokens.ref,
                                                   .num_feeds = 1},
                              memory, out);
}

// Returns a value once some ops have run.
static ls_tensor after_ops(ls_tensor value, const ls_op *ops, size_t count) {
  LS_CONTROL_SCOPE(ops, count);
  return ls_identity(value);
}

static ls_status build_step(ls_decoder *self, ls_arena *memory) {
  const size_t count = self->graph->num_nodes;
  const uint64_t tokens = ls_ref_id(self->tokens.ref);
  const bool *needed = NULL;
  LS_RETURN_IF_ERROR(find_needed(self, memory, &needed));
  LS_ARENA_ARRAY_OR_RETURN(memory, bool, varies, count);
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_tensor, values, count);
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_op, writes, 2 * count);
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_op, updates, 2 * count);
  stepping s = {self, memory, varies, values, writes, updates};
  LS_ARENA_SET_OR_RETURN(&self->memory, ls_variable *, self->caches, 2 * count);
  const size_t at = ls_graph_position(self->graph, tokens);
  varies[at] = true;
  values[at] = self->token;
  for (size_t i = 0; i < count; ++i)
    if (needed[i] && i != at) LS_RETURN_IF_ERROR(step_node(&s, i));
  if (!is_varying(&s, self->logits.ref))
    return ls_unimplemented("logits that depend on no tokens");
  self->first = after_ops(self->first, writes, self->num_caches);
  self->next =
      after_ops(value_of(&s, self->logits.ref), updates, self->num_caches);
  return ls_ok();
}

// Builds what tokens need: the logits of a window's last one and, if all ops
// allow it, a step.
static ls_status build_all(ls_decoder *self) {
  LS_OWN(ls_arena, memory) = {.allocator = self->memory.allocator};
  LS_NAME_SCOPE("decoder");
  self->token = ls_placeholder(LS_DTYPE_I32, LS_SHAPE(1, 1), "token");
  self->position = ls_placeholder(LS_DTYPE_I64, LS_SCALAR, "position");
  self->count = ls_placeholder(LS_DTYPE_I64, LS_SCALAR, "count");
  const ls_tensor last = ls_sub(self->count, ls_scalar_i64(LS_DTYPE_I64, 1));
  self->first = ls_gather(self->logits, ls_reshape(last, LS_SHAPE(1)), 1);
  const ls_tensor alone = self->first;
  LS_OWN(ls_status, status) = LS_TRIAL(build_step(self, &memory));
  self->is_incremental = ls_status_is_ok(status);
  if (self->is_incremental) return ls_ok();
  self->first = alone;
  return ls_status_code(status) == LS_UNIMPLEMENTED ? ls_ok()
                                                    : ls_give(&status);
}

// ---- Making ----------------------------------------------------------------
static ls_status check_types(ls_tensor tokens, ls_tensor logits) {
  const ls_shape in = ls_tensor_shape(tokens), out = ls_tensor_shape(logits);
  const bool fits = ls_tensor_dtype(tokens) == LS_DTYPE_I32 && in.rank == 2 &&
                    in.dim[0] < 2 && in.dim[0] != 0 && in.dim[1] > 0 &&
                    ls_dtype_is_float(ls_tensor_dtype(logits)) &&
                    out.rank == 3 && out.dim[1] == in.dim[1] && out.dim[2] > 0;
  return fits ? ls_ok()
              : ls_invalid_argument(
                    "a decoder from %s to %s: it takes tokens i32[?, N] and "
                    "has logits [?, N, classes] of the token after each",
                    LS_SHAPE_TEXT(ls_tensor_dtype(tokens), in),
                    LS_SHAPE_TEXT(ls_tensor_dtype(logits), out));
}

static ls_status fill_decoder(ls_decoder *self) {
  LS_RETURN_IF_ERROR(check_types(self->tokens, self->logits));
  self->length = ls_tensor_shape(self->tokens).dim[1];
  LS_RETURN_IF_ERROR(
      ls_array_create(LS_DTYPE_I32, LS_SHAPE(1, self->length), &self->window));
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_I32, LS_SHAPE(1, 1), &self->one));
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_I64, LS_SCALAR, &self->number));
  return build_all(self);
}

void ls_decoder_destroy(ls_decoder *decoder) {
  if (decoder == NULL) return;
  for (size_t i = 0; i < decoder->num_caches; ++i)
    ls_variable_release(decoder->caches[i]);
  ls_nest_release(decoder->whole);
  ls_nest_release(decoder->row);
  ls_array_release(decoder->window);
  ls_array_release(decoder->one);
  ls_array_release(decoder->number);
  ls_allocator *allocator = decoder->memory.allocator;
  ls_arena_deinit(&decoder->memory);
  ls_release(allocator, decoder);
}
LS_OWNED_POINTER(ls_decoder, ls_decoder_destroy)

ls_status ls_decoder_create(ls_session *session, ls_tensor tokens,
                            ls_tensor logits, ls_decoder **out_decoder) {
  LS_REQUIRE_OUT(out_decoder, session);
  if (ls_tensor_is_failed(tokens) || ls_tensor_is_failed(logits))
    return ls_invalid_argument("a decoder of failed tensors");
  ls_allocator *allocator = ls_current_allocator();
  LS_NEW_OR_RETURN(allocator, ls_decoder, made);
  ls_arena_init(&made->memory, allocator);
  LS_OWN(ls_decoder, self) = made;
  self->graph = ls_graph_resolve(tokens.graph);
  self->session = session;
  self->tokens = tokens;
  self->logits = logits;
  LS_GRAPH_SCOPE(self->graph);
  LS_RETURN_IF_ERROR(LS_TRIAL(fill_decoder(self)));
  *out_decoder = ls_give(&self);
  return ls_ok();
}

bool ls_decoder_is_incremental(const ls_decoder *decoder) {
  return decoder->is_incremental;
}

// ---- Running ---------------------------------------------------------------
// Runs a fetch. A failure ends the text, since caches may lack its last token.
static ls_status run_fetch(ls_decoder *self, ls_tensor fetch,
                           const ls_feed *feeds, size_t num_feeds,
                           ls_nest *results, const ls_array **out_logits) {
  const int64_t filled = self->filled;
  self->filled = 0;
  LS_RETURN_IF_ERROR(
      ls_session_run(self->session, ls_leaf(fetch), feeds, num_feeds, results));
  *out_logits = ls_nest_as_array(*results);
  LS_RETURN_IF_ERROR(ls_array_wait(*out_logits));
  self->filled = filled;
  return ls_ok();
}

static int32_t *window_of(ls_decoder *self) {
  return ls_array_mutable_data(self->window);
}

static void set_number(ls_decoder *self, int64_t number) {
  *(int64_t *)ls_array_mutable_data(self->number) = number;
}

ls_status ls_decoder_run(ls_decoder *decoder, const int32_t *tokens,
                         const ls_array **out_logits) {
  LS_REQUIRE_OUT(out_logits, decoder, tokens);
  decoder->filled = 0;
  memcpy(window_of(decoder), tokens, (size_t)decoder->length * sizeof(*tokens));
  return run_fetch(decoder, decoder->logits,
                   &(ls_feed){decoder->tokens, decoder->window}, 1,
                   &decoder->whole, out_logits);
}

// Computes the logits of the window's last token from all of it.
static ls_status run_window(ls_decoder *self, const ls_array **out_logits) {
  const ls_feed feeds[] = {{self->tokens, self->window},
                           {self->count, self->number}};
  set_number(self, self->filled);
  return run_fetch(self, self->first, feeds, 2, &self->row, out_logits);
}

ls_status ls_decoder_begin(ls_decoder *decoder, const int32_t *tokens,
                           int64_t count, const ls_array **out_logits) {
  LS_REQUIRE_OUT(out_logits, decoder, tokens);
  if (count < 1)
    return ls_invalid_argument("%lld tokens: a text begins with one or more",
                               (long long)count);
  const int64_t length = decoder->length;
  const int64_t filled = count < length ? count : length;
  int32_t *window = window_of(decoder);
  memcpy(window, tokens + (count - filled), (size_t)filled * sizeof(*window));
  memset(window + filled, 0, (size_t)(length - filled) * sizeof(*window));
  decoder->filled = filled;
  return run_window(decoder, out_logits);
}

ls_status ls_decoder_next(ls_decoder *decoder, int32_t token,
                          const ls_array **out_logits) {
  LS_REQUIRE_OUT(out_logits, decoder);
  int32_t *window = window_of(decoder);
  if (decoder->filled == 0)
    return LS_STATUS(LS_FAILED_PRECONDITION,
                     "a decoder's text has not begun: call ls_decoder_begin");
  const bool is_full = decoder->filled == decoder->length;
  if (is_full)
    memmove(window, window + 1, (size_t)--decoder->filled * sizeof(*window));
  window[decoder->filled++] = token;
  if (is_full || !decoder->is_incremental)
    return run_window(decoder, out_logits);
  *(int32_t *)ls_array_mutable_data(decoder->one) = token;
  set_number(decoder, decoder->filled - 1);
  const ls_feed feeds[] = {{decoder->token, decoder->one},
                           {decoder->position, decoder->number}};
  return run_fetch(decoder, decoder->next, feeds, 2, &decoder->row, out_logits);
}
