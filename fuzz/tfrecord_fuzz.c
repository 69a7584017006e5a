// SPDX-License-Identifier: Apache-2.0
// Any bytes are a TFRecord file or give a status; what a scan finds is what is
// read one by one, and is written again as it was. Any record is a tf.Example
// or gives a status, and its values come out as often as they are counted.
// The first byte says whether the rest is packed, a file or one example.
#include <stdlib.h>

#include "base/text.h"
#include "formats/bytes/example.h"
#include "formats/bytes/offsets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ls_status take_values(void *user, ls_bytes name,
                             const ls_feature *feature) {
  const ls_feature_place place = {user, feature->list, name};
  ls_bytes bytes[4];
  float floats[4];
  int64_t ints[4];
  size_t count = 0;
  switch (feature->kind) {
  case LS_FEATURE_BYTES:
    return ls_feature_bytes(&place, feature, bytes, 4, &count);
  case LS_FEATURE_FLOATS:
    return ls_feature_floats(&place, feature, floats, 4, &count);
  case LS_FEATURE_INTS:
    return ls_feature_ints(&place, feature, ints, 4, &count);
  default:
    return ls_ok();
  }
}

static void look_at_example(ls_record_place *place, const void *data,
                            size_t size) {
  const ls_bytes names[] = {{"a", 1}, {"", 0}};
  ls_feature found[2];
  ls_status all = ls_example_visit(place, data, size, take_values, place);
  ls_status some = ls_example_find(place, data, size, names, 2, found);
  // What can be visited can be found.
  if (ls_status_is_ok(all) && !ls_status_is_ok(some)) abort();
  ls_status_free(all);
  ls_status_free(some);
}

static int64_t read_one_by_one(const ls_file *file, ls_packing packing,
                               ls_text *again) {
  ls_reader reader;
  ls_status status =
      ls_reader_open(file, ls_allocator_system(),
                     &(ls_reader_options){.packing = packing}, &reader);
  ls_record_place place = {0};
  while (ls_status_is_ok(status)) {
    ls_bytes bytes;
    status = ls_tfrecord_next(&reader, &place, true, &bytes);
    if (!ls_status_is_ok(status)) break;
    look_at_example(&place, bytes.data, bytes.size);
    unsigned char head[LS_TFRECORD_HEAD], foot[LS_TFRECORD_FOOT];
    ls_tfrecord_frame(bytes.data, bytes.size, head, foot);
    ls_text_append_bytes(again, head, sizeof(head));
    ls_text_append_bytes(again, bytes.data, bytes.size);
    ls_text_append_bytes(again, foot, sizeof(foot));
  }
  const bool ended = ls_status_code(status) == LS_OUT_OF_RANGE;
  ls_status_free(status);
  ls_reader_close(&reader);
  return ended ? place.record : -1;
}

static void look_at_file(const uint8_t *data, size_t size) {
  ls_file *file = NULL;
  ls_text again;
  ls_text_init(&again, ls_allocator_system());
  if (!ls_status_is_ok(
          ls_file_open_bytes(ls_allocator_system(), "fuzz", data, size, &file)))
    abort();
  const int64_t count = read_one_by_one(file, LS_PACKING_NONE, &again);
  ls_offsets offsets;
  ls_offsets_init(&offsets, ls_allocator_system());
  ls_status scanned = ls_tfrecord_scan(file, &offsets);
  if (count >= 0 &&
      (!ls_status_is_ok(scanned) || ls_offsets_count(&offsets) != count ||
       again.size != size || (size > 0 && memcmp(again.data, data, size) != 0)))
    abort();
  ls_status_free(scanned);
  ls_offsets_deinit(&offsets);
  ls_text_deinit(&again);
  ls_file_close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ls_record_place place = {.file = "fuzz"};
  if (size == 0) return 0;
  if (data[0] == 'e') {
    look_at_example(&place, data + 1, size - 1);
  } else if (data[0] == 'f') {
    look_at_file(data + 1, size - 1);
  } else {
    ls_file *file = NULL;
    ls_text again;
    ls_text_init(&again, ls_allocator_system());
    if (!ls_status_is_ok(ls_file_open_bytes(ls_allocator_system(), "fuzz",
                                            data + 1, size - 1, &file)))
      abort();
    read_one_by_one(file, data[0] == 'g' ? LS_PACKING_GZIP : LS_PACKING_DEFLATE,
                    &again);
    ls_text_deinit(&again);
    ls_file_close(file);
  }
  return 0;
}
