// SPDX-License-Identifier: Apache-2.0
//
// Translates lowered programs to other languages.
//
// A language (ONNX, StableHLO) is a table of basic operations: elementwise ops,
// shapes, reductions, products, convolutions, windows, lookups. Ops composed of
// these, such as attention or norms, are written once (compose.c), so that a
// language is small, and all languages compute the same.
#ifndef LS_EMIT_EMIT_H_
#define LS_EMIT_EMIT_H_

#include "base/memory/own.h"
#include "base/text.h"
#include "graph/trips.h"
#include "graph/window.h"
#include "lockstep/host.h"

// ---- Sources ----------------------------------------------------------------
// A size: scale * batch + offset. A graph whose shapes are static has offsets
// only.
typedef struct ls_dim {
  int64_t scale, offset;
} ls_dim;
typedef struct ls_batch_dims {
  int32_t rank;
  ls_dim dim[LS_MAX_RANK];
} ls_batch_dims;

// A lowered graph, and sizes in it that differ from its own: a program in terms
// of its batch size (serve/lowered.h).
typedef struct ls_emit_source {
  ls_graph *body;
  ls_batch_dims (*dims)(const void *self, uint64_t ref);  // NULL: its shapes.
  const void *self;
} ls_emit_source;

// Returns the sizes of a value.
ls_batch_dims ls_emit_static_dims(ls_shape shape);
ls_batch_dims ls_emit_source_dims(const ls_emit_source *source, uint64_t ref);
// Prints "op 'name' (type)" and " (at file:line)", as the user made the op, for
// messages.
const char *ls_emit_describe_op(ls_graph *body, const ls_node *node,
                                char *buffer, size_t size);
const char *ls_emit_describe_place(ls_graph *body, const ls_node *node,
                                   char *buffer, size_t size);

// ---- Values ----------------------------------------------------------------
// A value of the emitted program, from 1; 0: none, and the emitter's status is
// a failure.
typedef uint32_t ls_emitted;

typedef struct ls_emitted_value {
  ls_dtype dtype;
  ls_batch_dims dims;  // As the language has them.
  // True if dimension 0 lists the device's replicas (replicas.c).
  bool stacked;
  // Number + 1 of the device that has the value; 0: all have it.
  int32_t owner;
  ls_emitted origin;  // The value that the language wrote: this or another one.
  ls_emitted depth;   // A stack's number of elements (flow.c); 0: no stack.
  const struct ls_emitted_product *product;  // How it was made, or NULL.
  const char *name;  // NULL: the language's prefix and the origin's number.
} ls_emitted_value;

typedef struct ls_emitter ls_emitter;

// Values that enter or leave a region.
typedef struct ls_emitted_list {
  ls_emitted *items;
  size_t count;
} ls_emitted_list;

typedef struct ls_emit_flow {
  // A loop: begin, the condition's ops, next, the body's ops, end. Each region
  // has parameters of its own.
  void (*while_begin)(ls_emitter *e, ls_emitted_list initial,
                      ls_emitted_list parameters, ls_emitted_list results);
  void (*while_next)(ls_emitter *e, ls_emitted condition,
                     ls_emitted_list parameters);
  void (*while_end)(ls_emitter *e, ls_emitted_list values,
                    ls_emitted_list initial);
  // A branch: begin, the ops if true, next, the ops if false, end.
  void (*if_begin)(ls_emitter *e, ls_emitted predicate,
                   ls_emitted_list results);
  void (*if_next)(ls_emitter *e, ls_emitted_list values);
  void (*if_end)(ls_emitter *e, ls_emitted_list values);
  // The number of the device, a u32 scalar.
  void (*device)(ls_emitter *e, ls_emitted out);
  // Reduces over all devices by ADD, MAXIMUM or MINIMUM.
  void (*all_reduce)(ls_emitter *e, uint16_t op, ls_emitted x, ls_emitted out);
  // Emits x so that nothing that follows is computed together with it.
  void (*settle)(ls_emitter *e, ls_emitted x, ls_emitted out);
  // Concatenates along dimension 0.
  void (*all_gather)(ls_emitter *e, ls_emitted x, ls_emitted out);
  // Calls the host at a site (ls_emitter.hosts). The first operand and result
  // is the ticket.
  void (*call_host)(ls_emitter *e, size_t site, ls_emitted_list in,
                    ls_emitted_list out);
} ls_emit_flow;

