// SPDX-License-Identifier: Apache-2.0
//
// The part shared by both ends of an infeed: types, shapes and sharding. Each
// change is made to a copy of the elements, which replaces them only if the
// whole change is valid.
#include "tpu/feeds/feed.h"

#include <inttypes.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "lockstep/shape_rules.h"
#include "tpu/own.h"

#define SHAPE_TEXT(shape) LS_SHAPE_TEXT(LS_DTYPE_F32, shape) + 3

// ---- Making ----------------------------------------------------------------
static void destroy_queue(ls_object *object) {
  ls_infeed_queue *queue = (ls_infeed_queue *)object;
  ls_nest_release(queue->dequeued);
  ls_nest_release(queue->enqueued);
  ls_device_assignment_release(queue->assignment);
  ls_object_release(queue->dequeue_system);
  ls_object_release(queue->enqueue_system);
  ls_release(queue->allocator, queue->elements);
  ls_release(queue->allocator, queue->parts);
  ls_release(queue->allocator, queue->name);
  ls_release(queue->allocator, queue);
}

static const ls_object_type queue_type = {.name = "infeed queue",
                                          .destroy = destroy_queue};

static ls_status count_elements(const ls_infeed_options *options,
                                const char *name, int64_t *out_count) {
  if (options->num_elements.set)
    *out_count = options->num_elements.value;
  else if (options->dtypes != NULL)
    *out_count = (int64_t)options->num_dtypes;
  else if (options->shapes != NULL)
    *out_count = (int64_t)options->num_shapes;
  else if (options->dimensions != NULL)
    *out_count = (int64_t)options->num_dimensions;
  else
    return ls_invalid_argument(
        "the number of elements of queue '%s' cannot be inferred: give it, or "
        "types, shapes or shard dimensions",
        name);
  if (*out_count > 0) return ls_ok();
  return ls_invalid_argument(
      "queue '%s' must have at least 1 element, not %" PRId64, name,
      *out_count);
}

static ls_status set_all(ls_infeed_queue *queue,
                         const ls_infeed_options *options) {
  const int64_t partitions =
      options->num_partitions.set ? options->num_partitions.value : 1;
  for (size_t i = 0; i < queue->count; ++i) {
    queue->elements[i].shape = LS_SHAPE_UNKNOWN;
    LS_RETURN_IF_ERROR(ls_sharding_policy_set_num_partitions(
        &queue->elements[i].policy, partitions));
  }
  if (options->dtypes != NULL)
    LS_RETURN_IF_ERROR(
        ls_infeed_queue_set_types(queue, options->dtypes, options->num_dtypes));
  if (options->shapes != NULL)
    LS_RETURN_IF_ERROR(ls_infeed_queue_set_shapes(queue, options->shapes,
                                                  options->num_shapes));
  if (options->dimensions != NULL)
    LS_RETURN_IF_ERROR(ls_infeed_queue_set_dimensions(
        queue, options->dimensions, options->num_dimensions));
  return ls_ok();
}

ls_status ls_infeed_queue_make(const ls_infeed_options *options,
                               const char *default_name,
                               ls_infeed_queue **out_queue) {
  const char *name = options->name != NULL ? options->name : default_name;
  ls_allocator *allocator = ls_current_allocator();
  int64_t count = 0;
  LS_RETURN_IF_ERROR(count_elements(options, name, &count));
  LS_OWN_NEW_OR_RETURN(allocator, ls_infeed_queue, queue);
  ls_object_init(&queue->object, &queue_type);
  queue->allocator = allocator;
  queue->count = (size_t)count;
  queue->name = ls_copy_text(allocator, name, strlen(name));
  queue->elements = ls_new_array(allocator, ls_infeed_element, queue->count);
  LS_RETURN_IF_NO_MEMORY(queue->name);
  LS_RETURN_IF_NO_MEMORY(queue->elements);
  LS_RETURN_IF_ERROR(set_all(queue, options));
  return ls_hand_over(&queue, out_queue);
}

ls_status ls_infeed_queue_create(const ls_infeed_options *options,
                                 ls_infeed_queue **out_queue) {
  LS_REQUIRE_OUT(out_queue);
  static const ls_infeed_options defaults = {0};
  return ls_infeed_queue_make(options != NULL ? options : &defaults,
                              "InfeedQueue", out_queue);
}

LS_COUNTED(ls_infeed_queue)

// ---- Read ------------------------------------------------------------------
const char *ls_infeed_queue_name(const ls_infeed_queue *queue) {
  return queue->name;
}

size_t ls_infeed_queue_num_elements(const ls_infeed_queue *queue) {
  return queue->count;
}

