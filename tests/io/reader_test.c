// SPDX-License-Identifier: Apache-2.0
#include "io/reader.h"

#include <stdio.h>
#include <string.h>

#include "formats/bytes/offsets.h"
#include "io/inflate.h"
#include "support/fault.h"
#include "support/memory_files.h"

static ls_allocator *memory(void) { return ls_current_allocator(); }

static ls_file *file_of(const void *data, size_t size) {
  ls_file *file = NULL;
  expect_ok(ls_file_open_bytes(memory(), "bytes", data, size, &file));
  return file;
}

// The text of which tests read: "0 1 2 ... ".
static size_t make_text(char *text, size_t room) {
  size_t size = 0;
  for (int i = 0; size + 12 < room; ++i)
    size += (size_t)snprintf(text + size, room - size, "%d ", i);
  return size;
}

enum { ROOM = 1 << 20 };
static char text[ROOM];

// Goes through the whole by pieces of sizes that vary.
static void expect_read(const ls_file *file, const ls_reader_options *options,
                        const char *want, size_t size) {
  LS_OWN(ls_reader, reader) = {0};
  expect_ok(ls_reader_open(file, memory(), options, &reader));
  size_t at = 0;
  for (size_t step = 1; at < size; step = step * 7 % 5003 + 1) {
    const size_t take = step < size - at ? step : size - at;
    expect_ok(ls_reader_need(&reader, take));
    assert_true(reader.size >= take);
    assert_int_equal(reader.position, at);
    assert_memory_equal(reader.data, want + at, take);
    ls_reader_take(&reader, take);
    at += take;
  }
  expect_ok(ls_reader_need(&reader, 1));
  assert_int_equal(reader.size, 0);
  assert_true(reader.ended);
}

TEST(bytes_come_in_order_whatever_is_read_at_once) {
  const size_t size = make_text(text, ROOM);
  LS_OWN(ls_file, file) = file_of(text, size);
  static const size_t chunks[] = {1, 2, 1000, 4096, 1 << 22};
  for (size_t i = 0; i < LS_COUNT_OF(chunks); ++i) {
    const ls_reader_options options = {.chunk = chunks[i]};
    expect_read(file, &options, text, i < 2 ? size : size);
  }
  expect_read(file, &(ls_reader_options){.from = 100, .size = 5000}, text + 100,
              5000);
  ls_file_close(file);
  file = file_of("", 0);
  expect_read(file, NULL, "", 0);
}

TEST(packed_bytes_come_out) {
  const size_t size = make_text(text, ROOM);
  static const ls_packing packings[] = {LS_PACKING_GZIP, LS_PACKING_DEFLATE};
  for (size_t i = 0; i < LS_COUNT_OF(packings); ++i) {
    char *packed = NULL;
    size_t packed_size = 0;
    expect_ok(
        ls_deflate(memory(), packings[i], text, size, &packed, &packed_size));
    assert_true(packed_size < size / 2);
    ls_file *file = file_of(packed, packed_size);
    static const size_t chunks[] = {1, 100, 1 << 16, 1 << 22};
    for (size_t k = 0; k < LS_COUNT_OF(chunks); ++k)
      expect_read(
          file,
          &(ls_reader_options){.packing = packings[i], .chunk = chunks[k]},
          text, size);
    ls_file_close(file);
    ls_release(memory(), packed);
  }
}

TEST(members_of_gzip_follow_one_another) {
  // So long that members end at all places of what is read at once.
  const size_t size = make_text(text, ROOM);
  char *all = ls_allocate(memory(), ROOM);
  size_t all_size = 0;
  for (size_t at = 0; at < size;) {
    const size_t part = at % 977 + 1 < size - at ? at % 977 + 1 : size - at;
    char *packed = NULL;
    size_t packed_size = 0;
    if (all_size > 200000) break;
    expect_ok(ls_deflate(memory(), LS_PACKING_GZIP, text + at, part, &packed,
                         &packed_size));
    memcpy(all + all_size, packed, packed_size);
    all_size += packed_size;
    ls_release(memory(), packed);
    at += part;
    text[ROOM - 1] = 0;
    if (all_size > 200000 || at >= size) {
      LS_OWN(ls_file, file) = file_of(all, all_size);
      expect_read(file, &(ls_reader_options){.packing = LS_PACKING_GZIP}, text,
                  at);
    }
  }
  ls_release(memory(), all);
}

static ls_status read_all(const void *data, size_t size, ls_packing packing) {
  LS_OWN(ls_file, file) = file_of(data, size);
  LS_OWN(ls_reader, reader) = {0};
  expect_ok(ls_reader_open(file, memory(),
                           &(ls_reader_options){.packing = packing}, &reader));
  ls_status status = ls_ok();
  while (ls_status_is_ok(status) && !(reader.ended && reader.size == 0)) {
    status = ls_reader_need(&reader, 1);
    ls_reader_take(&reader, reader.size);
  }
  return status;
}

