// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/run/numbers.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/plain.h"
#include "base/values/numbers.h"
#include "graph/variables/variable.h"

// ---- Ranges ----------------------------------------------------------------
static void add_values(const double *values, int64_t begin, size_t count,
                       ls_cpu_range *range) {
  for (size_t i = 0; i < count; ++i) {
    if (isnan(values[i])) {
      if (range->first_nan < 0) range->first_nan = begin + (int64_t)i;
      continue;
    }
    if (values[i] < range->low) range->low = values[i];
    if (values[i] > range->high) range->high = values[i];
  }
}

// Looks at `bytes` bytes of elements; those of other types than floats have an
// empty range.
static ls_cpu_range look_at(ls_dtype dtype, const void *data, size_t bytes) {
  enum { CHUNK = 256 };
  double values[CHUNK];
  ls_cpu_range range = {INFINITY, -INFINITY, -1};
  if (!ls_dtype_is_float(dtype) || data == NULL) return range;
  const size_t size = ls_dtype_size(dtype), count = bytes / size;
  for (size_t i = 0; i < count; i += CHUNK) {
    const size_t some = count - i < CHUNK ? count - i : CHUNK;
    ls_values_to_f64(dtype, (const char *)data + i * size, some, values);
    add_values(values, (int64_t)i, some, &range);
  }
  return range;
}

// ---- Texts -----------------------------------------------------------------
__attribute__((format(printf, 3, 4))) static void
add_text(char *text, size_t size, const char *format, ...) {
  const size_t at = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  (void)ls_format_v(text + at, size - at, format, arguments);
  va_end(arguments);
}

// Prints " at [3,5] of f32[8,10]", an element and its value; " of f32[]" for a
// scalar.
static void add_element(ls_type type, int64_t index, char *text, size_t size) {
  const ls_shape shape = type.shape;
  int64_t stride = ls_shape_num_elements(shape);
  for (int i = 0; i < shape.rank; ++i) {
    stride /= shape.dim[i] > 0 ? shape.dim[i] : 1;
    add_text(text, size, "%s%lld", i == 0 ? " at [" : ",",
             (long long)(index / stride % shape.dim[i]));
  }
  add_text(text, size, "%s of %s", shape.rank > 0 ? "]" : "",
           LS_SHAPE_TEXT(type.dtype, shape));
}

// Prints "f32[8,10] from -1 to 2.5", or the type alone.
static void add_range(ls_type type, const ls_cpu_range *range, char *text,
                      size_t size) {
  add_text(text, size, "%s", LS_SHAPE_TEXT(type.dtype, type.shape));
  if (range->low <= range->high)
    add_text(text, size, " from %g to %g", range->low, range->high);
  if (range->first_nan >= 0) add_text(text, size, " with NaN");
}

// ---- Kernels ---------------------------------------------------------------
static size_t bytes_of(const ls_instance *self, uint32_t place) {
  return self->executable->place_sizes[place];
}

// Returns the current trip of the innermost loop around an instruction; -1: it
// is in none.
static int64_t trip_at(const ls_executable *executable,
                       const ls_cpu_worker *worker, uint32_t pc) {
  for (uint32_t i = pc; i-- > 0;) {
    const ls_cpu_instruction *at = &executable->instructions[i];
    if (at->code != LS_CPU_LOOP_NEXT || at->target <= pc) continue;
    const ls_cpu_loop_state *state =
        ls_cpu_resolve(worker, executable->places[at->operand]);
    return state->trips - 1;
  }
  return -1;
}

void ls_cpu_numbers_before(const ls_instance *self, ls_cpu_worker *worker,
                           uint32_t pc, void *const *operands) {
  const ls_executable *executable = self->executable;
  const ls_cpu_instruction *at = &executable->instructions[pc];
  const ls_cpu_operands *known = executable->notes[pc].operands;
  ls_cpu_numbers *numbers = worker->numbers;
  if (known == NULL || numbers->kind == LS_CPU_NAN_MADE) return;
  numbers->has_nan = false;
  for (uint32_t i = 0; i < at->num_in; ++i) {
    const ls_cpu_range range = look_at(known->types[i].dtype, operands[i],
                                       bytes_of(self, at->operand + i));
    if (i < LS_CPU_RANGES) numbers->ranges[i] = range;
    numbers->has_nan |= range.first_nan >= 0;
  }
}

