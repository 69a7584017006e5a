// SPDX-License-Identifier: Apache-2.0
//
// What compiling makes: flat instruction streams and a memory plan.
//
// One array holds every stream. The shared stream starts at 0; each replicate
// op has a lane stream of its own, which all lanes run. A stream is run by
// {pc, bases}: an operand is a place, `bases[place.base]` + 64 `place.line`.
// What differs from lane to lane is a handful of bases, so one set of
// instructions serves them all.
//
// An executable is immutable and may be used from any thread.
#ifndef LS_ENGINE_CPU_RUN_EXECUTABLE_H_
#define LS_ENGINE_CPU_RUN_EXECUTABLE_H_

#include "base/text.h"
#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/run/merge.h"
#include "lockstep/trunk.h"

typedef enum ls_cpu_code {
  LS_CPU_NOTHING,  // Gone when compiling ends.
  LS_CPU_KERNEL,   // loop over all blocks; `number`: by a team.
  LS_CPU_COPY,     // `size` bytes.
  LS_CPU_LABELS,   // Fails unless in 0 holds classes; params: ls_cpu_labels.
  LS_CPU_BRANCH,   // To `target` unless in 0 holds.
  LS_CPU_JUMP,
  // Loops: out 0 is a ls_cpu_loop_state.
  LS_CPU_LOOP_BEGIN,
  LS_CPU_LOOP_NEXT,  // Counts; to `target` once `size` trips are done, if > 0.
                     // `number` 1, also of END: trips are steps.
  LS_CPU_LOOP_END,
  // Stacks: operands and results as the op's; see stack.h.
  LS_CPU_STACK_NEW,   // Number `number`.
  LS_CPU_STACK_PUSH,  // `size` bytes.
  LS_CPU_STACK_POP,   // `size` bytes; `number` 1: they are a stack.
  // Host calls: params is a ls_cpu_host. START has the inputs, FINISH the
  // outputs; both have all where the kernel works on the operands themselves.
  LS_CPU_HOST_START,
  LS_CPU_HOST_FINISH,  // Parks until the call is done.
  // The shared stream's side of a replicate op.
  LS_CPU_LAUNCH,    // Readies all lanes at `target`; params: ls_cpu_launch.
  LS_CPU_AWAIT,     // Parks until merge slot `number` has its value.
  LS_CPU_PUBLISH,   // Lanes that wait for values up to `number` may go on.
  LS_CPU_JOIN,      // Parks until all lanes ended, then goes to `target`.
  LS_CPU_EQUAL,     // A merge of R equal values; params: ls_cpu_merge.
  LS_CPU_EXCHANGE,  // With other ranks; params: ls_cpu_exchange.
  // The lanes' side.
  LS_CPU_SELECT,  // To `target` if the replica is of class `number`; params:
                  // the classes of all, uint32_t.
  LS_CPU_WAIT,    // Parks until value `number` is published.
  LS_CPU_TURN,    // Parks until all lower lanes have posted to slot `number`.
  LS_CPU_POST,    // Adds in 0 to slot `number`; params: ls_cpu_merge.
  LS_CPU_MEET,    // After a post in a loop or branch: parks until the slot has
                  // its value, and copies that into the lane.
  LS_CPU_END,
} ls_cpu_code;

// Where an operand lies. Every buffer starts on a line of 64 bytes.
typedef struct ls_cpu_place {
  uint32_t base;
  uint32_t line;
} ls_cpu_place;

// The first bases; inputs, outputs, variables, their new values if these are
// kept apart, what host calls give, split arguments, gathered results and
// contributions to merges follow, in this order.
enum { LS_CPU_NO_SITE = UINT32_MAX, LS_CPU_NOT_GIVEN = UINT32_MAX };
enum {
  LS_CPU_BASE_CONSTANTS,
  LS_CPU_BASE_SHARED,
  LS_CPU_BASE_FRAME,    // Lanes: what lives across a park.
  LS_CPU_BASE_SCRATCH,  // Lanes: what does not.
  LS_CPU_BASE_FIXED,    // Number of the above.
};

typedef struct ls_cpu_instruction {
  ls_kernel_loop loop;
  const void *params;
  int64_t size;      // KERNEL: blocks. COPY, MEET, STACK: bytes. LOOP_NEXT:
                     // bound.
  uint32_t operand;  // The first place: num_in inputs, then num_out outputs.
  uint32_t num_in, num_out;
  uint32_t target;
  uint32_t number;
  uint32_t adds_to;  // KERNEL: 1 + the contribution that it can add to; or 0.
  ls_cpu_code code;
} ls_cpu_instruction;

