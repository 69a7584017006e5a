// SPDX-License-Identifier: Apache-2.0
#include "base/file_names.h"

#include <string.h>

static bool is_name(const char *name, size_t size) {
  return size > 0 && !(size == 1 && name[0] == '.') &&
         !(size == 2 && name[0] == '.' && name[1] == '.');
}

ls_status ls_file_name_check(const char *what, const char *name) {
  if (name != NULL && strchr(name, '/') == NULL && is_name(name, strlen(name)))
    return ls_ok();
  return ls_invalid_argument(
      "%s, '%.200s', is to be a part of a path: it has no '/', and is not "
      "empty, '.' or '..'",
      what, name != NULL ? name : "(NULL)");
}

ls_status ls_inner_path_check(const char *what, const char *folder,
                              const char *path) {
  bool is_inner = path != NULL;
  for (const char *at = path; is_inner && at != NULL;) {
    const size_t size = strcspn(at, "/");
    is_inner = is_name(at, size);
    at = at[size] == '/' ? at + size + 1 : NULL;
  }
  if (is_inner) return ls_ok();
  return ls_invalid_argument("%s, '%.200s', is to be a path inside of %s: its "
                             "parts are not empty, '.' or '..'",
                             what, path != NULL ? path : "(NULL)", folder);
}
