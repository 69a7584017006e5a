// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Arrays: dense data with a dtype and a shape, stored row by row.
//
// An array is reference-counted: create returns one reference, retain adds one,
// release drops one. The owner may fill an array before sharing it; a shared
// array is read-only. An `ls_tensor` is a value in a graph; an `ls_array` is
// data.
//
// Threads: any number of threads may read, retain and release an array at the
// same time; one thread fills it, before it is shared.
#ifndef LOCKSTEP_ARRAY_H_
#define LOCKSTEP_ARRAY_H_

#include "lockstep/shape.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_array ls_array;

// One element of a string array. The array owns the bytes.
typedef struct ls_bytes {
  const char *data;
  size_t size;
} ls_bytes;

// Creates an array of zeros, aligned to 64 bytes, with memory of the current
// runtime's allocator. The shape must be fully known. The caller owns a
// reference.
//   LS_INVALID_ARGUMENT    the shape is unknown or absurdly large, or the dtype
//                          has no data.
//   LS_RESOURCE_EXHAUSTED  out of memory; the message has the number of bytes.
LS_API LS_MUST_USE ls_status ls_array_create(ls_dtype dtype, ls_shape shape,
                                             ls_array **out_array);
// Creates an array filled with a copy of `data` (dense, row by row). For
// strings `data` points to ls_bytes, whose bytes are copied too. Fails as
// ls_array_create.
LS_API LS_MUST_USE ls_status ls_array_create_copy(ls_dtype dtype,
                                                  ls_shape shape,
                                                  const void *data,
                                                  ls_array **out_array);
// Creates an array over the caller's memory, without a copy. When the last
// reference is dropped, `release(user)` is called; NULL: no call. Not for
// strings.
LS_API LS_MUST_USE ls_status ls_array_create_view(ls_dtype dtype,
                                                  ls_shape shape, void *data,
                                                  void (*release)(void *user),
                                                  void *user,
                                                  ls_array **out_array);

LS_API ls_array *ls_array_retain(ls_array *array);
LS_API void ls_array_release(ls_array *array);  // NULL is fine.
// Returns true if the caller holds the only reference and may therefore write.
LS_API bool ls_array_is_unique(const ls_array *array);

LS_API ls_dtype ls_array_dtype(const ls_array *array);
LS_API ls_shape ls_array_shape(const ls_array *array);
LS_API int64_t ls_array_num_elements(const ls_array *array);
LS_API size_t ls_array_size(const ls_array *array);  // In bytes.
// Returns the elements, valid as long as the array. Those of a result that a
// device computes may still be on their way: waits for them.
LS_API const void *ls_array_data(const ls_array *array);
LS_API void *ls_array_mutable_data(ls_array *array);
// Waits for the elements, and returns the failure of a device that could not
// compute them: they have no meaning then.
LS_API LS_MUST_USE ls_status ls_array_wait(const ls_array *array);

// Returns element `index` in row order, converted. For real and bool dtypes
// only: other dtypes and an index out of range return 0.
LS_API double ls_array_f64(const ls_array *array, int64_t index);
LS_API int64_t ls_array_i64(const ls_array *array, int64_t index);
// Stores `value`, converted (floats round to nearest even, integers towards
// zero), into element `index`.
LS_API void ls_array_set_f64(ls_array *array, int64_t index, double value);
LS_API void ls_array_set_i64(ls_array *array, int64_t index, int64_t value);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ARRAY_H_
