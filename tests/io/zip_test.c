// SPDX-License-Identifier: Apache-2.0
#include "io/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/bytes.h"
#include "io/npy.h"
#include "support/fault.h"
#include "support/memory_files.h"
#include "support/npz_files.h"

static ls_allocator *memory(void) { return ls_current_allocator(); }

#define FILE_OF(array) array, sizeof(array) - 1

static ls_file *file_of(const void *data, size_t size) {
  ls_file *file = NULL;
  expect_ok(ls_file_open_bytes(memory(), "z", data, size, &file));
  return file;
}

static const ls_zip_entry *find(const ls_zip *zip, const char *name) {
  for (size_t i = zip->count; i-- > 0;)
    if (strcmp(zip->entries[i].name, name) == 0) return &zip->entries[i];
  return NULL;
}

static void expect_npz(const void *data, size_t size, bool deflated) {
  LS_OWN(ls_file, file) = file_of(data, size);
  LS_OWN(ls_zip, zip) = {0};
  expect_ok(ls_zip_open(file, memory(), &zip));
  assert_int_equal(zip.count, 2);
  assert_string_equal(zip.entries[0].name, "x.npy");
  assert_null(find(&zip, "x"));
  const ls_zip_entry *entry = find(&zip, "y.npy");
  assert_ptr_equal(entry, &zip.entries[1]);
  assert_int_equal(entry->deflated, deflated);
  assert_int_equal(entry->size, 131);
  char *bytes = NULL;
  expect_ok(ls_zip_read(&zip, entry, memory(), &bytes));
  assert_memory_equal(bytes + 128, "\7\10\11", 3);
  ls_release(memory(), bytes);
  if (!deflated) {
    int64_t offset = 0;
    LS_OWN(ls_array, array) = NULL;
    expect_ok(ls_zip_locate(&zip, &zip.entries[0], &offset));
    expect_ok(
        ls_npy_read(file, "z/x.npy", offset, zip.entries[0].size, &array));
    assert_true(ls_shape_equal(ls_array_shape(array), LS_SHAPE(3, 2)));
    assert_int_equal(ls_array_i64(array, 5), 5);
  }
}

TEST(npz_files_of_numpy_are_read) {
  expect_npz(FILE_OF(npz_stored), false);
  expect_npz(FILE_OF(npz_deflated), true);
}

// All members are read, as far as they can be.
static ls_status read_all(const void *data, size_t size) {
  LS_OWN(ls_file, file) = file_of(data, size);
  LS_OWN(ls_zip, zip) = {0};
  ls_status status = ls_zip_open(file, memory(), &zip);
  for (size_t i = 0; ls_status_is_ok(status) && i < zip.count; ++i) {
    char *bytes = NULL;
    status = ls_zip_read(&zip, &zip.entries[i], memory(), &bytes);
    ls_release(memory(), bytes);
  }
  return status;
}

TEST(files_that_are_cut_off_are_refused_wherever) {
  for (size_t size = 0; size + 1 < sizeof(npz_stored); ++size) {
    LS_OWN(ls_status, status) = read_all(npz_stored, size);
    assert_int_equal(ls_status_code(status), LS_INVALID_ARGUMENT);
  }
}

// `data` with a number of 4 bytes changed, from the `nth` record of this
// signature on.
static ls_status with_change(uint32_t signature, int nth, size_t at,
                             uint32_t value) {
  static char data[1024];
  const size_t size = sizeof(npz_deflated) - 1;
  memcpy(data, npz_deflated, size);
  for (size_t i = 0; i + 4 <= size; ++i) {
    if (ls_load_le32(data + i) != signature || nth-- > 0) continue;
    ls_store_le32(data + i + at, value);
    break;
  }
  return read_all(data, size);
}

