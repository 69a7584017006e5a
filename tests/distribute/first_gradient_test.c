// SPDX-License-Identifier: Apache-2.0
//
// Gradients of replica 0's value on every replica: it gets the sum of all
// replicas' gradients, the others zeros, in every way to run.
#include "base/memory/allocator.h"
#include "base/memory/own.h"
#include "support/replicas.h"
#include "support/values.h"
#include "support/variables.h"
#include "support/ways.h"

static void make_on_read(ways *self) {
  LS_OWN(ls_array, initial) =
      array_of(LS_DTYPE_F32, LS_SHAPE(2), (double[]){3, 5});
  ways_variable(self, &(ls_variable_options){.name = "v",
                                             .initial_array = initial,
                                             .synchronization = ON_READ,
                                             .aggregation = FIRST});
}

static ls_nest vector_of_replica(const ways *self, int step, int r) {
  (void)self, (void)step;
  return LS_TUPLE(ls_nest_array(
      array_of(LS_DTYPE_F32, LS_SHAPE(2), (double[]){r + 1, 10 * (r + 1)})));
}

// The gradients of `loss` with respect to one thing.
static ls_nest gradient_of(ls_nest args, ways *self, ls_nest x,
                           ls_tensor (*loss)(ls_nest args, ways *self)) {
  ls_nest gradient = ls_none();
  const ls_status status =
      ways_gradients(self, loss, args, &x, 1, NULL, &gradient);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return LS_TUPLE(gradient);
}

static void first_has_all(const ways *self) {
  const int n = self->replicas;
  for (int r = 0; r < n; ++r)
    for (int i = 0; i < 2; ++i)
      ways_expect(self, "a gradient", ways_result(self, 0, r, 0, i),
                  r == 0 ? n * (n + 1) / 2.0 * (i == 0 ? 1 : 10) : 0, 0);
}

// ---- Variables that are used together --------------------------------------
static ls_tensor loss_of_use(ls_nest args, ways *self) {
  ls_tensor all = ls_failed_tensor();
  {
    LS_SYNC_ON_READ_SCOPE;
    all = ls_variable_as_tensor(self->variables[0]);
  }
  return ls_reduce_sum(ls_mul(all, first_argument(args)), LS_ALL_AXES);
}

static ls_nest differentiate_use(ls_nest args, ways *self) {
  LS_OWN(ls_nest, v) = ls_nest_variable(self->variables[0]);
  return gradient_of(args, self, v, loss_of_use);
}

TEST(a_use_of_the_first_component_has_a_gradient) {
  LS_SPEC("V113");
  ways_hold(&(ways_case){.name = "a use",
                         .make = make_on_read,
                         .args = vector_of_replica,
                         .step = differentiate_use,
                         .check = first_has_all},
            1);
}

// ---- What is broadcast -----------------------------------------------------
static ls_tensor loss_of_broadcast(ls_nest args, ways *self) {
  const ls_tensor x = first_argument(args);
  (void)self;
  return ls_reduce_sum(
      ls_mul(ls_collective_broadcast(x, 0), ls_stop_gradient(x)), LS_ALL_AXES);
}

static ls_nest differentiate_broadcast(ls_nest args, ways *self) {
  return gradient_of(args, self, ls_leaf(first_argument(args)),
                     loss_of_broadcast);
}

TEST(a_broadcast_has_a_gradient) {
  ways_hold(&(ways_case){.name = "a broadcast",
                         .args = vector_of_replica,
                         .step = differentiate_broadcast,
                         .check = first_has_all},
            1);
}
