// SPDX-License-Identifier: Apache-2.0
// Tensor tracing, as flags in the environment say: computes facts about tensors
// next to them; ops on the host log several tensors each.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/files.h"
#include "base/memory/arena.h"
#include "base/memory/map.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "estimator/config/config.h"
#include "graph/graph.h"
#include "graph/text/text.h"
#include "lockstep/host.h"
#include "lockstep/ops.h"
#include "lockstep/replicate.h"
#include "lockstep/tensor_tracer.h"
#include "tpu/replicate/replicate.h"

// ---- Flags -----------------------------------------------------------------
typedef enum ls_trace_mode {
  LS_TRACE_NAN_INF,
  LS_TRACE_PART_TENSOR,
  LS_TRACE_FULL_TENSOR,
  LS_TRACE_NORM,
  LS_TRACE_MAX_ABS,
  LS_TRACE_MODES,
} ls_trace_mode;

typedef enum ls_tracer_list {
  LS_TRACER_INCLUDED_NAMES,
  LS_TRACER_INCLUDED_TYPES,
  LS_TRACER_EXCLUDED_NAMES,
  LS_TRACER_EXCLUDED_TYPES,
  LS_TRACER_LISTS,
} ls_tracer_list;

typedef struct ls_tracer_flags {
  ls_trace_mode mode;
  bool scalars;
  int64_t first, last;  // Indices of the first and last tensor to trace.
  const char **patterns[LS_TRACER_LISTS];
  size_t num_patterns[LS_TRACER_LISTS];
} ls_tracer_flags;

static const char variable[] = "TENSOR_TRACER_FLAGS";
static const char blanks[] = " \t\r\n";

static const char *const mode_names[LS_TRACE_MODES] = {
    "nan-inf", "part-tensor", "full-tensor", "norm", "max-abs"};

// ---- One flag --------------------------------------------------------------
typedef struct flag {
  const char *start;         // Begins with "--".
  const char *name, *value;  // Not zero-terminated. Value NULL: none.
  size_t name_size, value_size;
} flag;

// Reads the flag at `*at` and advances past it. Returns false at the end. For a
// word that is not a flag, name is NULL.
static bool next_flag(const char **at, flag *out) {
  const char *text = *at + strspn(*at, blanks);
  *out = (flag){.start = text, .name = text};
  if (*text == '\0') return false;
  if (strncmp(text, "--", 2) == 0) {
    out->name = text + 2;
    out->name_size = strcspn(out->name, " \t\r\n=");
  }
  text = out->name_size > 0 ? out->name + out->name_size
                            : text + strcspn(text, blanks);
  if (out->name_size > 0 && *text == '=') {
    const char quote = text[1];
    const bool quoted =
        (quote == '\'' || quote == '"') && strchr(text + 2, quote) != NULL;
    out->value = text + (quoted ? 2 : 1);
    out->value_size = quoted ? (size_t)(strchr(out->value, quote) - out->value)
                             : strcspn(out->value, blanks);
    text = out->value + out->value_size + (quoted ? 1 : 0);
  }
  *at = text;
  return true;
}

static bool is_named(const flag *f, const char *name) {
  return f->name_size == strlen(name) &&
         strncmp(f->name, name, f->name_size) == 0;
}

static bool is_on(const flag *f) {
  static const char *const yes[] = {"1", "t", "true", "y", "yes"};
  if (f->value == NULL) return true;
  for (size_t i = 0; i < LS_COUNT_OF(yes); ++i)
    if (f->value_size == strlen(yes[i]) &&
        strncasecmp(f->value, yes[i], f->value_size) == 0)
      return true;
  return false;
}

// ---- Apply flags -----------------------------------------------------------
typedef struct reading {
  ls_arena *memory;
  const char *name;  // Name of the parsed text, for messages.
  ls_tracer_flags *out;
} reading;

// The flag `enable`, which ls_tensor_tracer_is_on reads.
static ls_status skip_enabled(reading *r, const flag *f) {
  (void)r, (void)f;
  return ls_ok();
}

static ls_status set_scalars(reading *r, const flag *f) {
  r->out->scalars = is_on(f);
  return ls_ok();
}

