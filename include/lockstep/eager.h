// SPDX-License-Identifier: Apache-2.0
// Layer: runtime
//
// Eager execution: with no graph open, ops run as they are made.
//
// Values live in frames: closing a frame frees the values made in it, except
// those it is asked to keep, which move to the enclosing frame. Using a handle
// of a freed value is an error, not a crash. A failed op makes a failed value;
// the first status-returning call that uses it returns its status.
//
// Threads: values, frames and tapes belong to the thread that made them, and
// end with it; a replica has frames of its own inside those around its run.
// Another thread may read a value (ls_tensor_value and its kin) while its own
// thread neither makes values nor closes frames; to hand a value to another
// thread, take its array. Variables belong to all threads: see variable.h.
#ifndef LOCKSTEP_EAGER_H_
#define LOCKSTEP_EAGER_H_

#include "lockstep/gradients.h"

#ifdef __cplusplus
extern "C" {
#endif

// Opens a frame of this thread's runtime, or of this replica. Frames nest; one
// that a replica leaves open is closed at the end of the run, and its values
// stay.
LS_API LS_MUST_USE ls_status ls_frame_begin(void);
// Closes the innermost frame. `keep` (NULL: nothing) is a nest whose tensors
// survive; their handles remain valid.
//   LS_FAILED_PRECONDITION  no frame is open, or a tape opened in it still is.
LS_API LS_MUST_USE ls_status ls_frame_end(const ls_nest *keep);

// Returns the reason why there is no value: the status of the op that failed,
// or of an earlier one that this one needed; OK if there is a value. Use it to
// check a write or another op for its effect, whose value is not needed.
LS_API LS_MUST_USE ls_status ls_tensor_status(ls_tensor tensor);
// Returns the value of an eager tensor, as an array that the caller owns.
//   (the value's own status, if its op failed)
LS_API LS_MUST_USE ls_status ls_tensor_value(ls_tensor tensor,
                                             ls_array **out_array);
// Returns the value of a scalar, converted.
LS_API LS_MUST_USE ls_status ls_tensor_item(ls_tensor tensor, double *out_item);
// Makes an eager tensor that holds the array (retained).
LS_PLACED ls_tensor ls_tensor_from_array(ls_array *array);

// Get and set a variable's value in the eager store; of a distributed variable
// the value that ls_variable_read gives. The caller owns `*out_array`.
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
// watched automatically.
LS_API LS_MUST_USE ls_status ls_tape_begin(ls_tape **out_tape);
// Stops recording on all tapes of this thread until the matching ls_scope_end.
LS_API void ls_stop_recording_begin(ls_scope *scope);
#define LS_STOP_RECORDING_SCOPE LS_BARE_SCOPE_(ls_stop_recording_begin)
LS_API LS_MUST_USE ls_status ls_tape_watch(ls_tape *tape, ls_tensor tensor);
// Ends recording. Gradients can be computed until the tape is released.
LS_API LS_MUST_USE ls_status ls_tape_end(ls_tape *tape);
// Frees the tape and what it holds. NULL is fine.
LS_API void ls_tape_release(ls_tape *tape);
// Computes the gradient of y with respect to each x (tensors or variables):
// tensor leaves, or none for a tensor that was not watched or not recorded, or
// comes from nothing that was watched and from no variable. A
// replica's tape records that replica's ops; for collectives see ls_gradients.
// Loops and branches ran as plain C: the gradients of their ops are added
// together with all others, whereas in a graph each iteration first adds up its
// own. Through a max pool a graph adds the gradient of a bias window by window,
// and skips the zeros of the gradients of a convolution of 3 by 3 taps (f32,
// windows of 2 by 2), where the tape may use Winograd's algorithm. So the last
// bits may differ from those of a graph that has loops or max pools, in bf16
// (LS_MATH_BF16) by about 1%, and nowhere else.
LS_API LS_MUST_USE ls_status ls_tape_gradients(ls_tape *tape, ls_nest y,
                                               const ls_nest *xs, size_t num_xs,
                                               ls_nest *grads);
// Lists the trainable variables read on the tape, in the order of their first
// read. A distributed variable is listed as a whole when called in a replica,
// elsewhere by its components. Returns their number; writes up to `capacity`,
// lent.
LS_API size_t ls_tape_variables(const ls_tape *tape, ls_variable **variables,
                                size_t capacity);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_EAGER_H_
