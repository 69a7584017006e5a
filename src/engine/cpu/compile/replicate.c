// SPDX-License-Identifier: Apache-2.0
//
// Emission of replicate ops and merges.
//
// A replicate op's nodes fall in four groups. Varying nodes are the lane
// stream. The others are computed once:
//   - nodes that depend on no merge come before the launch, so that lanes need
//     not wait for them;
//   - nodes that depend on a merge and that lanes need stand between launch and
//     join, run while lanes are parked, and are published one by one;
//   - the rest, usually the optimizer, comes after the join, when no lane reads
//     the old variables any more.
//
//   before; launch -> lanes; await, compute, publish ...; join -> after
//   lanes: compute, post, wait ...; end
//   after: ...
//
// With one replica there are no lanes: the region is part of the enclosing
// stream.
#include "base/runtime_internal.h"
#include "engine/cpu/compile/compile.h"
#include "engine/cpu/compile/region.h"
#include "engine/cpu/run/ranks.h"
#include "lockstep/runtime_settings.h"

// ---- Parts ------------------------------------------------------------------
// Division of work among threads: either each thread takes parts of the lanes,
// or all threads share the blocks of each instruction.
//
// With parts a thread waits for others only where lanes do, and small
// instructions run in parallel, too; but each thread reads all weights and
// their sums, while with blocks it reads only its share. So parts pay if there
// are many instructions relative to the size of merged values, and the lanes
// divide evenly. Both ways give the same bits.

// Estimates: time of a round on one core that is worth waking threads; cost of
// sharing an instruction's blocks; and bytes of merged values that a core
// processes per nanosecond, over all their uses. Measured on two cores:
// resnet20 and gpt on 8 replicas take 15% and 10% less with parts, cnn on 64
// takes 12% more, mlp and cnn on 8 are even.
enum { WORTH_NANOS = 40000, SHARE_NANOS = 5000, MERGED_BYTES_PER_NANO = 10 };

// Estimated nanoseconds of all lanes: on one core from one park to the next,
// and in total either way. `nanos` and `blocks` are of one lane.
typedef struct estimate {
  double nanos, blocks, merged;
  int64_t parks;
} estimate;

static estimate estimate_of(const ls_cpu_compiler *self, int64_t threads,
                            uint32_t begin, uint32_t end) {
  estimate sum = {.parks = 1};
  for (uint32_t i = begin; i < end; ++i) {
    const ls_cpu_instruction *at = &self->instructions[i];
    const ls_cpu_note *note = &self->origins[i].note;
    const double nanos = ls_cpu_team_nanos(note->flops, note->bytes);
    const bool by_team = at->code == LS_CPU_KERNEL && at->number != 0;
    sum.nanos += nanos;
    sum.blocks += by_team ? nanos / (double)threads + SHARE_NANOS : nanos;
    sum.parks += at->code == LS_CPU_WAIT || at->code == LS_CPU_MEET ||
                 at->code == LS_CPU_HOST_FINISH;
    if (at->code == LS_CPU_POST)
      sum.merged += (double)self->storages[self->operands[at->operand]].size;
  }
  return sum;
}

// Returns the percentage of the threads' time that parts of 2^shift lanes keep
// busy.
static int64_t fill_of(int64_t lanes, int64_t threads, uint32_t shift) {
  const int64_t parts = ((lanes - 1) >> shift) + 1;
  const int64_t rounds = (parts + threads - 1) / threads;
  return 100 * lanes / ((rounds << shift) * threads);
}

// Returns the number of this rank's lanes.
static int64_t lanes_of(const ls_cpu_compiler *self) {
  return ls_cpu_num_local(&self->share);
}

static bool parts_pay(const ls_cpu_compiler *self, const ls_cpu_launch *launch,
                      const estimate *lane, int64_t threads, int64_t fill) {
  const double sweep = lane->nanos / launch->num_bodies *
                       (double)lanes_of(self) / (double)lane->parks;
  const double parts = (lane->nanos + lane->merged / MERGED_BYTES_PER_NANO) *
                       100 / (double)(threads * fill);
  return sweep >= WORTH_NANOS && parts < lane->blocks;
}

