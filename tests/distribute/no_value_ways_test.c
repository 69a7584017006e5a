// SPDX-License-Identifier: Apache-2.0
//
// A variable that is made without a value has one from its first write on, in
// replicas and merges, whoever writes it and wherever.
#include "support/ways.h"

#include "distribute/own.h"
#include "graph/own.h"
#include "lockstep/flow.h"
#include "lockstep/function.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/merges.h"
#include "support/values.h"
#include "support/variables.h"

// In a build graph a variable has an initializer.
#define NOT_IN_GRAPHS (1U << WAY_GRAPH | 1U << WAY_GRAPH_TRACED)

typedef struct writing {
  const char *name;
  ls_nest (*write)(ls_nest none, void *ways);
  bool by_replicas;
} writing;

static void make_valueless(ways *self) {
  ways_variable(self, &(ls_variable_options){.name = "w",
                                             .dtype = LS_DTYPE_F32,
                                             .shape = LS_SCALAR,
                                             .no_value = true});
}

static ls_nest has_value(const ways *self) {
  return ls_leaf(ls_variable_is_initialized(self->variables[0], NULL));
}

static ls_tensor f32_of(double value) { return ls_scalar(LS_DTYPE_F32, value); }

// ---- Writers ---------------------------------------------------------------
// Each writes 3, and returns true if the variable then has a value, seen there.
static ls_nest write_in_replica(ls_nest none, void *user) {
  ways *self = user;
  (void)none;
  ls_variable_assign(self->variables[0], f32_of(3));
  return has_value(self);
}

static ls_nest write_together(ls_strategy *strategy, ls_nest args, void *user) {
  (void)strategy, (void)args;
  return write_in_replica(ls_none(), user);
}

static ls_nest write_components(ls_strategy *strategy, ls_nest args,
                                void *user) {
  ways *self = user;
  (void)strategy, (void)args;
  for (int r = 0; r < self->replicas; ++r)
    ls_variable_assign(ls_variable_component(self->variables[0], (size_t)r),
                       f32_of(3));
  return has_value(self);
}

static ls_nest assign_three(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_variable_assign(ls_nest_as_variable(ls_nest_item(args, 0)),
                                    f32_of(3)));
}

static ls_nest update_together(ls_strategy *strategy, ls_nest args,
                               void *user) {
  ways *self = user;
  LS_OWN(ls_nest, given) = ls_none();
  (void)args;
  const ls_status status =
      ls_strategy_update(strategy, self->variables[0], assign_three, ls_none(),
                         NULL, false, &given);
  return ls_status_is_ok(status) ? has_value(self) : ls_fail(status);
}

static ls_nest merge_by(ls_merge_function merge, ways *self) {
  return ls_replica_merge_call(ls_replica_context(), merge, ls_none(), self);
}

static ls_nest write_in_merge(ls_nest none, void *user) {
  (void)none;
  return merge_by(write_together, user);
}

static ls_nest components_in_merge(ls_nest none, void *user) {
  (void)none;
  return merge_by(write_components, user);
}

static ls_nest update_in_merge(ls_nest none, void *user) {
  (void)none;
  return merge_by(update_together, user);
}

static ls_nest write_in_call(ls_nest none, void *user) {
  LS_OWN(ls_function, function) = NULL;
  ls_nest given = ls_none();
  expect_ok(ls_function_create(
      &(ls_function_options){.call = write_in_replica, .user = user},
      &function));
  return taken(ls_function_call(function, none, &given), &given);
}

static ls_nest write_four(ls_nest none, void *user) {
  ways *self = user;
  (void)none;
  ls_variable_assign(self->variables[0], f32_of(4));
  return has_value(self);
}

// Both branches write.
static ls_nest write_in_branches(ls_nest none, void *user) {
  (void)none;
  return ls_cond(ls_less(f32_of(1), f32_of(2)), write_in_replica, write_four,
                 user);
}

// Replicas that run op by op write one after another, and an earlier one does
// not see the others' writes.
static const writing writers[] = {
    {"a merge", write_in_merge, false},
    {"components", components_in_merge, false},
    {"an update", update_in_merge, false},
    {"a replica", write_in_replica, true},
    {"a function", write_in_call, true},
    {"branches", write_in_branches, true},
};

// ---- Steps -----------------------------------------------------------------
static ls_nest one_trip(ls_nest values, void *user) {
  (void)user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), f32_of(1)));
}

static ls_nest see_value(ls_nest values, void *user) {
  return LS_LIST(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                 has_value(user));
}

// Returns true for each place that has a value: before the write, with it,
// after it, and in a loop after it; and what is read.
static ls_nest write_and_look(ls_nest args, ways *self) {
  const writing *w = self->user;
  (void)args;
  const ls_nest before = has_value(self);
  LS_OWN(ls_nest, within) = w->write(ls_none(), self);
  expect_ok(ls_nest_status(within));
  ls_tensor seen = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(within, &seen));
  LS_OWN(ls_nest, looped) =
      ls_while(one_trip, see_value, self,
               LS_LIST(ls_leaf(f32_of(0)), ls_nest_retain(before)), 0);
  expect_ok(ls_nest_status(looped));
  return LS_LIST(before, ls_leaf(seen), has_value(self),
                 ls_leaf(ls_nest_tensor(looped, 1)),
                 ls_leaf(ls_variable_read(self->variables[0])));
}

static void it_has_one_from_the_write_on(const ways *self) {
  const writing *w = self->user;
  for (int r = 0; r < self->replicas; ++r) {
    for (size_t i = 0; i < 4; ++i)
      ways_expect(self, w->name, ways_result(self, 0, r, i, 0), i > 0, 0);
    ways_expect(self, w->name, ways_result(self, 0, r, 4, 0), 3, 0);
    ways_expect(self, w->name, ways_value(self, 0, r, 0), 3, 0);
  }
}

TEST(a_variable_has_a_value_from_its_first_write_on) {
  for (size_t i = 0; i < LS_COUNT_OF(writers); ++i) {
    const ways_case c = {.name = writers[i].name,
                         .user = &writers[i],
                         .make = make_valueless,
                         .step = write_and_look,
                         .check = it_has_one_from_the_write_on,
                         .without =
                             NOT_IN_GRAPHS |
                             (writers[i].by_replicas ? 1U << WAY_EAGER : 0),
                         .one_table = true};
    ways_hold(&c, 1);
  }
}

// ---- Replicas op by op -----------------------------------------------------
static ls_nest write_and_read(ls_nest args, ways *self) {
  const writing *w = self->user;
  (void)args;
  LS_OWN(ls_nest, within) = w->write(ls_none(), self);
  expect_ok(ls_nest_status(within));
  return LS_LIST(ls_leaf(ls_variable_read(self->variables[0])));
}

static void each_reads_its_own(const ways *self) {
  const writing *w = self->user;
  for (int r = 0; r < self->replicas; ++r) {
    ways_expect(self, w->name, ways_result(self, 0, r, 0, 0), 3, 0);
    ways_expect(self, w->name, ways_value(self, 0, r, 0), 3, 0);
  }
}

TEST(each_replica_gives_its_component_a_value) {
  for (size_t i = 0; i < LS_COUNT_OF(writers); ++i) {
    const ways_case c = {.name = writers[i].name,
                         .user = &writers[i],
                         .make = make_valueless,
                         .step = write_and_read,
                         .check = each_reads_its_own,
                         .without = NOT_IN_GRAPHS,
                         .one_table = true};
    ways_hold(&c, 1);
  }
}
