// SPDX-License-Identifier: Apache-2.0
//
// Summaries. A summary is a host call. While replicas run op by op, only
// replica 0 makes summaries; in a trace all replicas have the same ops, and the
// call does nothing in other replicas.
#include "distribute/values/values.h"

#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "distribute/context/context.h"
#include "graph/make/make.h"

static void destroy_writer(ls_object *object) {
  ls_summary_writer *writer = (ls_summary_writer *)object;
  if (writer->kind != NULL) writer->kind->destroy(writer->user);
  ls_mutex_deinit(&writer->lock);
  ls_release(writer->allocator, writer);
}

static const ls_object_type writer_type = {.name = "summary writer",
                                           .destroy = destroy_writer};

ls_status ls_summary_writer_make(const ls_summary_writer_kind *kind,
                                 ls_summary_function function, void *user,
                                 ls_summary_writer **out_writer) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_MEMORY(allocator, ls_summary_writer, writer) =
      ls_new(allocator, ls_summary_writer);
  LS_RETURN_IF_NO_MEMORY(writer);
  LS_RETURN_IF_ERROR(ls_mutex_init(&writer->lock));
  ls_object_init(&writer->object, &writer_type);
  writer->allocator = allocator;
  writer->kind = kind;
  writer->function = function;
  writer->user = user;
  writer->every = 1;
  return ls_hand_over(&writer, out_writer);
}

ls_status ls_summary_writer_create(ls_summary_function function, void *user,
                                   ls_summary_writer **out_writer) {
  LS_REQUIRE_OUT(out_writer, function);
  return ls_summary_writer_make(NULL, function, user, out_writer);
}

LS_COUNTED(ls_summary_writer)

void ls_summary_writer_set_step(ls_summary_writer *writer, int64_t step) {
  __atomic_store_n(&writer->step, step, __ATOMIC_RELAXED);
}

void ls_summary_writer_set_every(ls_summary_writer *writer, int64_t steps) {
  __atomic_store_n(&writer->every, steps < 1 ? 1 : steps, __ATOMIC_RELAXED);
}

static const ls_scope_type summary_scope = {.name =
                                                "a scope of a summary writer"};

void ls_summary_scope_begin(ls_scope *scope, ls_summary_writer *writer) {
  ls_distribute_scoped_of(ls_context_open(scope, &summary_scope))
      ->summary_writer = writer;
}

// ---- The op ----------------------------------------------------------------
static void destroy_summary(ls_object *object) {
  ls_summary_state *s = (ls_summary_state *)object;
  ls_summary_writer_release(s->writer);
  ls_release(s->allocator, s);
}

// Returns true if the ops of two replicas are the same summary.
static bool same_summary(const ls_object *a, const ls_object *b) {
  const ls_summary_state *x = (const ls_summary_state *)a,
                         *y = (const ls_summary_state *)b;
  return x->writer == y->writer && x->kind == y->kind && x->every == y->every &&
         strcmp(x->tag, y->tag) == 0;
}

static const ls_object_type summary_type = {
    .name = "summary", .destroy = destroy_summary, .equal = same_summary};

ls_summary_state *ls_summary_state_make(ls_summary_writer *writer,
                                        ls_summary_kind kind, int64_t every,
                                        const char *tag) {
  char scope[LS_MAX_FULL_NAME];
  ls_name_scope_print(ls_context_current()->scoped.names, scope, sizeof(scope));
  const size_t size = strlen(scope) + strlen(tag) + 1;
  ls_allocator *allocator = ls_current_allocator();
  ls_summary_state *s = ls_allocate_zeroed(allocator, 1, sizeof(*s) + size);
  if (s == NULL) return NULL;
  ls_object_init(&s->object, &summary_type);
  s->allocator = allocator;
  s->writer = ls_summary_writer_retain(writer);
  s->kind = kind;
  s->every = every;
  snprintf(s->tag, size, "%s%s", scope, tag);
  return s;
}

