// SPDX-License-Identifier: Apache-2.0
// The gradients of 8 replicas on one device, computed in parts of 8, 4, 2 and 1
// replicas: with exact bits each replica has the same in every part. That is
// what makes results the same on any number of devices, and can be seen on one.
//
//   device_parts MODEL DEVICE
//
// prints lines of JSON: {"part": 4, "equal": 1234, "of": 1234}, elements whose
// bits are those in the part of 8.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/full.h"

enum { REPLICAS = 8, EXAMPLES = 8, MOST_VARIABLES = 256 };

typedef struct parts {
  ls_model model;
  ls_variable *variables[MOST_VARIABLES];
  size_t num_variables;
  size_t elements;                // Of all gradients of a replica.
  float *gradients[2][REPLICAS];  // Of the part of 8, and of another.
} parts;

// Makes a replica's gradients, one after the other in one vector.
static ls_nest differentiate(ls_nest args, void *user) {
  parts *p = user;
  const ls_nest made = p->model.type->logits(args, p->model.self);
  const ls_nest loss = ls_leaf(ls_mean_softmax_cross_entropy(
      ls_nest_tensor(made, 0), ls_nest_tensor(args, 1)));
  ls_nest_release(made);
  ls_nest sources[MOST_VARIABLES], gradients[MOST_VARIABLES];
  ls_tensor flat[MOST_VARIABLES];
  for (size_t i = 0; i < p->num_variables; ++i)
    sources[i] = ls_nest_variable(p->variables[i]);
  const ls_status status =
      ls_gradients(&loss, 1, sources, p->num_variables, NULL, gradients);
  for (size_t i = 0; i < p->num_variables; ++i)
    ls_nest_release(sources[i]);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  for (size_t i = 0; i < p->num_variables; ++i)
    flat[i] = ls_reshape(ls_nest_tensor(gradients[i], 0), LS_SHAPE(-1));
  return ls_leaf(ls_concatenate(flat, p->num_variables, 0));
}

// Copies examples of some replicas.
static ls_status copy_rows(const ls_array *from, int64_t first, int64_t count,
                           ls_array **out) {
  ls_shape shape = ls_array_shape(from);
  const size_t row = ls_array_size(from) / (size_t)shape.dim[0];
  shape.dim[0] = count;
  return ls_array_create_copy(
      ls_array_dtype(from), shape,
      (const char *)ls_array_data(from) + (size_t)first * row, out);
}

static ls_status keep(parts *p, ls_nest result, int64_t replica, int which) {
  const ls_array *array = ls_nest_as_array(result);
  LS_RETURN_IF_ERROR(ls_array_wait(array));
  p->elements = (size_t)ls_array_num_elements(array);
  free(p->gradients[which][replica]);
  p->gradients[which][replica] = malloc(ls_array_size(array));
  if (p->gradients[which][replica] == NULL) return ls_out_of_memory();
  memcpy(p->gradients[which][replica], ls_array_data(array),
         ls_array_size(array));
  return ls_ok();
}

// Computes the gradients of `size` replicas, from `first` on.
static ls_status run_part(parts *p, ls_strategy *strategy,
                          ls_function *function, ls_nest batch, int64_t first,
                          int64_t size) {
  ls_array *rows[2] = {NULL};
  ls_nest args = {0}, results = {0};
  ls_status status = ls_ok();
  for (size_t i = 0; i < 2 && ls_status_is_ok(status); ++i)
    status = copy_rows(ls_nest_as_array(ls_nest_item(batch, i)),
                       first * EXAMPLES, size * EXAMPLES, &rows[i]);
  const ls_nest part = LS_TUPLE(ls_nest_array(rows[0]), ls_nest_array(rows[1]));
  if (ls_status_is_ok(status)) status = ls_train_split(strategy, part, &args);
  if (ls_status_is_ok(status))
    status = ls_strategy_run(strategy, ls_traced(function), args, &results);
  for (int64_t r = 0; r < size && ls_status_is_ok(status); ++r)
    status = keep(p,
                  ls_distributed_count(results) > 0
                      ? ls_distributed_component(results, (size_t)r)
                      : results,
                  first + r, size == REPLICAS ? 0 : 1);
  ls_nest_release(results);
  ls_nest_release(args);
  ls_nest_release(part);
  return status;
}

static void compare(const parts *p, int64_t size) {
  size_t equal = 0;
  for (int r = 0; r < REPLICAS; ++r)
    for (size_t i = 0; i < p->elements; ++i)
      equal += memcmp(&p->gradients[0][r][i], &p->gradients[1][r][i],
                      sizeof(float)) == 0;
  printf("{\"part\": %lld, \"equal\": %zu, \"of\": %zu}\n", (long long)size,
         equal, REPLICAS * p->elements);
  fflush(stdout);
}

static ls_status run_parts(parts *p, ls_nest batch, int64_t size) {
  ls_bag bag = {0};
  ls_strategy *strategy =
      ls_mirrored_strategy_in(&bag, .num_replicas = LS_SOME(size));
  ls_function *function =
      ls_function_in(&bag, .call = differentiate, .user = p);
  ls_status status = ls_bag_take_error(&bag);
  for (int64_t at = 0; at < REPLICAS && ls_status_is_ok(status); at += size)
    status = run_part(p, strategy, function, batch, at, size);
  ls_bag_empty(&bag);
  if (ls_status_is_ok(status) && size < REPLICAS) compare(p, size);
  return status;
}

static ls_status run_all(const char *name, parts *p) {
  const ls_model_type *type = ls_model_find(name);
  LS_RETURN_IF_ERROR(ls_model_create(type, NULL, &p->model));
  p->num_variables =
      type->variables(p->model.self, p->variables, MOST_VARIABLES);
  ls_nest batch = {0};
  ls_status status =
      ls_model_synthetic_batch(type, REPLICAS * EXAMPLES, &batch);
  for (int64_t size = REPLICAS; size > 0 && ls_status_is_ok(status); size /= 2)
    status = run_parts(p, batch, size);
  ls_nest_release(batch);
  return status;
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: device_parts MODEL DEVICE\n");
    return 2;
  }
  ls_runtime *runtime = NULL;
  parts p = {.num_variables = 0};
  ls_status status = ls_runtime_create(
      &(ls_runtime_options){
          .device = argv[2], .num_devices = 1, .exact_bits = true},
      &runtime);
  if (ls_status_is_ok(status)) {
    (void)ls_runtime_make_current(runtime);
    status = run_all(argv[1], &p);
    ls_model_destroy(&p.model);
    (void)ls_runtime_make_current(NULL);
    status = ls_status_join(status, ls_runtime_destroy(runtime));
  }
  for (int r = 0; r < REPLICAS; ++r) {
    free(p.gradients[0][r]);
    free(p.gradients[1][r]);
  }
  const bool ok = ls_status_is_ok(status);
  if (!ok) fprintf(stderr, "%s\n", ls_status_message(status));
  ls_status_free(status);
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
