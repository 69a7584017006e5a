// SPDX-License-Identifier: Apache-2.0
//
// The one interface between "what to compute" and "who computes it". cpu/
// implements it; nobody looks behind it.
//
// A program is an immutable lowered graph with its inputs, outputs and uses of
// variables. `compile` makes an executable of it, shared and counted; `bind`
// ties an executable to buffers and makes an instance, which runs once at a
// time; `start`, `advance` and `finish` look nothing up by name, take no lock
// outside collectives and host calls, and allocate nothing.
#ifndef LS_ENGINE_BACKEND_H_
#define LS_ENGINE_BACKEND_H_

#include "graph/graph.h"
#include "lockstep/host.h"
#include "lockstep/object.h"

// A variable that a program reads or writes.
typedef struct ls_use {
  ls_object *variable;  // Identity only; retained by the program.
  ls_type type;
  bool read;  // Its value at the start matters.
  bool written;
  bool per_replica_before, per_replica_after;  // Else one shared value.
  // Whether the components of the distributed variable that this is, or is part
  // of, have buffers of their own; the store's business, not a back end's.
  bool split_before, split_after;
} ls_use;

// What a program takes for granted of a variable that it asks about.
typedef struct ls_expectation {
  ls_object *variable;
  bool initialized;
} ls_expectation;

// The body is a LOWERED graph. Its declared parameters are the `num_inputs`
// inputs, then one for each use, in order. Its results are the `num_outputs`
// outputs, then the final value of each written use, in order. Node order is
// execution order; every shape is static. What a lowered graph may hold:
//   - rows of ops.def that are not BUILD_ONLY; elementwise operands have the
//     output's shape or are scalars (rank 0), other broadcasts are explicit;
//   - `sizes` are constants; there are no shape operands;
//   - while, cond: regions are LOWERED graphs whose parent is this one and
//     whose captures (graph->captures, as the op's trailing inputs) are as in
//     the build stage; variables they write are carried values and results;
//   - one level of `replicate`: replicas INT (R), num_split INT (S): inputs are
//     first S*R values (the R values of split argument 0, of 1, ...), then the
//     captured uniform values. Its region's declared parameters are the S
//     split arguments, its captures the uniform values. num_gathered INT (G):
//     the region's results are first G per-replica results, then uniform ones;
//     the op's outputs are first G*R (result 0 of replicas 0..R-1, ...), then
//     the uniform ones. Inside, each node says `varying` or not: a value that
//     is not varying is the same on all replicas and is computed and stored
//     once. all_reduce takes any value and gives a uniform one. Replicas of
//     other shapes run other regions, with as many parameters and results:
//     classes INTS says which (absent: there is one). Captures come region by
//     region. The regions hold the same merges in the same order, and what is
//     not varying in the first is the same value in all: graph/passes/twins.h.
//     Each replicate op has its own R;
//   - wide values, dtype[R, dims...]: those of all replicas of a per-replica
//     type dtype[dims...], one behind the other (graph/wide.h). Of a replicate
//     op with num_wide_split INT (W) and num_wide_gathered INT (V) the inputs
//     are the S*R narrow ones, then W wide ones, then captures; its region
//     declares S + W parameters of per-replica types and gives G gathered, V
//     wide and then uniform results; its outputs are G*R, V wide ones and the
//     uniform ones. It has one region. While and cond pass them on;
//   - host with replicas INT (R), outside of replicate: the call of each
//     replica, in their order. Of an operand in wide INTS it takes the
//     replica's part, of others the value; all outputs are wide;
//   - where the runtime has a trunk, its rank hosts of each op the replicas
//     that lockstep/trunk.h says, and knows its own parts of a wide value only;
//     an op of one replica is run by every rank, as what is around it.
typedef struct ls_program {
  ls_object object;
  ls_runtime *runtime;
  ls_graph *body;
  size_t num_inputs, num_outputs, num_uses;
  ls_use *uses;
  ls_expectation *expects;
  size_t num_expects, expects_capacity;
  ls_object **launches;  // Of its computations for cores: engine/launch.h.
  size_t num_launches, launches_capacity;
  // Which inputs have rows of padding. Behind all of them are their real rows,
  // an i32 scalar each: the program is one for several sizes.
  uint32_t *padded;
  size_t num_padded;
  bool apart;  // New values go to buffers of their own; see `rebind`.
  uint64_t fingerprint[2];  // Of the body; see graph/compare/identity.h.
} ls_program;

// The storage of one variable's value.
typedef struct ls_buffer {
  ls_object object;
  const struct ls_backend *backend;
  ls_type type;
  bool per_replica;  // Else shared.
  void *data;        // The back end's; on the CPU dense, row by row.
  uint32_t held;     // Runs that need its value as it is; the store's.
} ls_buffer;

typedef struct ls_executable ls_executable;
typedef struct ls_instance ls_instance;

// One run. Everything is lent for the call.
typedef struct ls_run_args {
  const void *const *inputs;  // Data of each input, dense.
  // Of each as it is given, for a program that pads some: the runtime's alone,
  // which also adds their rows. NULL: none is padded.
  const ls_type *given;
  void *const *outputs;  // Where each output goes; NULL: not wanted.
  uint64_t step;         // For random ops.
  uint64_t *steps;       // Becomes how many steps the run was, if that is
                         // more: the most trips of a loop that counts
                         // them, at least 1. NULL: nobody asks.
  uint64_t seed;
  int32_t replica;  // That a program without a replicate op is run by.
  uint64_t run;     // What its host calls find in base/threads/thread_state.h.
  struct ls_cancel *cancels[2];  // See base/cancel.h.
} ls_run_args;

