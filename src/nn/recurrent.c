// SPDX-License-Identifier: Apache-2.0
// LSTM and GRU. The product of x and the kernel does not depend on the state,
// so one product covers all steps. Then the steps follow one another, each with
// its own ops or, if there are many, in a loop.
#include "nn/recurrent.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "graph/make/make.h"
#include "nn/layer.h"

struct ls_recurrent_layer {
  ls_layer base;
  ls_recurrent_kind kind;
  ls_variable *kernel, *recurrent_kernel;
  ls_variable *bias, *recurrent_bias;  // NULL: none.
  int64_t inputs, units, unrolled;
};

enum { UNROLLED = 32 };

// ---- Creating --------------------------------------------------------------
// Makes a bias of 0, but 1 in the second quarter, which is the forget gate's:
// at first the state is kept.
static ls_tensor draw_lstm_bias(const ls_initializer *self, ls_dtype dtype,
                                ls_shape shape,
                                const ls_random_options *random) {
  (void)self;
  (void)random;
  const int64_t units = shape.dim[0] / 4;
  const ls_tensor parts[] = {ls_fill(dtype, LS_SHAPE(units), 0),
                             ls_fill(dtype, LS_SHAPE(units), 1),
                             ls_fill(dtype, LS_SHAPE(2 * units), 0)};
  return ls_concatenate(parts, 3, 0);
}

static ls_status recurrent_create_variables(const ls_recurrent_options *options,
                                            ls_recurrent_layer *layer) {
  const bool lstm = layer->kind == LS_RECURRENT_LSTM;
  const int64_t wide = (lstm ? 4 : 3) * layer->units;
  ls_weight_options weight = {.name = "kernel",
                              .shape = LS_SHAPE(layer->inputs, wide),
                              .dtype = options->dtype,
                              .initializer = options->kernel_initializer,
                              .seed = options->seed};
  LS_NAME_SCOPE(layer->base.name);
  LS_RETURN_IF_ERROR(ls_layer_weight(&layer->base, &weight, &layer->kernel));
  weight.name = "recurrent_kernel";
  weight.shape = LS_SHAPE(layer->units, wide);
  weight.initializer =
      ls_init_or(options->recurrent_initializer, ls_init_orthogonal(1));
  LS_RETURN_IF_ERROR(
      ls_layer_weight(&layer->base, &weight, &layer->recurrent_kernel));
  if (options->no_bias) return ls_ok();
  weight.name = "bias";
  weight.shape = LS_SHAPE(wide);
  weight.initializer =
      lstm ? (ls_initializer){.draw = draw_lstm_bias} : ls_init_zeros();
  LS_RETURN_IF_ERROR(ls_layer_weight(&layer->base, &weight, &layer->bias));
  if (lstm) return ls_ok();
  weight.name = "recurrent_bias";
  return ls_layer_weight(&layer->base, &weight, &layer->recurrent_bias);
}

ls_status ls_recurrent_layer_create(const ls_recurrent_options *options,
                                    ls_recurrent_layer **out_layer) {
  LS_REQUIRE_OUT(out_layer, options);
  if (options->kind > LS_RECURRENT_GRU)
    return ls_invalid_argument("there is no kind %d of recurrent layers",
                               (int)options->kind);
  const char *kind = options->kind == LS_RECURRENT_LSTM ? "lstm" : "gru";
  const char *name = options->name != NULL ? options->name : kind;
  if (options->inputs < 1 || options->units < 1)
    return ls_invalid_argument(
        "%s layer '%s' needs at least one input and one unit, got %lld and "
        "%lld",
        kind, name, (long long)options->inputs, (long long)options->units);
  if (options->unrolled < 0)
    return ls_invalid_argument("%s layer '%s' cannot unroll %lld steps", kind,
                               name, (long long)options->unrolled);
  ls_recurrent_layer *layer = ls_layer_make(sizeof(*layer), name);
  if (layer == NULL) return ls_out_of_memory();
  layer->kind = options->kind;
  layer->inputs = options->inputs;
  layer->units = options->units;
  layer->unrolled = options->unrolled > 0 ? options->unrolled : UNROLLED;
  return ls_layer_finish(&layer->base, "recurrent layer",
                         recurrent_create_variables(options, layer), out_layer);
}

LS_LAYER(ls_recurrent_layer)

// ---- One step --------------------------------------------------------------
// Multiplies x, one step or all steps, by the kernel.
static ls_tensor recurrent_project(const ls_recurrent_layer *layer,
                                   ls_tensor x) {
  const ls_tensor bias = ls_layer_read(layer->bias);
  return ls_dense(x, ls_variable_read(layer->kernel), bias, LS_ACTIVATION_NONE);
}

enum { MAX_GATES = 4 };

