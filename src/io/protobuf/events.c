// SPDX-License-Identifier: Apache-2.0
#include "io/protobuf/events.h"

#include "base/memory/own.h"
#include "base/values/numbers.h"
#include "io/protobuf/protobuf.h"
#include "io/protobuf/tfrecord.h"

// ---- Fields ----------------------------------------------------------------
// Field numbers of TensorFlow's event.proto, summary.proto and tensor.proto.
enum {
  EVENT_SECONDS = 1,
  EVENT_STEP = 2,
  EVENT_VERSION = 3,
  EVENT_GRAPH = 4,
  EVENT_SUMMARY = 5,
  EVENT_SESSION = 7,
  EVENT_WRITER = 10,
  SESSION_STATUS = 1,
  SESSION_START = 1,  // Value of the status field.
  WRITER_NAME = 1,
  SUMMARY_VALUE = 1,
  VALUE_TAG = 1,
  VALUE_SCALAR = 2,
  VALUE_HISTOGRAM = 5,
  VALUE_TENSOR = 8,
  VALUE_METADATA = 9,
  METADATA_PLUGIN = 1,
  METADATA_CLASS = 4,
  CLASS_TENSOR = 2,  // Classes of data.
  CLASS_BLOBS = 3,
  PLUGIN_NAME = 1,
  TENSOR_TYPE = 1,
  TENSOR_SHAPE = 2,
  TENSOR_CONTENT = 4,
  TENSOR_STRINGS = 8,
  SHAPE_SIZE = 2,
  SIZE_SIZE = 1,
};

// ---- Records ---------------------------------------------------------------
// Starts a record, with room for its head; returns where its bytes begin.
static size_t begin_record(ls_text *out, ls_event_time at) {
  static const char head[LS_TFRECORD_HEAD] = {0};
  ls_text_append_bytes(out, head, sizeof(head));
  const size_t began = out->size;
  ls_proto_f64(out, EVENT_SECONDS, at.seconds);
  ls_proto_i64(out, EVENT_STEP, at.step);
  return began;
}

static void end_record(ls_text *out, size_t began) {
  unsigned char head[LS_TFRECORD_HEAD], foot[LS_TFRECORD_FOOT];
  if (out->failed) return;
  ls_tfrecord_frame(out->data + began, out->size - began, head, foot);
  memcpy(out->data + began - sizeof(head), head, sizeof(head));
  ls_text_append_bytes(out, foot, sizeof(foot));
}

void ls_events_add_version(ls_text *out, ls_event_time at) {
  const size_t record = begin_record(out, at);
  ls_proto_string(out, EVENT_VERSION, "brain.Event:2");
  const size_t writer = ls_proto_begin(out, EVENT_WRITER);
  ls_proto_string(out, WRITER_NAME, "lockstep");
  ls_proto_end(out, writer);
  end_record(out, record);
}

void ls_events_add_start(ls_text *out, ls_event_time at) {
  const size_t record = begin_record(out, at);
  const size_t session = ls_proto_begin(out, EVENT_SESSION);
  ls_proto_i64(out, SESSION_STATUS, SESSION_START);
  ls_proto_end(out, session);
  end_record(out, record);
}

// ---- Values ----------------------------------------------------------------
// Positions in a record with one value of a summary.
typedef struct value {
  size_t record, summary, value;
} value;

static value begin_value(ls_text *out, ls_event_time at, const char *tag) {
  value made = {.record = begin_record(out, at)};
  made.summary = ls_proto_begin(out, EVENT_SUMMARY);
  made.value = ls_proto_begin(out, SUMMARY_VALUE);
  ls_proto_string(out, VALUE_TAG, tag);
  return made;
}

static void end_value(ls_text *out, value made) {
  ls_proto_end(out, made.value);
  ls_proto_end(out, made.summary);
  end_record(out, made.record);
}

void ls_events_add_scalar(ls_text *out, ls_event_time at, const char *tag,
                          double value_) {
  const value made = begin_value(out, at, tag);
  ls_proto_f32(out, VALUE_SCALAR, (float)value_);
  end_value(out, made);
}

