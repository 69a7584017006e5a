// SPDX-License-Identifier: Apache-2.0
//
// Stores: where variables' values are. One for eager, one in each session.
#ifndef LS_RUNTIME_STORE_H_
#define LS_RUNTIME_STORE_H_

#include "engine/backend.h"
#include "graph/variable.h"

typedef struct ls_store ls_store;

ls_status ls_store_create(ls_runtime *runtime, ls_store **out_store);
void ls_store_destroy(ls_store *store);  // NULL is fine.
// Never 0 and never that of another store, even of one that is gone.
uint64_t ls_store_id(const ls_store *store);

// The variable's buffer, made at first use (then it has no value yet). Lent;
// it stays where it is for the store's life or until it is forgotten.
ls_status ls_store_buffer(ls_store *store, ls_variable *variable,
                          ls_buffer **out_buffer);
// Whether it was ever written, and that it now is.
bool ls_store_has_value(const ls_store *store, const ls_variable *variable);
void ls_store_mark_written(ls_store *store, const ls_variable *variable);
// Forgets a variable. The buffer goes when nobody is bound to it.
void ls_store_forget(ls_store *store, const ls_variable *variable);

// The value as an array of the caller's.
//   LS_FAILED_PRECONDITION  it has none.
ls_status ls_store_read(ls_store *store, ls_variable *variable,
                        ls_array **out_array);
//   LS_INVALID_ARGUMENT  another dtype or shape.
ls_status ls_store_write(ls_store *store, ls_variable *variable,
                         const ls_array *array);

#endif  // LS_RUNTIME_STORE_H_
