// SPDX-License-Identifier: Apache-2.0
#include "runtime/ranks.h"

#include <stdio.h>

#include "base/threads/locked.h"
#include "base/trace.h"
#include "base/values/array_internal.h"
#include "base/values/digest.h"
#include "graph/compare/compare.h"
#include "graph/text/text.h"
#include "graph/walk.h"
#include "net/agreement.h"

static ls_communicator *communicator_of(const ls_program *program) {
  return ls_runtime_communicator(program->runtime);
}

bool ls_ranks_share(const ls_program *program) {
  const ls_communicator *communicator = communicator_of(program);
  return program->replicas > 1 && communicator != NULL &&
         communicator->ranks > 1;
}

// ---- Lists of ops ----------------------------------------------------------
enum { MOST_VALUE = 64, HASH_DIGITS = 16 };

static void print_attrs(const ls_node *node, ls_text *text) {
  for (uint32_t i = 0; i < node->num_attrs; ++i) {
    const ls_attr *attr = &node->attrs[i];
    if (ls_attr_is_mark(attr) || attr->kind == LS_ATTR_OBJECT ||
        (attr->kind == LS_ATTR_ARRAY &&
         ls_array_size(attr->as.array) > MOST_VALUE))
      continue;
    ls_text_append_format(text, ", %s = ", attr->name);
    ls_print_value(text, attr);
  }
}

// Prints the user's op that a lowered one comes from, with its scopes and
// source line, then the lowered op.
static void print_op(const ls_graph *graph, const ls_node *node,
                     ls_text *text) {
  char user[400];
  ls_graph *made_in = ls_graph_resolve(node->origin.graph);
  ls_node *origin =
      made_in == NULL ? NULL : ls_graph_node(made_in, node->origin.id);
  if (origin == NULL) made_in = (ls_graph *)(uintptr_t)graph;
  ls_text_append_format(
      text, "%016llx%s", (unsigned long long)ls_node_identify(node),
      ls_node_describe(made_in,
                       origin != NULL ? origin : (ls_node *)(uintptr_t)node,
                       user, sizeof(user)));
  if (origin != NULL && origin->type != node->type)
    ls_text_append_format(text, ", as %s", ls_node_info(node)->name);
  print_attrs(node, text);
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    ls_text_append_format(
        text, "%s%s", i == 0 ? ": " : ", ",
        LS_SHAPE_TEXT(node->outputs[i].dtype, node->outputs[i].shape));
  ls_text_append_char(text, '\n');
}

ls_status ls_ranks_list_ops(const ls_program *program, char **out_ops) {
  ls_graph_walk walk;
  *out_ops = NULL;
  if (!ls_ranks_share(program)) return ls_ok();
  ls_text text = {.allocator = ls_runtime_allocator(program->runtime)};
  ls_text_append(&text, "");
  for (ls_graph_walk_begin(&walk, program->body); ls_graph_walk_next(&walk);)
    print_op(walk.graph, walk.node, &text);
  *out_ops = ls_text_finish(&text);
  return *out_ops == NULL ? ls_out_of_memory() : ls_ok();
}

// ---- Differences -----------------------------------------------------------
// Returns the line's text without its hash, which is `size` bytes.
static const char *op_text(const char *line, int *out_size) {
  *out_size = (int)strcspn(line, "\n");
  if (*out_size < HASH_DIGITS) {
    *out_size = 0;
    return "";
  }
  *out_size -= HASH_DIGITS;
  return line + HASH_DIGITS;
}

static const char *next_line(const char *line) {
  line += strcspn(line, "\n");
  return *line == '\0' ? line : line + 1;
}

