// SPDX-License-Identifier: Apache-2.0
//
// Replicated variables: one on each logical core of a replica. A strategy's
// cores always hold equal values, so one variable stores the value and the
// others are handles to it.
#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/nest_internal.h"
#include "distribute/values/values.h"
#include "distribute/variables/variable.h"
#include "graph/make/make.h"
#include "graph/own.h"
#include "lockstep/tpu_variable.h"
#include "runtime/eager/eager.h"
#include "runtime/program.h"
#include "tpu/pod/pod.h"
#include "tpu/strategy/strategy.h"

// ---- One core's variable ---------------------------------------------------
static ls_tensor read_first(ls_variable *handle) {
  return ls_variable_read(handle->targets[0]);
}

static ls_tensor use_first(ls_variable *handle) {
  return ls_variable_as_tensor(handle->targets[0]);
}

static ls_variable *first_here(const ls_variable *handle) {
  return ls_variable_here(handle->targets[0]);
}

// A change to apply to a core's variable.
typedef struct change {
  bool scatters;
  uint16_t op;
  ls_scatter_op scatter;
  ls_tensor indices, value;
} change;

static ls_tensor change_one(ls_variable *target, const change *c) {
  if (c->scatters)
    return ls_variable_scatter(target, c->scatter, c->indices, c->value);
  if (c->op == LS_OP_ASSIGN) return ls_variable_assign(target, c->value);
  return c->op == LS_OP_ASSIGN_ADD ? ls_variable_assign_add(target, c->value)
                                   : ls_variable_assign_sub(target, c->value);
}

static ls_tensor write_core(ls_variable *handle, uint16_t op, ls_tensor value) {
  return change_one(handle->targets[0], &(change){.op = op, .value = value});
}

static ls_tensor scatter_core(ls_variable *handle, ls_scatter_op op,
                              ls_tensor indices, ls_tensor updates) {
  return change_one(handle->targets[0], &(change){.scatters = true,
                                                  .scatter = op,
                                                  .indices = indices,
                                                  .value = updates});
}

static const ls_variable_rules core_rules = {.class_name = "TPUCoreVariable",
                                             .read = read_first,
                                             .as_tensor = use_first,
                                             .write = write_core,
                                             .scatter = scatter_core,
                                             .here = first_here};

// ---- All cores' variables --------------------------------------------------
// Returns true if an earlier core has the same variable.
static bool is_again(const ls_variable *handle, size_t index) {
  const ls_variable *here = ls_variable_here(handle->targets[index]);
  size_t i = 0;
  while (i < index && ls_variable_here(handle->targets[i]) != here)
    ++i;
  return i < index;
}

static bool is_one_value(const ls_variable *handle) {
  size_t i = 1;
  while (i < handle->num_targets && is_again(handle, i))
    ++i;
  return i >= handle->num_targets;
}

// Changes each variable on its own device; returns the first one's value, after
// all changes.
static ls_tensor change_each(ls_variable *handle, const change *c, ls_op *ops) {
  ls_tensor first = ls_failed_tensor(), made = ls_failed_tensor();
  size_t count = 0;
  for (size_t i = 0; i < handle->num_targets; ++i) {
    if (is_again(handle, i)) continue;
    ls_variable *target = handle->targets[i];
    const char *own = ls_variable_device(target);
    const char *around = ls_context_current()->scoped.device;
    {
      LS_DEVICE_SCOPE(own[0] != '\0' ? own : around);
      made = change_one(target, c);
    }
    if (ls_tensor_is_failed(made)) return made;
    if (count == 0) first = made;
    ops[count++] = ls_tensor_op(made);
  }
  if (ls_graph_current()->kind == LS_GRAPH_EAGER) return first;
  LS_CONTROL_SCOPE(ops, count);
  made = ls_identity(first);
  return made;
}

static ls_tensor change_all(ls_variable *handle, const change *c) {
  if (is_one_value(handle)) return change_one(handle->targets[0], c);
  LS_OWN_ARRAY(handle->allocator, ls_op, ops, handle->num_targets);
  if (ops == NULL)
    return ls_make_failed(c->scatters ? "assign_scatter"
                                      : ls_op_table[c->op].name,
                          ls_out_of_memory());
  return change_each(handle, c, ops);
}