// Returns the row of an element, where dimension 0 lists rows of a batch.
static ls_nan_row row_of(ls_shape shape, int64_t index, int32_t replica) {
  const int64_t rows = shape.rank > 0 ? shape.dim[0] : 0;
  return rows == 0 ? (ls_nan_row){.row = -1}
                   : (ls_nan_row){replica,
                                  index / (ls_shape_num_elements(shape) / rows),
                                  rows};
}

// Describes the op whose output has a NaN.
static void describe_op(const ls_executable *executable,
                        const ls_cpu_worker *worker, uint32_t pc,
                        uint32_t output, int32_t replica, int64_t index,
                        ls_cpu_numbers *numbers) {
  const ls_cpu_instruction *at = &executable->instructions[pc];
  const ls_cpu_note *note = &executable->notes[pc];
  const ls_type *types = note->operands->types;
  const ls_type type = types[at->num_in + output];
  char *text = numbers->text;
  const size_t size = sizeof(numbers->text);
  text[0] = '\0';
  add_text(text, size, "%s makes NaN", note->label);
  add_element(type, index, text, size);
  if (executable->replicas > 1 && replica >= 0)
    add_text(text, size, " on replica %d", replica);
  const int64_t trip = trip_at(executable, worker, pc);
  if (trip >= 0) add_text(text, size, " in trip %lld", (long long)trip);
  numbers->row = note->operands->has_rows ? row_of(type.shape, index, replica)
                                          : (ls_nan_row){.row = -1};
  for (uint32_t i = 0; i < at->num_in && i < LS_CPU_RANGES; ++i) {
    if (types[i].shape.rank == LS_UNKNOWN_RANK) continue;
    add_text(text, size, "%s", i == 0 ? "; from " : ", ");
    add_range(types[i], &numbers->ranges[i], text, size);
  }
}

// Shows the results of a kernel to the runtime's watch, replica by replica.
static void show_results(const ls_instance *self, const ls_cpu_worker *worker,
                         int32_t replica, uint32_t pc, void *const *operands) {
  const ls_executable *executable = self->executable;
  const ls_runtime *runtime = executable->backend->runtime;
  const ls_cpu_instruction *at = &executable->instructions[pc];
  const ls_cpu_note *note = &executable->notes[pc];
  const int64_t trip = trip_at(executable, worker, pc);
  for (uint32_t i = at->num_in; i < at->num_in + at->num_out; ++i) {
    const ls_type type = note->operands->types[i];
    const size_t all = bytes_of(self, at->operand + i);
    const size_t bytes = ls_type_bytes(type);
    if (type.shape.rank == LS_UNKNOWN_RANK || bytes == 0) continue;
    for (size_t k = 0; k < all / bytes; ++k) {
      const char *data = (const char *)operands[i] + k * bytes;
      runtime->watch(
          runtime->watch_user,
          &(ls_op_result){.label = note->label,
                          .replica = all > bytes
                                         ? note->operands->first + (int32_t)k
                                         : replica,
                          .trip = trip,
                          .has_rows = note->operands->has_rows,
                          .dtype = type.dtype,
                          .shape = type.shape,
                          .data = data,
                          .hash = ls_hash_large(data, bytes)});
    }
  }
}

void ls_cpu_numbers_after(const ls_instance *self, ls_cpu_worker *worker,
                          int32_t replica, uint32_t pc, void *const *operands) {
  const ls_executable *executable = self->executable;
  const ls_cpu_instruction *at = &executable->instructions[pc];
  const ls_cpu_operands *known = executable->notes[pc].operands;
  ls_cpu_numbers *numbers = worker->numbers;
  if (known == NULL) return;
  if (executable->backend->runtime->watch != NULL)
    show_results(self, worker, replica, pc, operands);
  const ls_cpu_nan_kind kind =
      numbers->has_nan ? LS_CPU_NAN_PASSED : LS_CPU_NAN_MADE;
  if (kind <= numbers->kind) return;
  for (uint32_t i = 0; i < at->num_out; ++i) {
    const uint32_t place = at->num_in + i;
    const ls_type type = known->types[place];
    const ls_cpu_range range = look_at(type.dtype, operands[place],
                                       bytes_of(self, at->operand + place));
    if (range.first_nan < 0) continue;
    const int64_t part = ls_shape_num_elements(type.shape);
    const size_t bytes = (size_t)part * ls_dtype_size(type.dtype);
    if (bytes_of(self, at->operand + place) > bytes)
      replica = known->first + (int32_t)(range.first_nan / part);
    numbers->kind = kind;
    describe_op(executable, worker, pc, i, replica,
                part > 0 ? range.first_nan % part : 0, numbers);
    return;
  }
}

