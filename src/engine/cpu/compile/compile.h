// SPDX-License-Identifier: Apache-2.0
//
// The compiler's own state, shared by the files of this folder.
//
// Emission walks the graphs once and appends instructions whose operands are
// storages: buffers without an address. A ref of a graph maps to a storage;
// reshapes, captures and region parameters share their operand's. storage.c
// then lets storages share memory where that saves a copy, plan.c gives
// addresses, and finish.c writes the executable.
//
// Positions are indices of instructions. Lane code stands behind its launch
// and join, so every stream is a stretch of positions.
#ifndef LS_ENGINE_CPU_COMPILE_COMPILE_H_
#define LS_ENGINE_CPU_COMPILE_COMPILE_H_

#include "engine/cpu/run/executable.h"

enum { LS_CPU_NONE = UINT32_MAX };

typedef enum ls_cpu_home {
  LS_CPU_ARENA,     // Planned: shared, frame or scratch.
  LS_CPU_CONSTANT,  // The rest are bases, by `index`.
  LS_CPU_INPUT,
  LS_CPU_OUTPUT,
  LS_CPU_VARIABLE,
  LS_CPU_NEW_VALUE,  // Of a variable, if the program keeps them apart.
  LS_CPU_GIVEN,      // By a host call, where that has it.
  LS_CPU_SPLIT,
  LS_CPU_GATHERED,
  LS_CPU_CONTRIBUTION,  // Scratch, but on some lanes a merge's stack.
} ls_cpu_home;

typedef struct ls_cpu_stretch {
  uint32_t begin, end;  // Positions, both included.
} ls_cpu_stretch;

typedef struct ls_cpu_storage {
  ls_cpu_home home;
  bool is_lane;     // Each lane has its own.
  bool in_frame;    // Lane, arena: lives across a park.
  bool by_host;     // A host call writes it.
  uint32_t index;   // Of the input, output, ...
  uint32_t merged;  // The storage it became a part of, or itself.
  size_t size;
  const void *data;       // CONSTANT: the bytes.
  uint32_t first_access;  // Chain through `accesses`.
  uint32_t last_access;
  ls_cpu_stretch span;  // From the first to the last of them, if there is one.
  ls_cpu_place place;   // plan.c.
} ls_cpu_storage;

// One operand of one instruction. What lanes and their launch do to a shared
// storage happens at any time between launch and join.
typedef struct ls_cpu_access {
  uint32_t position;
  uint32_t low, high;
  uint32_t next;
  bool is_write;
} ls_cpu_access;

// What emission knows of an instruction beyond the instruction.
typedef struct ls_cpu_origin {
  ls_cpu_note note;
  uint32_t replicate;    // Lane code and launches: index of the op. Else NONE.
  uint32_t in_place[2];  // Kernels, stacks: operands that outputs 0 and 1 may
                         // lie on.
  bool adds;             // Kernels: see ls_kernel_plan.
} ls_cpu_origin;

// A merge that lanes post to: its slot, the stack of its partial results and
// its result; where rows that are gathered wait for the last ones, if they do.
typedef struct ls_cpu_meeting {
  const ls_node *node;
  ls_cpu_merge *merge;
  uint32_t slot, partials, result, staging;
} ls_cpu_meeting;

// The branches of a cond: a run goes through one of them.
typedef struct ls_cpu_fork {
  ls_cpu_stretch branches[2];
} ls_cpu_fork;

// The storages of a graph's refs.
typedef struct ls_cpu_scope {
  const ls_graph *graph;
  uint32_t *first;     // Of the i-th node: index of its output 0 ...
  uint32_t *storages;  // ... in here; NONE until it is computed.
} ls_cpu_scope;

typedef struct ls_cpu_compiler {
  ls_executable *out;
  const ls_program *program;
  ls_allocator *allocator;
  const ls_cpu_kernels *kernels;
  ls_arena temp;
  ls_status status;  // The first failure. Emission goes on, harmlessly.

  ls_cpu_instruction *instructions;
  ls_cpu_origin *origins;
  size_t num_instructions, instructions_capacity, origins_capacity;
  uint32_t *operands;  // Storages.
  size_t num_operands, operands_capacity;
  ls_cpu_storage *storages;
  size_t num_storages, storages_capacity;
  ls_cpu_access *accesses;
  size_t num_accesses, accesses_capacity;
  ls_cpu_stretch *loops;
  size_t num_loops, loops_capacity;
  ls_cpu_fork *forks;
  size_t num_forks, forks_capacity;
  ls_cpu_stretch *replicates;  // From launch to join.
  size_t num_replicates, replicates_capacity;
  uint32_t *parks;  // Instructions of lanes that may park, ascending.
  size_t num_parks, parks_capacity;
  ls_cpu_meeting *meetings;  // Merges inside of lane code ...
  size_t num_meetings, meetings_capacity;
  size_t num_met;        // ... and how many this class has come to.
  bool *endless_stacks;  // Of each stack_new: whether it is one.
  size_t endless_stacks_capacity;

  // Where emission stands.
  ls_cpu_share share;    // Of the replicate op around; one replica outside.
  bool in_lane;          // In lane code.
  uint32_t replicate;    // Its index; NONE outside.
  bool in_order;         // Lanes come here in order, which posts rely on.
  double trips;          // Runs of this place in one run, for the flops.
  const ls_node *named;  // The node that was named last, and its name.
  const char *name;
} ls_cpu_compiler;