TEST(damage_of_packed_bytes_is_told) {
  const size_t size = make_text(text, 3000);
  char *packed = NULL;
  size_t packed_size = 0;
  expect_ok(
      ls_deflate(memory(), LS_PACKING_GZIP, text, size, &packed, &packed_size));
  for (size_t cut = 0; cut < packed_size; ++cut)
    expect_status(read_all(packed, cut, LS_PACKING_GZIP), LS_DATA_LOSS,
                  "'bytes' is cut off: the gzip data continue after byte");
  packed[packed_size - 6] ^= 1;
  expect_status(read_all(packed, packed_size, LS_PACKING_GZIP), LS_DATA_LOSS,
                "'bytes' is damaged gzip data near byte");
  packed[packed_size - 6] ^= 1;
  char *longer = ls_allocate(memory(), packed_size + 3);
  memcpy(longer, packed, packed_size);
  memcpy(longer + packed_size, "abc", 3);
  for (size_t more = 1; more <= 3; ++more)
    expect_status(read_all(longer, packed_size + more, LS_PACKING_GZIP),
                  LS_DATA_LOSS, "'bytes' has other data after its gzip");
  ls_release(memory(), longer);
  ls_release(memory(), packed);
  expect_status(read_all("plain text", 10, LS_PACKING_GZIP), LS_DATA_LOSS,
                "'bytes' is damaged gzip data near byte");
}

TEST(skipping_reads_nothing_of_plain_files) {
  const size_t size = make_text(text, ROOM);
  char *packed = NULL;
  size_t packed_size = 0;
  expect_ok(
      ls_deflate(memory(), LS_PACKING_GZIP, text, size, &packed, &packed_size));
  for (int gzip = 0; gzip < 2; ++gzip) {
    LS_OWN(ls_file, file) =
        gzip ? file_of(packed, packed_size) : file_of(text, size);
    LS_OWN(ls_reader, reader) = {0};
    expect_ok(
        ls_reader_open(file, memory(),
                       &(ls_reader_options){
                           .packing = gzip ? LS_PACKING_GZIP : 0, .chunk = 100},
                       &reader));
    expect_ok(ls_reader_need(&reader, 10));
    expect_ok(ls_reader_skip(&reader, 5));
    expect_ok(ls_reader_skip(&reader, 100000));
    assert_int_equal(reader.position, 100005);
    expect_ok(ls_reader_need(&reader, 50));
    assert_memory_equal(reader.data, text + 100005, 50);
    if (!gzip) assert_true(reader.capacity < 1000);
    expect_ok(ls_reader_skip(&reader, (int64_t)size));
    assert_int_equal(reader.position, size);
    assert_true(reader.ended);
  }
  ls_release(memory(), packed);
}

// ---- Offsets ---------------------------------------------------------------
TEST(offsets_are_kept_for_the_file_they_are_of) {
  memory_files files = {0};
  const ls_file_system system = memory_files_system(&files);
  ls_runtime *runtime = NULL;
  expect_ok(ls_runtime_create(&(ls_runtime_options){.file_system = &system},
                              &runtime));
  ls_file *file = file_of("0123456789", 10);
  ls_offsets offsets, loaded;
  ls_offsets_init(&offsets, memory());
  ls_offsets_init(&loaded, memory());
  bool found = true;
  expect_ok(ls_offsets_load(runtime, "kept", file, 1, &loaded, &found));
  assert_false(found);
  for (int64_t i = 0; i <= 10; i += 5)
    expect_ok(ls_offsets_add(&offsets, i));
  assert_int_equal(ls_offsets_count(&offsets), 2);
  expect_ok(ls_offsets_save(runtime, "kept", file, 1, &offsets));
  expect_ok(ls_offsets_load(runtime, "kept", file, 1, &loaded, &found));
  assert_true(found);
  assert_int_equal(loaded.size, 3);
  assert_memory_equal(loaded.items, offsets.items, 3 * sizeof(int64_t));
  ls_offsets_deinit(&loaded);
  // Of another kind, of another file, and with any byte changed.
  expect_ok(ls_offsets_load(runtime, "kept", file, 2, &loaded, &found));
  assert_false(found);
  file->modified += 1;
  expect_ok(ls_offsets_load(runtime, "kept", file, 1, &loaded, &found));
  assert_false(found);
  file->modified -= 1;
  const memory_file *kept = memory_files_find(&files, "kept");
  for (size_t i = 0; i < kept->size; ++i) {
    kept->data[i] ^= 1;
    expect_ok(ls_offsets_load(runtime, "kept", file, 1, &loaded, &found));
    assert_false(found);
    kept->data[i] ^= 1;
  }
  files.fail_at = 1;
  expect_status(ls_offsets_load(runtime, "kept", file, 1, &loaded, &found),
                LS_UNAVAILABLE, "kept");
  files.fail_at = 1;
  expect_status(ls_offsets_save(runtime, "kept", file, 1, &offsets),
                LS_UNAVAILABLE, "records of 'bytes'");
  ls_offsets_deinit(&loaded);
  ls_offsets_deinit(&offsets);
  ls_file_close(file);
  memory_files_clear(&files);
  expect_ok(ls_runtime_destroy(runtime));
}

// ---- Without memory --------------------------------------------------------
MEMORY_TEST(pack_and_read) {
  const size_t size = make_text(text, 5000);
  char *packed = NULL;
  size_t packed_size = 0;
  LS_RETURN_IF_ERROR(
      ls_deflate(memory(), LS_PACKING_GZIP, text, size, &packed, &packed_size));
  ls_file *file = NULL;
  ls_status status =
      ls_file_open_bytes(memory(), "bytes", packed, packed_size, &file);
  ls_reader reader = {0};
  if (ls_status_is_ok(status))
    status = ls_reader_open(file, memory(),
                            &(ls_reader_options){.packing = LS_PACKING_GZIP},
                            &reader);
  if (ls_status_is_ok(status)) status = ls_reader_need(&reader, size);
  if (ls_status_is_ok(status)) assert_memory_equal(reader.data, text, size);
  ls_reader_close(&reader);
  ls_file_close(file);
  ls_release(memory(), packed);
  return status;
}
