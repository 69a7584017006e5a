// SPDX-License-Identifier: Apache-2.0
//
// The graph of a step as built has the names of ops; the instructions of its
// program, which have the same names, have the work and the memory.
//
//   conv1/conv_bias_act                      forward: layer conv1
//   gradients/conv1/conv_bias_act_grad/...   backward, of the same layer
//   adam/...                                 after the gradients: the optimizer
#include "cli/look/layers.h"

#include <string.h>

// ---- Paths -----------------------------------------------------------------
// Part of a name: its first `size` bytes.
typedef struct path {
  const char *text;
  size_t size;
} path;

static path whole_path(const char *name) { return (path){name, strlen(name)}; }

static bool path_equals(path a, path b) {
  return a.size == b.size && memcmp(a.text, b.text, a.size) == 0;
}

// Returns the scope of a name: "a/b" of "a/b/c"; "" if it is in none.
static path scope_of(path name) {
  while (name.size > 0 && name.text[name.size - 1] != '/')
    --name.size;
  if (name.size > 0) --name.size;
  return name;
}

// Returns true if `inner` is a name in the scope or in a scope in it.
static bool is_within(path scope, path inner) {
  return inner.size > scope.size && inner.text[scope.size] == '/' &&
         memcmp(scope.text, inner.text, scope.size) == 0;
}

// Returns the part of a name after its component "gradients" or "gradients_N",
// NULL if it has none.
static const char *after_gradients(const char *name) {
  static const char word[] = "gradients";
  for (const char *at = name; at != NULL; at = strchr(at, '/')) {
    if (*at == '/') ++at;
    if (strncmp(at, word, sizeof(word) - 1) != 0) continue;
    const char *end = at + sizeof(word) - 1;
    if (*end == '_') end += 1 + strspn(end + 1, "0123456789");
    if (*end == '/') return end + 1;
  }
  return NULL;
}

// ---- Ops -------------------------------------------------------------------
// Ops that compute no values of a layer.
static bool is_auxiliary(ls_op op) {
  static const char *const types[] = {
      "parameter", "constant",   "read_variable", "assign", "assign_add",
      "no_op",     "assign_sub", "dim_size",      "group"};
  for (size_t i = 0; i < sizeof(types) / sizeof(*types); ++i)
    if (strcmp(ls_op_type_name(op), types[i]) == 0) return true;
  return ls_op_num_outputs(op) == 0;
}

// The graph of a replica's step: its ops before the first gradient are the
// forward part.
typedef struct forward {
  const ls_graph *graph;
  size_t count;
} forward;

static forward find_forward(const ls_graph *graph) {
  forward f = {graph, 0};
  const size_t count = ls_graph_num_ops(graph);
  while (f.count < count &&
         after_gradients(ls_op_name(ls_graph_op(graph, f.count))) == NULL)
    ++f.count;
  return f;
}

static path forward_name(const forward *f, size_t i) {
  return whole_path(ls_op_name(ls_graph_op(f->graph, i)));
}

// Finds an op by name; false if it is not in the forward part.
static bool find_forward_op(const forward *f, path name) {
  for (size_t i = 0; i < f->count; ++i)
    if (path_equals(forward_name(f, i), name)) return true;
  return false;
}

// Returns the name of the first op of the forward part that uses a variable; ""
// if there is none.
static path find_use(const forward *f, const ls_variable *variable) {
  const ls_attr *attr = NULL;
  for (size_t i = 0; i < f->count; ++i) {
    const ls_status status =
        ls_op_attr(ls_graph_op(f->graph, i), "variable", &attr);
    const bool has = ls_status_is_ok(status);
    ls_status_free(status);
    if (has && (const void *)attr->as.object == (const void *)variable)
      return forward_name(f, i);
  }
  return (path){"", 0};
}

// Returns the layer of an op: its scope, or the op alone where other scopes are
// in that.
static path layer_of(const forward *f, path name) {
  const path scope = scope_of(name);
  if (scope.size == 0) return name;
  for (size_t i = 0; i < f->count; ++i)
    if (is_within(scope, scope_of(forward_name(f, i)))) return name;
  return scope;
}

// ---- Rows ------------------------------------------------------------------
static cli_layer *find_layer(const cli_layers *layers, path name) {
  for (size_t i = 0; i < layers->count; ++i) {
    cli_layer *item = &layers->items[i];
    if (path_equals((path){item->name, item->size}, name)) return item;
  }
  return NULL;
}

// Returns the layer of this name, inserted before layer `at` if it is new;
// there is room.
static cli_layer *add_layer_at(cli_layers *layers, path name, size_t at) {
  cli_layer *found = find_layer(layers, name);
  if (found != NULL) return found;
  cli_layer *item = &layers->items[at];
  memmove(item + 1, item, (layers->count++ - at) * sizeof(*item));
  *item = (cli_layer){.name = name.text, .size = name.size};
  return item;
}

static cli_layer *add_layer(cli_layers *layers, path name) {
  return add_layer_at(layers, name, layers->count);
}

void cli_layers_close(cli_layers *layers) {
  cli_release(layers->items);
  *layers = (cli_layers){0};
}

