// SPDX-License-Identifier: Apache-2.0
// Nests: making leaves and inner nodes, and reading them.
//
// An inner node is one block: header, items, keys, their sorted order, and the
// characters of tag and keys. A failed nest points to a counted holder of its
// status, or to nothing if there was no memory for the holder.
#include "lockstep/nest.h"
#include "lockstep/object.h"

#include <math.h>

#include "base/memory/allocator.h"
#include "base/plain.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"

typedef struct nest_node {
  ls_object object;
  ls_allocator *allocator;
  size_t count;
  const char *tag;
  const char **keys;  // NULL for a list and a plain tuple.
  uint32_t *order;    // Key positions in sorted order; NULL without keys.
  bool marks_reads;
  uint64_t reads;  // Bits of items that were read; atomic.
  ls_nest items[];
} nest_node;

typedef struct failure {
  ls_object object;
  ls_status status;
} failure;

// ---- Failed nests ----------------------------------------------------------
static void destroy_failure(ls_object *object) {
  ls_status_free(((failure *)object)->status);
  ls_release(ls_allocator_system(), object);
}

static const ls_object_type failure_type = {.name = "failure",
                                            .destroy = destroy_failure};

ls_nest ls_fail(ls_status status) {
  const ls_nest nest = {.kind = LS_KIND_FAILED};
  if (ls_status_is_ok(status))
    status = ls_internal("a nest failed without a status");
  // Uses the system's memory, as statuses do.
  failure *holder = ls_new(ls_allocator_system(), failure);
  if (holder == NULL) {
    ls_status_free(status);
    return nest;
  }
  ls_object_init(&holder->object, &failure_type);
  holder->status = status;
  return (ls_nest){.kind = LS_KIND_FAILED, .as.ref = holder};
}

static bool owns_reference(ls_nest nest);

// Returns true for a nest that no constructor makes: its kind needs a
// reference, which is NULL.
static bool lacks_reference(ls_nest nest) {
  return owns_reference(nest) && nest.as.ref == NULL;
}

ls_status ls_nest_status(ls_nest nest) {
  if (nest.kind != LS_KIND_FAILED)
    return lacks_reference(nest)
               ? ls_invalid_argument("a nest of kind %d whose reference is "
                                     "NULL; nests are made by ls_nest_array, "
                                     "ls_nest_object, LS_LIST and their like",
                                     (int)nest.kind)
               : ls_ok();
  const failure *holder = nest.as.ref;
  return holder == NULL ? ls_out_of_memory() : ls_status_clone(holder->status);
}

ls_status ls_take_nest(ls_nest made, ls_nest *out_value) {
  const ls_status status = ls_nest_status(made);
  if (ls_status_is_ok(status))
    *out_value = made;
  else
    ls_nest_release(made);
  return status;
}

ls_status ls_nest_give(ls_nest made, ls_nest *results) {
  const ls_nest before = *results;
  const ls_status status = ls_take_nest(made, results);
  if (ls_status_is_ok(status)) ls_nest_release(before);
  return status;
}

// ---- Leaves ----------------------------------------------------------------
ls_nest ls_nest_i64(int64_t value) {
  return (ls_nest){
      .kind = LS_KIND_SCALAR, .dtype = LS_DTYPE_I64, .as.i64 = value};
}

ls_nest ls_nest_f64(double value) {
  return (ls_nest){
      .kind = LS_KIND_SCALAR, .dtype = LS_DTYPE_F64, .as.f64 = value};
}

ls_nest ls_nest_bool(bool value) {
  return (ls_nest){
      .kind = LS_KIND_SCALAR, .dtype = LS_DTYPE_BOOL, .as.i64 = value ? 1 : 0};
}

ls_nest ls_nest_array(ls_array *array) {
  if (array == NULL) return LS_FAIL(LS_INVALID_ARGUMENT, "a nest of no array");
  return (ls_nest){.kind = LS_KIND_ARRAY, .as.ref = array};
}

ls_nest ls_nest_zeros(ls_dtype dtype, ls_shape shape) {
  ls_array *array = NULL;
  const ls_status status = ls_array_create(dtype, shape, &array);
  return ls_status_is_ok(status) ? ls_nest_array(array) : ls_fail(status);
}

static bool is_object_kind(ls_kind kind) {
  return kind == LS_KIND_ARRAY || kind == LS_KIND_VARIABLE ||
         kind == LS_KIND_DISTRIBUTED || kind == LS_KIND_SLICES ||
         kind == LS_KIND_OBJECT;
}

