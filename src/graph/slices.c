// SPDX-License-Identifier: Apache-2.0
#include "lockstep/slices.h"

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "graph/slices.h"
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

// ---- Parts as leaves -------------------------------------------------------
enum { INDICES, VALUES, SHAPE, NUM_PARTS };

bool ls_leaf_is_slices(ls_nest leaf) {
  return !ls_nest_is_node(leaf) && ls_nest_has_slices(leaf);
}

static const char *device_of(ls_nest leaf, size_t i) {
  const char *device = ls_distributed_device(leaf, i);
  return device[0] == '\0' ? NULL : device;
}

static ls_status one_part(ls_nest leaf, size_t part, ls_nest *out_part) {
  const slices *s = slices_of(leaf);
  *out_part = ls_none();
  if (s == NULL || s->values.kind != LS_KIND_TENSOR)
    return ls_unimplemented(
        "%s is taken apart, which is for slices of a tensor: "
        "ls_slices_parts_of flattens slices of slices",
        LS_NEST_TEXT(leaf));
  if (part == SHAPE && s->dense_shape.ref == 0) return ls_ok();
  *out_part = part == VALUES
                  ? s->values
                  : ls_leaf(part == INDICES ? s->indices : s->dense_shape);
  return ls_ok();
}

// Makes a leaf of one part: a tensor, or a tensor for each replica; none if
// there is no such part.
static ls_status part_leaf(ls_nest leaf, size_t part, ls_nest *out_leaf) {
  const size_t count = ls_distributed_count(leaf);
  if (leaf.kind != LS_KIND_DISTRIBUTED) return one_part(leaf, part, out_leaf);
  LS_OWN_ARRAY_OR_RETURN(ls_current_allocator(), ls_nest, items, count);
  LS_OWN_ARRAY_OR_RETURN(ls_current_allocator(), const char *, devices, count);
  for (size_t i = 0; i < count; ++i) {
    LS_RETURN_IF_ERROR(
        one_part(ls_distributed_component(leaf, i), part, &items[i]));
    devices[i] = device_of(leaf, i);
    if (items[i].kind != items[0].kind)
      return ls_unimplemented(
          "slices with a dense shape on some replicas and without on others");
  }
  if (items[0].kind == LS_KIND_NONE) return ls_ok();
  return ls_take_nest(ls_nest_distributed_on(ls_distributed_kind_of(leaf),
                                             items, devices, count),
                      out_leaf);
}

static ls_nest slices_of_tensors(ls_nest indices, ls_nest values,
                                 ls_nest shape) {
  return ls_nest_slices(ls_nest_retain(values), indices.as.tensor,
                        shape.kind == LS_KIND_TENSOR ? shape.as.tensor
                                                     : (ls_tensor){0});
}

static ls_nest slices_of_parts(const ls_nest *parts) {
  const ls_nest values = parts[VALUES];
  const size_t count = ls_distributed_count(values);
  if (values.kind == LS_KIND_NONE) return ls_none();
  if (values.kind != LS_KIND_DISTRIBUTED)
    return slices_of_tensors(parts[INDICES], values, parts[SHAPE]);
  LS_OWN_ARRAY(ls_current_allocator(), ls_nest, items, count);
  LS_OWN_ARRAY(ls_current_allocator(), const char *, devices, count);
  if (items == NULL || devices == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i) {
    items[i] = slices_of_tensors(ls_distributed_component(parts[INDICES], i),
                                 ls_distributed_component(values, i),
                                 parts[SHAPE].kind == LS_KIND_DISTRIBUTED
                                     ? ls_distributed_component(parts[SHAPE], i)
                                     : ls_none());
    devices[i] = device_of(values, i);
  }
  return ls_nest_distributed_on(ls_distributed_kind_of(values), items, devices,
                                count);
}

ls_nest ls_slices_map(ls_nest leaf, ls_leaf_function map, void *user) {
  ls_nest mapped[NUM_PARTS] = {ls_none(), ls_none(), ls_none()};
  ls_nest made = ls_none();
  for (size_t i = 0; i < NUM_PARTS && !ls_nest_is_failed(made); ++i) {
    LS_OWN(ls_nest, part) = ls_none();
    const ls_status status = part_leaf(leaf, i, &part);
    if (!ls_status_is_ok(status))
      made = ls_fail(status);
    else if (part.kind != LS_KIND_NONE)
      mapped[i] = map(part, user);
    if (ls_nest_is_failed(mapped[i])) made = ls_nest_retain(mapped[i]);
  }
  if (!ls_nest_is_failed(made)) made = slices_of_parts(mapped);
  for (size_t i = 0; i < NUM_PARTS; ++i)
    ls_nest_release(mapped[i]);
  return made;
}

ls_nest ls_slices_note(ls_nest leaf, ls_leaf_function note, void *user) {
  const slices *s = slices_of(leaf);
  if (s == NULL) return ls_nest_retain(leaf);
  const ls_nest parts[NUM_PARTS] = {ls_leaf(s->indices), s->values,
                                    ls_leaf(s->dense_shape)};
  const size_t count = s->dense_shape.ref == 0 ? SHAPE : NUM_PARTS;
  for (size_t i = 0; i < count; ++i) {
    LS_OWN(ls_nest, noted) = note(parts[i], user);
    if (ls_nest_is_failed(noted)) return ls_give(&noted);
  }
  return ls_nest_retain(leaf);
}
