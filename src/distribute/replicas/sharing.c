// SPDX-License-Identifier: Apache-2.0
#include "distribute/replicas/sharing.h"

#include <ctype.h>

#include "base/runtime_internal.h"
#include "lockstep/shape_rules.h"

typedef struct made_list {
  ls_variable **items;
  size_t count, capacity;
} made_list;

void ls_sharing_init(ls_sharing *sharing, ls_strategy *strategy) {
  sharing->strategy = strategy;
  ls_map_init(&sharing->made, strategy->allocator);
}

void ls_sharing_deinit(ls_sharing *sharing) {
  ls_map_item item;
  if (sharing->strategy == NULL) return;
  for (size_t at = 0; ls_map_next(&sharing->made, &at, &item);) {
    made_list *list = item.value;
    for (size_t i = 0; i < list->count; ++i)
      ls_variable_release(list->items[i]);
    ls_release(sharing->strategy->allocator, list->items);
    ls_release(sharing->strategy->allocator, list);
  }
  ls_map_deinit(&sharing->made);
}

void ls_shared_requests_deinit(ls_shared_requests *requests) {
  if (requests->counts.allocator != NULL) ls_map_deinit(&requests->counts);
}

void ls_canonical_variable_name(const char *name, char *out) {
  while (*name != '\0') {
    const char *end = name + 1;
    while (isdigit((unsigned char)*end))
      ++end;
    const bool numbered =
        *name == '_' && end > name + 1 && (*end == '/' || *end == '\0');
    if (numbered)
      name = end;
    else
      *out++ = *name++;
  }
  *out = '\0';
}

static ls_status sharing_keep(ls_sharing *sharing, const char *name,
                              ls_variable *variable) {
  ls_allocator *allocator = sharing->strategy->allocator;
  made_list *list = ls_map_find_text(&sharing->made, name);
  if (list == NULL) {
    list = ls_new(allocator, made_list);
    if (list == NULL) return ls_out_of_memory();
    if (!ls_map_insert_text(&sharing->made, name, list)) {
      ls_release(allocator, list);
      return ls_out_of_memory();
    }
  }
  if (!ls_grow(allocator, &list->items, &list->capacity, list->count + 1,
               sizeof(*list->items)))
    return ls_out_of_memory();
  list->items[list->count++] = ls_variable_retain(variable);
  return ls_ok();
}

// What a request says of the type, where it does.
static ls_status sharing_check_type(const ls_variable_options *options,
                                    const ls_variable *made) {
  const ls_array *array = options->initial_array;
  ls_dtype dtype = options->dtype;
  ls_shape shape = options->shape;
  bool has_shape = array == NULL && options->initial_value.ref == 0 &&
                   dtype != LS_DTYPE_NONE;
  if (array != NULL) {
    dtype = ls_array_dtype(array);
    shape = ls_array_shape(array);
    has_shape = true;
  } else if (options->initial_value.ref != 0) {
    dtype = ls_tensor_dtype(options->initial_value);
    shape = ls_tensor_shape(options->initial_value);
    has_shape = true;
  }
  if ((dtype == LS_DTYPE_NONE || dtype == made->type.dtype) &&
      (!has_shape || ls_shape_compatible(shape, made->type.shape)))
    return ls_ok();
  return ls_invalid_argument(
      "variable '%s' is %s on replica 0 and asked for as %s", made->name,
      LS_SHAPE_TEXT(made->type.dtype, made->type.shape),
      LS_SHAPE_TEXT(dtype, has_shape ? shape : made->type.shape));
}

static ls_status sharing_find(ls_shared_requests *requests, const char *asked,
                              const char *name,
                              const ls_variable_options *options,
                              ls_variable **out_variable) {
  const ls_sharing *sharing = requests->sharing;
  if (requests->counts.allocator == NULL)
    ls_map_init(&requests->counts, sharing->strategy->allocator);
  const size_t before =
      (size_t)(uintptr_t)ls_map_find_text(&requests->counts, name);
  const made_list *list = ls_map_find_text(&sharing->made, name);
  if (list == NULL || before >= list->count)
    return ls_failed_precondition(
        "variable '%s' was made on replica %d (%s), but not on replica 0; all "
        "replicas make the same variables",
        asked, requests->replica,
        ls_strategy_device(sharing->strategy, requests->replica));
  LS_RETURN_IF_ERROR(sharing_check_type(options, list->items[before]));
  if (!ls_map_insert_text(&requests->counts, name,
                          (void *)(uintptr_t)(before + 1)))
    return ls_out_of_memory();
  *out_variable = ls_variable_retain(list->items[before]);
  return ls_ok();
}

ls_status ls_sharing_create(const ls_creator *next,
                            const ls_variable_options *options, void *user,
                            ls_variable **out_variable) {
  ls_shared_requests *requests = user;
  const char *asked = options->name != NULL ? options->name : "Variable";
  char name[LS_MAX_NAME];
  if (strlen(asked) >= sizeof(name))
    return ls_invalid_argument("a variable's name of %zu characters",
                               strlen(asked));
  ls_canonical_variable_name(asked, name);
  if (requests->replica > 0)
    return sharing_find(requests, asked, name, options, out_variable);
  LS_RETURN_IF_ERROR(ls_creator_create(next, options, out_variable));
  const ls_status status = sharing_keep(requests->sharing, name, *out_variable);
  if (ls_status_is_ok(status)) return status;
  ls_variable_release(*out_variable);
  *out_variable = NULL;
  return status;
}
