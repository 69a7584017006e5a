// SPDX-License-Identifier: Apache-2.0
// The system device and its ops: configure, shut down and query.
#include <stdio.h>

#include "base/device_parts.h"
#include "base/require.h"
#include "graph/make/make.h"
#include "lockstep/host.h"
#include "tpu/own.h"
#include "tpu/system/resolver.h"

ls_status ls_tpu_system_device(const char *job, ls_device_name *out_name) {
  LS_REQUIRE_OUT(out_name);
  const bool has_job = job != NULL && job[0] != '\0';
  if (has_job && (strlen(job) >= LS_MAX_DEVICE_PART - strlen("job:") ||
                  strpbrk(job, "/:*") != NULL))
    return ls_invalid_argument(
        "job '%.80s' is no part of a device's name: less than %zu characters "
        "without '/', ':' and '*'",
        job, LS_MAX_DEVICE_PART - strlen("job:"));
  snprintf(out_name->text, sizeof(out_name->text), "%s%s/device:TPU_SYSTEM:0",
           has_job ? "/job:" : "", has_job ? job : "");
  return ls_ok();
}

ls_device_name ls_tpu_core_device(int32_t core) {
  ls_device_name name;
  snprintf(name.text, sizeof(name.text), "device:TPU_REPLICATED_CORE:%d", core);
  return name;
}

// ---- Ops -------------------------------------------------------------------
// The job of an op and, if a system scope of that job encloses it, the system.
typedef struct job_state {
  ls_object object;
  ls_allocator *allocator;
  ls_system_id *system;  // NULL: the job's current system.
  char *job;             // "": the local system.
} job_state;
LS_OWNED_POINTER(job_state, ls_object_release)

static void destroy_job(ls_object *object) {
  job_state *state = (job_state *)object;
  ls_object_release(state->system);
  ls_release(state->allocator, state->job);
  ls_release(state->allocator, state);
}

static bool same_job(const ls_object *a, const ls_object *b) {
  const job_state *x = (const job_state *)a, *y = (const job_state *)b;
  return strcmp(x->job, y->job) == 0 &&
         ls_system_id_equal(x->system, y->system);
}

static const ls_object_type job_type = {
    .name = "system's job", .destroy = destroy_job, .equal = same_job};

static ls_status make_job(const char *job, job_state **out_state) {
  ls_system_id *around = ls_system_around();
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_NEW_OR_RETURN(allocator, job_state, state);
  ls_object_init(&state->object, &job_type);
  state->allocator = allocator;
  if (job == NULL) job = "";
  if (around != NULL && strcmp(around->job, job) == 0)
    state->system = ls_object_retain(around);
  LS_RETURN_IF_ERROR(ls_keep_text(allocator, job, &state->job));
  return ls_hand_over(&state, out_state);
}

// Finds the pod of the op's job; NULL if there is none.
static ls_status find_connected(const ls_host_call *call, ls_pod **out_pod) {
  const job_state *state = (const job_state *)call->state;
  if (state->system == NULL)
    return ls_system_of_job(call->runtime, call->op_name, state->job, out_pod);
  *out_pod = ls_pod_of_id(call->runtime, state->system);
  return ls_ok();
}

// Finds or makes the local pod; the caller releases it.
static ls_status open_local_pod(ls_pod **out_pod) {
  LS_OWN(ls_tpu_resolver, local) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "local"}, &local));
  return ls_tpu_open_pod(local, out_pod);
}

static ls_status system_ops_find_pod(const ls_host_call *call,
                                     ls_pod **out_pod) {
  const job_state *state = (const job_state *)call->state;
  const char *job = state->job;
  LS_RETURN_IF_ERROR(find_connected(call, out_pod));
  if (*out_pod != NULL) return ls_ok();
  if (state->system != NULL && job[0] != '\0')
    return ls_not_found(
        "%s: there is no TPU system '%s' of job %s: connect to it",
        call->op_name, state->system->name, job);
  if (job[0] != '\0')
    return ls_not_found("%s: there is no TPU system of job %s: connect to one, "
                        "such as virtual:2x2",
                        call->op_name, job);
  ls_runtime *former = ls_runtime_make_current(call->runtime);
  const ls_status status = open_local_pod(out_pod);
  ls_runtime_make_current(former);
  return status;
}

