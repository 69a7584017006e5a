// SPDX-License-Identifier: Apache-2.0
#include "runtime/ranks.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/runtime_internal.h"
#include "base/trace.h"
#include "base/values/array_internal.h"
#include "base/values/digest.h"
#include "graph/compare/compare.h"
#include "graph/text/text.h"
#include "graph/walk.h"
#include "lockstep/communicator.h"

// How a rank is about to run a program; sent to all others.
typedef struct rank_record {
  uint64_t program[2];  // Fingerprint.
  uint64_t seed, step;  // Zero if the program draws nothing.
  uint64_t ops_size;    // Size of its list of ops.
  int64_t replicas;
  char arithmetic[64];
  char name[64];  // Name of the function or graph.
} rank_record;

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
  ls_text text;
  ls_graph_walk walk;
  *out_ops = NULL;
  if (!ls_ranks_share(program)) return ls_ok();
  ls_text_init(&text, ls_runtime_allocator(program->runtime));
  ls_text_append(&text, "");
  for (ls_graph_walk_begin(&walk, program->body); ls_graph_walk_next(&walk);)
    print_op(walk.graph, walk.node, &text);
  *out_ops = ls_text_finish(&text);
  return *out_ops == NULL ? ls_out_of_memory() : ls_ok();
}

// ---- Differences -----------------------------------------------------------
// Two ranks whose records differ, and their lists of ops.
typedef struct rank_pair {
  int32_t ranks[2];
  char *ops[2];
} rank_pair;

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

// Names the first op that differs.
static ls_status describe_programs(const char *name, const rank_pair *pair) {
  const char *a = pair->ops[0], *b = pair->ops[1];
  size_t at = 0;
  for (; *a != '\0' && *b != '\0' && strncmp(a, b, HASH_DIGITS) == 0; ++at) {
    a = next_line(a);
    b = next_line(b);
  }
  if (*a == '\0' && *b == '\0')
    return ls_failed_precondition(
        "ranks %d and %d have other programs for '%s': the same ops, with "
        "other results",
        pair->ranks[0], pair->ranks[1], name);
  int sizes[2];
  const char *texts[2] = {op_text(a, &sizes[0]), op_text(b, &sizes[1])};
  for (int i = 0; i < 2; ++i)
    if (sizes[i] == 0) {
      texts[i] = "the end";
      sizes[i] = (int)strlen(texts[i]);
    }
  return ls_failed_precondition(
      "ranks %d and %d have other programs for '%s'; op %zu is the first to "
      "differ:\non rank %d %.*s\non rank %d %.*s",
      pair->ranks[0], pair->ranks[1], name, at, pair->ranks[0], sizes[0],
      texts[0], pair->ranks[1], sizes[1], texts[1]);
}

// Compares all but the programs.
static ls_status compare_records(const rank_record *a, const rank_record *b,
                                 int32_t rank) {
  const struct {
    const char *noun;
    int64_t numbers[2];
  } fields[] = {{"numbers of replicas", {a->replicas, b->replicas}},
                {"seeds", {(int64_t)a->seed, (int64_t)b->seed}},
                {"steps", {(int64_t)a->step, (int64_t)b->step}}};
  if (strcmp(a->arithmetic, b->arithmetic) != 0)
    return ls_failed_precondition(
        "rank 0 computes as '%s', rank %d as '%s': they would not stay in "
        "step, or give other bits",
        a->arithmetic, rank, b->arithmetic);
  for (size_t i = 0; i < LS_COUNT_OF(fields); ++i)
    if (fields[i].numbers[0] != fields[i].numbers[1])
      return ls_failed_precondition(
          "ranks 0 and %d run '%s' with other %s: %lld and %lld", rank, a->name,
          fields[i].noun, (long long)fields[i].numbers[0],
          (long long)fields[i].numbers[1]);
  return ls_ok();
}

// ---- The exchange ----------------------------------------------------------
typedef struct comparison {
  ls_communicator *communicator;
  ls_allocator *allocator;
  ls_exchange_name name;
  const char *ops;
  rank_record record;  // This rank's.
} comparison;

// Gets the list of one of two ranks, which all others need too.
static ls_status exchange_ops(comparison *self, rank_pair *pair, int which,
                              size_t size) {
  const int32_t from = pair->ranks[which];
  char *ops = ls_allocate_zeroed(self->allocator, size + 1, 1);
  pair->ops[which] = ops;
  LS_RETURN_IF_NO_MEMORY(ops);
  if (from == self->communicator->rank) memcpy(ops, self->ops, size);
  ++self->name.phase;
  return ls_communicator_broadcast(self->communicator, &self->name, from, ops,
                                   size);
}

static ls_status compare_programs(comparison *self, const rank_record *records,
                                  int32_t rank) {
  rank_pair pair = {.ranks = {0, rank}};
  LS_OWN_FIELD(self->allocator, pair.ops[0]);
  LS_OWN_FIELD(self->allocator, pair.ops[1]);
  for (int i = 0; i < 2; ++i)
    LS_RETURN_IF_ERROR(
        exchange_ops(self, &pair, i, records[pair.ranks[i]].ops_size));
  return describe_programs(records[0].name, &pair);
}

static ls_status compare_all(comparison *self, const rank_record *records) {
  for (int32_t k = 1; k < self->communicator->ranks; ++k) {
    LS_RETURN_IF_ERROR(compare_records(&records[0], &records[k], k));
    if (memcmp(records[0].program, records[k].program,
               sizeof(records[0].program)) != 0)
      return compare_programs(self, records, k);
  }
  return ls_ok();
}