static ls_tensor replicated_variable_write_all(ls_variable *handle, uint16_t op,
                                               ls_tensor value) {
  return change_all(handle, &(change){.op = op, .value = value});
}

static ls_tensor scatter_all(ls_variable *handle, ls_scatter_op op,
                             ls_tensor indices, ls_tensor updates) {
  return change_all(handle, &(change){.scatters = true,
                                      .scatter = op,
                                      .indices = indices,
                                      .value = updates});
}

static const ls_variable_rules replicated_rules = {
    .class_name = "TPUReplicatedVariable",
    .is_replicated = true,
    .read = read_first,
    .as_tensor = use_first,
    .write = replicated_variable_write_all,
    .scatter = scatter_all,
    .here = first_here};

static ls_status replicated_variable_make(const char *name,
                                          ls_variable *const *cores,
                                          size_t count,
                                          ls_variable **out_variable) {
  LS_RETURN_IF_ERROR(
      ls_handle_make(name, cores, count, &replicated_rules, out_variable));
  ls_variable *made = *out_variable;
  made->class_name = replicated_rules.class_name;
  made->synchronization = LS_SYNCHRONIZATION_NONE;
  made->aggregation = LS_AGGREGATION_NONE;
  return ls_ok();
}

// ---- User-made replicated variables ----------------------------------------
static ls_status replicated_variable_check_cores(const ls_nest *leaves,
                                                 size_t count) {
  if (count == 0)
    return ls_invalid_argument("a replicated variable of no variables: one on "
                               "each logical core is needed");
  LS_RETURN_IF_ERROR(
      ls_handle_check_targets("a replicated variable", leaves, count));
  const ls_variable *first = ls_nest_as_variable(leaves[0]);
  for (size_t i = 1; i < count; ++i) {
    const ls_variable *core = ls_nest_as_variable(leaves[i]);
    if (core->graph != first->graph)
      return ls_invalid_argument("a replicated variable of variables of one "
                                 "graph: '%s' and '%s' (number %zu) are not",
                                 first->name, core->name, i);
  }
  return ls_ok();
}

// In build graphs, makes one initializer op that runs those of all cores.
static ls_status join_initializers(ls_variable *handle) {
  const size_t count = handle->num_targets;
  if (handle->graph == NULL || is_one_value(handle)) return ls_ok();
  LS_OWN_ARRAY_OR_RETURN(handle->allocator, ls_op, ops, count);
  for (size_t i = 0; i < count; ++i)
    ops[i] = handle->targets[i]->initializer;
  {
    LS_INIT_SCOPE;
    {
      LS_NAME_SCOPE(NULL);
      handle->initializer = ls_group_by_device(ops, count, NULL);
    }
  }
  return ls_op_is_failed(handle->initializer)
             ? ls_graph_take_error(handle->graph)
             : ls_ok();
}

ls_status ls_replicated_variable_create(const char *name, const ls_nest *leaves,
                                        size_t count,
                                        ls_variable **out_variable) {
  LS_REQUIRE_OUT(out_variable);
  LS_REQUIRE_ITEMS(leaves, count);
  LS_RETURN_IF_ERROR(replicated_variable_check_cores(leaves, count));
  ls_allocator *allocator = ls_nest_as_variable(leaves[0])->allocator;
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_variable *, cores, count);
  for (size_t i = 0; i < count; ++i)
    cores[i] = ls_nest_as_variable(leaves[i]);
  LS_OWN(ls_variable, made) = NULL;
  LS_RETURN_IF_ERROR(replicated_variable_make(name, cores, count, &made));
  LS_RETURN_IF_ERROR(join_initializers(made));
  return ls_hand_over(&made, out_variable);
}

size_t ls_replicated_variable_num_cores(const ls_variable *variable) {
  return variable != NULL && variable->rules == &replicated_rules
             ? variable->num_targets
             : 0;
}

ls_variable *ls_replicated_variable_on_core(const ls_variable *variable,
                                            size_t core) {
  return core < ls_replicated_variable_num_cores(variable)
             ? variable->targets[core]
             : NULL;
}

