// SPDX-License-Identifier: Apache-2.0
//
// Stores: the values of variables. There is one for eager, and one per session.
//
// A distributed variable's value is SHARED (one buffer for all components,
// which are equal) or PER_REPLICA (one buffer each). Writing one component
// makes it PER_REPLICA, by copying; writing one value for all makes it SHARED
// again. The state follows from the writes, never from comparing values. A
// variable without a value counts as PER_REPLICA.
//
// Values are published: a reader sees the value before a write or after it,
// never a mixture. All uses of values go through the store's gate
// (runtime/gate.h). A short run and a write from the host change a value in
// place, while nobody reads it. A long run reads, until its end, the values of
// its start; its new values are made in other buffers, which replace the old
// ones at its end. The old buffers are kept for the next run. A buffer that a
// long run reads is not written: a writer first replaces it by a copy.
#ifndef LS_RUNTIME_STORE_H_
#define LS_RUNTIME_STORE_H_

#include "base/memory/own.h"
#include "lockstep/session.h"
#include "lower/lower.h"
#include "runtime/gate.h"

typedef struct ls_store ls_store;
struct ls_compiled;  // Defined in runtime/program.h.

ls_status ls_store_create(ls_runtime *runtime, ls_store **out_store);
void ls_store_destroy(ls_store *store);  // Accepts NULL.
LS_OWNED_POINTER(ls_store, ls_store_destroy)
// Returns (lends) a session's store.
ls_store *ls_session_store(const ls_session *session);
// Returns true once the session's close is requested: runs end or are refused.
bool ls_session_is_closing(const ls_session *session);
// Returns an id that is never 0 and never reused.
uint64_t ls_store_id(const ls_store *store);

ls_gate *ls_store_gate(ls_store *store);
// Return counters whose values are never those of another store: `changes`
// grows when a variable gets its first value or a distributed one is split or
// shared, `moves` when a value moves to another buffer.
uint64_t ls_store_changes(const ls_store *store);
uint64_t ls_store_moves(const ls_store *store);

// A variable's entry in a store, valid until the store is destroyed or the
// variable forgotten.
typedef struct ls_place ls_place;
ls_status ls_store_place(ls_store *store, ls_variable *variable,
                         ls_place **out_place);

// ---- For holders of an access ----------------------------------------------
// Returns (lends) the entry's buffer, made at first use without a value. The
// functions of this section are for accesses inside the gate.
ls_status ls_place_buffer(ls_store *store, ls_place *place,
                          ls_buffer **out_buffer);
// Prepares the entry for a write: if a long run reads the buffer, replaces it
// by a copy.
ls_status ls_place_detach(ls_store *store, ls_place *place);
// Hold a value for a long run, unchanged until it is dropped; and get a buffer
// for a new value, which the run owns until it publishes the value or gives the
// buffer back.
void ls_place_hold(ls_store *store, ls_buffer *buffer);
void ls_place_drop(ls_store *store, ls_buffer *buffer);
ls_status ls_place_borrow(ls_store *store, ls_place *place,
                          ls_buffer **out_buffer);
void ls_place_publish(ls_store *store, ls_place *place, ls_buffer *buffer);
void ls_place_give_back(ls_store *store, ls_place *place, ls_buffer *buffer);

// Returns the buffer with a variable's value; also for components and
// containers.
//   LS_FAILED_PRECONDITION  the variable has no value.
ls_status ls_store_look(ls_store *store, const ls_variable *variable,
                        const ls_buffer **out_buffer);
// Return the buffer for a new value of `type`, and mark it as written. A
// component gets its own buffer.
//   LS_INVALID_ARGUMENT  dtype or shape differ from the variable's.
ls_status ls_store_buffer_to_write(ls_store *store, ls_variable *variable,
                                   ls_type type, ls_buffer **out_buffer);
void ls_store_note_write(ls_store *store, ls_variable *variable);

