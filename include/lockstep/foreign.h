// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Callbacks for other languages, whose foreign-function interfaces often cannot
// return a struct by value, and the declarations of the public interface as
// text. docs/languages.md has examples.
//
// A program passes an adapter of this header as the callback, and as its `user`
// the address of an ls_foreign_call with its own function:
//
//   ls_foreign_call step = {.call = my_step, .user = my_net};
//   ls_function_create(&(ls_function_options){.call = ls_foreign_callback,
//                                             .user = &step}, &function);
//
// For a call that takes two callbacks with one `user`, such as ls_while, `user`
// is the address of an array of two; an adapter that ends in _second calls the
// second. So do the types of models, whose `self` is that address:
// train_step = ls_foreign_callback, logits = ls_foreign_callback_second.
//
// The caller owns the ls_foreign_call. It is lent as long as the callback may
// be called: that of a function or a data set until its `release`, that of a
// custom gradient as long as the graph, others until the call returns.
//
// Threads: an adapter is called on the threads that call the callback it stands
// for, which may be several at the same time.
#ifndef LOCKSTEP_FOREIGN_H_
#define LOCKSTEP_FOREIGN_H_

#include "lockstep/dataset.h"
#include "lockstep/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_step_context ls_step_context;  // lockstep/steps.h
typedef struct ls_input_call ls_input_call;  // lockstep/estimator_functions.h

// A function of another language. `args` has the callback's nests, tensors (as
// leaves) and numbers (as scalars), in its order, lent; `context` its other
// argument, NULL if it has none; `*out_result`, none at first, gets the result,
// which the caller owns: ls_fail refuses.
typedef void (*ls_foreign_function)(const ls_nest *args, void *context,
                                    void *user, ls_nest *out_result);
typedef struct ls_foreign_call {
  ls_foreign_function call;  // Required.
  void *user;
  // Set by languages that keep the frames of a thread in one stack, such as
  // CPython: the call cannot be paused while another one goes on. A merge call
  // of several replicas in it is LS_UNIMPLEMENTED.
  bool one_stack;
} ls_foreign_call;

// ls_callback, ls_flow_callback, ls_leaf_function, functions of models.
LS_API ls_nest ls_foreign_callback(ls_nest args, void *call);
LS_API ls_nest ls_foreign_callback_second(ls_nest args, void *call);
// ls_gradient_callback; args: inputs, outputs, gradients of the outputs.
LS_API ls_nest ls_foreign_gradient_second(ls_nest inputs, ls_nest outputs,
                                          ls_nest output_gradients, void *call);
// ls_loss_callback, and `custom` of a schedule, whose argument is its step. The
// result is a leaf with a tensor.
LS_API ls_tensor ls_foreign_loss(ls_nest args, void *call);
LS_API ls_tensor ls_foreign_schedule(ls_tensor step, void *call);
// ls_map_function; context: the ls_map_call.
LS_API ls_nest ls_foreign_map(ls_nest element, const ls_map_call *map,
                              void *call);
// `make` of ls_index_options, ls_cache_function; args: the number.
LS_API ls_nest ls_foreign_make(void *call, int64_t number);
// ls_value_function; args: the replica and the number of replicas.
LS_API ls_nest ls_foreign_value(int32_t replica, int32_t replicas, void *call);
// ls_dataset_function; context: the ls_input_context.
LS_API ls_nest ls_foreign_dataset(ls_input_context input, void *call);
// ls_input_function of estimators; context: the ls_input_call.
LS_API ls_nest ls_foreign_input(void *call, ls_input_call *input);
// ls_merge_function; context: the ls_strategy.
LS_API ls_nest ls_foreign_merge(ls_strategy *strategy, ls_nest args,
                                void *call);
// ls_step_function; context: the ls_step_context.
LS_API ls_nest ls_foreign_step(ls_step_context *context, ls_nest inputs,
                               void *call);

// Returns the declarations of the public interface of this build in C, static:
// types, constants of enums, and functions, without macros, inline functions
// and comments. Bindings that read it need no headers.
LS_API const char *ls_declarations(void);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_FOREIGN_H_
