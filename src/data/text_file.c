// SPDX-License-Identifier: Apache-2.0
// A file as a text of bytes, cut into pieces.
#include "base/memory/own.h"
#include "base/plain.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "lockstep/data.h"
#include "lockstep/element_spec.h"

static const int64_t default_length = 128;

// A part of the pieces: `count` of them from number `first`.
typedef struct pieces {
  int64_t length, first, count;
} pieces;

// Chooses the pieces: the last tenth, at least one piece, is for tests.
static ls_status text_file_choose(const char *path, size_t size, int64_t length,
                                  bool test, pieces *out) {
  // The last byte is only a label.
  const int64_t total = size > 0 ? ((int64_t)size - 1) / length : 0;
  if (total < 2)
    return ls_invalid_argument(
        "'%s' has %zu bytes: two pieces of %lld, one to train and one to test "
        "on, need at least %lld; choose a longer text or a shorter length",
        path, size, (long long)length, (long long)(2 * length + 1));
  const int64_t tests = total < 10 ? 1 : total / 10;
  *out = test ? (pieces){length, total - tests, tests}
              : (pieces){length, 0, total - tests};
  return ls_ok();
}

// ---- Pieces ----------------------------------------------------------------
typedef struct text_file {
  ls_allocator *allocator;
  char *text;
  uint64_t hash;  // Hash of the text.
  pieces part;
} text_file;

static void release_text(void *user) {
  text_file *self = user;
  ls_release(self->allocator, self->text);
  ls_release(self->allocator, self);
}

LS_OWNED_POINTER(text_file, release_text)

static ls_status get_piece(void *user, int64_t index, ls_nest out) {
  const text_file *self = user;
  const size_t length = (size_t)self->part.length;
  const char *from = self->text + (size_t)(self->part.first + index) * length;
  memcpy(ls_nest_data(out, 0), from, length);
  memcpy(ls_nest_data(out, 1), from + 1, length);
  return ls_ok();
}

static ls_status open_text(const char *path, const ls_text_options *options,
                           text_file **out_file) {
  const int64_t length =
      options->length != 0 ? options->length : default_length;
  if (length < 1 || length > INT32_MAX)
    return ls_invalid_argument(
        "a piece of a text must have from 1 to %d bytes, got %lld", INT32_MAX,
        (long long)length);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  const ls_file_system *files = ls_runtime_files(runtime);
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_OWN_NEW_OR_RETURN(allocator, text_file, self);
  self->allocator = allocator;
  size_t size = 0;
  LS_RETURN_IF_ERROR(
      files->read(files->user, path, SIZE_MAX, allocator, &self->text, &size));
  self->hash = ls_hash(self->text, size, 0);
  LS_RETURN_IF_ERROR(
      text_file_choose(path, size, length, options->test, &self->part));
  *out_file = ls_give(&self);
  return ls_ok();
}

ls_dataset *ls_dataset_text(const char *path, const ls_text_options *options) {
  const ls_text_options none = {0};
  text_file *file = NULL;
  const ls_status status =
      path == NULL ? ls_null_argument("ls_dataset_text", "path")
                   : open_text(path, options != NULL ? options : &none, &file);
  if (!ls_status_is_ok(status)) return ls_dataset_from_arrays(ls_fail(status));
  const ls_nest piece = ls_nest_spec(LS_DTYPE_U8, LS_SHAPE(file->part.length));
  // The description includes the contents' hash, since equal descriptions count
  // as the same data.
  char name[40];
  ls_format(name, sizeof(name), "text %016llx", (unsigned long long)file->hash);
  return ls_dataset_from_function(
      &(ls_index_options){.name = name,
                          .size = file->part.count,
                          .element = LS_TUPLE(ls_nest_retain(piece), piece),
                          .get = get_piece,
                          .user = file,
                          .release = release_text});
}
