// SPDX-License-Identifier: Apache-2.0
//
// Numbers, places, attributes and memory of the reference.
#include <math.h>
#include <stdlib.h>

#include "lockstep/half.h"
#include "lockstep/shape_rules.h"
#include "support/expect.h"
#include "support/reference_ops.h"

// ---- Memory ----------------------------------------------------------------
// A stack: what was put on it, as a list.
typedef struct ref_layer {
  ref_tensor value;
  struct ref_layer *below;
} ref_layer;

typedef struct ref_held {
  const ls_variable *variable;
  ref_tensor value;
} ref_held;

enum { MOST_STACKS = 4096, MOST_VARIABLES = 16 };

struct ref_run {
  ls_arena arena;
  ref_layer *stacks[MOST_STACKS];
  bool endless[MOST_STACKS];
  int64_t num_stacks;
  ref_held variables[MOST_VARIABLES];
  size_t num_variables;
};

ref_run *ref_run_create(void) {
  ref_run *run = calloc(1, sizeof(*run));
  assert_non_null(run);
  ls_arena_init(&run->arena, ls_allocator_system());
  return run;
}

void ref_run_destroy(ref_run *run) {
  ls_arena_deinit(&run->arena);
  free(run);
}

void *ref_allocate(ref_run *run, size_t count, size_t size) {
  void *memory = ls_arena_allocate_array(&run->arena, count + 1, size);
  assert_non_null(memory);
  return memory;
}

ref_tensor ref_tensor_create(ref_run *run, ls_type type) {
  const int64_t count = ls_shape_num_elements(type.shape);
  assert_true(count >= 0);
  return (ref_tensor){type, count,
                      ref_allocate(run, (size_t)count, sizeof(ref_number))};
}

ref_tensor ref_tensor_load(ref_run *run, ls_type type, const void *data) {
  ref_tensor made = ref_tensor_create(run, type);
  for (int64_t k = 0; k < made.count; ++k)
    made.at[k] = ref_load(type.dtype, data, k);
  return made;
}

static ref_held *held(ref_run *run, const ls_variable *variable) {
  for (size_t i = 0; i < run->num_variables; ++i)
    if (run->variables[i].variable == variable) return &run->variables[i];
  assert_true(run->num_variables < MOST_VARIABLES);
  run->variables[run->num_variables].variable = variable;
  return &run->variables[run->num_variables++];
}

void ref_set_variable(ref_run *run, const ls_variable *variable,
                      ref_tensor value) {
  held(run, variable)->value = value;
}

ref_tensor ref_variable(ref_run *run, const ls_variable *variable) {
  const ref_held *found = held(run, variable);
  if (found->value.at == NULL) fail_msg("a variable has no value");
  return found->value;
}

int64_t ref_stack_create(ref_run *run, bool endless) {
  assert_true(run->num_stacks < MOST_STACKS);
  run->endless[run->num_stacks] = endless;
  return run->num_stacks++;
}

void ref_stack_add(ref_run *run, int64_t stack, ref_tensor value) {
  ref_layer *layer = ref_allocate(run, 1, sizeof(*layer));
  *layer = (ref_layer){value, run->stacks[stack]};
  run->stacks[stack] = layer;
}

bool ref_stack_take(ref_run *run, int64_t stack, ref_tensor *out) {
  const ref_layer *top = run->stacks[stack];
  if (top == NULL) return run->endless[stack];
  ref_copy(&top->value, out);
  run->stacks[stack] = top->below;
  return true;
}

// ---- Attributes ------------------------------------------------------------
int64_t ref_int(const ref_op *op, const char *name, int64_t fallback) {
  const ls_attr *attr = ls_node_attr_named(op->node, name);
  return attr == NULL ? fallback : attr->as.i;
}

double ref_real(const ref_op *op, const char *name, double fallback) {
  const ls_attr *attr = ls_node_attr_named(op->node, name);
  return attr == NULL ? fallback : attr->as.f;
}

