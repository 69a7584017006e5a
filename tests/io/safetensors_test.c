// SPDX-License-Identifier: Apache-2.0
#include "support/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "base/values/array_internal.h"
#include "io/crc32c.h"
#include "support/counted.h"
#include "support/memory_files.h"
#include "support/safetensors.h"

// A counted runtime with files in memory, which reads these bytes as "f.st".
typedef struct in_memory {
  memory_files files;
  ls_file_system system;
  counted counted;
} in_memory;

static void in_memory_begin(in_memory *self) {
  self->files = (memory_files){0};
  self->system = memory_files_system(&self->files);
  self->counted = counted_begin_with(
      (ls_runtime_options){.threads = 1, .file_system = &self->system});
}

static void in_memory_end(in_memory *self) {
  counted_end(&self->counted);
  memory_files_clear(&self->files);
}
LS_OWNED_STRUCT(in_memory, in_memory_end)

static ls_status open_bytes(const in_memory *self, const void *bytes,
                            size_t size, ls_safetensors_file *file) {
  *file = (ls_safetensors_file){0};
  LS_RETURN_IF_ERROR(
      self->system.write(self->system.user, "f.st", bytes, size));
  return safetensors_open_whole("f.st", file);
}

static ls_array *make(ls_dtype dtype, ls_shape shape, const void *data) {
  ls_array *array = NULL;
  expect_ok(ls_array_create_copy(dtype, shape, data, &array));
  return array;
}

TEST(arrays_come_back_bit_for_bit) {
  const uint8_t bytes[] = {1, 2, 3};
  const float floats[] = {1.5F, -0.0F, 3e-45F, 4};
  const int64_t whole[] = {INT64_MIN};
  const named_array arrays[] = {
      {"a/bytes", make(LS_DTYPE_U8, LS_SHAPE(3), bytes)},
      {"b", make(LS_DTYPE_F32, LS_SHAPE(2, 2), floats)},
      {"scalar", make(LS_DTYPE_I64, LS_SCALAR, whole)},
      {"nothing", make(LS_DTYPE_F32, LS_SHAPE(0, 5), floats)},
  };
  const ls_safetensors_note notes[] = {{"model", "a \"quoted\" one"}};
  LS_OWN_BEGUN(in_memory, memory, in_memory_begin);
  expect_ok(safetensors_write("f.st", arrays, 4, notes, 1));
  LS_OWN(ls_safetensors_file, file) = {0};
  expect_ok(safetensors_open_whole("f.st", &file));
  assert_int_equal(file.num_entries, 4);
  for (size_t i = 0; i < 4; ++i) {
    LS_OWN(ls_array, got) = safetensors_array(&file, arrays[i].name);
    assert_non_null(got);
    assert_true(ls_array_is_same(got, arrays[i].array));
    ls_array_release(arrays[i].array);
  }
  assert_int_equal(file.num_notes, 1);
  assert_string_equal(file.notes[0].value, "a \"quoted\" one");
  assert_null(ls_safetensors_entry_of(&file, "b/"));
}

TEST(the_file_is_as_the_format_says) {
  ls_safetensors_entry entry = {
      .name = "w", .dtype = LS_DTYPE_F32, .shape = LS_SHAPE(1)};
  LS_OWN(ls_text, text) = {.allocator = ls_allocator_system()};
  size_t size = 0;
  expect_ok(ls_safetensors_lay_out(&text, &entry, 1, NULL, 0, false, &size));
  const char header[] =
      "{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  const size_t padded = (sizeof(header) - 1 + 7) / 8 * 8;
  assert_int_equal(text.size, 8 + padded);
  assert_int_equal((unsigned char)text.data[0], padded);
  assert_memory_equal(text.data + 8, header, sizeof(header) - 1);
  assert_int_equal(entry.offset, text.size);
  assert_int_equal(entry.size, 4);
  assert_int_equal(size, text.size + 4);
}

