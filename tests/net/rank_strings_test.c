// SPDX-License-Identifier: Apache-2.0
//
// Strings do not go from rank to rank: they are refused before anything runs.
#include "distribute/own.h"
#include "lockstep/communicator.h"
#include "support/function.h"
#include "support/place.h"
#include "support/replicas.h"
#include "support/values.h"

static ls_nest give_back(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_identity(ls_nest_tensor(args, 0)));
}

static ls_nest gather(ls_nest args, void *user) {
  (void)user;
  (void)ls_print("all", ls_all_gather(ls_nest_tensor(args, 0), 0));
  return ls_none();
}

static ls_nest keep(ls_nest args, void *user) {
  (void)user;
  (void)ls_print("own", ls_nest_tensor(args, 0));
  return ls_none();
}

static ls_status run_strings(ls_callback callback) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_nest items[2], results = ls_none();
  for (size_t r = 0; r < 2; ++r) {
    const ls_bytes text = {"text", 4};
    ls_array *array = NULL;
    expect_ok(
        ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE(1), &text, &array));
    items[r] = ls_nest_array(array);
  }
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, items, 2));
  LS_OWN(ls_function, function) = unnamed_function(callback, NULL);
  const ls_status status =
      ls_strategy_run(strategy, ls_traced(function), args, &results);
  ls_nest_release(results);
  return status;
}

typedef struct way {
  ls_callback callback;
} way;

static ls_status run_on_rank(ls_communicator *communicator, void *user) {
  const way *w = user;
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .communicator = communicator});
  return run_strings(w->callback);
}

TEST(strings_between_ranks_are_refused) {
  way all[] = {{give_back}, {gather}, {keep}};
  for (size_t i = 0; i < 3; ++i)
    expect_ok(run_strings(all[i].callback));
  expect_status(ls_standin_run(2, run_on_rank, &all[0]), LS_UNIMPLEMENTED,
                "a string goes between ranks");
  expect_status(ls_standin_run(2, run_on_rank, &all[1]), LS_UNIMPLEMENTED,
                "a string goes between ranks");
  expect_ok(ls_standin_run(2, run_on_rank, &all[2]));
}