// Time at which the calls of a site are made.
typedef enum ls_emit_when {
  LS_EMIT_INSIDE,     // By devices, while they compute.
  LS_EMIT_BEFORE,     // Before the launch, which takes the results.
  LS_EMIT_CONDITION,  // The same, and a trip follows if the result is not 0.
  LS_EMIT_AFTER,      // After the launch, which gives the operands.
} ls_emit_when;

// A site of host calls, which each device makes for its replicas.
// A ticket is a tensor<2xui64> of the run's number and the device, with this
// bit after a failure.
#define LS_EMIT_TICKET_FAILED (UINT64_C(1) << 63)
typedef struct ls_emit_host {
  const ls_host_kernel *kernel;
  ls_object *state;   // Lent by the body.
  const char *name;   // The op's name.
  const char *label;  // The op with its line, for messages.
  size_t num_inputs, num_outputs;
  // For each input, then each output: the type for one replica, if it differs
  // by replica, and the bytes from one replica's to the next, 0 if not.
  const ls_type *types;
  const bool *wide;
  const size_t *strides;
  int32_t num_local;      // Replicas of a wide operand.
  int32_t first, stride;  // The first replica is first + device * stride.
  bool is_shared;         // A call is not a replica's, but all devices'.
  bool is_for_all;        // All replicas make their calls together.
  uint64_t loop;  // Id of the outermost loop around it; 0: there is none.
  ls_emit_when when;
  const ls_node *node;
} ls_emit_host;

// Most bytes of the values of all trips of a loop whose calls are made around
// the launch.
#define LS_EMIT_MOST_BYTES (INT64_C(4) << 30)

// The calls of a program that are made around its launch (host.c).
typedef struct ls_emit_around {
  bool is_around;  // All calls are.
  // The first call that is not, with its line; NULL: there is none.
  const char *other;
  // The loop that makes calls in each trip; NULL: there is none.
  const ls_node *loop;
  ls_trips trips;
  int64_t bytes;  // Size of the values that a trip takes and gives.
  // While it is emitted: trips for which there is room, the number of trips
  // that are made and of those before, u64 scalars, and what the loop gives:
  // [room, ...].
  int64_t room;
  ls_emitted num_trips, trip;
  ls_emitted_list blocks;
  size_t num_blocks;  // Number of blocks that the trip has filled.
  // Values that the launch takes and gives, in the order of the sites' results
  // and operands.
  ls_emitted_list taken, given;
} ls_emit_around;

