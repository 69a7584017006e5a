// SPDX-License-Identifier: Apache-2.0
#include "runtime/store.h"

#include "base/require.h"

ls_status ls_session_config_copy(const ls_session_config *config,
                                 ls_session_config *out_copy) {
  LS_REQUIRE_OUT(out_copy);
  ls_session_config copy = {0};
  if (config != NULL) copy = *config;
  copy.cluster = NULL;
  const ls_status status = ls_cluster_spec_copy(
      config != NULL ? config->cluster : NULL, &copy.cluster);
  *out_copy = ls_status_is_ok(status) ? copy : (ls_session_config){0};
  return status;
}

void ls_session_config_deinit(ls_session_config *config) {
  if (config == NULL) return;
  ls_cluster_spec_destroy(config->cluster);
  *config = (ls_session_config){0};
}

static ls_status session_config_check_flag(const char *name, ls_flag flag,
                                           const char *off) {
  if ((unsigned)flag > LS_FLAG_OFF)
    return ls_invalid_argument("a session's %s %d is no flag", name, (int)flag);
  return flag != LS_FLAG_OFF
             ? ls_ok()
             : ls_unimplemented("a session with %s off: %s", name, off);
}

ls_status ls_session_config_check(const ls_session_config *config) {
  if (config == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(session_config_check_flag(
      "isolate_session_state", config->isolate_session_state,
      "each session has its own variables"));
  LS_RETURN_IF_ERROR(session_config_check_flag(
      "soft_placement", config->soft_placement,
      "ops run on a device that has a kernel, whatever device they name"));
  const ls_cluster_spec *cluster = config->cluster;
  for (size_t i = 0; cluster != NULL && i < cluster->num_jobs; ++i)
    if (cluster->jobs[i].num_addresses > 0)
      return ls_unimplemented(
          "a session that connects to '%s' of job '%s': it runs in this "
          "process, and where ranks are, on the ranks of the job",
          cluster->jobs[i].addresses[0], cluster->jobs[i].name);
  return ls_ok();
}