bool ref_is(const ref_op *op, const char *name, const char *text) {
  const ls_attr *attr = ls_node_attr_named(op->node, name);
  return attr != NULL && strcmp(attr->as.string, text) == 0;
}

int64_t ref_item(const ref_op *op, const char *name, int32_t index,
                 int64_t fallback) {
  const ls_attr *attr = ls_node_attr_named(op->node, name);
  if (attr == NULL) return fallback;
  assert_true((size_t)index < attr->as.ints.count);
  return attr->as.ints.items[index];
}

bool ref_lists(const ref_op *op, const char *name, int64_t value) {
  const ls_attr *attr = ls_node_attr_named(op->node, name);
  for (size_t i = 0; attr != NULL && i < attr->as.ints.count; ++i)
    if (attr->as.ints.items[i] == value) return true;
  return false;
}

// ---- Places ----------------------------------------------------------------
void ref_place(ls_shape shape, int64_t index, int64_t place[LS_MAX_RANK]) {
  for (int32_t i = shape.rank; i-- > 0;) {
    place[i] = index % shape.dim[i];
    index /= shape.dim[i];
  }
}

int64_t ref_index(ls_shape shape, const int64_t place[LS_MAX_RANK]) {
  int64_t index = 0;
  for (int32_t i = 0; i < shape.rank; ++i) {
    assert_true(place[i] >= 0 && place[i] < shape.dim[i]);
    index = index * shape.dim[i] + place[i];
  }
  return index;
}

int64_t ref_aligned(const ref_tensor *x, ls_shape to, int64_t index) {
  int64_t place[LS_MAX_RANK], own[LS_MAX_RANK];
  const ls_shape shape = x->type.shape;
  ref_place(to, index, place);
  for (int32_t i = 0; i < shape.rank; ++i)
    own[i] = shape.dim[i] == 1 ? 0 : place[to.rank - shape.rank + i];
  return ref_index(shape, own);
}

int64_t ref_inner(ls_shape shape, int32_t axis) {
  int64_t step = 1;
  for (int32_t i = axis + 1; i < shape.rank; ++i)
    step *= shape.dim[i];
  return step;
}

int64_t ref_outer(ls_shape shape, int32_t axis) {
  int64_t count = 1;
  for (int32_t i = 0; i < axis; ++i)
    count *= shape.dim[i];
  return count;
}

// ---- Numbers ---------------------------------------------------------------
ref_number ref_real_number(double value) { return (ref_number){.real = value}; }

static int64_t wrapped(ls_dtype dtype, int64_t whole) {
  switch (dtype) {
  case LS_DTYPE_I8:
    return (int8_t)whole;
  case LS_DTYPE_I16:
    return (int16_t)whole;
  case LS_DTYPE_I32:
    return (int32_t)whole;
  case LS_DTYPE_U8:
    return (uint8_t)whole;
  case LS_DTYPE_U16:
    return (uint16_t)whole;
  case LS_DTYPE_U32:
    return (uint32_t)whole;
  default:
    return whole;
  }
}

ref_number ref_stored(ls_dtype dtype, ref_number value) {
  value.whole = wrapped(dtype, value.whole);
  if (dtype == LS_DTYPE_F32) value.real = (double)(float)value.real;
  if (dtype == LS_DTYPE_F16)
    value.real = (double)ls_f16_to_f32(ls_f16_from_f32((float)value.real));
  if (dtype == LS_DTYPE_BF16)
    value.real = (double)ls_bf16_to_f32(ls_bf16_from_f32((float)value.real));
  return value;
}

