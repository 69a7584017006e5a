// SPDX-License-Identifier: Apache-2.0
//
// Sort and top_k.
//
// Each element becomes a key, an unsigned number with the requested order;
// pairs of key and position are sorted stably, by insertion if they are few,
// else digit by digit. A NaN is larger than any number; -0 and 0 are equal.
// Top_k keeps the first keys of those it has read, and sorts some at a time.
#include "engine/cpu/kernels/index.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

typedef struct keyed {
  uint64_t key;
  int64_t at;
} keyed;

enum {
  FEW = 32,  // Most elements sorted by insertion.
  DIGITS = 256,
  MAX_DIGITS = 8,  // Bytes of a key.
};

// ---- Keys ------------------------------------------------------------------
#define KEY_SIGNED(bits, x) ((uint64_t)(x) ^ UINT64_C(1) << ((bits)-1))
#define KEY_UNSIGNED(bits, x) ((uint64_t)(x))
// Maps the bits of a float of `bits` bits to an integer of the same order;
// `infinity` has the bits of infinity.
static inline uint64_t float_key(uint64_t x, int bits, uint64_t infinity) {
  const uint64_t sign = UINT64_C(1) << (bits - 1);
  const uint64_t magnitude = x & (sign - 1);
  const uint64_t negative = 0 - (x >> (bits - 1));  // All bits are equal.
  const uint64_t key = sign + ((magnitude ^ negative) - negative);  // -0 is 0.
  return magnitude > infinity ? sign | (sign - 1) : key;
}
#define KEY_F64(bits, x) float_key((x), 64, UINT64_C(0x7FF0000000000000))
#define KEY_F32(bits, x) float_key((x), 32, 0x7F800000U)
#define KEY_F16(bits, x) float_key((x), 16, 0x7C00U)
#define KEY_BF16(bits, x) float_key((x), 16, 0x7F80U)
#define KEY_BOOL(bits, x) ((uint64_t)((x) != 0))

typedef void (*key_function)(keyed *out, const void *in, int64_t step,
                             int64_t count, uint64_t flip);
#define KEYS(name, KEY, D, T, U)                                               \
  static void name##_##D(keyed *out, const void *in, int64_t step,             \
                         int64_t count, uint64_t flip) {                       \
    const T *a = in;                                                           \
    for (int64_t i = 0; i < count; ++i) {                                      \
      const uint64_t key = KEY(8 * (int)sizeof(T), (U)a[i * step]);            \
      out[i] = (keyed){key ^ flip, i};                                         \
    }                                                                          \
  }
KEYS(keys, KEY_SIGNED, I8, int8_t, uint8_t)
KEYS(keys, KEY_SIGNED, I16, int16_t, uint16_t)
KEYS(keys, KEY_SIGNED, I32, int32_t, uint32_t)
KEYS(keys, KEY_SIGNED, I64, int64_t, uint64_t)
KEYS(keys, KEY_UNSIGNED, U8, uint8_t, uint8_t)
KEYS(keys, KEY_UNSIGNED, U16, uint16_t, uint16_t)
KEYS(keys, KEY_UNSIGNED, U32, uint32_t, uint32_t)
KEYS(keys, KEY_UNSIGNED, U64, uint64_t, uint64_t)
KEYS(keys, KEY_F64, F64, uint64_t, uint64_t)
KEYS(keys, KEY_F32, F32, uint32_t, uint32_t)
KEYS(keys, KEY_F16, F16, uint16_t, uint16_t)
KEYS(keys, KEY_BF16, BF16, uint16_t, uint16_t)
KEYS(keys, KEY_BOOL, BOOL, uint8_t, uint8_t)

static const key_function key_functions[LS_DTYPE_COUNT] = {
    [LS_DTYPE_I8] = keys_I8,     [LS_DTYPE_I16] = keys_I16,
    [LS_DTYPE_I32] = keys_I32,   [LS_DTYPE_I64] = keys_I64,
    [LS_DTYPE_U8] = keys_U8,     [LS_DTYPE_U16] = keys_U16,
    [LS_DTYPE_U32] = keys_U32,   [LS_DTYPE_U64] = keys_U64,
    [LS_DTYPE_F64] = keys_F64,   [LS_DTYPE_F32] = keys_F32,
    [LS_DTYPE_F16] = keys_F16,   [LS_DTYPE_BF16] = keys_BF16,
    [LS_DTYPE_BOOL] = keys_BOOL,
};

