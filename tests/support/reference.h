// SPDX-License-Identifier: Apache-2.0
//
// What every op computes, said once more in the plainest way: one loop an op,
// floats in double, integers exactly. It shares nothing with the engine but
// the graph's nodes, whose types and attributes say what is asked for.
//
// Floats are rounded to their type after each op. A number remembers the sum
// of what was added up for it without signs, since rounding on the way there
// is relative to that and not to what came out.
#ifndef LS_TESTS_SUPPORT_REFERENCE_H_
#define LS_TESTS_SUPPORT_REFERENCE_H_

#include "graph/graph.h"
#include "graph/variables/variable.h"

typedef struct ref_number {
  double real;    // Of floats.
  int64_t whole;  // Of integers and bools, u64 as its bits; of a stack, which.
  double terms;   // Of floats: the sum without signs, 0 where nothing was
                  // added.
} ref_number;

typedef struct ref_tensor {
  ls_type type;
  int64_t count;
  ref_number *at;  // In row order.
} ref_tensor;

// The memory of an evaluation, its variables and stacks.
typedef struct ref_run ref_run;
ref_run *ref_run_create(void);
void ref_run_destroy(ref_run *run);

// Zeros; and a copy of an engine's data.
ref_tensor ref_tensor_create(ref_run *run, ls_type type);
ref_tensor ref_tensor_load(ref_run *run, ls_type type, const void *data);
// Lets each number have the error of the largest sum: fast arithmetic mixes
// those of neighbours.
void ref_tensor_level(ref_tensor *tensor);
// What a variable holds from now on.
void ref_set_variable(ref_run *run, const ls_variable *variable,
                      ref_tensor value);
ref_tensor ref_variable(ref_run *run, const ls_variable *variable);

// The outputs of one node, into `out`, whose types are set.
void ref_evaluate(ref_run *run, const ls_node *node, const ref_tensor *in,
                  ref_tensor *out);
// A graph's results for arguments in the order of its parameters. What is
// variable in a built graph's shapes follows from the arguments.
void ref_evaluate_graph(ref_run *run, const ls_graph *graph,
                        const ref_tensor *arguments, ref_tensor *results);

// An element of an engine's data.
ref_number ref_load(ls_dtype dtype, const void *data, int64_t index);
void ref_store(ls_dtype dtype, ref_number value, void *data, int64_t index);

// Fails, naming `what` and the element, unless the engine's `data` agree: bits
// of integers and bools, floats within `slack` times the rounding of the type
// and of the terms in what the kernels add with (f32 for 16 bits). nan equals
// nan.
void ref_expect(const char *what, const ref_tensor *want, const void *data,
                double slack);

#endif  // LS_TESTS_SUPPORT_REFERENCE_H_
