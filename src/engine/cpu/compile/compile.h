// SPDX-License-Identifier: Apache-2.0
//
// The compiler's state, shared by the files of this folder.
//
// Emission walks the graphs once and appends instructions whose operands are
// storages: buffers without an address. A ref of a graph maps to a storage;
// reshapes, captures and region parameters share that of their operand.
// storage.c then lets storages share memory where that saves a copy, plan.c
// assigns addresses and writes the executable.
//
// Positions are indices of instructions. Lane code follows its launch and join,
// so every stream is a range of positions.
#ifndef LS_ENGINE_CPU_COMPILE_COMPILE_H_
#define LS_ENGINE_CPU_COMPILE_COMPILE_H_

#include "engine/cpu/run/executable.h"
#include "engine/cpu/run/team.h"

enum { LS_CPU_NONE = UINT32_MAX };

typedef enum ls_cpu_home {
  LS_CPU_ARENA,     // Planned memory: shared, frame or scratch.
  LS_CPU_CONSTANT,  // The homes from here on are bases with an `index`.
  LS_CPU_INPUT,
  LS_CPU_OUTPUT,
  LS_CPU_VARIABLE,
  // New value of a variable, if the program keeps old and new values apart.
  LS_CPU_NEW_VALUE,
  LS_CPU_GIVEN,  // Result that a host call lends in its own memory.
  LS_CPU_SPLIT,
  LS_CPU_GATHERED,
  LS_CPU_CONTRIBUTION,  // Scratch, or on some lanes the stack of a merge.
} ls_cpu_home;

typedef struct ls_cpu_stretch {
  uint32_t begin, end;  // First and last position.
} ls_cpu_stretch;
static inline bool ls_cpu_is_within(const ls_cpu_stretch *stretch,
                                    uint32_t position) {
  return stretch->begin <= position && position <= stretch->end;
}

typedef struct ls_cpu_storage {
  ls_cpu_home home;
  bool is_lane;     // True if each lane has its own.
  bool in_frame;    // For lanes: survives a park, so it is in the frame.
  bool by_host;     // Written by a host call.
  uint32_t index;   // Number of the input, output, ...
  uint32_t merged;  // The storage that this one was merged into, or itself.
  size_t size;
  const void *data;       // CONSTANT: the bytes.
  uint32_t first_access;  // First element of its list in `accesses`.
  uint32_t last_access;
  ls_cpu_stretch span;  // First to last access, if any.
  ls_cpu_place place;   // Assigned by plan.c.
} ls_cpu_storage;

// One operand of one instruction. An access by lanes or their launch to a
// shared storage may happen at any time between launch and join.
typedef struct ls_cpu_access {
  uint32_t position;
  uint32_t low, high;
  uint32_t next;
  bool is_write;
} ls_cpu_access;

// Facts about an instruction that only the compiler needs.
typedef struct ls_cpu_origin {
  ls_cpu_note note;
  // Lane code and launches: index of the replicate op. Others: NONE.
  uint32_t replicate;
  // Kernels, stacks: bit sets of operands that outputs 0 and 1 may overwrite.
  uint32_t in_place[2];
  bool adds;  // Kernels: see ls_kernel_plan.
} ls_cpu_origin;

// A merge that lanes post to: its slot, the stack of its partial results and
// its result. `staging` holds gathered rows until the last ones arrive, where
// that is needed.
typedef struct ls_cpu_lane_merge {
  const ls_node *node;
  ls_cpu_merge *merge;
  uint32_t slot, partials, result, staging;
} ls_cpu_lane_merge;

// The branches of a cond: a run takes one of them.
typedef struct ls_cpu_fork {
  ls_cpu_stretch branches[2];
} ls_cpu_fork;

// Storages of a graph's refs, while the graph is emitted.
typedef struct ls_cpu_scope {
  const ls_graph *graph;
  uint32_t *first;     // Per node: index of its output 0 in `storages`.
  uint32_t *storages;  // Per output; NONE: not computed yet.
} ls_cpu_scope;