static void set_parts(ls_cpu_compiler *self, ls_cpu_launch *launch,
                      uint32_t shift) {
  const uint32_t lanes = (uint32_t)self->share.replicas;
  launch->part_shift = shift;
  launch->num_parts = ((lanes - 1) >> shift) + 1;
  launch->part_depth =
      ls_cpu_merge_depth(launch->num_parts == 1 ? lanes : 1U << shift);
  launch->first_part = (uint32_t)self->share.first >> shift;
  launch->end_part = ((uint32_t)(self->share.end - 1) >> shift) + 1;
  if (launch->num_parts > self->out->num_parts)
    self->out->num_parts = launch->num_parts;
}

// Makes one part of this rank's lanes.
static void set_rank_part(ls_cpu_compiler *self, ls_cpu_launch *launch) {
  ls_cpu_leaf *leaves = ls_arena_new_array(&self->out->arena, ls_cpu_leaf,
                                           (size_t)lanes_of(self));
  if (!ls_cpu_has_memory(self, leaves != NULL)) return;
  launch->num_parts = (uint32_t)self->out->communicator->ranks;
  launch->part_shift = 31;
  launch->part_depth = ls_cpu_ranks_leaves(&self->share, leaves);
  launch->end_part = 1;
  launch->leaves = leaves;
  if (launch->num_parts > self->out->num_parts)
    self->out->num_parts = launch->num_parts;
}

// Returns the shift of parts for threads. Among equally even choices takes the
// largest parts, which have the fewest partial sums; but two parts per thread
// if possible: if one thread is delayed, another takes its second part.
static uint32_t find_shift(int64_t lanes, int64_t threads, uint32_t most) {
  uint32_t best = 0;
  for (uint32_t shift = 1; shift <= most && lanes >> shift > 0; ++shift)
    if (fill_of(lanes, threads, shift) >= fill_of(lanes, threads, best))
      best = shift;
  const bool is_better = best > 0 && fill_of(lanes, threads, best - 1) >=
                                         fill_of(lanes, threads, best);
  return is_better ? best - 1 : best;
}

// Decides if threads run parts of the lanes, whose code is [begin, end), and
// the size of these parts.
static void choose_parts(ls_cpu_compiler *self, ls_cpu_launch *launch,
                         uint32_t begin, uint32_t end) {
  enum { ALL = 31 };  // One part, of any number of lanes.
  const ls_runtime *runtime = self->out->backend->runtime;
  const ls_lanes_by by = ls_debug_lanes(runtime);
  const int64_t threads = ls_runtime_threads(runtime);
  const int64_t lanes = lanes_of(self);
  const bool on_ranks = ls_cpu_has_remote(&self->share);
  const uint32_t most = on_ranks ? ls_cpu_ranks_shift(self->out->communicator,
                                                      self->share.replicas)
                                 : ALL;
  const uint32_t shift = find_shift(lanes, threads, most);
  const int64_t fill = fill_of(lanes, threads, shift);
  bool by_threads = by == LS_LANES_BY_THREADS;
  if (threads > 1 && by != LS_LANES_BY_BLOCKS && !by_threads) {
    const estimate lane = estimate_of(self, threads, begin, end);
    // On ranks many small parts would each keep a sum.
    by_threads = parts_pay(self, launch, &lane, threads, fill) &&
                 lanes >> most <= 2 * threads;
  }
  if (threads > 1 && by_threads)
    set_parts(self, launch, shift);
  else if (on_ranks)
    set_rank_part(self, launch);
  else
    set_parts(self, launch, ALL);
}

// ---- The shared stream -----------------------------------------------------
static void make_top_merges(ls_cpu_compiler *compiler, ls_cpu_region *self) {
  ls_cpu_body *first = &self->bodies[0];
  for (uint32_t i = 0; i < self->num_merges; ++i) {
    const ls_node *node = self->merges[i].node;
    self->merges[i] = ls_cpu_make_lane_merge(compiler, first->graph, node);
    ls_cpu_bind_ref(compiler, &first->scope, ls_ref(node->id, 0),
                    self->merges[i].result);
    if (ls_cpu_failed(compiler)) return;
  }
}