// What a loop keeps between its instructions.
typedef struct ls_cpu_loop_state {
  int64_t trips;  // Begun, the one included that does not come to the body.
  uint64_t outer_iteration, outer_step;  // The stream's around the loop.
} ls_cpu_loop_state;

// The iteration of a random op: the trip of its innermost loop, mixed with
// those of the loops around it so that no two body runs share one.
static inline uint64_t ls_cpu_iteration(uint64_t outer, int64_t trip) {
  return outer * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)trip;
}

typedef struct ls_cpu_labels {
  ls_dtype dtype;
  int64_t count, num_classes;
} ls_cpu_labels;
// INVALID_ARGUMENT naming the first label that is no class.
ls_status ls_cpu_check_labels(const ls_cpu_labels *self, const void *labels);

// How many replicas an op has on all ranks, and which of them are this rank's:
// all, where there are no others or one replica.
typedef struct ls_cpu_share {
  int32_t replicas;
  int32_t first, end;
} ls_cpu_share;

// How many are this rank's: parts of a wide value's storage.
static inline uint32_t ls_cpu_own(const ls_cpu_share *share) {
  return (uint32_t)(share->end - share->first);
}

// Whether other ranks host some.
static inline bool ls_cpu_is_spread(const ls_cpu_share *share) {
  return ls_cpu_own(share) < (uint32_t)share->replicas;
}

// Where one op calls the host: a site.
typedef struct ls_cpu_host {
  const ls_host_kernel *kernel;
  ls_object *state;  // Lives with the program.
  const char *name, *label;
  const char *path;  // The name with its scopes; NULL: it has none.
  uint32_t num_in, num_out;
  const ls_type *types;   // Of the inputs, then of the outputs; of one replica.
  const size_t *sizes;    // The same, in bytes.
  const size_t *strides;  // From one replica's to the next; 0: one for all.
  // All replicas have come to it: each has its part of the operands that are
  // wide, as all outputs are. By one call, or by one for each.
  bool is_for_all, by_one_call;
  int32_t replica;     // Which replica a call of the shared stream is made for.
  ls_cpu_share share;  // Of all replicas.
  uint32_t parts;      // Replicas that one call is for.
  bool is_inline;      // On the run's own thread, with the operands themselves;
  bool ends_at_once;   // ... and over when it returns.
  bool copies_in, copies_out;
  // Of each output that the kernel gives and that may lie where it is: the
  // number of its base, or LS_CPU_NOT_GIVEN. NULL: there is none such.
  uint32_t *given;
  uint32_t site;    // Among those of the shared stream; NONE: lane code's.
  uint32_t number;  // By which ranks know it, as they do a slot.
} ls_cpu_host;

// What the record of a host call needs at most.
typedef struct ls_cpu_host_room {
  uint32_t operands;
  size_t bytes;  // Each operand on lines of its own.
} ls_cpu_host_room;

// The bytes of an operand in one call.
static inline size_t ls_cpu_operand_bytes(const ls_cpu_host *host, uint32_t i) {
  return host->sizes[i] * (host->strides[i] == 0 ? 1 : host->parts);
}

static inline ls_cpu_host_room ls_cpu_room_of(const ls_cpu_host *host) {
  ls_cpu_host_room room = {.operands = host->num_in + host->num_out};
  for (uint32_t i = 0; i < room.operands; ++i)
    if (i < host->num_in ? host->copies_in : host->copies_out)
      room.bytes += (ls_cpu_operand_bytes(host, i) + 63) & ~(size_t)63;
  return room;
}

// The replicas of a rank that are a largest subtree of the tree over all.
typedef struct ls_cpu_subtree {
  uint32_t first, end;
  int32_t rank;
} ls_cpu_subtree;

// What replicas that go side by side exchange with other ranks: of a merge the
// sums of all subtrees, in order, which add up to the last operand, the result;
// of a gather the result's rows; else `num_results` results of each replica, as
// LAUNCH has them.
typedef struct ls_cpu_exchange {
  ls_cpu_share share;
  const ls_cpu_merge *merge;  // NULL: results.
  const ls_cpu_subtree *subtrees;
  uint32_t num_subtrees, num_results;
} ls_cpu_exchange;

