// SPDX-License-Identifier: Apache-2.0
//
// Stores: where variables' values are. One for eager, one in each session.
//
// A distributed variable's value is SHARED, one buffer for all components,
// which are equal then, or PER_REPLICA, one buffer each. Writing one component
// makes it PER_REPLICA, by copying; one value for all makes it SHARED again.
// Which it is follows from the writes, never from comparing values. Without a
// value yet it counts as PER_REPLICA.
//
// Values are published: who reads sees the one before a write or the one behind
// it, never a part of either. All uses of values go through the store's gate
// (runtime/gate.h). A short run and a write from the host change a value where
// it is, while nobody looks. A long run reads, to its end, what there was at
// its start; its new values are made in other buffers, which take the places of
// the old ones at its end. The old ones are kept for the next run's, so the two
// take turns. A buffer that a long run reads is not written: who wants to gets
// a copy in its place first.
#ifndef LS_RUNTIME_STORE_H_
#define LS_RUNTIME_STORE_H_

#include "base/memory/own.h"
#include "lockstep/session.h"
#include "lower/lower.h"
#include "runtime/gate.h"

typedef struct ls_store ls_store;
struct ls_compiled;  // runtime/program.h

ls_status ls_store_create(ls_runtime *runtime, ls_store **out_store);
void ls_store_destroy(ls_store *store);  // NULL is fine.
LS_OWNED_POINTER(ls_store, ls_store_destroy)
// A session's, lent.
ls_store *ls_session_store(const ls_session *session);
// Checks that a session can be had so; NULL: all defaults.
LS_MUST_USE ls_status ls_session_config_check(const ls_session_config *config);
// Never 0 and never that of another store, even of one that is gone.
uint64_t ls_store_id(const ls_store *store);

ls_gate *ls_store_gate(ls_store *store);
// Numbers that are never those of another store: one grows whenever a variable
// gets its first value or a distributed one is split or shared, the other
// whenever a value goes to another buffer.
uint64_t ls_store_changes(const ls_store *store);
uint64_t ls_store_moves(const ls_store *store);

// A variable's place in a store. It stays for the store's life or until the
// variable is forgotten.
typedef struct ls_place ls_place;
ls_status ls_store_place(ls_store *store, ls_variable *variable,
                         ls_place **out_place);

// ---- For who is in ---------------------------------------------------------
// The place's buffer, made at first use (then it has no value yet). Lent.
ls_status ls_place_buffer(ls_store *store, ls_place *place,
                          ls_buffer **out_buffer);
// The same to be written, beside others: if a long run reads it, another one
// with the same value.
ls_status ls_place_detach(ls_store *store, ls_place *place);
// A long run takes the value in, which stays as it is until it is dropped; and
// has a buffer for a new one, its own until it is given out or back.
void ls_place_hold(ls_store *store, ls_buffer *buffer);
void ls_place_drop(ls_store *store, ls_buffer *buffer);
ls_status ls_place_borrow(ls_store *store, ls_place *place,
                          ls_buffer **out_buffer);
void ls_place_publish(ls_store *store, ls_place *place, ls_buffer *buffer);
void ls_place_give_back(ls_store *store, ls_place *place, ls_buffer *buffer);

// Where the value is that a read finds: a component's, or a container's, too.
//   LS_FAILED_PRECONDITION  it has none.
ls_status ls_store_look(ls_store *store, const ls_variable *variable,
                        const ls_buffer **out_buffer);
// The buffer for a new value of `type`, and that it has been written. A
// component gets its own.
//   LS_INVALID_ARGUMENT  another dtype or shape than the variable's.
ls_status ls_store_buffer_to_write(ls_store *store, ls_variable *variable,
                                   ls_type type, ls_buffer **out_buffer);
void ls_store_note_write(ls_store *store, ls_variable *variable);

// ---- States ----------------------------------------------------------------
// Returns true if it was ever written; notes that it now is.
bool ls_store_has_value(const ls_store *store, const ls_variable *variable);
void ls_store_mark_written(ls_store *store, const ls_variable *variable);
// It has none any more: a write that came to no end has left parts of two.
void ls_store_mark_lost(ls_store *store, const ls_variable *variable);
// Returns true if the container's components have one buffer.
bool ls_store_is_shared(const ls_store *store, const ls_variable *container);
// Returns the states that a program is lowered for: those of now.
ls_variable_states ls_store_states(const ls_store *store);
// Notes what a program left: one value for all in the container's buffer, or
// one each in those of the components.
void ls_store_set_shared(ls_store *store, const ls_variable *container,
                         bool shared);

// ---- From outside ----------------------------------------------------------
// Each of these enters the gate.
//
// Adds a new variable with the value zero.
ls_status ls_store_add_zero(ls_store *store, ls_variable *variable);
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
// Takes the value out: there is none then, as before the first write.
ls_status ls_store_take(ls_store *store, ls_variable *variable,
                        ls_array **out_array);
//   LS_INVALID_ARGUMENT  another dtype or shape.
ls_status ls_store_write(ls_store *store, ls_variable *variable,
                         const ls_array *array);
// Writes the value that a handle for all of its targets has got to the others.
ls_status ls_store_write_others(ls_store *store, const ls_variable *handle);
// Replaces the value by what `change` makes of it, which is given to the
// caller; nobody writes in between. It uses no variable.
typedef ls_status (*ls_store_change)(ls_array *before, void *user,
                                     ls_array **out_after);
ls_status ls_store_update(ls_store *store, ls_variable *variable,
                          ls_store_change change, void *user,
                          ls_array **out_after);
// Gives a new variable the value that `compiled`, which has no input and one
// output, computes; it may do so later.
ls_status ls_store_fill(ls_store *store, ls_variable *variable,
                        struct ls_compiled *compiled, uint64_t step);

// ---- many.c -----------------------------------------------------------------
// Many variables of a store, read or written from outside at one moment: the
// gate is entered for all at once, and their elements are found.

// The use of variables that stand for no others.
typedef struct ls_many {
  ls_store *store;
  ls_variable *const *variables;  // Lent.
  size_t count;
  // The elements of each variable. Read: NULL, all are zero. Written: to be
  // filled; a component's are its own.
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

#endif  // LS_RUNTIME_STORE_H_
