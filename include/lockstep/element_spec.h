// SPDX-License-Identifier: Apache-2.0
// Layer: data
//
// Specs of elements: types and shapes of a data set's nests.
//
// Threads: as in lockstep/dataset.h.
#ifndef LOCKSTEP_ELEMENT_SPEC_H_
#define LOCKSTEP_ELEMENT_SPEC_H_

#include "lockstep/dataset.h"

#ifdef __cplusplus
extern "C" {
#endif

LS_API ls_dataset *ls_nest_as_dataset(ls_nest leaf);

// ---- Element types ---------------------------------------------------------
// Makes a leaf of a nest that describes elements: its type.
LS_API ls_nest ls_nest_spec(ls_dtype dtype, ls_shape shape);
LS_API ls_nest ls_nest_spec_of(const ls_leaf_spec *spec);

// Gets the spec of a data set's elements, lent as long as the data set.
//   the data set's own status, if its maker failed
LS_API LS_MUST_USE ls_status ls_dataset_spec(const ls_dataset *dataset,
                                             ls_element_spec *out_spec);
// Prints a spec, such as "(f32[128,784], i32[128])". Returns `buffer`.
LS_API const char *ls_element_spec_print(const ls_element_spec *spec,
                                         char *buffer, size_t size);
// Gets the smallest and the largest number in the integer leaf `leaf`, if they
// are known without reading elements; else returns false.
LS_API bool ls_dataset_bounds(const ls_dataset *dataset, size_t leaf,
                              int64_t *out_least, int64_t *out_most);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_ELEMENT_SPEC_H_
