// SPDX-License-Identifier: Apache-2.0
//
// Every layer: two steps of training give the same weights in every way to run.
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "support/values.h"
#include "support/ways.h"

enum { ROWS = 2, STEPS = 2 };

// How a kind of layer is made, used and listed.
typedef struct layer_case {
  const char *name;
  ls_shape x;  // Of an example.
  ls_status (*create)(void **out_layer);
  ls_tensor (*apply)(const void *layer, ls_tensor x);
  size_t (*variables)(const void *layer, ls_variable **list, size_t capacity);
  void (*destroy)(void *layer);
  ls_dtype dtype;  // Of x. Default f32.
  bool moves;      // It has averages, which a step moves in a session.
} layer_case;

// ---- Kinds -----------------------------------------------------------------
// What every kind has but `apply`.
#define LAYER(kind, ...)                                                       \
  static ls_status create_##kind(void **out_layer) {                           \
    ls_##kind##_layer *layer = NULL;                                           \
    const ls_status status = ls_##kind##_layer_create(&__VA_ARGS__, &layer);   \
    *out_layer = layer;                                                        \
    return status;                                                             \
  }                                                                            \
  static size_t variables_##kind(const void *layer, ls_variable **list,        \
                                 size_t capacity) {                            \
    return ls_##kind##_layer_variables(layer, list, capacity);                 \
  }                                                                            \
  static void destroy_##kind(void *layer) { ls_##kind##_layer_destroy(layer); }

LAYER(dense, (ls_dense_options){
                 .inputs = 3, .units = 4, .activation = LS_ACTIVATION_RELU})
LAYER(conv,
      (ls_conv_options){.channels = 2, .filters = 3, .window = LS_SHAPE(3, 3)})
LAYER(norm, (ls_norm_options){.channels = 4})
LAYER(batch_norm, (ls_batch_norm_options){.channels = 4})
LAYER(embedding, (ls_embedding_options){.rows = 6, .width = 3})
LAYER(attention,
      (ls_attention_layer_options){.width = 4, .num_heads = 2, .causal = true})
LAYER(recurrent, (ls_recurrent_options){.inputs = 3, .units = 2})

static ls_tensor apply_dense(const void *layer, ls_tensor x) {
  return ls_dense_layer_apply(layer, x);
}

static ls_tensor apply_conv(const void *layer, ls_tensor x) {
  return ls_conv_layer_apply(layer, x);
}

static ls_tensor apply_norm(const void *layer, ls_tensor x) {
  return ls_norm_layer_apply(layer, x);
}

static ls_tensor apply_batch_norm(const void *layer, ls_tensor x) {
  return ls_batch_norm_layer_apply(layer, x, true);
}

static ls_tensor apply_embedding(const void *layer, ls_tensor x) {
  return ls_embedding_layer_apply(layer, x);
}

static ls_tensor apply_attention(const void *layer, ls_tensor x) {
  return ls_attention_layer_apply(layer, x);
}

static ls_tensor apply_recurrent(const void *layer, ls_tensor x) {
  return ls_recurrent_layer_apply(layer, x, NULL, NULL);
}

#define KIND(kind)                                                             \
  .name = #kind, .create = create_##kind, .apply = apply_##kind,               \
  .variables = variables_##kind, .destroy = destroy_##kind

static const layer_case layers[] = {
    {KIND(dense), .x = {.rank = 1, .dim = {3}}},
    {KIND(conv), .x = {.rank = 3, .dim = {5, 5, 2}}},
    {KIND(norm), .x = {.rank = 1, .dim = {4}}},
    {KIND(batch_norm), .x = {.rank = 1, .dim = {4}}, .moves = true},
    {KIND(embedding), .x = {.rank = 1, .dim = {3}}, .dtype = LS_DTYPE_I32},
    {KIND(attention), .x = {.rank = 2, .dim = {3, 4}}},
    {KIND(recurrent), .x = {.rank = 2, .dim = {3, 3}}},
};

// ---- Steps -----------------------------------------------------------------
static void make_layer(ways *self) {
  const layer_case *row = self->user;
  expect_ok(row->create(&self->more));
  self->num_variables =
      row->variables(self->more, self->variables, WAYS_MOST_VARIABLES);
  for (size_t i = 0; i < self->num_variables; ++i)
    ls_variable_retain(self->variables[i]);
  expect_ok(ls_adam_create(NULL, &self->optimizer));
}

static void drop_layer(ways *self) {
  const layer_case *row = self->user;
  row->destroy(self->more);
}

static ls_nest own_rows(const ways *self, int step, int r) {
  const layer_case *row = self->user;
  ls_shape shape = {.rank = row->x.rank + 1, .dim = {ROWS}};
  for (int i = 0; i < row->x.rank; ++i)
    shape.dim[i + 1] = row->x.dim[i];
  const uint32_t seed = (uint32_t)(5 * step + r + 1);
  if (row->dtype == LS_DTYPE_NONE)
    return ls_nest_array(array_of_numbers(LS_DTYPE_F32, shape, seed));
  double numbers[64] = {0};
  for (int64_t i = 0; i < ls_shape_num_elements(shape); ++i)
    numbers[i] = (double)((i * i + (int64_t)seed) % 6);
  return ls_nest_array(array_of(row->dtype, shape, numbers));
}

static ls_tensor loss_of(ls_nest x, ways *self) {
  const layer_case *row = self->user;
  const ls_tensor y = row->apply(self->more, x.as.tensor);
  return ls_reduce_loss(ls_mul(y, ls_add_scalar(ls_square(y), 1)),
                        LS_REDUCTION_MEAN);
}

static ls_nest step(ls_nest x, ways *self) {
  return ways_minimize(self, loss_of, x);
}

TEST(every_layer_learns_alike_in_every_way) {
  for (size_t i = 0; i < LS_COUNT_OF(layers); ++i)
    ways_hold(&(ways_case){.name = layers[i].name,
                           .user = &layers[i],
                           .make = make_layer,
                           .args = own_rows,
                           .step = step,
                           .drop = drop_layer,
                           .steps = STEPS},
              1);
}

// ---- Without training ------------------------------------------------------
static ls_nest use(ls_nest x, ways *self) {
  const layer_case *row = self->user;
  return ls_leaf(row->apply(self->more, x.as.tensor));
}

TEST(every_layer_gives_the_same_in_every_way) {
  for (size_t i = 0; i < LS_COUNT_OF(layers); ++i)
    ways_hold(&(ways_case){.name = layers[i].name,
                           .user = &layers[i],
                           .make = make_layer,
                           .args = own_rows,
                           .step = use,
                           .drop = drop_layer,
                           .without = layers[i].moves ? 1 << WAY_GRAPH : 0},
              1);
}
