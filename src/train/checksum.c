// SPDX-License-Identifier: Apache-2.0
// Checksums of a run's variables, hashed where they are, in pieces that the
// threads share.
#include "runtime/program.h"
#include "state/checkpoint_file.h"
#include "train/folder/saves.h"
#include "train/ranks.h"

enum { PIECE = 1 << 15, LEAST_SHARED = 1 << 18 };

// Variables, and the hashes of their pieces, in order.
typedef struct summing {
  const ls_many *values;
  uint64_t *sums;
} summing;

static int64_t pieces_of(const ls_variable *variable) {
  return (int64_t)((ls_type_bytes(variable->type) + PIECE - 1) / PIECE);
}

static uint64_t sum_piece(const char *data, size_t size, size_t at) {
  return ls_hash_large(data != NULL ? data + at : NULL,
                       size - at < PIECE ? size - at : PIECE);
}

// Hashes pieces `begin` to `end`.
static void sum_pieces(void *user, int worker, int64_t begin, int64_t end) {
  const summing *all = user;
  const ls_many *values = all->values;
  int64_t first = 0, last = 0;  // Pieces of a variable.
  (void)worker;
  for (size_t i = 0; i < values->count && first < end; ++i, first = last) {
    const size_t size = ls_type_bytes(values->variables[i]->type);
    last = first + pieces_of(values->variables[i]);
    for (int64_t k = begin > first ? begin : first; k < end && k < last; ++k)
      all->sums[k] =
          sum_piece(values->data[i], size, (size_t)(k - first) * PIECE);
  }
}

// Leaves out variables without a value, and those of which replicas have values
// of their own. Returns the number of the others.
static size_t select_summed(const ls_store *store,
                            ls_variable *const *variables, size_t count,
                            ls_variable **out) {
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i)
    if (ls_state_parts(store, variables[i]) == 0 &&
        variables[i]->num_targets == 0 &&
        ls_store_has_value(store, variables[i]))
      out[kept++] = variables[i];
  return kept;
}

// Prints a line about each variable.
static void print_sums(const summing *all, int64_t step, ls_text *text) {
  const uint64_t *sums = all->sums;
  for (size_t i = 0; i < all->values->count; ++i) {
    const ls_variable *variable = all->values->variables[i];
    const size_t pieces = (size_t)pieces_of(variable);
    ls_text_append_format(
        text, "value of variable '%s' at step %lld: %016llx\n", variable->name,
        (long long)step,
        (unsigned long long)ls_hash(sums, pieces * sizeof(*sums), 0));
    sums += pieces;
  }
}

ls_status ls_variables_sum(ls_runtime *runtime, ls_store *store,
                           ls_variable *const *variables, size_t count,
                           int64_t step, ls_text *text, uint64_t *out_sum) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  ls_workers *workers = NULL;
  ls_many values;
  int64_t pieces = 0;
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_variable *, summed, count + 1);
  LS_RETURN_IF_ERROR(ls_runtime_workers(runtime, &workers));
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(ls_variable_settle(variables[i]));
  count = select_summed(store, variables, count, summed);
  for (size_t i = 0; i < count; ++i)
    pieces += pieces_of(summed[i]);
  LS_OWN_ARRAY_OR_RETURN(allocator, uint64_t, sums, (size_t)pieces + 1);
  LS_RETURN_IF_ERROR(ls_many_enter(store, summed, count, false, &values));
  summing all = {&values, sums};
  ls_workers_share_or_run(pieces * PIECE >= LEAST_SHARED ? workers : NULL,
                          sum_pieces, &all, pieces);
  ls_text_clear(text);
  print_sums(&all, step, text);
  ls_many_leave(&values, false);
  *out_sum = ls_hash(ls_text_data(text), text->size, 0);
  return ls_text_status(text);
}

ls_status ls_train_sum(ls_runtime *runtime, const ls_model *model, int64_t step,
                       ls_text *text, uint64_t *out_sum) {
  ls_runtime_state *state = NULL;
  size_t count = 0;
  LS_OWN_MEMORY(ls_runtime_allocator(runtime), ls_variable *, variables) = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(runtime, &state));
  LS_RETURN_IF_ERROR(
      ls_train_variables(runtime, model, true, &variables, &count));
  return ls_variables_sum(runtime, state->store, variables, count, step, text,
                          out_sum);
}