static void emit_uniform(ls_cpu_compiler *compiler, ls_cpu_region *self,
                         bool after_merge, bool needed) {
  ls_cpu_body *first = &self->bodies[0];
  uint32_t merge = 0;
  for (size_t i = 0; i < first->graph->num_nodes; ++i) {
    const ls_node *node = first->graph->nodes[i];
    const uint32_t number = merge;
    merge += self->is_lane_merge[i];
    if (node->varying || self->after_merge[i] != after_merge ||
        self->needed[i] != needed)
      continue;
    if (!self->is_lane_merge[i]) {
      ls_cpu_emit_node(compiler, &first->scope, node);
    } else if (needed) {
      // If no lane needs the result, waiting at the join is enough.
      const uint32_t await = ls_cpu_emit(compiler, LS_CPU_AWAIT, node);
      ls_cpu_label(compiler, first->graph, node);
      if (ls_cpu_failed(compiler)) return;
      ls_cpu_at(compiler, await)->number = self->merges[number].slot;
    }
    if (self->published[i] == 0) continue;
    const uint32_t publish = ls_cpu_emit(compiler, LS_CPU_PUBLISH, node);
    if (ls_cpu_failed(compiler)) return;
    ls_cpu_at(compiler, publish)->number = self->published[i];
  }
}

static uint32_t emit_launch(ls_cpu_compiler *compiler, ls_cpu_region *self,
                            const ls_cpu_scope *outer, ls_cpu_launch *launch) {
  const uint32_t replicas = (uint32_t)compiler->share.replicas;
  const uint32_t position = ls_cpu_emit(compiler, LS_CPU_LAUNCH, self->op);
  if (ls_cpu_failed(compiler)) return 0;
  compiler->origins[position].replicate = compiler->replicate;
  ls_cpu_at(compiler, position)->params = launch;
  const uint32_t wide_split = self->num_arguments - self->num_split;
  const uint32_t split = self->num_split * replicas;
  for (uint32_t i = 0; i < split; ++i) {
    ls_cpu_read(compiler,
                ls_cpu_storage_of(compiler, outer, self->op->inputs[i]));
  }
  const ls_graph *first = self->bodies[0].graph;
  for (uint32_t i = 0; i < wide_split; ++i)
    ls_cpu_read(
        compiler,
        ls_cpu_wide_storage(
            compiler, outer, self->op->inputs[split + i],
            ls_cpu_ref_size(first, first->parameters[self->num_split + i]) *
                ls_cpu_num_local(&compiler->share)));
  for (uint32_t g = 0; g < self->num_gathered; ++g) {
    if (!self->is_gathered[g]) continue;
    ++launch->num_gathered;
    for (uint32_t r = 0; r < replicas; ++r)
      ls_cpu_write(compiler, self->gathered[g * replicas + r]);
  }
  launch->num_wide_split = wide_split;
  launch->num_wide_gathered = self->num_given - self->num_gathered;
  for (uint32_t i = 0; i < launch->num_wide_gathered; ++i)
    ls_cpu_write(compiler, self->wide[i]);
  ls_executable *out = compiler->out;
  const uint32_t given = launch->num_gathered + launch->num_wide_gathered;
  if (self->num_arguments > out->num_split)
    out->num_split = self->num_arguments;
  if (given > out->num_gathered) out->num_gathered = given;
  return position;
}

// ---- Lane code -------------------------------------------------------------
// Emits the wait for a value that shared code publishes beside the lanes.
static void emit_wait(ls_cpu_compiler *compiler, const ls_cpu_region *self,
                      ls_cpu_body *body, const ls_node *node,
                      const uint64_t *refs, uint32_t count) {
  uint32_t published = LS_NO_TWIN;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t twin = ls_cpu_twin(body, refs[i]);
    if (twin == LS_NO_TWIN || self->published[twin] <= body->waited) continue;
    body->waited = self->published[twin];
    published = twin;
  }
  if (published == LS_NO_TWIN) return;
  const ls_graph *first = self->bodies[0].graph;
  const uint32_t wait = ls_cpu_emit(compiler, LS_CPU_WAIT, node);
  ls_cpu_label(compiler, first, first->nodes[published]);
  ls_cpu_park(compiler);
  if (!ls_cpu_failed(compiler))
    ls_cpu_at(compiler, wait)->number = body->waited;
}