// Names the first op that differs between ranks 0 and `rank`.
static ls_status describe_programs(const char *verb, int32_t rank,
                                   const char *a, const char *b) {
  size_t at = 0;
  for (; *a != '\0' && *b != '\0' && strncmp(a, b, HASH_DIGITS) == 0; ++at) {
    a = next_line(a);
    b = next_line(b);
  }
  if (*a == '\0' && *b == '\0')
    return ls_failed_precondition(
        "ranks 0 and %d %s another program: the same ops, with other results",
        rank, verb);
  int sizes[2];
  const char *texts[2] = {op_text(a, &sizes[0]), op_text(b, &sizes[1])};
  for (int i = 0; i < 2; ++i)
    if (sizes[i] == 0) {
      texts[i] = "the end";
      sizes[i] = (int)strlen(texts[i]);
    }
  return ls_failed_precondition(
      "ranks 0 and %d %s another program; op %zu is the first to differ:\non "
      "rank 0 %.*s\non rank %d %.*s",
      rank, verb, at, sizes[0], texts[0], rank, sizes[1], texts[1]);
}

// ---- The exchange ----------------------------------------------------------
// A program that a rank is about to run, and its run.
typedef struct comparison {
  ls_backend *backend;
  const char *name;  // Name of the function or graph.
  const char *ops;
  uint64_t program[2];  // Fingerprint.
  uint64_t seed, step;  // Zero if the program draws nothing.
  int32_t replicas;
} comparison;

// Compares, as number `number` of a strategy.
static ls_status compare(const comparison *self, uint64_t strategy,
                         uint64_t number) {
  ls_runtime *runtime = self->backend->runtime;
  // Replicas as lanes exchange other pieces than replicas as one batch.
  const bool is_laned = ls_debug_lanes(runtime) != LS_LANES_TOGETHER;
  char verb[100];
  LS_OWN(ls_ranks, ranks) = {0};
  LS_RETURN_IF_ERROR(
      ls_ranks_init(&ranks, runtime, "the programs of ranks", strategy));
  ranks.name.iteration = number;
  snprintf(verb, sizeof(verb), "run '%.64s' with", self->name);
  LS_OWN(ls_text, facts) = {.allocator = ls_runtime_allocator(runtime)};
  ls_text_append_format(
      &facts,
      "arithmetic: '%s%s'\nnumber of replicas: %d\nseed: %llu\nstep: %llu\n"
      "program: %016llx%016llx\n",
      is_laned ? "lanes, " : "",
      self->backend->vtable->numerics_id(self->backend), self->replicas,
      (unsigned long long)self->seed, (unsigned long long)self->step,
      (unsigned long long)self->program[0],
      (unsigned long long)self->program[1]);
  return ls_ranks_compare(&ranks, ls_ok(),
                          &(ls_rank_facts){.verb = verb,
                                           .text = &facts,
                                           .details = self->ops,
                                           .describe = describe_programs});
}

// ---- Which programs have been compared -------------------------------------
typedef struct compared_key {
  uint64_t program[2], strategy, seed;
} compared_key;

// Notes that the program will be compared, and numbers the comparison. Requires
// the runtime's lock.
static ls_status note_compared(ls_runtime_state *state, const compared_key *key,
                               bool *out_is_new, uint64_t *out_number) {
  *out_is_new = !ls_map_has(&state->compared, key, sizeof(*key));
  if (!*out_is_new) return ls_ok();
  *out_number =
      (uint64_t)(uintptr_t)ls_map_find_u64(&state->comparisons, key->strategy);
  if (!ls_map_insert_u64(&state->comparisons, key->strategy,
                         (void *)(uintptr_t)(*out_number + 1)) ||
      !ls_map_insert(&state->compared, key, sizeof(*key), NULL))
    return ls_out_of_memory();
  return ls_ok();
}

static bool was_compared(ls_runtime *runtime, const compared_key *key) {
  const ls_runtime_state *state = ls_runtime_slot(runtime, LS_SLOT_RUNTIME);
  return LS_RUNTIME_LOCKED(runtime,
                           state != NULL &&
                               ls_map_has(&state->compared, key, sizeof(*key)));
}

