// SPDX-License-Identifier: Apache-2.0
// Objects: reference counts.
#include "lockstep/object.h"

#include "base/memory/allocator.h"
#include "base/threads/threads.h"

void ls_object_init(ls_object *object, const ls_object_type *type) {
  object->type = type;
  object->references = 1;
  object->depth = 0;
}

void *ls_object_retain(void *object) {
  if (object == NULL) return NULL;
  int *references = &((ls_object *)object)->references;
  LS_ASSERT(__atomic_load_n(references, __ATOMIC_RELAXED) > 0);
  ls_count_retain(references);
  return object;
}

void ls_object_release(void *object) {
  if (object == NULL) return;
  ls_object *self = object;
  LS_ASSERT(__atomic_load_n(&self->references, __ATOMIC_RELAXED) > 0);
  if (ls_count_release(&self->references)) self->type->destroy(self);
}

bool ls_object_is_unique(const void *object) {
  return ls_object_is_held(object, 1);
}

bool ls_object_is_held(const void *object, int times) {
  return object != NULL &&
         ls_count_is(&((const ls_object *)object)->references, times);
}

bool ls_object_equal(const ls_object *a, const ls_object *b) {
  if (a == b) return true;
  return a != NULL && b != NULL && a->type == b->type &&
         a->type->equal != NULL && a->type->equal(a, b);
}
