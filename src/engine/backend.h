// SPDX-License-Identifier: Apache-2.0
//
// The one interface between the layers that say what to compute and the back
// end that computes it. cpu/ implements it; nobody looks inside.
//
// A program is an immutable lowered graph with its inputs, outputs and uses of
// variables. `compile` makes a reference-counted executable of it; `bind` ties
// an executable to buffers and makes an instance, which runs once at a time;
// `start`, `advance` and `finish` look nothing up by name, take no lock outside
// collectives and host calls, and allocate nothing.
#ifndef LS_ENGINE_BACKEND_H_
#define LS_ENGINE_BACKEND_H_

#include "base/text.h"
#include "graph/graph.h"
#include "lockstep/cancel.h"
#include "lockstep/device.h"
#include "lockstep/host.h"
#include "lockstep/object.h"

// A variable that a program reads or writes.
typedef struct ls_use {
  ls_object *variable;  // Identity only; retained by the program.
  ls_type type;
  bool read;  // The program reads the value that the variable has at the start.
  bool written;
  // For stores only, ignored by back ends: true if the distributed variable
  // (the use's, or its container) has a buffer per component before and after
  // the run.
  bool split_before, split_after;
} ls_use;

// A program's assumption that a variable is initialized, or not. If it is wrong
// at a run, another program is needed.
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
//     not varying in the first is the same value in all: graph/passes/passes.h.
//     Each replicate op has its own R;
//   - wide values, dtype[R, dims...]: those of all replicas of a per-replica
//     type dtype[dims...], one after another (graph/op_table.h). Of a replicate
//     op with num_wide_split INT (W) and num_wide_gathered INT (V) the inputs
//     are the S*R narrow ones, then W wide ones, then captures; its region
//     declares S + W parameters of per-replica types and gives G gathered, V
//     wide and then uniform results; its outputs are G*R, V wide ones and the
//     uniform ones. It has one region. While and cond pass them on;
//   - host with replicas INT (R), outside of replicate: the call of each
//     replica, in their order. Of an operand in wide INTS it takes the
//     replica's part, of others the value; all outputs are wide;
//   - where the runtime has a communicator, its rank hosts of each op the
//     replicas that lockstep/communicator.h says, and knows its own parts of a
//     wide value only; an op of one replica is run by every rank, as what is
//     around it.
typedef struct ls_program {
  ls_object object;
  ls_runtime *runtime;
  ls_graph *body;
  size_t num_inputs, num_outputs, num_uses;
  ls_use *uses;
  ls_expectation *expects;
  size_t num_expects, expects_capacity;
  ls_object **launches;  // One per computation for TPU cores, see below.
  size_t num_launches, launches_capacity;
  // Devices of the replicas, each on its own, by number (ls_device_find); of a
  // program without replicas: its device. None: the back end chooses.
  int32_t *devices;
  size_t num_devices, devices_capacity;
  // Indices of the inputs that have padding rows. The true number of rows of
  // each follows the other inputs, as an i32 scalar, so one program serves
  // several sizes.
  uint32_t *padded;
  size_t num_padded;
  bool apart;  // Keeps new values in separate buffers; see `rebind`.
  uint64_t fingerprint[2];  // Hash of the body; see graph/compare/identity.h.
  // Most replicas of a replicate op in the graph that was lowered, even if the
  // body has none left because all compute the same.
  int32_t replicas;
  uint64_t strategy;  // Number of the strategy; see ls_graph.
  // The CPU engine computes the program, whatever the runtime's device is: an
  // eager op, initial values, host calls alone.
  bool on_host;
} ls_program;

// Storage of one variable's value.
typedef struct ls_buffer {
  ls_object object;
  const struct ls_backend *backend;
  ls_type type;
  void *data;  // Owned by the back end; on the CPU dense, row by row.
  // Number of runs that need the value unchanged; kept by the store.
  uint32_t held;
  // Set by the back end: a failed run has lost the value. A write clears it.
  bool lost;
} ls_buffer;

// Location of a device among those of a runtime.
typedef struct ls_device_location {
  int32_t host;   // Number of the process that has it.
  int32_t at[4];  // x, y and z of its chip, and its number on that.
} ls_device_location;

typedef struct ls_executable ls_executable;
typedef struct ls_instance ls_instance;

