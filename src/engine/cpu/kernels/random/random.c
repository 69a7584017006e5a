// SPDX-License-Identifier: Apache-2.0
//
// Random numbers. Element i is drawn from block i / 4 of the op's key (f64: i /
// 2), so its value does not depend on how the work is cut. With a key per
// example each row has its own, and i counts in the row.
//
// A truncated normal number that is beyond two deviations is replaced by the
// one at the same position in block i / 4 + 2^48, then + 2 * 2^48 and so on.
// One draw in 22 is beyond; after 64 attempts the number is clamped.
#include <math.h>

#include "engine/cpu/kernels/index.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"
#include "engine/cpu/kernels/random/draw.h"

typedef enum random_kind { UNIFORM, NORMAL, TRUNCATED, BITS } random_kind;

typedef struct random_params {
  int64_t count;
  int64_t width, rows_per_block;  // Elements of a row that has its own key.
  ls_draw draw;
  random_kind kind;
  ls_dtype dtype;
  const ls_cpu_kernels *kernels;
  ls_random_range range;  // For normals: deviation, mean, no limits.
} random_params;

// Blocks drawn at a time, so that they are computed in vectors.
enum { DRAWN = 16, WORDS = 4 * DRAWN };

static void draw_blocks(const random_params *self,
                        const ls_random_source *source, int64_t first,
                        uint32_t bits[WORDS]) {
  self->kernels->random_bits(bits, source, (uint64_t)first, DRAWN);
}

// Shift of the attempt's number in the block number, and the most attempts.
enum { ATTEMPT_SHIFT = 48, ATTEMPTS = 64 };

static bool is_within(double x) { return x >= -2.0 && x <= 2.0; }

static double clamp_normal(double x) {
  return x < -2.0 ? -2.0 : x > 2.0 ? 2.0 : x;
}

// Redraws those of a block's four normals that are out of range.
static void draw_again_f32(const ls_random_source *source, int64_t block,
                           float x[4]) {
  for (uint64_t attempt = 1; attempt < ATTEMPTS; ++attempt) {
    bool done = true;
    for (int k = 0; k < 4; ++k)
      done = done && is_within((double)x[k]);
    if (done) return;
    uint32_t bits[4];
    float next[4];
    ls_random_source_bits(source, (uint64_t)block + (attempt << ATTEMPT_SHIFT),
                          bits);
    ls_random_normals_f32(bits, next);
    for (int k = 0; k < 4; ++k)
      if (!is_within((double)x[k])) x[k] = next[k];
  }
  for (int k = 0; k < 4; ++k)
    x[k] = (float)clamp_normal((double)x[k]);
}

static void draw_again_f64(const ls_random_source *source, int64_t block,
                           double x[2]) {
  for (uint64_t attempt = 1; attempt < ATTEMPTS; ++attempt) {
    if (is_within(x[0]) && is_within(x[1])) return;
    uint32_t bits[4];
    double next[2];
    ls_random_source_bits(source, (uint64_t)block + (attempt << ATTEMPT_SHIFT),
                          bits);
    ls_random_normals_f64(bits, next);
    for (int k = 0; k < 2; ++k)
      if (!is_within(x[k])) x[k] = next[k];
  }
  for (int k = 0; k < 2; ++k)
    x[k] = clamp_normal(x[k]);
}

// Returns true if numbers are scaled or clamped from below.
static bool has_edges(const ls_random_range *range) {
  return range->scale != 1 || range->least > -(double)INFINITY;
}

#define KEEP_EDGE(name, T)                                                     \
  static void name(const ls_random_range *range, T *x, int64_t count) {        \
    const T scale = (T)range->scale, least = (T)range->least;                  \
    for (int64_t i = 0; i < count; ++i) {                                      \
      const T y = x[i] * scale;                                                \
      x[i] = y < least ? least : y;                                            \
    }                                                                          \
  }
KEEP_EDGE(keep_edge_f32, float)
KEEP_EDGE(keep_edge_f64, double)