// ---- Outputs ---------------------------------------------------------------
static void set_output(cli_layer *layer, ls_tensor tensor) {
  layer->has_output = true;
  layer->output = (ls_type){ls_tensor_dtype(tensor), ls_tensor_shape(tensor)};
}

// Adds the layers of forward ops. A layer's output is the last of its values
// that another layer takes, else that of its last op.
static void add_ops(const forward *f, cli_layers *layers) {
  for (size_t i = 0; i < f->count; ++i) {
    const ls_op op = ls_graph_op(f->graph, i);
    if (is_auxiliary(op)) continue;
    const path name = layer_of(f, whole_path(ls_op_name(op)));
    cli_layer *layer = add_layer(layers, name);
    if (!layer->has_output) set_output(layer, ls_op_output(op, 0));
    for (size_t k = 0; k < ls_op_num_inputs(op); ++k) {
      const ls_tensor input = ls_op_input(op, k);
      const ls_op from = ls_tensor_op(input);
      if (is_auxiliary(from)) continue;
      const path other = layer_of(f, whole_path(ls_op_name(from)));
      cli_layer *source = find_layer(layers, other);
      if (source != NULL && !path_equals(other, name))
        set_output(source, input);
    }
  }
}

// ---- Variables -------------------------------------------------------------
static int64_t numbers_of(const ls_variable *variable) {
  return ls_shape_num_elements(ls_variable_shape(variable));
}

static int64_t bytes_of(const ls_variable *variable) {
  return numbers_of(variable) *
         (int64_t)ls_dtype_size(ls_variable_dtype(variable));
}

// Returns the layer whose scope holds the name, the innermost one; else that of
// its first use, as "a_1" of "a/kernel" where a function makes the layer, too;
// else a new one of that scope, or of the variable alone, after `*count` such
// layers at the beginning.
static cli_layer *layer_of_variable(const forward *f, cli_layers *layers,
                                    const ls_variable *variable,
                                    size_t *count) {
  const path self = whole_path(ls_variable_name(variable));
  for (path scope = scope_of(self); scope.size > 0; scope = scope_of(scope)) {
    cli_layer *found = find_layer(layers, scope);
    if (found != NULL) return found;
  }
  cli_layer *user = find_layer(layers, scope_of(find_use(f, variable)));
  if (user != NULL) return user;
  const path scope = scope_of(self);
  return add_layer_at(layers, scope.size > 0 ? scope : self, (*count)++);
}

static void add_variable(const forward *f, cli_layers *layers,
                         const ls_variable *variable, size_t *num_alone) {
  cli_layer *layer = layer_of_variable(f, layers, variable, num_alone);
  const bool is_trainable = ls_variable_is_trainable(variable);
  const int64_t numbers = numbers_of(variable);
  *(is_trainable ? &layer->parameters : &layer->other) += numbers;
  *(is_trainable ? &layers->parameter_bytes : &layers->other_bytes) +=
      bytes_of(variable);
}

static void add_variables(const forward *f, ls_variable *const *variables,
                          size_t count, size_t num_slots, cli_layers *layers) {
  size_t num_alone = 0;
  for (size_t i = 0; i < count - num_slots; ++i)
    add_variable(f, layers, variables[i], &num_alone);
  for (size_t i = count - num_slots; i < count; ++i) {
    layers->optimizer.other += numbers_of(variables[i]);
    layers->optimizer_bytes += bytes_of(variables[i]);
  }
}

// ---- Lists of variables ----------------------------------------------------
static ls_status list_of_model(const ls_model *model, ls_variable ***out,
                               size_t *out_count, size_t *out_slots) {
  const ls_model_type *type = model->type;
  const ls_optimizer *optimizer =
      type->optimizer != NULL ? type->optimizer(model->self) : NULL;
  const size_t count = type->variables(model->self, NULL, 0);
  const size_t slots =
      optimizer != NULL ? ls_optimizer_variables(optimizer, NULL, 0) : 0;
  CLI_OWN_ARRAY_OR_RETURN(ls_variable *, all, count + slots + 1);
  (void)type->variables(model->self, all, count);
  if (optimizer != NULL)
    (void)ls_optimizer_variables(optimizer, all + count, slots);
  *out = cli_give(&all);
  *out_count = count + slots;
  *out_slots = slots;
  return ls_ok();
}

ls_status cli_list_variables(const ls_model *model, const ls_graph *graph,
                             ls_variable ***out, size_t *out_count,
                             size_t *out_slots) {
  if (model != NULL && model->type != NULL)
    return list_of_model(model, out, out_count, out_slots);
  static const char name[] = LS_COLLECTION_GLOBAL_VARIABLES;
  const forward f = find_forward(graph);
  const size_t count = ls_graph_collection(graph, name, NULL, 0);
  CLI_OWN_ARRAY_OR_RETURN(ls_nest, leaves, count + 1);
  CLI_OWN_ARRAY_OR_RETURN(ls_variable *, all, count + 1);
  (void)ls_graph_collection(graph, name, leaves, count);
  size_t first = 0, slots = 0;
  for (size_t i = 0; i < count; ++i) {
    ls_variable *variable = ls_nest_as_variable(leaves[i]);
    if (ls_variable_is_trainable(variable) || find_use(&f, variable).size > 0)
      all[first++] = variable;
    else
      all[count - ++slots] = variable;
  }
  *out = cli_give(&all);
  *out_count = count;
  *out_slots = slots;
  return ls_ok();
}

