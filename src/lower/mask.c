// SPDX-License-Identifier: Apache-2.0
//
// Rules for values whose rows are partly padding.
//
// The bits equal those of the real rows alone: ops on independent rows
// (LS_OP_ROWS and so on) compute each row without regard to the others, and a
// sum over rows begins at +0 and adds rows in order, so that -0 after them
// changes nothing. (+0 would change a sum of -0, which numbers below 0 have if
// it is too small; a part of a long sum that is padding alone still does.) Sums
// of products that are long enough for a kernel to split have no rule.
#include "lower/mask.h"

#include <math.h>

#include "lower/ops.h"

enum { LONG_SUM = 2048 };

ls_masks *ls_masks_create(ls_lower_scope *scope) {
  ls_masks *masks = ls_new(scope->all->allocator, ls_masks);
  if (masks != NULL) ls_map_init(&masks->of, scope->all->allocator);
  return masks;
}

void ls_masks_destroy(ls_masks *masks) {
  if (masks == NULL) return;
  ls_allocator *allocator = masks->of.allocator;
  ls_map_deinit(&masks->of);
  ls_release(allocator, masks);
}

const ls_mask *ls_mask_of(const ls_lower_scope *scope, uint64_t ref) {
  return scope->masks == NULL ? NULL : ls_map_find_u64(&scope->masks->of, ref);
}

ls_status ls_mask_set(ls_lower_scope *scope, uint64_t ref,
                      const ls_mask *mask) {
  LS_ARENA_NEW_OR_RETURN(&scope->to->arena, ls_mask, kept);
  *kept = *mask;
  return ls_memory_status(ls_map_insert_u64(&scope->masks->of, ref, kept));
}

static ls_status no_rule(const char *op) {
  return LS_STATUS(LS_ABORTED, "%s has no rule for rows that are padding", op);
}

ls_status ls_mask_admit(const ls_lower_scope *scope, ls_node *node,
                        ls_lower_function function) {
  static const ls_lower_function with_rules[] = {
      lower_copy,          lower_forward,
      lower_dim_size,      lower_expand_reduce_mean,
      lower_expand_sum_to, lower_custom_gradient,
  };
  if (scope->masks == NULL) return ls_ok();
  bool has_padding = false;
  for (uint32_t i = 0; i < node->num_inputs && !has_padding; ++i)
    has_padding = ls_mask_of(scope, ls_lowered(scope, node->inputs[i])) != NULL;
  if (!has_padding) return ls_ok();
  for (size_t i = 0; i < LS_COUNT_OF(with_rules); ++i)
    if (function == with_rules[i]) return ls_ok();
  return no_rule(ls_node_info(node)->name);
}

// ---- Masking --------------------------------------------------------------
// Makes a mask that is true for the elements of real rows.
static ls_status make_condition(ls_lower_scope *scope, ls_shape shape,
                                const ls_mask *mask, const ls_node *origin,
                                uint64_t *out_ref) {
  const ls_size rows = {LS_SIZE_CONSTANT, shape.dim[0]};
  const ls_attr attrs[] = {LS_OWN_SZ(SIZES, &rows, 1),
                           LS_OWN_T(DTYPE, LS_DTYPE_I32), LS_OWN_I(AXIS, 0)};
  uint64_t operands[] = {0, mask->size};
  ls_shape column = shape;
  for (int32_t i = 1; i < shape.rank; ++i)
    column.dim[i] = 1;
  LS_RETURN_IF_ERROR(ls_lower_make(scope, LS_OP_IOTA, NULL, 0, attrs,
                                   LS_COUNT_OF(attrs), origin, &operands[0]));
  LS_RETURN_IF_ERROR(
      ls_lower_make(scope, LS_OP_LESS, operands, 2, NULL, 0, origin, out_ref));
  LS_RETURN_IF_ERROR(
      ls_lower_reshape(scope, *out_ref, column, origin, out_ref));
  return ls_lower_broadcast(scope, *out_ref, shape, origin, out_ref);
}

