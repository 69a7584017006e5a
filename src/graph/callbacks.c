// SPDX-License-Identifier: Apache-2.0
#include "graph/callbacks.h"

#include "base/memory/allocator.h"

static void custom_gradient_destroy(ls_object *object) {
  ls_custom_gradient_object *self = (ls_custom_gradient_object *)object;
  ls_nest_release(self->inputs);
  ls_nest_release(self->outputs);
  ls_release(self->allocator, self);
}

static bool same_structure(ls_nest a, ls_nest b) {
  ls_status status = ls_nest_same_structure(a, b);
  const bool same = ls_status_is_ok(status);
  ls_status_free(status);
  return same;
}

static bool equal(const ls_object *a, const ls_object *b) {
  const ls_custom_gradient_object *x = (const ls_custom_gradient_object *)a;
  const ls_custom_gradient_object *y = (const ls_custom_gradient_object *)b;
  return x->gradient == y->gradient && x->user == y->user &&
         same_structure(x->inputs, y->inputs) &&
         same_structure(x->outputs, y->outputs);
}

const ls_object_type ls_custom_gradient_type = {.name = "custom_gradient",
                                                .destroy =
                                                    custom_gradient_destroy,
                                                .equal = equal};