TEST(names_that_clash_are_refused) {
  LS_OWN(ls_array, array) = make(LS_DTYPE_F32, LS_SCALAR, &(float){1});
  LS_OWN_BEGUN(in_memory, memory, in_memory_begin);
  const named_array twice[] = {{"w", array}, {"w", array}};
  expect_status(safetensors_write("f.st", twice, 2, NULL, 0),
                LS_INVALID_ARGUMENT, "two arrays");
  const named_array reserved = {"__metadata__", array};
  expect_status(safetensors_write("f.st", &reserved, 1, NULL, 0),
                LS_INVALID_ARGUMENT, "__metadata__");
  const named_array no_text = {"w\xff", array};
  expect_status(safetensors_write("f.st", &no_text, 1, NULL, 0),
                LS_INVALID_ARGUMENT, "must be UTF-8");
  assert_int_equal(memory.files.count, 0);
}

// A file with this header and `data_size` bytes of elements.
static void expect_refused(const char *header, size_t data_size, ls_code code,
                           const char *part) {
  LS_OWN_BEGUN(in_memory, memory, in_memory_begin);
  char bytes[512] = "";
  const size_t size = strlen(header);
  bytes[0] = (char)size;
  memcpy(bytes + 8, header, size);
  ls_safetensors_file file;
  expect_status(open_bytes(&memory, bytes, 8 + size + data_size, &file), code,
                part);
  assert_null(file.entries);
}

TEST(what_is_wrong_is_named) {
  expect_refused("[]", 0, LS_INVALID_ARGUMENT, "no JSON object");
  expect_refused("{", 0, LS_INVALID_ARGUMENT, "f.st:1");
  expect_refused("{\"w\":{\"shape\":[1]}}", 0, LS_INVALID_ARGUMENT,
                 "array 'w' has no dtype");
  expect_refused("{\"\xff\xfe\":{\"dtype\":\"F32\",\"shape\":[0],"
                 "\"data_offsets\":[0,0]}}",
                 0, LS_INVALID_ARGUMENT, "has a name that is no UTF-8");
  expect_refused("{\"w\":{\"dtype\":\"F8\",\"shape\":[1]}}", 0,
                 LS_UNIMPLEMENTED, "dtype 'F8'");
  expect_refused("{\"w\":{\"dtype\":\"F32\"}}", 0, LS_INVALID_ARGUMENT,
                 "no shape");
  expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[-1]}}", 0,
                 LS_INVALID_ARGUMENT, "no count");
  expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}", 0,
                 LS_INVALID_ARGUMENT, "no two data_offsets");
  expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],"
                 "\"data_offsets\":[0,8]}}",
                 8, LS_DATA_LOSS, "which is 4 bytes");
  expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],"
                 "\"data_offsets\":[0,4]}}",
                 3, LS_DATA_LOSS, "cut off");
  expect_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],"
                 "\"data_offsets\":[0,4]}}",
                 5, LS_DATA_LOSS, "has 5 bytes of elements");
  LS_OWN_BEGUN(in_memory, memory, in_memory_begin);
  ls_safetensors_file file;
  expect_status(
      open_bytes(&memory, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8, &file),
      LS_DATA_LOSS, "cut off or no safetensors file");
  expect_status(open_bytes(&memory, "abc", 3, &file), LS_DATA_LOSS, "3 bytes");
}

#define ENTRY(name, from, to)                                                  \
  "\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" from       \
  "," to "]}"