typedef struct ls_cpu_compiler {
  ls_executable *out;
  const ls_program *program;
  ls_allocator *allocator;
  const ls_cpu_kernels *kernels;
  ls_arena temp;
  // First failure. Emission goes on after it, without effect.
  ls_status status;

  ls_cpu_instruction *instructions;
  ls_cpu_origin *origins;
  size_t num_instructions, instructions_capacity, origins_capacity;
  uint32_t *operands;  // Storages of the operands of all instructions.
  size_t num_operands, operands_capacity;
  ls_cpu_storage *storages;
  size_t num_storages, storages_capacity;
  ls_cpu_access *accesses;
  size_t num_accesses, accesses_capacity;
  ls_cpu_stretch *loops;
  size_t num_loops, loops_capacity;
  ls_cpu_fork *forks;
  size_t num_forks, forks_capacity;
  // Per replicate op: positions from launch to join.
  ls_cpu_stretch *replicates;
  size_t num_replicates, replicates_capacity;
  uint32_t *parks;  // Positions of lane instructions that may park, ascending.
  size_t num_parks, parks_capacity;
  ls_cpu_lane_merge *lane_merges;  // Merges inside lane code.
  size_t num_meetings, meetings_capacity;
  size_t num_reached;    // Merges that the current class has reached.
  uint32_t received;     // Storage for the sums that lanes receive; or NONE.
  bool *endless_stacks;  // Per stack_new: true if the stack is endless.
  size_t endless_stacks_capacity;

  // State at the current position of emission. Replicas of the enclosing
  // replicate op; one replica outside.
  ls_cpu_share share;
  bool in_lane;        // True inside lane code.
  uint32_t replicate;  // Index of the enclosing replicate op; NONE outside.
  // Lanes of all classes reach this position in replica order, and posts rely
  // on that. Never true again after a host call.
  bool in_order;
  // Number of times this position runs per run of the program, for flops.
  double trips;
  const ls_node *named;  // The last node whose name was printed, and that name.
  const char *name;
} ls_cpu_compiler;

// ---- compile.c -------------------------------------------------------------
// Returns the share of an op of so many replicas.
ls_cpu_share ls_cpu_share_of(const ls_executable *executable, int64_t replicas);

// ---- stream.c --------------------------------------------------------------
// Takes over a failure; the compiler keeps its first one.
void ls_cpu_fail(ls_cpu_compiler *self, ls_status status);
// Fails like ls_cpu_fail, and adds the op's name and source position.
void ls_cpu_fail_at(ls_cpu_compiler *self, const ls_graph *graph,
                    const ls_node *node, ls_status status);
// Fails if memory was refused; returns true if it was not.
bool ls_cpu_has_memory(ls_cpu_compiler *self, bool has_memory);
static inline bool ls_cpu_failed(const ls_cpu_compiler *self) {
  return self->status != NULL;
}

// Appends an instruction. Its operands follow: all reads, then all writes.
uint32_t ls_cpu_emit(ls_cpu_compiler *self, ls_cpu_code code,
                     const ls_node *node);
void ls_cpu_read(ls_cpu_compiler *self, uint32_t storage);
void ls_cpu_write(ls_cpu_compiler *self, uint32_t storage);
void ls_cpu_emit_copy(ls_cpu_compiler *self, const ls_node *node,
                      uint32_t target, uint32_t from);
// Sets the label of the last instruction, for messages.
void ls_cpu_label(ls_cpu_compiler *self, const ls_graph *graph,
                  const ls_node *node);
// Marks the last instruction as one at which a lane may park.
void ls_cpu_park(ls_cpu_compiler *self);
// Returns the next position.
uint32_t ls_cpu_here(const ls_cpu_compiler *self);
static inline ls_cpu_instruction *ls_cpu_at(ls_cpu_compiler *self,
                                            uint32_t position) {
  return &self->instructions[position];
}

// Makes room for the scratch of a kernel of so many blocks.
void ls_cpu_need_scratch(ls_cpu_compiler *self, size_t bytes, int64_t blocks);