// Emits the posts of a value that lanes have just computed.
static void emit_early_posts(ls_cpu_compiler *compiler,
                             const ls_cpu_region *self, const ls_cpu_body *body,
                             uint64_t id) {
  for (uint32_t i = 0; i < self->num_merges; ++i) {
    const uint64_t ref = body->merges[i]->inputs[0];
    if (ls_ref_id(ref) != id) continue;
    ls_cpu_emit_post(compiler, self->bodies[0].graph, &self->merges[i],
                     ls_cpu_storage_of(compiler, &body->scope, ref));
  }
}

// Emits, at a merge, a post that could not be made early, because the value is
// equal on all replicas of this class, or other classes reach the merge in
// another order.
static void emit_late_post(ls_cpu_compiler *compiler, const ls_cpu_region *self,
                           ls_cpu_body *body, const ls_node *node) {
  for (uint32_t i = 0; i < self->num_merges; ++i) {
    const uint64_t *ref = &node->inputs[0];
    if (body->merges[i] != node ||
        (self->posts_early && ls_cpu_twin(body, *ref) == LS_NO_TWIN))
      continue;
    emit_wait(compiler, self, body, node, ref, 1);
    ls_cpu_emit_post(compiler, self->bodies[0].graph, &self->merges[i],
                     ls_cpu_storage_of(compiler, &body->scope, *ref));
  }
}

static void emit_gathered(ls_cpu_compiler *compiler, const ls_cpu_region *self,
                          ls_cpu_body *body) {
  uint32_t index = 0;
  for (uint32_t g = 0; g < self->num_given; ++g) {
    if (!self->is_gathered[g]) continue;
    const uint64_t *ref = &body->graph->results[g];
    const uint32_t target = ls_cpu_new_base(compiler, LS_CPU_GATHERED, index++,
                                            ls_cpu_ref_size(body->graph, *ref));
    emit_wait(compiler, self, body, self->op, ref, 1);
    ls_cpu_emit_copy(compiler, self->op, target,
                     ls_cpu_storage_of(compiler, &body->scope, *ref));
  }
}

// Binds the values of shared code in another body than the first to their
// storages, if lanes may read them.
static void bind_shared(ls_cpu_compiler *compiler, const ls_cpu_region *self,
                        ls_cpu_body *body) {
  const ls_cpu_body *first = &self->bodies[0];
  for (size_t i = 0; i < body->graph->num_nodes; ++i) {
    const ls_node *node = body->graph->nodes[i];
    const uint32_t twin = body->twins[i];
    if (twin == LS_NO_TWIN || node->type == LS_OP_PARAMETER ||
        (self->after_merge[twin] && !self->needed[twin]))
      continue;
    for (unsigned k = 0; k < node->num_outputs; ++k)
      ls_cpu_bind_ref(
          compiler, &body->scope, ls_ref(node->id, k),
          ls_cpu_storage_of(compiler, &first->scope,
                            ls_ref(first->graph->nodes[twin]->id, k)));
  }
}

static void emit_body(ls_cpu_compiler *compiler, ls_cpu_region *self,
                      ls_cpu_body *body) {
  compiler->in_order = self->in_order;
  compiler->num_reached = 0;
  const double trips = compiler->trips;
  compiler->trips *= body->num_lanes;
  for (size_t i = 0; i < body->graph->num_nodes; ++i) {
    const ls_node *node = body->graph->nodes[i];
    if (body->twins[i] != LS_NO_TWIN) {
      emit_late_post(compiler, self, body, node);
    } else {
      emit_wait(compiler, self, body, node, node->inputs, node->num_inputs);
      ls_cpu_emit_node(compiler, &body->scope, node);
      if (self->posts_early) emit_early_posts(compiler, self, body, node->id);
    }
    if (ls_cpu_failed(compiler)) return;
  }
  emit_gathered(compiler, self, body);
  ls_cpu_emit(compiler, LS_CPU_END, self->op);
  compiler->trips = trips;
}