// Arguments of one run, lent for the call.
typedef struct ls_run_args {
  const void *const *inputs;  // Data of each input, dense.
  // Types of the inputs as the caller gave them, for a program that pads some.
  // Used by the runtime, which also appends the numbers of rows. NULL: no input
  // is padded.
  const ls_type *given;
  void *const *outputs;  // Destination of each output; NULL: not wanted.
  // An ls_array for each output. Without `outputs`, for an executable whose
  // results arrive late: the run has its elements written later
  // (ls_array_expect); NULL: not wanted. Beside `outputs`: an array to which
  // the run lends strings or objects (ls_array_lend) owns them before the end.
  void *const *arrays;
  uint64_t step;  // For random ops.
  // In/out, may be NULL: raised to the number of steps that the run made, which
  // is the most trips of a loop that counts steps, and at least 1.
  uint64_t *steps;
  uint64_t seed;
  // Names the run among those of the program, equally on all ranks.
  uint64_t number;
  int32_t replica;  // Replica that runs a program without a replicate op.
  uint64_t run;     // Id that host calls read from base/threads/thread_state.h.
  struct ls_cancel *cancels[2];  // See base/cancel.h.
} ls_run_args;

// State of a run after `advance`.
typedef enum ls_run_state {
  LS_RUN_WAITS,  // Waits for the host.
  LS_RUN_ENDED,
  LS_RUN_FAILED,
} ls_run_state;

// Plan and cost figures of an executable, for listings and for the runtime.
typedef struct ls_plan_facts {
  size_t shared_bytes, frame_bytes, scratch_bytes, constant_bytes;
  size_t table_bytes;  // Instructions, and parameters of kernels.
  size_t num_instructions;
  // True if a run updates variables in place and may fail after it has updated
  // some of them: new values should go to separate buffers.
  bool tears;
  bool is_late;  // Results may arrive after the end of a run.
  // With the time to compile only if that was after `compile`.
  ls_program_figures figures;
} ls_plan_facts;

struct ls_text;  // base/text.h

typedef struct ls_backend {
  const struct ls_backend_vtable *vtable;
  ls_runtime *runtime;
  // The CPU engine that computes programs with `on_host`: the back end itself,
  // or one that it owns.
  struct ls_backend *host;
} ls_backend;

struct ls_backend_vtable {
  const char *name;
  // Rewrites a lowered program as this back end needs it, before its
  // fingerprint is taken. NULL: no rewrite.
  ls_status (*prepare)(ls_backend *self, ls_program *program);
  // Compiles a program.
  //   LS_UNIMPLEMENTED  names an op that the back end does not compute, and its
  //                     position.
  //   LS_INVALID_ARGUMENT  an op of several replicas has fewer replicas than
  //                        there are ranks.
  ls_status (*compile)(ls_backend *self, const ls_program *program,
                       ls_executable **out_executable);
  void (*release_executable)(ls_executable *executable);
  ls_plan_facts (*facts)(const ls_executable *executable);
  // Lists the instructions: writes up to `capacity`, and sets `*out_count` to
  // their number. NULL: a plug-in knows none.
  ls_status (*list_instructions)(const ls_executable *executable,
                                 ls_instruction_figures *instructions,
                                 size_t capacity, size_t *out_count);
  // Appends the plan as text.
  ls_status (*print_plan)(const ls_executable *executable,
                          struct ls_text *text);
  // Makes an instance, which retains `buffers`: one buffer per use.
  ls_status (*bind)(ls_executable *executable, ls_buffer *const *buffers,
                    ls_instance **out_instance);
  // Ties an idle instance to other buffers of the same types: one per use and,
  // if the program keeps old and new values apart, as many again for the new
  // values, NULL where the use is not written. Such a program must be given
  // them before it runs.
  void (*rebind)(ls_instance *instance, ls_buffer *const *buffers);
  void (*destroy_instance)(ls_instance *instance);
  // Starts a run. One thread starts it, advances it until it has ended or
  // failed, and finishes it; the thread may drive several runs at a time. A run
  // that did not start is not finished. `args` are lent until `finish`.
  ls_status (*start)(ls_instance *instance, const ls_run_args *args);
  // Runs until the run has ended or waits for the host.
  ls_run_state (*advance)(ls_instance *instance);
  // Blocks until one of several runs of this back end, all waiting for the
  // host, should be advanced: it can continue, it is cancelled, or nothing has
  // progressed for so long that all of them fail.
  void (*wait)(ls_instance *const *instances, size_t count);
  // Makes a run that waits, or has ended well, fail.
  void (*stop)(ls_instance *instance, ls_status status);
  // Ends the run and returns its status. Waits for host calls that a failed run
  // has started. Sets `*out_keeps` if the new values may become the values of
  // the variables; for a failed run, if they are those of whole trips of a
  // loop.
  ls_status (*finish)(ls_instance *instance, bool *out_keeps);
  // Starts to measure the time of each instruction, from zero, or stops.
  ls_status (*measure)(ls_instance *instance, bool on);
  // Appends the measured times as a table.
  //   LS_FAILED_PRECONDITION  nothing was measured.
  ls_status (*print_cost)(const ls_instance *instance, struct ls_text *text);
  // Creates a buffer of zeros.
  ls_status (*create_buffer)(ls_backend *self, ls_type type,
                             ls_buffer **out_buffer);
  ls_status (*upload)(ls_buffer *buffer, const void *data);
  ls_status (*download)(const ls_buffer *buffer, void *data);
  // Returns the elements of the value, dense, in host memory, or NULL if all
  // are zero. Lent until somebody writes the buffer.
  ls_status (*look)(const ls_buffer *buffer, const void **out_data);
  // Copies bytes of a buffer's value to the caller's memory with streaming
  // stores. Thread-safe.
  void (*stream_copy)(ls_backend *self, void *target, const void *from,
                      size_t size);
  // Returns the memory to which the caller will write all elements of a new
  // value.
  void *(*overwrite)(ls_buffer *buffer);
  // Requires equal types.
  ls_status (*copy)(ls_buffer *target, const ls_buffer *from);
  // Gives a buffer the value that a run of `executable` computes: a program
  // without inputs and uses, with one output of the buffer's type. It may be
  // computed lazily, when it is read or bound.
  ls_status (*fill)(ls_buffer *buffer, ls_executable *executable,
                    const ls_run_args *args);
  // Names the instruction set, kernel library and cache sizes as far as they
  // decide bits: equal ids promise equal bits.
  const char *(*numerics_id)(ls_backend *self);
  // Describes the devices. NULL: the CPU, as one device.
  void (*describe)(const ls_backend *self, ls_device_facts *out_facts);
  // Locates one of these devices. NULL: there is the CPU alone.
  ls_status (*locate)(const ls_backend *self, int32_t device,
                      ls_device_location *out_location);
};