typedef struct ls_emit_language {
  const char *name;
  const char *prefix;  // Prefix of names.
  // Elementwise operands must have the result's shape: 1 does not broadcast.
  bool equal_shapes;
  // Accepts its own erf, and its own results of divisions by zero and
  // conversions out of range.
  bool is_lenient;
  // Emits an elementwise op by its LS_OP_...; returns false if the language
  // lacks it.
  bool (*element)(ls_emitter *e, uint16_t op, const ls_emitted *in,
                  size_t count, ls_emitted out);
  void (*constant)(ls_emitter *e, const ls_array *array, ls_emitted out);
  void (*reshape)(ls_emitter *e, ls_emitted x, ls_emitted out);
  // Emits a broadcast, aligned at the last dimension.
  void (*broadcast)(ls_emitter *e, ls_emitted x, ls_emitted out);
  void (*transpose)(ls_emitter *e, ls_emitted x, const int64_t *permutation,
                    ls_emitted out);
  // Emits REDUCE_SUM, _MAX, _MIN or _PRODUCT of numbers, AND or OR of bools.
  // Removes the axes.
  bool (*reduce)(ls_emitter *e, uint16_t op, ls_emitted x, const int64_t *axes,
                 size_t count, ls_emitted out);
  // Emits a product of matrices with equal leading dimensions.
  void (*dot)(ls_emitter *e, ls_emitted a, ls_emitted b, ls_emitted out);
  // Emits the sum over dimension 0 of products of matrices.
  void (*dot_sum)(ls_emitter *e, ls_emitted a, ls_emitted b, ls_emitted out);
  // Emits a convolution of [batch, spatial..., channels] by [spatial...,
  // channels, output channels].
  bool (*convolve)(ls_emitter *e, ls_emitted x, ls_emitted w,
                   const ls_window *window, int64_t groups, ls_emitted out);
  // Emits REDUCE_SUM or REDUCE_MAX over windows; padding does not count.
  bool (*slide)(ls_emitter *e, uint16_t op, ls_emitted x,
                const ls_window *window, ls_emitted out);
  void (*slice)(ls_emitter *e, ls_emitted x, const int64_t *starts,
                const int64_t *strides, ls_emitted out);
  bool (*pad)(ls_emitter *e, ls_emitted x, ls_emitted value, const int64_t *low,
              const int64_t *high, const int64_t *interior, ls_emitted out);
  void (*concatenate)(ls_emitter *e, const ls_emitted *in, size_t count,
                      int64_t axis, ls_emitted out);
  void (*reverse)(ls_emitter *e, ls_emitted x, const int64_t *axes,
                  size_t count, ls_emitted out);
  // Emits slices of x along an axis; all indices are in range.
  void (*gather)(ls_emitter *e, ls_emitted x, ls_emitted indices, int64_t axis,
                 ls_emitted out);
  // Emits x with a part of it replaced, from the indices `starts` on: scalars.
  void (*dynamic_update)(ls_emitter *e, ls_emitted x, ls_emitted part,
                         const ls_emitted *starts, ls_emitted out);
  // Emits the part of x from the indices `starts` on: scalars, in range.
  void (*dynamic_slice)(ls_emitter *e, ls_emitted x, const ls_emitted *starts,
                        ls_emitted out);
  // Emits x[rows, width], of which rows are combined with updates[picks, width]
  // by an LS_OP_..., or replaced by them (LS_OP_NONE). Skips rows that x lacks.
  void (*scatter)(ls_emitter *e, uint16_t op, ls_emitted x, ls_emitted indices,
                  ls_emitted updates, ls_emitted out);
  // Emits operands in the stable order of the first one along an axis.
  void (*sort)(ls_emitter *e, const ls_emitted *in, size_t count, int64_t axis,
               bool descending, const ls_emitted *out);
  // Emits 0, 1, 2, ... along an axis.
  void (*iota)(ls_emitter *e, int64_t axis, ls_emitted out);
  // Emits the k largest of the last axis, equal ones by index, and their i32
  // indices. NULL: by `sort`.
  void (*top_k)(ls_emitter *e, ls_emitted x, int64_t k, ls_emitted values,
                ls_emitted indices);
  // Regions and devices (flow.c, replicas.c); NULL: refused.
  const ls_emit_flow *flow;
} ls_emit_language;

// The values of a graph or region while it is emitted.
typedef struct ls_emit_frame {
  struct ls_emit_frame *outer;
  ls_emit_source source;
  ls_map refs;  // Ref -> emitted value.
  // Values of one replica each, in a replicated region with several on a
  // device; else NULL.
  ls_map *lanes;
} ls_emit_frame;