// A merge operand that its kernel writes straight into the partial sums, on
// the lanes where that saves a copy, and into `staging` on the others, or adds
// to them if it can.
typedef struct ls_cpu_contribution {
  const ls_cpu_merge *merge;
  ls_cpu_place partials, staging;
  bool adds;
} ls_cpu_contribution;

// A replicate op. LAUNCH's inputs are the split arguments (those of all lanes
// of argument 0, of 1, ...), its outputs the gathered results likewise. Behind
// each there are the wide ones, of which every lane has its part.
typedef struct ls_cpu_launch {
  ls_cpu_share share;
  uint32_t index;  // Among all launches: what ranks know it by.
  uint32_t num_split, num_gathered;
  uint32_t num_wide_split, num_wide_gathered;
  uint32_t first_slot, num_slots;
  uint32_t num_bodies;  // Classes of replicas; each posts to a slot once.
  uint32_t num_contributions;
  const ls_cpu_contribution *contributions;
  // Threads take parts of 2^part_shift lanes, each with a stack of `part_depth`
  // buffers for every merge. One part: the caller sweeps all lanes, and threads
  // share the blocks of their instructions.
  uint32_t num_parts, part_shift, part_depth;
  uint32_t first_part, end_part;  // This rank's.
} ls_cpu_launch;

// Where new values are those of whole trips: in the shared stream from `begin`
// on, but for what lies from `first` to `last`.
typedef struct ls_cpu_trips {
  bool any;
  uint32_t begin, first, last;
} ls_cpu_trips;

// What a person wants to know of an instruction; NULL where there is nothing.
typedef struct ls_cpu_note {
  const ls_node *node;
  const char *name;   // Of the user's op.
  const char *kind;   // What it is, if not the op of `node`.
  const char *label;  // "op 'a/b' (f.c:12)": of what parks or fails.
  double flops;       // Of one run of a kernel, like what follows.
  size_t bytes;       // Read and written, each operand once.
} ls_cpu_note;

struct ls_executable {
  int references;
  ls_backend *backend;
  ls_allocator *allocator;
  ls_program *program;  // Retained.
  int32_t replicas;     // The most of any of its ops, which may differ.
  uint32_t num_lanes;   // The most that this rank hosts of any.
  ls_trunk *trunk;      // To the other ranks; NULL: there are none.
  ls_arena arena;       // Holds all that follows but the constants.

  ls_cpu_instruction *instructions;
  ls_cpu_note *notes;  // One an instruction.
  size_t num_instructions;
  ls_cpu_place *places;
  size_t *place_sizes;  // Bytes, for the listing.
  size_t num_places;

  char *constants;
  size_t *spare_offsets;  // Where outputs go that a run does not want.
  size_t spare_bytes;
  uint32_t num_given;  // Values that lie where host calls have them.
  uint32_t num_split, num_gathered, num_contributions;  // The most of any.
  uint32_t num_slots;
  uint32_t num_parts;      // The most of any launch.
  uint32_t num_subtrees;   // The most of any op, on all ranks; 0 without.
  uint32_t num_stacks;     // stack_news.
  bool *stack_is_endless;  // Of each.
  uint32_t max_operands;   // Of one instruction.
  bool calls_host, lanes_call_host;
  ls_cpu_trips trips;
  bool may_stop;       // In the middle: it changes no variable where it is.
  uint32_t num_sites;  // Host calls in the shared stream.
  const ls_cpu_host **sites;    // finish.c
  ls_cpu_host_room lanes_room;  // Of the calls of one lane.
  bool host_has_strings;        // Some call takes or gives them.
  bool lanes_count_steps;
  size_t kernel_scratch;
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

// The vtable's functions; see engine/backend.h.
ls_status ls_cpu_compile(ls_backend *backend, const ls_program *program,
                         ls_executable **out_executable);
void ls_cpu_release_executable(ls_executable *executable);
ls_status ls_cpu_print_plan(const ls_executable *executable, ls_text *text);

// The kernels that the back end works with.
const ls_cpu_kernels *ls_cpu_backend_kernels(const ls_backend *backend);

// ---- Code names -------------------------------------------------------------
const char *ls_cpu_code_name(ls_cpu_code code);

#endif  // LS_ENGINE_CPU_RUN_EXECUTABLE_H_