ls_type ls_infeed_queue_type(const ls_infeed_queue *queue, size_t element) {
  if (element >= queue->count)
    return (ls_type){LS_DTYPE_NONE, LS_SHAPE_UNKNOWN};
  const ls_infeed_element *found = &queue->elements[element];
  return (ls_type){found->dtype, found->shape};
}

ls_opt ls_infeed_queue_dimension(const ls_infeed_queue *queue, size_t element) {
  return element < queue->count ? queue->elements[element].policy.dimension
                                : (ls_opt){0};
}

ls_opt ls_infeed_queue_num_shards(const ls_infeed_queue *queue) {
  return queue->elements[0].policy.num_shards;
}

const ls_sharding_policy *ls_infeed_queue_policy(const ls_infeed_queue *queue,
                                                 size_t element) {
  return element < queue->count ? &queue->elements[element].policy : NULL;
}

bool ls_infeed_queue_is_frozen(const ls_infeed_queue *queue) {
  return queue->frozen;
}

ls_status ls_infeed_queue_shard_type(const ls_infeed_queue *queue, size_t i,
                                     ls_type *out_type) {
  const ls_infeed_element *element = &queue->elements[i];
  out_type->dtype = element->dtype;
  return ls_sharding_policy_shard_shape(&element->policy, element->shape,
                                        (ls_opt){0}, &out_type->shape);
}

// ---- Change ----------------------------------------------------------------
static ls_status infeed_queue_begin(const ls_infeed_queue *queue,
                                    ls_infeed_element **out_copy) {
  LS_SET_ARRAY_OR_RETURN(queue->allocator, ls_infeed_element, *out_copy,
                         queue->count);
  memcpy(*out_copy, queue->elements, queue->count * sizeof(**out_copy));
  return ls_ok();
}

// Swaps the copy with the queue's elements, unless it contradicts the shards.
static ls_status replace_elements(ls_infeed_queue *queue,
                                  ls_infeed_element **copy) {
  for (size_t i = 0; i < queue->count; ++i) {
    const ls_infeed_element *element = &(*copy)[i];
    ls_shape shape;
    if (!element->has_shape) continue;
    LS_RETURN_IF_ERROR(ls_status_annotate(
        ls_sharding_policy_shard_shape(&element->policy, element->shape,
                                       (ls_opt){0}, &shape),
        "element %zu of queue '%s'", i, queue->name));
  }
  ls_infeed_element *former = queue->elements;
  queue->elements = *copy;
  *copy = former;
  return ls_ok();
}

static ls_status infeed_queue_check_count(const ls_infeed_queue *queue,
                                          const char *noun, size_t count) {
  if (count == queue->count) return ls_ok();
  return ls_invalid_argument("queue '%s' is given %zu %s; it has %zu elements",
                             queue->name, count, noun, queue->count);
}

static ls_status infeed_queue_set_type(const ls_infeed_queue *queue,
                                       ls_infeed_element *element, size_t i,
                                       ls_dtype dtype) {
  if (ls_dtype_size(dtype) == 0)
    return ls_invalid_argument(
        "element %zu of queue '%s' has type %d, which does not exist", i,
        queue->name, (int)dtype);
  if (queue->frozen && element->dtype != dtype)
    return ls_invalid_argument(
        "element %zu of queue '%s' is frozen as %s, it cannot become %s", i,
        queue->name, ls_dtype_name(element->dtype), ls_dtype_name(dtype));
  element->dtype = dtype;
  return ls_ok();
}

static ls_status set_shape(const ls_infeed_queue *queue,
                           ls_infeed_element *element, size_t i,
                           ls_shape shape) {
  LS_RETURN_IF_ERROR(ls_shape_check(shape));
  if (queue->frozen && !ls_shape_equal(element->shape, shape))
    return ls_invalid_argument(
        "element %zu of queue '%s' is frozen as %s, it cannot become %s", i,
        queue->name, SHAPE_TEXT(element->shape), SHAPE_TEXT(shape));
  element->shape = shape;
  element->has_shape = true;
  return ls_ok();
}

ls_status ls_infeed_queue_set_types(ls_infeed_queue *queue,
                                    const ls_dtype *dtypes, size_t count) {
  LS_REQUIRE(queue);
  LS_REQUIRE_ITEMS(dtypes, count);
  LS_RETURN_IF_ERROR(infeed_queue_check_count(queue, "types", count));
  LS_OWN_MEMORY(queue->allocator, ls_infeed_element, copy) = NULL;
  LS_RETURN_IF_ERROR(infeed_queue_begin(queue, &copy));
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(infeed_queue_set_type(queue, &copy[i], i, dtypes[i]));
  return replace_elements(queue, &copy);
}

