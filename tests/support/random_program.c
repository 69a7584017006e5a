// SPDX-License-Identifier: Apache-2.0
#include "support/random_program.h"

#include <math.h>

#include "lockstep/optimizer_state.h"
#include "lockstep/shape_rules.h"
#include "support/expect.h"
#include "support/random_build.h"

// ---- Drawing ---------------------------------------------------------------
static loop_random stream_of(uint64_t seed, uint64_t stream) {
  loop_random random = {seed * 0x9E3779B97F4A7C15U +
                        stream * 0xD1B54A32D192ED03U};
  for (int i = 0; i < 4; ++i)
    loop_random_bits(&random);
  return random;
}

// Streams of a program.
enum {
  STREAM_FORM,
  STREAM_OPS,
  STREAM_OPTIMIZER,
  STREAM_ARGS,
  STREAM_INITIAL = 1000
};

static int64_t any_size(loop_random *random, bool large, bool is_long) {
  static const int64_t sizes[] = {1,  2,  3,  4,  5,  7,  8,  9, 15, 16,
                                  17, 31, 32, 33, 48, 63, 65, 3, 17, 1};
  static const int64_t larges[] = {64, 96, 127, 129, 200, 256, 300};
  static const int64_t longs[] = {1500, 4096, 5003};
  if (is_long) return longs[loop_random_between(random, 0, 2)];
  if (large && loop_random_between(random, 0, 1) == 0)
    return larges[loop_random_between(random, 0, 6)];
  return sizes[loop_random_between(random, 0, 19)];
}

static ls_dtype any_dtype(loop_random *random) {
  static const ls_dtype dtypes[] = {LS_DTYPE_F32,  LS_DTYPE_F32, LS_DTYPE_F32,
                                    LS_DTYPE_F32,  LS_DTYPE_F64, LS_DTYPE_F64,
                                    LS_DTYPE_F16,  LS_DTYPE_F16, LS_DTYPE_F16,
                                    LS_DTYPE_BF16, LS_DTYPE_BF16};
  return dtypes[loop_random_between(random, 0, 10)];
}

static ls_type any_type(loop_random *random, const random_program *p,
                        int32_t least) {
  ls_type type = {.dtype = p->dtype};
  type.shape.rank = (int32_t)loop_random_between(random, least, 3);
  if (type.shape.rank == 3 && loop_random_between(random, 0, 1) == 0)
    type.shape.rank = 2;
  int64_t count = 1;
  for (int32_t i = type.shape.rank - 1; i >= 0; --i) {
    int64_t size = p->sizes[loop_random_between(random, 0, RANDOM_SIZES - 1)];
    if (count * size > RANDOM_MOST_ELEMENTS) size = 1;
    type.shape.dim[i] = size;
    count *= size;
  }
  if (least == 0 && type.shape.rank > 0 &&
      loop_random_between(random, 0, 30) == 0)
    type.shape.dim[0] = 0;
  return type;
}

random_program random_program_draw(uint64_t seed) {
  loop_random random = stream_of(seed, STREAM_FORM);
  random_program p = {.seed = seed, .dtype = any_dtype(&random)};
  const bool large = loop_random_between(&random, 0, 15) == 0;
  const bool is_long = loop_random_between(&random, 0, 19) == 0;
  for (size_t i = 0; i < RANDOM_SIZES; ++i)
    p.sizes[i] = any_size(&random, large, i == 0 && is_long);
  for (size_t i = 0; i < RANDOM_ARGS; ++i)
    p.args[i] = any_type(&random, &p, 0);
  p.args[RANDOM_ARGS - 1].dtype =
      loop_types[loop_random_between(&random, 0, LOOP_NUMBERS - 1)];
  for (size_t i = 0; i < RANDOM_VARIABLES; ++i)
    p.variables[i] = any_type(&random, &p, 1);
  p.length = (int)loop_random_between(&random, 2, 14);
  p.steps = (int)loop_random_between(&random, 2, 3);
  p.trains = loop_random_between(&random, 0, 7) != 0;
  p.through_flow = loop_random_between(&random, 0, 3) == 0;
  p.random = (ls_random_options){.seed = (int64_t)(seed % 1000),
                                 .fixed = true,
                                 .same_on_all_replicas =
                                     loop_random_between(&random, 0, 1) == 0};
  return p;
}