static ls_status make_masked(ls_lower_scope *scope, uint64_t ref,
                             const ls_mask *mask, double filler,
                             const ls_node *origin, uint64_t *out_ref) {
  const ls_type type = ls_lowered_type(scope, ref);
  uint64_t operands[] = {0, ref, 0};
  LS_RETURN_IF_ERROR(
      make_condition(scope, type.shape, mask, origin, &operands[0]));
  LS_RETURN_IF_ERROR(
      ls_lower_scalar(scope, type.dtype, filler, origin, &operands[2]));
  return ls_lower_make(scope, LS_OP_SELECT, operands, 3, NULL, 0, origin,
                       out_ref);
}

// Returns the status of a call that makes the ops of a mask.
#define MASKING(scope, call)                                                   \
  __extension__({                                                              \
    (scope)->masks->is_masking = true;                                         \
    const ls_status ls_made = (call);                                          \
    (scope)->masks->is_masking = false;                                        \
    ls_made;                                                                   \
  })

// Replaces the padding of a value by `filler`.
static ls_status masked(ls_lower_scope *scope, uint64_t ref,
                        const ls_mask *mask, double filler,
                        const ls_node *origin, uint64_t *out_ref) {
  return MASKING(scope, make_masked(scope, ref, mask, filler, origin, out_ref));
}

static ls_status make_rows(ls_lower_scope *scope, const ls_mask *mask,
                           const ls_node *origin, uint64_t *out_rows) {
  const ls_attr attr = LS_OWN_T(DTYPE, LS_DTYPE_I64);
  return ls_lower_make(scope, LS_OP_CONVERT, &mask->size, 1, &attr, 1, origin,
                       out_rows);
}

ls_status ls_mask_rows(ls_lower_scope *scope, const ls_mask *mask,
                       const ls_node *origin, uint64_t *out_rows) {
  return MASKING(scope, make_rows(scope, mask, origin, out_rows));
}

static ls_status make_one_over(ls_lower_scope *scope, const ls_mask *mask,
                               int64_t others, ls_dtype dtype,
                               const ls_node *origin, uint64_t *out_ref) {
  uint64_t operands[2] = {0};
  LS_RETURN_IF_ERROR(make_rows(scope, mask, origin, &operands[0]));
  LS_RETURN_IF_ERROR(ls_lower_scalar(scope, LS_DTYPE_I64, (double)others,
                                     origin, &operands[1]));
  LS_RETURN_IF_ERROR(ls_lower_make(scope, LS_OP_MUL, operands, 2, NULL, 0,
                                   origin, &operands[1]));
  const ls_attr attr = LS_OWN_T(DTYPE, dtype);
  LS_RETURN_IF_ERROR(ls_lower_make(scope, LS_OP_CONVERT, &operands[1], 1, &attr,
                                   1, origin, &operands[1]));
  LS_RETURN_IF_ERROR(ls_lower_scalar(scope, dtype, 1, origin, &operands[0]));
  return ls_lower_make(scope, LS_OP_DIV, operands, 2, NULL, 0, origin, out_ref);
}

ls_status ls_mask_one_over(ls_lower_scope *scope, const ls_mask *mask,
                           int64_t others, ls_dtype dtype,
                           const ls_node *origin, uint64_t *out_ref) {
  return MASKING(scope,
                 make_one_over(scope, mask, others, dtype, origin, out_ref));
}

// ---- Sizes of operands ----------------------------------------------------
ls_status ls_mask_begin_sizes(ls_lower_scope *scope, const ls_node *node) {
  ls_masks *masks = scope->masks;
  if (masks == NULL) return ls_ok();
  const ls_attr *attr = ls_node_attr(node, LS_ATTR_ID_SIZES);
  masks->has_sizes = true;
  masks->infers = false;
  masks->sized = NULL;
  for (size_t i = 0; i < attr->as.sizes.count; ++i) {
    const ls_size size = attr->as.sizes.items[i];
    if (size.operand == LS_SIZE_CONSTANT) {
      masks->infers |= i == 0 && size.value == LS_UNKNOWN_DIM;
      continue;
    }
    const ls_mask *mask =
        ls_mask_of(scope, ls_lowered(scope, node->inputs[size.operand]));
    if (mask == NULL || size.value != 0) continue;
    if (i != 0) return no_rule(ls_node_info(node)->name);
    masks->sized = mask;
  }
  return ls_ok();
}

