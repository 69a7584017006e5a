// SPDX-License-Identifier: Apache-2.0
//
// Kernels of attention for one head of floats. Like those of kernels.h they
// exist once per instruction set and give the same bits in each.
//
// Every product is one chain of fused multiply-adds over its inner size from
// +0, in order of keys; with causal attention only of keys that the query
// attends to, whatever the others hold. The gradients of keys and values add up
// bands of queries from the last one, each in order. Softmax is that of
// kernels.h.
#ifndef LS_ENGINE_CPU_KERNELS_ATTENTION_ATTENTION_H_
#define LS_ENGINE_CPU_KERNELS_ATTENTION_ATTENTION_H_

#include <stdbool.h>
#include <stddef.h>

// Rows whose starts are `pitch` elements apart.
typedef struct ls_cpu_head_rows {
  float *data;  // Read-only for operands.
  size_t pitch;
} ls_cpu_head_rows;

typedef struct ls_cpu_head {
  size_t queries, keys;
  size_t depth, value_depth;  // Columns of q and k; of v and the result.
  float scale;
  bool causal;  // Requires as many queries as keys.
  ls_cpu_head_rows q, k, v;
  ls_cpu_head_rows out;         // The result, or its gradient.
  ls_cpu_head_rows dq, dk, dv;  // Results of the gradient.
  // The next head, whose rows are prefetched. NULL: none.
  const struct ls_cpu_head *next;
} ls_cpu_head;

typedef struct ls_cpu_attention {
  // Returns the bytes of scratch that `differentiate`, or `attend`, needs,
  // aligned to 64.
  size_t (*scratch)(const ls_cpu_head *head, bool gradient);
  // Computes out = softmax(scale q k') v.
  void (*attend)(const ls_cpu_head *head, void *scratch);
  // Computes, with p the probabilities and d the gradient of the result: dv =
  // p' d, ds = scale p (d v' - sum(p d v')), dq = ds k, dk = ds' q.
  void (*differentiate)(const ls_cpu_head *head, void *scratch);
} ls_cpu_attention;

#endif  // LS_ENGINE_CPU_KERNELS_ATTENTION_ATTENTION_H_
