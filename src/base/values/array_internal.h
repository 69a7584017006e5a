// SPDX-License-Identifier: Apache-2.0
// Arrays, as the layers that fill them see them.
#ifndef LS_BASE_VALUES_ARRAY_INTERNAL_H_
#define LS_BASE_VALUES_ARRAY_INTERNAL_H_

#include "base/export.h"
#include "lockstep/array.h"

// As ls_array_create, but numbers are undefined: the caller writes all of them
// or releases the array. Zeroing large results would touch their memory on the
// caller's thread alone, before all threads write there.
LS_PRIVATE_API LS_MUST_USE ls_status
ls_array_create_unwritten(ls_dtype dtype, ls_shape shape, ls_array **out_array);

// Returns true if elements are more than their bits: strings, objects.
bool ls_dtype_owns_elements(ls_dtype dtype);
// Such elements of a new array will be written by somebody who only lends them,
// until ls_array_own has made them the array's. Nothing for other dtypes.
void ls_array_lend(ls_array *array);
LS_MUST_USE ls_status ls_array_own(ls_array *array);
// Marks an array that has a type and no value: it stands for one that another
// process has.
void ls_array_mark_absent(ls_array *array);
bool ls_array_is_absent(const ls_array *array);
// Returns true if they have one type and the same bits, of strings the same
// bytes.
bool ls_array_is_same(const ls_array *a, const ls_array *b);
// The type, and the first elements where they are numbers: "f32[2] [1, 2.5]".
void ls_array_print(const ls_array *array, char *buffer, size_t size);

// Copies the bytes of strings to `place`, each followed by a 0, and has them
// point there.
void ls_strings_copy(ls_bytes *strings, size_t count, char *place);

#endif  // LS_BASE_VALUES_ARRAY_INTERNAL_H_
