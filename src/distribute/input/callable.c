// SPDX-License-Identifier: Apache-2.0
//
// Sources of elements that are functions of the caller's, and no data sets.
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "data/dataset.h"
#include "distribute/input/input.h"

static void destroy_callable(ls_object *object) {
  ls_input_callable *callable = (ls_input_callable *)object;
  if (callable->release != NULL) callable->release(callable->user);
  ls_nest_release(callable->element);
  ls_nest_release(callable->structure);
  ls_release(callable->allocator, callable->leaves);
  ls_release(callable->allocator, callable);
}

static const ls_object_type callable_type = {.name = "input callable",
                                             .destroy = destroy_callable};

// Numbers the leaves of what elements are, and lists their specs.
typedef struct listing {
  ls_leaf_spec *leaves;
  size_t count;
} listing;

static ls_nest list_leaf(ls_nest leaf, void *user) {
  listing *l = user;
  const ls_leaf_spec *spec = ls_nest_as_spec(leaf);
  char text[160];
  if (spec == NULL)
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "what a callable gives is said by leaves of ls_nest_spec, "
                   "got %s",
                   ls_nest_print(leaf, text, sizeof(text)));
  l->leaves[l->count] = *spec;
  return ls_nest_i64((int64_t)l->count++);
}

static ls_status set_spec(ls_input_callable *callable, ls_nest element) {
  callable->num_leaves = ls_nest_num_leaves(element);
  callable->leaves =
      ls_new_array(callable->allocator, ls_leaf_spec, callable->num_leaves);
  if (callable->leaves == NULL) return ls_out_of_memory();
  listing l = {.leaves = callable->leaves};
  return ls_take_nest(ls_nest_map(element, list_leaf, &l),
                      &callable->structure);
}

ls_nest ls_nest_input_callable(ls_nest element, ls_input_next next, void *user,
                               void (*release)(void *user)) {
  ls_allocator *allocator = ls_current_allocator();
  ls_input_callable *callable = ls_new(allocator, ls_input_callable);
  if (callable == NULL) {
    if (release != NULL) release(user);
    ls_nest_release(element);
    return ls_fail(ls_out_of_memory());
  }
  ls_object_init(&callable->object, &callable_type);
  callable->allocator = allocator;
  callable->next = next;
  callable->user = user;
  callable->release = release;
  callable->element = element;
  ls_status status = ls_nest_status(element);
  if (ls_status_is_ok(status) && next == NULL)
    status = ls_invalid_argument("the function of an input callable is NULL");
  if (ls_status_is_ok(status)) status = set_spec(callable, element);
  if (ls_status_is_ok(status))
    return ls_nest_object(LS_KIND_OBJECT, &callable->object);
  ls_object_release(callable);
  return ls_fail(status);
}

ls_input_callable *ls_nest_as_input_callable(ls_nest leaf) {
  if (leaf.kind != LS_KIND_OBJECT || leaf.as.ref == NULL) return NULL;
  ls_object *object = leaf.as.ref;
  return object->type == &callable_type ? (ls_input_callable *)object : NULL;
}

ls_status ls_input_callable_next(ls_input_callable *callable,
                                 ls_nest *element) {
  ls_nest made = ls_none();
  LS_RETURN_IF_ERROR(ls_take_nest(callable->next(callable->user), &made));
  const ls_status status = ls_status_annotate(
      ls_nest_same_structure(callable->structure, made),
      "between what a callable said it gives and what it gave");
  if (!ls_status_is_ok(status)) {
    ls_nest_release(made);
    return status;
  }
  ls_nest_release(*element);
  *element = made;
  return ls_ok();
}