static ls_status set_mode(reading *r, const flag *f) {
  for (int i = 0; i < LS_TRACE_MODES; ++i)
    if (f->value != NULL && f->value_size == strlen(mode_names[i]) &&
        strncmp(f->value, mode_names[i], f->value_size) == 0) {
      r->out->mode = (ls_trace_mode)i;
      return ls_ok();
    }
  return ls_invalid_argument("%s: there is no trace_mode '%.*s'; the modes are "
                             "nan-inf, part-tensor, full-tensor, norm, max-abs",
                             r->name, (int)f->value_size,
                             f->value != NULL ? f->value : "");
}

// Reads a number at `*at` and advances past it.
static bool tracer_flags_read_number(const char **at, int64_t *out) {
  char *end = NULL;
  errno = 0;
  if (**at < '0' || **at > '9') return false;
  *out = strtoll(*at, &end, 10);
  *at = end;
  return errno == 0;
}

static ls_status set_range(reading *r, const flag *f) {
  const char *at = f->value != NULL ? f->value : "";
  if (tracer_flags_read_number(&at, &r->out->first) && *at++ == ':' &&
      tracer_flags_read_number(&at, &r->out->last) &&
      at == f->value + f->value_size && r->out->first <= r->out->last)
    return ls_ok();
  return ls_invalid_argument(
      "%s: op_range is '%.*s', expected A:B with numbers 0 <= A <= B", r->name,
      (int)f->value_size, f->value != NULL ? f->value : "");
}

static ls_status set_list(reading *r, const flag *f, ls_tracer_list list) {
  char *text = f->value != NULL ? ls_arena_format(r->memory, "%.*s",
                                                  (int)f->value_size, f->value)
                                : ls_arena_string(r->memory, "");
  if (text == NULL) return ls_out_of_memory();
  size_t most = 1;
  for (const char *at = text; *at != '\0'; ++at)
    most += *at == ',';
  LS_ARENA_ARRAY_OR_RETURN(r->memory, const char *, items, most);
  size_t count = 0;
  for (char *rest = text, *item; (item = strsep(&rest, ",")) != NULL;)
    if (item[0] != '\0') items[count++] = item;
  if (count == 0)
    return ls_invalid_argument("%s: --%.*s lists no pattern", r->name,
                               (int)f->name_size, f->name);
  r->out->patterns[list] = items;
  r->out->num_patterns[list] = count;
  return ls_ok();
}

static const struct {
  const char *name;
  ls_status (*set)(reading *r, const flag *f);
  ls_tracer_list list;  // Set if there is no function.
} flags[] = {
    {"enable", skip_enabled, 0},
    {"trace_mode", set_mode, 0},
    {"trace_scalar", set_scalars, 0},
    {"op_range", set_range, 0},
    {"included_opnames", NULL, LS_TRACER_INCLUDED_NAMES},
    {"included_optypes", NULL, LS_TRACER_INCLUDED_TYPES},
    {"excluded_opnames", NULL, LS_TRACER_EXCLUDED_NAMES},
    {"excluded_optypes", NULL, LS_TRACER_EXCLUDED_TYPES},
};

static ls_status tracer_flags_refuse(const reading *r, const flag *f) {
  LS_OWN(ls_text, names) = {.allocator = ls_current_allocator()};
  for (size_t i = 0; i < LS_COUNT_OF(flags); ++i)
    ls_text_append_format(&names, "%s--%s", i > 0 ? ", " : "", flags[i].name);
  const size_t size =
      f->name_size > 0 ? f->name_size + 2 : strcspn(f->start, blanks);
  LS_RETURN_IF_ERROR(ls_text_status(&names));
  return ls_invalid_argument("%s: there is no flag '%.*s'; the flags are %s",
                             r->name, (int)size, f->start,
                             ls_text_data(&names));
}

static ls_status tracer_flags_set(reading *r, const flag *f) {
  for (size_t i = 0; i < LS_COUNT_OF(flags); ++i)
    if (f->name_size > 0 && is_named(f, flags[i].name))
      return flags[i].set != NULL ? flags[i].set(r, f)
                                  : set_list(r, f, flags[i].list);
  return tracer_flags_refuse(r, f);
}