static bool owns_reference(ls_nest nest) {
  return is_object_kind(nest.kind) || ls_nest_is_node(nest) ||
         nest.kind == LS_KIND_FAILED;
}

void ls_nest_deepen(ls_object *holder, ls_nest item) {
  if (!owns_reference(item) || item.as.ref == NULL) return;
  const ls_object *held = item.as.ref;
  if (held->depth >= holder->depth) holder->depth = held->depth + 1;
}

// Takes over a nest and returns it, or a failed nest if it is too deep.
static ls_nest bounded(ls_nest nest) {
  const ls_object *object = nest.as.ref;
  if (object->depth <= LS_NEST_MAX_DEPTH) return nest;
  ls_nest_release(nest);
  return LS_FAIL(LS_INVALID_ARGUMENT, "a nest of more than %d levels",
                 LS_NEST_MAX_DEPTH);
}

ls_nest ls_nest_object(ls_kind kind, ls_object *object) {
  if (object == NULL)
    return LS_FAIL(LS_INVALID_ARGUMENT, "a nest of no object");
  if (!is_object_kind(kind)) {
    ls_nest failed = LS_FAIL(LS_INVALID_ARGUMENT, "a nest of kind %d with %s",
                             (int)kind, object->type->name);
    ls_object_release(object);
    return failed;
  }
  return bounded((ls_nest){.kind = kind, .as.ref = object});
}

ls_nest ls_nest_retain(ls_nest nest) {
  if (owns_reference(nest)) ls_object_retain(nest.as.ref);
  return nest;
}

void ls_nest_release(ls_nest nest) {
  if (owns_reference(nest)) ls_object_release(nest.as.ref);
}

static void release_all(const ls_nest *items, size_t count) {
  for (size_t i = 0; i < count; ++i)
    ls_nest_release(items[i]);
}

// ---- Making nodes ----------------------------------------------------------
static void destroy_node(ls_object *object) {
  nest_node *node = (nest_node *)object;
  release_all(node->items, node->count);
  ls_release(node->allocator, node);
}

static const ls_object_type node_type = {.name = "nest",
                                         .destroy = destroy_node};

// Computes the bytes of a node; returns false on overflow.
static bool node_size(const char *tag, const char *const *keys, size_t count,
                      size_t *out_chars, size_t *out_size) {
  const size_t per_item =
      sizeof(ls_nest) + (keys ? sizeof(char *) + sizeof(uint32_t) : 0);
  *out_chars = strlen(tag) + 1;
  for (size_t i = 0; keys != NULL && i < count; ++i)
    *out_chars += strlen(keys[i]) + 1;
  return count <= UINT32_MAX &&
         !__builtin_mul_overflow(count, per_item, out_size) &&
         !__builtin_add_overflow(*out_size, sizeof(nest_node) + *out_chars,
                                 out_size);
}

static char *copy_chars(char **place, const char *text) {
  const size_t size = strlen(text) + 1;
  char *copy = memcpy(*place, text, size);
  *place += size;
  return copy;
}

// Moves order[at] down in the heap of `count`, the largest key on top.
static void sift_down(const nest_node *node, size_t at, size_t count) {
  uint32_t *order = node->order;
  for (size_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
    if (child + 1 < count &&
        strcmp(node->keys[order[child]], node->keys[order[child + 1]]) < 0) {
      ++child;
    }
    if (strcmp(node->keys[order[at]], node->keys[order[child]]) >= 0) return;
    const uint32_t swapped = order[at];
    order[at] = order[child];
    order[child] = swapped;
    at = child;
  }
}

// Sorts the keys by heap sort, in place: the C library's qsort may allocate.
static void nest_sort_keys(nest_node *node) {
  for (uint32_t i = 0; i < node->count; ++i)
    node->order[i] = i;
  for (size_t i = node->count / 2; i-- > 0;)
    sift_down(node, i, node->count);
  for (size_t end = node->count; end-- > 1;) {
    const uint32_t largest = node->order[0];
    node->order[0] = node->order[end];
    node->order[end] = largest;
    sift_down(node, 0, end);
  }
}