// As the format says: every byte belongs to one array.
TEST(arrays_follow_each_other_without_holes) {
  expect_refused("{" ENTRY("a", "0", "4") "," ENTRY("b", "2", "6") "," ENTRY(
                     "c", "8", "12") "}",
                 12, LS_DATA_LOSS,
                 "array 'b' begins at byte 2 of the elements, where byte 4 is "
                 "the next");
  expect_refused("{" ENTRY("a", "0", "4") "," ENTRY("b", "0", "4") "}", 8,
                 LS_DATA_LOSS, "begins at byte 0");
  expect_refused("{" ENTRY("a", "4", "8") "}", 8, LS_DATA_LOSS,
                 "array 'a' begins at byte 4 of the elements, where byte 0 is "
                 "the next");
  expect_refused("{" ENTRY("a", "0", "4") "," ENTRY("b", "8", "12") "}", 12,
                 LS_DATA_LOSS, "array 'b' begins at byte 8");
  // In any order, and with empty ones in between.
  static const char header[] = "{" ENTRY(
      "b", "4", "8") ",\"none\":{\"dtype\":\"U8\",\"shape\":[0],"
                     "\"data_offsets\":[4,4]}," ENTRY("a", "0", "4") "}";
  char bytes[512] = "";
  bytes[0] = (char)(sizeof(header) - 1);
  memcpy(bytes + 8, header, sizeof(header) - 1);
  LS_OWN_BEGUN(in_memory, memory, in_memory_begin);
  LS_OWN(ls_safetensors_file, file) = {0};
  expect_ok(open_bytes(&memory, bytes, 8 + sizeof(header) - 1 + 8, &file));
  assert_int_equal(file.num_entries, 3);
}

// `piece` again and again between two ends, as a header.
static size_t make_header(const char *begin, const char *piece, size_t times,
                          const char *finish, char *out) {
  char *at = out + 8;
  at = stpcpy(at, begin);
  for (size_t i = 0; i < times; ++i)
    at = stpcpy(at, piece);
  at = stpcpy(at, finish);
  const size_t size = (size_t)(at - out) - 8;
  for (int i = 0; i < 8; ++i)
    out[i] = (char)(size >> (8 * i) & 0xff);
  return size + 8;
}

// Headers that say nothing, at length.
TEST(memory_is_a_small_multiple_of_the_file) {
  static const struct {
    const char *begin, *piece, *finish;
  } headers[] = {
      {"{\"a\":{\"dtype\":\"U8\",\"shape\":[0", ",0",
       "],\"data_offsets\":[0,0]}}"},
      {"{\"a\":[[]", ",[]", "]}"},
      {"[0", ",0", "]"},
      {"[[[[[[[[[[", "\\u0000", "]"},
      {"{\"\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
       ",\"\":0", "}"},
  };
  enum { TIMES = 600000 };
  HEAP(char, bytes) = malloc((size_t)TIMES * 7 + 300);
  for (size_t i = 0; i < LS_COUNT_OF(headers); ++i) {
    const size_t size = make_header(headers[i].begin, headers[i].piece, TIMES,
                                    headers[i].finish, bytes);
    LS_OWN_BEGUN(in_memory, memory, in_memory_begin);
    const uint64_t before = counted_now(&memory.counted).live_bytes;
    ls_safetensors_file file;
    expect_status(open_bytes(&memory, bytes, size, &file), LS_INVALID_ARGUMENT,
                  "");
    assert_true(counted_now(&memory.counted).peak_bytes - before <
                4 * size + (8 << 20));
  }
}

// Many arrays of the same bytes would be many times the file.
TEST(bytes_are_not_given_out_twice) {
  enum { ARRAYS = 1000, DATA = 100000 };
  HEAP(char, bytes) = calloc(1, ARRAYS * 100 + DATA);
  char *at = bytes + 8;
  for (int i = 0; i < ARRAYS; ++i)
    at += sprintf(at,
                  "%c\"%d\":{\"dtype\":\"U8\",\"shape\":[%d],"
                  "\"data_offsets\":[0,%d]}",
                  i == 0 ? '{' : ',', i, DATA, DATA);
  *at++ = '}';
  const size_t header = (size_t)(at - bytes) - 8;
  for (int i = 0; i < 8; ++i)
    bytes[i] = (char)(header >> (8 * i) & 0xff);
  LS_OWN_BEGUN(in_memory, memory, in_memory_begin);
  ls_safetensors_file file;
  expect_status(open_bytes(&memory, bytes, 8 + header + DATA, &file),
                LS_DATA_LOSS, "array '1'");
  assert_true(counted_now(&memory.counted).peak_bytes < 4 << 20);
}

