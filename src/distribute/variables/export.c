// SPDX-License-Identifier: Apache-2.0
#include "lockstep/export.h"

#include <stdio.h>

#include "base/require.h"
#include "distribute/variables/variable.h"
#include "graph/context.h"
#include "runtime/function.h"

// ---- The scope -------------------------------------------------------------
bool ls_in_export(void) { return ls_context_current()->scoped.exporting != 0; }

static ls_export_policy policy_here(void) {
  return (ls_export_policy)(ls_context_current()->scoped.exporting - 1);
}

static const ls_scope_type export_scope = {.name = "an export"};

void ls_export_begin(ls_scope *scope, ls_export_policy policy) {
  if ((unsigned)policy > LS_EXPORT_EXPAND_DISTRIBUTED_VARIABLES) {
    ls_context_refuse(scope,
                      ls_invalid_argument(
                          "export policy %d is none of NONE, "
                          "SAVE_VARIABLE_DEVICES, EXPAND_DISTRIBUTED_VARIABLES",
                          (int)policy));
    return;
  }
  if (ls_in_export()) {
    ls_context_refuse(
        scope,
        ls_failed_precondition(
            "an export cannot be nested: this thread is in one already"));
    return;
  }
  ls_context *context = ls_context_open(scope, &export_scope);
  context->scoped.exporting = (int8_t)(policy + 1);
  context->scoped.primaries_only =
      policy != LS_EXPORT_EXPAND_DISTRIBUTED_VARIABLES;
}

ls_status ls_note_unsaveable(const ls_variable *container, const char *access,
                             const char *how) {
  char why[LS_MAX_FULL_NAME + 80];
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(ls_graph_find_current(&graph));
  snprintf(why, sizeof(why), "%s of variable '%s' %s (aggregation %s)", access,
           container->name, how, ls_aggregation_name(container->aggregation));
  return ls_graph_note_unsaveable(graph, why);
}

static ls_status check_in_export(const char *noun) {
  LS_RETURN_IF_ERROR(ls_scope_status());
  return ls_in_export()
             ? ls_ok()
             : ls_failed_precondition(
                   "%s outside of an export (LS_EXPORT_SCOPE)", noun);
}

// ---- Variables -------------------------------------------------------------
ls_status ls_export_resource(const ls_variable *variable,
                             ls_variable **out_resource) {
  LS_REQUIRE_OUT(out_resource, variable);
  LS_RETURN_IF_ERROR(check_in_export("the exported resource of a variable"));
  const bool expands = policy_here() == LS_EXPORT_EXPAND_DISTRIBUTED_VARIABLES;
  const ls_variable *at = variable;
  while (at->num_targets > 0)
    at = at->targets[0];
  const ls_variable *whole = at->container;
  if (whole != NULL && (whole->packed == variable || !expands)) at = whole;
  if (at->num_components > 0) at = at->components[0];
  *out_resource = (ls_variable *)(uintptr_t)at;
  return ls_ok();
}

static const char *export_device_of(const ls_variable *variable) {
  return variable->device != NULL ? variable->device : "";
}

static ls_status describe_component(const ls_variable *container, size_t index,
                                    ls_record *list) {
  char key[24];
  ls_record *record = NULL;
  const ls_variable *component = ls_variable_seen(container, index);
  snprintf(key, sizeof(key), "%zu", index);
  LS_RETURN_IF_ERROR(ls_record_add(list, key, &record));
  LS_RETURN_IF_ERROR(ls_record_set_text(record, "name", component->name));
  return ls_record_set_text(record, "device", export_device_of(component));
}

ls_status ls_export_describe(const ls_variable *variable, ls_record *record) {
  LS_REQUIRE(variable, record);
  ls_variable *resource = NULL;
  ls_record *list = NULL;
  LS_RETURN_IF_ERROR(ls_export_resource(variable, &resource));
  LS_RETURN_IF_ERROR(ls_record_set_text(record, "name", resource->name));
  if (policy_here() == LS_EXPORT_NONE) return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_record_set_text(record, "device", export_device_of(resource)));
  if (policy_here() == LS_EXPORT_SAVE_VARIABLE_DEVICES ||
      variable->num_components == 0)
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_record_add(record, "components", &list));
  for (size_t i = 0; i < variable->num_components; ++i)
    LS_RETURN_IF_ERROR(describe_component(variable, i, list));
  return ls_ok();
}

// ---- Functions -------------------------------------------------------------
static ls_status check_trace(const ls_graph *graph) {
  if (graph == NULL)
    return ls_failed_precondition(
        "the function to export has no trace; give arguments like those of its "
        "calls (args), for which it is traced");
  const char *why = ls_graph_unsaveable(graph);
  if (why == NULL) return ls_ok();
  return ls_invalid_argument(
      "function '%s' cannot be exported as it was traced, outside of an "
      "export: there is %s in it. Pass an untraced function with an input "
      "signature (args), so that it is traced during the export",
      graph->name, why);
}

ls_status ls_export_function(ls_function *function, const ls_nest *args,
                             const ls_graph **out_graph) {
  LS_REQUIRE_OUT(out_graph, function);
  LS_RETURN_IF_ERROR(check_in_export("the exported graph of a function"));
  ls_graph *here = NULL;
  LS_RETURN_IF_ERROR(ls_graph_find_current(&here));
  if (here->kind != LS_GRAPH_EAGER)
    return ls_failed_precondition(
        "a function is exported in eager, not in graph '%s'", here->name);
  const ls_graph *graph = NULL;
  if (args != NULL)
    LS_RETURN_IF_ERROR(ls_function_trace(function, *args, &graph));
  else
    graph = ls_function_graph_here(function);
  LS_RETURN_IF_ERROR(check_trace(graph));
  *out_graph = graph;
  return ls_ok();
}
