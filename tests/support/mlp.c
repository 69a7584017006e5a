// SPDX-License-Identifier: Apache-2.0
#include "support/mlp.h"

#include "base/memory/own.h"
#include "lockstep/eager.h"
#include "lockstep/gradients.h"

const mlp_shape mlp_large = {"mlp", 3, {784, 512, 512, 10}};
const mlp_shape mlp_tiny = {"tiny", 2, {16, 16, 4}};

// Streams of the generator: variable i has stream i.
enum { STREAM_EXAMPLES = 100, STREAM_LABELS = 101 };

// ---- Data ------------------------------------------------------------------
uint32_t mlp_hash(uint32_t stream, uint32_t index) {
  uint32_t x = index + (stream + 1) * 0x9e3779b9U;
  x ^= x >> 16;
  x *= 0x21f0aaadU;
  x ^= x >> 15;
  x *= 0x735a2d97U;
  x ^= x >> 15;
  return x;
}

static ls_shape shape_of(const mlp_shape *shape, size_t variable) {
  const int64_t *size = &shape->size[variable / 2];
  return variable % 2 == 0 ? LS_SHAPE(size[0], size[1]) : LS_SHAPE(size[1]);
}

// Signed 12-bit integers times the power of two that brings them into the
// range of Glorot and Bengio, sqrt(6 / (in + out)), or just below.
ls_status mlp_initial_value(const mlp_shape *shape, ls_dtype dtype,
                            size_t index, ls_array **out_array) {
  const int64_t *size = &shape->size[index / 2];
  double scale = 1.0 / 2048;
  for (int64_t n = 6; n < size[0] + size[1]; n *= 4)
    scale /= 2;
  LS_RETURN_IF_ERROR(ls_array_create(dtype, shape_of(shape, index), out_array));
  const int64_t count = ls_array_num_elements(*out_array);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bits = mlp_hash((uint32_t)index, (uint32_t)i) >> 20;
    ls_array_set_f64(*out_array, i, ((double)bits - 2048) * scale);
  }
  return ls_ok();
}

ls_status mlp_batch(const mlp_shape *shape, ls_dtype dtype, int64_t first,
                    int64_t count, ls_array **out_examples,
                    ls_array **out_labels) {
  const int64_t inputs = shape->size[0];
  const int64_t classes = shape->size[shape->num_layers];
  *out_labels = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create(dtype, LS_SHAPE(count, inputs), out_examples));
  const ls_status status =
      ls_array_create(LS_DTYPE_I32, LS_SHAPE(count), out_labels);
  if (!ls_status_is_ok(status)) {
    ls_array_release(*out_examples);
    *out_examples = NULL;
    return status;
  }
  for (int64_t i = 0; i < count * inputs; ++i) {
    const uint32_t bits =
        mlp_hash(STREAM_EXAMPLES, (uint32_t)(first * inputs + i)) >> 24;
    ls_array_set_f64(*out_examples, i, bits / 256.0);
  }
  for (int64_t i = 0; i < count; ++i)
    ls_array_set_i64(*out_labels, i,
                     (mlp_hash(STREAM_LABELS, (uint32_t)(first + i)) >> 16) %
                         classes);
  return ls_ok();
}

// ---- The model -------------------------------------------------------------
static ls_status create_variable(mlp *self, size_t index) {
  static const char *const names[MLP_MAX_VARIABLES] = {
      "kernel_0", "bias_0", "kernel_1", "bias_1", "kernel_2", "bias_2"};
  LS_OWN(ls_array, value) = NULL;
  LS_RETURN_IF_ERROR(
      mlp_initial_value(self->shape, self->dtype, index, &value));
  return ls_variable_create(
      &(ls_variable_options){.name = names[index], .initial_array = value},
      &self->variables[index]);
}

ls_status mlp_create(const mlp_shape *shape, ls_dtype dtype, mlp *out) {
  *out = (mlp){
      .shape = shape, .dtype = dtype, .num_variables = 2 * shape->num_layers};
  for (size_t i = 0; i < out->num_variables; ++i)
    LS_RETURN_IF_ERROR(create_variable(out, i));
  return ls_ok();
}

void mlp_destroy(mlp *self) {
  for (size_t i = 0; i < MLP_MAX_VARIABLES; ++i)
    ls_variable_release(self->variables[i]);
  *self = (mlp){0};
}

// The loss, and what was read and computed on the way to it.
typedef struct forward_pass {
  ls_tensor reads[MLP_MAX_VARIABLES];
  ls_tensor hidden, loss;
} forward_pass;

static forward_pass forward(const mlp *self, ls_tensor examples,
                            ls_tensor labels) {
  forward_pass pass = {0};
  ls_tensor x = examples;
  for (size_t i = 0; i < self->shape->num_layers; ++i) {
    ls_tensor *reads = &pass.reads[2 * i];
    reads[0] = ls_variable_read(self->variables[2 * i]);
    reads[1] = ls_variable_read(self->variables[2 * i + 1]);
    const bool is_last = i + 1 == self->shape->num_layers;
    x = ls_dense(x, reads[0], reads[1],
                 is_last ? LS_ACTIVATION_NONE : LS_ACTIVATION_RELU);
    if (i == 0) pass.hidden = x;
  }
  pass.loss = ls_reduce_mean(ls_softmax_cross_entropy(x, labels), LS_ALL_AXES);
  return pass;
}

