// SPDX-License-Identifier: Apache-2.0
#include "train/folder/saves.h"

#include <stdio.h>

#include "base/memory/own.h"
#include "data/dataset.h"
#include "graph/compare/compare.h"
#include "lockstep/function_plan.h"
#include "runtime/function.h"

// ---- Data ------------------------------------------------------------------
// Limits of hashed files: up to WHOLE bytes a file is read entirely; of a
// longer one PIECES pieces, including the first and the last.
enum { WHOLE = 1 << 24, PIECE = 1 << 16, PIECES = 64, MOST_FILES = 64 };

typedef struct reading {
  const ls_file_system *files;
  void *file;
  char *piece;
  uint64_t hash;
} reading;

static ls_status add_piece(reading *self, int64_t offset) {
  size_t size = 0;
  LS_RETURN_IF_ERROR(self->files->read_at(self->files->user, self->file, offset,
                                          self->piece, PIECE, &size));
  self->hash = ls_hash(self->piece, size, self->hash);
  return ls_ok();
}

static ls_status add_bytes(reading *self, int64_t size) {
  const int64_t pieces = size <= WHOLE ? (size + PIECE - 1) / PIECE : PIECES;
  self->hash = ls_hash(&size, sizeof(size), self->hash);
  for (int64_t i = 0; i < pieces; ++i)
    LS_RETURN_IF_ERROR(add_piece(
        self, size <= WHOLE ? i * PIECE : (size - PIECE) * i / (PIECES - 1)));
  return ls_ok();
}

static ls_status add_file(reading *self, const char *path) {
  ls_file_info info = {0};
  if (self->files->open == NULL || self->files->read_at == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(
      self->files->open(self->files->user, path, &self->file, &info));
  const ls_status status = add_bytes(self, info.size);
  self->files->close(self->files->user, self->file);
  return status;
}

// Hashes some files of a data set with one file per element, spread from the
// first to the last.
static ls_status add_elements(reading *self, const ls_dataset *dataset) {
  const int64_t size = dataset->size;
  const int64_t files = size < MOST_FILES ? size : MOST_FILES;
  LS_OWN(ls_text, path) = {.allocator = dataset->allocator};
  for (int64_t i = 0; i < files; ++i) {
    const int64_t index =
        files < MOST_FILES ? i : i * (size - 1) / (MOST_FILES - 1);
    ls_text_clear(&path);
    dataset->kind->file_of(dataset, index, &path);
    LS_RETURN_IF_ERROR(ls_text_status(&path));
    LS_RETURN_IF_ERROR(add_file(self, ls_text_data(&path)));
  }
  return ls_ok();
}

static ls_status add_files(reading *self, const ls_dataset *dataset) {
  for (size_t i = 0; i < dataset->num_inputs; ++i)
    LS_RETURN_IF_ERROR(add_files(self, dataset->inputs[i]));
  const ls_dataset_class *kind = dataset->kind;
  const size_t count = kind->num_files == NULL ? 0 : kind->num_files(dataset);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(add_file(self, kind->file(dataset, i)));
  return kind->file_of != NULL ? add_elements(self, dataset) : ls_ok();
}

ls_status ls_train_identify_data(ls_runtime *runtime, const ls_dataset *dataset,
                                 uint64_t *out_contents) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_OWN_MEMORY(allocator, char, piece) = ls_allocate(allocator, PIECE);
  LS_RETURN_IF_NO_MEMORY(piece);
  LS_OWN(ls_text, text) = {.allocator = allocator};
  ls_dataset_describe(dataset, &text);
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  reading contents = {.files = ls_runtime_files(runtime),
                      .piece = piece,
                      .hash = ls_hash(ls_text_data(&text), text.size, 0)};
  const ls_status status = add_files(&contents, dataset);
  *out_contents = contents.hash;
  return status;
}

// ---- Programs --------------------------------------------------------------
// Prints the identities of a graph with and without its constants.
static ls_status print_identities(const ls_graph *graph, char all[33],
                                  char ops[33]) {
  for (int i = 0; i < 2; ++i) {
    uint64_t identity[2];
    LS_RETURN_IF_ERROR(ls_graph_identify_values(graph, i == 0, identity));
    snprintf(i == 0 ? all : ops, 33, "%016llx%016llx",
             (unsigned long long)identity[0], (unsigned long long)identity[1]);
  }
  return ls_ok();
}

static ls_status identify_lowered(ls_compiled *compiled, ls_store *store,
                                  void *user) {
  ls_program_identity *out = user;
  (void)store;
  return print_identities(ls_compiled_program(compiled)->body, out->lowered,
                          out->lowered_ops);
}

ls_status ls_train_identify_program(const ls_function *function,
                                    ls_program_identity *out) {
  ls_program_identity made = {.all = ""};
  LS_RETURN_IF_ERROR(
      print_identities(ls_function_graph(function), made.all, made.ops));
  // Without a lowered program, identifies only the graph as built.
  const ls_status status = ls_function_look(function, identify_lowered, &made);
  if (ls_status_code(status) == LS_RESOURCE_EXHAUSTED) return status;
  ls_status_free(status);
  *out = made;
  return ls_ok();
}