// Makes a node whose items are all empty. `keys` may be NULL. NULL without
// memory.
static nest_node *make_node(const char *tag, const char *const *keys,
                            size_t count) {
  size_t chars = 0;
  size_t size = 0;
  if (!node_size(tag, keys, count, &chars, &size)) return NULL;
  ls_allocator *allocator = ls_current_allocator();
  nest_node *node = ls_allocate_zeroed(allocator, 1, size);
  if (node == NULL) return NULL;
  ls_object_init(&node->object, &node_type);
  node->allocator = allocator;
  node->count = count;
  node->object.depth = 1;
  char *place = (char *)(node->items + count);
  if (keys != NULL) {
    node->keys = (const char **)(void *)place;
    place += count * sizeof(char *);
    node->order = (uint32_t *)(void *)place;
    place += count * sizeof(uint32_t);
  }
  node->tag = copy_chars(&place, tag);
  for (size_t i = 0; keys != NULL && i < count; ++i)
    node->keys[i] = copy_chars(&place, keys[i]);
  if (keys != NULL) nest_sort_keys(node);
  return node;
}

// Stores an item in an empty position and takes it over.
static void fill_item(nest_node *node, size_t index, ls_nest item) {
  node->items[index] = item;
  ls_nest_deepen(&node->object, item);
}

// Makes a nest of a filled node, which it takes over; a failed nest if it is
// too deep.
static ls_nest finish_node(ls_kind kind, nest_node *node) {
  return bounded((ls_nest){.kind = kind, .as.ref = node});
}

static const ls_nest *find_failed(const ls_nest *items, size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (ls_nest_is_failed(items[i]) || lacks_reference(items[i]))
      return &items[i];
  return NULL;
}

// Makes a node of given items, which it takes over. All makers of nodes end
// here.
static ls_nest make_nest(ls_kind kind, const char *tag, const char *const *keys,
                         const ls_nest *items, size_t count) {
  if (items == NULL && count > 0)
    return LS_FAIL(LS_INVALID_ARGUMENT, "a nest of %zu items at NULL", count);
  const ls_nest *failed = find_failed(items, count);
  if (failed != NULL) {
    const ls_nest result = ls_nest_is_failed(*failed)
                               ? ls_nest_retain(*failed)
                               : ls_fail(ls_nest_status(*failed));
    release_all(items, count);
    return result;
  }
  nest_node *node = make_node(tag, keys, count);
  if (node == NULL) {
    release_all(items, count);
    return ls_fail(ls_out_of_memory());
  }
  for (size_t i = 0; i < count; ++i)
    fill_item(node, i, items[i]);
  for (size_t i = 1; keys != NULL && i < count; ++i) {
    const char *key = node->keys[node->order[i]];
    if (strcmp(node->keys[node->order[i - 1]], key) != 0) continue;
    ls_nest refused =
        LS_FAIL(LS_INVALID_ARGUMENT, "key '%s' is given twice in one %s", key,
                kind == LS_KIND_DICT ? "dict" : "named tuple");
    ls_object_release(node);
    return refused;
  }
  return finish_node(kind, node);
}

ls_nest ls_nest_sequence(ls_kind kind, const ls_nest *items, size_t count) {
  if (kind != LS_KIND_LIST && kind != LS_KIND_TUPLE) {
    if (items != NULL) release_all(items, count);
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "a sequence of kind %d; it is a list or a tuple", (int)kind);
  }
  return make_nest(kind, "", NULL, items, count);
}

// Without items `keys` may be NULL; a node with names gets an empty list of
// keys.
static ls_nest make_with_keys(ls_kind kind, const char *tag,
                              const char *const *keys, const ls_nest *items,
                              size_t count) {
  static const char *const none[] = {""};
  size_t given = 0;
  while (keys != NULL && given < count && keys[given] != NULL)
    ++given;
  if (given == count)
    return make_nest(kind, tag == NULL ? "" : tag, keys == NULL ? none : keys,
                     items, count);
  if (items != NULL) release_all(items, count);
  return LS_FAIL(LS_INVALID_ARGUMENT, "%s %zu of %zu is NULL",
                 kind == LS_KIND_DICT ? "the key of item" : "the name of field",
                 given, count);
}

ls_nest ls_nest_named_tuple(const char *type_name, const char *const *names,
                            const ls_nest *items, size_t count) {
  return make_with_keys(LS_KIND_TUPLE, type_name, names, items, count);
}

ls_nest ls_nest_dict(const char *type_tag, const char *const *keys,
                     const ls_nest *items, size_t count) {
  return make_with_keys(LS_KIND_DICT, type_tag, keys, items, count);
}