void ls_events_add_histogram(ls_text *out, ls_event_time at, const char *tag,
                             const ls_histogram *histogram) {
  const value made = begin_value(out, at, tag);
  const size_t began = ls_proto_begin(out, VALUE_HISTOGRAM);
  const double numbers[] = {histogram->least, histogram->most,
                            histogram->values, histogram->sum,
                            histogram->sum_squares};
  for (unsigned i = 0; i < LS_COUNT_OF(numbers); ++i)
    ls_proto_f64(out, 1 + i, numbers[i]);
  ls_proto_f64s(out, 6, histogram->limits, histogram->count);
  ls_proto_f64s(out, 7, histogram->counts, histogram->count);
  ls_proto_end(out, began);
  end_value(out, made);
}

// ---- Tensors ---------------------------------------------------------------
int64_t ls_events_type_of(ls_dtype dtype) {
  static const unsigned char numbers[LS_DTYPE_COUNT] = {
      [LS_DTYPE_F64] = 2,   [LS_DTYPE_F32] = 1,       [LS_DTYPE_F16] = 19,
      [LS_DTYPE_BF16] = 14, [LS_DTYPE_I8] = 6,        [LS_DTYPE_I16] = 5,
      [LS_DTYPE_I32] = 3,   [LS_DTYPE_I64] = 9,       [LS_DTYPE_U8] = 4,
      [LS_DTYPE_U16] = 17,  [LS_DTYPE_U32] = 22,      [LS_DTYPE_U64] = 23,
      [LS_DTYPE_BOOL] = 10, [LS_DTYPE_STRING] = 7,    [LS_DTYPE_C64] = 8,
      [LS_DTYPE_C128] = 18, [LS_DTYPE_RESOURCE] = 20, [LS_DTYPE_VARIANT] = 21,
  };
  return numbers[dtype];
}

static void add_metadata(ls_text *out, const char *plugin, int64_t class) {
  const size_t metadata = ls_proto_begin(out, VALUE_METADATA);
  const size_t began = ls_proto_begin(out, METADATA_PLUGIN);
  ls_proto_string(out, PLUGIN_NAME, plugin);
  ls_proto_end(out, began);
  ls_proto_i64(out, METADATA_CLASS, class);
  ls_proto_end(out, metadata);
}

// Starts a tensor; the caller adds the elements and ends it.
static size_t begin_tensor(ls_text *out, ls_dtype dtype, const int64_t *sizes,
                           int rank) {
  const size_t tensor = ls_proto_begin(out, VALUE_TENSOR);
  ls_proto_i64(out, TENSOR_TYPE, ls_events_type_of(dtype));
  const size_t shape = ls_proto_begin(out, TENSOR_SHAPE);
  for (int i = 0; i < rank; ++i) {
    const size_t size = ls_proto_begin(out, SHAPE_SIZE);
    ls_proto_i64(out, SIZE_SIZE, sizes[i]);
    ls_proto_end(out, size);
  }
  ls_proto_end(out, shape);
  return tensor;
}

void ls_events_add_images(ls_text *out, ls_event_time at, const char *tag,
                          int64_t width, int64_t height, const ls_bytes *files,
                          size_t count) {
  const value made = begin_value(out, at, tag);
  add_metadata(out, "images", CLASS_BLOBS);
  const int64_t size = 2 + (int64_t)count;
  const size_t tensor = begin_tensor(out, LS_DTYPE_STRING, &size, 1);
  char text[24];
  ls_proto_string(out, TENSOR_STRINGS, ls_print_i64(width, text));
  ls_proto_string(out, TENSOR_STRINGS, ls_print_i64(height, text));
  for (size_t i = 0; i < count; ++i)
    ls_proto_bytes(out, TENSOR_STRINGS, files[i].data, files[i].size);
  ls_proto_end(out, tensor);
  end_value(out, made);
}