static ls_recurrent_steps read_steps(const ls_recurrent_layer *layer) {
  return (ls_recurrent_steps){.kind = layer->kind,
                              .units = layer->units,
                              .unrolled = layer->unrolled,
                              .allocator = layer->base.allocator,
                              .kernel =
                                  ls_variable_read(layer->recurrent_kernel),
                              .bias = ls_layer_read(layer->recurrent_bias)};
}

// Splits the gates, which are adjacent in x, each as large as the state. One
// split op has one concatenation as gradient.
static void cut_gates(ls_tensor x, ls_tensor h, ls_tensor *gates,
                      size_t count) {
  const ls_tensor likes[MAX_GATES] = {h, h, h, h};
  const ls_op pieces = ls_split_like(x, likes, count, 1);
  for (size_t i = 0; i < count; ++i)
    gates[i] = ls_op_output(pieces, (unsigned)i);
}

static ls_recurrent_state lstm_step(const ls_recurrent_steps *s, ls_tensor a,
                                    ls_recurrent_state state) {
  enum { I, F, G, O };
  ls_tensor z[MAX_GATES];
  cut_gates(ls_add(a, ls_matmul(state.h, s->kernel)), state.h, z, 4);
  const ls_tensor kept = ls_mul(ls_sigmoid(z[F]), state.c);
  const ls_tensor fresh = ls_tanh(z[G]);
  const ls_tensor added = ls_mul(ls_sigmoid(z[I]), fresh);
  const ls_tensor c = ls_add(kept, added), shown = ls_tanh(c);
  return (ls_recurrent_state){.h = ls_mul(ls_sigmoid(z[O]), shown), .c = c};
}

static ls_recurrent_state gru_step(const ls_recurrent_steps *s, ls_tensor a,
                                   ls_recurrent_state state) {
  enum { R, Z, N };
  ls_tensor x[MAX_GATES], y[MAX_GATES];
  const ls_tensor b = ls_dense(state.h, s->kernel, s->bias, LS_ACTIVATION_NONE);
  cut_gates(a, state.h, x, 3);
  cut_gates(b, state.h, y, 3);
  const ls_tensor r = ls_sigmoid(ls_add(x[R], y[R]));
  const ls_tensor z = ls_sigmoid(ls_add(x[Z], y[Z]));
  const ls_tensor n = ls_tanh(ls_add(x[N], ls_mul(r, y[N])));
  // (1 - z) n + z h.
  return (ls_recurrent_state){.h = ls_add(n, ls_mul(z, ls_sub(state.h, n)))};
}

static ls_recurrent_state recurrent_step(const ls_recurrent_steps *s,
                                         ls_tensor a,
                                         ls_recurrent_state state) {
  return s->kind == LS_RECURRENT_LSTM ? lstm_step(s, a, state)
                                      : gru_step(s, a, state);
}

ls_recurrent_state ls_recurrent_layer_step(const ls_recurrent_layer *layer,
                                           ls_tensor x,
                                           ls_recurrent_state state) {
  LS_NAME_SCOPE(layer->base.name);
  const ls_recurrent_steps s = read_steps(layer);
  state = recurrent_step(&s, recurrent_project(layer, x), state);
  return state;
}

// ---- All steps -------------------------------------------------------------
static ls_recurrent_state zero_state(const ls_recurrent_layer *layer,
                                     ls_tensor x) {
  const ls_size sizes[] = {{1, 0}, {LS_SIZE_CONSTANT, layer->units}};
  const ls_tensor zeros = ls_layer_zeros(x, sizes, 2);
  return (ls_recurrent_state){.h = zeros, .c = zeros};
}

// Splits x, [batch, steps, width], into steps of [batch, width], with one split
// op.
static void cut_steps(ls_tensor x, size_t steps, ls_tensor *parts) {
  const ls_tensor first = ls_slice_axis(x, 1, 0, 1);
  const int64_t width = ls_tensor_shape(x).dim[2];
  for (size_t t = 0; t < steps; ++t)
    parts[t] = first;
  const ls_op pieces = ls_split_like(x, parts, steps, 1);
  for (size_t t = 0; t < steps; ++t)
    parts[t] =
        ls_reshape(ls_op_output(pieces, (unsigned)t), LS_SHAPE(-1, width));
}

static ls_tensor unrolled_steps(const ls_recurrent_steps *s,
                                ls_tensor projected, size_t steps,
                                ls_recurrent_state *state) {
  LS_OWN_ARRAY(s->allocator, ls_tensor, parts, steps);
  if (parts == NULL)
    return ls_make_failed("recurrent layer", ls_out_of_memory());
  cut_steps(projected, steps, parts);
  for (size_t t = 0; t < steps; ++t) {
    *state = recurrent_step(s, parts[t], *state);
    parts[t] = ls_reshape(state->h, LS_SHAPE(-1, 1, s->units));
  }
  return ls_concatenate(parts, steps, 1);
}