ls_status ls_infeed_queue_set_shapes(ls_infeed_queue *queue,
                                     const ls_shape *shapes, size_t count) {
  LS_REQUIRE(queue);
  LS_REQUIRE_ITEMS(shapes, count);
  LS_RETURN_IF_ERROR(infeed_queue_check_count(queue, "shapes", count));
  LS_OWN_MEMORY(queue->allocator, ls_infeed_element, copy) = NULL;
  LS_RETURN_IF_ERROR(infeed_queue_begin(queue, &copy));
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(set_shape(queue, &copy[i], i, shapes[i]));
  return replace_elements(queue, &copy);
}

ls_status ls_infeed_queue_set_dimensions(ls_infeed_queue *queue,
                                         const int64_t *dimensions,
                                         size_t count) {
  LS_REQUIRE(queue);
  LS_REQUIRE_ITEMS(dimensions, count);
  LS_RETURN_IF_ERROR(
      infeed_queue_check_count(queue, "shard dimensions", count));
  LS_OWN_MEMORY(queue->allocator, ls_infeed_element, copy) = NULL;
  LS_RETURN_IF_ERROR(infeed_queue_begin(queue, &copy));
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(
        ls_sharding_policy_set_dimension(&copy[i].policy, dimensions[i]));
  return replace_elements(queue, &copy);
}

static ls_status set_num_shards(const ls_infeed_queue *queue,
                                ls_infeed_element *elements, int64_t count) {
  for (size_t i = 0; i < queue->count; ++i)
    LS_RETURN_IF_ERROR(
        ls_sharding_policy_set_num_shards(&elements[i].policy, count));
  return ls_ok();
}

ls_status ls_infeed_queue_set_num_shards(ls_infeed_queue *queue,
                                         int64_t count) {
  LS_REQUIRE(queue);
  LS_OWN_MEMORY(queue->allocator, ls_infeed_element, copy) = NULL;
  LS_RETURN_IF_ERROR(infeed_queue_begin(queue, &copy));
  LS_RETURN_IF_ERROR(set_num_shards(queue, copy, count));
  return replace_elements(queue, &copy);
}

// ---- Set from tensors ------------------------------------------------------
ls_status ls_infeed_queue_tensors(const ls_infeed_queue *queue, ls_nest inputs,
                                  ls_tensor *out) {
  const size_t count = ls_nest_is_node(inputs) ? ls_nest_count(inputs) : 1;
  if (inputs.kind == LS_KIND_NONE)
    return ls_invalid_argument("queue '%s' is given no tensors", queue->name);
  LS_RETURN_IF_ERROR(infeed_queue_check_count(queue, "tensors", count));
  for (size_t i = 0; i < count; ++i) {
    const ls_nest item =
        ls_nest_is_node(inputs) ? ls_nest_item(inputs, i) : inputs;
    if (item.kind != LS_KIND_TENSOR)
      return ls_invalid_argument("element %zu for queue '%s' is no tensor: %s",
                                 i, queue->name, LS_NEST_TEXT(item));
    out[i] = item.as.tensor;
    if (ls_tensor_is_failed(out[i]))
      return ls_invalid_argument(
          "element %zu for queue '%s' is a failed tensor", i, queue->name);
  }
  return ls_ok();
}

static ls_status set_from_tensors(const ls_infeed_queue *queue,
                                  ls_infeed_element *copy, ls_nest inputs) {
  LS_OWN_ARRAY_OR_RETURN(queue->allocator, ls_tensor, tensors, queue->count);
  LS_RETURN_IF_ERROR(ls_infeed_queue_tensors(queue, inputs, tensors));
  for (size_t i = 0; i < queue->count; ++i) {
    LS_RETURN_IF_ERROR(
        set_shape(queue, &copy[i], i, ls_tensor_shape(tensors[i])));
    LS_RETURN_IF_ERROR(
        infeed_queue_set_type(queue, &copy[i], i, ls_tensor_dtype(tensors[i])));
  }
  return ls_ok();
}

ls_status ls_infeed_queue_configure_from(ls_infeed_queue *queue,
                                         ls_nest inputs) {
  LS_REQUIRE(queue);
  LS_OWN_MEMORY(queue->allocator, ls_infeed_element, copy) = NULL;
  LS_RETURN_IF_ERROR(infeed_queue_begin(queue, &copy));
  LS_RETURN_IF_ERROR(set_from_tensors(queue, copy, inputs));
  return replace_elements(queue, &copy);
}