// ---- Runs ------------------------------------------------------------------
// Returns the replica that an input of the program belongs to, 0 without
// replicas; -1: all have it.
static int32_t find_replica(const ls_graph *body, uint64_t parameter) {
  int32_t replica = 0;
  for (size_t i = 0; i < body->num_nodes; ++i) {
    const ls_node *node = body->nodes[i];
    if (node->type != LS_OP_REPLICATE) continue;
    const int64_t replicas = ls_node_int(node, LS_ATTR_ID_REPLICAS);
    const int64_t split = ls_node_int(node, LS_ATTR_ID_NUM_SPLIT) * replicas;
    for (int64_t k = 0; k < split; ++k)
      if (node->inputs[k] == parameter) return (int32_t)(k % replicas);
    replica = -1;
  }
  return replica;
}

// An input or a variable of a run.
typedef struct given {
  const char *noun, *name;
  ls_type type;
  int32_t replica;
  const void *data;
} given;

// Shows an input or a variable to the runtime's watch.
static void show_given(const ls_runtime *runtime, const given *g) {
  char label[LS_MAX_FULL_NAME + 16];
  const size_t bytes = ls_type_bytes(g->type);
  if (runtime->watch == NULL || bytes == 0 || g->data == NULL) return;
  (void)ls_format(label, sizeof(label), "%s %s", g->noun, g->name);
  runtime->watch(runtime->watch_user,
                 &(ls_op_result){.label = label,
                                 .replica = g->replica,
                                 .trip = -1,
                                 .has_rows = g->noun[0] == 'i',
                                 .dtype = g->type.dtype,
                                 .shape = g->type.shape,
                                 .data = g->data,
                                 .hash = ls_hash_large(g->data, bytes)});
}

// Notes an input or a variable that has a NaN.
static void note_given(const ls_executable *executable, ls_cpu_numbers *numbers,
                       const given *g) {
  const ls_type type = g->type;
  char *text = numbers->text;
  const size_t size = sizeof(numbers->text);
  show_given(executable->backend->runtime, g);
  if (numbers->kind >= LS_CPU_NAN_GIVEN || !ls_dtype_is_float(type.dtype))
    return;
  const ls_cpu_range range = look_at(type.dtype, g->data, ls_type_bytes(type));
  if (range.first_nan < 0) return;
  numbers->kind = LS_CPU_NAN_GIVEN;
  numbers->row = g->noun[0] == 'i' && g->replica >= 0
                     ? row_of(type.shape, range.first_nan, g->replica)
                     : (ls_nan_row){.row = -1};
  text[0] = '\0';
  add_text(text, size, "%s %s is NaN", g->noun, g->name);
  add_element(type, range.first_nan, text, size);
  if (executable->replicas > 1 && g->replica >= 0)
    add_text(text, size, " on replica %d", g->replica);
}

void ls_cpu_numbers_begin(ls_instance *self) {
  const ls_executable *executable = self->executable;
  const ls_program *program = executable->program;
  const ls_graph *body = program->body;
  char **bases = self->workers[0].bases;
  for (int i = 0; i < self->num_workers; ++i)
    self->workers[i].numbers->kind = LS_CPU_NO_NAN;
  for (size_t i = 0; i < program->num_inputs; ++i) {
    char name[24];
    snprintf(name, sizeof(name), "%zu", i);
    note_given(executable, self->workers[0].numbers,
               &(given){"input", name, ls_graph_type(body, body->parameters[i]),
                        find_replica(body, body->parameters[i]),
                        bases[ls_cpu_base_inputs() + i]});
  }
  for (size_t i = 0; i < program->num_uses; ++i) {
    const ls_use *use = &program->uses[i];
    char name[LS_MAX_FULL_NAME + 2];
    snprintf(name, sizeof(name), "'%s'",
             ((const ls_variable *)use->variable)->name);
    if (use->read)
      note_given(executable, self->workers[0].numbers,
                 &(given){"variable", name, use->type, -1,
                          bases[ls_cpu_base_variables(executable) + i]});
  }
}

void ls_cpu_numbers_end(const ls_instance *self) {
  const ls_cpu_numbers *best = self->workers[0].numbers;
  for (int i = 1; i < self->num_workers; ++i)
    if (self->workers[i].numbers->kind > best->kind)
      best = self->workers[i].numbers;
  if (best->kind != LS_CPU_NO_NAN)
    ls_runtime_note_nan(self->executable->backend->runtime,
                        best->kind == LS_CPU_NAN_MADE, best->text, best->row);
}
