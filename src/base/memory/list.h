// SPDX-License-Identifier: Apache-2.0
// Singly linked lists, whose items have a member that points to the next one.
#ifndef LS_BASE_MEMORY_LIST_H_
#define LS_BASE_MEMORY_LIST_H_

#include <stddef.h>

// Takes an item out of the list that begins at `*first`, if it is in it:
// LS_UNLINK(&self->flights, flight, next).
#define LS_UNLINK(first, item, next)                                           \
  do {                                                                         \
    __typeof__(first) ls_at = (first);                                         \
    while (*ls_at != NULL && *ls_at != (item))                                 \
      ls_at = &(*ls_at)->next;                                                 \
    if (*ls_at != NULL) *ls_at = (item)->next;                                 \
  } while (0)

#endif  // LS_BASE_MEMORY_LIST_H_