// ---- In a loop -------------------------------------------------------------
// The loop values: number of the step, h, c (LSTM only), and h of all steps so
// far, [steps, batch, units].
enum { STEP, H, ALL_H, C };

typedef struct looped {
  const ls_recurrent_steps *s;
  ls_tensor projected;  // [steps, batch, gates * units].
  int64_t steps;
} looped;

static ls_nest has_steps_left(ls_nest values, void *user) {
  const looped *all = user;
  return ls_leaf(ls_less(ls_nest_tensor(values, STEP),
                         ls_scalar_i64(LS_DTYPE_I64, all->steps)));
}

static ls_nest looped_values(ls_tensor number, ls_recurrent_state state,
                             ls_tensor all_h) {
  const ls_nest items[] = {ls_leaf(number), ls_leaf(state.h), ls_leaf(all_h),
                           ls_leaf(state.c)};
  return ls_nest_sequence(LS_KIND_TUPLE, items, state.c.ref != 0 ? 4 : 3);
}

static ls_nest next_step(ls_nest values, void *user) {
  const looped *all = user;
  const ls_tensor number = ls_nest_tensor(values, STEP);
  const ls_tensor none = ls_scalar_i64(LS_DTYPE_I64, 0);
  const ls_tensor starts[] = {number, none, none};
  const ls_recurrent_state before = {.h = ls_nest_tensor(values, H),
                                     .c = ls_nest_tensor(values, C)};
  const ls_recurrent_state state =
      recurrent_step(all->s, ls_gather(all->projected, number, 0), before);
  const ls_tensor row = ls_reshape(state.h, LS_SHAPE(1, -1, all->s->units));
  const ls_tensor all_h =
      ls_dynamic_update_slice(ls_nest_tensor(values, ALL_H), row, starts);
  return looped_values(ls_add_scalar(number, 1), state, all_h);
}

static ls_tensor looped_steps(const ls_recurrent_steps *s, ls_tensor projected,
                              int64_t steps, ls_recurrent_state *state) {
  const int swapped[] = {1, 0, 2};
  looped all = {
      .s = s, .projected = ls_transpose(projected, swapped), .steps = steps};
  const ls_size sizes[] = {
      {LS_SIZE_CONSTANT, steps}, {1, 0}, {LS_SIZE_CONSTANT, s->units}};
  if (s->kind == LS_RECURRENT_GRU) state->c = ls_failed_tensor();
  const ls_tensor zeros = ls_layer_zeros(projected, sizes, 3);
  LS_OWN(ls_nest, end) = ls_while(
      has_steps_left, next_step, &all,
      looped_values(ls_scalar_i64(LS_DTYPE_I64, 0), *state, zeros), steps);
  *state = (ls_recurrent_state){.h = ls_nest_tensor(end, H),
                                .c = ls_nest_tensor(end, C)};
  const ls_tensor all_h = ls_nest_tensor(end, ALL_H);
  const ls_status status = ls_nest_status(end);
  return ls_status_is_ok(status) ? ls_transpose(all_h, swapped)
                                 : ls_make_failed("recurrent layer", status);
}

// ---- Applying --------------------------------------------------------------
ls_tensor ls_recurrent_run(const ls_recurrent_steps *steps, ls_tensor projected,
                           ls_recurrent_state *state) {
  const int64_t count = ls_tensor_shape(projected).dim[1];
  return count <= steps->unrolled || ls_graph_is_eager(ls_graph_current())
             ? unrolled_steps(steps, projected, (size_t)count, state)
             : looped_steps(steps, projected, count, state);
}

ls_tensor ls_recurrent_layer_apply(const ls_recurrent_layer *layer, ls_tensor x,
                                   const ls_recurrent_state *initial,
                                   ls_recurrent_state *out_final) {
  ls_recurrent_state state = {0};
  if (out_final != NULL) *out_final = state;
  LS_MAKE_REQUIRE(layer);
  if (ls_tensor_is_failed(x)) return ls_identity(x);
  const ls_shape shape = ls_tensor_shape(x);
  if (shape.rank != 3 || shape.dim[1] < 1)
    return ls_make_failed(
        "recurrent layer",
        ls_invalid_argument("layer '%s' needs [batch, steps, inputs] with a "
                            "known number of steps, got %s",
                            layer->base.name,
                            LS_SHAPE_TEXT(ls_tensor_dtype(x), shape)));
  ls_tensor y = ls_failed_tensor();
  {
    LS_NAME_SCOPE(layer->base.name);
    state = initial != NULL ? *initial : zero_state(layer, x);
    const ls_recurrent_steps steps = read_steps(layer);
    y = ls_recurrent_run(&steps, recurrent_project(layer, x), &state);
  }
  if (out_final != NULL) *out_final = state;
  return y;
}
