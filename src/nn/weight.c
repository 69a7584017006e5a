// SPDX-License-Identifier: Apache-2.0
// Weights: variables whose initial value is drawn by name.
#include <stdio.h>

#include "base/memory/map.h"
#include "base/require.h"
#include "graph/context.h"
#include "lockstep/weights.h"

// Writes the current name scope, such as "a/b/", into `buffer`.
static void print_scope(char *buffer, size_t size) {
  ls_name_scope_print(ls_context_current()->scoped.names, buffer, size);
}

// State of ls_variable_create's callback; valid during that call.
typedef struct weight_draw {
  const ls_weight_options *options;
  // Full name in eager mode, where names are not made unique.
  const char *eager_name;
} weight_draw;

// Draws the value by the variable's full name. In a build graph the name may
// have a number appended; then the current scope, where the variable's ops are,
// has that name.
static ls_nest draw(ls_nest args, void *user) {
  (void)args;
  const weight_draw *it = user;
  const char *name = it->eager_name;
  size_t size = strlen(name);
  char scope[LS_MAX_FULL_NAME];
  if (!ls_graph_is_eager(ls_graph_current())) {
    print_scope(scope, sizeof(scope));
    name = scope;
    size = strlen(scope);
    if (size > 0 && scope[size - 1] == '/') --size;
  }
  const ls_weight_options *options = it->options;
  // The text form needs a positive stream.
  const uint64_t stream = ls_hash(name, size, 0) & INT64_MAX;
  const ls_random_options random = {.seed = options->seed,
                                    .stream = LS_SOME((int64_t)stream),
                                    .fixed = true,
                                    .same_on_all_replicas = true};
  const ls_initializer *initializer = &options->initializer;
  return ls_leaf(
      initializer->draw(initializer, options->dtype, options->shape, &random));
}

// Returns true for zeros, the default of a variable; -0 is not.
static bool is_zeros(const ls_initializer *initializer) {
  const ls_initializer zeros = ls_init_zeros();
  return initializer->draw == zeros.draw &&
         memcmp(&initializer->a, &zeros.a, sizeof(zeros.a)) == 0;
}

ls_status ls_weight_create(const ls_weight_options *options,
                           ls_variable **out_variable) {
  LS_REQUIRE_OUT(out_variable);
  ls_weight_options opts = options != NULL ? *options : (ls_weight_options){0};
  if (opts.name == NULL) opts.name = "weight";
  if (opts.dtype == LS_DTYPE_NONE) opts.dtype = LS_DTYPE_F32;
  if (opts.initializer.draw == NULL)
    opts.initializer = ls_init_glorot_uniform();
  if (!ls_shape_is_known(opts.shape))
    return ls_invalid_argument("weight '%s' needs a known shape, got %s",
                               opts.name,
                               LS_SHAPE_TEXT(opts.dtype, opts.shape));
  char scope[LS_MAX_FULL_NAME], name[2 * LS_MAX_FULL_NAME];
  print_scope(scope, sizeof(scope));
  snprintf(name, sizeof(name), "%s%s", scope, opts.name);
  weight_draw it = {.options = &opts, .eager_name = name};
  return ls_variable_create(
      &(ls_variable_options){.name = opts.name,
                             .dtype = opts.dtype,
                             .shape = opts.shape,
                             .initializer =
                                 is_zeros(&opts.initializer) ? NULL : draw,
                             .initializer_user = &it,
                             .trainable = opts.trainable},
      out_variable);
}