struct ls_emitter {
  const ls_emit_language *language;
  ls_arena *memory;
  ls_status status;  // The first failure.
  ls_emitted_value *values;
  size_t num_values, capacity;
  ls_emit_frame base, *frame;  // The whole graph, and the current region.
  const ls_node *node;         // The current op, for messages.
  // For random ops, u64 scalars; 0: the language is not given them. See
  // ls_emit_replica, and ls_random_key for the iteration, 0 outside of loops.
  ls_emitted step, seed, replica, iteration;
  ls_emitted steps;   // Most trips of loops that count steps; 0: none.
  ls_emitted ticket;  // The next host call takes it; 0: no host can be called.
  uint64_t loop;  // Id of the outermost loop around the current op; 0: none.
  ls_emit_host *hosts;
  size_t num_hosts;
  ls_emit_around around;
  bool exact;  // See ls_hlo_program.
  int32_t num_devices;
  // In a replicated region: its replicas, those of a device, and the one that
  // is emitted, of those of the device; -1: all of them. Else 0, 0 and -1.
  int32_t num_replicas, num_lanes, lane;
  bool varies;  // The current op, or one around it, differs by replica.
  void *self;   // State of the language.
};

// Emits all ops. The language has declared the body's parameters with
// ls_emit_bind. Call deinit even after a failure.
void ls_emitter_init(ls_emitter *e, const ls_emit_language *language,
                     ls_emit_source source, ls_arena *memory, void *self);
void ls_emitter_deinit(ls_emitter *e);
LS_OWNED_STRUCT(ls_emitter, ls_emitter_deinit)
ls_status ls_emit_program(ls_emitter *e);

// Returns the emitted value of a value of the current region, 0 if there is
// none. The second function also returns a value that one device has only.
ls_emitted ls_emit_of(ls_emitter *e, uint64_t ref);
ls_emitted ls_emit_owned_of(ls_emitter *e, uint64_t ref);
// Returns true if a value is stacked now, not only values of lanes.
bool ls_emit_is_stacked(ls_emitter *e, uint64_t ref);
void ls_emit_bind(ls_emitter *e, uint64_t ref, ls_emitted value);
// Enters a region of the current op, and leaves it.
void ls_emit_enter(ls_emitter *e, ls_graph *region, int32_t lanes,
                   ls_emit_frame *frame);
void ls_emit_leave(ls_emitter *e);
// Emits all ops of the current region.
void ls_emit_graph(ls_emitter *e);
// Makes a new value, which the language writes.
ls_emitted ls_emit_value(ls_emitter *e, ls_dtype dtype, ls_batch_dims dims,
                         const char *name);
// Makes one that is stacked if `like` is; `dims` are those of one replica.
ls_emitted ls_emit_value_like(ls_emitter *e, ls_emitted like, ls_dtype dtype,
                              ls_batch_dims dims);
static inline const ls_emitted_value *ls_emit_look(const ls_emitter *e,
                                                   ls_emitted value) {
  return &e->values[value];  // Value 0 has no type.
}
// Returns zeroed memory for a list; NULL, and a failure, without memory.
ls_emitted *ls_emit_new_list(ls_emitter *e, size_t count);
void ls_emit_append(ls_emitter *e, ls_emitted_list *list, ls_emitted_list more);
// Appends the value's name.
void ls_emit_name(const ls_emitter *e, ls_emitted value, ls_text *out);
static inline bool ls_emit_is_ok(const ls_emitter *e) {
  return ls_status_is_ok(e->status);
}
// Takes over a failure, unless there was one before.
void ls_emit_fail(ls_emitter *e, ls_status status);
// Refuses the current op with this reason.
void ls_emit_refuse(ls_emitter *e, const char *why);
// Adds a leading dimension, or refuses the op and adds none if there is no room
// for one.
ls_batch_dims ls_emit_lead(ls_emitter *e, ls_batch_dims dims, int64_t size);

// ---- Building --------------------------------------------------------------
// Builders. Elementwise operands are aligned at the last dimension, as in
// NumPy.
ls_emitted ls_emit_element(ls_emitter *e, uint16_t op, const ls_emitted *in,
                           size_t count);
ls_emitted ls_emit_element_of(ls_emitter *e, uint16_t op, ls_dtype dtype,
                              const ls_emitted *in, size_t count);
