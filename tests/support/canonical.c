// SPDX-License-Identifier: Apache-2.0
#include "support/canonical.h"

#include <string.h>

#include "lockstep/eager.h"

ls_status canonical_create(const mlp_shape *shape, canonical *out) {
  *out = (canonical){0};
  LS_RETURN_IF_ERROR(mlp_create(shape, LS_DTYPE_F32, &out->model));
  return ls_function_create(
      &(ls_function_options){.call = mlp_gradients, .user = &out->model},
      &out->gradients);
}

void canonical_destroy(canonical *self) {
  ls_function_release(self->gradients);
  mlp_destroy(&self->model);
}

// What all parts gave: one result a part.
typedef struct parts {
  ls_nest *results;
  int64_t count;
} parts;

static const float *part_data(const parts *all, int64_t part, size_t item) {
  return ls_array_data(
      ls_nest_as_array(ls_nest_item(all->results[part], item)));
}

// Rows `part` of `count` parts of an array, which must outlive the view.
static ls_status view_part(ls_array *whole, int64_t part, int64_t count,
                           ls_array **out_view) {
  ls_shape shape = ls_array_shape(whole);
  shape.dim[0] /= count;
  const size_t bytes = ls_array_size(whole) / (size_t)count;
  char *data = ls_array_mutable_data(whole);
  return ls_array_create_view(ls_array_dtype(whole), shape,
                              data + (size_t)part * bytes, NULL, NULL,
                              out_view);
}

static ls_status run_part(canonical *self, ls_array *examples, ls_array *labels,
                          int64_t part, parts *all) {
  ls_array *x = NULL, *y = NULL;
  ls_status status = view_part(examples, part, all->count, &x);
  if (ls_status_is_ok(status)) status = view_part(labels, part, all->count, &y);
  if (!ls_status_is_ok(status)) {
    ls_array_release(x);
    return status;
  }
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_nest_array(x), ls_nest_array(y));
  status = ls_function_call(self->gradients, args, &all->results[part]);
  if (ls_status_is_ok(status)) self->losses[part] = *part_data(all, part, 0);
  return status;
}

// Elements `at` to `at + n` of the sum over `count` parts from `first` on: the
// canonical tree splits at the largest power of two below their number.
enum { BLOCK = 1024 };
static void tree_sum(const parts *all, size_t item, int64_t at, int64_t n,
                     int64_t first, int64_t count, float *sum) {
  if (count == 1) {
    memcpy(sum, part_data(all, first, item) + at, (size_t)n * sizeof(float));
    return;
  }
  int64_t left = 1;
  while (2 * left < count)
    left *= 2;
  float right_sum[BLOCK];
  tree_sum(all, item, at, n, first, left, sum);
  tree_sum(all, item, at, n, first + left, count - left, right_sum);
  for (int64_t k = 0; k < n; ++k)
    sum[k] = sum[k] + right_sum[k];
}

static ls_status update_variable(canonical *self, const parts *all, size_t i) {
  ls_variable *variable = self->model.variables[i];
  LS_OWN(ls_array, before) = NULL;
  LS_OWN(ls_array, after) = NULL;
  LS_RETURN_IF_ERROR(ls_variable_value(variable, &before));
  ls_status status = ls_array_create_copy(LS_DTYPE_F32, ls_array_shape(before),
                                          ls_array_data(before), &after);
  LS_RETURN_IF_ERROR(status);
  float *values = ls_array_mutable_data(after);
  const float share = 1.0F / (float)all->count;
  const int64_t size = ls_array_num_elements(after);
  for (int64_t at = 0; at < size; at += BLOCK) {
    const int64_t n = size - at < BLOCK ? size - at : BLOCK;
    float sum[BLOCK];
    tree_sum(all, 1 + i, at, n, 0, all->count, sum);
    for (int64_t k = 0; k < n; ++k) {
      // With one replica there is nothing to average.
      const float mean = all->count == 1 ? sum[k] : sum[k] * share;
      const float change = mean * 0.1F;
      values[at + k] = values[at + k] - change;
    }
  }
  status = ls_variable_set_value(variable, after);
  return status;
}

ls_status canonical_step(canonical *self, ls_array *examples, ls_array *labels,
                         int64_t replicas) {
  if (replicas < 1 || replicas > CANONICAL_MAX_REPLICAS ||
      ls_array_shape(examples).dim[0] % replicas != 0)
    return ls_invalid_argument("%lld equal parts", (long long)replicas);
  parts all = {self->results, replicas};
  ls_status status = ls_ok();
  for (int64_t r = 0; r < replicas && ls_status_is_ok(status); ++r)
    status = run_part(self, examples, labels, r, &all);
  for (size_t i = 0; i < self->model.num_variables && ls_status_is_ok(status);
       ++i)
    status = update_variable(self, &all, i);
  for (int64_t r = 0; r < replicas; ++r) {
    ls_nest_release(all.results[r]);
    all.results[r] = ls_none();
  }
  return status;
}