// A program whose comparison failed is compared again: the failure of the
// communicator stays.
static void forget_compared(ls_runtime_state *state, const compared_key *key) {
  ls_runtime_lock(state->runtime);
  ls_map_remove(&state->compared, key, sizeof(*key));
  ls_runtime_unlock(state->runtime);
}

static ls_status compare_new(const comparison *self, ls_runtime_state *state,
                             const compared_key *key) {
  bool is_new = false;
  uint64_t number = 0;
  ls_status status = LS_RUNTIME_LOCKED(
      state->runtime, note_compared(state, key, &is_new, &number));
  LS_RETURN_IF_ERROR(status);
  if (!is_new) return ls_ok();
  const int64_t began = ls_runtime_now(state->runtime);
  status = compare(self, key->strategy, number);
  ls_wait_end(state->runtime, LS_WAIT_RANKS, began);
  if (!ls_status_is_ok(status)) forget_compared(state, key);
  return status;
}

// Compares, unless that was done. Any failure is told to all ranks.
static ls_status compare_once(const comparison *self, const compared_key *key) {
  ls_runtime *runtime = self->backend->runtime;
  ls_communicator *communicator = ls_runtime_communicator(runtime);
  ls_runtime_state *state = NULL;
  ls_status status = ls_runtime_state_get(runtime, &state);
  if (ls_status_is_ok(status)) status = compare_new(self, state, key);
  if (!ls_status_is_ok(status)) communicator->cancel(communicator, status);
  return status;
}

// ---- Programs --------------------------------------------------------------
// Returns true if the program was last compared with this seed.
static bool has_met(const ls_compiled *compiled, uint64_t seed) {
  return __atomic_load_n(&compiled->was_compared, __ATOMIC_ACQUIRE) &&
         __atomic_load_n(&compiled->compared, __ATOMIC_RELAXED) == seed;
}

// Finds the count of a program's runs; NULL without memory. Requires the
// runtime's lock. The count outlives the compiled program, which a rank may
// keep for longer than others do.
static uint64_t *find_runs(ls_runtime *runtime, const compared_key *key) {
  ls_runtime_state *state = ls_runtime_slot(runtime, LS_SLOT_RUNTIME);
  uint64_t *runs = ls_map_find(&state->runs, key, sizeof(*key));
  if (runs != NULL) return runs;
  runs = ls_new_array(state->allocator, uint64_t, 1);
  if (runs != NULL && ls_map_insert(&state->runs, key, sizeof(*key), runs))
    return runs;
  ls_release(state->allocator, runs);
  return NULL;
}

ls_status ls_ranks_meet(ls_compiled *compiled, const ls_run_args *args) {
  const ls_program *program = compiled->program;
  const uint64_t *id = program->fingerprint;
  const compared_key key = {.program = {id[0], id[1]},
                            .strategy = program->strategy,
                            .seed = compiled->draws ? args->seed : 0};
  if (has_met(compiled, key.seed)) return ls_ok();
  LS_RETURN_IF_ERROR(
      compare_once(&(comparison){.backend = compiled->backend,
                                 .name = program->body->name,
                                 .ops = compiled->ops,
                                 .program = {id[0], id[1]},
                                 .replicas = program->replicas,
                                 .seed = key.seed,
                                 .step = compiled->draws ? args->step : 0},
                   &key));
  uint64_t *runs =
      LS_RUNTIME_LOCKED(program->runtime, find_runs(program->runtime, &key));
  LS_RETURN_IF_NO_MEMORY(runs);
  __atomic_store_n(&compiled->runs, runs, __ATOMIC_RELAXED);
  __atomic_store_n(&compiled->compared, key.seed, __ATOMIC_RELAXED);
  __atomic_store_n(&compiled->was_compared, true, __ATOMIC_RELEASE);
  return ls_ok();
}

void ls_ranks_number(const ls_compiled *compiled, ls_run_args *args) {
  uint64_t *runs = __atomic_load_n(&compiled->runs, __ATOMIC_RELAXED);
  // Steps also count a rank's own runs, unless random numbers must be equal.
  args->number = compiled->draws
                     ? args->step
                     : __atomic_fetch_add(runs, 1, __ATOMIC_RELAXED);
}

