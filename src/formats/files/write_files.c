// SPDX-License-Identifier: Apache-2.0
// Writes arrays to files that our makers and other programs read.
#include "base/files.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/nest_builder.h"
#include "formats/bytes/example.h"
#include "io/npy.h"
#include "io/zip.h"
#include "lockstep/files.h"

static ls_status no_array(const char *noun, const char *key) {
  return ls_invalid_argument("item '%s' of %s is no array", key, noun);
}

// ---- npy and npz -----------------------------------------------------------
// Appends an array in npy format.
static ls_status print_npy(const ls_array *array, ls_text *text) {
  LS_RETURN_IF_ERROR(
      ls_npy_print_header(ls_array_dtype(array), ls_array_shape(array), text));
  return ls_text_status(text);
}

static ls_status write_npy(const char *path, const ls_array *array) {
  const ls_file_system *files = ls_runtime_files(ls_runtime_current());
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
  LS_RETURN_IF_ERROR(print_npy(array, &text));
  ls_text_append_bytes(&text, ls_array_data(array), ls_array_size(array));
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  return files->write(files->user, path, text.data, text.size);
}

ls_status ls_npy_write(const char *path, const ls_array *array) {
  LS_REQUIRE(path, array);
  return ls_status_annotate(write_npy(path, array), "while writing '%s'", path);
}

static ls_status add_member(ls_zip_writer *writer, const char *key,
                            const ls_array *array, bool packed) {
  if (array == NULL) return no_array("an npz file", key);
  LS_OWN(ls_text, name) = {.allocator = ls_current_allocator()};
  LS_OWN(ls_text, head) = {.allocator = ls_current_allocator()};
  ls_text_append_format(&name, "%s.npy", key);
  LS_RETURN_IF_ERROR(
      ls_status_annotate(print_npy(array, &head), "in array '%s'", key));
  LS_RETURN_IF_ERROR(ls_text_status(&name));
  return ls_status_annotate(ls_zip_add(writer, name.data, packed, head.data,
                                       head.size, ls_array_data(array),
                                       ls_array_size(array)),
                            "in array '%s'", key);
}

static ls_status add_members(ls_zip_writer *writer, ls_nest arrays,
                             bool packed) {
  for (size_t i = 0; i < ls_nest_count(arrays); ++i)
    LS_RETURN_IF_ERROR(add_member(writer, ls_nest_key(arrays, i),
                                  ls_nest_as_array(ls_nest_item(arrays, i)),
                                  packed));
  return ls_ok();
}

ls_status ls_npz_write(const char *path, ls_nest arrays, ls_flag packed) {
  LS_REQUIRE(path);
  LS_RETURN_IF_ERROR(ls_nest_status(arrays));
  if (arrays.kind != LS_KIND_DICT)
    return ls_invalid_argument("npz needs a dict of arrays");
  ls_zip_writer *writer = NULL;
  LS_RETURN_IF_ERROR(ls_zip_writer_open(ls_runtime_current(), path, &writer));
  ls_status status = add_members(writer, arrays, packed == LS_FLAG_ON);
  const bool keep = ls_status_is_ok(status);
  status = ls_status_join(status, ls_zip_writer_close(writer, keep));
  return ls_status_annotate(status, "while writing '%s'", path);
}

// ---- TFRecord --------------------------------------------------------------
enum { WRITE_BUFFER = 256 << 10 };

struct ls_tfrecord_writer {
  ls_allocator *allocator;
  ls_example_builder builder;
  ls_file_writer file;
  size_t size;
  unsigned char buffer[WRITE_BUFFER];
};

ls_status ls_tfrecord_writer_open(const char *path,
                                  ls_tfrecord_writer **out_writer) {
  LS_REQUIRE_OUT(out_writer, path);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_MEMORY(allocator, ls_tfrecord_writer, writer) =
      ls_allocate(allocator, sizeof(*writer));
  LS_RETURN_IF_NO_MEMORY(writer);
  writer->allocator = allocator;
  writer->size = 0;
  ls_example_init(&writer->builder, allocator);
  LS_RETURN_IF_ERROR(
      ls_file_writer_begin(&writer->file, ls_runtime_current(), path));
  return ls_hand_over(&writer, out_writer);
}

static ls_status append_bytes(ls_tfrecord_writer *writer, const void *data,
                              size_t size) {
  if (size > WRITE_BUFFER - writer->size) {
    const size_t held = writer->size;
    writer->size = 0;
    LS_RETURN_IF_ERROR(ls_file_writer_add(&writer->file, writer->buffer, held));
    if (size >= WRITE_BUFFER)
      return ls_file_writer_add(&writer->file, data, size);
  }
  if (size > 0) memcpy(writer->buffer + writer->size, data, size);
  writer->size += size;
  return ls_ok();
}