void ls_mask_end_sizes(ls_lower_scope *scope) {
  if (scope->masks != NULL) scope->masks->has_sizes = false;
}

// Returns true if rows with this mask have the first size of the op whose sizes
// are being computed: it is inferred, or that of the mask's source.
static bool has_first_size(const ls_masks *masks, const ls_mask *mask) {
  return masks->sized == NULL ? masks->infers
                              : masks->sized->source == mask->source;
}

ls_status ls_mask_check_same(const ls_lower_scope *scope, uint64_t ref) {
  const ls_masks *masks = scope->masks;
  if (masks == NULL) return ls_ok();
  const ls_mask *mask = ls_mask_of(scope, ref);
  if (mask == NULL ? masks->sized == NULL : has_first_size(masks, mask))
    return ls_ok();
  return no_rule("a change of shape");
}

ls_status ls_mask_check_result(const ls_lower_scope *scope, uint64_t ref) {
  return ls_mask_of(scope, ref) == NULL
             ? ls_ok()
             : no_rule("a result with a row for each "
                       "example");
}

// ---- Rules ----------------------------------------------------------------
typedef struct rule {
  ls_lower_scope *scope;
  const ls_op_spec *spec;
  const uint64_t *inputs;
  const ls_node *origin;
  const ls_mask *mask;  // The mask that the masked operands share.
} rule;

static ls_status mask_refuse(const rule *r) {
  return no_rule(ls_op_table[r->spec->type].name);
}

static const ls_mask *mask_of(const rule *r, size_t i) {
  return ls_mask_of(r->scope, r->inputs[i]);
}

static ls_shape mask_shape_of(const rule *r, size_t i) {
  return ls_lowered_type(r->scope, r->inputs[i]).shape;
}

// Returns true if an operand repeats a single row.
static bool is_repeated(const rule *r, size_t i) {
  const ls_node *node = ls_graph_node_of(r->scope->to, r->inputs[i]);
  if (node->type != LS_OP_BROADCAST) return false;
  const ls_shape from = ls_lowered_type(r->scope, node->inputs[0]).shape;
  return from.rank < mask_shape_of(r, i).rank || from.dim[0] == 1;
}

static ls_status elementwise(const rule *r) {
  for (size_t i = 0; i < r->spec->num_inputs; ++i)
    if (mask_of(r, i) == NULL && mask_shape_of(r, i).rank != 0 &&
        !is_repeated(r, i))
      return mask_refuse(r);
  return ls_ok();
}

// Requires padded rows in operands `first` to `end`, and none in the others.
static ls_status mask_rows_of(const rule *r, size_t first, size_t end,
                              int32_t least_rank) {
  for (size_t i = 0; i < r->spec->num_inputs; ++i)
    if ((mask_of(r, i) != NULL) != (i >= first && i < end))
      return mask_refuse(r);
  return mask_shape_of(r, first).rank >= least_rank ? ls_ok() : mask_refuse(r);
}

static bool reduces_rows(const rule *r) {
  const ls_attr *axes =
      ls_attr_find(r->spec->attrs, r->spec->num_attrs, LS_ATTR_ID_AXES);
  for (size_t i = 0; i < axes->as.ints.count; ++i)
    if (axes->as.ints.items[i] == 0) return true;
  return false;
}

// Replaces the padding in operand `i` by `filler`.
static ls_status fill_padding(const rule *r, size_t i, double filler,
                              const uint64_t **inputs) {
  const size_t count = r->spec->num_inputs;
  LS_ARENA_ARRAY_OR_RETURN(&r->scope->to->arena, uint64_t, made, count);
  memcpy(made, *inputs, count * sizeof(*made));
  *inputs = made;
  return masked(r->scope, made[i], r->mask, filler, r->origin, &made[i]);
}