// ---- Work ------------------------------------------------------------------
// Returns the forward op of which an op is the gradient, by its name after
// "gradients/": "a/b" of "a/b_grad/mul"; "" if there is none.
static path find_source(const forward *f, const char *name) {
  static const char suffix[] = "_grad";
  const size_t length = sizeof(suffix) - 1;
  for (path at = scope_of(whole_path(name)); at.size > 0; at = scope_of(at)) {
    if (at.size <= length ||
        memcmp(at.text + at.size - length, suffix, length) != 0)
      continue;
    const path source = {at.text, at.size - length};
    if (find_forward_op(f, source)) return source;
  }
  return (path){"", 0};
}

// Returns true for an op outside of the forward part: one of the optimizer's,
// by its name or its scope, or of the code around the replicas.
static bool is_outside(const forward *f, const ls_graph *around, path name) {
  const path scope = scope_of(name);
  const size_t count = ls_graph_num_ops(f->graph);
  for (size_t i = f->count; i < count; ++i) {
    const path other = forward_name(f, i);
    if (path_equals(other, name) ||
        (scope.size > 0 && path_equals(scope_of(other), scope)))
      return true;
  }
  const size_t others = around != f->graph ? ls_graph_num_ops(around) : 0;
  for (size_t i = 0; i < others; ++i)
    if (path_equals(whole_path(ls_op_name(ls_graph_op(around, i))), name))
      return true;
  return false;
}

// Returns the layer of an instruction; that of the optimizer for ops after the
// gradients, and for gradients of no layer. Ops in the body of a loop or branch
// are not among those of the graph, and add layers.
static cli_layer *layer_of_instruction(const forward *f, const ls_graph *around,
                                       cli_layers *layers, const char *name) {
  const char *rest = after_gradients(name);
  const path op = rest != NULL ? find_source(f, rest) : whole_path(name);
  const path layer = layer_of(f, op);
  cli_layer *found = find_layer(layers, layer);
  if (found != NULL) return found;
  if (op.size == 0 || is_outside(f, around, op)) return &layers->optimizer;
  return add_layer(layers, layer);
}

static void add_work(const forward *f, const ls_graph *around,
                     const ls_instruction_figures *list, size_t count,
                     cli_layers *layers) {
  for (size_t i = 0; i < count; ++i) {
    const ls_instruction_figures *at = &list[i];
    if (at->name[0] == '\0') continue;
    cli_layer *layer = layer_of_instruction(f, around, layers, at->name);
    layer->step_flops += at->flops;
    if (layer == &layers->optimizer || after_gradients(at->name) != NULL)
      continue;
    layer->forward_flops += at->flops;
    if (after_gradients(list[at->last_reader].name) != NULL)
      layer->activation_bytes += at->value_bytes;
  }
}

static cli_layer named_layer(const char *name) {
  return (cli_layer){.name = name, .size = strlen(name)};
}

static void add_total(cli_layers *layers) {
  cli_layer *total = &layers->total;
  for (size_t i = 0; i < layers->count; ++i) {
    const cli_layer *item = &layers->items[i];
    total->parameters += item->parameters;
    total->other += item->other;
    total->forward_flops += item->forward_flops;
    total->step_flops += item->step_flops;
    total->activation_bytes += item->activation_bytes;
  }
}

ls_status cli_layers_open(const cli_step *step, const ls_graph *replica,
                          cli_layers *out_layers) {
  CLI_OWN(cli_layers, layers) = {.optimizer = named_layer("(optimizer)"),
                                 .total = named_layer("(total)")};
  const forward f = find_forward(replica);
  size_t count = 0;
  *out_layers = (cli_layers){0};
  LS_RETURN_IF_ERROR(
      ls_function_list_instructions(step->function, NULL, 0, &count));
  CLI_OWN_ARRAY_OR_RETURN(ls_instruction_figures, list, count + 1);
  LS_RETURN_IF_ERROR(
      ls_function_list_instructions(step->function, list, count, &count));
  size_t num_variables = 0, num_slots = 0;
  CLI_OWN_MEMORY(ls_variable *, variables) = NULL;
  LS_RETURN_IF_ERROR(cli_list_variables(&step->model, replica, &variables,
                                        &num_variables, &num_slots));
  // Each op, variable and instruction adds one layer at most.
  CLI_SET_ARRAY_OR_RETURN(layers.items, f.count + num_variables + count + 1);
  add_ops(&f, &layers);
  add_variables(&f, variables, num_variables, num_slots, &layers);
  add_work(&f, ls_function_graph(step->function), list, count, &layers);
  add_total(&layers);
  return cli_hand_over(&layers, out_layers);
}