// ---- The environment -------------------------------------------------------
// Reads the flags in the environment; texts are in the arena.
//   LS_INVALID_ARGUMENT  lists all flags
static ls_status tracer_flags_read(ls_arena *memory,
                                   ls_tracer_flags *out_flags) {
  ls_setting setting;
  ls_setting_read(ls_runtime_current(), variable, &setting);
  reading r = {memory, setting.name, out_flags};
  const char *text = setting.value != NULL ? setting.value : "";
  flag f;
  *out_flags = (ls_tracer_flags){.last = INT64_MAX};
  while (next_flag(&text, &f))
    LS_RETURN_IF_ERROR(tracer_flags_set(&r, &f));
  return ls_ok();
}

// Reads the flag `enable`; if it is repeated, its first value counts.
bool ls_tensor_tracer_is_on(void) {
  ls_runtime *runtime = ls_runtime_current();
  ls_setting setting;
  flag f;
  if (runtime == NULL) return false;
  ls_setting_read(runtime, variable, &setting);
  const char *at = setting.value != NULL ? setting.value : "";
  while (next_flag(&at, &f))
    if (is_named(&f, "enable")) return is_on(&f);
  return false;
}

// ---- Lines of the log ------------------------------------------------------
typedef struct trace_lines {
  ls_object object;
  ls_allocator *allocator;
  ls_arena memory;
  ls_trace_mode mode;
  const char **names;
  size_t count;
} trace_lines;

static void trace_line_destroy(ls_object *object) {
  trace_lines *self = (trace_lines *)object;
  ls_arena_deinit(&self->memory);
  ls_release(self->allocator, self);
}

// Returns true if the log ops of two replicas have the same mode and tensors.
static bool traces_are_equal(const ls_object *a, const ls_object *b) {
  const trace_lines *x = (const trace_lines *)a, *y = (const trace_lines *)b;
  bool same = x->mode == y->mode && x->count == y->count;
  for (size_t i = 0; i < x->count && same; ++i)
    same = strcmp(x->names[i], y->names[i]) == 0;
  return same;
}

static const ls_object_type lines_type = {.name = "tensor trace",
                                          .destroy = trace_line_destroy,
                                          .equal = traces_are_equal};

// Makes the state of an op that logs tensors: the mode, and the tensors' names.
// The caller releases `*out`.
static ls_status trace_lines_create(ls_trace_mode mode,
                                    const ls_tensor *tensors, size_t count,
                                    ls_object **out) {
  ls_allocator *allocator = ls_current_allocator();
  trace_lines *self = ls_new(allocator, trace_lines);
  *out = NULL;
  if (self == NULL) return ls_out_of_memory();
  ls_object_init(&self->object, &lines_type);
  self->allocator = allocator;
  self->mode = mode;
  ls_arena_init(&self->memory, allocator);
  self->names = ls_arena_new_array(&self->memory, const char *, count + 1);
  bool whole = self->names != NULL;
  for (; whole && self->count < count; ++self->count) {
    const char *name = ls_tensor_name(tensors[self->count]);
    self->names[self->count] = ls_arena_string(&self->memory, name);
    whole = self->names[self->count] != NULL;
  }
  if (whole)
    *out = &self->object;
  else
    ls_object_release(self);
  return whole ? ls_ok() : ls_out_of_memory();
}

static void append_value(ls_text *line, ls_trace_mode mode,
                         const ls_array *value) {
  const int64_t count = ls_array_num_elements(value);
  const int64_t shown = mode == LS_TRACE_PART_TENSOR && count > 3 ? 3 : count;
  const bool is_list =
      mode == LS_TRACE_PART_TENSOR || mode == LS_TRACE_FULL_TENSOR;
  if (is_list) ls_text_append(line, "[");
  for (int64_t i = 0; i < shown; ++i) {
    if (i > 0) ls_text_append(line, ", ");
    ls_print_element(line, value, i);
  }
  if (is_list) ls_text_append(line, "]");
}