// Replaces the padding in operand 0 by `filler`; the result has no padding.
static ls_status take_masked(rule *r, double filler, const uint64_t **inputs) {
  LS_RETURN_IF_ERROR(fill_padding(r, 0, filler, inputs));
  r->mask = NULL;
  return ls_ok();
}

// Returns true if the padding of an operand is that of an input, zeros.
static bool has_zeros(const rule *r, size_t i) {
  const ls_graph *to = r->scope->to;
  const ls_node *node = ls_graph_node_of(to, r->inputs[i]);
  while (node->type == LS_OP_RESHAPE || node->type == LS_OP_CONVERT)
    node = ls_graph_node_of(to, node->inputs[0]);
  return node->type == LS_OP_PARAMETER;
}

// Replaces computed labels of padding by 0: a run fails for a label that is not
// a class.
static ls_status mask_labels(const rule *r, const uint64_t **inputs) {
  const bool has_classes =
      (r->spec->type == LS_OP_CROSS_ENTROPY ||
       r->spec->type == LS_OP_CROSS_ENTROPY_GRAD) &&
      ls_dtype_is_integer(ls_lowered_type(r->scope, r->inputs[1]).dtype);
  return has_classes && !has_zeros(r, 1) ? fill_padding(r, 1, 0, inputs)
                                         : ls_ok();
}

static ls_status product(rule *r, const uint64_t **inputs) {
  const ls_op_spec *spec = r->spec;
  const bool a = mask_of(r, 0) != NULL, b = mask_of(r, 1) != NULL;
  const bool turns_a =
      ls_attr_int(spec->attrs, spec->num_attrs, LS_ATTR_ID_TRANSPOSE_A) != 0;
  const bool turns_b =
      ls_attr_int(spec->attrs, spec->num_attrs, LS_ATTR_ID_TRANSPOSE_B) != 0;
  if (mask_shape_of(r, 0).rank != 2 || mask_shape_of(r, 1).rank != 2)
    return mask_refuse(r);
  if (a && !b && !turns_a) return mask_rows_of(r, 0, 1, 2);
  if (a && b && turns_a && !turns_b && spec->num_inputs == 2 &&
      mask_shape_of(r, 0).dim[0] <= LONG_SUM) {
    LS_RETURN_IF_ERROR(fill_padding(r, 1, 0, inputs));
    return take_masked(r, -0.0, inputs);
  }
  return mask_refuse(r);
}

// Replaces padding by a value that does not affect a reduction over rows.
static ls_status reduction(rule *r, const uint64_t **inputs) {
  const ls_dtype dtype = ls_lowered_type(r->scope, r->inputs[0]).dtype;
  if (!reduces_rows(r)) return ls_ok();
  if (r->spec->type == LS_OP_REDUCE_SUM) return take_masked(r, -0.0, inputs);
  if (!ls_dtype_is_float(dtype)) return mask_refuse(r);
  if (r->spec->type == LS_OP_REDUCE_MAX)
    return take_masked(r, -INFINITY, inputs);
  return r->spec->type == LS_OP_REDUCE_MIN ? take_masked(r, INFINITY, inputs)
                                           : mask_refuse(r);
}

// Determines from the sizes in the op's attributes if the result has padded
// rows.
static ls_status mask_sized(rule *r) {
  const ls_masks *masks = r->scope->masks;
  const ls_mask *from = r->spec->num_inputs == 0 ? NULL : mask_of(r, 0);
  const ls_mask *wanted = masks->has_sizes ? masks->sized : NULL;
  const ls_attr *sizes =
      ls_attr_find(r->spec->attrs, r->spec->num_attrs, LS_ATTR_ID_SIZES);
  const bool keeps =
      from != NULL && sizes->as.sizes.count > 0 &&
      sizes->as.sizes.items[0].value == mask_shape_of(r, 0).dim[0];
  switch (r->spec->type) {
  case LS_OP_RESHAPE:
    if (!keeps || (masks->has_sizes && !has_first_size(masks, from)))
      return mask_refuse(r);
    return ls_ok();
  case LS_OP_BROADCAST:
    if (from == NULL) {
      r->mask = wanted;
      return ls_ok();
    }
    return keeps && (!masks->has_sizes || wanted != NULL) &&
                   (int32_t)sizes->as.sizes.count == mask_shape_of(r, 0).rank
               ? ls_ok()
               : mask_refuse(r);
  case LS_OP_IOTA:
    r->mask = wanted;
    return ls_ok();
  default:
    return mask_refuse(r);
  }
}

