// SPDX-License-Identifier: Apache-2.0
//
// Gradients that a walk starts with: the given ones, else ones.
#include <stdio.h>

#include "base/runtime_internal.h"
#include "grad/walk.h"
#include "graph/context.h"
#include "graph/make/make.h"
#include "lockstep/shape_rules.h"

ls_status ls_gradient_why_failed(ls_tensor tensor, const char *what,
                                 size_t index) {
  ls_graph *current = ls_graph_resolve(ls_graph_current());
  const ls_node *node =
      tensor.graph == NULL ? NULL : ls_graph_node_of(tensor.graph, tensor.ref);
  if (node != NULL && node->failure != NULL)
    return ls_status_clone(node->failure);
  const ls_status status = current->kind == LS_GRAPH_EAGER
                               ? ls_graph_take_error(current)
                               : ls_graph_error(current);
  return !ls_status_is_ok(status)
             ? status
             : ls_invalid_argument("gradients: %s %zu is a failed tensor", what,
                                   index);
}

static bool grad_ys_is_number(ls_dtype dtype) {
  return ls_dtype_is_float(dtype) || ls_dtype_is_integer(dtype);
}

static ls_status grad_ys_check_types(ls_tensor y, size_t i, ls_dtype given) {
  const ls_dtype dtype = ls_tensor_dtype(y);
  const char *wanted = NULL;
  if (grad_ys_is_number(dtype))
    wanted = grad_ys_is_number(given) ? NULL : "real or integer";
  else if (ls_dtype_is_complex(dtype))
    wanted = ls_dtype_is_complex(given) ? NULL : "complex";
  else if (dtype == LS_DTYPE_VARIANT)
    wanted = given == LS_DTYPE_VARIANT ? NULL : "variant";
  else if (dtype == LS_DTYPE_RESOURCE)
    wanted = given == LS_DTYPE_RESOURCE ? "no resource" : NULL;
  else
    return ls_invalid_argument(
        "gradients: y %zu, '%s', is %s, its grad_ys %s: it must be numeric", i,
        ls_tensor_name(y), ls_dtype_name(dtype), ls_dtype_name(given));
  if (wanted == NULL) return ls_ok();
  return ls_invalid_argument(
      "gradients: y %zu, '%s', is %s, its grad_ys %s: it must be %s", i,
      ls_tensor_name(y), ls_dtype_name(dtype), ls_dtype_name(given), wanted);
}

ls_tensor ls_gradient_filled(ls_tensor like, double value) {
  return ls_broadcast_like(ls_scalar(ls_tensor_dtype(like), value), like);
}

// Returns the given gradient of y number i, or ones.
static ls_status make_gradient(ls_tensor y, ls_nest given, size_t i,
                               ls_tensor *out_gradient) {
  switch (given.kind) {
  case LS_KIND_NONE:
    if (ls_dtype_is_complex(ls_tensor_dtype(y)) ||
        ls_tensor_dtype(y) == LS_DTYPE_VARIANT)
      return ls_invalid_argument(
          "Gradients of %s tensors must set grad_ys: y %zu, '%s', is %s",
          ls_tensor_dtype(y) == LS_DTYPE_VARIANT ? "variant" : "complex", i,
          ls_tensor_name(y), ls_dtype_name(ls_tensor_dtype(y)));
    *out_gradient = ls_gradient_filled(y, 1);
    return ls_ok();
  case LS_KIND_TENSOR:
    *out_gradient = given.as.tensor;
    break;
  case LS_KIND_ARRAY:
    *out_gradient = ls_constant(ls_nest_as_array(given));
    break;
  case LS_KIND_SCALAR:
    *out_gradient = ls_gradient_filled(y, ls_dtype_is_float(given.dtype)
                                              ? given.as.f64
                                              : (double)given.as.i64);
    return ls_ok();
  case LS_KIND_SLICES:
    return ls_unimplemented("gradients: grad_ys %zu is sparse slices", i);
  default: {
    char text[200];
    return ls_invalid_argument(
        "gradients: grad_ys %zu must be a tensor, an array or a number, is "
        "%s",
        i, ls_nest_print(given, text, sizeof(text)));
  }
  }
  if (ls_tensor_is_failed(*out_gradient))
    return ls_gradient_why_failed(*out_gradient, "grad_ys", i);
  return grad_ys_check_types(y, i, ls_tensor_dtype(*out_gradient));
}

// Makes one gradient, colocated with its y, and notifies enclosing flows.
static ls_status fill_one(const ls_gradient_context *context, ls_nest given,
                          ls_tensor y, size_t i, ls_tensor *out_gradient) {
  ls_scope beside = {0};
  char name[40];
  snprintf(name, sizeof(name), "grad_ys_%zu", i);
  ls_gradient_begin_beside(context, &beside, ls_tensor_op(y));
  const ls_status refusal = ls_scope_status();
  *out_gradient = ls_failed_tensor();
  const ls_status status = ls_status_is_ok(refusal)
                               ? make_gradient(y, given, i, out_gradient)
                               : refusal;
  if (ls_status_is_ok(status))
    *out_gradient = ls_identity_named(*out_gradient, name);
  ls_scope_end(&beside);
  return status;
}

ls_status ls_gradient_fill(const ls_gradient_context *context,
                           const ls_nest *grad_ys, const ls_tensor *ys,
                           size_t count, ls_tensor *gradients) {
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(fill_one(context,
                                grad_ys != NULL ? grad_ys[i] : ls_none(), ys[i],
                                i, &gradients[i]));
  return ls_ok();
}