// Makes a storage: planned memory of the current stream, or a base.
uint32_t ls_cpu_new_storage(ls_cpu_compiler *self, size_t size);
uint32_t ls_cpu_new_shared(ls_cpu_compiler *self, size_t size);
uint32_t ls_cpu_new_base(ls_cpu_compiler *self, ls_cpu_home home,
                         uint32_t index, size_t size);

size_t ls_cpu_ref_size(const ls_graph *graph, uint64_t ref);

void ls_cpu_scope_init(ls_cpu_compiler *self, ls_cpu_scope *scope,
                       const ls_graph *graph);
// Returns the storage of a ref. Fails with INTERNAL if it is not computed yet.
uint32_t ls_cpu_storage_of(ls_cpu_compiler *self, const ls_cpu_scope *scope,
                           uint64_t ref);
// Returns the storage of a wide value, which has this rank's parts, `size`
// bytes in all. Fails with UNIMPLEMENTED if the value comes from outside, with
// the parts of other ranks.
uint32_t ls_cpu_wide_storage(ls_cpu_compiler *self, const ls_cpu_scope *scope,
                             uint64_t ref, size_t size);
void ls_cpu_bind_ref(ls_cpu_compiler *self, ls_cpu_scope *scope, uint64_t ref,
                     uint32_t storage);

// ---- emit.c ----------------------------------------------------------------
// Emit one node, or all nodes of a graph.
void ls_cpu_emit_node(ls_cpu_compiler *self, ls_cpu_scope *scope,
                      const ls_node *node);
void ls_cpu_emit_graph(ls_cpu_compiler *self, ls_cpu_scope *scope);

// A kernel that is about to be emitted.
typedef struct ls_cpu_use {
  ls_kernel_plan plan;     // Prepared, with the types of its operands.
  const uint32_t *inputs;  // Storages of its operands.
  // If lanes > 1 the kernel runs for that many replicas from `first` on, each
  // with its part of every storage; inputs that are shared are used whole.
  uint32_t lanes, first;
  const bool *is_whole;  // Per input: true if it is shared.
} ls_cpu_use;
// Prepares the node's kernel for operands of these types.
ls_status ls_cpu_prepare_use(ls_cpu_compiler *self, const ls_graph *graph,
                             const ls_node *node, const ls_type *in,
                             const ls_type *out, ls_cpu_use *use);
// Emits the kernel and binds the node's outputs.
void ls_cpu_emit_use(ls_cpu_compiler *self, ls_cpu_scope *scope,
                     const ls_cpu_use *use);

// ---- flow.c ----------------------------------------------------------------
void ls_cpu_emit_while(ls_cpu_compiler *self, ls_cpu_scope *scope,
                       const ls_node *node);
void ls_cpu_emit_cond(ls_cpu_compiler *self, ls_cpu_scope *scope,
                      const ls_node *node);
void ls_cpu_emit_host(ls_cpu_compiler *self, ls_cpu_scope *scope,
                      const ls_node *node);

// Emits a stack_new (emit.c), stack_push or stack_pop.
void ls_cpu_emit_stack(ls_cpu_compiler *self, ls_cpu_scope *scope,
                       const ls_node *node);

// ---- replicate.c -----------------------------------------------------------
void ls_cpu_emit_replicate(ls_cpu_compiler *self, ls_cpu_scope *scope,
                           const ls_node *node);

// ---- lane_merges.c ---------------------------------------------------------
// Makes a merge: its slot, the stack of its partial results and its result.
ls_cpu_lane_merge ls_cpu_make_lane_merge(ls_cpu_compiler *self,
                                         const ls_graph *graph,
                                         const ls_node *node);
// Emits the post of a lane's contribution; if lanes may arrive out of order,
// precedes it by a wait for the lower lanes.
void ls_cpu_emit_post(ls_cpu_compiler *self, const ls_graph *graph,
                      const ls_cpu_lane_merge *merge, uint32_t value);
// Emits a merge that is not at the top level of lane code.
void ls_cpu_emit_merge(ls_cpu_compiler *self, ls_cpu_scope *scope,
                       const ls_node *node);

