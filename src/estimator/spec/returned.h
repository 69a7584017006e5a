// SPDX-License-Identifier: Apache-2.0
//
// Checks of what an input function gives: the same words everywhere.
#ifndef LS_ESTIMATOR_SPEC_RETURNED_H_
#define LS_ESTIMATOR_SPEC_RETURNED_H_

#include "lockstep/dataset.h"

// Checks that a leaf of a data set's elements can be fed: is dense.
LS_MUST_USE ls_status ls_returned_check_leaf(const ls_leaf_spec *spec);
// Checks that the tensors of features and labels, or the specs of a data set's
// elements, are dense and of known shapes, as cores need them.
//   LS_INVALID_ARGUMENT  names features or labels, the leaf and its type
LS_MUST_USE ls_status ls_returned_check_static(ls_nest features,
                                               ls_nest labels);

#endif  // LS_ESTIMATOR_SPEC_RETURNED_H_
