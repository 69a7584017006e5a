// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.h"

#include "lockstep/element_spec.h"

static void destroy_dataset(ls_object *object) {
  ls_dataset *dataset = (ls_dataset *)object;
  if (dataset->kind->destroy != NULL) dataset->kind->destroy(dataset);
  for (size_t i = 0; i < dataset->num_inputs; ++i)
    ls_dataset_release(dataset->inputs[i]);
  ls_status_free(dataset->failure);
  ls_nest_release(dataset->structure);
  ls_release(dataset->allocator, dataset->inputs);
  ls_release(dataset->allocator, dataset->leaves);
  ls_release(dataset->allocator, dataset->row_sizes);
  ls_object_release(dataset->user);
  ls_release(dataset->allocator, dataset);
}

static void print_dataset(const ls_object *object, char *buffer, size_t size) {
  ls_dataset_print((const ls_dataset *)object, buffer, size);
}

static const ls_object_type dataset_type = {
    .name = "dataset", .destroy = destroy_dataset, .print = print_dataset};

LS_COUNTED(ls_dataset)

ls_status ls_dataset_status(const ls_dataset *dataset) {
  return dataset == NULL ? ls_out_of_memory()
                         : ls_status_clone(dataset->failure);
}

ls_nest ls_nest_dataset(ls_dataset *dataset) {
  if (dataset == NULL) return ls_fail(ls_out_of_memory());
  return ls_nest_object(LS_KIND_OBJECT, &dataset->object);
}

ls_dataset *ls_nest_as_dataset(ls_nest leaf) {
  if (leaf.kind != LS_KIND_OBJECT || leaf.as.ref == NULL) return NULL;
  ls_object *object = leaf.as.ref;
  return object->type == &dataset_type ? (ls_dataset *)object : NULL;
}

int64_t ls_dataset_cardinality(const ls_dataset *dataset) {
  return dataset == NULL || !ls_status_is_ok(dataset->failure) ? 0
                                                               : dataset->size;
}

bool ls_dataset_is_indexed(const ls_dataset *dataset) {
  return dataset != NULL && dataset->indexed;
}

bool ls_dataset_bounds(const ls_dataset *dataset, size_t leaf,
                       int64_t *out_least, int64_t *out_most) {
  *out_least = *out_most = 0;
  while (dataset != NULL && ls_status_is_ok(dataset->failure) &&
         leaf < dataset->num_leaves) {
    if (dataset->kind->bounds != NULL)
      return dataset->kind->bounds(dataset, leaf, out_least, out_most);
    if (dataset->kind->locate == NULL) return false;
    dataset = dataset->inputs[0];
  }
  return false;
}

bool ls_dataset_is_quick(const ls_dataset *dataset) {
  bool quick = dataset->indexed && dataset->kind->is_quick;
  for (size_t i = 0; i < dataset->num_inputs && quick; ++i)
    quick = ls_dataset_is_quick(dataset->inputs[i]);
  return quick;
}

// ---- Making ----------------------------------------------------------------
static bool take_inputs(ls_dataset *self, ls_dataset *const *inputs,
                        size_t count) {
  if (count == 0) return true;
  self->inputs = ls_new_array(self->allocator, ls_dataset *, count);
  if (self->inputs == NULL) return false;
  memcpy(self->inputs, inputs, count * sizeof(*inputs));
  self->num_inputs = count;
  return true;
}

// Returns a failure if the inputs rule out this data set.
static ls_status input_status(const ls_dataset_class *kind,
                              ls_dataset *const *inputs, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    LS_RETURN_IF_ERROR(ls_dataset_status(inputs[i]));
    if (inputs[i]->kind->is_last)
      return ls_unimplemented(
          "'%s' of a data set after %s, which must be the last step",
          kind->name, inputs[i]->kind->name);
  }
  return ls_ok();
}

// Drops the inputs of a failed data set, so that a chain of makers after a
// failure does not grow.
static void drop_inputs(ls_dataset *self) {
  for (size_t i = 0; i < self->num_inputs; ++i)
    ls_dataset_release(self->inputs[i]);
  self->num_inputs = 0;
}

// Limits the tree's nodes: recursion over it must fit on stacks of any size.
static ls_status count_nodes(ls_dataset *self) {
  uint64_t nodes = 1;
  for (size_t i = 0; i < self->num_inputs; ++i)
    nodes += self->inputs[i]->nodes;
  self->nodes = (uint32_t)nodes;
  if (nodes <= LS_MOST_DATASETS) return ls_ok();
  return ls_invalid_argument("'%s' of a pipeline of %llu data sets, counted "
                             "wherever they are used: %d are possible",
                             self->kind->name, (unsigned long long)nodes,
                             LS_MOST_DATASETS);
}

