// SPDX-License-Identifier: Apache-2.0
#include "models/classifier.h"

#include <string.h>

ls_status ls_classifier_allocate(size_t size, ls_allocator **out_allocator,
                                 void **out_memory) {
  *out_allocator = NULL;
  *out_memory = NULL;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  void *memory = allocator->allocate(allocator, size, 16);
  if (memory == NULL) return ls_out_of_memory();
  memset(memory, 0, size);
  *out_allocator = allocator;
  *out_memory = memory;
  return ls_ok();
}

ls_schedule ls_classifier_schedule(const ls_model_options *options) {
  return (ls_schedule){.kind = options->decay_steps > 0 ? LS_SCHEDULE_LINEAR
                                                        : LS_SCHEDULE_CONSTANT,
                       .steps = options->decay_steps};
}

ls_nest ls_classifier_step(ls_optimizer *optimizer, ls_tensor logits,
                           ls_tensor labels, bool metrics) {
  const ls_tensor loss = ls_mean_softmax_cross_entropy(logits, labels);
  ls_optimizer_minimize(optimizer, loss);
  const char *const keys[] = {"loss", "accuracy"};
  ls_nest items[2] = {ls_leaf(loss)};
  if (metrics) items[1] = ls_leaf(ls_accuracy(logits, labels));
  return ls_nest_dict("", keys, items, metrics ? 2 : 1);
}
