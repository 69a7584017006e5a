// SPDX-License-Identifier: Apache-2.0
// Field numbers of TensorFlow's event.proto, summary.proto and tensor.proto.
#ifndef LS_IO_PROTOBUF_EVENTS_FIELDS_H_
#define LS_IO_PROTOBUF_EVENTS_FIELDS_H_

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

#endif  // LS_IO_PROTOBUF_EVENTS_FIELDS_H_