// ---- Sorting keys ----------------------------------------------------------
// Scratch of a thread: the keys, as many again, and the counts.
typedef struct workspace {
  keyed *keys, *others;
  int64_t (*counts)[DIGITS];  // MAX_DIGITS tables.
} workspace;

static size_t workspace_size(int64_t count) {
  return sizeof(int64_t[MAX_DIGITS][DIGITS]) +
         2 * (size_t)count * sizeof(keyed);
}

static workspace workspace_of(void *scratch, int64_t count) {
  workspace work = {.counts = scratch};
  work.keys = (keyed *)(void *)(work.counts + MAX_DIGITS);
  work.others = work.keys + count;
  return work;
}

static void sort_few(keyed *keys, int64_t count) {
  for (int64_t i = 1; i < count; ++i) {
    const keyed moved = keys[i];
    int64_t k = i;
    for (; k > 0 && keys[k - 1].key > moved.key; --k)
      keys[k] = keys[k - 1];
    keys[k] = moved;
  }
}

static void count_digits(const workspace *work, int64_t count, int digits) {
  memset(work->counts, 0, (size_t)digits * sizeof(*work->counts));
  for (int64_t i = 0; i < count; ++i)
    for (int d = 0; d < digits; ++d)
      ++work->counts[d][work->keys[i].key >> (8 * d) & (DIGITS - 1)];
}

// Sorts the keys; the result is `work->keys`.
static void sort_keys(workspace *work, int64_t count, int digits) {
  if (count <= FEW) {
    sort_few(work->keys, count);
    return;
  }
  count_digits(work, count, digits);
  for (int d = 0; d < digits; ++d) {
    int64_t *places = work->counts[d];
    const int shift = 8 * d;
    // One digit for all keys: nothing moves.
    if (places[work->keys[0].key >> shift & (DIGITS - 1)] == count) continue;
    int64_t sum = 0;
    for (int i = 0; i < DIGITS; ++i) {
      const int64_t here = places[i];
      places[i] = sum;
      sum += here;
    }
    for (int64_t i = 0; i < count; ++i)
      work->others[places[work->keys[i].key >> shift & (DIGITS - 1)]++] =
          work->keys[i];
    keyed *sorted = work->others;
    work->others = work->keys;
    work->keys = sorted;
  }
}

// Returns the mask that reverses the order: all bits of a key.
static uint64_t flip_of(ls_dtype dtype) {
  return UINT64_MAX >> (64 - 8 * ls_dtype_size(dtype));
}

// ---- Sort ------------------------------------------------------------------
typedef struct sort_params {
  int64_t lines, size, inner, lines_per_block;
  key_function keys;
  uint64_t flip;
  int digits;
  size_t num_operands;
  const size_t *elements;  // Bytes of an element, per operand.
} sort_params;

// Moves elements of an operand, `step` apart, in the order of the keys.
static void move_line(void *out, const void *in, const keyed *keys,
                      int64_t count, int64_t step, size_t element) {
  switch (element) {
#define CASE(unused, bytes, T)                                                 \
  case bytes: {                                                                \
    T *o = out;                                                                \
    const T *a = in;                                                           \
    for (int64_t i = 0; i < count; ++i)                                        \
      o[i * step] = a[keys[i].at * step];                                      \
    break;                                                                     \
  }
    LS_EACH_SIZE(CASE, )
#undef CASE
  default:
    break;
  }
}

// Copies lines of one element.
static void copy_lines(const sort_params *self, const ls_kernel_call *call,
                       int64_t begin, int64_t end) {
  for (size_t k = 0; k < self->num_operands; ++k)
    memcpy((char *)call->out[k] + (size_t)begin * self->elements[k],
           (const char *)call->in[k] + (size_t)begin * self->elements[k],
           (size_t)(end - begin) * self->elements[k]);
  memset((int64_t *)call->out[self->num_operands] + begin, 0,
         (size_t)(end - begin) * sizeof(int64_t));
}

