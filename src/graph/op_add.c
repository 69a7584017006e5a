// SPDX-License-Identifier: Apache-2.0
//
// Adds an op: imports its operands into the current graph, infers types, and
// applies scopes. All ops of build, function and eager graphs are added here.
#include <stdlib.h>

#include "base/require.h"
#include "base/values/nest_internal.h"
#include "graph/context.h"
#include "graph/flow.h"
#include "graph/layers.h"
#include "graph/make/make.h"

// An op being added, on the stack; long lists are in `memory`.
typedef struct addition {
  // The op's spec, completed with attributes, scopes and flows.
  ls_op_spec spec;
  const ls_op_info *info;
  ls_graph *graph;
  ls_context *context;
  ls_arena memory;
  uint64_t *refs;
  ls_type *in, *out;
  size_t num_out;
  uint64_t few_refs[8];
  ls_type few_in[8], few_out[2];
} addition;

static ls_op failed_op(addition *a, ls_status status) {
  if (a->graph == NULL) {
    ls_status_free(status);
    return (ls_op){0};
  }
  if (a->graph->kind == LS_GRAPH_EAGER)
    return ls_library_layers.eager->fail(a->graph, status);
  if (a->graph->error == NULL) a->graph->error_unplaced = true;
  ls_graph_fail(a->graph, status);
  return (ls_op){0};
}

// Appends the op's name and its scope to an error.
static ls_status with_scope(const addition *a, ls_status status) {
  char scope[LS_MAX_FULL_NAME];
  ls_name_scope_print(a->context->scoped.names, scope, sizeof(scope));
  if (scope[0] == '\0' && a->spec.name == NULL)
    return ls_status_annotate(status, "in op %s of graph '%s'", a->info->name,
                              a->graph->name);
  return ls_status_annotate(status, "in op '%s%s' of graph '%s'", scope,
                            a->spec.name ? a->spec.name : a->info->name,
                            a->graph->name);
}

// Reports an operand that is no tensor, with the key of a dict that was read
// for a tensor and is missing.
static ls_status no_operand(const addition *a, size_t i) {
  char missing[256];
  const ls_status status = ls_invalid_argument(
      "operand %zu of %s is a failed or zeroed tensor", i, a->info->name);
  return ls_nest_take_missing(missing, sizeof(missing))
             ? ls_status_annotate(status, "%s", missing)
             : status;
}

static ls_status import_inputs(addition *a) {
  const ls_op_spec *spec = &a->spec;
  a->refs = a->few_refs;
  a->in = a->few_in;
  if (spec->num_inputs > LS_COUNT_OF(a->few_refs)) {
    LS_ARENA_SET_OR_RETURN(&a->memory, uint64_t, a->refs, spec->num_inputs);
    LS_ARENA_SET_OR_RETURN(&a->memory, ls_type, a->in, spec->num_inputs);
  }
  for (size_t i = 0; i < spec->num_inputs; ++i) {
    const ls_tensor input = spec->inputs[i];
    if (input.ref == 0) return no_operand(a, i);
    LS_RETURN_IF_ERROR(ls_graph_import(a->graph, input, &a->refs[i]));
    a->in[i] = ls_graph_type(a->graph, a->refs[i]);
  }
  return ls_ok();
}

// Checks the spec's pointers and attributes, and resolves attribute ids.
static ls_status check_spec(addition *a) {
  const ls_op_spec *spec = &a->spec;
  if (spec->inputs == NULL && spec->num_inputs > 0)
    return ls_invalid_argument("%s has %zu operands at NULL", a->info->name,
                               spec->num_inputs);
  if (spec->control == NULL && spec->num_control > 0)
    return ls_invalid_argument("it has %zu control inputs at NULL",
                               spec->num_control);
  if (spec->num_attrs > UINT32_MAX || spec->num_regions > UINT32_MAX)
    return ls_invalid_argument("it has %zu attributes and %zu regions",
                               spec->num_attrs, spec->num_regions);
  for (size_t i = 0; i < spec->num_regions; ++i)
    if (spec->regions == NULL || spec->regions[i] == NULL)
      return ls_invalid_argument("its region %zu is NULL", i);
  const ls_attr *attrs = NULL;
  LS_RETURN_IF_ERROR(ls_attrs_resolve(&a->memory, spec->type, spec->attrs,
                                      spec->num_attrs, &attrs));
  a->spec.attrs = attrs;
  LS_RETURN_IF_ERROR(
      ls_attrs_check(spec->type, attrs, spec->num_attrs, spec->num_inputs));
  return spec->type != LS_OP_PARAMETER
             ? ls_ok()
             : ls_invalid_argument(
                   "a parameter cannot be added: its graph creates it");
}