static ls_status check_dtypes(const ls_infeed_queue *queue,
                              const ls_tensor *tensors, size_t num_shards,
                              size_t i) {
  const ls_dtype first = ls_tensor_dtype(tensors[i]);
  for (size_t s = 1; s < num_shards; ++s) {
    const ls_dtype dtype = ls_tensor_dtype(tensors[s * queue->count + i]);
    if (dtype != first)
      return ls_invalid_argument(
          "the types of element %zu of queue '%s' are not consistent: %s in "
          "shard 0, %s in shard %zu",
          i, queue->name, ls_dtype_name(first), ls_dtype_name(dtype), s);
  }
  return ls_ok();
}

// Sets the types and shapes of whole elements; `tensors` are ordered shard by
// shard.
static ls_status set_whole(const ls_infeed_queue *queue,
                           ls_infeed_element *copy, const ls_tensor *tensors,
                           ls_shape *shapes, size_t num_shards) {
  for (size_t i = 0; i < queue->count; ++i) {
    ls_shape whole;
    for (size_t s = 0; s < num_shards; ++s)
      shapes[s] = ls_tensor_shape(tensors[s * queue->count + i]);
    LS_RETURN_IF_ERROR(
        ls_status_annotate(ls_sharding_policy_unshard_shape(
                               &copy[i].policy, shapes, num_shards, &whole),
                           "element %zu of queue '%s'", i, queue->name));
    LS_RETURN_IF_ERROR(set_shape(queue, &copy[i], i, whole));
    LS_RETURN_IF_ERROR(check_dtypes(queue, tensors, num_shards, i));
    LS_RETURN_IF_ERROR(
        infeed_queue_set_type(queue, &copy[i], i, ls_tensor_dtype(tensors[i])));
  }
  return ls_ok();
}

static ls_status configure_shards(const ls_infeed_queue *queue,
                                  ls_infeed_element *copy, ls_nest shards) {
  const size_t num_shards = ls_nest_count(shards);
  LS_RETURN_IF_ERROR(set_num_shards(queue, copy, (int64_t)num_shards));
  LS_OWN_ARRAY_OR_RETURN(queue->allocator, ls_tensor, tensors,
                         queue->count * num_shards);
  LS_OWN_ARRAY_OR_RETURN(queue->allocator, ls_shape, shapes, num_shards);
  for (size_t s = 0; s < num_shards; ++s)
    LS_RETURN_IF_ERROR(ls_status_annotate(
        ls_infeed_queue_tensors(queue, ls_nest_item(shards, s),
                                tensors + s * queue->count),
        "in shard %zu", s));
  return set_whole(queue, copy, tensors, shapes, num_shards);
}

ls_status ls_infeed_queue_configure_from_shards(ls_infeed_queue *queue,
                                                ls_nest shards) {
  LS_REQUIRE(queue);
  if (!ls_nest_is_node(shards))
    return ls_invalid_argument(
        "queue '%s' needs a list of inputs for each shard, is given %s",
        queue->name, LS_NEST_TEXT(shards));
  LS_OWN_MEMORY(queue->allocator, ls_infeed_element, copy) = NULL;
  LS_RETURN_IF_ERROR(infeed_queue_begin(queue, &copy));
  LS_RETURN_IF_ERROR(configure_shards(queue, copy, shards));
  return replace_elements(queue, &copy);
}

// ---- Freeze ----------------------------------------------------------------
ls_status ls_infeed_queue_freeze(ls_infeed_queue *queue) {
  LS_REQUIRE(queue);
  for (size_t i = 0; i < queue->count; ++i)
    if (queue->elements[i].dtype == LS_DTYPE_NONE)
      return ls_failed_precondition(
          "queue '%s' cannot be frozen without setting all tuple types: "
          "element %zu has none",
          queue->name, i);
  for (size_t i = 0; i < queue->count; ++i) {
    const ls_infeed_element *element = &queue->elements[i];
    if (!element->has_shape || element->shape.rank == LS_UNKNOWN_RANK)
      return ls_failed_precondition(
          "queue '%s' cannot be frozen without setting all tuple shapes: %s "
          "element %zu is not known",
          queue->name, element->has_shape ? "the rank of" : "that of", i);
  }
  LS_OWN_MEMORY(queue->allocator, ls_infeed_element, copy) = NULL;
  LS_RETURN_IF_ERROR(infeed_queue_begin(queue, &copy));
  for (size_t i = 0; i < queue->count; ++i)
    ls_sharding_policy_freeze(&copy[i].policy);
  LS_RETURN_IF_ERROR(replace_elements(queue, &copy));
  queue->frozen = true;
  return ls_ok();
}