static void sort_loop(const ls_kernel_call *call, int64_t begin_block,
                      int64_t end_block) {
  const sort_params *self = call->params;
  const int64_t step = self->inner;
  const int64_t end =
      ls_min_i64(end_block * self->lines_per_block, self->lines);
  if (self->size == 1) {
    copy_lines(self, call, begin_block * self->lines_per_block, end);
    return;
  }
  for (int64_t i = begin_block * self->lines_per_block; i < end; ++i) {
    const size_t at = (size_t)(i / step * self->size * step + i % step);
    workspace work = workspace_of(call->scratch, self->size);
    self->keys(work.keys, (const char *)call->in[0] + at * self->elements[0],
               step, self->size, self->flip);
    sort_keys(&work, self->size, self->digits);
    for (size_t k = 0; k < self->num_operands; ++k)
      move_line((char *)call->out[k] + at * self->elements[k],
                (const char *)call->in[k] + at * self->elements[k], work.keys,
                self->size, step, self->elements[k]);
    int64_t *places = (int64_t *)call->out[self->num_operands] + at;
    for (int64_t k = 0; k < self->size; ++k)
      places[k * step] = work.keys[k].at;
  }
}

ls_status kernel_sort(ls_kernel_plan *plan) {
  const ls_type type = plan->in[0];
  LS_ARENA_NEW_OR_RETURN(plan->arena, sort_params, self);
  LS_ARENA_ARRAY_OR_RETURN(plan->arena, size_t, elements, plan->num_in);
  self->keys = key_functions[type.dtype];
  if (self->keys == NULL) return ls_kernel_unsupported(plan, type.dtype);
  for (size_t i = 0; i < plan->num_in; ++i) {
    if (!ls_is_plain(plan->in[i].dtype))
      return ls_kernel_unsupported(plan, plan->in[i].dtype);
    elements[i] = ls_dtype_size(plan->in[i].dtype);
  }
  const int32_t axis = (int32_t)ls_node_int(plan->node, LS_ATTR_ID_AXIS);
  const int64_t count = ls_shape_num_elements(type.shape);
  self->size = type.shape.dim[axis];
  self->inner = ls_step_of(type.shape, axis);
  self->lines = count == 0 ? 0 : count / self->size;
  self->lines_per_block = ls_max_i64(1, LS_BLOCK / ls_max_i64(1, self->size));
  self->digits = (int)elements[0];
  if (ls_node_int(plan->node, LS_ATTR_ID_DESCENDING) != 0)
    self->flip = flip_of(type.dtype);
  self->num_operands = plan->num_in;
  self->elements = elements;
  plan->scratch = self->lines == 0 ? 0 : workspace_size(self->size);
  return ls_kernel_runs(plan, sort_loop, self,
                        ls_blocks_of(self->lines, self->lines_per_block));
}

// ---- Top k -----------------------------------------------------------------
typedef struct top_params {
  int64_t rows, size, k, rows_per_block;
  int64_t most;  // Most keys in the workspace.
  key_function keys;
  uint64_t flip;
  int digits;
  size_t element;
} top_params;

// Reads a row of keys and puts the `k` first ones in order, at most FEW. Most
// other keys are larger than the k-th of those read so far.
static void select_few(const top_params *self, keyed *keys, const char *row) {
  keyed chunk[LS_INDEX_CHUNK];
  const int64_t k = self->k;
  self->keys(keys, row, 1, k, self->flip);
  sort_few(keys, k);
  for (int64_t from = k; from < self->size; from += LS_INDEX_CHUNK) {
    const int64_t count = ls_min_i64(LS_INDEX_CHUNK, self->size - from);
    self->keys(chunk, row + (size_t)from * self->element, 1, count, self->flip);
    for (int64_t i = 0; i < count; ++i) {
      if (keys[k - 1].key <= chunk[i].key) continue;
      int64_t at = k - 1;
      for (; at > 0 && keys[at - 1].key > chunk[i].key; --at)
        keys[at] = keys[at - 1];
      keys[at] = (keyed){chunk[i].key, from + chunk[i].at};
    }
  }
}

