// SPDX-License-Identifier: Apache-2.0
// libmicrohttpd, which is loaded when a server starts: it brings libraries for
// TLS along, whose loading would slow all other commands.
#ifndef LS_CLI_SERVE_HTTP_H_
#define LS_CLI_SERVE_HTTP_H_

#include <microhttpd.h>

#include "cli/serve/serve.h"

#define CLI_HTTP_CALLS(X)                                                      \
  X(add_response_header)                                                       \
  X(create_response_from_buffer_with_free_callback)                            \
  X(create_response_from_buffer_with_free_callback_cls)                        \
  X(destroy_response)                                                          \
  X(get_connection_info)                                                       \
  X(get_connection_values)                                                     \
  X(get_daemon_info)                                                           \
  X(lookup_connection_value)                                                   \
  X(queue_response)                                                            \
  X(quiesce_daemon)                                                            \
  X(resume_connection)                                                         \
  X(start_daemon)                                                              \
  X(stop_daemon)                                                               \
  X(suspend_connection)

// Functions of libmicrohttpd, without the prefix MHD_.
typedef struct cli_http_calls {
#define CLI_HTTP_CALL(name) __typeof__(MHD_##name) *name;
  CLI_HTTP_CALLS(CLI_HTTP_CALL)
#undef CLI_HTTP_CALL
} cli_http_calls;
extern cli_http_calls cli_http;

// Loads the library; it stays until the process ends.
//   LS_NOT_FOUND  it is not installed, or lacks a function.
ls_status cli_http_load(void);

#endif  // LS_CLI_SERVE_HTTP_H_