ls_emitted ls_emit_1(ls_emitter *e, uint16_t op, ls_emitted x);
ls_emitted ls_emit_2(ls_emitter *e, uint16_t op, ls_emitted x, ls_emitted y);
ls_emitted ls_emit_convert(ls_emitter *e, ls_emitted x, ls_dtype dtype);
ls_emitted ls_emit_bitcast(ls_emitter *e, ls_emitted x, ls_dtype dtype);
ls_emitted ls_emit_constant(ls_emitter *e, const ls_array *array);
ls_emitted ls_emit_scalar(ls_emitter *e, ls_dtype dtype, double value);
ls_emitted ls_emit_integer(ls_emitter *e, ls_dtype dtype, uint64_t value);
// Emits the least or the largest value of a dtype, of floats an infinity.
ls_emitted ls_emit_extreme(ls_emitter *e, ls_dtype dtype, bool least);
ls_emitted ls_emit_reshape(ls_emitter *e, ls_emitted x, ls_batch_dims dims);
ls_emitted ls_emit_broadcast(ls_emitter *e, ls_emitted x, ls_batch_dims dims);
ls_emitted ls_emit_transpose(ls_emitter *e, ls_emitted x,
                             const int64_t *permutation);
ls_emitted ls_emit_reduce(ls_emitter *e, uint16_t op, ls_emitted x,
                          const int64_t *axes, size_t count, bool keep);
ls_emitted ls_emit_dot(ls_emitter *e, ls_emitted a, ls_emitted b);
ls_emitted ls_emit_iota(ls_emitter *e, ls_dtype dtype, ls_batch_dims dims,
                        int64_t axis);
// `dims` are those of the result. NULL: from 0 on, or with strides of 1.
#define LS_EMIT_ONES 1, 1, 1, 1, 1, 1, 1, 1
ls_emitted ls_emit_slice(ls_emitter *e, ls_emitted x, const int64_t *starts,
                         const int64_t *strides, ls_batch_dims dims);
ls_emitted ls_emit_pad(ls_emitter *e, ls_emitted x, ls_emitted value,
                       const int64_t *low, const int64_t *high,
                       const int64_t *interior, ls_batch_dims dims);
ls_emitted ls_emit_concatenate(ls_emitter *e, const ls_emitted *in,
                               size_t count, int64_t axis);
ls_emitted ls_emit_reverse(ls_emitter *e, ls_emitted x, const int64_t *axes,
                           size_t count);
ls_emitted ls_emit_gather(ls_emitter *e, ls_emitted x, ls_emitted indices,
                          int64_t axis);
ls_emitted ls_emit_dynamic_update(ls_emitter *e, ls_emitted x, ls_emitted part,
                                  const ls_emitted *starts);
// Emits operands in the stable order of the first one along an axis.
void ls_emit_sort(ls_emitter *e, const ls_emitted *in, size_t count,
                  int64_t axis, bool descending, ls_emitted *out);
ls_emitted ls_emit_convolve(ls_emitter *e, ls_emitted x, ls_emitted w,
                            const ls_window *window, int64_t groups,
                            ls_batch_dims dims);
ls_emitted ls_emit_slide(ls_emitter *e, uint16_t op, ls_emitted x,
                         const ls_window *window, ls_batch_dims dims);

// Emits the current op from basic operations (compose.c); returns false for an
// op that it does not know.
bool ls_emit_composed(ls_emitter *e);

static inline ls_dim ls_dim_of(int64_t size) {
  const ls_dim dim = {.offset = size};
  return dim;
}
static inline bool ls_dim_equal(ls_dim a, ls_dim b) {
  return a.scale == b.scale && a.offset == b.offset;
}
ls_batch_dims ls_dims_without_leading(ls_batch_dims dims);
static inline bool ls_dim_is(ls_dim a, int64_t size) {
  return a.scale == 0 && a.offset == size;
}

