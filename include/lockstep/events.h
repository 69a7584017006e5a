// SPDX-License-Identifier: Apache-2.0
// Layer: train
//
// Event files, which TensorBoard shows: numbers over the steps of a run,
// histograms, images, texts, and the graph of a step. Numbers are read again.
//
//   ls_event_writer *writer = NULL;
//   ls_status status = ls_event_writer_open(
//       &(ls_event_writer_options){.folder = "events"}, &writer);
//   ...
//   status = ls_event_writer_scalar(writer, "loss", step, loss);
//   ...
//   status = ls_event_writer_close(writer);
//
// What a program records in its steps (lockstep/summary.h) goes there by
//
//   ls_summary_writer_create(ls_event_writer_record, writer, &summaries)
//
// Threads: any number of threads may use a writer at the same time; one closes
// it, when nobody else does.
#ifndef LOCKSTEP_EVENTS_H_
#define LOCKSTEP_EVENTS_H_

#include "lockstep/graph.h"
#include "lockstep/summary.h"

#ifdef __cplusplus
extern "C" {
#endif

// Writes the files of one folder, which TensorBoard shows as one run: one file,
// and after a failure another one.
typedef struct ls_event_writer ls_event_writer;

// Where and how to write. Zero in a field means its default.
typedef struct ls_event_writer_options {
  const char *folder;  // Required; made if it is not there.
  // The first step that is not from before: what former files of the folder say
  // of it and of later ones is shown no more. A run that goes on behind step
  // 100 gives 101. Default: nothing of theirs is.
  int64_t first_step;
  // How long what is added may stay in memory: when more is added later than
  // that, all is written. LS_SOME(0): at once. Default 5.
  ls_opt flush_seconds;
  ls_opt max_queue;    // So many that were added are written at once. Default:
                       // any number may stay, up to 1 MiB.
  const char *suffix;  // Of the files' names. Default: none.
  bool begins;         // The file is made at once: those that other writers of
                       // the folder make later stand behind it.
} ls_event_writer_options;

// Opens a writer. Nothing is in the folder before something is written, unless
// it begins at once. What is there then is a file
// events.out.tfevents.SECONDS.HOST.PROCESS.NUMBER, whose name sorts behind
// those of all others that are there.
//   LS_INVALID_ARGUMENT  a number that is too small; a suffix with a '/'.
LS_API LS_MUST_USE ls_status ls_event_writer_open(
    const ls_event_writer_options *options, ls_event_writer **out_writer);
// Writes what is left and frees. NULL is fine. The first failure of
// ls_event_writer_record since the last flush, or its own.
LS_API LS_MUST_USE ls_status ls_event_writer_close(ls_event_writer *writer);
// Writes all that was added, to be seen by others. The same statuses. What
// could not be written is lost; what is added later goes to another file.
LS_API LS_MUST_USE ls_status ls_event_writer_flush(ls_event_writer *writer);

// All below add something under a tag, whose parts, separated by '/', are shown
// as groups, at a step. They fail with a write that is due:
//   UNAVAILABLE or what else the file system says, with the file.

LS_API LS_MUST_USE ls_status ls_event_writer_scalar(ls_event_writer *writer,
                                                    const char *tag,
                                                    int64_t step, double value);
// How the elements are spread, in 30 ranges of one width. Infinities and NaNs
// are left out.
//   LS_INVALID_ARGUMENT  neither floats, integers nor bool.
LS_API LS_MUST_USE ls_status ls_event_writer_histogram(ls_event_writer *writer,
                                                       const char *tag,
                                                       int64_t step,
                                                       const ls_array *values);
// The elements as they are, of any type and shape: kept for programs that read
// them, TensorBoard draws nothing of them.
LS_API LS_MUST_USE ls_status ls_event_writer_tensor(ls_event_writer *writer,
                                                    const char *tag,
                                                    int64_t step,
                                                    const ls_array *values);
// What somebody else has put together: the values of a serialized
// tensorflow.Summary, each under TAG/I, where I counts from `first`. How many
// they are; 0: the bytes are no summary that shows anything, and nothing is
// written.
LS_API LS_MUST_USE ls_status
ls_event_writer_summary(ls_event_writer *writer, const char *tag, int64_t step,
                        int64_t first, ls_bytes summary, size_t *out_count);
// An image [height, width, channels], of 1 to 4 channels as in image.h, or
// several in [n, height, width, channels]. u8 or u16; floats are 0 to 1, and
// what is beyond is cut off.
//   LS_INVALID_ARGUMENT  another type or shape: names it.
LS_API LS_MUST_USE ls_status ls_event_writer_image(ls_event_writer *writer,
                                                   const char *tag,
                                                   int64_t step,
                                                   const ls_array *image);
// Markdown.
LS_API LS_MUST_USE ls_status ls_event_writer_text(ls_event_writer *writer,
                                                  const char *tag, int64_t step,
                                                  const char *text);
// A graph with its name scopes, shapes and devices; one a folder is shown, the
// last. What loops and branches hold stands in a scope of theirs.
//   LS_FAILED_PRECONDITION  the eager graph has none.
LS_API LS_MUST_USE ls_status ls_event_writer_graph(ls_event_writer *writer,
                                                   const ls_graph *graph);

// A summary, by what it is: a scalar of numbers as such, u8 [h, w, c] or
// [n, h, w, c] of 1 to 4 channels as images, strings as texts, others as
// histograms. Fits ls_summary_function; the writer lives longer than the
// summary writer. See ls_event_writer_flush for failures.
LS_API void ls_event_writer_record(void *writer,
                                   const ls_summary_record *record);

// ---- Reading ---------------------------------------------------------------
// What an event file says of a number.
typedef struct ls_event_number {
  const char *tag;
  int64_t step;
  double value;    // As it was written: of 32 bits.
  double seconds;  // Since 1970.
} ls_event_number;

// By step, then by tag; of those that are said twice the last alone.
typedef struct ls_event_numbers {
  const ls_event_number *items;
  size_t count;
} ls_event_numbers;

// What all event files of a folder, whoever has written them, say of numbers
// under a tag; NULL: under all. As when it is shown, a run that has begun
// again at a step takes back what was said of it and of later ones before.
// Where a file is damaged or cut off, what is behind that is passed over, with
// a line in the log, once for each file. A folder that is not there has none.
// Given back with ls_event_numbers_destroy.
LS_API LS_MUST_USE ls_status ls_events_read(const char *folder, const char *tag,
                                            ls_event_numbers **out_numbers);
LS_API void ls_event_numbers_destroy(ls_event_numbers *numbers);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_EVENTS_H_