// Whole numbers of integers; floats of many bits.
static ls_array *draw_array(loop_random *random, ls_type type) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(type.dtype, type.shape, &array));
  for (int64_t k = 0; k < ls_array_num_elements(array); ++k) {
    double x = (loop_random_bits(random) * 0x1p-32 - 0.5) * 4;
    if (!ls_dtype_is_float(type.dtype)) x = floor(x * 3);
    if (ls_dtype_is_unsigned(type.dtype)) x = fabs(x);
    ls_array_set_f64(array, k, x);
  }
  return array;
}

ls_array *random_program_arg(const random_program *self, size_t index,
                             int replica) {
  loop_random random =
      stream_of(self->seed, STREAM_ARGS + index + 10 * (uint64_t)replica);
  return draw_array(&random, self->args[index]);
}

ls_array *random_program_initial(const random_program *self, size_t index) {
  loop_random random = stream_of(self->seed, STREAM_INITIAL + index);
  return draw_array(&random, self->variables[index]);
}

ls_status random_program_optimizer(const random_program *self,
                                   ls_optimizer **out_optimizer) {
  loop_random random = stream_of(self->seed, STREAM_OPTIMIZER);
  ls_optimizer_options options = {.learning_rate = 0.03};
  const int64_t kind = loop_random_between(&random, 0, 10);
  if (loop_random_between(&random, 0, 3) == 0) options.weight_decay = 0.01;
  if (loop_random_between(&random, 0, 4) == 0) options.clip.global_norm = 0.7;
  if (loop_random_between(&random, 0, 8) == 0) options.clip.norm = 0.5;
  if (loop_random_between(&random, 0, 8) == 0) options.clip.value = 0.1;
  if (loop_random_between(&random, 0, 6) == 0) options.accumulate = 2;
  if (loop_random_between(&random, 0, 4) == 0)
    options.schedule =
        (ls_schedule){.kind = LS_SCHEDULE_COSINE, .steps = 5, .warmup = 2};
  if (kind < 9)
    return ls_optimizer_create(ls_optimizer_kind((size_t)kind), &options,
                               out_optimizer);
  return ls_rmsprop_create(
      &(ls_rmsprop_options){.learning_rate = options.learning_rate,
                            .clip = options.clip,
                            .weight_decay = options.weight_decay,
                            .accumulate = options.accumulate,
                            .schedule = options.schedule,
                            .centered = kind == 9,
                            .momentum = kind == 10 ? 0.9 : 0.5},
      out_optimizer);
}

// ---- Building --------------------------------------------------------------
static void add_leaves(random_build *b, const ls_tensor *args) {
  static const char *const names[] = {"argument 0", "argument 1", "argument 2"};
  for (size_t i = 0; i < RANDOM_ARGS; ++i)
    random_add(b, names[i], args[i]);
  for (size_t i = 0; i < RANDOM_VARIABLES; ++i)
    random_add(b, "variable", ls_variable_read(b->variables[i]));
}

static void add_op(random_build *b) {
  const int64_t kind = random_between(b, 0, 15);
  if (kind < 4)
    random_add_element(b);
  else if (kind < 7)
    random_add_product(b);
  else if (kind < 9)
    random_add_shape(b);
  else if (kind < 11)
    random_add_rows(b);
  else if (kind < 12)
    random_add_flow(b);
  else
    random_add_case(b);
}

// The sum of some values' means, so that gradients come from many sides.
static ls_tensor loss_of(random_build *b) {
  random_values *values = b->values;
  const ls_tensor first = values->items[RANDOM_ARGS];
  ls_tensor loss = ls_reduce_mean(ls_square(first), LS_ALL_AXES);
  size_t taken = 0;
  for (size_t i = values->count; i-- > 0 && taken < 4;) {
    const ls_tensor x = values->items[i];
    if (!ls_dtype_is_float(ls_tensor_dtype(x)) || random_count_of(x) == 0)
      continue;
    if (i + 1 < values->count && random_one_in(b, 2)) continue;
    ls_tensor part = ls_convert(x, b->program->dtype);
    part = random_one_in(b, 2)   ? ls_square(ls_tanh(part))
           : random_one_in(b, 2) ? ls_sigmoid(part)
                                 : part;
    part = random_one_in(b, 3) ? ls_reduce_sum(part, LS_ALL_AXES)
                               : ls_reduce_mean(part, LS_ALL_AXES);
    loss = ls_add(loss, part);
    ++taken;
  }
  return loss;
}