// Draws elements [at, at + count); `at` is a multiple of the elements of a
// group of blocks.
static void draw_f32(const random_params *self, const ls_random_source *source,
                     float *out, int64_t at, int64_t count) {
  const ls_random_range *range = &self->range;
  const bool is_edged = has_edges(range);
  const float factor = (float)range->factor, offset = (float)range->offset;
  const float most = (float)(range->most / range->scale);
  for (int64_t i = 0; i < count; i += WORDS) {
    uint32_t bits[WORDS];
    float numbers[WORDS];
    draw_blocks(self, source, (at + i) / 4, bits);
    if (self->kind == UNIFORM)
      for (int k = 0; k < WORDS; ++k)
        numbers[k] = ls_random_uniform_f32(bits[k]);
    else
      self->kernels->normals(numbers, bits, WORDS / 2);
    if (self->kind == TRUNCATED)
      for (int k = 0; k < WORDS; k += 4)
        draw_again_f32(source, (at + i + k) / 4, numbers + k);
    const int64_t left = ls_min_i64(WORDS, count - i);
    for (int64_t k = 0; k < left; ++k) {
      const float x = numbers[k] * factor + offset;
      out[i + k] = x > most ? most : x;
    }
    if (is_edged) keep_edge_f32(range, out + i, left);
  }
}

static void draw_f64(const random_params *self, const ls_random_source *source,
                     double *out, int64_t at, int64_t count) {
  const ls_random_range *range = &self->range;
  const bool is_edged = has_edges(range);
  const double factor = range->factor, offset = range->offset;
  const double most = range->most / range->scale;
  for (int64_t i = 0; i < count; i += WORDS / 2) {
    uint32_t bits[WORDS];
    double numbers[WORDS / 2];
    draw_blocks(self, source, (at + i) / 2, bits);
    if (self->kind == UNIFORM)
      for (int k = 0; k < WORDS / 2; ++k)
        numbers[k] = ls_random_uniform_f64(bits[2 * k], bits[2 * k + 1]);
    else
      self->kernels->normals_f64(numbers, bits, WORDS / 4);
    if (self->kind == TRUNCATED)
      for (int k = 0; k < WORDS / 2; k += 2)
        draw_again_f64(source, (at + i + k) / 2, numbers + k);
    const int64_t left = ls_min_i64(WORDS / 2, count - i);
    for (int64_t k = 0; k < left; ++k) {
      const double x = numbers[k] * factor + offset;
      out[i + k] = x > most ? most : x;
    }
    if (is_edged) keep_edge_f64(range, out + i, left);
  }
}

// Writes the words of the blocks unchanged; 64-bit values have the upper half
// first.
static void draw_bits(const random_params *self, const ls_random_source *source,
                      void *out, int64_t at, int64_t count) {
  const bool wide = self->dtype == LS_DTYPE_U64;
  const int64_t drawn = wide ? WORDS / 2 : WORDS;
  for (int64_t i = 0; i < count; i += drawn) {
    uint32_t bits[WORDS];
    draw_blocks(self, source, (at + i) / (wide ? 2 : 4), bits);
    const int64_t left = ls_min_i64(drawn, count - i);
    for (int64_t k = 0; k < left; ++k) {
      if (wide)
        ((uint64_t *)out)[i + k] =
            (uint64_t)bits[2 * k] << 32 | bits[2 * k + 1];
      else
        ((uint32_t *)out)[i + k] = bits[k];
    }
  }
}

// Draws elements [begin, end) of the array or row at `out`.
static void draw_range(const random_params *self,
                       const ls_random_source *source, void *out, int64_t begin,
                       int64_t end, float *chunk) {
  if (self->kind == BITS) {
    void *at = (char *)out + (size_t)begin * ls_dtype_size(self->dtype);
    draw_bits(self, source, at, begin, end - begin);
  } else if (self->dtype == LS_DTYPE_F64) {
    draw_f64(self, source, (double *)out + begin, begin, end - begin);
  } else if (self->dtype == LS_DTYPE_F32) {
    draw_f32(self, source, (float *)out + begin, begin, end - begin);
  } else {
    for (int64_t k = begin; k < end; k += LS_CHUNK) {
      const int64_t count = ls_min_i64(LS_CHUNK, end - k);
      draw_f32(self, source, chunk, k, count);
      ls_narrow(self->dtype, (uint16_t *)out + k, chunk, count);
    }
  }
}