ls_status ls_tfrecord_writer_write(ls_tfrecord_writer *writer, const void *data,
                                   size_t size) {
  LS_REQUIRE(writer);
  LS_REQUIRE_ITEMS(data, size);
  unsigned char head[LS_TFRECORD_HEAD], foot[LS_TFRECORD_FOOT];
  if (writer->file.failed)
    return ls_failed_precondition(
        "an earlier write of records failed; this file will not be kept");
  ls_tfrecord_frame(data, size, head, foot);
  LS_RETURN_IF_ERROR(append_bytes(writer, head, sizeof(head)));
  LS_RETURN_IF_ERROR(append_bytes(writer, data, size));
  return append_bytes(writer, foot, sizeof(foot));
}

// Adds numbers of other types, converted to the list's type.
static ls_status add_floats(ls_tfrecord_writer *writer, const char *key,
                            const ls_array *array, size_t count) {
  const float *values = ls_array_data(array);
  LS_OWN_MEMORY(writer->allocator, float, made) = NULL;
  if (ls_array_dtype(array) != LS_DTYPE_F32) {
    LS_SET_ARRAY_OR_RETURN(writer->allocator, float, made, count);
    for (size_t i = 0; i < count; ++i)
      made[i] = (float)ls_array_f64(array, (int64_t)i);
    values = made;
  }
  ls_example_add_floats(&writer->builder, key, values, count);
  return ls_ok();
}

static ls_status add_integers(ls_tfrecord_writer *writer, const char *key,
                              const ls_array *array, size_t count) {
  const int64_t *values = ls_array_data(array);
  LS_OWN_MEMORY(writer->allocator, int64_t, made) = NULL;
  if (ls_array_dtype(array) != LS_DTYPE_I64) {
    LS_SET_ARRAY_OR_RETURN(writer->allocator, int64_t, made, count);
    for (size_t i = 0; i < count; ++i) {
      made[i] = ls_array_i64(array, (int64_t)i);
      if (made[i] < 0 && ls_array_dtype(array) == LS_DTYPE_U64)
        return ls_invalid_argument("feature '%s' has %llu, which is no i64",
                                   key, (unsigned long long)made[i]);
    }
    values = made;
  }
  ls_example_add_ints(&writer->builder, key, values, count);
  return ls_ok();
}

static ls_status add_feature(ls_tfrecord_writer *writer, const char *key,
                             const ls_array *array) {
  if (array == NULL) return no_array("a tf.Example", key);
  const ls_dtype dtype = ls_array_dtype(array);
  const size_t count = (size_t)ls_array_num_elements(array);
  if (dtype == LS_DTYPE_STRING) {
    ls_example_add_bytes(&writer->builder, key, ls_array_data(array), count);
    return ls_ok();
  }
  if (dtype == LS_DTYPE_U8 && ls_array_shape(array).rank > 0) {
    const ls_bytes bytes = {ls_array_data(array), count};
    ls_example_add_bytes(&writer->builder, key, &bytes, 1);
    return ls_ok();
  }
  if (ls_dtype_is_float(dtype)) return add_floats(writer, key, array, count);
  if (ls_dtype_is_integer(dtype) || dtype == LS_DTYPE_BOOL)
    return add_integers(writer, key, array, count);
  return ls_invalid_argument("feature '%s' as %s: floats, integers, bool and "
                             "strings are written",
                             key, ls_dtype_name(dtype));
}

ls_status ls_tfrecord_writer_write_example(ls_tfrecord_writer *writer,
                                           ls_nest features) {
  LS_REQUIRE(writer);
  LS_RETURN_IF_ERROR(ls_nest_status(features));
  if (features.kind != LS_KIND_DICT)
    return ls_invalid_argument("a tf.Example is a dict of arrays");
  ls_status status = ls_ok();
  for (size_t i = 0; i < ls_nest_count(features) && ls_status_is_ok(status);
       ++i)
    status = add_feature(writer, ls_nest_key(features, i),
                         ls_nest_as_array(ls_nest_item(features, i)));
  // Ends the example even after a failure, so that the next one starts empty.
  ls_bytes example;
  status = ls_status_join(status, ls_example_end(&writer->builder, &example));
  return ls_status_is_ok(status)
             ? ls_tfrecord_writer_write(writer, example.data, example.size)
             : status;
}