// Returns true unless the call has the value of replica 0. A call for all
// replicas has that value first.
static bool is_not_due(const ls_host_call *call) {
  const ls_summary_writer *writer =
      ((const ls_summary_state *)call->state)->writer;
  return call->replica != 0 ||
         __atomic_load_n(&writer->step, __ATOMIC_RELAXED) %
                 __atomic_load_n(&writer->every, __ATOMIC_RELAXED) !=
             0;
}

ls_status ls_summary_write(ls_summary_writer *writer, ls_summary_kind kind,
                           const char *tag, int64_t step,
                           const ls_array *value) {
  if (writer->kind != NULL)
    LS_RETURN_IF_ERROR(writer->kind->ready(writer->user));
  const ls_summary_record made = {tag, step, value, kind};
  ls_mutex_lock(&writer->lock);
  writer->function(writer->user, &made);
  ls_mutex_unlock(&writer->lock);
  return ls_ok();
}

ls_status ls_summary_record_call(const ls_host_call *call,
                                 ls_summary_writer *writer,
                                 ls_summary_kind kind, const char *tag,
                                 int64_t step) {
  LS_OWN(ls_array, view) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create_view(
      call->input_types[0].dtype, call->input_types[0].shape,
      (void *)(uintptr_t)call->inputs[0], NULL, NULL, &view));
  return ls_summary_write(writer, kind, tag, step, view);
}

static ls_status summary_record(ls_host_call *call) {
  const ls_summary_state *s = (const ls_summary_state *)call->state;
  LS_RETURN_IF_ERROR(ls_summary_record_call(
      call, s->writer, s->kind, s->tag,
      __atomic_load_n(&s->writer->step, __ATOMIC_RELAXED)));
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel summary_kernel = {.name = "summary",
                                              .start = summary_record,
                                              .flags = LS_HOST_ALL,
                                              .skips = is_not_due};

const ls_summary_state *ls_summary_of(ls_op op) {
  const ls_attr *kernel = NULL, *state = NULL;
  ls_status_free(ls_op_attr(op, "kernel", &kernel));
  ls_status_free(ls_op_attr(op, "state", &state));
  return kernel != NULL && state != NULL && kernel->kind == LS_ATTR_KERNEL &&
                 kernel->as.kernel == &summary_kernel
             ? (const ls_summary_state *)state->as.object
             : NULL;
}

bool ls_summary_is_left_out(void) {
  const ls_distribution *entry = ls_distribution_current();
  return entry != NULL && entry->replica != NULL &&
         entry->replica->graph == NULL && entry->replica->id > 0;
}

static ls_op make_nothing(const ls_summary_writer *writer, const char *tag) {
  const ls_status status = writer->kind->instead(writer->user, tag);
  if (!ls_status_is_ok(status)) ls_make_failed("summary", status);
  return (ls_op){0};
}

ls_op ls_summary(const char *tag, ls_tensor value) {
  ls_summary_writer *writer = ls_distribute_scoped_here()->summary_writer;
  if (writer == NULL || ls_tensor_is_failed(value) || ls_summary_is_left_out())
    return (ls_op){0};
  if (!ls_summary_writer_records(writer)) return make_nothing(writer, tag);
  ls_summary_state *s =
      ls_summary_state_make(writer, LS_SUMMARY_BY_VALUE, 0, tag);
  if (s == NULL) {
    ls_make_failed("summary", ls_out_of_memory());
    return (ls_op){0};
  }
  const ls_op op = ls_host_call_add(&summary_kernel, &s->object, &value, 1);
  ls_object_release(s);
  if (op.id != 0 && op.graph->kind == LS_GRAPH_BUILD)
    ls_status_free(ls_graph_add_to_collection(op.graph, LS_COLLECTION_SUMMARIES,
                                              ls_nest_op(op)));
  return op;
}