// Runs an instance from start to finish, and blocks while it waits for the
// host.
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

// Returns the back end of a runtime, made at first use and owned by the runtime
// (slot LS_SLOT_ENGINE). engine/backends.c chooses it by the option `device`.
ls_status ls_runtime_backend(ls_runtime *runtime, ls_backend **out_backend);

// Names that are no devices of the back end.
enum {
  LS_DEVICE_ANY = -1,   // A logical device: any may compute for it.
  LS_DEVICE_HOST = -2,  // The CPU beside a plug-in's devices.
};

// Finds the device of a name: its number among those of a plug-in, or one of
// the above. "GPU:2" is number 2 of a plug-in for GPUs, "CPU:2" of one for
// CPUs; cores of initialized TPU systems are those of their pods.
//   LS_NOT_FOUND      the plug-in has no device of this number.
//   LS_UNIMPLEMENTED  there are no devices of this type.
// Others are those of the back end.
LS_MUST_USE ls_status ls_device_find(ls_runtime *runtime, const char *name,
                                     int32_t *out_device, bool *out_is_core);

// ---- Labels: integers that must be numbers of classes
// ------------------------
typedef struct ls_labels {
  ls_dtype dtype;
  int64_t count, num_classes;
} ls_labels;

// Returns INVALID_ARGUMENT, naming the first label that is no class.
LS_MUST_USE ls_status ls_labels_check(const ls_labels *self,
                                      const void *labels);

// ---- Launches --------------------------------------------------------------
// Launches: the requests that a program with a replicated computation for the
// cores of a system makes before it is compiled and before it runs. The layer
// that keeps such systems installs the table (ls_runtime.launches).
//
// Thread-safe.

typedef struct ls_launch_type {
  // Makes the launch of a computation, owned by the caller, or returns the
  // reason why it cannot run. `node` is the op with its metadata.
  ls_status (*make)(ls_runtime *runtime, const ls_node *node,
                    ls_object **out_launch);
  // Appends to `key` whatever tells this launch from others: programs with
  // different keys are compiled separately.
  void (*identify)(const ls_object *launch, ls_text *key);
  // Returns true if a program compiled with this launch may still run;
  // otherwise the program must be compiled again.
  bool (*is_current)(const ls_object *launch);
  // Checks a compiled program against the launch; an error rejects the program.
  ls_status (*check)(ls_object *launch, const ls_program *program,
                     const ls_plan_facts *facts);
  // Returns the device whose core has a replica, as a number of `locate`; -1
  // if there is no such replica, or any device may compute it.
  int32_t (*device)(const ls_object *launch, int32_t replica);
  // Starts a run; waits where a core is slow.
  ls_status (*pass)(ls_object *launch);
} ls_launch_type;

// ---- Rows of the table of back ends ----------------------------------------
// Create and destroy the CPU engine (engine/cpu/backend.c) of a runtime.
ls_status ls_cpu_backend_create(ls_runtime *runtime, ls_backend **out_backend);
void ls_cpu_backend_destroy(void *backend);
// Create and destroy the back end of a plug-in (engine/pjrt/backend.c).
//   LS_UNIMPLEMENTED  the runtime has a communicator.
// Others are those of ls_pjrt_plugin_load and ls_pjrt_client_create.
ls_status ls_pjrt_backend_create(ls_runtime *runtime, ls_backend **out_backend);
void ls_pjrt_backend_destroy(void *backend);

#endif  // LS_ENGINE_BACKEND_H_
