// SPDX-License-Identifier: Apache-2.0
//
// Many variables of a store, read or written from outside at one moment: who
// uses them enters the gate for all at once, and finds their elements.
#ifndef LS_RUNTIME_MANY_H_
#define LS_RUNTIME_MANY_H_

#include "runtime/store.h"

// Of variables that stand for no others.
typedef struct ls_many {
  ls_store *store;
  ls_variable *const *variables;  // Lent.
  size_t count;
  // Of each variable where its elements lie. Read: NULL, all are zero.
  // Written: to be filled; a component's are its own.
  void **data;
  bool written;
  // Private from here on.
  ls_touch *touches;
  ls_access access;
} ls_many;

// Enters; who leaves gives back what it holds.
//   LS_FAILED_PRECONDITION  one that is to be read has no value.
LS_MUST_USE ls_status ls_many_enter(ls_store *store,
                                    ls_variable *const *variables, size_t count,
                                    bool written, ls_many *out_many);
// Leaves; `wrote`: what was written becomes the variables' values, else those
// that were to be written have none.
void ls_many_leave(ls_many *many, bool wrote);

#endif  // LS_RUNTIME_MANY_H_
