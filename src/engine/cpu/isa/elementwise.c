// SPDX-License-Identifier: Apache-2.0
//
// Copies, sums, updates and gradients that are bound by memory.

#include "engine/cpu/isa/isa.h"
#include "engine/cpu/isa/vec.h"

#if VF_STREAMS
void LS_ISA_NAME(ls_cpu_stream)(void *dst, const void *src, size_t bytes) {
  // Streaming stores need whole, aligned vectors.
  const bool can = (uintptr_t)dst % sizeof(vf) == 0;
  const size_t is_whole = can ? bytes / sizeof(vf) * sizeof(vf) : 0;
  char *target = dst;
  const char *from = src;
  for (size_t i = 0; i < is_whole; i += sizeof(vf))
    vf_stream((float *)(void *)(target + i), vf_load((const void *)(from + i)));
  memcpy(target + is_whole, from + is_whole, bytes - is_whole);
}

void LS_ISA_NAME(ls_cpu_stream_end)(void) { vf_stream_end(); }
#endif

void LS_ISA_NAME(ls_cpu_add)(float *dst, const float *a, const float *b,
                             size_t n) {
  size_t i = 0;
  for (; i + VF_LANES <= n; i += VF_LANES) {
    vf_store(dst + i, vf_add(vf_load(a + i), vf_load(b + i)));
  }
  if (i < n) {
    const size_t left = n - i;
    vf_store_n(dst + i, left,
               vf_add(vf_load_n(a + i, left), vf_load_n(b + i, left)));
  }
}

LS_INLINE vf load_vector(const float *p, bool is_whole, size_t lanes) {
  return is_whole ? vf_load(p) : vf_load_n(p, lanes);
}

// Adds a vector of four operands along the tree.
LS_INLINE vf add_tree_4(const void *const *in, size_t at, bool is_whole,
                        size_t lanes) {
  const float *a = in[0], *b = in[1], *c = in[2], *d = in[3];
  return vf_add(vf_add(load_vector(a + at, is_whole, lanes),
                       load_vector(b + at, is_whole, lanes)),
                vf_add(load_vector(c + at, is_whole, lanes),
                       load_vector(d + at, is_whole, lanes)));
}

LS_INLINE vf add_tree_8(const void *const *in, size_t at, bool is_whole,
                        size_t lanes) {
  return vf_add(add_tree_4(in, at, is_whole, lanes),
                add_tree_4(in + 4, at, is_whole, lanes));
}

// Distance by which sums prefetch into the second cache: the processor by
// itself does not follow nine streams through memory.
enum { AHEAD = 512 };

LS_INLINE void fetch_ahead(const void *const *in, int operands, size_t at) {
  LS_UNROLL
  for (int k = 0; k < operands; ++k)
    __builtin_prefetch((const float *)in[k] + at + AHEAD, 0, 2);
}

LS_INLINE void add_operands(float *dst, const void *const *in, int operands,
                            size_t n, bool is_streamed) {
  const bool past_caches = is_streamed && (uintptr_t)dst % sizeof(vf) == 0;
  size_t i = 0;
  for (; i + VF_LANES <= n; i += VF_LANES) {
    if (is_streamed) fetch_ahead(in, operands, i);
    const vf sum =
        operands == 4 ? add_tree_4(in, i, true, 0) : add_tree_8(in, i, true, 0);
    if (past_caches)
      vf_stream(dst + i, sum);
    else
      vf_store(dst + i, sum);
  }
  if (past_caches) vf_stream_end();
  if (i == n) return;
  const vf rest = operands == 4 ? add_tree_4(in, i, false, n - i)
                                : add_tree_8(in, i, false, n - i);
  vf_store_n(dst + i, n - i, rest);
}

void LS_ISA_NAME(ls_cpu_add4)(float *dst, const void *const *in, size_t n,
                              bool is_streamed) {
  add_operands(dst, in, 4, n, is_streamed);
}

void LS_ISA_NAME(ls_cpu_add8)(float *dst, const void *const *in, size_t n,
                              bool is_streamed) {
  add_operands(dst, in, 8, n, is_streamed);
}

LS_INLINE vf sgd_step(vf parameter, vf grad, vf rate) {
  return vf_sub(parameter, vf_mul(rate, grad));
}

void LS_ISA_NAME(ls_cpu_sgd)(float *dst, const float *parameter,
                             const float *grad, float rate, size_t n) {
  const vf rates = vf_set1(rate);
  size_t i = 0;
  for (; i + VF_LANES <= n; i += VF_LANES) {
    vf_store(dst + i,
             sgd_step(vf_load(parameter + i), vf_load(grad + i), rates));
  }
  if (i < n) {
    const size_t left = n - i;
    vf_store_n(dst + i, left,
               sgd_step(vf_load_n(parameter + i, left),
                        vf_load_n(grad + i, left), rates));
  }
}
