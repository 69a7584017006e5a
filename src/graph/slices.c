// SPDX-License-Identifier: Apache-2.0
#include "lockstep/slices.h"

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "graph/region.h"
#include "lockstep/distributed.h"
#include "lockstep/object.h"

typedef struct slices {
  ls_object object;
  ls_allocator *allocator;
  ls_nest values;  // A tensor or slices.
  ls_tensor indices, dense_shape;
} slices;

static void destroy_slices(ls_object *object) {
  slices *s = (slices *)object;
  ls_nest_release(s->values);
  ls_release(s->allocator, s);
}

static const ls_object_type slices_type = {.name = "slices",
                                           .destroy = destroy_slices};

static const slices *slices_of(ls_nest leaf) {
  const slices *s = leaf.kind == LS_KIND_SLICES ? leaf.as.ref : NULL;
  return s != NULL && s->object.type == &slices_type ? s : NULL;
}

ls_nest ls_nest_slices(ls_nest values, ls_tensor indices,
                       ls_tensor dense_shape) {
  if (values.kind != LS_KIND_TENSOR && slices_of(values) == NULL) {
    const ls_nest failed =
        LS_FAIL(LS_INVALID_ARGUMENT, "the values of slices cannot be %s",
                LS_NEST_TEXT(values));
    ls_nest_release(values);
    return failed;
  }
  ls_allocator *allocator = ls_current_allocator();
  slices *s = ls_new(allocator, slices);
  if (s == NULL) {
    ls_nest_release(values);
    return ls_fail(ls_out_of_memory());
  }
  ls_object_init(&s->object, &slices_type);
  s->allocator = allocator;
  s->values = values;
  s->indices = indices;
  s->dense_shape = dense_shape;
  ls_nest_deepen(&s->object, values);
  return ls_nest_object(LS_KIND_SLICES, &s->object);
}

ls_status ls_slices_parts_of(ls_nest leaf, ls_slices_parts *out_parts) {
  LS_REQUIRE_OUT(out_parts);
  const slices *s = slices_of(leaf);
  if (s == NULL)
    return ls_invalid_argument("%s is not a leaf of slices",
                               LS_NEST_TEXT(leaf));
  if (s->values.kind == LS_KIND_TENSOR) {
    *out_parts =
        (ls_slices_parts){s->indices, s->values.as.tensor, s->dense_shape};
    return ls_ok();
  }
  // The indices of the inner slices select from those of the outer slices.
  ls_slices_parts inner;
  LS_RETURN_IF_ERROR(ls_slices_parts_of(s->values, &inner));
  *out_parts = (ls_slices_parts){ls_gather(s->indices, inner.indices, 0),
                                 inner.values, s->dense_shape};
  return ls_ok();
}

// Maps one tensor of slices, which may be absent.
static ls_nest map_part(ls_tensor part, ls_leaf_function function, void *user) {
  return part.ref == 0 ? ls_none() : function(ls_leaf(part), user);
}

static ls_nest map_slices(const slices *s, ls_leaf_function function,
                          void *user) {
  const ls_nest parts[] = {map_part(s->indices, function, user),
                           map_part(s->dense_shape, function, user)};
  const ls_nest values = ls_leaf_map_tensors(s->values, function, user);
  if (!ls_nest_is_failed(parts[0]) && !ls_nest_is_failed(parts[1]))
    return ls_nest_slices(values, parts[0].as.tensor, parts[1].as.tensor);
  ls_nest_release(values);
  ls_nest_release(parts[ls_nest_is_failed(parts[0])]);
  return parts[!ls_nest_is_failed(parts[0])];
}

typedef struct leaf_map {
  ls_leaf_function function;
  void *user;
} leaf_map;

static ls_nest map_component(ls_nest component, void *user) {
  const leaf_map *map = user;
  return ls_leaf_map_tensors(component, map->function, map->user);
}

ls_nest ls_leaf_map_tensors(ls_nest leaf, ls_leaf_function function,
                            void *user) {
  const slices *s = slices_of(leaf);
  if (s != NULL) return map_slices(s, function, user);
  if (leaf.kind != LS_KIND_DISTRIBUTED) return function(leaf, user);
  return ls_distributed_map_components(leaf, map_component,
                                       &(leaf_map){function, user});
}

bool ls_nest_has_slices(ls_nest nest) {
  if (nest.kind == LS_KIND_SLICES) return true;
  for (size_t i = 0; i < ls_nest_count(nest); ++i)
    if (ls_nest_has_slices(ls_nest_item(nest, i))) return true;
  const size_t count = ls_distributed_count(nest);
  size_t sparse = 0;
  while (sparse < count &&
         ls_nest_has_slices(ls_distributed_component(nest, sparse)))
    ++sparse;
  return count > 0 && sparse == count;
}