ls_status ls_tfrecord_writer_close(ls_tfrecord_writer *writer, bool keep) {
  if (writer == NULL) return ls_ok();
  ls_status status = ls_ok();
  if (keep && !writer->file.failed)
    status = ls_file_writer_add(&writer->file, writer->buffer, writer->size);
  status = ls_file_writer_end(&writer->file, keep, status);
  ls_example_deinit(&writer->builder);
  ls_release(writer->allocator, writer);
  return status;
}

// ---- In memory -------------------------------------------------------------
static ls_status read_npy(const char *name, const void *data, size_t size,
                          ls_array **out_array) {
  LS_OWN(ls_file, file) = NULL;
  LS_RETURN_IF_ERROR(
      ls_file_open_bytes(ls_current_allocator(), name, data, size, &file));
  return ls_npy_read(file, name, 0, file->size, out_array);
}

ls_status ls_npy_parse(const void *data, size_t size, ls_array **out_array) {
  LS_REQUIRE_OUT(out_array);
  LS_REQUIRE_ITEMS(data, size);
  return read_npy("npy", data, size, out_array);
}

ls_status ls_npy_print(const ls_array *array, ls_array **out_bytes) {
  LS_REQUIRE_OUT(out_bytes, array);
  LS_OWN(ls_text, head) = {.allocator = ls_current_allocator()};
  LS_RETURN_IF_ERROR(
      ls_npy_print_header(ls_array_dtype(array), ls_array_shape(array), &head));
  LS_RETURN_IF_ERROR(ls_text_status(&head));
  const size_t size = ls_array_size(array);
  LS_RETURN_IF_ERROR(ls_array_create(
      LS_DTYPE_U8, LS_SHAPE((int64_t)(head.size + size)), out_bytes));
  char *bytes = ls_array_mutable_data(*out_bytes);
  memcpy(bytes, head.data, head.size);
  if (size > 0) memcpy(bytes + head.size, ls_array_data(array), size);
  return ls_ok();
}

// ---- npz -------------------------------------------------------------------
// Reads a member as an array; cuts ".npy" off its name, which becomes its key.
static ls_status read_member(ls_zip *zip, const ls_zip_entry *entry,
                             ls_nest *out_array, const char **out_key) {
  LS_OWN_MEMORY(zip->allocator, char, data) = NULL;
  ls_array *array = NULL;
  const size_t size = strlen(entry->name);
  LS_RETURN_IF_ERROR(ls_zip_read(zip, entry, zip->allocator, &data));
  LS_RETURN_IF_ERROR(read_npy(entry->name, data, (size_t)entry->size, &array));
  *out_array = ls_nest_array(array);
  if (size > 4 && strcmp(entry->name + size - 4, ".npy") == 0)
    zip->names[entry->name + size - 4 - zip->names] = '\0';
  *out_key = entry->name;
  return ls_ok();
}

static ls_status read_members(ls_zip *zip, size_t most_bytes,
                              ls_nest *out_arrays) {
  LS_OWN(ls_nests, arrays) = {0};
  LS_OWN_ARRAY_OR_RETURN(zip->allocator, const char *, keys, zip->count + 1);
  LS_RETURN_IF_ERROR(ls_nests_init(&arrays, zip->allocator, zip->count + 1));
  for (size_t i = 0; i < zip->count; ++i) {
    const uint64_t bytes = (uint64_t)zip->entries[i].size;
    if (bytes > most_bytes)
      return ls_invalid_argument("the arrays up to '%s' have more bytes than "
                                 "the caller allows",
                                 zip->entries[i].name);
    most_bytes -= (size_t)bytes;
    LS_RETURN_IF_ERROR(
        read_member(zip, &zip->entries[i], &arrays.items[i], &keys[i]));
  }
  *out_arrays = ls_nest_dict("", keys, arrays.items, zip->count);
  arrays.count = 0;  // The dict has taken them.
  const ls_status status = ls_nest_status(*out_arrays);
  if (ls_status_is_ok(status)) return status;
  ls_nest_release(*out_arrays);
  *out_arrays = ls_none();
  return status;
}

ls_status ls_npz_parse(const void *data, size_t size, size_t most_bytes,
                       ls_nest *out_arrays) {
  LS_REQUIRE_OUT(out_arrays);
  LS_REQUIRE_ITEMS(data, size);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN(ls_file, file) = NULL;
  LS_OWN(ls_zip, zip) = {0};
  LS_RETURN_IF_ERROR(ls_file_open_bytes(allocator, "npz", data, size, &file));
  LS_RETURN_IF_ERROR(ls_zip_open(file, allocator, &zip));
  return read_members(&zip, most_bytes, out_arrays);
}
