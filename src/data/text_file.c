// SPDX-License-Identifier: Apache-2.0
// Files as a text of bytes, cut into pieces.
#include "base/memory/own.h"
#include "base/plain.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "lockstep/data.h"
#include "lockstep/element_spec.h"

enum { LENGTH = 128, CLASSES = 256 };  // Defaults.

// A part of the pieces: `count` of them from number `first`.
typedef struct pieces {
  int64_t length, first, count;
} pieces;

// Chooses the pieces: the last tenth, at least one piece, is for tests.
static ls_status text_file_choose(const char *path, size_t size,
                                  const ls_text_options *options, pieces *out) {
  const int64_t length = options->length;
  // The last byte is only a label.
  const int64_t total = size > 0 ? ((int64_t)size - 1) / length : 0;
  if (options->whole && total < 1)
    return ls_invalid_argument(
        "'%s' has %zu bytes: a piece of %lld and the byte after it need %lld; "
        "choose a longer text or a shorter length",
        path, size, (long long)length, (long long)(length + 1));
  if (!options->whole && total < 2)
    return ls_invalid_argument(
        "'%s' has %zu bytes: two pieces of %lld, one to train and one to test "
        "on, need at least %lld; choose a longer text or a shorter length",
        path, size, (long long)length, (long long)(2 * length + 1));
  const int64_t tests = options->whole ? 0 : total < 10 ? 1 : total / 10;
  *out = options->test ? (pieces){length, total - tests, tests}
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

static ls_status refuse_byte(const char *path, const char *text, size_t offset,
                             int64_t num_classes) {
  return ls_invalid_argument(
      "byte %zu of '%s', counted from 0, is %d: the model has %lld classes, "
      "so its texts have bytes below that",
      offset, path, (unsigned char)text[offset], (long long)num_classes);
}

// Appends the bytes of a file.
static ls_status read_file(const ls_file_system *files, const char *path,
                           int64_t num_classes, ls_text *text) {
  size_t size = 0;
  LS_OWN_MEMORY(text->allocator, char, bytes) = NULL;
  LS_RETURN_IF_ERROR(
      files->read(files->user, path, SIZE_MAX, text->allocator, &bytes, &size));
  for (size_t i = 0; num_classes < CLASSES && i < size; ++i)
    if ((unsigned char)bytes[i] >= num_classes)
      return refuse_byte(path, bytes, i, num_classes);
  if (text->size > 0) {
    ls_text_append_bytes(text, bytes, size);
  } else {
    ls_text_deinit(text);
    *text = (ls_text){text->allocator, ls_give(&bytes), size, size + 1, false};
  }
  return ls_text_status(text);
}

static ls_status open_text(const char *const *paths, size_t num_paths,
                           const ls_text_options *options,
                           text_file **out_file) {
  if (options->length < 1 || options->length > INT32_MAX)
    return ls_invalid_argument(
        "a piece of a text must have from 1 to %d bytes, got %lld", INT32_MAX,
        (long long)options->length);
  if (options->whole && options->test)
    return ls_invalid_argument("a whole text has no part to test on");
  if (num_paths == 0)
    return ls_invalid_argument("a text needs the path of a file");
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_OWN_NEW_OR_RETURN(allocator, text_file, self);
  LS_OWN(ls_text, text) = {0};
  ls_text_init(&text, allocator);
  self->allocator = allocator;
  for (size_t i = 0; i < num_paths; ++i)
    LS_RETURN_IF_ERROR(read_file(ls_runtime_files(runtime), paths[i],
                                 options->num_classes, &text));
  const size_t size = text.size;
  self->hash = ls_hash(text.data, size, 0);
  self->text = ls_text_finish(&text);
  const ls_status status =
      text_file_choose(paths[0], size, options, &self->part);
  if (!ls_status_is_ok(status) && num_paths > 1)
    return ls_status_annotate(status, "it is the first of %zu files",
                              num_paths);
  LS_RETURN_IF_ERROR(status);
  return ls_hand_over(&self, out_file);
}

static ls_status refuse_null(const char *const *paths, size_t num_paths) {
  if (paths == NULL && num_paths > 0)
    return ls_null_argument("ls_dataset_texts", "paths");
  for (size_t i = 0; i < num_paths; ++i)
    if (paths[i] == NULL) return ls_null_argument("ls_dataset_texts", "path");
  return ls_ok();
}

ls_dataset *ls_dataset_texts(const char *const *paths, size_t num_paths,
                             const ls_text_options *options) {
  ls_text_options opts = options != NULL ? *options : (ls_text_options){0};
  text_file *file = NULL;
  if (opts.length == 0) opts.length = LENGTH;
  if (opts.num_classes == 0) opts.num_classes = CLASSES;
  ls_status status = refuse_null(paths, num_paths);
  if (ls_status_is_ok(status))
    status = open_text(paths, num_paths, &opts, &file);
  if (!ls_status_is_ok(status)) return ls_dataset_from_arrays(ls_fail(status));
  const ls_nest piece = ls_nest_spec(LS_DTYPE_U8, LS_SHAPE(file->part.length));
  // The description includes the contents' hash and where a later part begins,
  // since equal descriptions count as the same data.
  char name[60], from[30] = "";
  if (file->part.first > 0)
    ls_format(from, sizeof(from), " from %lld", (long long)file->part.first);
  ls_format(name, sizeof(name), "text %016llx%s",
            (unsigned long long)file->hash, from);
  return ls_dataset_from_function(
      &(ls_index_options){.name = name,
                          .size = file->part.count,
                          .element = LS_TUPLE(ls_nest_retain(piece), piece),
                          .get = get_piece,
                          .user = file,
                          .release = release_text});
}

ls_dataset *ls_dataset_text(const char *path, const ls_text_options *options) {
  if (path == NULL)
    return ls_dataset_from_arrays(
        ls_fail(ls_null_argument("ls_dataset_text", "path")));
  return ls_dataset_texts(&path, 1, options);
}