static ls_status trace_line_write_line(const ls_host_call *call, size_t input,
                                       int32_t replica) {
  const trace_lines *self = (const trace_lines *)call->state;
  const size_t stride = call->input_strides[input];
  const char *data = call->inputs[input];
  LS_OWN(ls_array, value) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create_view(
      call->input_types[input].dtype, call->input_types[input].shape,
      (void *)(uintptr_t)(data + stride * (size_t)(replica - call->replica)),
      NULL, NULL, &value));
  // True if there are NaNs or infinities: LS_TRACE_NAN_INF does not count them.
  const bool is_bad =
      self->mode == LS_TRACE_NAN_INF && ls_array_f64(value, 0) > 0;
  LS_OWN(ls_text, line) = {.allocator = ls_runtime_allocator(call->runtime)};
  ls_text_append_format(&line, "replica %d: '%s' %s = ", replica,
                        self->names[input], mode_names[self->mode]);
  if (self->mode == LS_TRACE_NAN_INF)
    ls_text_append(&line, is_bad ? "1" : "0");
  else
    append_value(&line, self->mode, value);
  LS_RETURN_IF_ERROR(ls_text_status(&line));
  ls_runtime_log(call->runtime, is_bad ? LS_LOG_WARNING : LS_LOG_INFO,
                 "tensor_tracer", "%s", line.data);
  return ls_ok();
}

