// SPDX-License-Identifier: Apache-2.0
//
// Writes event files. Records collect in memory under the writer's lock, and
// are appended to the file from time to time. After a failed append the file
// may end within a record, and readers would ignore anything after that: a new
// file is begun.
#define _GNU_SOURCE
#include <stdlib.h>
#include <unistd.h>

#include "base/files.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/threads/locked.h"
#include "io/png_write.h"
#include "lockstep/events.h"
#include "lockstep/shape_rules.h"
#include "train/events/run_events.h"

enum { MOST_BUFFERED = 1 << 20, FLUSH_SECONDS = 5 };

static const char prefix[] = "events.out.tfevents.";

struct ls_event_writer {
  ls_runtime *runtime;
  ls_allocator *allocator;
  int64_t first_step;
  int64_t flush_nanos;
  int64_t max_queue;
  ls_text suffix;
  ls_mutex lock;  // Guards the fields below.
  ls_text path;   // The folder, followed by the file's name if open.
  size_t folder;  // Length of the folder's part.
  bool has_file;
  ls_text records;   // Records not written yet,
  int64_t queued;    // and their number.
  ls_text graph;     // Graph being printed.
  int64_t flushed;   // Time of the last write.
  ls_status status;  // First failure of recording.
};

// ---- The file --------------------------------------------------------------
static ls_event_time event_writer_now(const ls_event_writer *writer,
                                      int64_t step) {
  return (ls_event_time){(double)ls_runtime_wall(writer->runtime) * 1e-9, step};
}

// Chooses the seconds in a new file's name, later than those of all files
// there: readers go through files in the order of their names.
static ls_status choose_seconds(ls_event_writer *writer, int64_t *out_seconds) {
  const ls_file_system *files = ls_runtime_files(writer->runtime);
  *out_seconds = ls_runtime_wall(writer->runtime) / 1000000000;
  if (files->list == NULL) return ls_ok();
  LS_OWN_MEMORY(writer->allocator, ls_file_entry, entries) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(files->list(files->user, ls_text_data(&writer->path),
                                 writer->allocator, &entries, &count));
  for (size_t i = 0; i < count; ++i) {
    if (strncmp(entries[i].name, prefix, sizeof(prefix) - 1) != 0) continue;
    const long long found =
        strtoll(entries[i].name + sizeof(prefix) - 1, NULL, 10);
    // Numbers of ten digits sort like texts.
    if (found >= *out_seconds && found < 9999999999) *out_seconds = found + 1;
  }
  return ls_ok();
}

static ls_status make_file(ls_event_writer *writer) {
  static int made;  // Makes names unique within the process.
  const ls_file_system *files = ls_runtime_files(writer->runtime);
  ls_text *path = &writer->path;
  path->data[writer->folder] = '\0';
  path->size = writer->folder;
  path->failed = false;
  LS_RETURN_IF_ERROR(files->make_directories(files->user, path->data));
  int64_t seconds = 0;
  LS_RETURN_IF_ERROR(choose_seconds(writer, &seconds));
  char host[65] = "";
  (void)!gethostname(host, sizeof(host) - 1);
  ls_text_append_format(path, "/%s%010lld.%s.%ld.%d", prefix,
                        (long long)seconds, host[0] != '\0' ? host : "host",
                        (long)getpid(),
                        __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED));
  ls_text_append(path, ls_text_data(&writer->suffix));
  LS_RETURN_IF_ERROR(ls_text_status(path));
  LS_OWN(ls_text, head) = {.allocator = writer->allocator};
  ls_events_add_version(&head, event_writer_now(writer, 0));
  // Only the writer's first file says at which step it starts.
  if (writer->first_step != INT64_MAX)
    ls_events_add_start(&head, event_writer_now(writer, writer->first_step));
  LS_RETURN_IF_ERROR(ls_text_status(&head));
  LS_RETURN_IF_ERROR(
      files->append(files->user, path->data, head.data, head.size));
  writer->has_file = true;
  writer->first_step = INT64_MAX;
  return ls_ok();
}

// ---- Opening ---------------------------------------------------------------
static void event_writer_destroy(ls_event_writer *writer) {
  ls_mutex_deinit(&writer->lock);
  ls_text_deinit(&writer->path);
  ls_text_deinit(&writer->suffix);
  ls_text_deinit(&writer->records);
  ls_text_deinit(&writer->graph);
  ls_status_free(writer->status);
  ls_runtime_release(writer->runtime, LS_MADE_EVENT_WRITER, writer);
}
LS_OWNED_POINTER(ls_event_writer, event_writer_destroy)

