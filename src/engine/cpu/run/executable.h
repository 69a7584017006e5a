// SPDX-License-Identifier: Apache-2.0
//
// The result of compiling: flat instruction streams and a memory plan.
//
// One array holds all streams. The shared stream starts at 0; each replicate op
// has a lane stream, which all its lanes run. The state of a stream is {pc,
// bases}: an operand is a place, `bases[place.base]` + 64 `place.line`. Only a
// few bases differ between lanes, so one set of instructions serves all lanes.
//
// An executable is immutable and may be used from any thread.
#ifndef LS_ENGINE_CPU_RUN_EXECUTABLE_H_
#define LS_ENGINE_CPU_RUN_EXECUTABLE_H_

#include "base/text.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/run/merge.h"
#include "lockstep/communicator.h"

typedef enum ls_cpu_code {
  LS_CPU_NOTHING,  // Removed when compiling ends.
  LS_CPU_KERNEL,   // Calls `loop` on all blocks; `number`: by a thread team.
  LS_CPU_COPY,     // Copies `size` bytes.
  LS_CPU_LABELS,   // Fails unless input 0 is classes; params: ls_labels.
  LS_CPU_BRANCH,   // Jumps to `target` unless input 0 is true.
  LS_CPU_JUMP,
  // Loops: out 0 is a ls_cpu_loop_state.
  LS_CPU_LOOP_BEGIN,
  // Counts trips; jumps to `target` after `size` trips, if > 0. `number` 1,
  // also of END: trips are steps.
  LS_CPU_LOOP_NEXT,
  LS_CPU_LOOP_END,
  // Stacks: operands and results of the ops; see stack.h.
  LS_CPU_STACK_NEW,   // Makes the empty stack of site `number`.
  LS_CPU_STACK_PUSH,  // Pushes `size` bytes.
  LS_CPU_STACK_POP,   // Pops `size` bytes; `number` 1: the bytes are a stack.
  // Host calls: params is a ls_cpu_host. START has the inputs, FINISH the
  // outputs; each has both if the kernel works on the operands themselves.
  LS_CPU_HOST_START,
  LS_CPU_HOST_FINISH,  // Parks until the call is done.
  // Instructions of the shared stream for a replicate op.
  LS_CPU_LAUNCH,   // Starts all lanes at `target`; params: ls_cpu_launch.
  LS_CPU_AWAIT,    // Parks until merge slot `number` has its value.
  LS_CPU_PUBLISH,  // Lets lanes continue that wait for values up to `number`.
  LS_CPU_JOIN,     // Parks until all lanes ended, then jumps to `target`.
  LS_CPU_EQUAL,    // Merges R equal values; params: ls_cpu_merge.
  // Exchanges values with other ranks; params: ls_cpu_exchange.
  LS_CPU_EXCHANGE,
  // Start an exchange of sums with other ranks and wait for its results; both
  // have the same operands. params: ls_cpu_sums.
  LS_CPU_SUMS_START,
  LS_CPU_SUMS_FINISH,

  // Instructions of the lanes.

  // Jumps to `target` if the replica is of class `number`; params: the class of
  // each replica, uint32_t.
  LS_CPU_SELECT,
  LS_CPU_WAIT,  // Parks until value `number` is published.
  LS_CPU_TURN,  // Parks until all lower lanes have posted to slot `number`.
  LS_CPU_POST,  // Adds input 0 to slot `number`; params: ls_cpu_merge.
  // After a POST in a loop or branch: parks until the slot has its value, then
  // copies it into the lane.
  LS_CPU_MEET,
  LS_CPU_END,
} ls_cpu_code;

// The position of an operand. Every buffer starts on a line of 64 bytes.
typedef struct ls_cpu_place {
  uint32_t base;
  uint32_t line;
} ls_cpu_place;

