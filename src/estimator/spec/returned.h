// SPDX-License-Identifier: Apache-2.0
//
// What an input function gives, and what an element of its data set is: the
// same words everywhere.
#ifndef LS_ESTIMATOR_SPEC_RETURNED_H_
#define LS_ESTIMATOR_SPEC_RETURNED_H_

#include "lockstep/dataset.h"

// Features and labels of a value; both are lent, no labels are none. A tuple of
// two is both, a list is features.
//   LS_INVALID_ARGUMENT  a tuple of another length
LS_MUST_USE ls_status ls_returned_split(ls_nest value, ls_nest *out_features,
                                        ls_nest *out_labels);

// Checks that a leaf of a data set's elements can be fed: is dense.
LS_MUST_USE ls_status ls_returned_check_leaf(const ls_leaf_spec *spec);
// Whether the tensors of features and labels, or what the specs of a data set's
// elements say of them, are dense and of known shapes, as cores need them.
//   LS_INVALID_ARGUMENT  names the one of both, its leaf and the type
LS_MUST_USE ls_status ls_returned_check_static(ls_nest features,
                                               ls_nest labels);

// The keys of a dict in the order of flattening, lent; of anything else none.
// Returns their number, and writes up to `capacity`.
size_t ls_returned_keys(ls_nest value, const char **keys, size_t capacity);

// A dict of these, all taken over: "features" and, where they are not none,
// "labels" and `name`, another.
ls_nest ls_returned_dict(ls_nest features, ls_nest labels, const char *name,
                         ls_nest other);

#endif  // LS_ESTIMATOR_SPEC_RETURNED_H_
