// SPDX-License-Identifier: Apache-2.0
#include "estimator/device/device.h"

#include "base/values/nest_builder.h"
#include "io/protobuf/protobuf.h"
#include "lockstep/infeed.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "tpu/pod/pod.h"

// ---- Separate runs ---------------------------------------------------------
// Builds the ops of a run in the current graph and lists its fetches.
typedef ls_status (*build_function)(const ls_plan *plan, ls_nest *out_fetches);

static ls_status build_in(ls_graph *graph, const ls_plan *plan,
                          build_function build, ls_nest *out_fetches) {
  LS_GRAPH_SCOPE(graph);
  LS_PLAN_SYSTEM_SCOPE(plan);
  LS_RETURN_IF_ERROR(build(plan, out_fetches));
  LS_RETURN_IF_ERROR(ls_nest_status(*out_fetches));
  return ls_graph_take_error(graph);
}

static ls_status run_alone(const ls_plan *plan, build_function build) {
  LS_OWN(ls_graph, graph) = NULL;
  LS_OWN(ls_nest, fetches) = ls_none();
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  LS_RETURN_IF_ERROR(ls_graph_create("system", &graph));
  LS_RETURN_IF_ERROR(build_in(graph, plan, build, &fetches));
  LS_RETURN_IF_ERROR(
      ls_session_create_with(graph, plan->config->session_config, &session));
  return ls_session_run(session, fetches, NULL, 0, &results);
}

// ---- The system ------------------------------------------------------------
static ls_status build_begin(const ls_plan *plan, ls_nest *out_fetches) {
  *out_fetches = ls_leaf(ls_tpu_initialize_op(plan->system->job));
  return ls_ok();
}

ls_status ls_device_system_begin(const ls_plan *plan) {
  ls_runtime *runtime = plan->runtime;
  const int64_t began = ls_runtime_now(runtime);
  // Connects again, because a system that was shut down is disconnected.
  LS_RETURN_IF_ERROR(ls_tpu_connect(plan->system->resolver));
  LS_RETURN_IF_ERROR(run_alone(plan, build_begin));
  ls_runtime_log(runtime, LS_LOG_INFO, "estimator",
                 "initialized the TPU system in %.3f seconds",
                 (double)(ls_runtime_now(runtime) - began) * 1e-9);
  return ls_ok();
}

void ls_device_system_clear(const ls_plan *plan) {
  ls_pod *pod = ls_plan_pod(plan);
  if (pod != NULL) ls_pod_reset_queues(pod);
  ls_object_release(pod);
}

static ls_status build_end(const ls_plan *plan, ls_nest *out_fetches) {
  *out_fetches = ls_nest_op(ls_tpu_shutdown_op(plan->system->job));
  return ls_ok();
}

ls_status ls_device_system_end(const ls_plan *plan) {
  return run_alone(plan, build_end);
}

static ls_status build_closes(const ls_plan *plan, ls_nest *out_fetches) {
  const int64_t each = plan->system->cores_per_host;
  LS_OWN(ls_nest_builder, closes) = {0};
  for (int64_t i = 0; i < plan->system->num_cores; ++i) {
    // Another rank's close comes with its tuples.
    if (ls_plan_ranks(plan) != NULL &&
        ls_plan_replica_rank(plan, i) != ls_plan_rank(plan))
      continue;
    const ls_device_name host = ls_plan_host(plan, i / each);
    LS_DEVICE_SCOPE(host.text);
    ls_nest_builder_append(&closes, ls_nest_op(ls_outfeed_close(i % each)));
  }
  *out_fetches = ls_nest_builder_finish(&closes, LS_KIND_LIST);
  return ls_ok();
}

ls_status ls_device_system_close_outfeeds(const ls_plan *plan) {
  return run_alone(plan, build_closes);
}

// ---- Compile status --------------------------------------------------------
ls_status ls_device_system_compile_error(const ls_array *status,
                                         char **out_text) {
  enum { MESSAGE = 2 };
  *out_text = NULL;
  const bool is_text = status != NULL &&
                       ls_array_dtype(status) == LS_DTYPE_STRING &&
                       ls_array_num_elements(status) == 1;
  const ls_bytes *bytes = is_text ? ls_array_data(status) : NULL;
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
