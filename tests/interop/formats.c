// SPDX-License-Identifier: Apache-2.0
// Files of other libraries' formats, written and shown: half of check-formats.
//
// Usage: formats write FOLDER    npy of each type, npz, TFRecord
//        formats show FILE...    what is in them, a line an array or feature:
//                                name, type, bytes in hex
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/bytes/example.h"
#include "formats/bytes/offsets.h"
#include "io/npy.h"
#include "io/zip.h"
#include "lockstep/full.h"

static void must(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "formats: %s\n", ls_status_message(status));
  exit(1);
}

// ---- Writing ---------------------------------------------------------------
// Numbers of all kinds of bits, but for floats' NaNs.
static ls_array *make(ls_dtype dtype, ls_shape shape) {
  ls_array *array = NULL;
  must(ls_array_create(dtype, shape, &array));
  if (ls_dtype_is_complex(dtype)) {
    float *numbers = ls_array_mutable_data(array);
    for (size_t i = 0; i < ls_array_size(array) / 4; ++i)
      numbers[i] = (float)i - 2.5f;
    return array;
  }
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i) {
    if (ls_dtype_is_float(dtype))
      ls_array_set_f64(array, i, (double)(i * i) / 8 - 3);
    else
      ls_array_set_i64(array, i, i * 37 - 50);
  }
  return array;
}

static const ls_dtype dtypes[] = {
    LS_DTYPE_F64, LS_DTYPE_F32,  LS_DTYPE_F16, LS_DTYPE_I8,  LS_DTYPE_I16,
    LS_DTYPE_I32, LS_DTYPE_I64,  LS_DTYPE_U8,  LS_DTYPE_U16, LS_DTYPE_U32,
    LS_DTYPE_U64, LS_DTYPE_BOOL, LS_DTYPE_C64};
static const ls_shape shapes[] = {
    {0}, {1, {5}}, {2, {3, 4}}, {3, {2, 0, 3}}, {4, {2, 1, 3, 2}}};

static void print_npy(const ls_array *array, ls_text *out) {
  must(ls_npy_print_header(ls_array_dtype(array), ls_array_shape(array), out));
  ls_text_append_bytes(out, ls_array_data(array), ls_array_size(array));
  must(ls_text_status(out));
}

static void write_npy(const char *folder, size_t dtype, size_t shape) {
  char path[512];
  LS_OWN(ls_text, text) = {0};
  ls_text_init(&text, ls_allocator_system());
  LS_OWN(ls_array, array) = make(dtypes[dtype], shapes[shape]);
  print_npy(array, &text);
  snprintf(path, sizeof(path), "%s/%s-%zu.npy", folder,
           ls_dtype_name(dtypes[dtype]), shape);
  const ls_file_system *files = ls_file_system_system();
  must(files->write(NULL, path, text.data, text.size));
}

static void write_npz(const char *folder, bool deflated) {
  char path[512];
  snprintf(path, sizeof(path), "%s/%s.npz", folder,
           deflated ? "deflated" : "stored");
  ls_zip_writer *writer = NULL;
  must(ls_zip_writer_open(ls_runtime_current(), path, &writer));
  for (size_t i = 0; i < LS_COUNT_OF(dtypes); ++i) {
    LS_OWN(ls_array, array) = make(dtypes[i], LS_SHAPE(40, 3));
    LS_OWN(ls_text, head) = {0};
    ls_text_init(&head, ls_allocator_system());
    must(ls_npy_print_header(dtypes[i], LS_SHAPE(40, 3), &head));
    char name[32];
    snprintf(name, sizeof(name), "%s.npy", ls_dtype_name(dtypes[i]));
    must(ls_zip_add(writer, name, deflated, head.data, head.size,
                    ls_array_data(array), ls_array_size(array)));
  }
  must(ls_zip_writer_close(writer, true));
}

static void write_records(const char *folder) {
  char path[512];
  snprintf(path, sizeof(path), "%s/examples.tfrecord", folder);
  ls_tfrecord_writer *writer = NULL;
  LS_OWN(ls_example_builder, builder) = {0};
  ls_example_init(&builder, ls_allocator_system());
  must(ls_tfrecord_writer_open(path, &writer));
  static char large[70000];
  for (int i = 0; i < 50; ++i) {
    const ls_bytes bytes[] = {
        {large, (size_t)i * 1400}, {"", 0}, {"\xff\n", 2}};
    const float floats[] = {(float)i / 3, -1e30f, 0};
    const int64_t ints[] = {i, -i, INT64_MAX - i, INT64_MIN + i};
    ls_bytes example;
    ls_example_add_bytes(&builder, "bytes", bytes, (size_t)i % 4);
    ls_example_add_floats(&builder, "floats", floats, (size_t)(i + 1) % 4);
    ls_example_add_ints(&builder, "ints", ints, (size_t)(i + 2) % 5);
    must(ls_example_end(&builder, &example));
    must(ls_tfrecord_writer_write(writer, example.data, example.size));
  }
  must(ls_tfrecord_writer_close(writer, true));
}

