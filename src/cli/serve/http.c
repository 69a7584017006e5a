// SPDX-License-Identifier: Apache-2.0
#include "cli/serve/serve.h"

#ifdef LS_HAVE_MICROHTTPD
#include <dlfcn.h>
#include <string.h>

#include "cli/serve/http.h"

cli_http_calls cli_http;

ls_status cli_http_load(void) {
  static const char file[] = "libmicrohttpd.so.12";
  static const struct {
    const char *name;
    size_t offset;
  } calls[] = {
#define CLI_HTTP_CALL(name) {"MHD_" #name, offsetof(cli_http_calls, name)},
      CLI_HTTP_CALLS(CLI_HTTP_CALL)
#undef CLI_HTTP_CALL
  };
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL)
    return ls_not_found("the HTTP server needs libmicrohttpd (Debian: "
                        "libmicrohttpd12): %s",
                        dlerror());
  for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); ++i) {
    void *symbol = dlsym(library, calls[i].name);
    if (symbol == NULL)
      return ls_not_found("'%s' has no %s: it is too old", file, calls[i].name);
    memcpy((char *)&cli_http + calls[i].offset, &symbol, sizeof(symbol));
  }
  return ls_ok();
}
#endif