ls_dataset *ls_dataset_new(const ls_dataset_class *kind, size_t bytes,
                           ls_dataset *const *inputs, size_t num_inputs,
                           ls_status status) {
  ls_allocator *allocator = ls_current_allocator();
  ls_dataset *self = ls_allocate_zeroed(allocator, 1, bytes);
  if (self != NULL) {
    ls_object_init(&self->object, &dataset_type);
    self->kind = kind;
    self->allocator = allocator;
    self->prefetch = -1;
    self->most = INT64_MAX;
    self->nodes = 1;
  }
  if (self == NULL || !take_inputs(self, inputs, num_inputs)) {
    for (size_t i = 0; i < num_inputs; ++i)
      ls_dataset_release(inputs[i]);
    ls_release(allocator, self);
    ls_status_free(status);
    return NULL;
  }
  self->failure =
      ls_status_is_ok(status) ? input_status(kind, inputs, num_inputs) : status;
  if (ls_status_is_ok(self->failure)) self->failure = count_nodes(self);
  if (!ls_status_is_ok(self->failure)) drop_inputs(self);
  if (self->num_inputs == 0) return self;
  const ls_dataset *input = inputs[0];
  self->size = input->size;
  self->indexed = input->indexed;
  self->most = input->most;
  return ls_dataset_fail(
      self, ls_dataset_set_leaves(self, ls_nest_retain(input->structure),
                                  input->leaves, input->num_leaves));
}

ls_dataset *ls_dataset_fail(ls_dataset *dataset, ls_status status) {
  if (dataset == NULL || !ls_status_is_ok(dataset->failure))
    ls_status_free(status);
  else
    dataset->failure = status;
  return dataset;
}

// ---- User data -------------------------------------------------------------
static void destroy_user(ls_object *object) {
  ls_user *self = (ls_user *)object;
  if (self->release != NULL) self->release(self->user);
  ls_release(self->allocator, self);
}

static const ls_object_type user_type = {.name = "user",
                                         .destroy = destroy_user};

ls_user *ls_user_create(void *user, void (*release)(void *user)) {
  ls_allocator *allocator = ls_current_allocator();
  ls_user *self = ls_new(allocator, ls_user);
  if (self == NULL) {
    if (release != NULL) release(user);
    return NULL;
  }
  ls_object_init(&self->object, &user_type);
  self->allocator = allocator;
  self->user = user;
  self->release = release;
  return self;
}

ls_dataset *ls_dataset_new_with(const ls_dataset_class *kind, size_t bytes,
                                ls_dataset *const *inputs, size_t num_inputs,
                                ls_user *user, ls_status status) {
  if (user == NULL) status = ls_status_join(ls_out_of_memory(), status);
  ls_dataset *self = ls_dataset_new(kind, bytes, inputs, num_inputs, status);
  if (self != NULL)
    self->user = user;
  else
    ls_object_release(user);
  return self;
}

// ---- Description -----------------------------------------------------------
void ls_dataset_describe(const ls_dataset *dataset, ls_text *text) {
  if (dataset->num_inputs > 0) {
    if (dataset->num_inputs > 1) ls_text_append_char(text, '(');
    for (size_t i = 0; i < dataset->num_inputs; ++i) {
      if (i > 0) ls_text_append(text, ", ");
      if (dataset->inputs[i] != NULL)
        ls_dataset_describe(dataset->inputs[i], text);
    }
    if (dataset->num_inputs > 1) ls_text_append_char(text, ')');
    ls_text_append_char(text, '.');
  }
  ls_text_append(text, dataset->kind->name);
  ls_text_append_char(text, '(');
  const bool failed = !ls_status_is_ok(dataset->failure);
  if (dataset->kind->describe != NULL && !failed)
    dataset->kind->describe(dataset, text);
  ls_text_append_char(text, ')');
}

const char *ls_dataset_print(const ls_dataset *dataset, char *buffer,
                             size_t size) {
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  if (dataset != NULL) ls_dataset_describe(dataset, &text);
  const char *words = ls_text_data(&text);
  const size_t length = strlen(words) < size ? strlen(words) : size - 1;
  if (size > 0) {
    memcpy(buffer, words, length);
    buffer[length] = '\0';
  }
  return buffer;
}
