// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Host kernels: ops of upper layers and of users, run by C functions on the
// host. An op points to its kernel; the kernel is static data.
//
// Threads: a kernel's `start` is called by the engine's threads, for several
// runs and replicas at the same time; any thread may end a call.
#ifndef LOCKSTEP_HOST_H_
#define LOCKSTEP_HOST_H_

#include "lockstep/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// One call of a host kernel, lent until ls_host_done.
typedef struct ls_host_call {
  ls_runtime *runtime;
  ls_object *state;     // The op's object attribute; NULL without.
  const char *op_name;  // For messages.
  int32_t replica;      // 0 outside replicas.
  size_t num_inputs;
  const ls_type *input_types;  // Known shapes.
  const void *const *inputs;   // Dense, row by row; strings are ls_bytes.
  size_t num_outputs;
  const ls_type *output_types;
  void *const *outputs;  // To be filled. Strings: with ls_bytes whose bytes
                         // stay until ls_host_done, which copies them; they
                         // come empty.
  void *engine;          // The engine's own.
} ls_host_call;

// Ends a call, from `start` or later from any thread. Takes the status over.
LS_API void ls_host_done(ls_host_call *call, ls_status status);

enum {
  LS_HOST_MAY_BE_DROPPED = 1 << 0,  // Pure: no result wanted, no call.
};

struct ls_host_kernel {
  const char *name;  // Unique among the kernels of a program; in the text form.
  // The types of the outputs; `out` has room for 16. May answer unknown shapes
  // while inputs are unknown. NULL: no outputs.
  ls_status (*infer)(const ls_object *state, const ls_type *in, size_t num_in,
                     ls_type *out, size_t *num_out);
  // Begins the call. Never waits; ls_host_done follows unless it fails.
  ls_status (*start)(ls_host_call *call);
  uint32_t flags;
};

// Adds a call of `kernel` on `inputs`. `state` is retained, NULL for none.
LS_PLACED ls_op ls_host_call_add(const ls_host_kernel *kernel, ls_object *state,
                                 const ls_tensor *inputs, size_t num_inputs);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_HOST_H_