// Emits all bodies, one after the other; lanes start with a jump to their own.
static void emit_lanes(ls_cpu_compiler *compiler, ls_cpu_region *self) {
  compiler->in_lane = true;
  const uint32_t begin = ls_cpu_here(compiler);
  for (uint32_t k = 1; k < self->num_bodies; ++k) {
    const uint32_t select = ls_cpu_emit(compiler, LS_CPU_SELECT, self->op);
    if (ls_cpu_failed(compiler)) return;
    ls_cpu_at(compiler, select)->number = k;
    ls_cpu_at(compiler, select)->params = self->classes;
  }
  for (uint32_t k = 0; k < self->num_bodies; ++k) {
    if (k > 0) {
      bind_shared(compiler, self, &self->bodies[k]);
      if (ls_cpu_failed(compiler)) return;
      ls_cpu_at(compiler, begin + k - 1)->target = ls_cpu_here(compiler);
    }
    emit_body(compiler, self, &self->bodies[k]);
    if (ls_cpu_failed(compiler)) return;
  }
  compiler->in_lane = false;
}

// ---- The op ----------------------------------------------------------------
static void bind_captures(ls_cpu_compiler *compiler, ls_cpu_region *self,
                          const ls_cpu_scope *outer) {
  size_t input = self->num_split * (size_t)compiler->share.replicas +
                 (self->num_arguments - self->num_split);
  for (uint32_t k = 0; k < self->num_bodies; ++k) {
    ls_cpu_body *body = &self->bodies[k];
    const ls_graph *graph = body->graph;
    ls_cpu_scope_init(compiler, &body->scope, graph);
    if (ls_cpu_failed(compiler)) return;
    for (size_t i = graph->num_declared; i < graph->num_parameters; ++i) {
      ls_cpu_bind_ref(
          compiler, &body->scope, graph->parameters[i],
          ls_cpu_storage_of(compiler, outer, self->op->inputs[input++]));
    }
  }
}

// Binds arguments. With one replica an argument is the input itself; otherwise
// each lane finds its own.
static void bind_arguments(ls_cpu_compiler *compiler, ls_cpu_region *self,
                           const ls_cpu_scope *outer) {
  for (uint32_t k = 0; k < self->num_bodies; ++k) {
    ls_cpu_body *body = &self->bodies[k];
    for (uint32_t s = 0; s < self->num_arguments; ++s) {
      const uint64_t ref = body->graph->parameters[s];
      const uint32_t storage =
          compiler->share.replicas == 1
              ? ls_cpu_storage_of(compiler, outer,
                                  ls_cpu_argument_of(self, 1, s, 0))
              : ls_cpu_new_base(compiler, LS_CPU_SPLIT, s,
                                ls_cpu_ref_size(body->graph, ref));
      ls_cpu_bind_ref(compiler, &body->scope, ref, storage);
    }
  }
}

// Makes storages for the results of lanes: one per replica, or one for all.
static void make_gathered(ls_cpu_compiler *compiler, ls_cpu_region *self) {
  const uint32_t replicas = (uint32_t)compiler->share.replicas;
  for (uint32_t g = 0; g < self->num_gathered; ++g) {
    for (uint32_t r = 0; self->is_gathered[g] && r < replicas; ++r) {
      const ls_graph *graph = self->bodies[self->classes[r]].graph;
      self->gathered[g * replicas + r] = ls_cpu_new_shared(
          compiler, ls_cpu_ref_size(graph, graph->results[g]));
    }
  }
  const ls_graph *first = self->bodies[0].graph;
  for (uint32_t g = self->num_gathered; g < self->num_given; ++g)
    self->wide[g - self->num_gathered] =
        ls_cpu_new_shared(compiler, ls_cpu_ref_size(first, first->results[g]) *
                                        ls_cpu_num_local(&compiler->share));
}

// Returns the storage of result g of replica r. With one replica it is the
// value itself.
static uint32_t result_storage(ls_cpu_compiler *compiler,
                               const ls_cpu_region *self, uint32_t g,
                               uint32_t r) {
  const uint32_t replicas = (uint32_t)compiler->share.replicas;
  const ls_cpu_body *first = &self->bodies[0];
  if (replicas > 1 && g < self->num_given && self->is_gathered[g])
    return g < self->num_gathered ? self->gathered[g * replicas + r]
                                  : self->wide[g - self->num_gathered];
  return ls_cpu_storage_of(compiler, &first->scope, first->graph->results[g]);
}