void random_program_build(const random_program *self, const ls_tensor *args,
                          ls_variable *const *variables, random_values *out) {
  random_build b = {.program = self,
                    .random = stream_of(self->seed, STREAM_OPS),
                    .variables = variables,
                    .values = out};
  out->count = 0;
  add_leaves(&b, args);
  for (int i = 0; i < self->length; ++i)
    add_op(&b);
  out->loss = loss_of(&b);
}

// ---- Values ----------------------------------------------------------------
int64_t random_between(random_build *b, int64_t low, int64_t high) {
  return loop_random_between(&b->random, low, high);
}

bool random_one_in(random_build *b, int64_t n) {
  return random_between(b, 1, n) == 1;
}

ls_tensor random_add(random_build *b, const char *name, ls_tensor x) {
  random_values *values = b->values;
  if (values->count == RANDOM_VALUES) return x;
  values->names[values->count] = name;
  values->items[values->count++] = x;
  return x;
}

ls_tensor random_pick_any(random_build *b) {
  const int64_t last = (int64_t)b->values->count - 1;
  return b->values->items[random_between(b, 0, last)];
}

ls_tensor random_pick(random_build *b) {
  const int64_t last = (int64_t)b->values->count - 1;
  for (int i = 0; i < 8; ++i) {
    const int64_t least = random_one_in(b, 2) && last > 4 ? last - 4 : 0;
    const int64_t at = random_between(b, least, last);
    const ls_tensor x = b->values->items[at];
    if (at >= RANDOM_ARGS && at < RANDOM_ARGS + RANDOM_VARIABLES &&
        random_one_in(b, 3))
      return ls_variable_read(b->variables[at - RANDOM_ARGS]);
    if (ls_tensor_dtype(x) == b->program->dtype) return x;
  }
  return b->values->items[RANDOM_ARGS];
}

static int64_t count_in(ls_shape shape) {
  int64_t count = 1;
  for (int32_t i = 0; i < shape.rank; ++i)
    count *= shape.dim[i];
  return count;
}

int64_t random_count_of(ls_tensor x) { return count_in(ls_tensor_shape(x)); }

ls_tensor random_fit(ls_tensor x, ls_shape shape) {
  if (ls_shape_equal(ls_tensor_shape(x), shape)) return x;
  const int64_t have = random_count_of(x), want = count_in(shape);
  if (have == 0 || want == 0) return ls_fill(ls_tensor_dtype(x), shape, 0.625);
  if (have == 1) return ls_broadcast(ls_reshape(x, LS_SCALAR), shape);
  ls_tensor flat = ls_reshape(x, LS_SHAPE(have));
  if (have < want) {
    const int64_t times = (want + have - 1) / have;
    flat = ls_reshape(ls_broadcast(flat, LS_SHAPE(times, have)),
                      LS_SHAPE(times * have));
  }
  if (random_count_of(flat) != want) flat = ls_slice_axis(flat, 0, 0, want);
  return ls_reshape(flat, shape);
}

ls_tensor random_matrix(ls_tensor x) {
  const ls_shape shape = ls_tensor_shape(x);
  if (shape.rank == 0) return ls_reshape(x, LS_SHAPE(1, 1));
  const int64_t columns = shape.dim[shape.rank - 1];
  int64_t rows = 1;
  for (int32_t i = 0; i + 1 < shape.rank; ++i)
    rows *= shape.dim[i];
  if (shape.rank != 2) x = ls_reshape(x, LS_SHAPE(rows, columns));
  return x;
}

ls_tensor random_leaf(ls_nest nest, size_t index) {
  ls_nest leaves[RANDOM_LEAVES];
  const ls_status status = ls_nest_status(nest);
  if (!ls_status_is_ok(status)) {
    ls_status_free(status);
    return (ls_tensor){0};
  }
  const size_t count = ls_nest_flatten(nest, leaves, RANDOM_LEAVES);
  return index < count ? leaves[index].as.tensor : (ls_tensor){0};
}

int64_t random_size(random_build *b, int64_t beside) {
  const int64_t size =
      b->program->sizes[random_between(b, 0, RANDOM_SIZES - 1)];
  return size * beside <= RANDOM_MOST_ELEMENTS ? size : 2;
}

ls_tensor random_scalar(random_build *b, double value) {
  return ls_scalar(b->program->dtype, value);
}