static void random_loop(const ls_kernel_call *call, int64_t begin_block,
                        int64_t end_block) {
  const random_params *self = call->params;
  const ls_random_source source = ls_draw_source(&self->draw, call);
  draw_range(self, &source, call->out[0], begin_block * LS_BLOCK,
             ls_min_i64(end_block * LS_BLOCK, self->count), call->scratch);
}

static void random_rows_loop(const ls_kernel_call *call, int64_t begin_block,
                             int64_t end_block) {
  const random_params *self = call->params;
  ls_random_source source = ls_draw_source(&self->draw, call);
  const int64_t *ids = call->in[0];
  const size_t bytes = (size_t)self->width * ls_dtype_size(self->dtype);
  const int64_t end = ls_min_i64(end_block * self->rows_per_block, self->count);
  for (int64_t i = begin_block * self->rows_per_block; i < end; ++i) {
    source.id = (uint64_t)ids[i];
    draw_range(self, &source, (char *)call->out[0] + (size_t)i * bytes, 0,
               self->width, call->scratch);
  }
}

static random_kind find_kind(const ls_node *node) {
  const uint16_t op = node->type;
  if (op == LS_OP_RANDOM_BY_EXAMPLE) {
    const char *name = ls_node_attr(node, LS_ATTR_ID_DISTRIBUTION)->as.string;
    return strcmp(name, "uniform") == 0  ? UNIFORM
           : strcmp(name, "normal") == 0 ? NORMAL
                                         : TRUNCATED;
  }
  if (op == LS_OP_RANDOM_NORMAL) return NORMAL;
  if (op == LS_OP_RANDOM_TRUNCATED_NORMAL) return TRUNCATED;
  return op == LS_OP_RANDOM_BITS ? BITS : UNIFORM;
}

static bool can_draw(random_kind kind, ls_dtype dtype) {
  return kind == BITS ? dtype == LS_DTYPE_U32 || dtype == LS_DTYPE_U64
                      : ls_dtype_is_float(dtype);
}

ls_status kernel_random(ls_kernel_plan *plan) {
  const ls_node *node = plan->node;
  const ls_dtype dtype = plan->out[0].dtype;
  const random_kind kind = find_kind(node);
  if (!can_draw(kind, dtype)) return ls_kernel_unsupported(plan, dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, random_params, self);
  *self = (random_params){
      .count = ls_shape_num_elements(plan->out[0].shape),
      .draw = ls_draw_of(node),
      .kind = kind,
      .dtype = dtype,
      .kernels = plan->kernels,
  };
  if (kind == NORMAL || kind == TRUNCATED) {
    self->range =
        (ls_random_range){.factor = ls_node_real(node, LS_ATTR_ID_DEVIATION),
                          .offset = ls_node_real(node, LS_ATTR_ID_MEAN),
                          .scale = 1,
                          .least = -(double)INFINITY,
                          .most = (double)INFINITY};
  } else if (kind == UNIFORM) {
    self->range = ls_random_range_of(dtype, ls_node_real(node, LS_ATTR_ID_LOW),
                                     ls_node_real(node, LS_ATTR_ID_HIGH));
  }
  plan->loop = random_loop;
  plan->params = self;
  plan->blocks = ls_blocks_of(self->count, LS_BLOCK);
  if (ls_is_half(dtype)) plan->scratch = (size_t)LS_CHUNK * sizeof(float);
  if (node->type == LS_OP_RANDOM_BY_EXAMPLE) {
    self->width = ls_step_of(plan->out[0].shape, 0);
    self->count = plan->out[0].shape.dim[0];
    self->rows_per_block = ls_max_i64(1, LS_BLOCK / ls_max_i64(1, self->width));
    plan->loop = random_rows_loop;
    plan->blocks = ls_blocks_of(self->count, self->rows_per_block);
  }
  return ls_ok();
}