void ls_events_add_texts(ls_text *out, ls_event_time at, const char *tag,
                         ls_shape shape, const ls_bytes *texts) {
  const value made = begin_value(out, at, tag);
  add_metadata(out, "text", CLASS_TENSOR);
  const size_t tensor =
      begin_tensor(out, LS_DTYPE_STRING, shape.dim, shape.rank);
  size_t count = 1;
  for (int i = 0; i < shape.rank; ++i)
    count *= (size_t)shape.dim[i];
  for (size_t i = 0; i < count; ++i)
    ls_proto_bytes(out, TENSOR_STRINGS, texts[i].data, texts[i].size);
  ls_proto_end(out, tensor);
  end_value(out, made);
}

void ls_events_add_tensor(ls_text *out, ls_event_time at, const char *tag,
                          const ls_array *array) {
  const ls_shape shape = ls_array_shape(array);
  const ls_dtype dtype = ls_array_dtype(array);
  const value made = begin_value(out, at, tag);
  const size_t tensor = begin_tensor(out, dtype, shape.dim, shape.rank);
  const ls_bytes *texts = ls_array_data(array);
  if (dtype != LS_DTYPE_STRING)
    ls_proto_bytes(out, TENSOR_CONTENT, ls_array_data(array),
                   ls_array_size(array));
  else
    for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
      ls_proto_bytes(out, TENSOR_STRINGS, texts[i].data, texts[i].size);
  ls_proto_end(out, tensor);
  end_value(out, made);
}

// ---- Values of serialized summaries ----------------------------------------
// Returns true if the field belongs to a value; `*out_shows`: it is the content
// of the value.
static bool is_of_value(const ls_proto_field *field, bool *out_shows) {
  enum { VALUE_OLD_HISTOGRAM = 3, VALUE_IMAGE = 4, VALUE_AUDIO = 6, NODE = 7 };
  *out_shows = field->number != VALUE_TAG && field->number != NODE &&
               field->number != VALUE_METADATA;
  switch (field->number) {
  case VALUE_SCALAR:
    return field->type == LS_PROTO_FIXED_32;
  case VALUE_TAG:
  case NODE:
  case VALUE_METADATA:
  case VALUE_OLD_HISTOGRAM:
  case VALUE_IMAGE:
  case VALUE_HISTOGRAM:
  case VALUE_AUDIO:
  case VALUE_TENSOR:
    return field->type == LS_PROTO_BYTES;
  default:
    return false;
  }
}

// Returns true if the value has content.
static bool has_content(ls_proto_input in) {
  bool shows = false;
  ls_proto_field field = {0};
  while (ls_proto_next(&in, &field)) {
    bool does = false;
    if (!is_of_value(&field, &does)) return false;
    shows |= does;
  }
  return shows && field.wrong == NULL;
}

static bool field_is(const ls_proto_field *field, uint32_t number,
                     ls_proto_type type) {
  return field->number == number && field->type == type;
}

static size_t count_summary_values(ls_bytes summary) {
  ls_proto_input in = ls_proto_message_of(summary);
  ls_proto_field field = {0};
  size_t count = 0;
  for (; ls_proto_next(&in, &field); ++count)
    if (!field_is(&field, SUMMARY_VALUE, LS_PROTO_BYTES) ||
        !has_content(ls_proto_message(&field)))
      return 0;
  return field.wrong == NULL ? count : 0;
}

// Adds all fields of a value except its tag.
static void add_rest(ls_text *out, ls_proto_input in) {
  ls_proto_field field = {0};
  while (ls_proto_next(&in, &field))
    if (field.number != VALUE_TAG)
      ls_text_append_bytes(out, field.begin, (size_t)(in.at - field.begin));
}

