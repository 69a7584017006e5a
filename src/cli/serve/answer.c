// SPDX-License-Identifier: Apache-2.0
// Outputs of a run as the body of an answer, and texts in memory.
#define _GNU_SOURCE
#include <string.h>

#include "cli/data/data.h"
#include "cli/serve/serve.h"
#include "lockstep/files.h"

// ---- Texts in memory -------------------------------------------------------
bool cli_buffer_append(cli_buffer *buffer, const void *data, size_t size) {
  if (buffer->failed) return false;
  if (size > buffer->capacity - buffer->size) {
    const size_t capacity = 2 * (buffer->size + size) + 256;
    char *grown = cli_allocate(capacity);
    buffer->failed = grown == NULL;
    if (buffer->failed) return false;
    if (buffer->size > 0) memcpy(grown, buffer->data, buffer->size);
    cli_release(buffer->data);
    buffer->data = grown;
    buffer->capacity = capacity;
  }
  if (size > 0) memcpy(buffer->data + buffer->size, data, size);
  buffer->size += size;
  return true;
}

static ssize_t write_buffer(void *user, const char *data, size_t size) {
  return cli_buffer_append(user, data, size) ? (ssize_t)size : 0;
}

FILE *cli_buffer_open(cli_buffer *buffer) {
  return fopencookie(buffer, "w",
                     (cookie_io_functions_t){.write = write_buffer});
}

// ---- JSON ------------------------------------------------------------------
// Returns true if rows have names of classes, beside the outputs.
static bool has_names(const cli_request *request, ls_nest outputs) {
  const bool has_labels =
      ls_nest_find(outputs, "probability").kind != LS_KIND_NONE;
  return request->signature->model->classes != NULL &&
         (ls_nest_count(outputs) > 1 || has_labels);
}

// Writes row `row` (-1: all rows) of each output, or the row alone if there is
// one output without names.
static void write_row(FILE *to, const cli_request *request, ls_nest outputs,
                      int64_t row) {
  const size_t count = ls_nest_count(outputs);
  const bool is_object = count > 1 || has_names(request, outputs);
  for (size_t i = 0; i < count; ++i) {
    const char *key = ls_nest_key(outputs, i);
    if (is_object) {
      putc(i == 0 ? '{' : ',', to);
      cli_write_json(to, key, strlen(key));
      putc(':', to);
    }
    if (row < 0)
      cli_write_values(to, ls_nest_item(outputs, i));
    else
      cli_write_row(to, ls_nest_as_array(ls_nest_item(outputs, i)), row);
  }
  if (!is_object) return;
  cli_write_names(to, request->signature->model->classes, outputs, row);
  putc('}', to);
}

static ls_status write_rows(FILE *to, const cli_request *request,
                            ls_nest outputs) {
  for (size_t i = 0; i < ls_nest_count(outputs); ++i) {
    const ls_array *array = ls_nest_as_array(ls_nest_item(outputs, i));
    const ls_shape shape = ls_array_shape(array);
    if (shape.rank == 0 || shape.dim[0] != request->rows)
      return ls_invalid_argument(
          "output '%s' is %s, which has no row for each instance: send "
          "\"inputs\" instead of \"instances\"",
          ls_nest_key(outputs, i), LS_SHAPE_TEXT(ls_array_dtype(array), shape));
  }
  fputs("{\"predictions\":[", to);
  for (int64_t row = 0; row < request->rows; ++row) {
    if (row > 0) putc(',', to);
    write_row(to, request, outputs, row);
  }
  fputs("]}\n", to);
  return ls_ok();
}

ls_status cli_answer_json(FILE *to, const cli_request *request,
                          ls_nest outputs) {
  if (!request->columns) return write_rows(to, request, outputs);
  fputs("{\"outputs\":", to);
  write_row(to, request, outputs, -1);
  fputs("}\n", to);
  return ls_ok();
}

// ---- npy -------------------------------------------------------------------
ls_status cli_answer_npy(const cli_request *request, ls_nest outputs,
                         const char *name, ls_array **out_bytes) {
  *out_bytes = NULL;
  const ls_nest output = name != NULL ? ls_nest_find(outputs, name)
                         : ls_nest_count(outputs) == 1
                             ? ls_nest_item(outputs, 0)
                             : ls_none();
  const ls_array *array = ls_nest_as_array(output);
  if (array == NULL)
    return ls_invalid_argument(
        "an npy file has one array, and signature '%s' has %zu outputs: add "
        "?output=NAME to the address, '%s' for instance",
        request->signature->info.key, ls_nest_count(outputs),
        ls_nest_key(outputs, 0));
  return ls_npy_print(array, out_bytes);
}