// ---- Showing ---------------------------------------------------------------
static void print_hex(const void *data, size_t size) {
  const unsigned char *at = data;
  for (size_t i = 0; i < size; ++i)
    printf("%02x", at[i]);
}

static void show_array(const char *name, const ls_array *array) {
  const ls_dtype dtype = ls_array_dtype(array);
  printf("%s %s ", name, LS_SHAPE_TEXT(dtype, ls_array_shape(array)));
  if (dtype == LS_DTYPE_STRING) {
    const ls_bytes *texts = ls_array_data(array);
    for (int64_t i = 0; i < ls_array_num_elements(array); ++i) {
      print_hex(texts[i].data, texts[i].size);
      printf(",");
    }
  } else {
    print_hex(ls_array_data(array), ls_array_size(array));
  }
  printf("\n");
}

static void show_npy(const ls_file *file, const char *name) {
  LS_OWN(ls_array, array) = NULL;
  must(ls_npy_read(file, name, 0, file->size, &array));
  show_array(name, array);
}

static void show_npz(const ls_file *file) {
  LS_OWN(ls_zip, zip) = {0};
  must(ls_zip_open(file, ls_allocator_system(), &zip));
  for (size_t i = 0; i < zip.count; ++i) {
    char *data = NULL;
    ls_file *member = NULL;
    must(ls_zip_read(&zip, &zip.entries[i], ls_allocator_system(), &data));
    must(ls_file_open_bytes(ls_allocator_system(), zip.entries[i].name, data,
                            (size_t)zip.entries[i].size, &member));
    show_npy(member, zip.entries[i].name);
    ls_file_close(member);
    ls_release(ls_allocator_system(), data);
  }
}

static ls_status show_feature(void *user, ls_bytes name,
                              const ls_feature *feature) {
  static ls_bytes bytes[1000];
  static float floats[1000];
  static int64_t ints[1000];
  const ls_feature_place place = {user, feature->list, name};
  size_t count = 0;
  printf("%.*s %s ", (int)name.size, name.data,
         ls_feature_kind_name(feature->kind));
  if (feature->kind == LS_FEATURE_BYTES) {
    must(ls_feature_bytes(&place, feature, bytes, 1000, &count));
    for (size_t i = 0; i < count; ++i) {
      print_hex(bytes[i].data, bytes[i].size);
      printf(",");
    }
  } else if (feature->kind == LS_FEATURE_FLOATS) {
    must(ls_feature_floats(&place, feature, floats, 1000, &count));
    print_hex(floats, count * sizeof(*floats));
  } else if (feature->kind == LS_FEATURE_INTS) {
    must(ls_feature_ints(&place, feature, ints, 1000, &count));
    print_hex(ints, count * sizeof(*ints));
  }
  printf("\n");
  return ls_ok();
}

static void show_records(const ls_file *file, bool packed) {
  LS_OWN(ls_reader, reader) = {0};
  must(ls_reader_open(file, ls_allocator_system(),
                      &(ls_reader_options){.packing = packed ? LS_PACKING_GZIP
                                                             : LS_PACKING_NONE},
                      &reader));
  ls_record_place place = {0};
  LS_OWN(ls_status, status) = {0};
  ls_bytes bytes;
  while (ls_status_is_ok(status =
                             ls_tfrecord_next(&reader, &place, true, &bytes))) {
    printf("record\n");
    must(
        ls_example_visit(&place, bytes.data, bytes.size, show_feature, &place));
  }
  if (ls_status_code(status) != LS_OUT_OF_RANGE) must(status);
}

static bool ends_with(const char *text, const char *end) {
  return strlen(text) >= strlen(end) &&
         strcmp(text + strlen(text) - strlen(end), end) == 0;
}

static void show(const char *path) {
  LS_OWN(ls_file, file) = NULL;
  must(ls_file_open(ls_runtime_current(), path, &file));
  if (ends_with(path, ".npy"))
    show_npy(file, path);
  else if (ends_with(path, ".npz"))
    show_npz(file);
  else
    show_records(file, ends_with(path, ".gz"));
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "write") == 0) {
    for (size_t i = 0; i < LS_COUNT_OF(dtypes); ++i)
      for (size_t k = 0; k < LS_COUNT_OF(shapes); ++k)
        write_npy(argv[2], i, k);
    write_npz(argv[2], false);
    write_npz(argv[2], true);
    write_records(argv[2]);
    return 0;
  }
  if (argc < 3 || strcmp(argv[1], "show") != 0) return 2;
  for (int i = 2; i < argc; ++i)
    show(argv[i]);
  return 0;
}