// Numbers of the first bases. Inputs, outputs, variables, their new values if
// these are kept apart, results that host calls lend, split arguments, gathered
// results and contributions to merges follow, in this order.
enum { LS_CPU_NO_SITE = UINT32_MAX, LS_CPU_NOT_GIVEN = UINT32_MAX };
enum {
  LS_CPU_BASE_CONSTANTS,
  LS_CPU_BASE_SHARED,
  LS_CPU_BASE_FRAME,    // Per lane: values that live across a park.
  LS_CPU_BASE_SCRATCH,  // Per worker: scratch of other values.
  LS_CPU_BASE_FIXED,    // Number of the bases above.
};

typedef struct ls_cpu_instruction {
  ls_kernel_loop loop;
  const void *params;
  // KERNEL: blocks. COPY, MEET, STACK: bytes. LOOP_NEXT: most trips.
  int64_t size;
  // Index of the first place: num_in inputs, then num_out outputs.
  uint32_t operand;
  uint32_t num_in, num_out;
  uint32_t target;
  uint32_t number;
  // KERNEL: 1 + index of the contribution that it can add to; or 0.
  uint32_t adds_to;
  ls_cpu_code code;
} ls_cpu_instruction;

// State of a loop between its instructions.
typedef struct ls_cpu_loop_state {
  // Trips begun, including the last one, which ends before the body.
  int64_t trips;
  // Values of the stream outside the loop.
  uint64_t outer_iteration, outer_step;
} ls_cpu_loop_state;

// Returns the iteration number of a random op: the trip of its innermost loop,
// mixed with those of the enclosing loops, so that no two runs of the body
// share one.
static inline uint64_t ls_cpu_iteration(uint64_t outer, int64_t trip) {
  return outer * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)trip;
}

// The replicas of an op on all ranks, and the range of them that this rank
// hosts: all of them with a single rank or a single replica.
typedef struct ls_cpu_share {
  int32_t replicas;
  int32_t first, end;
} ls_cpu_share;

// Returns how many replicas this rank hosts: the number of parts in its storage
// of a wide value.
static inline uint32_t ls_cpu_num_local(const ls_cpu_share *share) {
  return (uint32_t)(share->end - share->first);
}

// Returns true if other ranks host some of the replicas.
static inline bool ls_cpu_has_remote(const ls_cpu_share *share) {
  return ls_cpu_num_local(share) < (uint32_t)share->replicas;
}

// A site: one op that calls the host.
typedef struct ls_cpu_host {
  const ls_host_kernel *kernel;
  ls_object *state;  // Kept alive by the program.
  const char *name, *label;
  const char *path;  // The name with its scopes; NULL: none.
  uint32_t num_in, num_out;
  // Types of the inputs, then of the outputs, for one replica.
  const ls_type *types;
  const size_t *sizes;  // Bytes of each operand, for one replica.
  // Bytes from one replica's operand to the next; 0: shared.
  const size_t *strides;
  // is_for_all: one instruction makes the calls of all replicas; each takes its
  // part of the wide operands, and all outputs are wide. by_one_call: one call
  // serves all replicas.
  bool is_for_all, by_one_call;
  int32_t replica;  // The replica that a call of the shared stream is made for.
  ls_cpu_share share;  // All replicas of the op.
  uint32_t parts;      // Replicas that one call serves.
  // Runs on the run's own thread and sees the operands themselves.
  bool is_inline;
  bool ends_at_once;  // An inline call is over when the kernel returns.
  bool copies_in, copies_out;
  // For each output that the kernel lends and that may stay in the kernel's
  // memory: the number of its base, else LS_CPU_NOT_GIVEN. NULL: no output is
  // lent.
  uint32_t *given;
  // Index among the sites of the shared stream; LS_CPU_NO_SITE: lane code.
  uint32_t site;
  uint32_t number;  // Number that identifies the call among ranks, like a slot.
} ls_cpu_host;

// Upper bound of the memory that the record of a host call needs.
typedef struct ls_cpu_host_room {
  uint32_t operands;
  size_t bytes;  // Each operand is aligned to lines.
} ls_cpu_host_room;

// Returns the bytes of an operand in one call.
static inline size_t ls_cpu_operand_bytes(const ls_cpu_host *host, uint32_t i) {
  return host->sizes[i] * (host->strides[i] == 0 ? 1 : host->parts);
}

