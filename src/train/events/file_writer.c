// SPDX-License-Identifier: Apache-2.0
// Writers of event files for graphs: one op begins a file, another flushes it.
#include "base/require.h"
#include "base/values/nest_internal.h"
#include "distribute/own.h"
#include "distribute/values/values.h"
#include "graph/trial.h"
#include "lockstep/events.h"
#include "lockstep/nest.h"
#include "lockstep/summary_ops.h"

typedef struct file_writer {
  ls_allocator *allocator;
  ls_runtime *runtime;
  ls_event_writer *events;
  ls_op initializer, flusher;  // Made in a build graph.
  bool ready;                  // Atomic.
  char folder[];
} file_writer;

// ---- The class of writers --------------------------------------------------
static void file_writer_record(void *user, const ls_summary_record *record) {
  ls_event_writer_record(((file_writer *)user)->events, record);
}

static ls_status file_writer_is_ready(void *user) {
  const file_writer *self = user;
  if (__atomic_load_n(&self->ready, __ATOMIC_ACQUIRE)) return ls_ok();
  return ls_failed_precondition(
      "the writer of event files in '%s' is not initialized: run its "
      "initializer first (ls_file_writer_initializer, and all in collection "
      "'" LS_COLLECTION_SUMMARY_WRITER_INIT "')",
      self->folder);
}

static void file_writer_destroy(void *user) {
  file_writer *self = user;
  const ls_status status = ls_event_writer_close(self->events);
  if (!ls_status_is_ok(status))
    ls_runtime_log(self->runtime, LS_LOG_WARNING, "train",
                   "the last summaries of '%s' are lost: %s", self->folder,
                   ls_status_message(status));
  ls_status_free(status);
  ls_release(self->allocator, self);
}

static const ls_summary_writer_kind kind = {.name = "file writer",
                                            .ready = file_writer_is_ready,
                                            .destroy = file_writer_destroy};

static file_writer *files_of(const ls_summary_writer *writer) {
  return writer != NULL && writer->kind == &kind ? writer->user : NULL;
}

// ---- Its ops ---------------------------------------------------------------
static uint64_t file_writer_order(const ls_object *state) {
  return (uint64_t)(uintptr_t)state;
}

static ls_status file_writer_initialize(ls_host_call *call) {
  file_writer *self =
      files_of((const ls_summary_writer *)(const void *)call->state);
  __atomic_store_n(&self->ready, true, __ATOMIC_RELEASE);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static ls_status file_writer_flush(ls_host_call *call) {
  const file_writer *self =
      files_of((const ls_summary_writer *)(const void *)call->state);
  LS_RETURN_IF_ERROR(ls_event_writer_flush(self->events));
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel initialize_kernel = {
    .name = "initialize summary writer",
    .start = file_writer_initialize,
    .flags = LS_HOST_ALL,
    .order = file_writer_order};
static const ls_host_kernel flush_kernel = {.name = "flush summary writer",
                                            .start = file_writer_flush,
                                            .flags = LS_HOST_ALL,
                                            .order = file_writer_order};

static ls_status file_writer_add_op(ls_summary_writer *writer,
                                    const ls_host_kernel *kernel,
                                    const char *collection, ls_op *out_op) {
  *out_op = ls_host_call_add(kernel, &writer->object, NULL, 0);
  // The enclosing trial reports the reason.
  if (ls_op_is_failed(*out_op)) return ls_ok();
  return ls_graph_add_to_collection(out_op->graph, collection,
                                    ls_nest_op(*out_op));
}

static ls_status add_ops(ls_summary_writer *writer) {
  file_writer *self = writer->user;
  LS_RETURN_IF_ERROR(file_writer_add_op(writer, &initialize_kernel,
                                        LS_COLLECTION_SUMMARY_WRITER_INIT,
                                        &self->initializer));
  return file_writer_add_op(writer, &flush_kernel,
                            LS_COLLECTION_SUMMARY_WRITER_FLUSH, &self->flusher);
}

// Adds the ops outside of functions and computations.
static ls_status add_outside(ls_summary_writer *writer) {
  LS_INIT_SCOPE;
  if (ls_graph_is_eager(ls_graph_current())) {
    ((file_writer *)writer->user)->ready = true;
    return ls_ok();
  }
  return LS_TRIAL(add_ops(writer));
}

// ---- Creation --------------------------------------------------------------
static ls_status open_events(file_writer *self,
                             const ls_file_writer_options *options) {
  const ls_opt queue = options->max_queue, seconds = options->flush_seconds;
  return ls_event_writer_open(
      &(ls_event_writer_options){
          .folder = self->folder,
          .first_step = INT64_MAX,  // Does not void existing events.
          .flush_seconds = seconds.set ? seconds : LS_SOME(120),
          .max_queue = queue.set ? queue : LS_SOME(10),
          .suffix = options->suffix},
      &self->events);
}

ls_status ls_file_writer_create(const ls_file_writer_options *options,
                                ls_summary_writer **out_writer) {
  LS_REQUIRE_OUT(out_writer, options, options->folder);
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  const size_t size = strlen(options->folder) + 1;
  file_writer *self = ls_allocate_zeroed(allocator, 1, sizeof(*self) + size);
  if (self == NULL) return ls_out_of_memory();
  self->allocator = allocator;
  self->runtime = runtime;
  memcpy(self->folder, options->folder, size);
  LS_OWN(ls_summary_writer, writer) = NULL;
  ls_status status = open_events(self, options);
  if (ls_status_is_ok(status))
    status = ls_summary_writer_make(&kind, file_writer_record, self, &writer);
  if (!ls_status_is_ok(status)) {
    file_writer_destroy(self);
    return status;
  }
  LS_RETURN_IF_ERROR(add_outside(writer));
  return ls_hand_over(&writer, out_writer);
}

// ---- Getters ---------------------------------------------------------------
ls_op ls_file_writer_initializer(const ls_summary_writer *writer) {
  const file_writer *self = files_of(writer);
  return self != NULL ? self->initializer : (ls_op){0};
}

ls_op ls_file_writer_flusher(const ls_summary_writer *writer) {
  const file_writer *self = files_of(writer);
  return self != NULL ? self->flusher : (ls_op){0};
}

ls_status ls_file_writer_flush(ls_summary_writer *writer) {
  LS_REQUIRE(writer);
  const file_writer *self = files_of(writer);
  return self != NULL
             ? ls_event_writer_flush(self->events)
             : ls_invalid_argument("a summary writer that writes no files "
                                   "cannot be flushed");
}

static ls_status file_writer_list_of(const ls_graph *graph,
                                     const char *collection,
                                     ls_nest *out_list) {
  if (out_list == NULL) return ls_ok();
  *out_list = ls_none();
  const size_t count = ls_graph_collection(graph, collection, NULL, 0);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count);
  ls_graph_collection(graph, collection, leaves, count);
  return ls_take_nest(ls_nest_sequence(LS_KIND_LIST, leaves, count), out_list);
}

ls_status ls_file_writers_of(const ls_graph *graph, ls_nest *out_initializers,
                             ls_nest *out_flushers) {
  LS_REQUIRE_OUT(out_initializers);
  LS_REQUIRE_OUT(out_flushers, graph);
  LS_OWN(ls_nest, initializers) = ls_none();
  LS_RETURN_IF_ERROR(file_writer_list_of(
      graph, LS_COLLECTION_SUMMARY_WRITER_INIT, &initializers));
  LS_RETURN_IF_ERROR(file_writer_list_of(
      graph, LS_COLLECTION_SUMMARY_WRITER_FLUSH, out_flushers));
  return ls_hand_over(&initializers, out_initializers);
}