static void bind_results(ls_cpu_compiler *compiler, const ls_cpu_region *self,
                         ls_cpu_scope *outer) {
  const uint32_t replicas = (uint32_t)compiler->share.replicas;
  const ls_graph *first = self->bodies[0].graph;
  unsigned output = 0;
  for (uint32_t g = 0; g < first->num_results; ++g)
    for (uint32_t r = 0; r < (g < self->num_gathered ? replicas : 1); ++r)
      ls_cpu_bind_ref(compiler, outer, ls_ref(self->op->id, output++),
                      result_storage(compiler, self, g, r));
}

// Sets the sizes of this rank's partial sums, once the number of parts is
// known.
static void size_partials(ls_cpu_compiler *compiler, const ls_cpu_region *self,
                          const ls_cpu_launch *launch) {
  const size_t buffers =
      (size_t)(launch->end_part - launch->first_part) * launch->part_depth;
  for (uint32_t i = 0; i < self->num_merges; ++i) {
    const ls_cpu_lane_merge *merge = &self->merges[i];
    compiler->storages[merge->partials].size = merge->merge->stride * buffers;
  }
  for (size_t i = 0; i < compiler->num_meetings; ++i) {
    const ls_cpu_lane_merge *merge = &compiler->lane_merges[i];
    compiler->storages[merge->partials].size = merge->merge->stride * buffers;
  }
}

static void emit_streams(ls_cpu_compiler *compiler, ls_cpu_region *self,
                         const ls_cpu_scope *outer) {
  ls_cpu_launch *launch = ls_arena_new(&compiler->out->arena, ls_cpu_launch);
  if (!ls_cpu_has_memory(compiler,
                         launch != NULL &&
                             LS_GROW(compiler->allocator, compiler->replicates,
                                     compiler->replicates_capacity,
                                     compiler->num_replicates + 1)))
    return;
  compiler->replicate = (uint32_t)compiler->num_replicates++;
  launch->share = compiler->share;
  launch->index = compiler->replicate;
  launch->num_split = self->num_split;
  launch->first_slot = compiler->out->num_slots;
  compiler->num_meetings = 0;
  compiler->received = LS_CPU_NONE;
  make_top_merges(compiler, self);
  make_gathered(compiler, self);
  emit_uniform(compiler, self, false, false);
  const uint32_t begin = emit_launch(compiler, self, outer, launch);
  emit_uniform(compiler, self, true, true);
  const uint32_t join = ls_cpu_emit(compiler, LS_CPU_JOIN, self->op);
  const uint32_t lanes = ls_cpu_here(compiler);
  emit_lanes(compiler, self);
  const uint32_t after = ls_cpu_here(compiler);
  launch->num_slots = compiler->out->num_slots - launch->first_slot;
  launch->num_bodies = self->num_bodies;
  if (!ls_cpu_failed(compiler)) {
    choose_parts(compiler, launch, lanes, after);
    size_partials(compiler, self, launch);
    ls_cpu_at(compiler, begin)->target = lanes;
    ls_cpu_at(compiler, join)->target = after;
    compiler->replicates[compiler->replicate] = (ls_cpu_stretch){begin, join};
  }
  emit_uniform(compiler, self, true, false);
}

void ls_cpu_emit_replicate(ls_cpu_compiler *compiler, ls_cpu_scope *outer,
                           const ls_node *op) {
  const int64_t replicas = ls_node_int(op, LS_ATTR_ID_REPLICAS);
  if (compiler->replicate != LS_CPU_NONE || compiler->share.replicas != 1) {
    ls_cpu_fail(compiler, ls_unimplemented("a replicate op in another one"));
    return;
  }
  compiler->share = ls_cpu_share_of(compiler->out, replicas);
  ls_cpu_region self;
  ls_status status = ls_cpu_region_init(compiler, op, &self);
  if (!ls_status_is_ok(status)) {
    ls_cpu_fail(compiler, status);
    return;
  }
  bind_captures(compiler, &self, outer);
  if (!ls_cpu_emit_batched(compiler, &self, outer)) {
    bind_arguments(compiler, &self, outer);
    if (replicas == 1)
      ls_cpu_emit_graph(compiler, &self.bodies[0].scope);
    else
      emit_streams(compiler, &self, outer);
  }
  bind_results(compiler, &self, outer);
  compiler->share = (ls_cpu_share){1, 0, 1};
  compiler->replicate = LS_CPU_NONE;
}
