// SPDX-License-Identifier: Apache-2.0
#include "graph/attrs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/callbacks.h"
#include "graph/op_table.h"
#include "graph/variables/variable.h"
#include "lockstep/host.h"
#include "lockstep/shape_rules.h"

const ls_attr_info ls_attr_table[LS_ATTR_ID_COUNT] = {
#define LS_ATTR(id, name_, kind_, ...)                                         \
  [LS_ATTR_ID_##id] = {.name = name_, .kind = kind_, __VA_ARGS__},
#include "graph/attrs.def"
#undef LS_ATTR
};

// Names of the kinds, indexed by ls_attr_kind.
static const char *const kind_names[] = {
    "nothing",  "an integer", "a float",  "a bool", "a string",
    "a dtype",  "a shape",    "integers", "sizes",  "strings",
    "an array", "an object",  "a kernel"};

// ---- Names -----------------------------------------------------------------
uint16_t ls_attrs_met_as(uint16_t type, const ls_attr *attrs, size_t count) {
  static const uint16_t types[] = {
      LS_OP_ALL_REDUCE, LS_OP_ALL_GATHER, LS_OP_REDUCE_SCATTER,
      LS_OP_ALL_TO_ALL, LS_OP_PERMUTE,    LS_OP_REPLICA_BROADCAST};
  if (type != LS_OP_MEETING) return LS_OP_NONE;
  const char *const wanted = ls_attr_table[LS_ATTR_ID_OP].name;
  const char *op = NULL;
  for (size_t i = 0; i < count && op == NULL; ++i)
    if (attrs[i].kind == LS_ATTR_STRING && strcmp(attrs[i].name, wanted) == 0)
      op = attrs[i].as.string;
  for (size_t i = 0; op != NULL && i < LS_COUNT_OF(types); ++i)
    if (strcmp(op, ls_op_table[types[i]].name) == 0) return types[i];
  return LS_OP_NONE;
}

bool ls_op_owns(uint16_t type, uint16_t id) {
  const ls_op_info *info = &ls_op_table[type];
  for (uint32_t i = 0; i < info->num_attrs; ++i)
    if (info->attrs[i].id == id) return true;
  return false;
}

static ls_attr_id attrs_find_name(uint16_t type, const char *name) {
  const ls_op_info *info = &ls_op_table[type];
  for (uint32_t i = 0; i < info->num_attrs; ++i)
    if (strcmp(ls_attr_table[info->attrs[i].id].name, name) == 0)
      return info->attrs[i].id;
  return LS_ATTR_ID_NONE;
}

ls_attr_id ls_attr_resolve(uint16_t type, uint16_t met_as,
                           const ls_attr *attr) {
  // An id is valid if the name is the table's own text: ls_attr_set_id sets
  // both.
  const bool has_id =
      attr->id < LS_ATTR_ID_COUNT && attr->name == ls_attr_table[attr->id].name;
  if (has_id && ls_op_owns(type, attr->id)) return (ls_attr_id)attr->id;
  const ls_attr_id id = attrs_find_name(type, attr->name);
  return id != LS_ATTR_ID_NONE || met_as == LS_OP_NONE
             ? id
             : attrs_find_name(met_as, attr->name);
}

void ls_attr_set_id(uint16_t type, uint16_t met_as, ls_attr *attr) {
  attr->id = (uint16_t)ls_attr_resolve(type, met_as, attr);
  if (attr->id != LS_ATTR_ID_NONE) attr->name = ls_attr_table[attr->id].name;
}

static ls_status attrs_check_names(const ls_attr *attrs, size_t count) {
  if (attrs == NULL && count > 0)
    return ls_invalid_argument("it has %zu attributes at NULL", count);
  for (size_t i = 0; i < count; ++i)
    if (attrs[i].name == NULL || (unsigned)attrs[i].kind > LS_ATTR_KERNEL)
      return ls_invalid_argument("attribute %zu has no name or kind", i);
  return ls_ok();
}

ls_status ls_attrs_resolve(ls_arena *arena, uint16_t type, const ls_attr *attrs,
                           size_t count, const ls_attr **out_attrs) {
  *out_attrs = attrs;
  LS_RETURN_IF_ERROR(attrs_check_names(attrs, count));
  const uint16_t met_as = ls_attrs_met_as(type, attrs, count);
  size_t same = 0;
  while (same < count &&
         attrs[same].id == ls_attr_resolve(type, met_as, &attrs[same]))
    ++same;
  if (same == count) return ls_ok();
  LS_ARENA_ARRAY_OR_RETURN(arena, ls_attr, copy, count);
  memcpy(copy, attrs, count * sizeof(*copy));
  for (size_t i = same; i < count; ++i)
    ls_attr_set_id(type, met_as, &copy[i]);
  *out_attrs = copy;
  return ls_ok();
}

// ---- Bounds ----------------------------------------------------------------
// Checks a number against the attribute's bounds. `at` is its index in a list;
// SIZE_MAX for a number that is not in a list.
static ls_status attrs_check_number(const ls_attr_info *info, int64_t value,
                                    size_t at) {
  if (value >= info->least && value <= info->most) return ls_ok();
  char prefix[32] = "", range[64];
  if (at != SIZE_MAX) snprintf(prefix, sizeof(prefix), "number %zu of ", at);
  if (info->most == INT64_MAX)
    snprintf(range, sizeof(range), "at least %lld", (long long)info->least);
  else
    snprintf(range, sizeof(range), "%lld to %lld", (long long)info->least,
             (long long)info->most);
  return ls_invalid_argument("%s'%s' is %lld, must be %s", prefix, info->name,
                             (long long)value, range);
}

static ls_status check_numbers(const ls_attr_info *info, const ls_attr *attr) {
  if (attr->as.ints.count > info->count)
    return ls_invalid_argument("'%s' has %lld numbers, must have 0 to %zu",
                               info->name, (long long)attr->as.ints.count,
                               info->count);
  for (size_t i = 0; i < attr->as.ints.count; ++i)
    LS_RETURN_IF_ERROR(attrs_check_number(info, attr->as.ints.items[i], i));
  return ls_ok();
}

static ls_status check_real(const ls_attr_info *info, double value) {
  if (isinf(info->least_real) || (value >= info->least_real && !isinf(value)))
    return ls_ok();
  return ls_invalid_argument(
      "'%s' is %g, must be a finite number of at least %g", info->name, value,
      info->least_real);
}

static ls_status check_word(const ls_attr_info *info, const char *value) {
  const size_t size = strlen(value);
  for (const char *word = info->words; *word != '\0';) {
    const size_t length = strcspn(word, ",");
    if (length == size && memcmp(word, value, size) == 0) return ls_ok();
    word += length;
    word += strspn(word, ", ");
  }
  return ls_invalid_argument("'%s' is '%.80s', which is none of %s", info->name,
                             value, info->words);
}

static ls_status check_object(const ls_attr_info *info,
                              const ls_object *object) {
  if (info->object == NULL) return ls_ok();
  if (object != NULL && object->type == info->object) return ls_ok();
  return ls_invalid_argument("attribute '%s' is no %s", info->name,
                             info->object->name);
}

static ls_status check_dtype(const ls_attr_info *info, ls_dtype dtype) {
  if (dtype > LS_DTYPE_NONE && dtype < LS_DTYPE_COUNT) return ls_ok();
  return ls_invalid_argument("'%s' is %d, which is no dtype", info->name,
                             (int)dtype);
}

static ls_status attrs_check_sizes(const ls_attr_info *info,
                                   const ls_attr *attr, size_t num_inputs) {
  if (attr->as.sizes.count > LS_MAX_RANK)
    return ls_invalid_argument("'%s' has %lld sizes, must have 0 to %d",
                               info->name, (long long)attr->as.sizes.count,
                               LS_MAX_RANK);
  for (size_t i = 0; i < attr->as.sizes.count; ++i) {
    const ls_size size = attr->as.sizes.items[i];
    if (size.operand != LS_SIZE_CONSTANT) {
      if (size.operand >= 0 && (size_t)size.operand < num_inputs &&
          size.value >= 0 && size.value < LS_MAX_RANK)
        continue;
      return ls_invalid_argument(
          "size %zu of '%s' is dimension %lld of operand %d, of %zu", i,
          info->name, (long long)size.value, size.operand, num_inputs);
    }
    if (size.value >= -1 && size.value <= LS_MAX_SIZE) continue;
    return ls_invalid_argument("size %zu of '%s' is %lld, must be -1 to %lld",
                               i, info->name, (long long)size.value,
                               (long long)LS_MAX_SIZE);
  }
  return ls_ok();
}

// Checks the value of an attribute that the op's row has.
static ls_status attrs_check_value(const ls_attr_info *info,
                                   const ls_attr *attr, size_t num_inputs) {
  if (attr->kind != info->kind)
    return ls_invalid_argument("attribute '%s' is %s, not %s", info->name,
                               kind_names[attr->kind], kind_names[info->kind]);
  switch (info->kind) {
  case LS_ATTR_INT:
  case LS_ATTR_BOOL:
    return attrs_check_number(info, attr->as.i, SIZE_MAX);
  case LS_ATTR_FLOAT:
    return check_real(info, attr->as.f);
  case LS_ATTR_STRING:
    return check_word(info, attr->as.string);
  case LS_ATTR_INTS:
    return check_numbers(info, attr);
  case LS_ATTR_OBJECT:
    return check_object(info, attr->as.object);
  case LS_ATTR_DTYPE:
    return check_dtype(info, attr->as.dtype);
  case LS_ATTR_SHAPE:
    return ls_status_annotate(ls_shape_check(attr->as.shape), "attribute '%s'",
                              info->name);
  case LS_ATTR_SIZES:
    return attrs_check_sizes(info, attr, num_inputs);
  default:
    return ls_ok();
  }
}

// Checks that an attribute's pointer is set.
static ls_status check_pointer(const ls_attr *attr) {
  bool is_null = (attr->kind == LS_ATTR_ARRAY && attr->as.array == NULL) ||
                 (attr->kind == LS_ATTR_KERNEL && attr->as.kernel == NULL) ||
                 (attr->kind == LS_ATTR_STRING && attr->as.string == NULL) ||
                 (attr->kind == LS_ATTR_INTS && attr->as.ints.items == NULL &&
                  attr->as.ints.count > 0) ||
                 (attr->kind == LS_ATTR_SIZES && attr->as.sizes.items == NULL &&
                  attr->as.sizes.count > 0) ||
                 (attr->kind == LS_ATTR_STRINGS &&
                  attr->as.strings.items == NULL && attr->as.strings.count > 0);
  for (size_t i = 0;
       !is_null && attr->kind == LS_ATTR_STRINGS && i < attr->as.strings.count;
       ++i)
    is_null = attr->as.strings.items[i] == NULL;
  if (is_null) return ls_invalid_argument("attribute '%s' is NULL", attr->name);
  if (attr->kind == LS_ATTR_KERNEL &&
      (attr->as.kernel->name == NULL || attr->as.kernel->start == NULL))
    return ls_invalid_argument(
        "the host kernel '%s' has no function to start a call, or no name",
        attr->as.kernel->name != NULL ? attr->as.kernel->name : "");
  return ls_ok();
}

// ---- Attributes of an op ---------------------------------------------------
static ls_status check_needed(uint16_t type, const bool *is_there) {
  const ls_op_info *info = &ls_op_table[type];
  for (uint32_t i = 0; i < info->num_attrs; ++i) {
    const ls_attr_info *wanted = &ls_attr_table[info->attrs[i].id];
    if (info->attrs[i].needed && !is_there[info->attrs[i].id])
      return ls_invalid_argument("it needs the attribute '%s', %s",
                                 wanted->name, kind_names[wanted->kind]);
  }
  return ls_ok();
}

// Returns true if an attribute before number `end` has the same name.
static bool is_there_before(const ls_attr *attrs, size_t end) {
  for (size_t i = 0; i < end; ++i)
    if (attrs[i].id == LS_ATTR_ID_NONE &&
        strcmp(attrs[i].name, attrs[end].name) == 0)
      return true;
  return false;
}

ls_status ls_attrs_check(uint16_t type, const ls_attr *attrs, size_t count,
                         size_t num_inputs) {
  bool is_there[LS_ATTR_ID_COUNT] = {0};
  LS_RETURN_IF_ERROR(attrs_check_names(attrs, count));
  for (size_t i = 0; i < count; ++i) {
    const ls_attr *attr = &attrs[i];
    LS_RETURN_IF_ERROR(check_pointer(attr));
    const bool is_own = attr->id != LS_ATTR_ID_NONE;
    if (is_own ? is_there[attr->id] : is_there_before(attrs, i))
      return ls_invalid_argument("attribute '%s' is there twice", attr->name);
    if (!is_own) continue;
    is_there[attr->id] = true;
    LS_RETURN_IF_ERROR(
        attrs_check_value(&ls_attr_table[attr->id], attr, num_inputs));
  }
  LS_RETURN_IF_ERROR(check_needed(type, is_there));
  const uint16_t met_as = ls_attrs_met_as(type, attrs, count);
  return met_as == LS_OP_NONE ? ls_ok() : check_needed(met_as, is_there);
}
