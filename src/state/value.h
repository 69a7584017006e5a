// SPDX-License-Identifier: Apache-2.0
//
// What a file holds of one variable of a store: a value for all components, as
// its rules say.
#ifndef LS_STATE_VALUE_H_
#define LS_STATE_VALUE_H_

#include "runtime/store.h"

// The value, an array of the caller's. NULL, and OK: there is nothing to save.
LS_MUST_USE ls_status ls_state_read(ls_store *store, ls_variable *variable,
                                    ls_array **out_value);
// What it stands for: of a handle the first of those, else itself.
ls_variable *ls_state_of(ls_variable *variable);
// Of one that is no handle: whether its components make its value; else that
// lies in the store as it is saved. And whether there is something to save: not
// in eager of one whose components have no value.
bool ls_state_is_made(const ls_variable *variable);
bool ls_state_is_saved(const ls_store *store, const ls_variable *variable);
// Whether a value that is restored lies in the store as it was saved.
bool ls_state_is_stored(const ls_variable *variable);
// Sets the variable, and whatever it stands for, to a value of its type.
LS_MUST_USE ls_status ls_state_write(ls_store *store, ls_variable *variable,
                                     const ls_array *value);
// How many components have values of their own, which may differ; 0: none.
size_t ls_state_parts(const ls_store *store, const ls_variable *variable);

#endif  // LS_STATE_VALUE_H_