// ---- Getters ---------------------------------------------------------------
static const nest_node *nest_node_of(ls_nest nest) {
  return ls_nest_is_node(nest) ? nest.as.ref : NULL;
}

size_t ls_nest_count(ls_nest nest) {
  const nest_node *node = nest_node_of(nest);
  return node == NULL ? 0 : node->count;
}

// ---- Reads -----------------------------------------------------------------
static void mark_read(ls_nest nest, size_t index) {
  nest_node *node = nest.as.ref;
  if (index < 64)
    (void)__atomic_fetch_or(&node->reads, UINT64_C(1) << index,
                            __ATOMIC_RELAXED);
}

void ls_nest_mark_reads(ls_nest dict) {
  if (nest_node_of(dict) != NULL)
    ((nest_node *)dict.as.ref)->marks_reads = true;
}

bool ls_nest_was_read(ls_nest dict, size_t index) {
  const nest_node *node = nest_node_of(dict);
  return node == NULL || index >= 64 ||
         (__atomic_load_n(&node->reads, __ATOMIC_RELAXED) >> index & 1) != 0;
}

void ls_nest_add_reads(ls_nest dict, ls_nest copy) {
  for (size_t i = 0; i < ls_nest_count(dict); ++i)
    for (size_t k = 0; k < ls_nest_count(copy); ++k)
      if (strcmp(ls_nest_key(dict, i), ls_nest_key(copy, k)) == 0 &&
          ls_nest_was_read(copy, k))
        mark_read(dict, i);
}

// ---- Items -----------------------------------------------------------------
ls_nest ls_nest_item(ls_nest nest, size_t index) {
  const nest_node *node = nest_node_of(nest);
  if (node != NULL && node->marks_reads) mark_read(nest, index);
  return node != NULL && index < node->count ? node->items[index] : ls_none();
}

ls_nest ls_nest_item_sorted(ls_nest nest, size_t index) {
  return ls_nest_item(nest, ls_nest_sorted_position(nest, index));
}

size_t ls_nest_sorted_position(ls_nest nest, size_t index) {
  const nest_node *node = nest_node_of(nest);
  const bool sorted =
      nest.kind == LS_KIND_DICT && node != NULL && index < node->count;
  return sorted ? node->order[index] : index;
}

// The last key that was not found on this thread, for a later failure.
static _Thread_local struct {
  char text[240];
  bool is_read;  // The missing item was read as a tensor.
} missing_key;

static void note_missing(const nest_node *node, const char *key) {
  char *text = missing_key.text;
  const size_t size = sizeof(missing_key.text);
  missing_key.is_read = false;
  ls_format(text, size, "there is no key '%.60s' in the dict: it has", key);
  for (size_t i = 0; i < node->count; ++i) {
    const size_t used = strlen(text);
    ls_format(text + used, size - used, "%s '%.40s'", i == 0 ? "" : ",",
              node->keys[i]);
  }
  if (node->count == 0)
    ls_format(text + strlen(text), size - strlen(text), " none");
}

bool ls_nest_take_missing(char *text, size_t size) {
  if (!missing_key.is_read) return false;
  ls_format(text, size, "an item read before is no tensor: %s",
            missing_key.text);
  ls_nest_forget_missing();
  return true;
}

void ls_nest_forget_missing(void) {
  missing_key.text[0] = '\0';
  missing_key.is_read = false;
}

ls_nest ls_nest_find(ls_nest dict, const char *key) {
  const nest_node *node = nest_node_of(dict);
  if (node == NULL || node->keys == NULL || key == NULL) return ls_none();
  size_t low = 0;
  size_t high = node->count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const uint32_t position = node->order[middle];
    const int compared = strcmp(key, node->keys[position]);
    if (compared == 0) {
      if (node->marks_reads) mark_read(dict, position);
      return node->items[position];
    }
    if (compared < 0) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  note_missing(node, key);
  return ls_none();
}

const char *ls_nest_key(ls_nest nest, size_t index) {
  const nest_node *node = nest_node_of(nest);
  if (node == NULL || node->keys == NULL || index >= node->count) return NULL;
  return node->keys[index];
}

bool ls_nest_has_keys(ls_nest nest) {
  const nest_node *node = nest_node_of(nest);
  return node != NULL && node->keys != NULL;
}

const char *ls_nest_tag(ls_nest nest) {
  const nest_node *node = nest_node_of(nest);
  return node == NULL ? "" : node->tag;
}