size_t ls_events_add_summary(ls_text *out, ls_event_time at, const char *tag,
                             int64_t first, ls_bytes summary) {
  ls_proto_input in = ls_proto_message_of(summary);
  ls_proto_field field = {0};
  const size_t count = count_summary_values(summary);
  if (count == 0) return 0;
  LS_OWN(ls_text, name) = {.allocator = out->allocator};
  for (size_t i = 0; ls_proto_next(&in, &field); ++i) {
    ls_text_clear(&name);
    ls_text_append_format(&name, "%s/%lld", tag,
                          (long long)first + (long long)i);
    const value made = begin_value(out, at, ls_text_data(&name));
    add_rest(out, ls_proto_message(&field));
    end_value(out, made);
    out->failed |= name.failed;
  }
  return count;
}

void ls_events_add_graph(ls_text *out, ls_event_time at, const void *graph,
                         size_t size) {
  const size_t record = begin_record(out, at);
  ls_proto_bytes(out, EVENT_GRAPH, graph, size);
  end_record(out, record);
}

// ---- Reading ---------------------------------------------------------------
// Reads records in two passes, so that the visitor never sees part of a damaged
// one.
typedef struct visit {
  ls_event_time at;
  const ls_events_visitor *visitor;  // NULL in the first pass.
} visit;

static double field_number(uint64_t bits) {
  double number;
  memcpy(&number, &bits, sizeof(number));
  return number;
}

static const char *read_summary_value(const visit *self, ls_proto_input in) {
  ls_bytes tag = {"", 0};
  double scalar = 0;
  bool has_scalar = false;
  ls_proto_field field = {0};
  while (ls_proto_next(&in, &field)) {
    if (field_is(&field, VALUE_TAG, LS_PROTO_BYTES))
      tag = (ls_bytes){(const char *)field.at, (size_t)field.value};
    if (field_is(&field, VALUE_SCALAR, LS_PROTO_FIXED_32)) {
      scalar = (double)ls_float_of_bits((uint32_t)field.value);
      has_scalar = true;
    }
  }
  if (field.wrong == NULL && has_scalar && self->visitor != NULL)
    self->visitor->scalar(self->visitor->user, self->at, tag, scalar);
  return field.wrong;
}

static const char *read_summary(const visit *self, ls_proto_input in) {
  ls_proto_field field = {0};
  while (ls_proto_next(&in, &field)) {
    if (!field_is(&field, SUMMARY_VALUE, LS_PROTO_BYTES)) continue;
    const char *wrong = read_summary_value(self, ls_proto_message(&field));
    if (wrong != NULL) return wrong;
  }
  return field.wrong;
}

static const char *read_session(const visit *self, ls_proto_input in) {
  ls_proto_field field = {0};
  while (ls_proto_next(&in, &field))
    if (self->visitor != NULL &&
        field_is(&field, SESSION_STATUS, LS_PROTO_VARINT) &&
        field.value == SESSION_START)
      self->visitor->start(self->visitor->user, self->at);
  return field.wrong;
}

// The first pass finds the time, which may follow the contents.
static const char *read_event(visit *self, ls_proto_input in) {
  ls_proto_field field = {0};
  while (ls_proto_next(&in, &field)) {
    const char *wrong = NULL;
    if (field_is(&field, EVENT_SECONDS, LS_PROTO_FIXED_64))
      self->at.seconds = field_number(field.value);
    if (field_is(&field, EVENT_STEP, LS_PROTO_VARINT))
      self->at.step = (int64_t)field.value;
    if (field_is(&field, EVENT_SUMMARY, LS_PROTO_BYTES))
      wrong = read_summary(self, ls_proto_message(&field));
    if (field_is(&field, EVENT_SESSION, LS_PROTO_BYTES))
      wrong = read_session(self, ls_proto_message(&field));
    if (wrong != NULL) return wrong;
  }
  return field.wrong;
}

const char *ls_events_visit(ls_bytes record, const ls_events_visitor *visitor) {
  const ls_proto_input in = ls_proto_message_of(record);
  visit self = {.visitor = NULL};
  const char *wrong = read_event(&self, in);
  if (wrong != NULL) return wrong;
  self.visitor = visitor;
  return read_event(&self, in);
}