// Where a run is.
typedef enum ls_run_state {
  LS_RUN_WAITS,  // For the host.
  LS_RUN_ENDED,
  LS_RUN_FAILED,
} ls_run_state;

// What an instance plans and has measured, for people.
typedef struct ls_plan_facts {
  size_t shared_bytes, frame_bytes, scratch_bytes, constant_bytes;
  size_t num_instructions;
  // It writes variables where they are, and may fail when it has written some:
  // new values should be kept apart.
  bool tears;
  double flops;
} ls_plan_facts;

struct ls_text;  // base/text.h

typedef struct ls_backend {
  const struct ls_backend_vtable *vtable;
  ls_runtime *runtime;
} ls_backend;

struct ls_backend_vtable {
  const char *name;
  // Changes a lowered program as it suits this back end, before its fingerprint
  // is taken. NULL: it is right as it is.
  ls_status (*prepare)(ls_backend *self, ls_program *program);
  //   LS_UNIMPLEMENTED  naming an op that it does not compute, and its place.
  //   LS_INVALID_ARGUMENT  an op of several replicas has less than there are
  //                        ranks.
  ls_status (*compile)(ls_backend *self, const ls_program *program,
                       ls_executable **out_executable);
  void (*release_executable)(ls_executable *executable);
  ls_plan_facts (*facts)(const ls_executable *executable);
  // The plan as text; appended to a builder.
  ls_status (*print_plan)(const ls_executable *executable,
                          struct ls_text *text);
  // `buffers`: one a use, retained by the instance.
  ls_status (*bind)(ls_executable *executable, ls_buffer *const *buffers,
                    ls_instance **out_instance);
  // Ties an instance that does not run to other buffers of the same types: one
  // a use and, if the program keeps old and new values apart, as many again for
  // the new values, NULL where the use is not written. Such a program must be
  // given them before it runs.
  void (*rebind)(ls_instance *instance, ls_buffer *const *buffers);
  void (*destroy_instance)(ls_instance *instance);
  // A run, by one thread, which may have several at a time: started, advanced
  // until it has ended, finished, also if it has failed. One that could not be
  // started is not finished. `args` are lent until it is.
  ls_status (*start)(ls_instance *instance, const ls_run_args *args);
  // Goes on until the run has ended or waits for the host.
  ls_run_state (*advance)(ls_instance *instance);
  // Blocks until one of several runs of this back end, all of which wait for
  // the host, should be advanced: it can go on, is cancelled, or nothing has
  // moved for so long that they all end.
  void (*wait)(ls_instance *const *instances, size_t count);
  // Has a run that waits or has ended well fail.
  void (*stop)(ls_instance *instance, ls_status status);
  // How it went. Waits for host calls that a failed run has begun.
  // `*out_keeps`: its new values may become the variables' values; of a run
  // that has failed if they are those of whole trips of a loop.
  ls_status (*finish)(ls_instance *instance, bool *out_keeps);
  // Begins to count what each instruction takes, from zero, or ends it.
  ls_status (*measure)(ls_instance *instance, bool on);
  // What was counted, as a table; appended to a builder.
  //   LS_FAILED_PRECONDITION  nothing was measured.
  ls_status (*print_cost)(const ls_instance *instance, struct ls_text *text);
  // A buffer of zeros.
  ls_status (*create_buffer)(ls_backend *self, ls_type type,
                             ls_buffer **out_buffer);
  ls_status (*upload)(ls_buffer *buffer, const void *data);
  ls_status (*download)(const ls_buffer *buffer, void *data);
  // The elements of its value where they lie, on the host, dense; NULL: all are
  // zero. Lent while nobody writes it.
  const void *(*look)(const ls_buffer *buffer);
  // Copies bytes of that to the caller's memory, past the caches, by any
  // threads.
  void (*copy_far)(ls_backend *self, void *to, const void *from, size_t size);
  // Where the caller will write all elements of a new value.
  void *(*overwrite)(ls_buffer *buffer);
  void (*copy)(ls_buffer *to, const ls_buffer *from);  // Of one type.
  // Gives a buffer the value that a run of `executable` does: one without
  // inputs and uses, of one output of the buffer's type. It may be computed
  // only when it is needed: read, or bound to.
  ls_status (*fill)(ls_buffer *buffer, ls_executable *executable,
                    const ls_run_args *args);
  // ISA, kernel library, cache sizes: equal ids promise equal bits.
  const char *(*numerics_id)(ls_backend *self);
};

// Runs an instance from start to finish, waiting where it waits.
static inline ls_status ls_backend_run(const ls_backend *backend,
                                       ls_instance *instance,
                                       const ls_run_args *args) {
  const ls_status status = backend->vtable->start(instance, args);
  if (!ls_status_is_ok(status)) return status;
  bool keeps = false;
  while (backend->vtable->advance(instance) == LS_RUN_WAITS)
    backend->vtable->wait(&instance, 1);
  return backend->vtable->finish(instance, &keeps);
}

// The back end that a runtime computes with, made at first use and owned by the
// runtime (slot LS_SLOT_ENGINE); which one, engine/backends.c says.
ls_status ls_runtime_backend(ls_runtime *runtime, ls_backend **out_backend);

#endif  // LS_ENGINE_BACKEND_H_