// Returns item `index` of a node, or the leaf itself.
static ls_nest leaf_at(ls_nest nest, size_t index) {
  if (ls_nest_is_node(nest)) return ls_nest_item(nest, index);
  return index == 0 ? nest : ls_none();
}

// Notes, as note_missing does, why a nest has no tensor there.
static void note_no_tensor(ls_nest nest, ls_nest leaf, size_t index) {
  char *text = missing_key.text;
  const size_t size = sizeof(missing_key.text);
  const size_t count = ls_nest_is_node(nest) ? ls_nest_count(nest) : 1;
  if (index >= count)
    ls_format(text, size, "there is no item %zu in a nest of %zu", index,
              count);
  else if (leaf.kind == LS_KIND_ARRAY)
    ls_format(text, size,
              "item %zu of the nest is an array, as a plain callback gets it: "
              "make it a tensor by ls_tensor_from_array",
              index);
  else if (leaf.kind == LS_KIND_SCALAR)
    ls_format(text, size,
              "item %zu of the nest is a host scalar, %s: read it by "
              "ls_nest_number, or pass an array",
              index, ls_dtype_name(leaf.dtype));
  else
    text[0] = '\0';
}

ls_tensor ls_nest_tensor(ls_nest nest, size_t index) {
  const ls_nest leaf = leaf_at(nest, index);
  if (leaf.kind == LS_KIND_TENSOR) return leaf.as.tensor;
  if (nest.kind != LS_KIND_NONE) note_no_tensor(nest, leaf, index);
  missing_key.is_read = missing_key.text[0] != '\0';
  return (ls_tensor){0};
}

ls_array *ls_nest_as_array(ls_nest nest) {
  return nest.kind == LS_KIND_ARRAY ? nest.as.ref : NULL;
}

void *ls_nest_data(ls_nest nest, size_t index) {
  ls_array *array = ls_nest_as_array(leaf_at(nest, index));
  return array != NULL ? ls_array_mutable_data(array) : NULL;
}

ls_status ls_nest_to_number(ls_nest nest, double *out_number) {
  LS_REQUIRE_OUT(out_number);
  *out_number = (double)NAN;
  if (nest.kind == LS_KIND_SCALAR) {
    *out_number =
        ls_dtype_is_float(nest.dtype) ? nest.as.f64 : (double)nest.as.i64;
    return ls_ok();
  }
  const ls_array *array = nest.kind == LS_KIND_TENSOR
                              ? ls_tensor_known_value(nest.as.tensor)
                              : ls_nest_as_array(nest);
  const bool is_number = array != NULL && ls_array_num_elements(array) == 1 &&
                         (ls_dtype_is_float(ls_array_dtype(array)) ||
                          ls_dtype_is_integer(ls_array_dtype(array)) ||
                          ls_array_dtype(array) == LS_DTYPE_BOOL);
  if (is_number) {
    *out_number = ls_array_f64(array, 0);
    return ls_ok();
  }
  char text[200];
  ls_nest_print(nest, text, sizeof(text));
  if (nest.kind == LS_KIND_TENSOR && array == NULL)
    return ls_failed_precondition(
        "%s has no value yet: run the function or session that makes it", text);
  return ls_invalid_argument("%s is not one number", text);
}

double ls_nest_number(ls_nest nest) {
  double number = 0;
  ls_status_free(ls_nest_to_number(nest, &number));
  return number;
}

// ---- Remaking a tree -------------------------------------------------------
// Copies the tree of `nest` with fn's result in place of each leaf. Here
// because only this file may fill nodes.
ls_nest ls_nest_map(ls_nest nest, ls_leaf_function fn, void *user) {
  const nest_node *from = nest_node_of(nest);
  if (fn == NULL)
    return LS_FAIL(LS_INVALID_ARGUMENT, "the function of leaves is NULL");
  if (from == NULL && ls_nest_is_node(nest))
    return ls_fail(ls_nest_status(nest));
  if (from == NULL) return fn(nest, user);
  nest_node *node =
      make_node(from->tag, (const char *const *)from->keys, from->count);
  if (node == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < from->count; ++i) {
    const size_t position = ls_nest_sorted_position(nest, i);
    const ls_nest item = ls_nest_map(from->items[position], fn, user);
    if (ls_nest_is_failed(item)) {
      ls_object_release(node);
      return item;
    }
    fill_item(node, position, item);
  }
  return finish_node(nest.kind, node);
}