ref_number ref_load(ls_dtype dtype, const void *data, int64_t index) {
  const size_t size = ls_dtype_size(dtype);
  const char *at = (const char *)data + (size_t)index * size;
  if (dtype == LS_DTYPE_F64) {
    double x;
    memcpy(&x, at, sizeof(x));
    return ref_real_number(x);
  }
  if (dtype == LS_DTYPE_F32) {
    float x;
    memcpy(&x, at, sizeof(x));
    return ref_real_number((double)x);
  }
  uint64_t bits = 0;  // Of a little-endian machine, as all of ours.
  memcpy(&bits, at, size);
  if (dtype == LS_DTYPE_F16)
    return ref_real_number((double)ls_f16_to_f32((uint16_t)bits));
  if (dtype == LS_DTYPE_BF16)
    return ref_real_number((double)ls_bf16_to_f32((uint16_t)bits));
  if (dtype == LS_DTYPE_BOOL) bits = bits != 0;  // Any byte but 0 is true.
  return (ref_number){.whole = wrapped(dtype, (int64_t)bits)};
}

void ref_store(ls_dtype dtype, ref_number value, void *data, int64_t index) {
  const size_t size = ls_dtype_size(dtype);
  uint64_t bits = (uint64_t)value.whole;
  const float real = (float)value.real;
  if (dtype == LS_DTYPE_F64) memcpy(&bits, &value.real, sizeof(bits));
  if (dtype == LS_DTYPE_F32) memcpy(&bits, &real, sizeof(real));
  if (dtype == LS_DTYPE_F16) bits = ls_f16_from_f32(real);
  if (dtype == LS_DTYPE_BF16) bits = ls_bf16_from_f32(real);
  memcpy((char *)data + (size_t)index * size, &bits, size);
}

double ref_double(ls_dtype dtype, ref_number value) {
  if (ls_dtype_is_float(dtype)) return value.real;
  return dtype == LS_DTYPE_U64 ? (double)(uint64_t)value.whole
                               : (double)value.whole;
}

int ref_order(ls_dtype dtype, ref_number a, ref_number b) {
  if (ls_dtype_is_float(dtype)) {
    if (isnan(a.real) || isnan(b.real))
      return (isnan(a.real) != 0) - (isnan(b.real) != 0);
    return (a.real > b.real) - (a.real < b.real);
  }
  if (dtype == LS_DTYPE_U64) {
    const uint64_t x = (uint64_t)a.whole, y = (uint64_t)b.whole;
    return (x > y) - (x < y);
  }
  return (a.whole > b.whole) - (a.whole < b.whole);
}

// How much the number counts for rounding.
static double weight(ref_number x) {
  const double real = fabs(x.real);
  return x.terms > real ? x.terms : real;
}

ref_number ref_sum(ls_dtype dtype, ref_number a, ref_number b) {
  return (ref_number){
      .real = a.real + b.real,
      .whole = wrapped(dtype, (int64_t)((uint64_t)a.whole + (uint64_t)b.whole)),
      .terms = weight(a) + weight(b),
  };
}

ref_number ref_product(ls_dtype dtype, ref_number a, ref_number b) {
  return (ref_number){
      .real = a.real * b.real,
      .whole = wrapped(dtype, (int64_t)((uint64_t)a.whole * (uint64_t)b.whole)),
      .terms = weight(a) * weight(b),
  };
}

ref_number ref_one(ls_dtype dtype) {
  return ls_dtype_is_float(dtype) ? ref_real_number(1)
                                  : (ref_number){.whole = 1};
}

ref_number ref_limit(ls_dtype dtype, bool largest) {
  if (ls_dtype_is_float(dtype))
    return ref_real_number(largest ? (double)INFINITY : -(double)INFINITY);
  const unsigned bits = 8 * (unsigned)ls_dtype_size(dtype);
  if (ls_dtype_is_unsigned(dtype))
    return (ref_number){.whole = largest ? wrapped(dtype, (int64_t)~UINT64_C(0))
                                         : 0};
  const int64_t most = (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
  return (ref_number){.whole = largest ? most : -most - 1};
}

void ref_copy(const ref_tensor *from, ref_tensor *to) {
  assert_int_equal(from->count, to->count);
  memcpy(to->at, from->at, (size_t)to->count * sizeof(*to->at));
}

void ref_nothing(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  (void)op;
  (void)in;
  (void)out;
}

void ref_copies(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  for (size_t i = 0; i < op->num_out; ++i)
    ref_copy(&in[i], &out[i]);
}
