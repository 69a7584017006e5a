// SPDX-License-Identifier: Apache-2.0
// First lines of public calls that return a status. A result is empty from the
// first line on, so that a refused call leaves nothing of an earlier one that
// is then released, or run, once more; a NULL is refused by name.
#ifndef LS_BASE_REQUIRE_H_
#define LS_BASE_REQUIRE_H_

#include <string.h>

#include "base/export.h"
#include "lockstep/status.h"

// INVALID_ARGUMENT "ls_session_run: results is NULL", the names as in the
// header.
LS_PRIVATE_API ls_status ls_null_argument(const char *function,
                                          const char *argument);

#define LS_REQUIRE(argument)                                                   \
  do {                                                                         \
    if ((argument) == NULL) return ls_null_argument(__func__, #argument);      \
  } while (0)
// The items of a list: NULL is fine for none.
#define LS_REQUIRE_ITEMS(items, count)                                         \
  do {                                                                         \
    if ((items) == NULL && (count) > 0)                                        \
      return ls_null_argument(__func__, #items);                               \
  } while (0)
// The place of a result, before anything else is looked at: becomes none, NULL
// or zero. Not for a place that the call's arguments may lie in.
#define LS_REQUIRE_OUT(out)                                                    \
  do {                                                                         \
    LS_REQUIRE(out);                                                           \
    memset((out), 0, sizeof(*(out)));                                          \
  } while (0)
// The same where NULL is fine.
#define LS_CLEAR_OUT(out)                                                      \
  do {                                                                         \
    if ((out) != NULL) memset((out), 0, sizeof(*(out)));                       \
  } while (0)
// "ls_run_config_replace: fields[1] is NULL", with the field if `field` is not
// "".
ls_status ls_null_item(const char *function, const char *items, size_t index,
                       const char *field);
// A list of pointers, none of them NULL.
#define LS_REQUIRE_EACH(items, count)                                          \
  do {                                                                         \
    LS_REQUIRE_ITEMS(items, count);                                            \
    for (size_t ls_i = 0; ls_i < (count); ++ls_i)                              \
      if ((items)[ls_i] == NULL)                                               \
        return ls_null_item(__func__, #items, ls_i, "");                       \
  } while (0)
// A list of structs, whose `field` is NULL in none of them.
#define LS_REQUIRE_EACH_FIELD(items, count, field)                             \
  do {                                                                         \
    LS_REQUIRE_ITEMS(items, count);                                            \
    for (size_t ls_i = 0; ls_i < (count); ++ls_i)                              \
      if ((items)[ls_i].field == NULL)                                         \
        return ls_null_item(__func__, #items, ls_i, "." #field);               \
  } while (0)

#endif  // LS_BASE_REQUIRE_H_
