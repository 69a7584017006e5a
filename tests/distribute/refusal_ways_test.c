// SPDX-License-Identifier: Apache-2.0
//
// What a step may not do is refused with the same code in every way to run, and
// leaves a build graph as it was.
#include "runtime/eager/eager.h"
#include "support/ways.h"

#include "base/memory/allocator.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/own.h"
#include "lockstep/host.h"
#include "support/callbacks.h"
#include "support/merges.h"
#include "support/replicas.h"
#include "support/values.h"
#include "support/variables.h"

typedef struct refusal {
  const char *name;
  ls_nest (*step)(ls_nest args, ways *self);
  ls_merge_function merge;  // In place of the step.
  ls_code code;
  const char *says;
  bool writes_before;
  ls_variable_options options;  // Of a variable that the step makes.
} refusal;

static void make_scalar(ways *self) {
  ways_vector(self, "v", 0, (double[]){10});
}

static ls_nest merge(ls_nest args, ways *self) {
  const refusal *r = self->user;
  return ls_replica_merge_call(ls_replica_context(), r->merge,
                               ls_leaf(ls_mul_scalar(argument(args, 0), 2)),
                               self);
}

static void hold(const refusal *cases, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const ways_case c = {.name = cases[i].name,
                         .user = &cases[i],
                         .make = make_scalar,
                         .args = number_of_replica,
                         .step = cases[i].merge != NULL ? merge : cases[i].step,
                         .refused = cases[i].code,
                         .says = cases[i].says,
                         .writes_before = cases[i].writes_before};
    ways_hold(&c, 1);
  }
}

// ---- Contexts --------------------------------------------------------------
static ls_nest run_other(ls_nest args, ways *self) {
  LS_OWN(ls_strategy, other) = mirrored_of(2);
  ls_nest made = ls_none();
  (void)args, (void)self;
  const ls_status status =
      ls_strategy_run(other, ls_plain(give_none, NULL), ls_none(), &made);
  return taken(status, &made);
}

static ls_nest reduce_other(ls_strategy *strategy, ls_nest args, void *user) {
  LS_OWN(ls_strategy, other) = mirrored_of(2);
  ls_nest made = ls_none();
  (void)strategy, (void)user;
  const ls_status status =
      ls_strategy_reduce(other, LS_REDUCE_MEAN, args, &made);
  return taken(status, &made);
}

static ls_nest merge_again(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy;
  return ls_replica_merge_call(ls_replica_context(), reduce_other, args, user);
}

static ls_nest enter_scope(ls_nest args, ways *self) {
  ls_tensor x = ls_failed_tensor();
  {
    LS_STRATEGY_SCOPE(self->strategy);
    x = ls_square(argument(args, 0));
  }
  return taken(ls_made_status(x), (ls_nest[]){LS_TUPLE(ls_leaf(x))});
}

static ls_nest take_handle(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  ls_variable *handle = NULL;
  (void)strategy, (void)args;
  return taken(ls_variable_handle(self->variables[0], &handle),
               (ls_nest[]){ls_none()});
}

static ls_nest take_reference(ls_nest args, ways *self) {
  ls_variable *reference = NULL;
  (void)args;
  return taken(ls_variable_as_reference(self->variables[0], &reference),
               (ls_nest[]){ls_none()});
}

static ls_nest gather_in_replica(ls_nest args, ways *self) {
  ls_nest made = ls_none();
  return taken(
      ls_strategy_gather(self->strategy, ls_nest_item(args, 0), 0, &made),
      &made);
}

TEST(contexts_are_refused_the_same_in_every_way) {
  LS_SPEC("V80 V92 V167 V175 V183 M30 M31 M32");
  static const refusal cases[] = {{.name = "a run of another strategy",
                                   .step = run_other,
                                   .code = LS_FAILED_PRECONDITION,
                                   .says = "cannot be mixed"},
                                  {.name = "a reduction of another strategy",
                                   .merge = reduce_other,
                                   .code = LS_FAILED_PRECONDITION,
                                   .says = "cannot be mixed"},
                                  {.name = "a merge in a merge",
                                   .merge = merge_again,
                                   .code = LS_FAILED_PRECONDITION},
                                  {.name = "a scope in a replica",
                                   .step = enter_scope,
                                   .code = LS_FAILED_PRECONDITION,
                                   .says = "merge_call"},
                                  {.name = "a handle across replicas",
                                   .merge = take_handle,
                                   .code = LS_FAILED_PRECONDITION,
                                   .says = "handle"},
                                  {.name = "a reference",
                                   .step = take_reference,
                                   .code = LS_INVALID_ARGUMENT,
                                   .says = "ls_variable_read"},
                                  {.name = "a gather in a replica",
                                   .step = gather_in_replica,
                                   .code = LS_FAILED_PRECONDITION,
                                   .says = "all_gather"}};
  hold(cases, LS_COUNT_OF(cases));
}