void ls_ranks_tell(ls_runtime *runtime, ls_status status) {
  const ls_code code = ls_status_code(status);
  ls_communicator *communicator = ls_runtime_communicator(runtime);
  if (communicator != NULL && code != LS_OK && code != LS_INVALID_ARGUMENT &&
      code != LS_FAILED_PRECONDITION && code != LS_UNIMPLEMENTED &&
      code != LS_OUT_OF_RANGE)
    communicator->cancel(communicator, status);
}

// ---- Ops that ran one by one -----------------------------------------------
// Returns the value of a small constant of numbers; NULL: it is none, or
// another replica's value, which only its rank knows.
static const ls_array *constant_of(const ls_node *node) {
  const ls_array *value = node->type == LS_OP_CONSTANT && node->values != NULL
                              ? node->values[0]
                              : NULL;
  return value == NULL || ls_array_is_absent(value) ||
                 ls_dtype_owns_elements(ls_array_dtype(value)) ||
                 ls_array_size(value) > MOST_VALUE
             ? NULL
             : value;
}

// Adds an op that has run: its type, its results' types and, with `numbers`,
// the number of a constant. Its operands are gone.
static void add_eager_op(ls_digest *d, const ls_node *node, bool numbers) {
  ls_digest_add_u64(d, node->type);
  for (uint32_t i = 0; i < node->num_outputs; ++i)
    ls_digest_add_text(
        d, LS_SHAPE_TEXT(node->outputs[i].dtype, node->outputs[i].shape));
  const ls_array *value = constant_of(node);
  if (numbers && value != NULL)
    ls_digest_add(d, ls_array_data(value), ls_array_size(value));
}

static void print_eager_op(ls_graph *graph, ls_node *node, ls_text *text) {
  char described[400];
  ls_digest d;
  uint64_t hash[2];
  ls_digest_begin(&d);
  add_eager_op(&d, node, true);
  ls_digest_end(&d, hash);
  ls_text_append_format(
      text, "%016llx%s", (unsigned long long)hash[0],
      ls_node_describe(graph, node, described, sizeof(described)));
  const ls_array *value = constant_of(node);
  for (int64_t i = 0; value != NULL && i < ls_array_num_elements(value); ++i)
    ls_text_append_format(text, "%s%.9g", i == 0 ? ", value = " : ", ",
                          ls_array_f64(value, i));
  ls_text_append_char(text, '\n');
}

ls_status ls_ranks_meet_eager(ls_graph *graph, uint64_t first_id,
                              uint64_t strategy, int32_t replicas) {
  const ls_communicator *communicator = ls_runtime_communicator(graph->runtime);
  comparison self = {.replicas = replicas,
                     .name = "a call of replicas op by op"};
  if (communicator == NULL || communicator->ranks < 2) return ls_ok();
  LS_RETURN_IF_ERROR(ls_runtime_backend(graph->runtime, &self.backend));
  size_t first = graph->num_nodes;
  while (first > 0 && graph->nodes[first - 1]->id >= first_id)
    --first;
  compared_key key = {.strategy = strategy, .seed = UINT64_MAX};
  ls_digest d;
  ls_digest_begin(&d);
  for (size_t i = first; i < graph->num_nodes; ++i)
    add_eager_op(&d, graph->nodes[i], false);
  ls_digest_end(&d, key.program);
  if (was_compared(graph->runtime, &key)) return ls_ok();
  LS_OWN(ls_text, text) = {.allocator = graph->allocator};
  for (size_t i = first; i < graph->num_nodes; ++i)
    print_eager_op(graph, graph->nodes[i], &text);
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  ls_digest_begin(&d);
  ls_digest_add_text(&d, ls_text_data(&text));
  ls_digest_end(&d, self.program);
  self.ops = ls_text_data(&text);
  return compare_once(&self, &key);
}
