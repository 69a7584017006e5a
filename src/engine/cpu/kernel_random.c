// SPDX-License-Identifier: Apache-2.0
//
// Random numbers. Element i is drawn from block i / 4 of the op's key (f64:
// i / 2), so that it depends on what it is for alone, not on how the work is
// cut.
//
// The key: the op's seed plus a large odd multiple of the run's; the op's
// stream; the run's step unless the op is `fixed`; the enclosing loops'
// iteration; the replica unless the op draws the same on all.
#include <math.h>

#include "base/random.h"
#include "engine/cpu/kernel_list.h"
#include "engine/cpu/loops.h"

typedef struct random_params {
  int64_t count;
  uint64_t seed, stream;
  bool fixed, same_on_all_replicas, normal;
  ls_dtype dtype;
  double offset, factor;  // number * factor + offset
  double cap;             // Uniform: the largest result.
} random_params;

static ls_random_source source_of(const random_params *self,
                                  const ls_kernel_call *call) {
  const ls_random_key key = {
      .seed = self->seed + call->seed * UINT64_C(0x9E3779B97F4A7C15),
      .stream = self->stream,
      .step = self->fixed ? 0 : call->step,
      .iteration = call->iteration,
      .id = self->same_on_all_replicas ? 0 : (uint64_t)call->replica,
  };
  return ls_random_source_make(&key);
}

// Blocks drawn together, so that they are computed side by side.
enum { DRAWN = 16, WORDS = 4 * DRAWN };

static void draw_blocks(const ls_random_source *source, int64_t first,
                        uint32_t bits[WORDS]) {
  const ls_random_source copy = *source;
  for (int lane = 0; lane < DRAWN; ++lane) {
    uint32_t block[4];
    ls_random_source_bits(&copy, (uint64_t)(first + lane), block);
    for (int k = 0; k < 4; ++k)
      bits[4 * lane + k] = block[k];
  }
}

// Elements [at, at + count), `at` a multiple of what a group of blocks gives.
static void draw_f32(const random_params *self, const ls_random_source *source,
                     float *out, int64_t at, int64_t count) {
  const float offset = (float)self->offset, factor = (float)self->factor;
  const float cap = (float)self->cap;
  for (int64_t i = 0; i < count; i += WORDS) {
    uint32_t bits[WORDS];
    float numbers[WORDS];
    draw_blocks(source, (at + i) / 4, bits);
    if (self->normal)
      for (int k = 0; k < WORDS; k += 4)
        ls_random_normals_f32(bits + k, numbers + k);
    else
      for (int k = 0; k < WORDS; ++k)
        numbers[k] = ls_random_uniform_f32(bits[k]);
    const int64_t left = ls_min_i64(WORDS, count - i);
    for (int64_t k = 0; k < left; ++k) {
      const float x = numbers[k] * factor + offset;
      out[i + k] = x > cap ? cap : x;
    }
  }
}

static void draw_f64(const random_params *self, const ls_random_source *source,
                     double *out, int64_t at, int64_t count) {
  for (int64_t i = 0; i < count; i += WORDS / 2) {
    uint32_t bits[WORDS];
    double numbers[WORDS / 2];
    draw_blocks(source, (at + i) / 2, bits);
    for (int k = 0; k < WORDS; k += 4) {
      double *two = numbers + k / 2;
      if (self->normal) {
        ls_random_normals_f64(bits + k, two);
      } else {
        two[0] = ls_random_uniform_f64(bits[k], bits[k + 1]);
        two[1] = ls_random_uniform_f64(bits[k + 2], bits[k + 3]);
      }
    }
    const int64_t left = ls_min_i64(WORDS / 2, count - i);
    for (int64_t k = 0; k < left; ++k) {
      const double x = numbers[k] * self->factor + self->offset;
      out[i + k] = x > self->cap ? self->cap : x;
    }
  }
}

static void random_loop(const ls_kernel_call *call, int64_t begin_block,
                        int64_t end_block) {
  const random_params *self = call->params;
  const ls_random_source source = source_of(self, call);
  const int64_t begin = begin_block * LS_BLOCK;
  const int64_t end = ls_min_i64(end_block * LS_BLOCK, self->count);
  if (self->dtype == LS_DTYPE_F64) {
    draw_f64(self, &source, (double *)call->out[0] + begin, begin, end - begin);
  } else if (self->dtype == LS_DTYPE_F32) {
    draw_f32(self, &source, (float *)call->out[0] + begin, begin, end - begin);
  } else {
    float *chunk = call->scratch;
    for (int64_t k = begin; k < end; k += LS_CHUNK) {
      const int64_t count = ls_min_i64(LS_CHUNK, end - k);
      draw_f32(self, &source, chunk, k, count);
      ls_narrow(self->dtype, (uint16_t *)call->out[0] + k, chunk, count);
    }
  }
}

// The largest number of the type below `high`, as rounding could reach it;
// `low` if there is none above that.
static double largest_below(ls_dtype dtype, double low, double high) {
  double below = nextafter(high, -(double)INFINITY);
  if (dtype != LS_DTYPE_F64) {
    float f = (float)high;
    if ((double)f >= high) f = nextafterf(f, -INFINITY);
    if (ls_is_half(dtype)) {
      uint16_t bits = 0;
      float back = 0;
      ls_narrow(dtype, &bits, &f, 1);
      ls_widen(dtype, &back, &bits, 1);
      // Rounded up: one step towards 0 of a positive number, away of others.
      if ((double)back >= high) {
        bits = back > 0    ? (uint16_t)(bits - 1)
               : back == 0 ? (uint16_t)0x8001U
                           : (uint16_t)(bits + 1);
        ls_widen(dtype, &back, &bits, 1);
      }
      f = back;
    }
    below = (double)f;
  }
  return below < low ? low : below;
}

static double float_attr(const ls_node *node, const char *name,
                         double fallback) {
  const ls_attr *attr = ls_node_attr(node, name);
  return attr == NULL ? fallback : attr->as.f;
}

ls_status kernel_random(ls_kernel_plan *plan) {
  const ls_node *node = plan->node;
  const ls_dtype dtype = plan->out[0].dtype;
  if (!ls_dtype_is_float(dtype)) return ls_kernel_unsupported(plan, dtype);
  random_params *self = ls_arena_new(plan->arena, random_params);
  if (self == NULL) return ls_out_of_memory();
  *self = (random_params){
      .count = ls_shape_num_elements(plan->out[0].shape),
      .seed = (uint64_t)ls_node_int(node, "seed", 0),
      .stream = (uint64_t)ls_node_int(node, "stream", 0),
      .fixed = ls_node_int(node, "fixed", 0) != 0,
      .same_on_all_replicas = ls_node_int(node, "same_on_all_replicas", 0) != 0,
      .normal = node->type == LS_OP_RANDOM_NORMAL,
      .dtype = dtype,
  };
  if (self->normal) {
    self->offset = float_attr(node, "mean", 0.0);
    self->factor = float_attr(node, "deviation", 1.0);
    self->cap = (double)INFINITY;
  } else {
    const double low = float_attr(node, "low", 0.0);
    const double high = float_attr(node, "high", 1.0);
    self->offset = low;
    self->factor = high - low;
    self->cap = largest_below(dtype, low, high);
  }
  plan->loop = random_loop;
  plan->params = self;
  plan->blocks = ls_blocks_of(self->count, LS_BLOCK);
  if (ls_is_half(dtype)) plan->scratch = (size_t)LS_CHUNK * sizeof(float);
  return ls_ok();
}