// ---- Values ----------------------------------------------------------------
static ls_nest write_rows(ls_nest args, ways *self) {
  ls_nest after = ls_none();
  const ls_tensor rows = ls_broadcast(argument(args, 0), LS_SHAPE(2));
  return taken(ls_variable_write(self->variables[0], LS_WRITE_ADD,
                                 ls_leaf(rows), NULL, &after),
               (ls_nest[]){ls_none()});
}

static ls_nest write_integers(ls_nest args, ways *self) {
  ls_nest after = ls_none();
  const ls_tensor integer = ls_convert(argument(args, 0), LS_DTYPE_I32);
  return taken(ls_variable_write(self->variables[0], LS_WRITE_ASSIGN,
                                 ls_leaf(integer), NULL, &after),
               (ls_nest[]){ls_none()});
}

static ls_nest write_rows_across(ls_strategy *strategy, ls_nest args,
                                 void *user) {
  ways *self = user;
  ls_nest after = ls_none();
  (void)strategy, (void)args;
  const ls_tensor rows = ls_broadcast(ls_scalar(LS_DTYPE_F32, 1), LS_SHAPE(2));
  return taken(ls_variable_write(self->variables[0], LS_WRITE_ASSIGN,
                                 ls_leaf(rows), NULL, &after),
               (ls_nest[]){ls_none()});
}

static ls_nest sum_bools(ls_nest args, ways *self) {
  const ls_tensor x = ls_convert(argument(args, 0), LS_DTYPE_BOOL);
  (void)self;
  return ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_SUM, ls_leaf(x));
}

static ls_nest sum_bool_array(ls_nest args, ways *self) {
  const double yes[] = {1, 0};
  LS_OWN(ls_nest, bools) =
      ls_nest_array(array_of(LS_DTYPE_BOOL, LS_SHAPE(2), yes));
  (void)args, (void)self;
  return ls_replica_all_reduce(ls_replica_context(), LS_REDUCE_SUM, bools);
}

static ls_nest greatest_bool(ls_nest args, ways *self) {
  (void)self;
  return ls_leaf(ls_all_reduce(
      LS_REDUCE_MAX, ls_convert(argument(args, 0), LS_DTYPE_BOOL)));
}

static ls_nest mean_bools(ls_strategy *strategy, ls_nest args, void *user) {
  const ls_tensor yes = ls_scalar(LS_DTYPE_BOOL, 1);
  const ls_nest items[] = {ls_leaf(yes), ls_leaf(yes), ls_leaf(yes)};
  LS_OWN(ls_nest, parts) = ls_nest_distributed(
      LS_PER_REPLICA, items, (size_t)ls_strategy_num_replicas(strategy));
  ls_nest made = ls_none();
  (void)args, (void)user;
  return taken(ls_strategy_reduce(strategy, LS_REDUCE_MEAN, parts, &made),
               &made);
}

TEST(wrong_values_are_refused_the_same_in_every_way) {
  LS_SPEC("V94 V96");
  static const refusal cases[] = {{.name = "rows for a scalar",
                                   .step = write_rows,
                                   .code = LS_INVALID_ARGUMENT,
                                   .says = "[2]"},
                                  {.name = "integers for floats",
                                   .step = write_integers,
                                   .code = LS_INVALID_ARGUMENT,
                                   .says = "i32"},
                                  {.name = "a sum of bools",
                                   .step = sum_bools,
                                   .code = LS_INVALID_ARGUMENT,
                                   .says = "all_reduce takes numbers, got bool"},
                                  {.name = "a sum of arrays of bools",
                                  .step = sum_bool_array,
                                  .code = LS_INVALID_ARGUMENT,
                                  .says = "all_reduce takes numbers, got bool"},
                                 {.name = "a maximum of bools",
                                   .step = greatest_bool,
                                   .code = LS_INVALID_ARGUMENT,
                                   .says = "all_reduce takes numbers, got bool"},
                                  {.name = "a mean of bools across replicas",
                                   .merge = mean_bools,
                                   .code = LS_INVALID_ARGUMENT,
                                   .says = "takes numbers, got bool"},
                                  {.name = "rows across replicas",
                                   .merge = write_rows_across,
                                   .code = LS_INVALID_ARGUMENT,
                                   .says = "[2]"}};
  hold(cases, LS_COUNT_OF(cases));
}

// ---- Gradients -------------------------------------------------------------
// Reads the variable, and lets other replicas run.
static ls_nest read_and_reduce(ls_nest inputs, void *user) {
  const ways *self = user;
  return ls_leaf(ls_all_reduce(
      LS_REDUCE_SUM, ls_mul(ls_nest_tensor(inputs, 0),
                            ls_variable_read(self->variables[0]))));
}

