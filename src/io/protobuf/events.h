// SPDX-License-Identifier: Apache-2.0
// Event files: TFRecords of tensorflow.Event messages, as TensorBoard reads
// them, and a reader for some of their records.
//
// Each call but the last appends one record, ready to be written. Scalars and
// histograms have fields of their own, which all readers know; images and texts
// are tensors of strings that name their TensorBoard plugin; a plain tensor
// names none. The text reports a lack of memory.
//
// Thread-compatible.
#ifndef LS_IO_PROTOBUF_EVENTS_H_
#define LS_IO_PROTOBUF_EVENTS_H_

#include "base/text.h"
#include "lockstep/array.h"

// Time of an event.
typedef struct ls_event_time {
  double seconds;  // Seconds since 1970.
  int64_t step;
} ls_event_time;

// Appends the first record of a file.
void ls_events_add_version(ls_text *out, ls_event_time at);
// Appends the start or resumption of a run: it voids earlier records of this
// and later steps.
void ls_events_add_start(ls_text *out, ls_event_time at);

void ls_events_add_scalar(ls_text *out, ls_event_time at, const char *tag,
                          double value);

// Counts of values in `count` ranges of equal width, from `least` to `most`.
// `count` is 1 if there are fewer than two distinct values.
enum { LS_HISTOGRAM_RANGES = 30 };
typedef struct ls_histogram {
  double least, most, values, sum, sum_squares;
  size_t count;
  double limits[LS_HISTOGRAM_RANGES];  // End of each range.
  double counts[LS_HISTOGRAM_RANGES];
} ls_histogram;
void ls_events_add_histogram(ls_text *out, ls_event_time at, const char *tag,
                             const ls_histogram *histogram);

// Appends a list of PNG files of one size.
void ls_events_add_images(ls_text *out, ls_event_time at, const char *tag,
                          int64_t width, int64_t height, const ls_bytes *files,
                          size_t count);
// Appends texts in Markdown, as a table of that shape.
void ls_events_add_texts(ls_text *out, ls_event_time at, const char *tag,
                         ls_shape shape, const ls_bytes *texts);

// Appends an array of any shape, which readers get unchanged.
void ls_events_add_tensor(ls_text *out, ls_event_time at, const char *tag,
                          const ls_array *array);
// Returns TensorFlow's number of a dtype.
int64_t ls_events_type_of(ls_dtype dtype);

// Appends the values of a serialized Summary, unchanged except for their tags:
// TAG/I, where I counts from `first`. Returns their number; 0 if the bytes are
// no summary with values, and then appends nothing.
size_t ls_events_add_summary(ls_text *out, ls_event_time at, const char *tag,
                             int64_t first, ls_bytes summary);

// Appends a GraphDef.
void ls_events_add_graph(ls_text *out, ls_event_time at, const void *graph,
                         size_t size);

// ---- Reading ---------------------------------------------------------------
// Callbacks for a record's contents: a scalar with its tag, which is lent; and
// the start of a run, see ls_events_add_start.
typedef struct ls_events_visitor {
  void (*scalar)(void *user, ls_event_time at, ls_bytes tag, double value);
  void (*start)(void *user, ls_event_time at);
  void *user;
} ls_events_visitor;

// Reads a record's bytes and calls the visitor; ignores other contents. Returns
// NULL on success, else static text that describes the error; then the visitor
// was not called.
const char *ls_events_visit(ls_bytes record, const ls_events_visitor *visitor);

#endif  // LS_IO_PROTOBUF_EVENTS_H_