// ---- Lowered ops made of what a language has (compose.c) -------------------
// Return operand `i` and result of the current op.
static inline ls_emitted ls_operand(ls_emitter *e, uint32_t i) {
  return ls_emit_of(e, e->node->inputs[i]);
}
static inline void ls_compose_give(ls_emitter *e, ls_emitted value) {
  ls_emit_bind(e, ls_ref(e->node->id, 0), value);
}
static inline ls_dtype ls_result_dtype(const ls_emitter *e) {
  return e->node->outputs[0].dtype;
}
static inline ls_batch_dims ls_result_dims(ls_emitter *e) {
  return ls_emit_source_dims(&e->frame->source, ls_ref(e->node->id, 0));
}
// Returns the sizes of a value, of one replica's part if it is stacked.
static inline ls_batch_dims ls_batch_dims_at(const ls_emitter *e,
                                             ls_emitted value) {
  const ls_emitted_value *v = ls_emit_look(e, value);
  return v->stacked ? ls_dims_without_leading(v->dims) : v->dims;
}
static inline ls_dtype ls_dtype_at(const ls_emitter *e, ls_emitted value) {
  return ls_emit_look(e, value)->dtype;
}
static inline ls_emitted ls_emit_number(ls_emitter *e, ls_emitted like,
                                        double value) {
  return ls_emit_scalar(e, ls_dtype_at(e, like), value);
}
static inline ls_emitted ls_emit_add(ls_emitter *e, ls_emitted x,
                                     ls_emitted y) {
  return ls_emit_2(e, LS_OP_ADD, x, y);
}
static inline ls_emitted ls_emit_sub(ls_emitter *e, ls_emitted x,
                                     ls_emitted y) {
  return ls_emit_2(e, LS_OP_SUB, x, y);
}
static inline ls_emitted ls_emit_mul(ls_emitter *e, ls_emitted x,
                                     ls_emitted y) {
  return ls_emit_2(e, LS_OP_MUL, x, y);
}
static inline ls_emitted ls_emit_select(ls_emitter *e, ls_emitted condition,
                                        ls_emitted x, ls_emitted y) {
  return ls_emit_element(e, LS_OP_SELECT, (const ls_emitted[]){condition, x, y},
                         3);
}
// Converts 16-bit floats to f32, in which sums are computed.
ls_emitted ls_emit_wide(ls_emitter *e, ls_emitted x);
// Emits 1 / x, by which our kernels multiply if a row has one divisor.
ls_emitted ls_emit_reciprocal(ls_emitter *e, ls_emitted x);
// Two functions that keep NaN in maxima and minima, because XLA drops it on
// CPUs if there are many numbers. The first marks NaN by 1, other numbers by 0;
// the second returns NaN where a reduced mark is 1, else y.
ls_emitted ls_emit_mark_nan(ls_emitter *e, ls_emitted x);
ls_emitted ls_emit_keep_nan(ls_emitter *e, ls_emitted marks, ls_emitted y);
// Reduces values along the canonical tree; 16-bit floats in f32.
ls_emitted ls_emit_tree(ls_emitter *e, uint16_t op, const ls_emitted *items,
                        int32_t count);
// Emits relu(x) if the current op asks for it.
ls_emitted ls_emit_activation(ls_emitter *e, ls_emitted x);
// Clamps an index to 0 to `last` by its value; i32 stays i32, others become
// i64.
ls_emitted ls_emit_clamp_index(ls_emitter *e, ls_emitted at, int64_t last);
// Emits true where a signed index is at least 0 and less than `size`.
ls_emitted ls_emit_is_index(ls_emitter *e, ls_emitted at, int64_t size);
// Returns a size; refuses one that depends on the batch.
int64_t ls_emit_size(ls_emitter *e, ls_dim dim);
// Emits the result of an op along an axis that is empty, which has no elements;
// refuses one that has.
ls_emitted ls_emit_nothing(ls_emitter *e);

// Emits ops of one type: returns their first result, which is converted to its
// type, or binds all results and returns 0.
typedef struct ls_emit_rule {
  uint16_t op;
  ls_emitted (*emit)(ls_emitter *e);
  bool is_batched;  // Builders emit it for all replicas at once.
} ls_emit_rule;