static ls_nest pass_gradient(ls_nest inputs, ls_nest outputs, ls_nest gradients,
                             void *user) {
  (void)inputs, (void)outputs, (void)user;
  return gradients;
}

static ls_nest read_inside(ls_nest args, ways *self) {
  return ls_custom_gradient(read_and_reduce, pass_gradient, self,
                            ls_leaf(argument(args, 0)));
}

TEST(a_read_in_a_custom_gradient_is_refused_on_any_number_of_replicas) {
  // Eager notes reads for a tape alone.
  ways_hold(&(ways_case){.name = "a read in a custom gradient",
                         .make = make_scalar,
                         .args = number_of_replica,
                         .step = read_inside,
                         .without = 1 << WAY_EAGER,
                         .refused = LS_FAILED_PRECONDITION,
                         .says = "reads variable 'v'"},
            1);
}

// ---- Variables -------------------------------------------------------------
static ls_nest make_variable(ls_nest args, ways *self) {
  const refusal *r = self->user;
  LS_OWN(ls_variable, made) = NULL;
  (void)args;
  ls_variable_options options = r->options;
  options.name = "w";
  const ls_status status = ls_variable_create(&options, &made);
  return taken(status, (ls_nest[]){ls_none()});
}

TEST(variables_are_refused_the_same_in_every_way) {
  LS_SPEC("V35 V36 V37 V38 V40");
  static const refusal cases[] = {
      {.name = "no synchronization",
       .step = make_variable,
       .code = LS_INVALID_ARGUMENT,
       .says = "NONE",
       .options = {.dtype = LS_DTYPE_F32,
                   .synchronization = LS_SYNCHRONIZATION_NONE}},
      {.name = "another synchronization",
       .step = make_variable,
       .code = LS_INVALID_ARGUMENT,
       .says = "77",
       .options = {.dtype = LS_DTYPE_F32,
                   .synchronization = (ls_variable_synchronization)77}},
      {.name = "another aggregation",
       .step = make_variable,
       .code = LS_INVALID_ARGUMENT,
       .says = "77",
       .options = {.dtype = LS_DTYPE_F32,
                   .aggregation = (ls_variable_aggregation)77}},
      {.name = "a mean of integers",
       .step = make_variable,
       .code = LS_INVALID_ARGUMENT,
       .says = "MEAN",
       .options = {.dtype = LS_DTYPE_I32, .aggregation = MEAN}},
      {.name = "no type", .step = make_variable, .code = LS_INVALID_ARGUMENT}};
  hold(cases, LS_COUNT_OF(cases));
}

// ---- Callbacks -------------------------------------------------------------
static ls_nest break_down(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  (void)strategy, (void)args;
  ls_variable_assign(self->variables[0], ls_scalar(LS_DTYPE_F32, 3));
  return LS_FAIL(LS_DATA_LOSS, "the merge is broken");
}

static ls_nest break_update(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_update_replica_id().value == 0
             ? LS_FAIL(LS_ABORTED, "the update is broken")
             : ls_none();
}

static ls_nest update_broken(ls_strategy *strategy, ls_nest args, void *user) {
  ways *self = user;
  ls_nest made = ls_none();
  (void)args;
  return taken(ls_strategy_update(strategy, self->variables[0], break_update,
                                  ls_none(), self, true, &made),
               &made);
}

static ls_status break_host(ls_nest values, void *user) {
  (void)values, (void)user;
  return LS_STATUS(LS_DATA_LOSS, "the host is broken");
}

static ls_nest give_broken_op(ls_nest args, ways *self) {
  (void)args, (void)self;
  return ls_nest_op(ls_host_function_op(break_host, NULL, ls_none()));
}

static ls_nest wait_for_broken_op(ls_nest args, ways *self) {
  const ls_op op = ls_host_function_op(break_host, NULL, ls_none());
  LS_CONTROL_SCOPE(&op, 1);
  (void)self;
  return ls_leaf(ls_identity(argument(args, 0)));
}

TEST(callbacks_fail_the_same_in_every_way) {
  LS_SPEC("V169 V213");
  static const refusal cases[] = {{.name = "a merge function",
                                   .merge = break_down,
                                   .code = LS_DATA_LOSS,
                                   .says = "the merge is broken",
                                   .writes_before = true},
                                  {.name = "a host function",
                                   .step = give_broken_op,
                                   .code = LS_DATA_LOSS,
                                   .says = "the host is broken"},
                                  {.name = "a host function, waited for",
                                   .step = wait_for_broken_op,
                                   .code = LS_DATA_LOSS,
                                   .says = "the host is broken"},
                                  {.name = "an update's function",
                                   .merge = update_broken,
                                   .code = LS_ABORTED,
                                   .says = "the update is broken"}};
  hold(cases, LS_COUNT_OF(cases));
}
