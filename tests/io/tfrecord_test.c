// SPDX-License-Identifier: Apache-2.0
#include "io/protobuf/tfrecord.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "base/text.h"
#include "formats/bytes/offsets.h"
#include "io/bytes.h"
#include "io/crc32c.h"
#include "lockstep/files.h"
#include "support/fault.h"
#include "support/memory_files.h"

static ls_allocator *memory(void) { return ls_current_allocator(); }

// Records as they were given, in a file in memory.
typedef struct records {
  ls_text bytes;
  ls_file *file;
} records;

static void add(records *self, const void *data, size_t size) {
  unsigned char head[LS_TFRECORD_HEAD], foot[LS_TFRECORD_FOOT];
  ls_tfrecord_frame(data, size, head, foot);
  ls_text_append_bytes(&self->bytes, head, sizeof(head));
  ls_text_append_bytes(&self->bytes, data, size);
  ls_text_append_bytes(&self->bytes, foot, sizeof(foot));
}

static void open_records(records *self) {
  expect_ok(ls_file_open_bytes(memory(), "r", self->bytes.data,
                               self->bytes.size, &self->file));
}

static records three_records(void) {
  records self = {0};
  ls_text_init(&self.bytes, memory());
  add(&self, "one", 3);
  add(&self, "", 0);
  add(&self, "three", 5);
  open_records(&self);
  return self;
}

static void drop(records *self) {
  ls_file_close(self->file);
  ls_text_deinit(&self->bytes);
}
LS_OWNED_STRUCT(records, drop)

static ls_status scan(const ls_file *file, int64_t *out_count) {
  LS_OWN_BEGUN(ls_offsets, offsets, ls_offsets_init, memory());
  const ls_status status = ls_tfrecord_scan(file, &offsets);
  *out_count = ls_offsets_count(&offsets);
  return status;
}

// What tf.io.TFRecordWriter of TensorFlow 2 made of b'hello'.
static const unsigned char of_tensorflow[] = {
    5,    0,   0,   0,   0,   0,   0,    0,    0xea, 0xb2, 0x04,
    0x3e, 'h', 'e', 'l', 'l', 'o', 0xbb, 0x1f, 0x1c, 0x19};

TEST(a_record_is_framed_as_tensorflow_does) {
  LS_OWN(records, self) = {0};
  ls_text_init(&self.bytes, memory());
  add(&self, "hello", 5);
  assert_int_equal(self.bytes.size, sizeof(of_tensorflow));
  assert_memory_equal(self.bytes.data, of_tensorflow, sizeof(of_tensorflow));
}

TEST(records_are_found_by_one_scan) {
  records self = three_records();
  ls_offsets offsets;
  ls_offsets_init(&offsets, memory());
  expect_ok(ls_tfrecord_scan(self.file, &offsets));
  assert_int_equal(ls_offsets_count(&offsets), 3);
  static const int64_t places[] = {0, 19, 35, 56};
  assert_memory_equal(offsets.items, places, sizeof(places));
  const ls_record_place place = {"r", 2, 35};
  ls_bytes bytes;
  expect_ok(
      ls_tfrecord_open_frame(&place, self.bytes.data + 35, 21, true, &bytes));
  assert_int_equal(bytes.size, 5);
  assert_memory_equal(bytes.data, "three", 5);
  ls_offsets_deinit(&offsets);
  drop(&self);
  int64_t count = -1;
  expect_ok(ls_file_open_bytes(memory(), "r", NULL, 0, &self.file));
  expect_ok(scan(self.file, &count));
  assert_int_equal(count, 0);
  ls_file_close(self.file);
}

TEST(long_records_are_passed_over) {
  LS_OWN(records, self) = {0};
  ls_text_init(&self.bytes, memory());
  static char big[100000];
  for (int i = 0; i < 20; ++i)
    add(&self, big, i % 3 == 0 ? 10 : sizeof(big) - (size_t)i);
  open_records(&self);
  int64_t count = 0;
  expect_ok(scan(self.file, &count));
  assert_int_equal(count, 20);
}