static ls_status event_writer_check(const ls_event_writer_options *options) {
  const ls_opt seconds = options->flush_seconds, queue = options->max_queue;
  if (seconds.set && (seconds.value < 0 || seconds.value > INT32_MAX))
    return ls_invalid_argument("flush_seconds is %lld, expected 0 or more",
                               seconds.value);
  if (queue.set && queue.value < 1)
    return ls_invalid_argument("max_queue is %lld, expected 1 or more",
                               queue.value);
  return options->suffix == NULL || options->suffix[0] == '\0'
             ? ls_ok()
             : ls_file_name_check("the suffix of a file's name",
                                  options->suffix);
}

ls_status ls_event_writer_open(const ls_event_writer_options *options,
                               ls_event_writer **out_writer) {
  LS_REQUIRE_OUT(out_writer, options, options->folder);
  LS_RETURN_IF_ERROR(event_writer_check(options));
  const ls_opt seconds = options->flush_seconds;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_OWN_NEW_OR_RETURN(allocator, ls_event_writer, writer);
  *writer = (ls_event_writer){
      .runtime = runtime,
      .allocator = allocator,
      .first_step = options->first_step,
      .flush_nanos =
          ls_nanos_of_seconds(seconds.set ? seconds.value : FLUSH_SECONDS),
      .max_queue =
          options->max_queue.set ? options->max_queue.value : INT64_MAX,
      .folder = strlen(options->folder),
      .flushed = ls_runtime_now(runtime)};
  ls_runtime_note_made(runtime, LS_MADE_EVENT_WRITER);
  ls_text_init(&writer->path, allocator);
  ls_text_init(&writer->records, allocator);
  ls_text_init(&writer->graph, allocator);
  ls_text_init(&writer->suffix, allocator);
  ls_text_append(&writer->path, options->folder);
  ls_text_append(&writer->suffix,
                 options->suffix != NULL ? options->suffix : "");
  LS_RETURN_IF_ERROR(ls_text_status(&writer->path));
  LS_RETURN_IF_ERROR(ls_text_status(&writer->suffix));
  LS_RETURN_IF_ERROR(ls_mutex_init(&writer->lock));
  if (options->begins) LS_RETURN_IF_ERROR(make_file(writer));
  return ls_hand_over(&writer, out_writer);
}

// ---- Writing ---------------------------------------------------------------
static ls_status write_out(ls_event_writer *writer) {
  const ls_file_system *files = ls_runtime_files(writer->runtime);
  LS_RETURN_IF_ERROR(ls_text_status(&writer->records));
  if (writer->records.size == 0) return ls_ok();
  if (!writer->has_file) LS_RETURN_IF_ERROR(make_file(writer));
  const ls_status status =
      files->append(files->user, writer->path.data, writer->records.data,
                    writer->records.size);
  writer->has_file = ls_status_is_ok(status);
  return status;
}

static ls_status event_writer_flush(ls_event_writer *writer) {
  const ls_status status = write_out(writer);
  ls_text_clear(&writer->records);
  writer->queued = 0;
  writer->flushed = ls_runtime_now(writer->runtime);
  return status;
}

// Joins the stored failure of recording with `status`.
static ls_status with_kept(ls_event_writer *writer, ls_status status) {
  const ls_status kept = writer->status;
  writer->status = ls_ok();
  return ls_status_join(kept, status);
}

ls_status ls_event_writer_flush(ls_event_writer *writer) {
  LS_REQUIRE(writer);
  return LS_LOCKED(&writer->lock,
                   with_kept(writer, event_writer_flush(writer)));
}

ls_status ls_event_writer_close(ls_event_writer *writer) {
  if (writer == NULL) return ls_ok();
  const ls_status status = with_kept(writer, event_writer_flush(writer));
  event_writer_destroy(writer);
  return status;
}

// ---- Adding ----------------------------------------------------------------
// Finishes a record that was added. Requires the lock.
static ls_status end_record(ls_event_writer *writer) {
  if (!writer->records.failed && writer->records.size < MOST_BUFFERED &&
      ++writer->queued < writer->max_queue &&
      ls_runtime_now(writer->runtime) - writer->flushed < writer->flush_nanos)
    return ls_ok();
  return event_writer_flush(writer);
}

// Adds a record with the lock held.
#define ADD_RECORD(writer, ...)                                                \
  LS_LOCKED(&(writer)->lock, ((__VA_ARGS__), end_record(writer)))

ls_status ls_event_writer_scalar(ls_event_writer *writer, const char *tag,
                                 int64_t step, double value) {
  LS_REQUIRE(writer, tag);
  return ADD_RECORD(writer, ls_events_add_scalar(&writer->records,
                                                 event_writer_now(writer, step),
                                                 tag, value));
}

