// SPDX-License-Identifier: Apache-2.0
// Arrays, for the layers that fill them.
#ifndef LS_BASE_VALUES_ARRAY_INTERNAL_H_
#define LS_BASE_VALUES_ARRAY_INTERNAL_H_

#include "base/export.h"
#include "lockstep/array.h"

// Creates an array like ls_array_create, but leaves numbers uninitialized: the
// caller writes all of them or releases the array. Zeroing large results would
// touch their pages on the caller's thread, before all threads write there.
LS_PRIVATE_API LS_MUST_USE ls_status
ls_array_create_unwritten(ls_dtype dtype, ls_shape shape, ls_array **out_array);

// Returns true for dtypes whose elements own memory: strings, objects.
bool ls_dtype_owns_elements(ls_dtype dtype);
// Lets another writer lend elements to a new array of strings or objects, until
// ls_array_own makes the array own them. Does nothing for other dtypes.
void ls_array_lend(ls_array *array);
LS_MUST_USE ls_status ls_array_own(ls_array *array);
// Marks an array that has a type but no value: another process has the value.
void ls_array_mark_absent(ls_array *array);
bool ls_array_is_absent(const ls_array *array);
// Elements that a device is still writing. Whoever asks for the array's
// elements ends the arrival first.
typedef struct ls_arrival ls_arrival;
struct ls_arrival {
  // Waits until the elements are there, or cannot come, and keeps the status.
  // Any number of threads may call it, any number of times.
  void (*end)(ls_arrival *self);
  ls_status (*status)(ls_arrival *self);  // A copy of it, after `end`.
  void (*destroy)(ls_arrival *self);      // Called after `end`.
};
// Returns the elements without waiting for an arrival.
void *ls_array_place(ls_array *array);
// Returns the array's last arrival, which its writer may use again; NULL: none.
ls_arrival *ls_array_arrival(const ls_array *array);
// Gives a numeric array that only its writer holds its first arrival.
void ls_array_expect(ls_array *array, ls_arrival *arrival);
// Returns true if two arrays have the same type and bits; strings are compared
// by their bytes.
bool ls_array_is_same(const ls_array *a, const ls_array *b);
// Prints the type, and the first elements if they are numbers: "f32[2] [1,
// 2.5]".
void ls_array_print(const ls_array *array, char *buffer, size_t size);

// Copies the bytes of strings to `place`, each followed by a 0, and makes the
// strings point there.
void ls_strings_copy(ls_bytes *strings, size_t count, char *place);

#endif  // LS_BASE_VALUES_ARRAY_INTERNAL_H_
