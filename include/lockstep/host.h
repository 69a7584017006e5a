// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Host kernels: ops of upper layers and of users that C functions run on the
// host. An op points to its kernel; the kernel is static data.
//
// Threads: the host's threads call a kernel's `start` or, if it is inline, the
// threads that run programs, for several runs and replicas at the same time;
// any thread may end a call.
#ifndef LOCKSTEP_HOST_H_
#define LOCKSTEP_HOST_H_

#include "lockstep/graph.h"
#include "lockstep/nest.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_host_kernel ls_host_kernel;

// One call of a host kernel, lent until it has ended and its results are taken.
typedef struct ls_host_call {
  ls_runtime *runtime;
  ls_object *state;     // The op's object attribute; NULL without one.
  const char *op_name;  // For messages.
  // 0 outside replicas; the replica's id in an outside_compilation of one
  // replica (outside compiled ops that write).
  int32_t replica;
  // Number of replicas, from `replica` on: 1 except with LS_HOST_ALL.
  int32_t num_replicas;
  size_t num_inputs;
  const ls_type *input_types;  // Known shapes; of one replica.
  const void *const *inputs;   // Dense, row by row; strings are ls_bytes.
  // Bytes from one replica's value to the next; 0: all share one value.
  const size_t *input_strides;
  size_t num_outputs;
  const ls_type *output_types;  // Types for one replica.
  // To be filled; the outputs of replica r + 1 follow those of r. Strings:
  // empty at first, to be filled with ls_bytes whose bytes stay valid until
  // ls_host_done or, if `take` writes them, until `end`; they are copied.
  void *const *outputs;
  void *room[4];  // For the kernel; NULL at the start.
  void *engine;   // For the engine.
} ls_host_call;

// Ends a call, from `start` or later from any thread. Takes the status over.
LS_API void ls_host_done(ls_host_call *call, ls_status status);

// Hands over an output instead of writing it, in `take` of a kernel with
// LS_HOST_GIVES: its value is at `data`, dense, row by row, and must stay
// unchanged until `end`. The run reads it there. It is copied where it must lie
// elsewhere: as a result of the run, the value of a variable or of a loop, a
// replica's part, strings, and data not aligned to 64 bytes.
LS_API LS_MUST_USE ls_status ls_host_give(ls_host_call *call, size_t output,
                                          const void *data);

enum {
  // Pure: the call is dropped if no result is needed.
  LS_HOST_MAY_BE_DROPPED = 1 << 0,
  // `start` takes microseconds and calls no user function: it is called on the
  // run's own thread, reads its inputs and writes its outputs in place, and
  // ends the call before it returns (but see WAITS). Without this flag it is
  // called on a host thread and works on copies, while the run continues with
  // what does not need the results.
  LS_HOST_INLINE = 1 << 1,
  // One call for all replicas where they reach the op together, else a call for
  // each.
  LS_HOST_ALL = 1 << 2,
  // The call may end only after another run does something, such as a read of
  // an empty queue: independent parts of a session run are then run
  // concurrently. Needs `cancel`. With INLINE, `start` may return before the
  // call has ended; inputs then stay in place until it has, and outputs are
  // copied unless there is `take`.
  LS_HOST_WAITS = 1 << 3,
  // OUT_OF_RANGE is the end of data, which all ranks reach in the same run, so
  // that they stay in step.
  LS_HOST_ENDS = 1 << 4,
  // `take` writes no output but hands each one over with ls_host_give. Needs
  // `take` and `end`, which is called when the run no longer needs the values:
  // at its end, or before the op is called again.
  LS_HOST_GIVES = 1 << 5,
  // TPU cores can run it too: in a computation it need not be in
  // outside_compilation.
  LS_HOST_ON_CORES = 1 << 6,
  // For the condition of a loop: takes true as long as a trip is wanted, and
  // gives i32 numbers, all zero if the trip cannot begin; the loop then ends.
  LS_HOST_TELLS = 1 << 7,
};

struct ls_host_kernel {
  // Unique among the kernels of a program; used in the text form.
  const char *name;
  // Infers the types of the outputs. `*num_out` is the capacity of `out`, 16;
  // if there are more outputs, sets their number and nothing else, and is
  // called again with enough capacity. May return unknown shapes while inputs
  // are unknown. NULL: no outputs.
  ls_status (*infer)(const ls_object *state, const ls_type *in, size_t num_in,
                     ls_type *out, size_t *num_out);
  // Starts the call. Never waits; ls_host_done follows unless it fails.
  ls_status (*start)(ls_host_call *call);
  uint32_t flags;
  // Writes the outputs from the contents of `room`: called on the run's own
  // thread, once after each successful call. If the outputs are not needed,
  // because the run has failed meanwhile, `outputs` is NULL, and the call may
  // be made on another thread. NULL: `start` fills the outputs. Otherwise
  // `outputs` is NULL until `take`.
  ls_status (*take)(ls_host_call *call);
  // Requests that a call that has not ended, or is just ending, end soon, with
  // any status. After it returns, inputs are not read any more. Called when a
  // run fails or is cancelled, on its thread.
  void (*cancel)(ls_host_call *call);
  // Returns true if a call would do nothing, so that neither `start` nor `take`
  // need be called, such as for a summary that is not due. Called on the run's
  // own thread before the inputs are computed (`inputs` and `outputs` are
  // NULL); must take well under a microsecond. For kernels without outputs.
  // NULL: no call is skipped.
  bool (*skips)(const ls_host_call *call);
  // Frees the contents of `room`: called once after `take`, when strings that
  // it returned are copied and other values it handed over are no longer
  // needed. NULL: nothing.
  void (*end)(ls_host_call *call);
  // Writes what a call of the op waits for, one line for the table of runs:
  // called from any thread, during calls. NULL: the table shows only the
  // duration.
  void (*tell)(const ls_object *state, char *buffer, size_t size);
  // Returns a number, never 0, that identifies what a call of the op changes:
  // calls with the same number keep their order in a session run whose parts
  // run concurrently. NULL: calls with one state do, unless the kernel waits.
  uint64_t (*order)(const ls_object *state);
};

// Adds a call of `kernel` on `inputs`. `state` is retained; NULL for none.
//   LS_INVALID_ARGUMENT  a kernel that waits has no `cancel`, or one that gives
//                        has no `take` or `end`.
LS_PLACED ls_op ls_host_call_add(const ls_host_kernel *kernel, ls_object *state,
                                 const ls_tensor *inputs, size_t num_inputs);

// A user's function on the host, without a kernel of its own.
typedef ls_status (*ls_host_callback)(ls_nest values, void *user);
// Adds an op, for its effect, that calls `fn` each time it runs, once per
// replica, with the values of `tensors`, lent: none, a tensor or a nest of
// them; values are arrays in the same nest, lent for the call. `user` is passed
// through, and must live as long as the graph. The status that `fn` returns is
// the status of the run.
//   LS_INVALID_ARGUMENT  no function; a leaf that is no tensor.
LS_PLACED ls_op ls_host_function_op(ls_host_callback fn, void *user,
                                    ls_nest tensors);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_HOST_H_