ls_status ls_event_writer_histogram(ls_event_writer *writer, const char *tag,
                                    int64_t step, const ls_array *values) {
  LS_REQUIRE(writer, tag, values);
  const ls_dtype dtype = ls_array_dtype(values);
  if (!ls_dtype_is_float(dtype) && !ls_dtype_is_integer(dtype) &&
      dtype != LS_DTYPE_BOOL)
    return ls_invalid_argument(
        "histogram '%s' is of %s, expected floats, integers or bool", tag,
        LS_SHAPE_TEXT(dtype, ls_array_shape(values)));
  ls_histogram histogram;
  ls_histogram_of(values, &histogram);
  return ADD_RECORD(writer,
                    ls_events_add_histogram(&writer->records,
                                            event_writer_now(writer, step), tag,
                                            &histogram));
}

ls_status ls_event_writer_tensor(ls_event_writer *writer, const char *tag,
                                 int64_t step, const ls_array *values) {
  LS_REQUIRE(writer, tag, values);
  return ADD_RECORD(writer, ls_events_add_tensor(&writer->records,
                                                 event_writer_now(writer, step),
                                                 tag, values));
}

ls_status ls_event_writer_summary(ls_event_writer *writer, const char *tag,
                                  int64_t step, int64_t first, ls_bytes summary,
                                  size_t *out_count) {
  LS_REQUIRE_OUT(out_count, writer, tag);
  LS_REQUIRE_ITEMS(summary.data, summary.size);
  ls_mutex_lock(&writer->lock);
  *out_count = ls_events_add_summary(
      &writer->records, event_writer_now(writer, step), tag, first, summary);
  const ls_status status = *out_count > 0 ? end_record(writer) : ls_ok();
  ls_mutex_unlock(&writer->lock);
  return status;
}

// Adds one text, or a table of texts.
static ls_status add_texts(ls_event_writer *writer, const char *tag,
                           int64_t step, ls_shape shape,
                           const ls_bytes *texts) {
  return ADD_RECORD(writer, ls_events_add_texts(&writer->records,
                                                event_writer_now(writer, step),
                                                tag, shape, texts));
}

ls_status ls_event_writer_text(ls_event_writer *writer, const char *tag,
                               int64_t step, const char *text) {
  LS_REQUIRE(writer, tag, text);
  return add_texts(writer, tag, step, LS_SCALAR,
                   &(ls_bytes){text, strlen(text)});
}

ls_status ls_event_writer_graph(ls_event_writer *writer,
                                const ls_graph *graph) {
  LS_REQUIRE(writer, graph);
  ls_mutex_lock(&writer->lock);
  ls_text_clear(&writer->graph);
  ls_status status = ls_event_graph_print(graph, &writer->graph);
  if (ls_status_is_ok(status)) {
    ls_events_add_graph(&writer->records, event_writer_now(writer, 0),
                        writer->graph.data, writer->graph.size);
    status = end_record(writer);
  }
  ls_text_deinit(&writer->graph);  // The next one comes late, if at all.
  ls_mutex_unlock(&writer->lock);
  return status;
}

// ---- Images ----------------------------------------------------------------
// Some images of one size in an array.
typedef struct images {
  const ls_array *array;
  int64_t count, height, width;
  int channels;
  size_t bytes;  // Bytes of an image's unpadded pixels.
} images;

static bool event_writer_is_image(ls_shape shape) {
  const int r = shape.rank;
  if (r != 3 && r != 4) return false;
  return shape.dim[r - 1] >= 1 && shape.dim[r - 1] <= 4 &&
         shape.dim[r - 2] >= 1 && shape.dim[r - 3] >= 1 &&
         shape.dim[r - 2] <= INT32_MAX && shape.dim[r - 3] <= INT32_MAX;
}

static ls_status event_writer_look_at(const ls_array *array, const char *tag,
                                      images *out) {
  const ls_shape shape = ls_array_shape(array);
  const ls_dtype dtype = ls_array_dtype(array);
  const int r = shape.rank;
  if (!event_writer_is_image(shape) ||
      (dtype != LS_DTYPE_U8 && dtype != LS_DTYPE_U16 &&
       !ls_dtype_is_float(dtype)))
    return ls_invalid_argument(
        "image '%s' is %s, expected u8, u16 or floats of [height, width, "
        "channels] or [n, height, width, channels], with 1 to 4 channels",
        tag, LS_SHAPE_TEXT(dtype, shape));
  *out = (images){.array = array,
                  .count = r == 4 ? shape.dim[0] : 1,
                  .height = shape.dim[r - 3],
                  .width = shape.dim[r - 2],
                  .channels = (int)shape.dim[r - 1]};
  out->bytes = (size_t)(out->height * out->width) * (size_t)out->channels *
               (dtype == LS_DTYPE_U16 ? 2 : 1);
  return ls_ok();
}