// ---- compile.c --------------------------------------------------------------
// The share of an op of so many replicas.
ls_cpu_share ls_cpu_share_of(const ls_executable *executable, int64_t replicas);

// ---- stream.c ---------------------------------------------------------------
// Takes a failure over; the first one is kept.
void ls_cpu_fail(ls_cpu_compiler *self, ls_status status);
// The same, with the op's name and place.
void ls_cpu_fail_at(ls_cpu_compiler *self, const ls_graph *graph,
                    const ls_node *node, ls_status status);
static inline bool ls_cpu_failed(const ls_cpu_compiler *self) {
  return self->status != NULL;
}

// Appends an instruction. Its operands follow: all reads, then all writes.
uint32_t ls_cpu_emit(ls_cpu_compiler *self, ls_cpu_code code,
                     const ls_node *node);
void ls_cpu_read(ls_cpu_compiler *self, uint32_t storage);
void ls_cpu_write(ls_cpu_compiler *self, uint32_t storage);
void ls_cpu_emit_copy(ls_cpu_compiler *self, const ls_node *node, uint32_t to,
                      uint32_t from);
// Names the last instruction for messages.
void ls_cpu_label(ls_cpu_compiler *self, const ls_graph *graph,
                  const ls_node *node);
// Lets the last instruction park a lane.
void ls_cpu_park(ls_cpu_compiler *self);
uint32_t ls_cpu_here(const ls_cpu_compiler *self);  // The next position.
static inline ls_cpu_instruction *ls_cpu_at(ls_cpu_compiler *self,
                                            uint32_t position) {
  return &self->instructions[position];
}

// A kernel needs so many bytes of scratch.
static inline void ls_cpu_need_scratch(ls_cpu_compiler *self, size_t bytes) {
  if (bytes > self->out->kernel_scratch) self->out->kernel_scratch = bytes;
}

// A new storage: planned memory of the stream that is being emitted, or a base.
uint32_t ls_cpu_new_storage(ls_cpu_compiler *self, size_t size);
uint32_t ls_cpu_new_shared(ls_cpu_compiler *self, size_t size);
uint32_t ls_cpu_new_base(ls_cpu_compiler *self, ls_cpu_home home,
                         uint32_t index, size_t size);

size_t ls_cpu_type_size(ls_type type);
size_t ls_cpu_ref_size(const ls_graph *graph, uint64_t ref);

void ls_cpu_scope_init(ls_cpu_compiler *self, ls_cpu_scope *scope,
                       const ls_graph *graph);
// The storage of a ref. INTERNAL if it is not computed yet.
uint32_t ls_cpu_storage_of(ls_cpu_compiler *self, const ls_cpu_scope *scope,
                           uint64_t ref);
// That of a wide value, which has this rank's parts, in all so many bytes.
//   UNIMPLEMENTED  it comes from outside, with those of other ranks too.
uint32_t ls_cpu_wide_storage(ls_cpu_compiler *self, const ls_cpu_scope *scope,
                             uint64_t ref, size_t size);
void ls_cpu_bind_ref(ls_cpu_compiler *self, ls_cpu_scope *scope, uint64_t ref,
                     uint32_t storage);

// ---- emit.c -----------------------------------------------------------------
// Emits one node, or all of a graph.
void ls_cpu_emit_node(ls_cpu_compiler *self, ls_cpu_scope *scope,
                      const ls_node *node);
void ls_cpu_emit_graph(ls_cpu_compiler *self, ls_cpu_scope *scope);

// A kernel that is about to be emitted.
typedef struct ls_cpu_use {
  ls_kernel_plan plan;     // Prepared, with the types of its operands.
  const uint32_t *inputs;  // Their storages.
  // More than 1: of so many replicas from `first` on, each with its part of
  // every storage, one behind the other, but for inputs that are one for all.
  uint32_t lanes, first;
  const bool *is_whole;  // By input.
} ls_cpu_use;
// Prepares the node's kernel for operands of these types.
ls_status ls_cpu_prepare_use(ls_cpu_compiler *self, const ls_graph *graph,
                             const ls_node *node, const ls_type *in,
                             const ls_type *out, ls_cpu_use *use);