static ls_status round_trip(void *user) {
  LS_OWN(ls_array, array) = NULL;
  LS_OWN(ls_safetensors_file, file) = {0};
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_F32, LS_SCALAR, &(float){1}, &array));
  LS_RETURN_IF_ERROR(
      safetensors_write(user, &(named_array){"w", array}, 1, NULL, 0));
  return safetensors_open_whole(user, &file);
}

TEST(no_memory_is_a_status) {
  char path[] = "round_trip.safetensors";
  REFUSE_EACH(round_trip, path);
}

// ---- Files in parts --------------------------------------------------------
TEST(files_are_written_and_read_entry_by_entry) {
  ls_runtime *runtime = ls_runtime_current();
  const uint8_t bytes[5] = {1, 2, 3, 4, 5};
  const double numbers[3] = {0.5, -1, 1e300};
  ls_safetensors_entry entries[] = {
      {.name = "bytes", .dtype = LS_DTYPE_U8, .shape = LS_SHAPE(5)},
      {.name = "numbers", .dtype = LS_DTYPE_F64, .shape = LS_SHAPE(3)},
      {.name = "none", .dtype = LS_DTYPE_F32, .shape = LS_SHAPE(0, 2)}};
  uint32_t crcs[2] = {0}, crc = 1;
  ls_safetensors_writer *writer = NULL;
  expect_ok(
      ls_safetensors_create(runtime, "parts.st", entries, 3, NULL, 0, &writer));
  expect_ok(ls_safetensors_put(writer, &entries[1], numbers, &crcs[1]));
  expect_ok(ls_safetensors_put(writer, &entries[0], bytes, &crcs[0]));
  expect_ok(ls_safetensors_put(writer, &entries[2], NULL, NULL));
  expect_ok(ls_safetensors_finish(writer, true));
  ls_safetensors_file file;
  expect_ok(ls_safetensors_open(runtime, "parts.st", &file));
  assert_int_equal(file.num_entries, 3);
  double got[3];
  const ls_safetensors_entry *it = ls_safetensors_entry_of(&file, "numbers");
  expect_ok(ls_safetensors_get(&file, it, got, &crc));
  assert_memory_equal(got, numbers, sizeof(got));
  assert_int_equal(crc, crcs[1]);
  assert_int_equal(crc, ls_crc32c(0, numbers, sizeof(numbers)));
  assert_null(ls_safetensors_entry_of(&file, "byte"));
  ls_safetensors_close(&file);
  // One that is given up leaves what was there.
  expect_ok(
      ls_safetensors_create(runtime, "parts.st", entries, 1, NULL, 0, &writer));
  expect_ok(ls_safetensors_finish(writer, false));
  expect_ok(ls_safetensors_open(runtime, "parts.st", &file));
  assert_int_equal(file.num_entries, 3);
  ls_safetensors_close(&file);
}

// ---- Checksums -------------------------------------------------------------
enum { SUMMED = 3 };

static void write_summed(const char *path) {
  named_array arrays[SUMMED] = {
      {.name = "kernel"}, {.name = "bias"}, {.name = "step"}};
  const ls_dtype dtypes[SUMMED] = {LS_DTYPE_F32, LS_DTYPE_U8, LS_DTYPE_I64};
  const ls_shape shapes[SUMMED] = {LS_SHAPE(2, 3), LS_SHAPE(5), LS_SCALAR};
  const ls_safetensors_note note = {"model", "mlp"};
  for (int i = 0; i < SUMMED; ++i) {
    expect_ok(ls_array_create(dtypes[i], shapes[i], &arrays[i].array));
    for (int64_t k = 0; k < ls_array_num_elements(arrays[i].array); ++k)
      ls_array_set_i64(arrays[i].array, k, 7 * i + k + 1);
  }
  expect_ok(safetensors_write(path, arrays, SUMMED, &note, 1));
  for (int i = 0; i < SUMMED; ++i)
    ls_array_release(arrays[i].array);
}