static inline ls_cpu_host_room ls_cpu_room_of(const ls_cpu_host *host) {
  ls_cpu_host_room room = {.operands = host->num_in + host->num_out};
  for (uint32_t i = 0; i < room.operands; ++i)
    if (i < host->num_in ? host->copies_in : host->copies_out)
      room.bytes += ls_round_to_line(ls_cpu_operand_bytes(host, i));
  return room;
}

// Replicas of one rank that form a maximal subtree of the merge tree.
typedef struct ls_cpu_subtree {
  uint32_t first, end;
  int32_t rank;
} ls_cpu_subtree;

// The exchange of replicas that run as one batch: of the rows of a gather's
// result; otherwise of `num_results` results of each replica, ordered as in
// LAUNCH.
typedef struct ls_cpu_exchange {
  ls_cpu_share share;
  const ls_cpu_merge *merge;  // NULL: exchanges results.
  uint32_t num_results;
} ls_cpu_exchange;

// A merge operand that its kernel writes directly into the partial sums, on
// lanes where that saves a copy. On other lanes the kernel writes it to
// `staging`, or adds it to the partial sums if it can.
typedef struct ls_cpu_contribution {
  const ls_cpu_merge *merge;
  ls_cpu_place partials, staging;
  bool adds;
} ls_cpu_contribution;

// A replicate op. LAUNCH's inputs are the split arguments (those of all lanes
// of argument 0, of 1, ...), its outputs the gathered results likewise. Each
// list is followed by the wide values, of which every lane has its part.
typedef struct ls_cpu_launch {
  ls_cpu_share share;
  // Index among all launches; identifies the launch among ranks.
  uint32_t index;
  uint32_t num_split, num_gathered;
  uint32_t num_wide_split, num_wide_gathered;
  uint32_t first_slot, num_slots;
  uint32_t num_bodies;  // Classes of replicas; each has one POST per slot.
  uint32_t num_contributions;
  const ls_cpu_contribution *contributions;
  // Threads run parts of 2^part_shift lanes, each with a stack of `part_depth`
  // buffers for every merge. With one part the caller runs all lanes, and
  // threads share the blocks of their instructions.
  uint32_t num_parts, part_shift, part_depth;
  uint32_t first_part, end_part;  // Range of parts that this rank runs.
  // Places of this rank's lanes, if they are a single part though other ranks
  // have lanes, too: its stack then holds the sum of each subtree of the rank.
  const ls_cpu_leaf *leaves;  // NULL: parts are subtrees.
} ls_cpu_launch;

// Instructions at which the new values are those of whole trips: in the shared
// stream from `begin` on, a LOOP_NEXT, except from `first` to `last`.
typedef struct ls_cpu_trips {
  bool has_trips;
  uint32_t begin, first, last;
} ls_cpu_trips;

// Types of the operands of a kernel instruction, for one replica: inputs, then
// outputs. An operand of the kernel's own has no elements.
typedef struct ls_cpu_operands {
  const ls_type *types;
  int32_t first;  // Replica of the first part of a wide operand.
  // Dimension 0 of the outputs lists rows of one of the program's inputs.
  bool has_rows;
} ls_cpu_operands;

// Description of an instruction for listings and errors; fields may be NULL.
typedef struct ls_cpu_note {
  const ls_node *node;
  const char *name;  // Name of the user's op.
  const char *kind;  // Description, if not that of `node`'s op.
  // "op 'a/b' (f.c:12)", for instructions that park or fail.
  const char *label;
  // Types of a kernel's operands, with the option find_nan; else NULL.
  const ls_cpu_operands *operands;
  double flops;  // Floating-point operations of one run of the kernel.
  size_t bytes;  // Bytes read and written in one run, each operand once.
  double trips;  // Runs in a run of the program; a loop's body counts once.
} ls_cpu_note;

