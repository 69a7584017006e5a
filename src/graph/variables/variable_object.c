// SPDX-License-Identifier: Apache-2.0
//
// Variables as objects: creation, sharing, printing and destruction.
#include <stdio.h>

#include "base/runtime_internal.h"
#include "graph/layers.h"
#include "graph/own.h"
#include "graph/variables/variable.h"

ls_variable *ls_variable_retain(ls_variable *variable) {
  return ls_object_retain(variable);
}

void ls_variable_release(ls_variable *variable) { ls_object_release(variable); }

static void destroy_variable(ls_object *object) {
  ls_variable *variable = (ls_variable *)object;
  if (variable->graph == NULL) ls_library_layers.eager->forget(variable);
  for (size_t i = 0; i < variable->num_components; ++i) {
    variable->components[i]->container = NULL;
    ls_variable_release(variable->components[i]);
  }
  for (size_t i = 0; i < variable->num_components; ++i) {
    ls_variable *seen =
        variable->replicated != NULL ? variable->replicated[i] : NULL;
    if (seen != NULL) seen->container = NULL;
    ls_variable_release(seen);
  }
  ls_release(variable->allocator, variable->replicated);
  ls_release(variable->allocator, variable->components);
  ls_release(variable->allocator, variable->own);
  ls_release(variable->allocator, variable->policy);
  for (size_t i = 0; i < variable->num_targets; ++i)
    ls_variable_release(variable->targets[i]);
  ls_release(variable->allocator, variable->targets);
  ls_object_release(variable->kept);
  ls_variable_release(variable->packed);
  ls_release(variable->allocator, variable->slice);
  ls_object_release(variable->strategy);
  ls_release(variable->allocator, variable->device);
  ls_release(variable->allocator, variable->name);
  ls_release(variable->allocator, variable);
}

static void print_variable(const ls_object *object, char *buffer, size_t size) {
  const ls_variable *variable = (const ls_variable *)object;
  if (variable->num_components == 0) {
    snprintf(buffer, size, "variable '%s' %s", variable->name,
             LS_SHAPE_TEXT(variable->type.dtype, variable->type.shape));
    return;
  }
  int at = snprintf(buffer, size, "%s:{", variable->class_name);
  for (size_t i = 0;
       i < variable->num_components && at > 0 && (size_t)at < size; ++i) {
    char text[LS_MAX_NAME];
    print_variable(&ls_variable_seen(variable, i)->object, text, sizeof(text));
    at += snprintf(buffer + at, size - (size_t)at, "%s\n  %zu: %s",
                   i == 0 ? "" : ",", i, text);
  }
  if (at > 0 && (size_t)at < size)
    snprintf(buffer + at, size - (size_t)at, "\n}");
}

const ls_object_type ls_variable_object_type = {
    .name = "variable", .destroy = destroy_variable, .print = print_variable};

ls_status ls_variable_make(ls_runtime *runtime, const char *name, ls_type type,
                           bool trainable, ls_variable **out_variable) {
  static uint64_t last_id;
  *out_variable = NULL;
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  LS_NEW_OR_RETURN(allocator, ls_variable, variable);
  variable->name = ls_copy_text(allocator, name, strlen(name));
  if (variable->name == NULL) {
    ls_release(allocator, variable);
    return ls_out_of_memory();
  }
  ls_object_init(&variable->object, &ls_variable_object_type);
  variable->allocator = allocator;
  variable->runtime = runtime;
  variable->type = type;
  variable->trainable = trainable;
  variable->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
  variable->family = variable->id;
  *out_variable = variable;
  return ls_ok();
}
