// SPDX-License-Identifier: Apache-2.0
// Checks of what an input function gives.
#include "estimator/spec/returned.h"

#include "base/memory/own.h"
#include "base/text.h"
#include "base/values/nest_internal.h"
#include "data/dataset.h"

// ---- Known shapes ----------------------------------------------------------
ls_status ls_returned_check_leaf(const ls_leaf_spec *spec) {
  return spec->kind == LS_LEAF_DENSE
             ? ls_ok()
             : ls_invalid_argument(
                   "a leaf of the input's elements is sparse or "
                   "ragged: make it dense in the data set");
}

// `name`: its tensor's, or "".
static ls_status refuse_type(const char *what, size_t number, const char *name,
                             ls_type type) {
  return ls_invalid_argument(
      "The %s to the model returned by input_fn must have static shape where "
      "it "
      "runs on TPUs: leaf %zu%s%s is %s; pad or crop the examples of its data "
      "set to one shape",
      what, number, name[0] != 0 ? " " : "", name,
      LS_SHAPE_TEXT(type.dtype, type.shape));
}

static ls_status returned_check_leaf(const char *what, size_t number,
                                     ls_nest leaf) {
  const ls_leaf_spec *spec = ls_nest_as_spec(leaf);
  if (spec != NULL) {
    LS_RETURN_IF_ERROR(
        ls_status_annotate(ls_returned_check_leaf(spec), "the %s", what));
    return ls_shape_is_known(spec->type.shape)
               ? ls_ok()
               : refuse_type(what, number, "", spec->type);
  }
  if (leaf.kind != LS_KIND_TENSOR) return ls_ok();
  const ls_tensor tensor = leaf.as.tensor;
  const ls_type type = {ls_tensor_dtype(tensor), ls_tensor_shape(tensor)};
  return ls_shape_is_known(type.shape)
             ? ls_ok()
             : refuse_type(what, number, ls_tensor_name(tensor), type);
}

static ls_status check_leaves(ls_nest values, const char *what) {
  const size_t count = ls_nest_num_leaves(values);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count + 1);
  ls_nest_flatten(values, leaves, count);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(returned_check_leaf(what, i, leaves[i]));
  return ls_ok();
}

ls_status ls_returned_check_static(ls_nest features, ls_nest labels) {
  LS_RETURN_IF_ERROR(check_leaves(features, "features"));
  return check_leaves(labels, "labels");
}