static size_t read_file(const char *path, char *bytes, size_t room) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  const size_t size = fread(bytes, 1, room, file);
  assert_int_equal(fclose(file), 0);
  return size;
}

static void write_file(const char *path, const char *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

static bool is_same_file(const ls_safetensors_file *a,
                         const ls_safetensors_file *b) {
  bool same = a->num_entries == b->num_entries;
  for (size_t i = 0; same && i < a->num_entries; ++i) {
    const char *name = a->entries[i].name;
    LS_OWN(ls_array, x) = safetensors_array(a, name);
    LS_OWN(ls_array, y) = safetensors_array(b, name);
    same = y != NULL && ls_array_is_same(x, y) &&
           strcmp(b->entries[i].name, name) == 0;
  }
  return same;
}

// Each bit of the file: it is refused by name, or what is read is the same.
// That is so of the bits that hide the checksums.
TEST(a_flipped_bit_is_never_read_in_silence) {
  LS_OWN_BEGUN(in_memory, memory, in_memory_begin);
  LS_OWN(ls_safetensors_file, whole) = {0};
  ls_safetensors_file damaged;
  int harmless = 0;
  write_summed("whole.st");
  expect_ok(safetensors_open_whole("whole.st", &whole));
  assert_int_equal(whole.num_notes, 1);
  assert_string_equal(whole.notes[0].key, "model");
  const memory_file *file = memory_files_find(&memory.files, "whole.st");
  HEAP(char, bytes) = malloc(file->size);
  memcpy(bytes, file->data, file->size);
  for (size_t at = 0; at < file->size; ++at)
    for (int bit = 0; bit < 8; ++bit) {
      bytes[at] = (char)(bytes[at] ^ 1 << bit);
      const ls_status status = open_bytes(&memory, bytes, file->size, &damaged);
      if (ls_status_is_ok(status)) {
        assert_true(is_same_file(&whole, &damaged));
        assert_true(at < LS_SAFETENSORS_SUMS_AT);
        ls_safetensors_close(&damaged);
        ++harmless;
      } else {
        expect_contains(ls_status_message(status), "f.st");
      }
      ls_status_free(status);
      bytes[at] = (char)(bytes[at] ^ 1 << bit);
    }
  assert_true(harmless <= 8 * (int)strlen(LS_SAFETENSORS_SUMS));
}

TEST(damaged_elements_are_named_in_files) {
  char bytes[2048];
  ls_safetensors_file file;
  write_summed("summed.st");
  const size_t size = read_file("summed.st", bytes, sizeof(bytes));
  expect_ok(ls_safetensors_open(ls_runtime_current(), "summed.st", &file));
  const ls_safetensors_entry *kernel = ls_safetensors_entry_of(&file, "kernel");
  assert_true(kernel->has_crc);
  bytes[kernel->offset + 9] ^= 4;
  ls_safetensors_close(&file);
  write_file("summed.st", bytes, size);
  expect_ok(ls_safetensors_open(ls_runtime_current(), "summed.st", &file));
  kernel = ls_safetensors_entry_of(&file, "kernel");
  float got[6];
  uint8_t bias[5];
  expect_status(
      ls_safetensors_get(&file, kernel, got, NULL), LS_DATA_LOSS,
      "'summed.st' is damaged: the checksum of array 'kernel' does not match");
  ls_safetensors_wish wishes[] = {
      {.entry = ls_safetensors_entry_of(&file, "bias"), .data = bias},
      {.entry = kernel}};
  expect_status(
      ls_safetensors_get_many(&file, NULL, wishes, 2, LS_SUMS_HELD),
      LS_DATA_LOSS,
      "'summed.st' is damaged: the checksum of array 'kernel' does not match");
  expect_ok(ls_safetensors_get_many(&file, NULL, wishes, 1, LS_SUMS_HELD));
  ls_safetensors_close(&file);
  expect_status(
      safetensors_open_whole("summed.st", &file), LS_DATA_LOSS,
      "'summed.st' is damaged: the checksum of array 'kernel' does not match");
  remove("summed.st");
}
