// SPDX-License-Identifier: Apache-2.0
// Checks at the start of public calls that return a status. Results are emptied
// first, so that a refused call leaves no stale result that a caller would
// release again; a NULL argument is refused by name.
#ifndef LS_BASE_REQUIRE_H_
#define LS_BASE_REQUIRE_H_

#include <string.h>

#include "base/export.h"
#include "lockstep/status.h"

// Returns INVALID_ARGUMENT "ls_session_run: results is NULL"; names are the
// header's.
LS_PRIVATE_API ls_status ls_null_argument(const char *function,
                                          const char *argument);

// Requires one to three arguments, in their order.
#define LS_REQUIRE(...)                                                        \
  LS_REQUIRE_4TH_(__VA_ARGS__, LS_REQUIRE_3_, LS_REQUIRE_2_, LS_REQUIRE_1_, 0) \
  (__VA_ARGS__)
#define LS_REQUIRE_4TH_(a, b, c, macro, ...) macro
#define LS_REQUIRE_1_(argument)                                                \
  do {                                                                         \
    if ((argument) == NULL) return ls_null_argument(__func__, #argument);      \
  } while (0)
#define LS_REQUIRE_2_(a, b)                                                    \
  do {                                                                         \
    LS_REQUIRE_1_(a);                                                          \
    LS_REQUIRE_1_(b);                                                          \
  } while (0)
#define LS_REQUIRE_3_(a, b, c)                                                 \
  do {                                                                         \
    LS_REQUIRE_2_(a, b);                                                       \
    LS_REQUIRE_1_(c);                                                          \
  } while (0)
// Requires a list, which may be NULL if it is empty.
#define LS_REQUIRE_ITEMS(items, count)                                         \
  do {                                                                         \
    if ((items) == NULL && (count) > 0)                                        \
      return ls_null_argument(__func__, #items);                               \
  } while (0)
// Requires the address of a result, sets the result to zero or NULL, and then
// requires up to three arguments, in their order. Comes first. Not for a result
// that may overlap the call's arguments.
#define LS_REQUIRE_OUT(...)                                                    \
  LS_REQUIRE_5TH_(__VA_ARGS__, LS_REQUIRE_OUT_4_, LS_REQUIRE_OUT_3_,           \
                  LS_REQUIRE_OUT_2_, LS_REQUIRE_OUT_1_, 0)                     \
  (__VA_ARGS__)
#define LS_REQUIRE_5TH_(a, b, c, d, macro, ...) macro
#define LS_REQUIRE_OUT_1_(out)                                                 \
  do {                                                                         \
    LS_REQUIRE_1_(out);                                                        \
    memset((out), 0, sizeof(*(out)));                                          \
  } while (0)
#define LS_REQUIRE_OUT_2_(out, a)                                              \
  do {                                                                         \
    LS_REQUIRE_OUT_1_(out);                                                    \
    LS_REQUIRE_1_(a);                                                          \
  } while (0)
#define LS_REQUIRE_OUT_3_(out, a, b)                                           \
  do {                                                                         \
    LS_REQUIRE_OUT_2_(out, a);                                                 \
    LS_REQUIRE_1_(b);                                                          \
  } while (0)
#define LS_REQUIRE_OUT_4_(out, a, b, c)                                        \
  do {                                                                         \
    LS_REQUIRE_OUT_3_(out, a, b);                                              \
    LS_REQUIRE_1_(c);                                                          \
  } while (0)
// Sets a result to zero or NULL; its address may be NULL.
#define LS_CLEAR_OUT(out)                                                      \
  do {                                                                         \
    if ((out) != NULL) memset((out), 0, sizeof(*(out)));                       \
  } while (0)
// Returns "ls_run_config_replace: fields[1] is NULL", with the field's name if
// `field` is not "".
ls_status ls_null_item(const char *function, const char *items, size_t index,
                       const char *field);
// Requires a list of pointers, none of them NULL.
#define LS_REQUIRE_EACH(items, count)                                          \
  do {                                                                         \
    LS_REQUIRE_ITEMS(items, count);                                            \
    for (size_t ls_i = 0; ls_i < (count); ++ls_i)                              \
      if ((items)[ls_i] == NULL)                                               \
        return ls_null_item(__func__, #items, ls_i, "");                       \
  } while (0)
// Requires a list of structs whose `field` is never NULL.
#define LS_REQUIRE_EACH_FIELD(items, count, field)                             \
  do {                                                                         \
    LS_REQUIRE_ITEMS(items, count);                                            \
    for (size_t ls_i = 0; ls_i < (count); ++ls_i)                              \
      if ((items)[ls_i].field == NULL)                                         \
        return ls_null_item(__func__, #items, ls_i, "." #field);               \
  } while (0)

#endif  // LS_BASE_REQUIRE_H_