static ls_status infer_types(addition *a) {
  ls_infer infer;
  memset(a->few_out, 0, sizeof(a->few_out));
  LS_RETURN_IF_ERROR(ls_infer_run(&infer, &a->spec, a->in, a->spec.num_inputs,
                                  a->few_out, &a->memory));
  a->out = infer.out;
  a->num_out = infer.num_out;
  return ls_ok();
}

// ---- Scopes ----------------------------------------------------------------
static int compare_text(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Lists the colocation groups of an op, or its own group if it has none, and
// returns their number. `out` may be NULL.
static size_t list_groups(addition *a, ls_op op, const char **out) {
  const ls_node *node = ls_graph_node(op.graph, op.id);
  const ls_attr *attr =
      node == NULL ? NULL : ls_node_attr_named(node, "_class");
  const bool has_groups = attr != NULL && attr->kind == LS_ATTR_STRINGS &&
                          attr->as.strings.count > 0;
  const size_t count = has_groups ? attr->as.strings.count : 1;
  for (size_t i = 0; i < count && out != NULL; ++i)
    out[i] = has_groups
                 ? attr->as.strings.items[i]
                 : ls_arena_format(&a->memory, "loc:@%s", ls_op_name(op));
  return count;
}

static ls_status find_groups(addition *a, const char ***out_groups,
                             size_t *out_count) {
  const ls_open_scope *scopes = a->context->scoped.colocate;
  size_t count = 0, kept = 0;
  for (const ls_open_scope *s = scopes; s != NULL; s = s->before.colocate)
    count += list_groups(a, s->own.colocate.beside, NULL);
  LS_ARENA_ARRAY_OR_RETURN(&a->memory, const char *, groups, count + 1);
  count = 0;
  for (const ls_open_scope *s = scopes; s != NULL; s = s->before.colocate)
    count += list_groups(a, s->own.colocate.beside, groups + count);
  for (size_t i = 0; i < count; ++i)
    if (groups[i] == NULL) return ls_out_of_memory();
  qsort(groups, count, sizeof(*groups), compare_text);
  for (size_t i = 0; i < count; ++i)
    if (i == 0 || strcmp(groups[i], groups[kept - 1]) != 0)
      groups[kept++] = groups[i];
  *out_groups = groups;
  *out_count = kept;
  return ls_ok();
}

// Marks an op made in colocation scopes: `_class` lists the groups of all ops
// that it is colocated with, sorted.
static ls_status mark_colocated(addition *a, ls_node *node) {
  const char **groups = NULL;
  size_t count = 0;
  if (a->context->scoped.colocate == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(find_groups(a, &groups, &count));
  return ls_node_set_attr(a->graph, node,
                          &(ls_attr){.name = "_class",
                                     .kind = LS_ATTR_STRINGS,
                                     .as.strings = {groups, count}});
}

// Collects the op's control inputs, which enclosing flows may change.
static ls_status apply_scopes(addition *a) {
  LS_RETURN_IF_ERROR(ls_control_gather(
      a->graph, a->info, a->context->scoped.control, &a->spec, &a->memory));
  return a->context->scoped.flow == NULL ? ls_ok()
                                         : ls_flow_admit(&a->spec, &a->memory);
}

static ls_status set_properties(addition *a, ls_node *node,
                                const ls_op *outside, size_t num_outside) {
  const ls_scope_state *scoped = &a->context->scoped;
  memcpy(node->outputs, a->out, a->num_out * sizeof(*a->out));
  node->device = scoped->device;
  if (scoped->control != NULL)
    node->made_in = scoped->control->own.control.group;
  LS_RETURN_IF_ERROR(
      ls_graph_name_node(a->graph, node, scoped->names, a->spec.name));
  LS_RETURN_IF_ERROR(mark_colocated(a, node));
  if (!ls_graph_wait_outside(a->graph, node, outside, num_outside))
    return ls_out_of_memory();
  return scoped->flow == NULL ? ls_ok()
                              : ls_flow_mark((ls_op){a->graph, node->id});
}

void ls_graph_freeze(ls_graph *graph) { graph->frozen = true; }

bool ls_graph_is_frozen(const ls_graph *graph) { return graph->frozen; }

ls_status ls_graph_set_seed(ls_graph *graph, int64_t seed) {
  LS_REQUIRE(graph);
  if (graph->kind != LS_GRAPH_BUILD)
    return ls_invalid_argument(
        "graph '%s' is no build graph: only those have a seed", graph->name);
  graph->seed = seed;
  return ls_ok();
}

static ls_status refuse_frozen(const ls_graph *graph) {
  return ls_failed_precondition(
      "graph '%s' is frozen: no op can be added to it any more (make it before "
      "the session, as in a hook's begin)",
      graph->name);
}

static ls_status op_add_append(addition *a, ls_node **out_node) {
  if (a->graph->frozen) return refuse_frozen(a->graph);
  if (a->graph->next_id > LS_MAX_OP_ID)
    return ls_failed_precondition(
        "graph '%s' has an op %%%lld, the last number that a text can give to "
        "one: no op can be added to it",
        a->graph->name, (long long)LS_MAX_OP_ID);
  const ls_graph_rollback_point before = ls_graph_mark(a->graph);
  const ls_op *outside = NULL;
  size_t num_outside = 0;
  LS_RETURN_IF_ERROR(
      ls_control_split(a->graph, &a->spec, &a->memory, &outside, &num_outside));
  ls_node *node = ls_graph_append(a->graph, &a->spec, a->refs, a->num_out);
  if (node == NULL) return ls_out_of_memory();
  const ls_status status = set_properties(a, node, outside, num_outside);
  if (!ls_status_is_ok(status)) {
    node->num_regions = 0;  // The caller keeps the regions.
    ls_graph_rollback(a->graph, before);
    return status;
  }
  *out_node = node;
  return ls_ok();
}

static ls_status check_control(const addition *a, const ls_op *ops,
                               size_t count) {
  for (size_t i = 0; ops != NULL && i < count; ++i) {
    const ls_op op = ops[i];
    const ls_node *node = op.id == 0 ? NULL : ls_graph_node(op.graph, op.id);
    if (node != NULL && node->failure != NULL)
      return ls_status_clone(node->failure);
    if (op.id != 0) continue;
    const ls_status status = ls_graph_take_error(a->graph);
    return !ls_status_is_ok(status)
               ? status
               : ls_invalid_argument("a control input of %s is a failed op",
                                     a->info->name);
  }
  return ls_ok();
}

// Refuses an eager op that depends on a failed op, also by a control scope.
static ls_status check_controls(const addition *a) {
  if (a->graph->kind != LS_GRAPH_EAGER) return ls_ok();
  if ((a->info->traits & LS_OP_EFFECT) != 0)
    LS_RETURN_IF_ERROR(ls_failure_earlier());
  LS_RETURN_IF_ERROR(check_control(a, a->spec.control, a->spec.num_control));
  const ls_open_scope *s = a->context->scoped.control;
  for (; s != NULL; s = s->before.control)
    LS_RETURN_IF_ERROR(
        check_control(a, s->own.control.ops, s->own.control.count));
  return ls_ok();
}

static ls_status prepare_addition(addition *a) {
  LS_RETURN_IF_ERROR(ls_op_check_count(a->info, a->spec.num_inputs));
  LS_RETURN_IF_ERROR(check_spec(a));
  if (a->graph->kind != LS_GRAPH_EAGER) LS_RETURN_IF_ERROR(apply_scopes(a));
  LS_RETURN_IF_ERROR(import_inputs(a));
  return infer_types(a);
}

static ls_op graph_add(addition *a) {
  if (a->context->refused != NULL)
    return failed_op(a, ls_status_clone(a->context->refusal));
  if (a->graph->kind == LS_GRAPH_LOWERED)
    return failed_op(a, ls_internal("an op maker in a lowered graph"));
  // An op that uses a failed op fails without setting the graph's error, which
  // has the first failure.
  if (a->graph->error != NULL)
    for (size_t i = 0; a->spec.inputs != NULL && i < a->spec.num_inputs; ++i)
      if (a->spec.inputs[i].ref == 0) return (ls_op){0};
  if (a->graph->kind == LS_GRAPH_EAGER && a->spec.inputs != NULL)
    for (size_t i = 0; i < a->spec.num_inputs; ++i) {
      const ls_tensor input = a->spec.inputs[i];
      const ls_node *node = ls_graph_node_of(input.graph, input.ref);
      if (node != NULL && node->failure != NULL)
        return failed_op(a, ls_status_clone(node->failure));
    }
  ls_status status = check_controls(a);
  if (!ls_status_is_ok(status)) return failed_op(a, status);
  status = prepare_addition(a);
  if (!ls_status_is_ok(status)) return failed_op(a, with_scope(a, status));
  if (a->graph->kind == LS_GRAPH_EAGER)
    return ls_library_layers.eager->run(a->graph, &a->spec, a->refs, a->out,
                                        a->num_out);
  ls_node *node = NULL;
  status = op_add_append(a, &node);
  if (!ls_status_is_ok(status)) return failed_op(a, with_scope(a, status));
  return (ls_op){a->graph, node->id};
}

ls_tensor ls_make_failed(const char *op_name, ls_status status) {
  ls_graph *graph = ls_graph_current();
  status = ls_status_annotate(status, "in op %s", op_name);
  if (graph == NULL) {
    ls_status_free(status);
    return ls_failed_tensor();
  }
  if (graph->kind == LS_GRAPH_EAGER)
    return ls_op_output(ls_library_layers.eager->fail(graph, status), 0);
  if (graph->error == NULL) graph->error_unplaced = true;
  ls_graph_fail(graph, status);
  return ls_failed_tensor();
}

static ls_op no_such_op(const ls_op_spec *spec) {
  const ls_status status =
      spec == NULL ? ls_invalid_argument("the spec of the op is NULL")
                   : ls_invalid_argument("there is no type of op %u",
                                         (unsigned)spec->type);
  return ls_tensor_op(ls_make_failed("ls_op_add", status));
}

ls_op ls_op_add(const ls_op_spec *spec) {
  if (spec == NULL || spec->type == LS_OP_NONE || spec->type >= LS_OP_COUNT)
    return no_such_op(spec);
  addition a = {.spec = *spec,
                .info = &ls_op_table[spec->type],
                .graph = ls_graph_resolve(ls_graph_current()),
                .context = ls_context_current()};
  // The graph may have been destroyed inside its own scope.
  if (a.graph == NULL || a.graph->allocator == NULL) return (ls_op){0};
  ls_arena_init(&a.memory, a.graph->allocator);
  const ls_op op = graph_add(&a);
  ls_arena_deinit(&a.memory);
  return op;
}

// ---- Source positions ------------------------------------------------------
// Sets the position of a node, and of those in its regions, which a call of the
// library's own may have made: a step of an optimizer in a branch.
static void place_node(ls_node *node, const char *file, int line) {
  if (node->file != NULL) return;
  node->file = file;
  node->line = line;
  if (node->failure != NULL)
    node->failure = ls_status_annotate(node->failure, "at %s:%d", file, line);
  for (uint32_t r = 0; r < node->num_regions; ++r)
    for (size_t i = 0; i < node->regions[r]->num_nodes; ++i)
      place_node(node->regions[r]->nodes[i], file, line);
}

static void op_add_place(const char *file, int line) {
  ls_graph *graph = ls_graph_current();
  if (graph == NULL) return;
  for (size_t i = graph->num_nodes; i > 0; --i) {
    ls_node *node = graph->nodes[i - 1];
    if (node->id <= graph->placed) break;
    place_node(node, file, line);
  }
  graph->placed = graph->next_id - 1;
  ls_first_failure *first = ls_context_current()->failure;
  if (first != NULL && first->is_unplaced) {
    first->status = ls_status_annotate(first->status, "at %s:%d", file, line);
    first->is_unplaced = false;
  }
  if (graph->error != NULL && graph->error_unplaced) {
    graph->error = ls_status_annotate(graph->error, "at %s:%d", file, line);
    graph->error_unplaced = false;
  }
}

// The calls of the macros that keep a source position.
#define AT(Type, name)                                                         \
  Type ls_at_##name(Type value, const char *file, int line) {                  \
    op_add_place(file, line);                                                  \
    return value;                                                              \
  }
AT(ls_tensor, tensor)
AT(ls_op, op)
AT(ls_nest, nest)
AT(ls_status, status)