// The rules of a file.
typedef struct ls_emit_rules {
  const ls_emit_rule *rules;
  size_t count;
} ls_emit_rules;
extern const ls_emit_rules ls_emit_window_rules, ls_emit_norm_rules,
    ls_emit_index_rules, ls_emit_random_rules, ls_emit_order_rules;
// Emits an elementwise op that languages lack, or whose edges are ours; returns
// false for others.
bool ls_compose_element(ls_emitter *e);

// ---- Replicas at once (batch.c) --------------------------------------------
// A product of stacked operands, [rows, k] by [k, columns] or a convolution,
// whose sum over replicas is one larger product.
typedef struct ls_emitted_product {
  ls_emitted a, b;
  const ls_window *window;  // NULL: matrices.
  ls_batch_dims dims;
  bool is_transposed;  // The value is its transposition.
  int64_t permutation[LS_MAX_RANK];
} ls_emitted_product;

// Returns true if builders emit the current op for all replicas at once.
bool ls_emit_is_batched(const ls_emitter *e);
// Returns the first of these values that is stacked, or 0.
ls_emitted ls_emit_stacked_of(const ls_emitter *e, const ls_emitted *in,
                              size_t count);
// Notes that `out` is a transposition of x, which may be a product.
void ls_emit_note_transposed(ls_emitter *e, ls_emitted x, ls_emitted out,
                             const int64_t *permutation);
// Stacks a value that all replicas share.
ls_emitted ls_emit_spread(ls_emitter *e, ls_emitted x);
// Reduces a stacked value over the replicas of the device by ADD, MAXIMUM or
// MINIMUM.
ls_emitted ls_emit_reduce_stacked(ls_emitter *e, uint16_t op, ls_emitted x);

// ---- Regions and replicas (flow.c, replicas.c) -----------------------------
bool ls_emit_flow_op(ls_emitter *e);
bool ls_emit_stack_op(ls_emitter *e);
bool ls_emit_replica_op(ls_emitter *e);
bool ls_emit_host_op(ls_emitter *e);
// Counts the trips that a loop makes unless a call in its condition ends it.
// Returns false if they are not known before it begins.
bool ls_emit_count_trips(const ls_graph *outer, const ls_node *loop,
                         ls_trips *out);
// Decides if the host's calls can be made around the launch; `room` is the
// number of trips of a loop of which the program does not know it.
void ls_emit_find_around(ls_emitter *e, int64_t room);
// Makes the blocks that the loop gives, before its first trip.
void ls_emit_begin_blocks(ls_emitter *e);
// Returns true if regions of an op call the host, at any depth.
bool ls_emit_calls_host(const ls_node *node);
// Emits true unless a call has failed whose failure all devices know.
ls_emitted ls_emit_is_live(ls_emitter *e);
// Makes the first ticket of a run, whose number is a u64 scalar.
void ls_emit_begin_host(ls_emitter *e, ls_emitted run);
// Emits the number of the device, a u32 scalar.
ls_emitted ls_emit_device(ls_emitter *e);
// Emits the number of the replica that runs the current op, a u64 scalar.
ls_emitted ls_emit_replica(ls_emitter *e);
// Emits one replica's part of a stacked value.
ls_emitted ls_emit_lane(ls_emitter *e, ls_emitted x, int32_t lane);
// Stacks one value for each replica of the device.
ls_emitted ls_emit_stack(ls_emitter *e, const ls_emitted *lanes);
// Returns x as a value that `device` has; others have emitted the same for
// themselves. -1: as the own value of each.
ls_emitted ls_emit_owned(ls_emitter *e, ls_emitted x, int32_t device);
// Emits items[device], of one value for each device.
ls_emitted ls_emit_pick(ls_emitter *e, const ls_emitted *items);
// Emits for all devices a value that one has.
ls_emitted ls_emit_everywhere(ls_emitter *e, ls_emitted x);

// Returns StableHLO's name of a dtype; NULL if it has none.
const char *ls_stablehlo_dtype(ls_dtype dtype);

#endif  // LS_EMIT_EMIT_H_