static ls_status write_lines(ls_host_call *call) {
  for (int32_t r = 0; r < call->num_replicas; ++r)
    for (size_t i = 0; i < call->num_inputs; ++i)
      LS_RETURN_IF_ERROR(trace_line_write_line(call, i, call->replica + r));
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel kernel = {
    .name = "tensor_trace", .start = write_lines, .flags = LS_HOST_ALL};

// ---- Ops -------------------------------------------------------------------
static bool tracer_flags_fits(const ls_tracer_flags *f, ls_tracer_list list,
                              const char *text) {
  for (size_t i = 0; i < f->num_patterns[list]; ++i)
    if (ls_pattern_fits(f->patterns[list][i], text)) return true;
  return false;
}

// Returns true if an op of this name and type should be traced.
static bool tracer_flags_take(const ls_tracer_flags *f, const char *name,
                              const char *type) {
  const bool chooses = f->num_patterns[LS_TRACER_INCLUDED_NAMES] > 0 ||
                       f->num_patterns[LS_TRACER_INCLUDED_TYPES] > 0;
  return (!chooses || tracer_flags_fits(f, LS_TRACER_INCLUDED_NAMES, name) ||
          tracer_flags_fits(f, LS_TRACER_INCLUDED_TYPES, type)) &&
         !tracer_flags_fits(f, LS_TRACER_EXCLUDED_NAMES, name) &&
         !tracer_flags_fits(f, LS_TRACER_EXCLUDED_TYPES, type);
}

// Most tensors of one host op, and most elements logged of each.
enum { TENSORS_OF_OP = 64, PART_SIZE = 3 };

typedef struct tracer {
  ls_arena memory;
  ls_tracer_flags flags;
  ls_graph *graph;
  ls_map needed;  // Ids of needed ops.
  ls_op *left;    // Needed ops whose inputs were not listed yet.
  size_t num_left, left_capacity;
  ls_tensor *tensors;  // Traced tensors,
  ls_tensor *found;    // The fact computed for each traced tensor.
  size_t count;
} tracer;

static void tracer_deinit(tracer *self) {
  ls_release(ls_current_allocator(), self->left);
  ls_map_deinit(&self->needed);
  ls_arena_deinit(&self->memory);
}
LS_OWNED_STRUCT(tracer, tracer_deinit)

// ---- Needed ops ------------------------------------------------------------
static ls_status tensor_tracer_need(tracer *self, ls_op op) {
  if (op.id == 0 || op.graph != self->graph ||
      ls_map_has(&self->needed, &op.id, sizeof(op.id)))
    return ls_ok();
  if (!ls_map_insert_u64(&self->needed, op.id, NULL) ||
      !LS_GROW(ls_current_allocator(), self->left, self->left_capacity,
               self->num_left + 1))
    return ls_out_of_memory();
  self->left[self->num_left++] = op;
  return ls_ok();
}

static ls_status tensor_tracer_find_needed(tracer *self) {
  while (self->num_left > 0) {
    const ls_op op = self->left[--self->num_left];
    for (size_t i = 0; i < ls_op_num_inputs(op); ++i)
      LS_RETURN_IF_ERROR(
          tensor_tracer_need(self, ls_tensor_op(ls_op_input(op, i))));
    for (size_t i = 0; i < ls_op_num_control_inputs(op); ++i)
      LS_RETURN_IF_ERROR(tensor_tracer_need(self, ls_op_control_input(op, i)));
  }
  return ls_ok();
}

// ---- Choose tensors --------------------------------------------------------
// Returns true for an op outside of the traced computation, or compiled
// outside.
static bool is_elsewhere(ls_op op, const ls_tpu_context *computation) {
  const ls_attr *mark = NULL;
  ls_status status = ls_op_attr(op, LS_MARK_OUTSIDE, &mark);
  bool elsewhere = computation != NULL && ls_status_is_ok(status);
  ls_status_free(status);
  if (computation == NULL || elsewhere || op.graph != computation->pivot.graph)
    return elsewhere;
  status = ls_op_attr(op, LS_MARK_REPLICATE, &mark);
  elsewhere = !ls_status_is_ok(status) ||
              strcmp(mark->as.string, computation->name) != 0;
  ls_status_free(status);
  return elsewhere;
}

static bool is_traced(const tracer *self, ls_op op) {
  static const uint16_t inputs[] = {LS_OP_CONSTANT, LS_OP_PLACEHOLDER,
                                    LS_OP_PARAMETER};
  const uint16_t type = ls_op_type(op);
  for (size_t i = 0; i < LS_COUNT_OF(inputs); ++i)
    if (type == inputs[i]) return false;
  return (ls_op_table[type].traits & (LS_OP_EFFECT | LS_OP_LINEAR)) == 0 &&
         ls_map_has(&self->needed, &op.id, sizeof(op.id)) &&
         tracer_flags_take(&self->flags, ls_op_name(op), ls_op_type_name(op)) &&
         !is_elsewhere(op, ls_tpu_context_current());
}

static bool is_of_numbers(const tracer *self, ls_tensor tensor) {
  const ls_dtype dtype = ls_tensor_dtype(tensor);
  const ls_shape shape = ls_tensor_shape(tensor);
  return (ls_dtype_is_float(dtype) || (self->flags.mode != LS_TRACE_NAN_INF &&
                                       ls_dtype_is_integer(dtype))) &&
         (self->flags.scalars || shape.rank != 0);
}

// Chooses the tensors to trace, in order of creation.
static ls_status tensor_tracer_choose(tracer *self) {
  const size_t ops = ls_graph_num_ops(self->graph);
  size_t most = 0;
  for (size_t i = 0; i < ops; ++i)
    most += ls_op_num_outputs(ls_graph_op(self->graph, i));
  LS_ARENA_SET_OR_RETURN(&self->memory, ls_tensor, self->tensors, most + 1);
  LS_ARENA_SET_OR_RETURN(&self->memory, ls_tensor, self->found, most + 1);
  int64_t number = 0;
  for (size_t i = 0; i < ops; ++i) {
    const ls_op op = ls_graph_op(self->graph, i);
    if (!is_traced(self, op)) continue;
    for (unsigned k = 0; k < ls_op_num_outputs(op); ++k) {
      const ls_tensor tensor = ls_op_output(op, k);
      if (!is_of_numbers(self, tensor)) continue;
      if (number >= self->flags.first && number <= self->flags.last)
        self->tensors[self->count++] = tensor;
      ++number;
    }
  }
  return ls_ok();
}

// ---- Facts -----------------------------------------------------------------
// Returns the first elements of a tensor; all elements if its size is not
// known, because the host prints only the first ones.
static ls_tensor tensor_tracer_first_part(ls_tensor x) {
  const ls_shape shape = ls_tensor_shape(x);
  int64_t count = 1;
  for (int i = 0; i < shape.rank; ++i) {
    if (shape.dim[i] < 0) return x;
    count *= shape.dim[i];
  }
  if (shape.rank < 0 || count <= PART_SIZE) return x;
  return ls_slice_axis(ls_reshape(x, LS_SHAPE(count)), 0, 0, PART_SIZE);
}

static ls_tensor wide(ls_tensor x) {
  return ls_tensor_dtype(x) == LS_DTYPE_F64 ? x : ls_convert(x, LS_DTYPE_F32);
}

static ls_tensor tensor_tracer_look_at(ls_trace_mode mode, ls_tensor x) {
  switch (mode) {
  case LS_TRACE_NAN_INF:
    return ls_reduce_sum(ls_convert(ls_not(ls_is_finite(x)), LS_DTYPE_I32),
                         LS_ALL_AXES);
  case LS_TRACE_PART_TENSOR:
    return tensor_tracer_first_part(x);
  case LS_TRACE_NORM:
    return ls_sqrt(ls_reduce_sum(ls_square(wide(x)), LS_ALL_AXES));
  case LS_TRACE_MAX_ABS:
    // The largest of no elements is 0, too.
    x = ls_reduce_max(ls_abs(wide(x)), LS_ALL_AXES);
    return ls_maximum(x, ls_scalar(ls_tensor_dtype(x), 0));
  default:
    return x;
  }
}

// Reads the flags and computes facts for all ops that `roots` need.
static ls_status tensor_tracer_begin(tracer *self, ls_graph *graph,
                                     const ls_op *roots, size_t num_roots) {
  *self = (tracer){.graph = graph};
  ls_arena_init(&self->memory, ls_current_allocator());
  ls_map_init(&self->needed, ls_current_allocator());
  LS_RETURN_IF_ERROR(tracer_flags_read(&self->memory, &self->flags));
  for (size_t i = 0; i < num_roots; ++i)
    LS_RETURN_IF_ERROR(tensor_tracer_need(self, roots[i]));
  LS_RETURN_IF_ERROR(tensor_tracer_find_needed(self));
  LS_RETURN_IF_ERROR(tensor_tracer_choose(self));
  LS_NAME_SCOPE("tensor_tracer");
  for (size_t i = 0; i < self->count; ++i) {
    self->found[i] = tensor_tracer_look_at(self->flags.mode, self->tensors[i]);
    if (ls_tensor_is_failed(self->found[i]))
      return ls_graph_take_error(ls_graph_current());
  }
  return ls_ok();
}

// ---- Host ops --------------------------------------------------------------
// Makes a list of tensors as a nest.
static ls_nest tensor_tracer_list_of(const ls_tensor *tensors, size_t count) {
  LS_OWN(ls_nest_builder, list) = {0};
  for (size_t i = 0; i < count; ++i)
    ls_nest_builder_append(&list, ls_leaf(tensors[i]));
  return ls_nest_builder_finish(&list, LS_KIND_LIST);
}

// Adds the log op, as a host function; `user` is from trace_lines_create.
// Returns a list of the op.
static ls_nest add_lines(ls_nest tensors, void *user) {
  LS_NAME_SCOPE("tensor_tracer");
  ls_allocator *allocator = ls_current_allocator();
  const size_t count = ls_nest_count(tensors);
  ls_tensor *found = ls_new_array(allocator, ls_tensor, count + 1);
  if (found == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i)
    found[i] = ls_nest_tensor(tensors, i);
  const ls_op op = ls_host_call_add(&kernel, user, found, count);
  ls_release(allocator, found);
  if (op.id == 0) return ls_fail(ls_graph_take_error(ls_graph_current()));
  const ls_nest leaf = ls_nest_op(op);
  return ls_nest_sequence(LS_KIND_LIST, &leaf, 1);
}

// Adds the log op for some tensors, outside of the current computation if there
// is one.
static ls_status add_some(const tracer *self, size_t first, size_t count,
                          ls_op *out_op) {
  LS_OWN(ls_object, lines) = NULL;
  LS_RETURN_IF_ERROR(trace_lines_create(self->flags.mode, self->tensors + first,
                                        count, &lines));
  LS_OWN(ls_nest, found) = tensor_tracer_list_of(self->found + first, count);
  LS_RETURN_IF_ERROR(ls_nest_status(found));
  LS_OWN(ls_nest, made) = ls_tpu_context_current() != NULL
                              ? ls_outside_compilation(add_lines, lines, found)
                              : add_lines(found, lines);
  LS_RETURN_IF_ERROR(ls_nest_status(made));
  *out_op = ls_nest_item(made, 0).as.op;
  return ls_ok();
}

static ls_status tensor_tracer_add_all(tracer *self, ls_op **out_ops,
                                       size_t *out_count) {
  const size_t most = self->count / TENSORS_OF_OP + 1;
  LS_ARENA_ARRAY_OR_RETURN(&self->memory, ls_op, ops, most);
  *out_ops = ops;
  *out_count = 0;
  for (size_t at = 0; at < self->count; at += TENSORS_OF_OP) {
    const size_t left = self->count - at;
    LS_RETURN_IF_ERROR(add_some(self, at,
                                left < TENSORS_OF_OP ? left : TENSORS_OF_OP,
                                &ops[(*out_count)++]));
  }
  return ls_ok();
}

// ---- Computations ----------------------------------------------------------
static ls_status tensor_tracer_wrap(tracer *self, ls_tensor loss,
                                    ls_tensor *out_loss, ls_nest *out_ops) {
  ls_op *ops = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(tensor_tracer_add_all(self, &ops, &count));
  LS_CONTROL_SCOPE(ops, count);
  const ls_tensor traced = ls_identity_named(loss, "traced_loss");
  if (ls_tensor_is_failed(traced))
    return ls_graph_take_error(ls_graph_current());
  LS_OWN(ls_nest_builder, list) = {0};
  for (size_t i = 0; i < count; ++i)
    ls_nest_builder_append(&list, ls_nest_op(ops[i]));
  LS_RETURN_IF_ERROR(
      ls_take_nest(ls_nest_builder_finish(&list, LS_KIND_LIST), out_ops));
  *out_loss = traced;
  return ls_ok();
}

ls_status ls_trace_tpu(ls_tensor loss, ls_op train_op, ls_tensor *out_loss,
                       ls_nest *out_ops) {
  LS_REQUIRE_OUT(out_loss);
  LS_REQUIRE_OUT(out_ops);
  if (ls_tensor_is_failed(loss))
    return ls_invalid_argument("ls_trace_tpu: loss is failed");
  const ls_op roots[] = {ls_tensor_op(loss), train_op};
  LS_OWN(tracer, self) = {0};
  LS_RETURN_IF_ERROR(tensor_tracer_begin(&self, ls_graph_current(), roots, 2));
  return tensor_tracer_wrap(&self, loss, out_loss, out_ops);
}

// ---- CPUs ------------------------------------------------------------------
static ls_status find_roots(ls_nest fetches, ls_op **out_roots,
                            size_t *out_count) {
  const size_t count = ls_nest_num_leaves(fetches);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count + 1);
  LS_NEW_ARRAY_OR_RETURN(allocator, ls_op, roots, count + 1);
  (void)ls_nest_flatten(fetches, leaves, count);
  *out_count = 0;
  for (size_t i = 0; i < count; ++i) {
    if (leaves[i].kind == LS_KIND_TENSOR)
      roots[(*out_count)++] = ls_tensor_op(leaves[i].as.tensor);
    if (leaves[i].kind == LS_KIND_OP) roots[(*out_count)++] = leaves[i].as.op;
  }
  *out_roots = roots;
  return ls_ok();
}

ls_status ls_trace_cpu(ls_nest fetches, ls_host_function *out_call) {
  LS_REQUIRE_OUT(out_call);
  *out_call = (ls_host_function){.tensors = ls_none()};
  LS_OWN_MEMORY(ls_current_allocator(), ls_op, roots) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(find_roots(fetches, &roots, &count));
  LS_OWN(tracer, self) = {0};
  LS_RETURN_IF_ERROR(
      tensor_tracer_begin(&self, ls_graph_current(), roots, count));
  if (self.count == 0) return ls_ok();
  LS_OWN(ls_object, lines) = NULL;
  LS_RETURN_IF_ERROR(
      trace_lines_create(self.flags.mode, self.tensors, self.count, &lines));
  const ls_nest found = tensor_tracer_list_of(self.found, self.count);
  LS_RETURN_IF_ERROR(ls_nest_status(found));
  *out_call = (ls_host_function){add_lines, ls_give(&lines), found, {0}};
  return ls_ok();
}

void ls_trace_cpu_end(ls_host_function *call) {
  if (call->call != add_lines) return;
  ls_nest_release(call->tensors);
  ls_object_release(call->user);
  *call = (ls_host_function){.tensors = ls_none()};
}