// Reads a row of keys and sorts the `k` first ones to the front: those before
// the k-th of the keys read so far are collected, and sorted when there are
// `most`, of which k remain.
static void select_many(const top_params *self, workspace *work,
                        const char *row) {
  keyed chunk[LS_INDEX_CHUNK];
  int64_t kept = 0;
  uint64_t limit = UINT64_MAX;
  for (int64_t from = 0; from < self->size; from += LS_INDEX_CHUNK) {
    const int64_t count = ls_min_i64(LS_INDEX_CHUNK, self->size - from);
    self->keys(chunk, row + (size_t)from * self->element, 1, count, self->flip);
    for (int64_t i = 0; i < count; ++i) {
      if (chunk[i].key > limit) continue;
      work->keys[kept++] = (keyed){chunk[i].key, from + chunk[i].at};
      if (kept < self->most) continue;
      sort_keys(work, kept, self->digits);
      kept = self->k;
      // Later keys that are equal to the k-th are not among the first.
      limit = work->keys[kept - 1].key;
      if (limit-- == 0) return;
    }
  }
  sort_keys(work, kept, self->digits);
}

static void top_loop(const ls_kernel_call *call, int64_t begin_block,
                     int64_t end_block) {
  const top_params *self = call->params;
  int64_t i = begin_block * self->rows_per_block;
  const int64_t end = ls_min_i64(end_block * self->rows_per_block, self->rows);
  if (self->size == 1 && i < end) {
    memcpy((char *)call->out[0] + (size_t)i * self->element,
           (const char *)call->in[0] + (size_t)i * self->element,
           (size_t)(end - i) * self->element);
    memset((int32_t *)call->out[1] + i, 0, (size_t)(end - i) * sizeof(int32_t));
    return;
  }
  for (; i < end; ++i) {
    const char *row =
        (const char *)call->in[0] + (size_t)(i * self->size) * self->element;
    workspace work = workspace_of(call->scratch, self->most);
    if (self->k <= FEW)
      select_few(self, work.keys, row);
    else
      select_many(self, &work, row);
    move_line((char *)call->out[0] + (size_t)(i * self->k) * self->element, row,
              work.keys, self->k, 1, self->element);
    int32_t *places = (int32_t *)call->out[1] + i * self->k;
    for (int64_t n = 0; n < self->k; ++n)
      places[n] = (int32_t)work.keys[n].at;
  }
}

ls_status kernel_top_k(ls_kernel_plan *plan) {
  const ls_type type = plan->in[0];
  const int64_t size = type.shape.dim[type.shape.rank - 1];
  if (key_functions[type.dtype] == NULL)
    return ls_kernel_unsupported(plan, type.dtype);
  if (size > INT32_MAX && ls_shape_num_elements(type.shape) > 0)
    return ls_unimplemented("top_k of %s: its indices are i32",
                            LS_SHAPE_TEXT(type.dtype, type.shape));
  LS_ARENA_NEW_OR_RETURN(plan->arena, top_params, self);
  self->size = size;
  self->k = ls_node_int(plan->node, LS_ATTR_ID_K);
  // Writes nothing for k = 0.
  const int64_t count = ls_shape_num_elements(plan->out[0].shape);
  self->rows = count == 0 ? 0 : count / self->k;
  self->rows_per_block = ls_max_i64(1, LS_BLOCK / ls_max_i64(1, size));
  self->keys = key_functions[type.dtype];
  self->flip = flip_of(type.dtype);
  self->element = ls_dtype_size(type.dtype);
  self->digits = (int)self->element;
  const int64_t most = 2 * self->k + DIGITS;
  self->most = size > 2 * most ? most : size + 1;
  plan->scratch = workspace_size(self->most);
  return ls_kernel_runs(plan, top_loop, self,
                        ls_blocks_of(self->rows, self->rows_per_block));
}
