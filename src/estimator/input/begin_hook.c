// SPDX-License-Identifier: Apache-2.0
//
// The hook that starts data sets. A new iterator is at its start; after a lost
// session it goes back there, unless a checkpoint restored its position.
#include "estimator/input/begin_hook.h"

#include "base/memory/own.h"
#include "data/iterator.h"
#include "train/hooks/hook.h"

typedef struct beginning {
  bool has_begun;  // An earlier session has begun.
  size_t count;
  ls_iterator **iterators;
  // Number of restores of each iterator at the latest session's start.
  int64_t *restores;
  ls_allocator *allocator;
} beginning;

static void destroy_beginning(void *state) {
  beginning *self = state;
  for (size_t i = 0; self->iterators != NULL && i < self->count; ++i)
    ls_iterator_release(self->iterators[i]);
  ls_release(self->allocator, self->iterators);
  ls_release(self->allocator, self->restores);
}
LS_OWNED_STRUCT(beginning, destroy_beginning)

static ls_status begin_sets(void *state, ls_run_context *context) {
  beginning *self = state;
  const int64_t began = ls_runtime_now(context->runtime);
  for (size_t i = 0; i < self->count; ++i) {
    ls_iterator *iterator = self->iterators[i];
    if (self->has_begun && iterator->restores == self->restores[i])
      LS_RETURN_IF_ERROR(ls_iterator_seek_epoch(iterator, 0));
    self->restores[i] = iterator->restores;
    // Lets threads read the first elements ahead.
    (void)ls_ahead_is_ready(iterator->ahead, NULL, NULL);
  }
  self->has_begun = true;
  ls_runtime_log(context->runtime, LS_LOG_INFO, "estimator",
                 "began %zu data sets of the input in %.3f s", self->count,
                 (double)(ls_runtime_now(context->runtime) - began) * 1e-9);
  return ls_ok();
}

static const ls_hook_type beginning_type = {.name = "data sets of the input",
                                            .size = sizeof(beginning),
                                            .needs_session = true,
                                            .after_create_session = begin_sets,
                                            .destroy = destroy_beginning};

ls_status ls_begin_hook(ls_iterator *const *iterators, size_t count,
                        ls_hook **out_hook) {
  LS_OWN(beginning, self) = {.allocator = ls_current_allocator(),
                             .count = count};
  *out_hook = NULL;
  self.iterators = ls_new_array(self.allocator, ls_iterator *, count + 1);
  self.restores = ls_new_array(self.allocator, int64_t, count + 1);
  LS_RETURN_IF_NO_MEMORY(self.iterators != NULL && self.restores != NULL);
  for (size_t i = 0; i < count; ++i)
    self.iterators[i] = ls_iterator_retain(iterators[i]);
  const beginning initial = ls_give(&self);
  return ls_hook_make(&beginning_type, &initial, out_hook);
}