static unsigned char byte_of(double x) {
  if (!(x > 0)) return 0;  // Catches NaN, too.
  return x >= 1 ? 255 : (unsigned char)(x * 255 + 0.5);
}

// Returns the pixels of an image as bytes; `room` takes converted floats.
static void *event_writer_pixels_of(const images *set, int64_t index,
                                    unsigned char *room) {
  if (room == NULL)
    return (char *)(uintptr_t)ls_array_data(set->array) +
           (size_t)index * set->bytes;
  for (size_t i = 0; i < set->bytes; ++i)
    room[i] = byte_of(
        ls_array_f64(set->array, index * (int64_t)set->bytes + (int64_t)i));
  return room;
}

// The encoded images of a record.
typedef struct image_files {
  ls_allocator *allocator;
  ls_bytes *items;
  size_t count;
} image_files;

static void image_files_deinit(image_files *files) {
  for (size_t i = 0; i < files->count; ++i)
    ls_release(files->allocator, files->items[i].data);
  ls_release(files->allocator, files->items);
}
LS_OWNED_STRUCT(image_files, image_files_deinit)

static ls_status encode(const images *set, unsigned char *room,
                        image_files *files) {
  for (int64_t i = 0; i < set->count; ++i) {
    const ls_pixels pixels = {
        .data = event_writer_pixels_of(set, i, room),
        .stride = set->bytes / (size_t)set->height,
        .width = set->width,
        .height = set->height,
        .channels = set->channels,
        .dtype = ls_array_dtype(set->array) == LS_DTYPE_U16 ? LS_DTYPE_U16
                                                            : LS_DTYPE_U8};
    unsigned char *bytes = NULL;
    LS_RETURN_IF_ERROR(ls_png_encode(files->allocator, &pixels, &bytes,
                                     &files->items[i].size));
    files->items[files->count++].data = (const char *)bytes;
  }
  return ls_ok();
}

ls_status ls_event_writer_image(ls_event_writer *writer, const char *tag,
                                int64_t step, const ls_array *image) {
  LS_REQUIRE(writer, tag, image);
  images set = {0};
  LS_RETURN_IF_ERROR(event_writer_look_at(image, tag, &set));
  LS_OWN(image_files, files) = {.allocator = writer->allocator};
  LS_OWN_MEMORY(writer->allocator, unsigned char, room) = NULL;
  LS_SET_ARRAY_OR_RETURN(files.allocator, ls_bytes, files.items,
                         (size_t)set.count);
  if (ls_dtype_is_float(ls_array_dtype(image))) {
    room = ls_allocate(writer->allocator, set.bytes);
    LS_RETURN_IF_NO_MEMORY(room);
  }
  LS_RETURN_IF_ERROR(encode(&set, room, &files));
  return ADD_RECORD(writer, ls_events_add_images(&writer->records,
                                                 event_writer_now(writer, step),
                                                 tag, set.width, set.height,
                                                 files.items, files.count));
}

// ---- Summaries -------------------------------------------------------------
static ls_status event_writer_record(ls_event_writer *writer,
                                     const ls_summary_record *record) {
  if (record == NULL)
    return ls_null_argument("ls_event_writer_record", "record");
  if (record->tag == NULL || record->value == NULL)
    return ls_null_argument("ls_event_writer_record", record->tag == NULL
                                                          ? "record->tag"
                                                          : "record->value");
  const ls_dtype dtype = ls_array_dtype(record->value);
  const ls_shape shape = ls_array_shape(record->value);
  if (record->kind == LS_SUMMARY_HISTOGRAM)
    return ls_event_writer_histogram(writer, record->tag, record->step,
                                     record->value);
  if (record->kind == LS_SUMMARY_IMAGE)
    return ls_event_writer_image(writer, record->tag, record->step,
                                 record->value);
  if (dtype == LS_DTYPE_STRING)
    return add_texts(writer, record->tag, record->step, shape,
                     ls_array_data(record->value));
  if (dtype == LS_DTYPE_U8 && event_writer_is_image(shape))
    return ls_event_writer_image(writer, record->tag, record->step,
                                 record->value);
  if (shape.rank == 0 && !ls_dtype_is_complex(dtype))
    return ls_event_writer_scalar(writer, record->tag, record->step,
                                  ls_array_f64(record->value, 0));
  return ls_event_writer_histogram(writer, record->tag, record->step,
                                   record->value);
}

void ls_event_writer_record(void *writer, const ls_summary_record *record) {
  ls_event_writer *self = writer;
  if (self == NULL) return;
  const ls_status status = event_writer_record(self, record);
  if (ls_status_is_ok(status)) return;
  ls_mutex_lock(&self->lock);
  self->status = ls_status_join(self->status, status);
  ls_mutex_unlock(&self->lock);
}
