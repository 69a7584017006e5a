// SPDX-License-Identifier: Apache-2.0
// A file as a text of bytes, cut in pieces.
#include "base/require.h"
#include "base/runtime_internal.h"
#include "lockstep/data.h"

static const int64_t default_length = 128;

// The pieces of a part: `count` of them from number `first`.
typedef struct pieces {
  int64_t length, first, count;
} pieces;

// The last tenth of the pieces is to test on, and at least one.
static ls_status choose(const char *path, size_t size, int64_t length,
                        bool test, pieces *out) {
  // The last byte is a label only.
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

static ls_status cut(const char *text, const pieces *part,
                     ls_examples **out_dataset) {
  const ls_shape shape = LS_SHAPE(part->count, part->length);
  const char *from = text + part->first * part->length;
  ls_array *examples = NULL, *labels = NULL;
  ls_status status = ls_ok();
  LS_GOTO_IF_ERROR(done, status,
                   ls_array_create_copy(LS_DTYPE_U8, shape, from, &examples));
  LS_GOTO_IF_ERROR(done, status,
                   ls_array_create_copy(LS_DTYPE_U8, shape, from + 1, &labels));
  status = ls_examples_create(examples, labels, out_dataset);
done:
  ls_array_release(examples);
  ls_array_release(labels);
  return status;
}

ls_status ls_examples_text(const char *path, const ls_text_options *options,
                           ls_examples **out_dataset) {
  LS_REQUIRE(path);
  LS_REQUIRE(out_dataset);
  *out_dataset = NULL;
  const ls_text_options opts =
      options != NULL ? *options : (ls_text_options){0};
  const int64_t length = opts.length != 0 ? opts.length : default_length;
  if (length < 1 || length > INT32_MAX)
    return ls_invalid_argument(
        "a piece of a text must have from 1 to %d bytes, got %lld", INT32_MAX,
        (long long)length);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  const ls_file_system *files = ls_runtime_files(runtime);
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  char *text = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(
      files->read(files->user, path, SIZE_MAX, allocator, &text, &size));
  pieces part = {0};
  ls_status status = choose(path, size, length, opts.test, &part);
  if (ls_status_is_ok(status)) status = cut(text, &part, out_dataset);
  ls_release(allocator, text);
  return status;
}
