// SPDX-License-Identifier: Apache-2.0
// Any bytes are an event or are refused; of what is refused nobody is told
// anything, and a number or start that is told is one that is written again as
// it was read.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/bytes.h"
#include "io/protobuf/events.h"
#include "io/protobuf/tfrecord.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct told {
  int count;
  double value;
  ls_event_time at;
} told;

static void take_number(void *user, ls_event_time at, ls_bytes tag,
                        double value) {
  told *self = user;
  ++self->count;
  self->value = value;
  self->at = at;
  // All of the tag is there.
  unsigned sum = 0;
  for (size_t i = 0; i < tag.size; ++i)
    sum += (unsigned char)tag.data[i];
  if (sum > 255 * tag.size) abort();
}

static void take_start(void *user, ls_event_time at) {
  told *self = user;
  ++self->count;
  self->at = at;
}

static bool same(double a, double b) { return memcmp(&a, &b, sizeof(a)) == 0; }

// As somebody's summary, each value of which becomes an event.
static void copy_values(ls_bytes summary) {
  ls_text text;
  told seen = {0};
  ls_text_init(&text, ls_allocator_system());
  const size_t count =
      ls_events_add_summary(&text, (ls_event_time){1, 2}, "x", 0, summary);
  if (text.failed || (count == 0) != (text.size == 0)) abort();
  size_t at = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t left = text.size - at;
    if (left < LS_TFRECORD_HEAD + LS_TFRECORD_FOOT) abort();
    const size_t length = (size_t)ls_load_le64(text.data + at);
    if (length > left - LS_TFRECORD_HEAD - LS_TFRECORD_FOOT) abort();
    if (ls_events_visit((ls_bytes){text.data + at + LS_TFRECORD_HEAD, length},
                        &(ls_events_visitor){take_number, take_start, &seen}) !=
        NULL)
      abort();
    at += LS_TFRECORD_HEAD + length + LS_TFRECORD_FOOT;
  }
  if (at != text.size) abort();
  ls_text_deinit(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  told first = {0}, again = {0};
  const ls_bytes record = {(const char *)data, size};
  copy_values(record);
  const char *wrong = ls_events_visit(
      record, &(ls_events_visitor){take_number, take_start, &first});
  if (wrong != NULL) {
    if (first.count > 0) abort();
    return 0;
  }
  if (first.count == 0) return 0;
  ls_text text;
  ls_text_init(&text, ls_allocator_system());
  ls_events_add_scalar(&text, first.at, "again", first.value);
  if (text.failed) abort();
  const ls_bytes written = {text.data + LS_TFRECORD_HEAD,
                            text.size - LS_TFRECORD_HEAD - LS_TFRECORD_FOOT};
  wrong = ls_events_visit(
      written, &(ls_events_visitor){take_number, take_start, &again});
  if (wrong != NULL || again.count != 1 || again.at.step != first.at.step ||
      !same(again.at.seconds, first.at.seconds) ||
      (!isnan(first.value) && !same(again.value, first.value)))
    abort();
  ls_text_deinit(&text);
  return 0;
}
