// SPDX-License-Identifier: Apache-2.0
//
// Which rules each class of distributed variables has, and the values they
// work on.
#include "distribute/cross_device/cross_device.h"
#include "distribute/variables/variable.h"
#include "distribute/variables/variable_create.h"
#include "graph/make/make.h"
#include "lockstep/strategy_extended.h"
#include "runtime/eager/eager.h"

// ---- Values ----------------------------------------------------------------
// A leaf as a tensor of the variable's type: host scalars take it on.
ls_status ls_value_as_tensor(const ls_variable *variable, ls_nest leaf,
                             ls_tensor *out_tensor) {
  const ls_dtype dtype = variable->type.dtype;
  if (leaf.kind != LS_KIND_SCALAR)
    return ls_distributed_as_tensor(leaf, out_tensor);
  *out_tensor = ls_dtype_is_float(leaf.dtype) || ls_dtype_is_float(dtype)
                    ? ls_scalar(dtype, ls_nest_number(leaf))
                    : ls_scalar_i64(dtype, leaf.as.i64);
  if (variable->type.shape.rank > 0)
    *out_tensor = ls_broadcast(*out_tensor, variable->type.shape);
  return ls_made_status(*out_tensor);
}

bool ls_value_is_distributed(ls_nest leaf) {
  return leaf.kind == LS_KIND_DISTRIBUTED || ls_is_distributed_variable(leaf);
}

// The part of a value that is for component `index`.
ls_nest ls_value_part(ls_nest value, size_t index) {
  if (value.kind == LS_KIND_DISTRIBUTED)
    return ls_distributed_component(value, index);
  if (!ls_is_distributed_variable(value)) return value;
  return (ls_nest){.kind = LS_KIND_VARIABLE,
                   .as.ref = ls_variable_component(value.as.ref, index)};
}

// ---- Classes ---------------------------------------------------------------
const ls_variable_rules ls_mirrored_rules = {.class_name = "MirroredVariable",
                                             .read = ls_read_mirrored,
                                             .as_tensor = ls_use_mirrored,
                                             .write = ls_write_as_maker,
                                             .scatter = ls_scatter_mirrored,
                                             .here = ls_container_here};

const ls_variable_rules ls_sync_on_read_rules = {
    .class_name = "SyncOnReadVariable",
    .read = ls_read_on_read,
    .as_tensor = ls_use_on_read,
    .write = ls_write_as_maker,
    .scatter = ls_scatter_on_read,
    .here = ls_container_here,
    .make_saved = ls_make_saved_on_read,
    .share_saved = ls_share_saved_on_read};

const ls_variable_rules *ls_mirrored_variable_rules(void) {
  return &ls_mirrored_rules;
}

const ls_variable_rules *ls_sync_on_read_variable_rules(void) {
  return &ls_sync_on_read_rules;
}

const ls_variable_class_map ls_mirrored_classes = {
    .on_write = &ls_mirrored_rules,
    .on_read = &ls_sync_on_read_rules,
    .variable_class = "DistributedVariable"};

const ls_variable_policy_map ls_mirrored_policies = {
    .on_write = &ls_mirrored_rules, .on_read = &ls_sync_on_read_rules};