// ---- A strategy's components -----------------------------------------------
// Returns which core of its replica a component is on; num_columns if it is on
// none of them.
static int32_t replicated_variable_core_of(const ls_strategy *strategy,
                                           const ls_variable *container,
                                           size_t index) {
  const char *device = ls_variable_device(container->components[index]);
  int32_t k = 0;
  while (k < strategy->num_columns &&
         strcmp(ls_strategy_column_device(strategy, k, (int32_t)index),
                device) != 0)
    ++k;
  return k;
}

static ls_status make_core(ls_variable *stored, const char *name,
                           const char *device, ls_variable **out_core) {
  ls_variable *core = NULL;
  LS_RETURN_IF_ERROR(ls_handle_make(name, &stored, 1, &core_rules, &core));
  core->class_name = core_rules.class_name;
  core->device = ls_copy_text(core->allocator, device, strlen(device));
  *out_core = core;
  return core->device != NULL ? ls_ok() : ls_out_of_memory();
}

static ls_status make_cores(const ls_strategy *strategy,
                            const ls_variable *container, size_t index,
                            const char *name, ls_variable **cores) {
  ls_variable *stored = container->components[index];
  const int32_t own = replicated_variable_core_of(strategy, container, index);
  for (int32_t k = 0; k < strategy->num_columns; ++k) {
    char text[LS_MAX_FULL_NAME + 64];
    snprintf(text, sizeof(text), "%s/core_%d", name, (int)k);
    if (k == own)
      cores[k] = ls_variable_retain(stored);
    else
      LS_RETURN_IF_ERROR(make_core(
          stored, text, ls_strategy_column_device(strategy, k, (int32_t)index),
          &cores[k]));
  }
  return ls_ok();
}

static ls_status make_component(const ls_strategy *strategy,
                                ls_variable *container, size_t index) {
  ls_allocator *allocator = container->allocator;
  const size_t count = (size_t)strategy->num_columns;
  char name[LS_MAX_FULL_NAME + 32];
  snprintf(name, sizeof(name), "%s/r:%zu", container->name, index);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_variable *, cores, count);
  ls_variable **made = &container->replicated[index];
  ls_status status = make_cores(strategy, container, index, name, cores);
  if (ls_status_is_ok(status))
    status = replicated_variable_make(name, cores, count, made);
  for (size_t k = 0; k < count; ++k)
    ls_variable_release(cores[k]);
  LS_RETURN_IF_ERROR(status);
  (*made)->container = container;
  (*made)->index = index;
  return ls_ok();
}

// Makes each component of the container a replicated variable, if replicas have
// several cores that run one program.
static ls_status replicate_components(const ls_tpu_strategy *strategy,
                                      ls_variable *container) {
  const ls_strategy *base = &strategy->base;
  const size_t count = container->num_components;
  if (!strategy->spmd || base->num_columns < 2 ||
      count != (size_t)base->num_replicas)
    return ls_ok();
  // A component that a user's creator placed elsewhere stays as it is.
  for (size_t i = 0; i < count; ++i)
    if (replicated_variable_core_of(base, container, i) == base->num_columns)
      return ls_ok();
  LS_SET_ARRAY_OR_RETURN(container->allocator, ls_variable *,
                         container->replicated, count);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(make_component(base, container, i));
  return ls_ok();
}

// ---- Variables -------------------------------------------------------------
// Classes and policies of variables of TPU strategies. They follow the rules of
// mirrored strategies; in a computation each replica has its own copy
// (ls_variable_rules.replicates).

// The fields that a policy and a class share.
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

// ---- Classes for strategies without policies -------------------------------
static ls_tensor refuse_scatter(ls_variable *container, ls_scatter_op op,
                                ls_tensor indices, ls_tensor updates) {
  (void)indices, (void)updates;
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
  if (variable == NULL ||
      (variable->num_components > 0 && !variable->rules->replicates))
    return ls_invalid_argument(
        "read_var takes a variable of a TPU strategy or a plain one, got %s",
        LS_NEST_TEXT(leaf));
  *out_value = ls_variable_read(variable);
  return ls_made_status(*out_value);
}

// ---- Variables that are initialized later -----------------------------------
// Such variables are made without a value; their initial values wait in a queue
// of the strategy. The first use of one of them, or the end of a scope, stores
// all values in the order of creation.