// Emits it and binds the node's outputs.
void ls_cpu_emit_use(ls_cpu_compiler *self, ls_cpu_scope *scope,
                     const ls_cpu_use *use);

// ---- flow.c -----------------------------------------------------------------
void ls_cpu_emit_while(ls_cpu_compiler *self, ls_cpu_scope *scope,
                       const ls_node *node);
void ls_cpu_emit_cond(ls_cpu_compiler *self, ls_cpu_scope *scope,
                      const ls_node *node);
void ls_cpu_emit_host(ls_cpu_compiler *self, ls_cpu_scope *scope,
                      const ls_node *node);
// UNIMPLEMENTED: it gives what the engine cannot keep.
ls_status ls_cpu_check_host(const ls_node *node);

// ---- stacks.c ---------------------------------------------------------------
// stack_new, stack_push, stack_pop.
void ls_cpu_emit_stack(ls_cpu_compiler *self, ls_cpu_scope *scope,
                       const ls_node *node);

// ---- replicate.c ------------------------------------------------------------
void ls_cpu_emit_replicate(ls_cpu_compiler *self, ls_cpu_scope *scope,
                           const ls_node *node);

// ---- meeting.c --------------------------------------------------------------
// A new merge: its slot, the stack of its partial results and its result.
ls_cpu_meeting ls_cpu_make_meeting(ls_cpu_compiler *self, const ls_graph *graph,
                                   const ls_node *node);
// A lane's contribution; before it the lane waits for its turn if lanes do not
// come here in order.
void ls_cpu_emit_post(ls_cpu_compiler *self, const ls_graph *graph,
                      const ls_cpu_meeting *merge, uint32_t value);
// A merge outside of the top level of lane code.
void ls_cpu_emit_merge(ls_cpu_compiler *self, ls_cpu_scope *scope,
                       const ls_node *node);

// ---- parts.c ----------------------------------------------------------------
// Decides whether threads take parts of the lanes, whose code stands at
// [begin, end), and how large they are.
void ls_cpu_choose_parts(ls_cpu_compiler *self, ls_cpu_launch *launch,
                         uint32_t begin, uint32_t end);

// ---- batching.c -------------------------------------------------------------
typedef struct ls_cpu_region ls_cpu_region;
// Emits the op so that its replicas go through the instructions side by side;
// false if they cannot, and nothing was emitted. Binds nothing of `outer`, but
// makes what is gathered.
bool ls_cpu_emit_batched(ls_cpu_compiler *self, ls_cpu_region *region,
                         const ls_cpu_scope *outer);

// ---- storage.c --------------------------------------------------------------
// Collects the accesses of all storages, or drops what was collected.
void ls_cpu_collect_accesses(ls_cpu_compiler *self);
void ls_cpu_forget_accesses(ls_cpu_compiler *self);
// Drops copies and lets kernels work in place. Operands are roots from then on.
void ls_cpu_share_storages(ls_cpu_compiler *self);

// ---- given.c ----------------------------------------------------------------
// Results of host calls that need no place of their own: for share_storages,
// once copies have gone.
void ls_cpu_find_given(ls_cpu_compiler *self);
uint32_t ls_cpu_root(const ls_cpu_compiler *self, uint32_t storage);
// The positions that a root storage lives from and to; false: none.
bool ls_cpu_extent(const ls_cpu_compiler *self, uint32_t root,
                   ls_cpu_stretch *out_extent);

// ---- calls.c ----------------------------------------------------------------
// Moves the beginnings of host calls up, and their ends down.
void ls_cpu_spread_calls(ls_cpu_compiler *self);

// ---- trips.c ----------------------------------------------------------------
// Whether an instruction gives a variable its new value: a loop's trip or,
// where values are not kept apart, the run had better not fail behind it.
bool ls_cpu_commits(const ls_cpu_compiler *self, uint32_t position);
// Tells the executable what a run that fails leaves. Positions stay.
void ls_cpu_look_at_failures(ls_cpu_compiler *self);

// ---- updates.c --------------------------------------------------------------
// Moves updates of variables up to where what they need is made.
void ls_cpu_advance_updates(ls_cpu_compiler *self);

// ---- fuse.c -----------------------------------------------------------------
// Makes one instruction of elementwise ones that follow one another.
void ls_cpu_fuse(ls_cpu_compiler *self);
// By position: whether an instruction goes there. NULL: out of memory.
bool *ls_cpu_targets(ls_cpu_compiler *self);

// ---- plan.c -----------------------------------------------------------------
// Gives every storage its place and the executable its sizes.
void ls_cpu_plan_memory(ls_cpu_compiler *self);

// ---- finish.c ---------------------------------------------------------------
// Writes instructions, places and constants into the executable.
void ls_cpu_finish(ls_cpu_compiler *self);

#endif  // LS_ENGINE_CPU_COMPILE_COMPILE_H_
