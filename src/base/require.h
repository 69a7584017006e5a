// SPDX-License-Identifier: Apache-2.0
// What public calls that return a status need: a NULL is refused by name.
#ifndef LS_BASE_REQUIRE_H_
#define LS_BASE_REQUIRE_H_

#include "lockstep/status.h"

// INVALID_ARGUMENT "ls_session_run: results is NULL", the names as in the
// header.
ls_status ls_null_argument(const char *function, const char *argument);

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

#endif  // LS_BASE_REQUIRE_H_
