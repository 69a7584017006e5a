// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

ls_status cli_trace_begin(ls_runtime *runtime, const char *path,
                          ls_trace **out_trace) {
  *out_trace = NULL;
  return path == NULL
             ? ls_ok()
             : ls_trace_begin(runtime, &(ls_trace_options){.path = path},
                              out_trace);
}

int cli_trace_end(const char *command, ls_trace *trace, int code) {
  if (trace == NULL) return code;
  ls_trace_end(trace);
  const ls_status status = ls_trace_write(trace, NULL);
  if (!ls_status_is_ok(status)) {
    cli_report(command, status);
    if (code == CLI_OK) code = CLI_FAILED;
  }
  ls_trace_destroy(trace);
  return code;
}