// Fills in what all records have.
static void make_record(comparison *self, ls_backend *backend,
                        const char *name) {
  rank_record *record = &self->record;
  // Replicas as lanes exchange other pieces than replicas as one batch.
  const bool is_laned = ls_debug_lanes(backend->runtime) != LS_LANES_TOGETHER;
  self->communicator = ls_runtime_communicator(backend->runtime);
  self->allocator = ls_runtime_allocator(backend->runtime);
  record->ops_size = strlen(self->ops);
  snprintf(record->arithmetic, sizeof(record->arithmetic), "%s%s",
           is_laned ? "lanes, " : "", backend->vtable->numerics_id(backend));
  snprintf(record->name, sizeof(record->name), "%s", name);
}

static ls_status compare(comparison *self) {
  ls_communicator *communicator = self->communicator;
  LS_OWN_ARRAY_OR_RETURN(self->allocator, rank_record, records,
                         (size_t)communicator->ranks);
  records[communicator->rank] = self->record;
  LS_RETURN_IF_ERROR(ls_communicator_gather(communicator, &self->name, records,
                                            sizeof(*records)));
  const ls_status status = compare_all(self, records);
  if (ls_status_code(status) != LS_FAILED_PRECONDITION) return status;
  // All ranks know the difference before the first one cancels.
  ++self->name.phase;
  ls_status_free(ls_communicator_gather(communicator, &self->name, records, 1));
  return status;
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
  ls_runtime_lock(runtime);
  const bool was =
      state != NULL && ls_map_has(&state->compared, key, sizeof(*key));
  ls_runtime_unlock(runtime);
  return was;
}

// A program whose comparison failed is compared again: the failure of the
// communicator stays.
static void forget_compared(ls_runtime_state *state, const compared_key *key) {
  ls_runtime_lock(state->runtime);
  ls_map_remove(&state->compared, key, sizeof(*key));
  ls_runtime_unlock(state->runtime);
}

static ls_status compare_new(comparison *self, ls_runtime_state *state,
                             const compared_key *key) {
  static const char name[] = "the programs of ranks";
  bool is_new = false;
  self->name = (ls_exchange_name){
      .program = {ls_hash(name, sizeof(name), 0), key->strategy},
      .merge = UINT32_MAX};
  ls_runtime_lock(state->runtime);
  ls_status status = note_compared(state, key, &is_new, &self->name.iteration);
  ls_runtime_unlock(state->runtime);
  LS_RETURN_IF_ERROR(status);
  if (!is_new) return ls_ok();
  const int64_t began = ls_runtime_now(state->runtime);
  status = compare(self);
  ls_wait_end(state->runtime, LS_WAIT_RANKS, began);
  if (!ls_status_is_ok(status)) forget_compared(state, key);
  return status;
}

// Compares, unless that was done. Any failure is told to all ranks.
static ls_status compare_once(comparison *self, ls_runtime *runtime,
                              const compared_key *key) {
  ls_runtime_state *state = NULL;
  ls_status status = ls_runtime_state_get(runtime, &state);
  if (ls_status_is_ok(status)) status = compare_new(self, state, key);
  if (!ls_status_is_ok(status))
    self->communicator->cancel(self->communicator, status);
  return status;
}

// ---- Programs --------------------------------------------------------------
ls_status ls_ranks_meet(ls_compiled *compiled, ls_run_args *args) {
  const ls_program *program = compiled->program;
  const uint64_t seed = compiled->draws ? args->seed : 0;
  // Steps also count runs of a rank's own programs, unless random numbers must
  // be equal.
  args->number = compiled->draws
                     ? args->step
                     : __atomic_fetch_add(&compiled->runs, 1, __ATOMIC_RELAXED);
  if (__atomic_load_n(&compiled->compared, __ATOMIC_RELAXED) == seed + 1)
    return ls_ok();
  const uint64_t *id = program->fingerprint;
  comparison self = {.ops = compiled->ops,
                     .record = {.program = {id[0], id[1]},
                                .replicas = program->replicas,
                                .seed = seed,
                                .step = compiled->draws ? args->step : 0}};
  make_record(&self, compiled->backend, program->body->name);
  LS_RETURN_IF_ERROR(compare_once(&self, program->runtime,
                                  &(compared_key){.program = {id[0], id[1]},
                                                  .strategy = program->strategy,
                                                  .seed = seed}));
  __atomic_store_n(&compiled->compared, seed + 1, __ATOMIC_RELAXED);
  return ls_ok();
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
  ls_backend *backend = NULL;
  if (communicator == NULL || communicator->ranks < 2) return ls_ok();
  LS_RETURN_IF_ERROR(ls_runtime_backend(graph->runtime, &backend));
  size_t first = graph->num_nodes;
  while (first > 0 && graph->nodes[first - 1]->id >= first_id)
    --first;
  compared_key key = {.strategy = strategy, .seed = UINT64_MAX};
  comparison self = {.record = {.replicas = replicas}};
  ls_digest d;
  ls_digest_begin(&d);
  for (size_t i = first; i < graph->num_nodes; ++i)
    add_eager_op(&d, graph->nodes[i], false);
  ls_digest_end(&d, key.program);
  if (was_compared(graph->runtime, &key)) return ls_ok();
  LS_OWN(ls_text, text) = {0};
  ls_text_init(&text, graph->allocator);
  for (size_t i = first; i < graph->num_nodes; ++i)
    print_eager_op(graph, graph->nodes[i], &text);
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  ls_digest_begin(&d);
  ls_digest_add_text(&d, ls_text_data(&text));
  ls_digest_end(&d, self.record.program);
  self.ops = ls_text_data(&text);
  make_record(&self, backend, "a call of replicas op by op");
  return compare_once(&self, graph->runtime, &key);
}
