// SPDX-License-Identifier: Apache-2.0
//
// Strategies and replicas inside.
#ifndef LS_DIST_STRATEGY_H_
#define LS_DIST_STRATEGY_H_

#include "base/fiber.h"
#include "graph/context.h"
#include "lockstep/strategy.h"
#include "runtime/function.h"

typedef struct ls_strategy_vtable {
  const char *name;
  ls_status (*run)(ls_strategy *strategy, ls_callable callable, ls_nest args,
                   ls_nest *results);
} ls_strategy_vtable;

struct ls_strategy {
  ls_object object;
  ls_allocator *allocator;
  ls_runtime *runtime;
  const ls_strategy_vtable *vtable;
  int32_t num_replicas;
  ls_fiber_pool *fibers;  // Stacks for replicas' callbacks while tracing.
};

// What a callback sees as "this replica": current on its own fiber only.
typedef struct ls_replica {
  ls_strategy *strategy;
  int32_t id, count;
} ls_replica;

// Traces `function` for every replica into `graph`, as one replicate op.
ls_status ls_replicas_trace(ls_strategy *strategy, ls_graph *graph,
                            const ls_function_options *function, ls_nest args,
                            ls_nest *out_result);

#endif  // LS_DIST_STRATEGY_H_
