// SPDX-License-Identifier: Apache-2.0
#include "estimator/device/device_system.h"

#include "io/protobuf/protobuf_read.h"
#include "lockstep/infeed.h"
#include "lockstep/session.h"
#include "lockstep/shutdown_hooks.h"
#include "tpu/pod/pod.h"

// ---- Runs of their own -----------------------------------------------------
// Makes what is to be fetched in the current graph.
typedef ls_status (*build_function)(ls_estimator_context context,
                                    ls_nest *out_fetches);

static ls_status build_in(ls_graph *graph, ls_estimator_context context,
                          build_function build, ls_nest *out_fetches) {
  LS_GRAPH_SCOPE(graph);
  ls_estimator_scope scope;
  LS_RETURN_IF_ERROR(ls_estimator_scope_begin(&scope, context));
  const ls_status status = build(context, out_fetches);
  ls_estimator_scope_end(&scope);
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(ls_nest_status(*out_fetches));
  return ls_graph_take_error(graph);
}

static ls_status run_in(ls_graph *graph, ls_estimator_context context,
                        ls_nest fetches) {
  ls_session *session = NULL;
  ls_nest results = ls_none();
  LS_RETURN_IF_ERROR(ls_session_create_with(
      graph, ls_estimator_config(context)->session_config, &session));
  const ls_status status = ls_session_run(session, fetches, NULL, 0, &results);
  ls_nest_release(results);
  ls_session_destroy(session);
  return status;
}

static ls_status run_alone(ls_estimator_context context, build_function build) {
  ls_graph *graph = NULL;
  ls_nest fetches = ls_none();
  LS_RETURN_IF_ERROR(ls_graph_create("system", &graph));
  ls_status status = build_in(graph, context, build, &fetches);
  if (ls_status_is_ok(status)) status = run_in(graph, context, fetches);
  ls_nest_release(fetches);
  ls_graph_destroy(graph);
  return status;
}

// ---- The system ------------------------------------------------------------
static ls_status build_begin(ls_estimator_context context,
                             ls_nest *out_fetches) {
  const char *job = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_job(context, &job));
  *out_fetches = ls_leaf(ls_tpu_initialize_op(job));
  return ls_ok();
}

ls_status ls_device_system_begin(ls_estimator_context context) {
  ls_runtime *runtime = context.systems->runtime;
  const int64_t began = ls_runtime_now(runtime);
  ls_tpu_resolver *resolver = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_resolver(context, &resolver));
  // One that was shut down is not there any more.
  ls_status status = ls_tpu_connect(resolver);
  ls_tpu_resolver_release(resolver);
  if (ls_status_is_ok(status)) status = run_alone(context, build_begin);
  if (ls_status_is_ok(status))
    ls_runtime_log(runtime, LS_LOG_INFO, "estimator",
                   "initialized the TPU system in %.3f seconds",
                   (double)(ls_runtime_now(runtime) - began) * 1e-9);
  return status;
}

ls_status ls_device_system_clear(ls_estimator_context context) {
  ls_pod *pod = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_pod(context, &pod));
  if (pod != NULL) ls_pod_reset_queues(pod);
  ls_object_release(pod);
  return ls_ok();
}

static ls_status build_end(ls_estimator_context context, ls_nest *out_fetches) {
  const char *job = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_job(context, &job));
  *out_fetches = ls_nest_op(ls_tpu_shutdown_op(job));
  return ls_ok();
}

ls_status ls_device_system_end(ls_estimator_context context) {
  return run_alone(context, build_end);
}

ls_status ls_device_system_watch(ls_estimator_context context) {
  ls_tpu_resolver *resolver = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_resolver(context, &resolver));
  const ls_status status = ls_watchdog_start_by_environment(resolver);
  ls_tpu_resolver_release(resolver);
  return status;
}

static ls_nest close_outfeed(ls_estimator_context context, int64_t host,
                             int64_t ordinal) {
  ls_device_name place;
  const ls_status status =
      ls_estimator_place_host(context, LS_SOME(host), (ls_opt){0}, &place);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  LS_DEVICE_SCOPE(place.text);
  return ls_nest_op(ls_outfeed_close(ordinal));
}

static ls_status build_closes(ls_estimator_context context,
                              ls_nest *out_fetches) {
  const ls_tpu_metadata *metadata = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_metadata(context, &metadata));
  const int64_t each = metadata->num_of_cores_per_host;
  const size_t count = (size_t)metadata->num_cores;
  ls_nest *closes = ls_new_array(ls_current_allocator(), ls_nest, count + 1);
  if (closes == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    closes[i] = close_outfeed(context, (int64_t)i / each, (int64_t)i % each);
  *out_fetches = ls_nest_sequence(LS_KIND_LIST, closes, count);
  ls_release(ls_current_allocator(), closes);
  return ls_ok();
}

ls_status ls_device_system_close_outfeeds(ls_estimator_context context) {
  return run_alone(context, build_closes);
}

// ---- How compiling went ----------------------------------------------------
ls_status ls_device_system_compile_error(const ls_array *told,
                                         char **out_text) {
  enum { MESSAGE = 2 };
  *out_text = NULL;
  const bool is_text = told != NULL &&
                       ls_array_dtype(told) == LS_DTYPE_STRING &&
                       ls_array_num_elements(told) == 1;
  const ls_bytes *bytes = is_text ? ls_array_data(told) : NULL;
  ls_proto_field message = {.at = NULL};
  if (bytes == NULL) return ls_internal("a compile status is no string");
  ls_proto_input in = {(const unsigned char *)bytes->data,
                       (const unsigned char *)bytes->data + bytes->size};
  while (in.at < in.end) {
    ls_proto_field field = {.at = NULL};
    const char *wrong = ls_proto_read_field(&in, &field);
    if (wrong != NULL)
      return ls_internal("a compile status cannot be read: %s", wrong);
    if (field.number == MESSAGE && field.type == LS_PROTO_BYTES)
      message = field;
  }
  const char *text = message.at != NULL ? (const char *)message.at : "";
  *out_text = ls_copy_text(ls_current_allocator(), text, (size_t)message.value);
  return *out_text != NULL ? ls_ok() : ls_out_of_memory();
}