static ls_status gradients_of(const mlp *self, const forward_pass *pass,
                              ls_nest *grads) {
  const ls_nest loss = ls_leaf(pass->loss);
  ls_nest reads[MLP_MAX_VARIABLES];
  for (size_t i = 0; i < self->num_variables; ++i)
    reads[i] = ls_leaf(pass->reads[i]);
  return ls_gradients(&loss, 1, reads, self->num_variables, NULL, grads);
}

// One step down the gradient, averaged over the replicas: a write for each
// variable.
static void update(const mlp *self, const ls_tensor *reads,
                   const ls_nest *grads, ls_tensor *writes) {
  for (size_t i = 0; i < self->num_variables; ++i) {
    const ls_tensor mean =
        ls_all_reduce(LS_REDUCE_MEAN, ls_nest_tensor(grads[i], 0));
    const ls_tensor after = ls_sub(reads[i], ls_mul_scalar(mean, 0.1));
    writes[i] = ls_variable_assign(self->variables[i], after);
  }
}

ls_status mlp_add_step(const mlp *self, ls_tensor examples, ls_tensor labels,
                       mlp_ops *out_ops) {
  const forward_pass pass = forward(self, examples, labels);
  *out_ops = (mlp_ops){.loss = pass.loss, .hidden = pass.hidden};
  ls_nest grads[MLP_MAX_VARIABLES];
  LS_RETURN_IF_ERROR(gradients_of(self, &pass, grads));
  ls_tensor writes[MLP_MAX_VARIABLES];
  ls_op ops[MLP_MAX_VARIABLES];
  update(self, pass.reads, grads, writes);
  for (size_t i = 0; i < self->num_variables; ++i)
    ops[i] = ls_tensor_op(writes[i]);
  out_ops->update = ls_group(ops, self->num_variables, "update");
  return ls_ok();
}

// ---- Callbacks -------------------------------------------------------------
ls_nest mlp_step(ls_nest args, void *user) {
  const mlp *self = user;
  mlp_ops ops;
  const ls_status status = mlp_add_step(self, ls_nest_tensor(args, 0),
                                        ls_nest_tensor(args, 1), &ops);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (!self->returns_hidden) return ls_leaf(ops.loss);
  return LS_TUPLE(ls_leaf(ops.loss), ls_leaf(ops.hidden));
}

ls_nest mlp_gradients(ls_nest args, void *user) {
  const mlp *self = user;
  const forward_pass pass =
      forward(self, ls_nest_tensor(args, 0), ls_nest_tensor(args, 1));
  ls_nest items[1 + MLP_MAX_VARIABLES] = {ls_leaf(pass.loss)};
  const ls_status status = gradients_of(self, &pass, items + 1);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return ls_nest_sequence(LS_KIND_TUPLE, items, 1 + self->num_variables);
}

// ---- Eager -----------------------------------------------------------------
static ls_status record(const mlp *self, ls_array *examples, ls_array *labels,
                        ls_tape *tape, ls_array **out_loss) {
  const forward_pass pass = forward(self, ls_tensor_from_array(examples),
                                    ls_tensor_from_array(labels));
  LS_RETURN_IF_ERROR(ls_tape_end(tape));
  ls_nest grads[MLP_MAX_VARIABLES], xs[MLP_MAX_VARIABLES];
  for (size_t i = 0; i < self->num_variables; ++i)
    xs[i] = ls_nest_variable(self->variables[i]);
  const ls_status status = ls_tape_gradients(tape, ls_leaf(pass.loss), xs,
                                             self->num_variables, grads);
  for (size_t i = 0; i < self->num_variables; ++i)
    ls_nest_release(xs[i]);
  LS_RETURN_IF_ERROR(status);
  ls_tensor writes[MLP_MAX_VARIABLES];
  update(self, pass.reads, grads, writes);
  for (size_t i = 0; i < self->num_variables; ++i)
    LS_RETURN_IF_ERROR(ls_tensor_status(writes[i]));
  return ls_tensor_value(pass.loss, out_loss);
}

ls_status mlp_step_eager(const mlp *self, ls_array *examples, ls_array *labels,
                         ls_array **out_loss) {
  *out_loss = NULL;
  LS_RETURN_IF_ERROR(ls_frame_begin());
  ls_tape *tape = NULL;
  ls_status status = ls_tape_begin(&tape);
  if (ls_status_is_ok(status))
    status = record(self, examples, labels, tape, out_loss);
  ls_tape_release(tape);
  const ls_status ended = ls_frame_end(NULL);
  if (ls_status_is_ok(status)) return ended;
  ls_status_free(ended);
  return status;
}