static ls_status by_rows(rule *r, const uint64_t **inputs) {
  const unsigned traits = ls_op_table[r->spec->type].traits;
  const size_t count = r->spec->num_inputs;
  switch (traits & LS_OP_ALL_ROWS) {
  case LS_OP_ROWS:
    return mask_rows_of(r, 0, count, 1);
  case LS_OP_ROWS_OF_FIRST:
    return mask_rows_of(r, 0, 1, 1);
  case LS_OP_ROWS_BUT_LAST:
    return mask_rows_of(r, 0, count - 1, 1);
  case LS_OP_ROWS_OF_INDICES:
    return ls_attr_int(r->spec->attrs, r->spec->num_attrs, LS_ATTR_ID_AXIS) == 0
               ? mask_rows_of(r, 1, 2, 1)
               : mask_refuse(r);
  case LS_OP_ROWS_IF_KEPT:
    return reduction(r, inputs);
  case LS_OP_ROWS_OF_PRODUCT:
    return product(r, inputs);
  case LS_OP_LINES:
    LS_RETURN_IF_ERROR(mask_rows_of(r, 0, count, 2));
    return mask_labels(r, inputs);
  case LS_OP_LINES_OF_FIRST:
    return mask_rows_of(r, 0, 1, 2);
  default:
    return mask_refuse(r);
  }
}

ls_status ls_mask_operands(ls_lower_scope *scope, const ls_op_spec *spec,
                           const uint64_t **inputs, const ls_node *origin,
                           const ls_mask **out_mask) {
  rule r = {.scope = scope, .spec = spec, .inputs = *inputs, .origin = origin};
  const unsigned traits = ls_op_table[spec->type].traits;
  *out_mask = NULL;
  if (scope->masks == NULL || scope->masks->is_masking) return ls_ok();
  for (size_t i = 0; i < spec->num_inputs; ++i) {
    const ls_mask *mask = mask_of(&r, i);
    if (mask == NULL) continue;
    if (r.mask != NULL && r.mask->source != mask->source)
      return mask_refuse(&r);
    r.mask = mask;
  }
  const bool is_sized = scope->masks->has_sizes && scope->masks->sized != NULL;
  if (r.mask == NULL && !is_sized) return ls_ok();
  if (traits & (LS_OP_RANDOM | LS_OP_EFFECT | LS_OP_ON_HOST | LS_OP_MERGE |
                LS_OP_REGIONS))
    return mask_refuse(&r);
  ls_status status = ls_ok();
  if (traits & LS_OP_SIZED)
    status = mask_sized(&r);
  else if (traits & LS_OP_ELEMENTWISE)
    status = elementwise(&r);
  else
    status = by_rows(&r, inputs);
  *out_mask = r.mask;
  return status;
}

ls_status ls_mask_results(ls_lower_scope *scope, const ls_node *made,
                          bool is_new, const ls_mask *mask) {
  if (scope->masks == NULL) return ls_ok();
  for (unsigned i = 0; i < made->num_outputs; ++i) {
    const ls_mask *has = ls_mask_of(scope, ls_ref(made->id, i));
    // Refuses an op that would be merged with an equal op without padding.
    if (!is_new && ((has == NULL) != (mask == NULL) ||
                    (has != NULL && has->source != mask->source)))
      return no_rule(ls_node_info(made)->name);
    if (is_new && mask != NULL)
      LS_RETURN_IF_ERROR(ls_mask_set(scope, ls_ref(made->id, i), mask));
  }
  return ls_ok();
}