TEST(what_is_wrong_is_named) {
  enum { ENTRY = 0x02014b50, HEADER = 0x04034b50, END = 0x06054b50 };
  static const struct {
    uint32_t signature;
    int nth;
    size_t at;
    uint32_t value;
    ls_code code;
    const char *part;
  } rows[] = {
      {ENTRY, 0, 0, 0, LS_DATA_LOSS, "an entry of its directory at byte"},
      {ENTRY, 1, 8, 0x80001, LS_UNIMPLEMENTED, "entry 'y.npy' is encrypted"},
      {ENTRY, 1, 10, 12, LS_UNIMPLEMENTED, "'y.npy' is packed by method 12"},
      {ENTRY, 0, 16, 7, LS_DATA_LOSS, "entry 'x.npy' is damaged"},
      {ENTRY, 0, 24, 151, LS_DATA_LOSS, "'x.npy' has more bytes than the 151"},
      {ENTRY, 0, 24, 153, LS_DATA_LOSS, "'x.npy' has less bytes than the 153"},
      {ENTRY, 0, 24, 1 << 30, LS_DATA_LOSS,
       "has an impossible size of 1073741824 bytes"},
      {ENTRY, 0, 20, 1 << 20, LS_DATA_LOSS, "is beyond the file's end"},
      {ENTRY, 0, 42, 1 << 20, LS_DATA_LOSS, "is beyond the file's end"},
      {ENTRY, 0, 20, 340, LS_DATA_LOSS, "members that overlap"},
      {ENTRY, 0, 28, 0xffff, LS_DATA_LOSS, "an entry of its directory"},
      {HEADER, 1, 0, 0, LS_DATA_LOSS, "a member's header"},
      {HEADER, 1, 26, 0xffffffff, LS_DATA_LOSS, "a member that is cut off"},
      {END, 0, 12, 1 << 20, LS_DATA_LOSS, "the place of its directory"},
      {END, 0, 16, 1 << 20, LS_DATA_LOSS, "the place of its directory"},
      {END, 0, 8, 0xffffffff, LS_DATA_LOSS, "the place of its directory"},
      {END, 0, 4, 3, LS_UNIMPLEMENTED, "is one of several parts"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    expect_status(
        with_change(rows[i].signature, rows[i].nth, rows[i].at, rows[i].value),
        rows[i].code, rows[i].part);
  expect_status(read_all("no zip", 6), LS_INVALID_ARGUMENT, "has 6 bytes");
}

// ---- Writing ---------------------------------------------------------------
static ls_status write_zip(ls_runtime *runtime, size_t large) {
  static char big[300000];
  ls_zip_writer *writer = NULL;
  LS_RETURN_IF_ERROR(ls_zip_writer_open(runtime, "out", &writer));
  ls_status status = ls_zip_add(writer, "a", false, "he", 2, "ad", 2);
  if (ls_status_is_ok(status))
    status = ls_zip_add(writer, "big", true, "start", 5, big, large);
  if (ls_status_is_ok(status))
    status = ls_zip_add(writer, "none", false, NULL, 0, NULL, 0);
  const bool keep = ls_status_is_ok(status);
  return ls_status_join(status, ls_zip_writer_close(writer, keep));
}

static void expect_written(const memory_files *files, size_t large) {
  const memory_file *out = memory_files_find(files, "out");
  LS_OWN(ls_file, file) = file_of(out->data, out->size);
  LS_OWN(ls_zip, zip) = {0};
  expect_ok(ls_zip_open(file, memory(), &zip));
  assert_int_equal(zip.count, 3);
  char *bytes = NULL;
  expect_ok(ls_zip_read(&zip, find(&zip, "a"), memory(), &bytes));
  assert_memory_equal(bytes, "head", 4);
  ls_release(memory(), bytes);
  assert_int_equal(find(&zip, "big")->size, 5 + large);
  expect_ok(ls_zip_read(&zip, find(&zip, "big"), memory(), &bytes));
  assert_memory_equal(bytes, "start", 5);
  ls_release(memory(), bytes);
  expect_ok(ls_zip_read(&zip, find(&zip, "none"), memory(), &bytes));
  ls_release(memory(), bytes);
}

TEST(what_is_written_is_read) {
  memory_files files = {0};
  const ls_file_system system = memory_files_system(&files);
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(&(ls_runtime_options){.file_system = &system},
                              &runtime));
  expect_ok(write_zip(runtime, 0));
  expect_written(&files, 0);
  expect_ok(write_zip(runtime, 300000));
  expect_written(&files, 300000);
  bool failed = true;
  for (int nth = 1; failed; ++nth) {
    memory_files_clear(&files);
    files.fail_at = nth;
    ls_status status = write_zip(runtime, 1000);
    failed = files.fail_at <= 0;
    files.fail_at = 0;
    assert_int_equal(files.count, failed ? 0 : 1);
    if (failed)
      expect_status(status, LS_UNAVAILABLE, "'out");
    else
      expect_ok(status);
  }
  memory_files_clear(&files);
  expect_ok(ls_zip_writer_close(NULL, true));
  expect_ok(ls_runtime_destroy(runtime));
}

// Members of more than 4 GiB, by their sizes in the directory alone.
TEST(sizes_of_64_bits_are_read) {
  // An entry whose offset stands in 64 bits, and the end in 64 bits.
  static const char data[] =
      "PK\3\4\24\0\0\0\0\0\0\0\0\0\375\377\377\377\2\0\0\0\2\0\0\0\1\0\0\0a"
      "hi";
  static char all[300];
  size_t size = sizeof(data) - 1;
  memcpy(all, data, size);
  const uint32_t crc = UINT32_C(0xd8932aac);  // Of "hi".
  ls_store_le32(all + 14, crc);
  char *entry = all + size;
  ls_store_le32(entry, 0x02014b50);
  ls_store_le32(entry + 16, crc);
  ls_store_le32(entry + 20, UINT32_MAX);
  ls_store_le32(entry + 24, UINT32_MAX);
  ls_store_le16(entry + 28, 1);
  ls_store_le16(entry + 30, 4 + 4 + 28);
  ls_store_le32(entry + 42, UINT32_MAX);
  entry[46] = 'a';
  ls_store_le16(entry + 47, 9);  // Another one's data first, of 0 bytes.
  ls_store_le16(entry + 51, 1);
  ls_store_le16(entry + 53, 24);
  ls_store_le64(entry + 55, 2);
  ls_store_le64(entry + 63, 2);
  ls_store_le64(entry + 71, 0);
  const size_t directory = size;
  size += 47 + 36;
  char *end = all + size;
  ls_store_le32(end, 0x06064b50);
  ls_store_le64(end + 32, 1);
  ls_store_le64(end + 40, size - directory);
  ls_store_le64(end + 48, directory);
  ls_store_le32(end + 56, 0x07064b50);
  ls_store_le64(end + 64, size);
  ls_store_le32(end + 76, 0x06054b50);
  memset(end + 76 + 8, 0xff, 12);
  size += 76 + 22;
  LS_OWN(ls_file, file) = file_of(all, size);
  LS_OWN(ls_zip, zip) = {0};
  expect_ok(ls_zip_open(file, memory(), &zip));
  assert_int_equal(zip.count, 1);
  char *bytes = NULL;
  expect_ok(ls_zip_read(&zip, &zip.entries[0], memory(), &bytes));
  assert_memory_equal(bytes, "hi", 2);
  ls_release(memory(), bytes);
}

// More entries than 16 bits count.
TEST(many_members_are_written_and_read) {
  enum { MANY = 66000 };
  ls_zip_writer *writer = NULL;
  expect_ok(ls_zip_writer_open(ls_runtime_current(), "many.zip", &writer));
  char name[16];
  for (int i = 0; i < MANY; ++i) {
    snprintf(name, sizeof(name), "%d", i);
    expect_ok(ls_zip_add(writer, name, false, name, 1, NULL, 0));
  }
  expect_ok(ls_zip_writer_close(writer, true));
  ls_file *file = NULL;
  ls_zip zip;
  expect_ok(ls_file_open(ls_runtime_current(), "many.zip", &file));
  expect_ok(ls_zip_open(file, memory(), &zip));
  assert_int_equal(zip.count, MANY);
  char *bytes = NULL;
  expect_ok(ls_zip_read(&zip, find(&zip, "65999"), memory(), &bytes));
  assert_int_equal(bytes[0], '6');
  ls_release(memory(), bytes);
  ls_zip_close(&zip);
  ls_file_close(file);
  assert_int_equal(unlink("many.zip"), 0);
}

MEMORY_TEST(read_a_zip_file) {
  LS_OWN(ls_file, file) = NULL;
  LS_RETURN_IF_ERROR(
      ls_file_open_bytes(memory(), "z", FILE_OF(npz_deflated), &file));
  LS_OWN(ls_zip, zip) = {0};
  ls_status status = ls_zip_open(file, memory(), &zip);
  char *bytes = NULL;
  if (ls_status_is_ok(status))
    status = ls_zip_read(&zip, &zip.entries[0], memory(), &bytes);
  ls_release(memory(), bytes);
  return status;
}

// Nothing is unpacked, and no memory asked for, of what is out of proportion.
TEST(a_small_member_does_not_become_a_large_one) {
  enum { PACKED = 400000, HEAD = 31 };
  static const struct {
    uint32_t size;
    ls_code code;
  } rows[] = {{300 << 20, LS_RESOURCE_EXHAUSTED}, {200 << 20, LS_DATA_LOSS}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    HEAP(char, data) = calloc(1, PACKED + 200);
    assert_non_null(data);
    unsigned char *at = (unsigned char *)data;
    ls_store_le32(at, 0x04034b50);  // The member,
    at[26] = 1;
    at[30] = 'x';
    at += HEAD + PACKED;
    ls_store_le32(at, 0x02014b50);  // the directory,
    at[10] = 8;
    ls_store_le32(at + 20, PACKED);
    ls_store_le32(at + 24, rows[i].size);
    at[28] = 1;
    at[46] = 'x';
    ls_store_le32(at + 47, 0x06054b50);  // and its end.
    at[47 + 10] = 1;
    ls_store_le32(at + 47 + 12, 47);
    ls_store_le32(at + 47 + 16, HEAD + PACKED);
    LS_OWN(ls_file, file) = file_of(data, HEAD + PACKED + 47 + 22);
    LS_OWN(ls_zip, zip) = {0};
    expect_ok(ls_zip_open(file, memory(), &zip));
    char *bytes = NULL;
    expect_status(ls_zip_read(&zip, &zip.entries[0], memory(), &bytes),
                  rows[i].code, i == 0 ? "as numpy.savez does" : "damaged");
    assert_null(bytes);
  }
}
