// SPDX-License-Identifier: Apache-2.0
// Layer: train
//
// Event files, which TensorBoard shows: numbers over the steps of a run,
// histograms, images, texts, and the graph of a step. Numbers can be read back.
//
//   ls_event_writer *writer = NULL;
//   ls_status status = ls_event_writer_open(
//       &(ls_event_writer_options){.folder = "events"}, &writer);
//   ...
//   status = ls_event_writer_scalar(writer, "loss", step, loss);
//   ...
//   status = ls_event_writer_close(writer);
//
// To write what a program records in its steps (lockstep/summary.h), create
//
//   ls_summary_writer_create(ls_event_writer_record, writer, &summaries)
//
// Threads: any number of threads may use a writer at the same time; one closes
// it, when no other uses it.
#ifndef LOCKSTEP_EVENTS_H_
#define LOCKSTEP_EVENTS_H_

#include "lockstep/graph.h"
#include "lockstep/summary.h"

#ifdef __cplusplus
extern "C" {
#endif

// Writes the files of one folder, which TensorBoard shows as one run: one file,
// and another one after a failure.
typedef struct ls_event_writer ls_event_writer;

// Options of a writer. Zero in a field means its default.
typedef struct ls_event_writer_options {
  const char *folder;  // Required; created if missing.
  // First step of this run: TensorBoard then hides what earlier files of the
  // folder have for it and later steps. A run that resumes after step 100 gives
  // 101. Default: hides nothing.
  int64_t first_step;
  // Longest time that added values stay in memory: the first addition after
  // that writes everything. LS_SOME(0): each at once. Default 5.
  ls_opt flush_seconds;
  // Number of additions that are written at once. Default: any number may stay,
  // up to 1 MiB.
  ls_opt max_queue;
  const char *suffix;  // Suffix of the files' names. Default: none.
  // Creates the file at once, so that files of writers opened later on the
  // folder sort after it.
  bool begins;
} ls_event_writer_options;

// Opens a writer; the caller closes it. The file is created when something is
// first written, unless `begins` is set:
// events.out.tfevents.SECONDS.HOST.PROCESS.NUMBER, whose name sorts after those
// of all files already in the folder.
//   LS_INVALID_ARGUMENT  a number is too small; a suffix has a '/'.
LS_API LS_MUST_USE ls_status ls_event_writer_open(
    const ls_event_writer_options *options, ls_event_writer **out_writer);
// Writes what is left and frees the writer. NULL is fine. Returns the first
// failure of ls_event_writer_record since the last flush, or its own.
LS_API LS_MUST_USE ls_status ls_event_writer_close(ls_event_writer *writer);
// Writes everything added, so that readers see it. Returns the same statuses as
// close. Values that could not be written are lost; later ones go to another
// file.
LS_API LS_MUST_USE ls_status ls_event_writer_flush(ls_event_writer *writer);

// All functions below add a value at a step, under a tag, whose parts,
// separated by '/', are shown as groups. They fail if a write that is due
// fails:
//   UNAVAILABLE or the file system's error, with the file's name.

LS_API LS_MUST_USE ls_status ls_event_writer_scalar(ls_event_writer *writer,
                                                    const char *tag,
                                                    int64_t step, double value);
// Adds the distribution of the elements, in 30 ranges of equal width.
// Infinities and NaNs are left out.
//   LS_INVALID_ARGUMENT  neither floats, integers nor bool.
LS_API LS_MUST_USE ls_status ls_event_writer_histogram(ls_event_writer *writer,
                                                       const char *tag,
                                                       int64_t step,
                                                       const ls_array *values);
// Adds the elements as they are, of any type and shape: for programs that read
// them; TensorBoard does not show them.
LS_API LS_MUST_USE ls_status ls_event_writer_tensor(ls_event_writer *writer,
                                                    const char *tag,
                                                    int64_t step,
                                                    const ls_array *values);
// Adds the values of a serialized tensorflow.Summary made elsewhere, each under
// TAG/I, where I counts from `first`. Sets their number; 0: the bytes are no
// summary with something to show, and nothing is written.
LS_API LS_MUST_USE ls_status
ls_event_writer_summary(ls_event_writer *writer, const char *tag, int64_t step,
                        int64_t first, ls_bytes summary, size_t *out_count);
// Adds an image [height, width, channels], of 1 to 4 channels as in image.h, or
// several in [n, height, width, channels]. u8 or u16; floats are 0 to 1, and
// values outside are clamped.
//   LS_INVALID_ARGUMENT  another type or shape: names it.
LS_API LS_MUST_USE ls_status ls_event_writer_image(ls_event_writer *writer,
                                                   const char *tag,
                                                   int64_t step,
                                                   const ls_array *image);
// Adds a text in Markdown.
LS_API LS_MUST_USE ls_status ls_event_writer_text(ls_event_writer *writer,
                                                  const char *tag, int64_t step,
                                                  const char *text);
// Adds a graph with its name scopes, shapes and devices; TensorBoard shows one
// per folder, the last. The ops of loops and branches are in name scopes of
// their own.
//   LS_FAILED_PRECONDITION  the eager graph, which has none.
LS_API LS_MUST_USE ls_status ls_event_writer_graph(ls_event_writer *writer,
                                                   const ls_graph *graph);

// Adds a summary by its type: a scalar of numbers as such, u8 [h, w, c] or [n,
// h, w, c] of 1 to 4 channels as images, strings as texts, others as
// histograms. Is an ls_summary_function; the writer must outlive the summary
// writer. ls_event_writer_flush returns failures.
LS_API void ls_event_writer_record(void *writer,
                                   const ls_summary_record *record);

// ---- Reading ---------------------------------------------------------------
// A number in an event file.
typedef struct ls_event_number {
  const char *tag;
  int64_t step;
  double value;    // Rounded to 32 bits, as written.
  double seconds;  // Since 1970.
} ls_event_number;

// Sorted by step, then by tag; of duplicates only the last one.
typedef struct ls_event_numbers {
  const ls_event_number *items;
  size_t count;
} ls_event_numbers;

// Reads the numbers under a tag (NULL: under all) in all event files of a
// folder, whoever wrote them. As TensorBoard does, drops numbers at or after a
// step at which a later run started again. Skips the rest of a file after a
// damaged or truncated record, with a line in the log, once per file. A missing
// folder has no numbers. The caller frees them with ls_event_numbers_destroy.
LS_API LS_MUST_USE ls_status ls_events_read(const char *folder, const char *tag,
                                            ls_event_numbers **out_numbers);
LS_API void ls_event_numbers_destroy(ls_event_numbers *numbers);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_EVENTS_H_
