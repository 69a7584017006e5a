// SPDX-License-Identifier: Apache-2.0
// The ways to run, as a table: one body is run traced, op by op in eager, and
// in a build graph with a session, there as it is and as a traced function; on
// 1, 2 and 3 replicas; with the built-in cross-device ops and with a user's own
// table. All ways give the same bytes, and each what the case says is right.
#ifndef LS_TESTS_SUPPORT_WAYS_H_
#define LS_TESTS_SUPPORT_WAYS_H_

#include "lockstep/eager.h"
#include "lockstep/optimizers.h"
#include "lockstep/strategy.h"
#include "support/expect.h"
#include "support/spec.h"

typedef enum way {
  WAY_TRACED,
  WAY_EAGER,
  WAY_GRAPH,
  WAY_GRAPH_TRACED,  // The same, of a traced function.
  NUM_WAYS,
} way;

enum {
  WAYS_REPLICAS = 3,  // A case runs on 1 to so many.
  WAYS_MOST_REPLICAS = 8,
  WAYS_MOST_STEPS = 4,
  WAYS_MOST_VARIABLES = 16,
  WAYS_MOST_VALUES = 1024,
};

// One run of a case; what its functions are given.
typedef struct ways {
  // Where it runs.
  way way;
  int replicas;
  bool own_table;
  const void *user;  // The case's.
  ls_strategy *strategy;
  // What `make` has made; released behind the run.
  ls_variable *variables[WAYS_MOST_VARIABLES];
  size_t num_variables;
  ls_optimizer *optimizer;
  void *more;  // Anything else: `drop` frees it.
  // What came out: the leaves of each replica's results, step by step, then the
  // components of the variables and the optimizer's. `values_of` says where
  // those of a step and replica begin.
  ls_array *values[WAYS_MOST_VALUES];
  size_t num_values;
  size_t values_of[WAYS_MOST_STEPS][WAYS_MOST_REPLICAS];
  size_t first_variable;
} ways;

// Zero in a field means its default.
typedef struct ways_case {
  const char *name;
  const void *user;
  // Makes variables (ways_variable) and the optimizer, in the strategy's scope
  // and, for a session, in the graph. May be NULL.
  void (*make)(ways *self);
  // What replica r gets in a step: a nest of arrays. May be NULL: nothing.
  ls_nest (*args)(const ways *self, int step, int r);
  // A replica's part of a step: tensors, host scalars, and the ops that a
  // session is to run.
  ls_nest (*step)(ls_nest args, ways *self);
  // What is right, seen in each run. May be NULL: the ways are compared only.
  void (*check)(const ways *self);
  void (*drop)(ways *self);  // Of `more`. May be NULL.
  int steps;                 // Default 1.
  unsigned without;          // Ways that are left out, as bits: 1 << WAY_EAGER.
  bool one_table;            // Not with a user's table.
  bool one_replica, replicas_only;  // With one alone; with several only.
  // How far ways may differ where their arithmetic does. Default: not a bit.
  double tolerance;
  // The step is refused in every way, with this code and text, and leaves the
  // variables as they were: but for what eager has written before.
  ls_code refused;
  const char *says;
  bool writes_before;
} ways_case;

// Runs the case in all its ways.
void ways_hold(const ways_case *cases, size_t count);

// A variable that the run owns; zero in a field of the options is its default.
ls_variable *ways_variable(ways *self, const ls_variable_options *options);
// One of f32 numbers: a vector of `count`, a scalar for 0.
ls_variable *ways_vector(ways *self, const char *name, size_t count,
                         const double *values);

// The gradients of the scalar that `function` computes with respect to tensors
// and variables: by a tape in eager. `*out_y` may be NULL.
ls_status ways_gradients(ways *self,
                         ls_tensor (*function)(ls_nest args, ways *self),
                         ls_nest args, const ls_nest *xs, size_t count,
                         ls_tensor *out_y, ls_nest *gradients);
// A step of the run's optimizer down the loss that `function` computes: by a
// tape in eager. The loss and, for a session, the step's op.
ls_nest ways_minimize(ways *self,
                      ls_tensor (*function)(ls_nest args, ways *self),
                      ls_nest args);

// For `check`: the number in leaf `leaf` of what replica r gave in a step, at
// `element`; and that of component c of variable v after the last step.
double ways_result(const ways *self, int step, int r, size_t leaf,
                   int64_t element);
double ways_value(const ways *self, size_t v, int component, int64_t element);
// Expects it, within the tolerance given, naming the run.
void ways_expect(const ways *self, const char *what, double got, double wanted,
                 double tolerance);

#endif  // LS_TESTS_SUPPORT_WAYS_H_
