// SPDX-License-Identifier: Apache-2.0
//
// Reads event records, in two passes, so that the visitor never sees part of a
// damaged one.
#include "io/protobuf/events.h"
#include "io/protobuf/protobuf.h"

typedef struct visit {
  ls_event_time at;
  const ls_events_visitor *visitor;  // NULL in the first pass.
} visit;

static ls_proto_input events_read_message_in(const ls_proto_field *field) {
  return (ls_proto_input){field->at, field->at + field->value};
}

static bool field_is(const ls_proto_field *field, uint32_t number,
                     ls_proto_type type) {
  return field->number == number && field->type == type;
}

static double field_number(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static double small_number_of(uint64_t bits) {
  const uint32_t low = (uint32_t)bits;
  float value;
  memcpy(&value, &low, sizeof(value));
  return (double)value;
}

static const char *read_summary_value(const visit *self, ls_proto_input in) {
  ls_bytes tag = {"", 0};
  double scalar = 0;
  bool has_scalar = false;
  while (in.at < in.end) {
    ls_proto_field field = {0};
    const char *wrong = ls_proto_read_field(&in, &field);
    if (wrong != NULL) return wrong;
    if (field_is(&field, VALUE_TAG, LS_PROTO_BYTES))
      tag = (ls_bytes){(const char *)field.at, (size_t)field.value};
    if (field_is(&field, VALUE_SCALAR, LS_PROTO_FIXED_32)) {
      scalar = small_number_of(field.value);
      has_scalar = true;
    }
  }
  if (has_scalar && self->visitor != NULL)
    self->visitor->scalar(self->visitor->user, self->at, tag, scalar);
  return NULL;
}

static const char *read_summary(const visit *self, ls_proto_input in) {
  while (in.at < in.end) {
    ls_proto_field field = {0};
    const char *wrong = ls_proto_read_field(&in, &field);
    if (wrong == NULL && field_is(&field, SUMMARY_VALUE, LS_PROTO_BYTES))
      wrong = read_summary_value(self, events_read_message_in(&field));
    if (wrong != NULL) return wrong;
  }
  return NULL;
}

static const char *read_session(const visit *self, ls_proto_input in) {
  while (in.at < in.end) {
    ls_proto_field field = {0};
    const char *wrong = ls_proto_read_field(&in, &field);
    if (wrong != NULL) return wrong;
    if (self->visitor != NULL &&
        field_is(&field, SESSION_STATUS, LS_PROTO_VARINT) &&
        field.value == SESSION_START)
      self->visitor->start(self->visitor->user, self->at);
  }
  return NULL;
}

// The first pass finds the time, which may follow the contents.
static const char *read_event(visit *self, ls_proto_input in) {
  while (in.at < in.end) {
    ls_proto_field field = {0};
    const char *wrong = ls_proto_read_field(&in, &field);
    if (wrong != NULL) return wrong;
    if (field_is(&field, EVENT_SECONDS, LS_PROTO_FIXED_64))
      self->at.seconds = field_number(field.value);
    if (field_is(&field, EVENT_STEP, LS_PROTO_VARINT))
      self->at.step = (int64_t)field.value;
    if (field_is(&field, EVENT_SUMMARY, LS_PROTO_BYTES))
      wrong = read_summary(self, events_read_message_in(&field));
    if (field_is(&field, EVENT_SESSION, LS_PROTO_BYTES))
      wrong = read_session(self, events_read_message_in(&field));
    if (wrong != NULL) return wrong;
  }
  return NULL;
}

const char *ls_events_visit(ls_bytes record, const ls_events_visitor *visitor) {
  const unsigned char *data = (const unsigned char *)record.data;
  const ls_proto_input in = {data, data + record.size};
  visit self = {.visitor = NULL};
  const char *wrong = read_event(&self, in);
  if (wrong != NULL) return wrong;
  self.visitor = visitor;
  return read_event(&self, in);
}
