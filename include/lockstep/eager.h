// SPDX-License-Identifier: Apache-2.0
// Layer: runtime
//
// Eager: with no graph open, ops run as they are made.
//
// Values live in frames: a frame's end frees the values made inside, but those
// it is told to keep, which move to the frame around it. Handles of freed
// values are errors, not crashes. A failed op makes a failed value; its status
// is returned by the first status-returning call that uses it.
//
// Threads: values, frames and tapes belong to the thread that made them, and
// end with it; a replica has frames of its own inside of those around its run.
// Another thread may look at a value (ls_tensor_value and its kin) while its
// own neither makes values nor closes frames; to hand one on, take its array.
// Variables belong to all threads: see variable.h.
#ifndef LOCKSTEP_EAGER_H_
#define LOCKSTEP_EAGER_H_

#include "lockstep/gradients.h"

#ifdef __cplusplus
extern "C" {
#endif

// Opens a frame of this thread's runtime, or of this replica. Frames nest; one
// that a replica leaves open is closed with the run, and its values stay.
LS_API LS_MUST_USE ls_status ls_frame_begin(void);
// Closes the innermost frame. `keep` (NULL: nothing) is a nest whose tensors
// survive; their handles stay as they are.
//   LS_FAILED_PRECONDITION  no frame is open, or a tape opened in it still is.
LS_API LS_MUST_USE ls_status ls_frame_end(const ls_nest *keep);

// Why there is no value: the status of the op that failed, or of one before it
// that this one needed; OK when there is one. The value itself is not needed:
// this is how a write or another op for its effect is checked.
LS_API LS_MUST_USE ls_status ls_tensor_status(ls_tensor tensor);
// The value of an eager tensor, as an array of the caller's.
//   (the value's own status, if its op failed)
LS_API LS_MUST_USE ls_status ls_tensor_value(ls_tensor tensor,
                                             ls_array **out_array);
// The same for one element: a scalar, converted.
LS_API LS_MUST_USE ls_status ls_tensor_item(ls_tensor tensor, double *out_item);
// An eager tensor that holds the array (retained).
LS_PLACED ls_tensor ls_tensor_from_array(ls_array *array);

// A variable's value in the eager store; of a distributed variable as
// ls_variable_read gives it.
//   LS_UNIMPLEMENTED  a variable of a build graph, which has its values in
//                     sessions (ls_session_variable_value).
LS_API LS_MUST_USE ls_status ls_variable_value(ls_variable *variable,
                                               ls_array **out_array);
LS_API LS_MUST_USE ls_status ls_variable_set_value(ls_variable *variable,
                                                   const ls_array *array);

// ---- Tape ------------------------------------------------------------------
// A recorded interval of the eager graph.
typedef struct ls_tape ls_tape;

// Begins recording on this thread. Trainable variables that are read are
// watched by themselves.
LS_API LS_MUST_USE ls_status ls_tape_begin(ls_tape **out_tape);
// Inside, no tape of this thread records; the pair of ls_scope_end.
LS_API void ls_stop_recording_begin(ls_scope *scope);
#define LS_STOP_RECORDING_SCOPE LS_BARE_SCOPE_(ls_stop_recording_begin)
LS_API LS_MUST_USE ls_status ls_tape_watch(ls_tape *tape, ls_tensor tensor);
// Ends recording. Gradients can be asked for until the tape is released.
LS_API LS_MUST_USE ls_status ls_tape_end(ls_tape *tape);
// Frees the tape and what it holds. NULL is fine.
LS_API void ls_tape_release(ls_tape *tape);
// The gradient of y with respect to each x (tensors or variables): tensor
// leaves, or none for what was not watched or not recorded. A replica's tape
// records that replica's ops; for collectives see ls_gradients. Loops and
// branches ran as plain C: what their ops give is added up with what all others
// give, where in a graph each trip adds up its own first. So last bits may
// differ from those of a graph behind them, and nowhere else.
LS_API LS_MUST_USE ls_status ls_tape_gradients(ls_tape *tape, ls_nest y,
                                               const ls_nest *xs, size_t num_xs,
                                               ls_nest *grads);
// The trainable variables read on the tape, in the order of their first read. A
// distributed variable is listed as a whole when asked in a replica, elsewhere
// by its components.
// Returns their number; writes up to `capacity`, lent.
LS_API size_t ls_tape_variables(const ls_tape *tape, ls_variable **variables,
                                size_t capacity);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_EAGER_H_
