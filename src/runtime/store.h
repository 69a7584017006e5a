// SPDX-License-Identifier: Apache-2.0
//
// Stores: where variables' values are. One for eager, one in each session.
//
// A distributed variable's value is SHARED, one buffer for all components,
// which are equal then, or PER_REPLICA, one buffer each. Writing one component
// makes it PER_REPLICA, by copying; one value for all makes it SHARED again.
// Which it is follows from the writes, never from comparing values. Without a
// value yet it counts as PER_REPLICA.
#ifndef LS_RUNTIME_STORE_H_
#define LS_RUNTIME_STORE_H_

#include "lockstep/session.h"
#include "lower/lower.h"

typedef struct ls_store ls_store;
struct ls_compiled;  // runtime/program.h

ls_status ls_store_create(ls_runtime *runtime, ls_store **out_store);
void ls_store_destroy(ls_store *store);  // NULL is fine.
// A session's, lent.
ls_store *ls_session_store(const ls_session *session);
// Never 0 and never that of another store, even of one that is gone.
uint64_t ls_store_id(const ls_store *store);

// The variable's buffer, made at first use (then it has no value yet). Lent;
// it stays where it is for the store's life or until it is forgotten.
ls_status ls_store_buffer(ls_store *store, ls_variable *variable,
                          ls_buffer **out_buffer);
// Adds a new variable with the value zero.
ls_status ls_store_add_zero(ls_store *store, ls_variable *variable);
// Whether it was ever written, and that it now is.
bool ls_store_has_value(const ls_store *store, const ls_variable *variable);
void ls_store_mark_written(ls_store *store, const ls_variable *variable);
// Whether the container's components have one buffer.
bool ls_store_is_shared(const ls_store *store, const ls_variable *container);
// What a program is lowered for: what is so now.
ls_variable_states ls_store_states(const ls_store *store);
// What a program left: one value for all in the container's buffer, or one each
// in those of the components.
void ls_store_set_shared(ls_store *store, const ls_variable *container,
                         bool shared);
// The container takes over the buffer of its first component, for all.
ls_status ls_store_join(ls_store *store, ls_variable *container);
// Gives each component a buffer of its own with the shared value, if there is
// one.
ls_status ls_store_split(ls_store *store, ls_variable *container);
// Forgets a variable. The buffer goes when nobody is bound to it.
void ls_store_forget(ls_store *store, const ls_variable *variable);

// The value as an array of the caller's.
//   LS_FAILED_PRECONDITION  it has none.
ls_status ls_store_read(ls_store *store, ls_variable *variable,
                        ls_array **out_array);
// The value of a variable that counts; 0 while it has none. Allocates nothing.
//   LS_FAILED_PRECONDITION  it is no scalar of i64 or i32.
ls_status ls_store_read_count(ls_store *store, const ls_variable *variable,
                              int64_t *out_value);
//   LS_INVALID_ARGUMENT  another dtype or shape.
ls_status ls_store_write(ls_store *store, ls_variable *variable,
                         const ls_array *array);
// Gives a new variable the value that `compiled`, which has no input and one
// output, computes; it may do so later.
ls_status ls_store_fill(ls_store *store, ls_variable *variable,
                        struct ls_compiled *compiled, uint64_t step);

#endif  // LS_RUNTIME_STORE_H_
