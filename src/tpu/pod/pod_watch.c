// SPDX-License-Identifier: Apache-2.0
//
// A real host has a timer that ends it when nobody asks how it is; here who
// passes a door looks whether it would have.
#include "base/require.h"
#include "tpu/pod/pod_fault.h"

ls_status ls_pod_watch(ls_pod *pod, int64_t timeout_nanos) {
  LS_REQUIRE(pod);
  if (timeout_nanos < 0)
    return ls_invalid_argument("a time of %lld ns in which to ask hosts: it is "
                               "0 or more",
                               (long long)timeout_nanos);
  ls_mutex_lock(&pod->lock);
  if (pod->asked == NULL && timeout_nanos > 0)
    pod->asked = ls_new_array(pod->allocator, int64_t, (size_t)pod->num_hosts);
  const bool fits = pod->asked != NULL || timeout_nanos == 0;
  if (fits) __atomic_store_n(&pod->watched, timeout_nanos, __ATOMIC_RELAXED);
  ls_mutex_unlock(&pod->lock);
  if (!fits) return ls_out_of_memory();
  ls_pod_restart_watch(pod);
  return ls_ok();
}

void ls_pod_restart_watch(ls_pod *pod) {
  const int64_t now = ls_runtime_now(pod->runtime);
  ls_mutex_lock(&pod->lock);
  for (int32_t i = 0; pod->asked != NULL && i < pod->num_hosts; ++i)
    pod->asked[i] = now;
  ls_mutex_unlock(&pod->lock);
}

void ls_pod_note_asked(ls_pod *pod, int32_t host) {
  const int64_t now = ls_runtime_now(pod->runtime);
  ls_mutex_lock(&pod->lock);
  if (pod->asked != NULL) pod->asked[host] = now;
  ls_mutex_unlock(&pod->lock);
}

ls_status ls_pod_check_watch(ls_pod *pod, int32_t host) {
  const int64_t now = ls_runtime_now(pod->runtime);
  ls_mutex_lock(&pod->lock);
  const int64_t most = pod->watched;
  const int64_t waited = most > 0 ? now - pod->asked[host] : 0;
  const bool goes = waited > most;
  if (goes) pod->asked[host] = INT64_MAX;  // It goes once.
  ls_mutex_unlock(&pod->lock);
  if (!goes) return ls_ok();
  ls_runtime_log(pod->runtime, LS_LOG_WARNING, "tpu",
                 "host %d of TPU system '%s' goes: nobody has asked how it is "
                 "for %.1f s",
                 host, pod->name, (double)waited * 1e-9);
  return ls_pod_shut_down_host(pod, host);
}
