// SPDX-License-Identifier: Apache-2.0
//
// What variables of TPU strategies are: classes and policies.
//
// Their rules are those of mirrored strategies, which know that in a
// computation (ls_variable_rules.replicates) each replica has its own.
#include "base/require.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/variables/variable.h"
#include "graph/make/make.h"
#include "lockstep/tpu_variable.h"
#include "runtime/eager/eager.h"
#include "tpu/strategy/strategy.h"

// What a policy and a class have in common.
#define ON_WRITE(name, scatter_rule)                                           \
  {                                                                            \
    .class_name = name, .replicates = true, .read = ls_read_mirrored,          \
    .as_tensor = ls_use_mirrored, .write = ls_write_as_maker,                  \
    .scatter = scatter_rule, .here = ls_container_here                         \
  }
#define ON_READ(name)                                                          \
  {                                                                            \
    .class_name = name, .replicates = true, .read = ls_read_on_read,           \
    .as_tensor = ls_use_on_read, .write = ls_write_as_maker,                   \
    .scatter = ls_scatter_on_read, .here = ls_container_here,                  \
    .make_saved = ls_make_saved_on_read, .share_saved = ls_share_saved_on_read \
  }

// ---- Policies --------------------------------------------------------------
static const ls_variable_rules on_write =
    ON_WRITE("TPUOnWritePolicy", ls_scatter_mirrored);
static const ls_variable_rules on_read = ON_READ("TPUOnReadPolicy");

const ls_variable_policy_map ls_tpu_policies = {.on_write = &on_write,
                                                .on_read = &on_read};

// ---- Classes, of strategies without policies -------------------------------
static ls_tensor refuse_scatter(ls_variable *container, ls_scatter_op op,
                                ls_tensor indices, ls_tensor updates) {
  (void)indices;
  (void)updates;
  return ls_make_failed(
      "assign_scatter",
      ls_unimplemented("scatter_%s of '%s', a %s without a policy",
                       ls_scatter_name(op), container->name,
                       container->rules->class_name));
}

static const ls_variable_rules mirrored =
    ON_WRITE("TPUMirroredVariable", refuse_scatter);
static const ls_variable_rules sync_on_read = ON_READ("TPUSyncOnReadVariable");

const ls_variable_class_map ls_tpu_classes = {
    .on_write = &mirrored,
    .on_read = &sync_on_read,
    .variable_class = "TPUDistributedVariable",
    .lazy_variable_class = "TPULazyDistributedVariable"};

// ---- Reading ---------------------------------------------------------------
ls_status ls_tpu_read_variable(ls_nest leaf, ls_tensor *out_value) {
  LS_REQUIRE_OUT(out_value);
  ls_variable *variable = ls_nest_as_variable(leaf);
  char text[200];
  if (variable == NULL ||
      (variable->num_components > 0 && !variable->rules->replicates))
    return ls_invalid_argument("read_var takes a variable of a TPU strategy or "
                               "a plain one, got %s",
                               ls_nest_print(leaf, text, sizeof(text)));
  *out_value = ls_variable_read(variable);
  return ls_made_status(*out_value);
}