// ---- States ----------------------------------------------------------------
// Return true if the variable was ever written; mark it as written.
bool ls_store_has_value(const ls_store *store, const ls_variable *variable);
void ls_store_mark_written(ls_store *store, const ls_variable *variable);
// Marks the value as lost, after a write that failed halfway; components that
// share it have none.
void ls_store_mark_lost(ls_store *store, const ls_variable *variable);
// Returns true if the container's components share one buffer.
bool ls_store_is_shared(const ls_store *store, const ls_variable *container);
// Returns the current states, for which a program is lowered.
ls_variable_states ls_store_states(const ls_store *store);
// Stores a container's state after a program: shared in its own buffer, or
// separate in the components' buffers.
void ls_store_set_shared(ls_store *store, const ls_variable *container,
                         bool shared);

// ---- From outside ----------------------------------------------------------
// The functions of this section enter the gate themselves.
//
// Adds a new variable with the value zero.
ls_status ls_store_add_zero(ls_store *store, ls_variable *variable);
// Makes the first component's buffer the container's, shared by all components.
ls_status ls_store_join(ls_store *store, ls_variable *container);
// Gives each component its own buffer with the shared value, if there is one.
ls_status ls_store_split(ls_store *store, ls_variable *container);
// Forgets a variable. Its buffer is freed once no instance is bound to it.
void ls_store_forget(ls_store *store, const ls_variable *variable);

// Returns the value as an array that the caller owns.
//   LS_FAILED_PRECONDITION  the variable has no value.
ls_status ls_store_read(ls_store *store, ls_variable *variable,
                        ls_array **out_array);
// Reads a counter variable; 0 without a value. Allocates nothing.
//   LS_FAILED_PRECONDITION  it is no scalar of i64 or i32.
ls_status ls_store_read_count(ls_store *store, const ls_variable *variable,
                              int64_t *out_value);
// Takes the value out: afterwards the variable has no value.
ls_status ls_store_take(ls_store *store, ls_variable *variable,
                        ls_array **out_array);
// Writes a value.
//   LS_INVALID_ARGUMENT  dtype or shape differ from the variable's.
ls_status ls_store_write(ls_store *store, ls_variable *variable,
                         const ls_array *array);
// Copies the value from a handle's first target to its other targets.
ls_status ls_store_write_others(ls_store *store, const ls_variable *handle);
// Replaces the value by the result of `change` and returns that; no other write
// comes in between. `change` must not use variables.
typedef ls_status (*ls_store_change)(ls_array *before, void *user,
                                     ls_array **out_after);
ls_status ls_store_update(ls_store *store, ls_variable *variable,
                          ls_store_change change, void *user,
                          ls_array **out_after);
// Gives a new variable the value that `compiled`, which has no input and one
// output, computes; it may do so later.
ls_status ls_store_fill(ls_store *store, ls_variable *variable,
                        struct ls_compiled *compiled, uint64_t step);

// ---- many.c ----------------------------------------------------------------
// Reads or writes many variables of a store together: enters the gate once for
// all, and finds their elements.

// An access to many variables, none of them handles.
typedef struct ls_many {
  ls_store *store;
  ls_variable *const *variables;  // Lent.
  size_t count;
  // Elements of each variable. For reading: NULL means zeros. For writing: to
  // be filled in; components have their own.
  void **data;
  bool written;
  // The fields below are private.
  ls_touch *touches;
  ls_access access;
} ls_many;

// Enters the gate.
//   LS_FAILED_PRECONDITION  a variable to be read has no value.
LS_MUST_USE ls_status ls_many_enter(ls_store *store,
                                    ls_variable *const *variables, size_t count,
                                    bool written, ls_many *out_many);
// Leaves the gate. `wrote`: the written elements become the variables' values;
// otherwise variables to be written lose their values.
void ls_many_leave(ls_many *many, bool wrote);

// Get and set the one value of a distributed variable, which its rules combine
// from the components and split for them; of other variables the value.
ls_status ls_store_get(ls_store *store, ls_variable *variable,
                       ls_array **out_array);
ls_status ls_store_set(ls_store *store, ls_variable *variable,
                       const ls_array *array);
// Return true if the rules compute that value from all components, and if they
// compute what each component is set to.
bool ls_store_makes_value(const ls_variable *variable);
bool ls_store_divides_value(const ls_variable *variable);

#endif  // LS_RUNTIME_STORE_H_
