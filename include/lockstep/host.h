// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Host kernels: ops of upper layers and of users, run by C functions on the
// host. An op points to its kernel; the kernel is static data.
//
// Threads: a kernel's `start` is called by the host's threads or, if it is
// inline, by those that run programs, for several runs and replicas at the same
// time; any thread may end a call.
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
  ls_object *state;      // The op's object attribute; NULL without.
  const char *op_name;   // For messages.
  int32_t replica;       // 0 outside replicas; in what one of them does there
                         // (outside compiled ops that write) its id.
  int32_t num_replicas;  // 1 but with LS_HOST_ALL: from `replica` on.
  size_t num_inputs;
  const ls_type *input_types;   // Known shapes; of one replica.
  const void *const *inputs;    // Dense, row by row; strings are ls_bytes.
  const size_t *input_strides;  // Bytes from a replica's value to the next
                                // one's; 0: it is the same for all.
  size_t num_outputs;
  const ls_type *output_types;  // Of one replica.
  void *const *outputs;  // To be filled; those of replica r + 1 stand behind
                         // those of r. Strings: with ls_bytes whose bytes stay
                         // until ls_host_done or, written by `take`, until
                         // `end`; they are copied, and come empty.
  void *room[4];         // The kernel's own, NULL at the start.
  void *engine;          // The engine's own.
} ls_host_call;

// Ends a call, from `start` or later from any thread. Takes the status over.
LS_API void ls_host_done(ls_host_call *call, ls_status status);

// Instead of writing an output, in `take` of a kernel with LS_HOST_GIVES: its
// value is what stands at `data`, dense, row by row, which stays as it is until
// `end`. The run reads it there. Where it must lie elsewhere it is copied: as a
// result of the run, the value of a variable or of a loop, the part of a
// replica, strings, and what is not aligned to 64 bytes.
LS_API LS_MUST_USE ls_status ls_host_give(ls_host_call *call, size_t output,
                                          const void *data);

enum {
  LS_HOST_MAY_BE_DROPPED = 1 << 0,  // Pure: no result wanted, no call.
  // `start` takes microseconds and calls no function of a user's: it is called
  // on the run's own thread, reads its inputs and writes its outputs where they
  // are, and ends the call before it returns (but see WAITS). Without this it
  // is called on a thread of the host's and works on copies, while the run goes
  // on with what does not need the results.
  LS_HOST_INLINE = 1 << 1,
  // One call for all replicas where they come to the op together, else a call
  // for each.
  LS_HOST_ALL = 1 << 2,
  // May end only once another run does something, as a read of an empty queue:
  // parts of a session run that do not need each other are then run side by
  // side. Needs `cancel`. With INLINE, `start` may return before the call has
  // ended, inputs stay where they are until it has, and outputs are copied
  // unless there is `take`.
  LS_HOST_WAITS = 1 << 3,
  // OUT_OF_RANGE from it is the end of data, to which all ranks come in the
  // same run: they stay in step.
  LS_HOST_ENDS = 1 << 4,
  // `take` writes no output but hands each one over by ls_host_give. Needs
  // `take` and `end`, which comes when the run does not need the values any
  // more: at its end, or before the op is called again.
  LS_HOST_GIVES = 1 << 5,
  // Cores of a TPU have it too: in a computation for them it need not be
  // outside.
  LS_HOST_ON_CORES = 1 << 6,
};

struct ls_host_kernel {
  const char *name;  // Unique among the kernels of a program; in the text form.
  // The types of the outputs. `*num_out` comes as the room in `out`, 16; where
  // there are more outputs, sets their number and nothing else, and is asked
  // again with room for them. May answer unknown shapes while inputs are
  // unknown. NULL: no outputs.
  ls_status (*infer)(const ls_object *state, const ls_type *in, size_t num_in,
                     ls_type *out, size_t *num_out);
  // Begins the call. Never waits; ls_host_done follows unless it fails.
  ls_status (*start)(ls_host_call *call);
  uint32_t flags;
  // Called on the run's own thread, once after each call that has ended well:
  // writes the outputs, where they are wanted, from what `room` holds. Where
  // they are not, as the run has failed meanwhile, `outputs` is NULL; then the
  // call may also be made on another thread. NULL: `start` has filled them.
  // With it, `outputs` is NULL until then.
  ls_status (*take)(ls_host_call *call);
  // Asks a call that has not ended, or is just ending, to end soon, with what
  // status it likes. When this returns, inputs are not read any more. Called
  // when a run fails or is cancelled, on its thread.
  void (*cancel)(ls_host_call *call);
  // Whether a call would do nothing, so that neither `start` nor `take` need be
  // called: asked on the run's own thread, in well under a microsecond, before
  // its inputs are there (`inputs` and `outputs` are NULL). For kernels without
  // outputs; as a summary that is not due. NULL: none would.
  bool (*skips)(const ls_host_call *call);
  // Called once behind `take`, when strings that it has given are copied, and
  // what else it has given is not needed any more: drops what `room` holds.
  // NULL: nothing.
  void (*end)(ls_host_call *call);
  // What a call of the op waits for, in a line for the table of who is where:
  // from any thread, while calls go on. NULL: the table says how long alone.
  void (*tell)(const ls_object *state, char *buffer, size_t size);
  // A number for what a call of the op changes, never 0: calls of the same
  // number keep their order in a session run whose parts are run side by side.
  // NULL: so do those of one state, unless the kernel waits.
  uint64_t (*order)(const ls_object *state);
};

// Adds a call of `kernel` on `inputs`. `state` is retained, NULL for none.
//   LS_INVALID_ARGUMENT  a kernel that waits cannot be cancelled, or one that
//                        gives has no `take` or `end`.
LS_PLACED ls_op ls_host_call_add(const ls_host_kernel *kernel, ls_object *state,
                                 const ls_tensor *inputs, size_t num_inputs);

// A user's function on the host, without a kernel of one's own.
typedef ls_status (*ls_host_callback)(ls_nest values, void *user);
// Adds an op, for its effect, that calls `fn` each time it runs, once for each
// replica: with the values of `tensors`, lent: none, a tensor or a nest of
// them; values are arrays in the same nest, lent for the call. `user` is passed
// on, and must live as long as the graph. What `fn` returns is the status of
// the run.
//   LS_INVALID_ARGUMENT  no function; a leaf that is no tensor.
LS_PLACED ls_op ls_host_function_op(ls_host_callback fn, void *user,
                                    ls_nest tensors);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_HOST_H_
