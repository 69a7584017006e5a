// SPDX-License-Identifier: Apache-2.0
#include "estimator/calls/eval_losses.h"

#include "base/memory/allocator.h"
#include "lockstep/distributed.h"

static double rounded(const ls_eval_losses *self, double x) {
  return self->is_wide ? x : (double)(float)x;
}

static const ls_array *component(ls_nest leaf, size_t replica) {
  return ls_nest_as_array(ls_distributed_count(leaf) > 0
                              ? ls_distributed_component(leaf, replica)
                              : leaf);
}

static ls_status eval_losses_begin(ls_eval_losses *self, ls_nest losses) {
  const size_t replicas = ls_distributed_count(losses);
  self->count = replicas > 0 && !self->of_first ? replicas : 1;
  self->is_wide = ls_array_dtype(component(losses, 0)) == LS_DTYPE_F64;
  self->sums = ls_new_array(ls_current_allocator(), double, self->count);
  return self->sums != NULL ? ls_ok() : ls_out_of_memory();
}

ls_status ls_eval_losses_add(ls_eval_losses *self, ls_nest losses,
                             ls_nest examples) {
  if (self->sums == NULL) LS_RETURN_IF_ERROR(eval_losses_begin(self, losses));
  self->by_examples = examples.kind != LS_KIND_NONE;
  ++self->steps;
  for (size_t r = 0; r < self->count; ++r) {
    const double loss = ls_array_f64(component(losses, r), 0);
    self->sums[r] = rounded(self, self->sums[r] + loss);
    if (self->by_examples)
      self->examples += ls_array_i64(component(examples, r), 0);
  }
  return ls_ok();
}

// Adds `count` from there, split at the largest power of two below.
static double tree_sum(const ls_eval_losses *self, size_t from, size_t count) {
  size_t left = 1;
  if (count == 1) return self->sums[from];
  while (left * 2 < count)
    left *= 2;
  return rounded(self, tree_sum(self, from, left) +
                           tree_sum(self, from + left, count - left));
}

// One alone is told to the bit.
void ls_eval_losses_add_mean(ls_eval_losses *self, double loss, double weight) {
  if (!(weight > 0)) return;
  const double total = self->weight + weight;
  self->mean = self->weight > 0
                   ? (self->mean * self->weight + loss * weight) / total
                   : loss;
  self->weight = total;
}

bool ls_eval_losses_any(const ls_eval_losses *self) {
  if (self->weight > 0) return true;
  return self->steps > 0 && (!self->by_examples || self->examples > 0);
}

double ls_eval_losses_mean(const ls_eval_losses *self) {
  if (self->weight > 0) return self->mean;
  const double sum = tree_sum(self, 0, self->count);
  const double parts =
      self->by_examples ? (double)self->examples : (double)self->count;
  const double one = rounded(self, 1 / rounded(self, parts));
  const double mean = rounded(self, sum * one);
  return self->by_examples
             ? mean
             : rounded(self, mean / rounded(self, (double)self->steps));
}

void ls_eval_losses_drop(ls_eval_losses *self) {
  ls_release(ls_current_allocator(), self->sums);
  *self = (ls_eval_losses){.of_first = self->of_first};
}
