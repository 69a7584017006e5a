// SPDX-License-Identifier: Apache-2.0
// Event files: TFRecords of tensorflow.Event messages, as TensorBoard reads
// them; and what of a record is read again.
//
// Each call but the last appends one record, ready to be written. A scalar and
// a histogram are fields of their own, which all readers know; images and texts
// are tensors of strings that name the plugin which shows them; a tensor names
// none. Memory that
// runs out is told by the text.
//
// Thread-compatible.
#ifndef LS_IO_PROTOBUF_EVENTS_H_
#define LS_IO_PROTOBUF_EVENTS_H_

#include "base/text.h"
#include "lockstep/array.h"

// When it was.
typedef struct ls_event_time {
  double seconds;  // Since 1970.
  int64_t step;
} ls_event_time;

// What a file begins with.
void ls_events_add_version(ls_text *out, ls_event_time at);
// A run begins or goes on: what a file of before says of this step and later
// ones does not count.
void ls_events_add_start(ls_text *out, ls_event_time at);

void ls_events_add_scalar(ls_text *out, ls_event_time at, const char *tag,
                          double value);

// How values are spread over `count` ranges of one width, from `least` to
// `most`. Where there is but one value, or none, `count` is 1.
enum { LS_HISTOGRAM_RANGES = 30 };
typedef struct ls_histogram {
  double least, most, values, sum, sum_squares;
  size_t count;
  double limits[LS_HISTOGRAM_RANGES];  // Where each ends.
  double counts[LS_HISTOGRAM_RANGES];
} ls_histogram;
void ls_events_add_histogram(ls_text *out, ls_event_time at, const char *tag,
                             const ls_histogram *histogram);

// A list of PNG files of one size.
void ls_events_add_images(ls_text *out, ls_event_time at, const char *tag,
                          int64_t width, int64_t height, const ls_bytes *files,
                          size_t count);
// Texts in Markdown, a table of that shape.
void ls_events_add_texts(ls_text *out, ls_event_time at, const char *tag,
                         ls_shape shape, const ls_bytes *texts);

// Any array, for who asks for its elements: as it is, of any shape.
void ls_events_add_tensor(ls_text *out, ls_event_time at, const char *tag,
                          const ls_array *array);
// What TensorFlow's messages call a type.
int64_t ls_events_type_of(ls_dtype dtype);

// The values of a serialized Summary, as they are but for their tags: TAG/I,
// where I counts from `first`. How many there are; 0: the bytes are no summary
// that shows anything, and nothing is added.
size_t ls_events_add_summary(ls_text *out, ls_event_time at, const char *tag,
                             int64_t first, ls_bytes summary);

// A GraphDef.
void ls_events_add_graph(ls_text *out, ls_event_time at, const void *graph,
                         size_t size);

// ---- Reading ---------------------------------------------------------------
// Told what a record says: a scalar under a tag, which is lent; that a run
// begins or goes on, as of ls_events_add_start.
typedef struct ls_events_visitor {
  void (*scalar)(void *user, ls_event_time at, ls_bytes tag, double value);
  void (*start)(void *user, ls_event_time at);
  void *user;
} ls_events_visitor;

// Reads a record's bytes. What else it may say is passed over. NULL: all is
// read; else what is wrong with it, static text, and nobody was told anything.
const char *ls_events_visit(ls_bytes record, const ls_events_visitor *visitor);

#endif  // LS_IO_PROTOBUF_EVENTS_H_
