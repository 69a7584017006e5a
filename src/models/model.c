// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "lockstep/data.h"
#include "models/types.h"

static const ls_model_type *const types[] = {&ls_model_tiny, &ls_model_mlp,
                                             &ls_model_cnn, &ls_model_resnet20};
enum { NUM_TYPES = sizeof(types) / sizeof(types[0]) };

const ls_model_type *const *ls_model_types(size_t *out_count) {
  *out_count = NUM_TYPES;
  return types;
}

const ls_model_type *ls_model_find(const char *name) {
  for (size_t i = 0; i < NUM_TYPES; ++i) {
    if (strcmp(types[i]->name, name) == 0) return types[i];
  }
  return NULL;
}

ls_status ls_model_create(const ls_model_type *type,
                          const ls_model_options *options,
                          ls_model *out_model) {
  static const ls_model_options defaults;
  *out_model = (ls_model){.type = type};
  const ls_status status =
      type->create(options != NULL ? options : &defaults, &out_model->self);
  return ls_status_annotate(status, "while creating model '%s'", type->name);
}

void ls_model_destroy(ls_model *model) {
  if (model->type != NULL) model->type->destroy(model->self);
  *model = (ls_model){0};
}

ls_status ls_model_synthetic_batch(const ls_model_type *type,
                                   int64_t batch_size, ls_nest *out_batch) {
  *out_batch = ls_none();
  ls_dataset *dataset = NULL;
  ls_batcher *batcher = NULL;
  ls_status status = ls_ok();
  LS_GOTO_IF_ERROR(
      done, status,
      ls_dataset_synthetic(
          &(ls_synthetic_options){.size = batch_size,
                                  .shape = type->example_shape,
                                  .num_classes = type->num_classes},
          &dataset));
  LS_GOTO_IF_ERROR(
      done, status,
      ls_batcher_create(
          dataset, &(ls_batcher_options){.batch_size = batch_size}, &batcher));
  status = ls_batcher_next(batcher, out_batch);
done:
  ls_batcher_destroy(batcher);
  ls_dataset_release(dataset);
  return status;
}