static ls_status infer_topology(const ls_object *state, const ls_type *in,
                                size_t num_in, ls_type *out, size_t *num_out) {
  (void)state, (void)in, (void)num_in;
  out[0] = (ls_type){LS_DTYPE_STRING, LS_SCALAR};
  *num_out = 1;
  return ls_ok();
}

static ls_status configure_system(ls_host_call *call) {
  LS_OWN(ls_pod, pod) = NULL;
  bool again = false;
  LS_RETURN_IF_ERROR(system_ops_find_pod(call, &pod));
  LS_RETURN_IF_ERROR(ls_pod_start(pod, &again));
  call->room[0] = ls_give(&pod);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static ls_status take_topology(ls_host_call *call) {
  const ls_pod *pod = call->room[0];
  if (call->outputs == NULL || call->outputs[0] == NULL) return ls_ok();
  size_t size = 0;
  const char *bytes = ls_topology_serialized(pod->topology, &size);
  *(ls_bytes *)call->outputs[0] = (ls_bytes){bytes, size};
  return ls_ok();
}

static void end_topology(ls_host_call *call) {
  ls_pod_release(call->room[0]);
  call->room[0] = NULL;
}

static ls_status shut_down(ls_host_call *call) {
  const job_state *state = (const job_state *)call->state;
  const char *job = state->job;
  LS_OWN(ls_pod, pod) = NULL;
  bool was = false;
  LS_RETURN_IF_ERROR(find_connected(call, &pod));
  if (pod != NULL) LS_RETURN_IF_ERROR(ls_pod_stop(pod, &was));
  if (!was)
    ls_runtime_log(
        call->runtime, LS_LOG_WARNING, "tpu",
        "%s: the TPU system of job %s is shut down and was not initialized",
        call->op_name, job[0] != '\0' ? job : "localhost");
  ls_host_done(call, ls_ok());
  return ls_ok();
}

// Inline kernels: they call no user code except the log.
static const ls_host_kernel configure_kernel = {.name =
                                                    "configure_distributed_tpu",
                                                .infer = infer_topology,
                                                .start = configure_system,
                                                .flags = LS_HOST_INLINE,
                                                .take = take_topology,
                                                .end = end_topology};
static const ls_host_kernel shutdown_kernel = {.name =
                                                   "shutdown_distributed_tpu",
                                               .start = shut_down,
                                               .flags = LS_HOST_INLINE};

static ls_op system_ops_add(uint16_t type, const ls_host_kernel *kernel,
                            const char *job) {
  LS_OWN(job_state, state) = NULL;
  ls_device_name device;
  ls_status status = ls_tpu_system_device(job, &device);
  if (ls_status_is_ok(status)) status = make_job(job, &state);
  if (!ls_status_is_ok(status)) {
    ls_make_failed(kernel->name, status);
    return (ls_op){0};
  }
  const ls_attr attrs[] = {
      {.name = "kernel", .kind = LS_ATTR_KERNEL, .as.kernel = kernel},
      LS_OWN_O(STATE, &state->object)};
  LS_DEVICE_SCOPE(device.text);
  return ls_make_op(type, NULL, NULL, 0, attrs, LS_COUNT_OF(attrs));
}

ls_tensor ls_tpu_initialize_op(const char *job) {
  const ls_op op =
      system_ops_add(LS_OP_CONFIGURE_DISTRIBUTED_TPU, &configure_kernel, job);
  return ls_op_output(op, 0);
}

ls_op ls_tpu_shutdown_op(const char *job) {
  return system_ops_add(LS_OP_SHUTDOWN_DISTRIBUTED_TPU, &shutdown_kernel, job);
}