TEST(records_come_one_after_another_also_packed) {
  LS_OWN(records, self) = three_records();
  char *packed = NULL;
  size_t packed_size = 0;
  expect_ok(ls_deflate(memory(), LS_PACKING_GZIP, self.bytes.data,
                       self.bytes.size, &packed, &packed_size));
  for (int gzip = 0; gzip < 2; ++gzip) {
    LS_OWN(ls_file, file) = NULL;
    expect_ok(
        gzip ? ls_file_open_bytes(memory(), "r.gz", packed, packed_size, &file)
             : ls_file_open_bytes(memory(), "r", self.bytes.data,
                                  self.bytes.size, &file));
    LS_OWN(ls_reader, reader) = {0};
    expect_ok(ls_reader_open(
        file, memory(),
        &(ls_reader_options){.packing = gzip ? LS_PACKING_GZIP : 0}, &reader));
    ls_record_place place = {0};
    static const char *const want[] = {"one", "", "three"};
    ls_bytes bytes;
    for (size_t i = 0; i < 3; ++i) {
      expect_ok(ls_tfrecord_next(&reader, &place, true, &bytes));
      assert_int_equal(bytes.size, strlen(want[i]));
      assert_memory_equal(bytes.data, want[i], bytes.size);
    }
    expect_status(ls_tfrecord_next(&reader, &place, true, &bytes),
                  LS_OUT_OF_RANGE, "has 3 records");
  }
  ls_release(memory(), packed);
}

// Reads all one by one.
static ls_status read_all(const ls_file *file, ls_packing packing, bool check) {
  ls_reader reader;
  LS_RETURN_IF_ERROR(ls_reader_open(
      file, memory(), &(ls_reader_options){.packing = packing}, &reader));
  ls_record_place place = {0};
  ls_status status = ls_ok();
  ls_bytes bytes;
  while (ls_status_is_ok(status))
    status = ls_tfrecord_next(&reader, &place, check, &bytes);
  ls_reader_close(&reader);
  if (ls_status_code(status) != LS_OUT_OF_RANGE) return status;
  ls_status_free(status);
  return ls_ok();
}

TEST(damage_is_told_with_file_record_and_byte) {
  records self = three_records();
  int64_t count = 0;
  self.bytes.data[36] ^= 1;  // Of the third record's length.
  expect_status(scan(self.file, &count), LS_DATA_LOSS,
                "'r' record 2 at byte 35: the checksum of its length is ");
  expect_status(read_all(self.file, LS_PACKING_NONE, true), LS_DATA_LOSS,
                "'r' record 2 at byte 35: the checksum of its length is ");
  self.bytes.data[36] ^= 1;
  self.bytes.data[48] ^= 1;  // Of its bytes.
  expect_ok(scan(self.file, &count));
  expect_status(read_all(self.file, LS_PACKING_NONE, true), LS_DATA_LOSS,
                "'r' record 2 at byte 35 is damaged: the checksum of its 5");
  expect_ok(read_all(self.file, LS_PACKING_NONE, false));
  const ls_record_place place = {"r", 2, 35};
  ls_bytes bytes;
  expect_status(
      ls_tfrecord_open_frame(&place, self.bytes.data + 35, 21, true, &bytes),
      LS_DATA_LOSS, "'r' record 2 at byte 35 is damaged");
  expect_ok(
      ls_tfrecord_open_frame(&place, self.bytes.data + 35, 21, false, &bytes));
  expect_status(
      ls_tfrecord_open_frame(&place, self.bytes.data + 35, 20, true, &bytes),
      LS_DATA_LOSS, "'r' record 2 at byte 35 is cut off");
  expect_status(
      ls_tfrecord_open_frame(&place, self.bytes.data + 35, 3, true, &bytes),
      LS_DATA_LOSS, "has 3 bytes in all");
  drop(&self);
  expect_ok(ls_file_open_bytes(memory(), "t", "This is no such file.", 21,
                               &self.file));
  expect_status(scan(self.file, &count), LS_DATA_LOSS,
                "'t' record 0 at byte 0: the checksum of its length");
  expect_status(scan(self.file, &count), LS_DATA_LOSS,
                "is this a TFRecord file?");
  ls_file_close(self.file);
}

TEST(files_that_are_cut_off_are_refused_wherever) {
  LS_OWN(records, self) = three_records();
  for (size_t size = 1; size < self.bytes.size; ++size) {
    LS_OWN(ls_file, file) = NULL;
    int64_t count = 0;
    expect_ok(
        ls_file_open_bytes(memory(), "cut", self.bytes.data, size, &file));
    const bool whole = size == 19 || size == 35;
    ls_status scanned = scan(file, &count);
    ls_status read = read_all(file, LS_PACKING_NONE, true);
    assert_int_equal(ls_status_is_ok(scanned), whole);
    assert_int_equal(ls_status_is_ok(read), whole);
    if (!whole) {
      expect_status(scanned, LS_DATA_LOSS, "is cut off");
      expect_status(read, LS_DATA_LOSS, "is cut off");
    }
  }
}