struct ls_executable {
  int references;
  ls_backend *backend;
  ls_allocator *allocator;
  ls_program *program;  // Retained.
  int32_t replicas;     // Most replicas of any op; ops may differ.
  uint32_t num_lanes;   // Most replicas of any op that this rank hosts.
  ls_communicator *communicator;  // Connects the ranks; NULL: there is one.
  ls_arena arena;  // Holds everything below except the constants.

  ls_cpu_instruction *instructions;
  ls_cpu_note *notes;  // One per instruction.
  size_t num_instructions;
  ls_cpu_place *places;
  size_t *place_sizes;  // Bytes of each place, for the listing.
  size_t num_places;

  char *constants;
  // Offset of the spare memory of each output, for runs that do not want the
  // output.
  size_t *spare_offsets;
  size_t spare_bytes;
  uint32_t num_given;  // Outputs that host calls lend in their own memory.
  // Maxima over all launches.
  uint32_t num_split, num_gathered, num_contributions;
  uint32_t num_slots;
  uint32_t num_parts;      // Most parts of any launch.
  uint32_t num_sums;       // Exchanges of sums with other ranks.
  uint32_t num_stacks;     // Number of stack_new ops.
  bool *stack_is_endless;  // One per stack_new.
  uint32_t max_operands;   // Most operands of one instruction.
  bool calls_host, lanes_call_host;
  ls_cpu_trips trips;
  // True if a run may be stopped midway: it changes no variable in place.
  bool may_stop;
  uint32_t num_sites;           // Host calls of the shared stream.
  const ls_cpu_host **sites;    // plan.c
  ls_cpu_host_room lanes_room;  // Room for any call of a lane.
  bool host_has_strings;        // True if some call takes or returns strings.
  bool lanes_count_steps;
  size_t kernel_scratch;  // Most that one kernel needs.
  size_t team_scratch;    // For all threads that share a kernel's blocks.
  ls_plan_facts facts;
};

static inline uint32_t ls_cpu_base_inputs(void) { return LS_CPU_BASE_FIXED; }
static inline uint32_t ls_cpu_base_outputs(const ls_executable *self) {
  return LS_CPU_BASE_FIXED + (uint32_t)self->program->num_inputs;
}
static inline uint32_t ls_cpu_base_variables(const ls_executable *self) {
  return ls_cpu_base_outputs(self) + (uint32_t)self->program->num_outputs;
}
static inline uint32_t ls_cpu_base_new_values(const ls_executable *self) {
  return ls_cpu_base_variables(self) + (uint32_t)self->program->num_uses;
}
static inline uint32_t ls_cpu_base_given(const ls_executable *self) {
  return ls_cpu_base_new_values(self) +
         (self->program->apart ? (uint32_t)self->program->num_uses : 0);
}
static inline uint32_t ls_cpu_base_split(const ls_executable *self) {
  return ls_cpu_base_given(self) + self->num_given;
}
static inline uint32_t ls_cpu_base_gathered(const ls_executable *self) {
  return ls_cpu_base_split(self) + self->num_split;
}
static inline uint32_t ls_cpu_base_contributions(const ls_executable *self) {
  return ls_cpu_base_gathered(self) + self->num_gathered;
}
static inline uint32_t ls_cpu_num_bases(const ls_executable *self) {
  return ls_cpu_base_contributions(self) + self->num_contributions;
}

// Functions of the back end's table; see engine/backend.h.
ls_status ls_cpu_compile(ls_backend *backend, const ls_program *program,
                         ls_executable **out_executable);
void ls_cpu_release_executable(ls_executable *executable);
ls_status ls_cpu_print_plan(const ls_executable *executable, ls_text *text);
ls_status ls_cpu_list_instructions(const ls_executable *executable,
                                   ls_instruction_figures *instructions,
                                   size_t capacity, size_t *out_count);

// Returns the kernels of the back end.
const ls_cpu_kernels *ls_cpu_backend_kernels(const ls_backend *backend);

// ---- Code names ------------------------------------------------------------
const char *ls_cpu_code_name(ls_cpu_code code);

#endif  // LS_ENGINE_CPU_RUN_EXECUTABLE_H_