// Sets the queue in which a variable's or container's value waits. Requires the
// strategy's lock, because another thread may store the values at any moment.
static void set_late(ls_variable *variable, ls_late_values *late) {
  if (variable->container != NULL) variable = variable->container;
  __atomic_store_n(&variable->late, late, __ATOMIC_RELEASE);
  for (size_t i = 0; i < variable->num_components; ++i)
    __atomic_store_n(&variable->components[i]->late, late, __ATOMIC_RELEASE);
}

static ls_status lazy_variables_push(ls_tpu_strategy *self, ls_store *store,
                                     ls_variable *variable) {
  ls_tpu_late *late = &self->late;
  ls_array *value = NULL;
  if (!ls_store_has_value(store, variable)) return ls_ok();
  LS_RETURN_IF_ERROR(ls_store_take(store, variable, &value));
  ls_mutex_lock(&self->base.lock);
  const bool has_room = LS_GROW(self->base.allocator, late->items,
                                late->capacity, late->count + 1);
  if (has_room) {
    late->items[late->count++] =
        (ls_tpu_late_value){ls_variable_retain(variable), value};
    set_late(variable, &late->base);
  }
  ls_mutex_unlock(&self->base.lock);
  if (has_room) return ls_ok();
  ls_array_release(value);
  return ls_out_of_memory();
}

ls_status ls_tpu_class_adopt(ls_strategy *strategy,
                             const ls_variable_options *options,
                             ls_variable *container) {
  ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  LS_RETURN_IF_ERROR(replicate_components(self, container));
  if (!options->batch_initialization || !strategy->uses_policies ||
      container->graph != NULL)
    return ls_ok();
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(strategy->runtime, &state));
  if (ls_store_is_shared(state->store, container))
    return lazy_variables_push(self, state->store, container);
  for (size_t i = 0; i < container->num_components; ++i)
    LS_RETURN_IF_ERROR(
        lazy_variables_push(self, state->store, container->components[i]));
  return ls_ok();
}

static ls_status lazy_variables_initialize(ls_late_values *base) {
  // `base` is the first member of the strategy's queue.
  ls_tpu_late *late = (ls_tpu_late *)(void *)base;
  ls_tpu_strategy *self = late->owner;
  ls_runtime_state *state = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_state_get(self->base.runtime, &state));
  ls_status status = ls_ok();
  ls_mutex_lock(&self->base.lock);
  for (size_t i = 0; i < late->count; ++i) {
    const ls_tpu_late_value *item = &late->items[i];
    // The variable may have got a value meanwhile, from a file.
    if (ls_status_is_ok(status) &&
        !ls_store_has_value(state->store, item->variable))
      status = ls_store_write(state->store, item->variable, item->value);
    set_late(item->variable, NULL);
  }
  ls_tpu_late_value *items = late->items;
  const size_t count = late->count;
  late->items = NULL;
  late->count = late->capacity = 0;
  ls_mutex_unlock(&self->base.lock);
  // The queued variables may hold the last references to the strategy.
  ls_allocator *allocator = self->base.allocator;
  for (size_t i = 0; i < count; ++i) {
    ls_array_release(items[i].value);
    ls_variable_release(items[i].variable);
  }
  ls_release(allocator, items);
  return status;
}

void ls_tpu_late_init(ls_tpu_strategy *strategy) {
  strategy->late = (ls_tpu_late){
      .base = {.initialize = lazy_variables_initialize}, .owner = strategy};
}

void ls_tpu_class_leave(ls_strategy *strategy) {
  ls_tpu_strategy *self = ls_tpu_strategy_of(strategy);
  ls_mutex_lock(&strategy->lock);
  const bool waits = self->late.count > 0;
  ls_mutex_unlock(&strategy->lock);
  if (!waits) return;
  ls_strategy_retain(strategy);
  const ls_status status = lazy_variables_initialize(&self->late.base);
  if (!ls_status_is_ok(status))
    ls_tpu_log(strategy->runtime, LS_LOG_ERROR,
               "variables of %s have no value: %s", strategy->label,
               ls_status_message(status));
  ls_status_free(status);
  ls_strategy_release(strategy);
}