// ---- batching.c ------------------------------------------------------------
typedef struct ls_cpu_region ls_cpu_region;
// Emits the op with its replicas as one batch; returns false, with nothing
// emitted, if that is impossible. Does not bind values in `outer`, but makes
// the storages of gathered results.
bool ls_cpu_emit_batched(ls_cpu_compiler *self, ls_cpu_region *region,
                         const ls_cpu_scope *outer);

// ---- storage.c -------------------------------------------------------------
// Collect the accesses of all storages, or drop them.
void ls_cpu_collect_accesses(ls_cpu_compiler *self);
void ls_cpu_forget_accesses(ls_cpu_compiler *self);
// Removes copies and lets kernels work in place. Afterwards operands refer to
// root storages.
void ls_cpu_share_storages(ls_cpu_compiler *self);

uint32_t ls_cpu_root(const ls_cpu_compiler *self, uint32_t storage);
// Finds the first and last position at which a root storage is live; returns
// false if it is never used.
bool ls_cpu_extent(const ls_cpu_compiler *self, uint32_t root,
                   ls_cpu_stretch *out_extent);

// ---- calls.c ---------------------------------------------------------------
// Moves the starts of host calls up, and their ends down.
void ls_cpu_overlap_calls(ls_cpu_compiler *self);

// ---- trips.c ---------------------------------------------------------------
// Returns true if an instruction gives a variable its new value. Later
// instructions of the loop's trip should not fail, nor those of the run if new
// values are written in place.
bool ls_cpu_commits(const ls_cpu_compiler *self, uint32_t position);
// Records in the executable which values a failed run leaves in variables.
// Moves nothing.
void ls_cpu_find_failure_values(ls_cpu_compiler *self);

// Returns true for an instruction that neither jumps nor parks a stream nor
// depends on anything but its operands.
static inline bool ls_cpu_is_straight(ls_cpu_code code) {
  return code == LS_CPU_KERNEL || code == LS_CPU_COPY ||
         code == LS_CPU_NOTHING || code == LS_CPU_SUMS_START ||
         code == LS_CPU_SUMS_FINISH;
}

// Returns the number of operands that an instruction uses: a removed copy keeps
// its own in the list.
static inline uint32_t ls_cpu_num_operands(const ls_cpu_compiler *self,
                                           uint32_t i) {
  const ls_cpu_instruction *at = &self->instructions[i];
  return at->code == LS_CPU_NOTHING ? 0 : at->num_in + at->num_out;
}

// Returns true if no instruction may move across the one at a position.
static inline bool ls_cpu_is_wall(const ls_cpu_compiler *self,
                                  const bool *is_target, uint32_t i) {
  return is_target[i] || !ls_cpu_is_straight(self->instructions[i].code);
}

// ---- exchanges.c -----------------------------------------------------------
// Moves the ends of exchanges of sums down.
void ls_cpu_delay_exchanges(ls_cpu_compiler *self);

// ---- updates.c -------------------------------------------------------------
// Moves updates of variables up to the instructions that make their operands.
void ls_cpu_advance_updates(ls_cpu_compiler *self);
// Moves instructions: to behind the one at `moves[i]`, unless that is NONE.
// Several behind one keep their order. Returns false without memory.
bool ls_cpu_reorder(ls_cpu_compiler *self, const uint32_t *moves);

// ---- fuse.c ----------------------------------------------------------------
// Fuses adjacent elementwise instructions.
void ls_cpu_fuse(ls_cpu_compiler *self);
// Returns, per position, whether an instruction jumps there; NULL without
// memory.
bool *ls_cpu_targets(ls_cpu_compiler *self);

// ---- plan.c ----------------------------------------------------------------
// Gives every storage its place and the executable its sizes.
void ls_cpu_plan_memory(ls_cpu_compiler *self);

// Writes instructions, places and constants into the executable.
void ls_cpu_finish(ls_cpu_compiler *self);

#endif  // LS_ENGINE_CPU_COMPILE_COMPILE_H_