// A length of 2^60 with the right checksum takes no memory.
TEST(a_length_that_lies_takes_no_memory) {
  unsigned char head[LS_TFRECORD_HEAD + 20] = {0};
  ls_store_le64(head, UINT64_C(1) << 60);
  ls_store_le32(head + 8, ls_crc32c_mask(ls_crc32c(0, head, 8)));
  ls_file *file = NULL;
  expect_ok(ls_file_open_bytes(memory(), "r", head, sizeof(head), &file));
  int64_t count = 0;
  expect_status(scan(file, &count), LS_DATA_LOSS,
                "'r' record 0 at byte 0 is cut off: it has "
                "1152921504606846976 bytes and a checksum of 4, the file has "
                "20 more");
  expect_status(read_all(file, LS_PACKING_NONE, true), LS_DATA_LOSS, "cut off");
  ls_file_close(file);
  char *packed = NULL;
  size_t size = 0;
  expect_ok(ls_deflate(memory(), LS_PACKING_GZIP, head, sizeof(head), &packed,
                       &size));
  expect_ok(ls_file_open_bytes(memory(), "r.gz", packed, size, &file));
  expect_status(read_all(file, LS_PACKING_GZIP, true), LS_INVALID_ARGUMENT,
                "of a packed file records of at most 1073741824 are read");
  ls_file_close(file);
  ls_release(memory(), packed);
}

// ---- Writing ---------------------------------------------------------------
static ls_status write_records(size_t large) {
  static char big[600000];
  ls_tfrecord_writer *writer = NULL;
  LS_RETURN_IF_ERROR(ls_tfrecord_writer_open("out", &writer));
  ls_status status = ls_tfrecord_writer_write(writer, "first", 5);
  if (ls_status_is_ok(status))
    status = ls_tfrecord_writer_write(writer, big, large);
  if (ls_status_is_ok(status))
    status = ls_tfrecord_writer_write(writer, "last", 4);
  const bool keep = ls_status_is_ok(status);
  return ls_status_join(status, ls_tfrecord_writer_close(writer, keep));
}

TEST(what_is_written_is_read) {
  memory_files files = {0};
  const ls_file_system system = memory_files_system(&files);
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(&(ls_runtime_options){.file_system = &system},
                              &runtime));
  ls_runtime *before = ls_runtime_make_current(runtime);
  static const size_t sizes[] = {0, 100, 262144, 262100, 600000};
  for (size_t i = 0; i < LS_COUNT_OF(sizes); ++i) {
    expect_ok(write_records(sizes[i]));
    LS_OWN(ls_file, file) = NULL;
    expect_ok(ls_file_open(runtime, "out", &file));
    assert_int_equal(file->size, 48 + 9 + sizes[i]);
    expect_ok(read_all(file, LS_PACKING_NONE, true));
  }
  // Each call to the file system fails once: nothing is left, or the old file.
  bool failed = true;
  for (int nth = 1; failed; ++nth) {
    memory_files_clear(&files);
    files.fail_at = nth;
    ls_status status = write_records(600000);
    failed = files.fail_at <= 0;
    files.fail_at = 0;
    assert_true(failed || ls_status_is_ok(status));
    assert_int_equal(files.count, failed ? 0 : 1);
    if (failed) expect_status(status, LS_UNAVAILABLE, "'out");
  }
  ls_tfrecord_writer *writer = NULL;
  memory_files_clear(&files);
  expect_ok(ls_tfrecord_writer_open("out", &writer));
  expect_ok(ls_tfrecord_writer_write(writer, "x", 1));
  expect_ok(ls_tfrecord_writer_close(writer, false));
  assert_int_equal(files.count, 0);
  expect_ok(ls_tfrecord_writer_close(NULL, true));
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(runtime));
}

static ls_status scan_and_read(void *user) {
  int64_t count = 0;
  LS_RETURN_IF_ERROR(scan(user, &count));
  return read_all(user, LS_PACKING_NONE, true);
}

TEST(failures_of_memory_are_survived) {
  LS_OWN(records, self) = three_records();
  REFUSE_EACH(scan_and_read, self.file);
}
