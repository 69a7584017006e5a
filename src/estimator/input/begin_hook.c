// SPDX-License-Identifier: Apache-2.0
//
// The hook that begins data sets. A new iterator stands at its start; one whose
// session was lost goes back there, unless a checkpoint says where it was.
#include "estimator/input/begin_hook.h"

#include "data/iterator.h"
#include "train/hooks/hook.h"

typedef struct beginning {
  bool again;  // There was a session before.
  size_t count;
  ls_iterator **iterators;
  int64_t *restores;  // Of each, when a session began last.
  ls_allocator *allocator;
} beginning;

static void begin_hook_destroy(void *user) {
  beginning *self = user;
  for (size_t i = 0; self->iterators != NULL && i < self->count; ++i)
    ls_iterator_release(self->iterators[i]);
  ls_release(self->allocator, self->iterators);
  ls_release(self->allocator, self->restores);
  ls_hook_free(self);
}

static ls_status begin_sets(void *user, ls_run_context *context) {
  beginning *self = user;
  const int64_t began = ls_runtime_now(context->runtime);
  for (size_t i = 0; i < self->count; ++i) {
    ls_iterator *iterator = self->iterators[i];
    if (self->again && iterator->restores == self->restores[i])
      LS_RETURN_IF_ERROR(ls_iterator_seek_epoch(iterator, 0));
    self->restores[i] = iterator->restores;
    // Threads begin with what will be asked for.
    (void)ls_ahead_is_ready(iterator->ahead, NULL, NULL);
  }
  self->again = true;
  ls_runtime_log(context->runtime, LS_LOG_INFO, "estimator",
                 "began %zu data sets of the input in %.3f s", self->count,
                 (double)(ls_runtime_now(context->runtime) - began) * 1e-9);
  return ls_ok();
}

ls_status ls_begin_hook(ls_iterator *const *iterators, size_t count,
                        ls_hook **out_hook) {
  *out_hook = NULL;
  beginning *self = ls_hook_state(sizeof(*self));
  if (self == NULL) return ls_out_of_memory();
  self->allocator = ls_current_allocator();
  self->count = count;
  self->iterators = ls_new_array(self->allocator, ls_iterator *, count + 1);
  self->restores = ls_new_array(self->allocator, int64_t, count + 1);
  if (self->iterators == NULL || self->restores == NULL) {
    begin_hook_destroy(self);
    return ls_out_of_memory();
  }
  for (size_t i = 0; i < count; ++i)
    self->iterators[i] = ls_iterator_retain(iterators[i]);
  return ls_hook_of_state(&(ls_hook_options){.name = "data sets of the input",
                                             .user = self,
                                             .after_create_session = begin_sets,
                                             .destroy = begin_hook_destroy},
                          out_hook);
}
