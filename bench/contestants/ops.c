// SPDX-License-Identifier: Apache-2.0
//
// Our contestant in bench/ops: runs a case, a graph given as
// text, in a compiled function that writes to the same arrays each time. It
// answers orders on standard input, as ops_peer.py does:
//
//   run K CASE  runs the case K times; the answer is one line {"ms": [...],
//               "cpu_ms": [...], "sums": [...], "bytes": B}: the times by the
//               clock and of all threads, the sums of the first 1000
//               magnitudes of each result, and the size of arguments and
//               results; or
//               {"error": WHY}
//
// The first answer has the machine's speed, {"flops": F, "bytes": B} a second.
// A case is a row of statements with " ; " between them. Statement number i
// makes value i, whose outputs are i, i:1, i:2 and so on.
//
//   in DTYPE SHAPE LOW HIGH      an argument of numbers in [LOW, HIGH)
//   op NAME VALUE... ATTR...     an op of the table; an attribute is
//                                NAME:KIND=VALUE, and its kinds are the
//                                letters of read_attr
//   out VALUE...                 results
//   grad VALUE VALUE...          results: the first value and the gradients of
//                                half the sum of its squares for the others
//
// Usage: ops --threads N

#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/machine.h"
#include "lockstep/full.h"
#include "lockstep/op_types.h"

enum {
  MAX_TIMES = 20000,
  MAX_TEXT = 1 << 18,
  MAX_STATEMENTS = 4096,
  MAX_WORDS = 256,
  SUMMED = 1000,
};

typedef struct contestant {
  char text[MAX_TEXT];  // The case that is prepared.
  size_t num_statements;
  ls_op made[MAX_STATEMENTS];  // In a trace; none for an argument.
  ls_tensor args_of[MAX_STATEMENTS];
  ls_function *function;
  ls_nest args, results;
  double times[MAX_TIMES], cpu_times[MAX_TIMES];
} contestant;

// ---- Text ------------------------------------------------------------------
typedef struct statement {
  char text[4096];
  char *words[MAX_WORDS];
  size_t count;
} statement;

// Reads the statement at `*at` and advances; returns false at the end.
static bool next_statement(const char **at, statement *out) {
  while (**at == ' ' || **at == ';')
    ++*at;
  const size_t size = strcspn(*at, ";\n");
  if (size == 0 || size >= sizeof(out->text)) return false;
  memcpy(out->text, *at, size);
  out->text[size] = '\0';
  *at += size;
  out->count = 0;
  char *rest = NULL;
  for (char *word = strtok_r(out->text, " ", &rest);
       word != NULL && out->count < MAX_WORDS;
       word = strtok_r(NULL, " ", &rest))
    out->words[out->count++] = word;
  return true;
}

// Reads numbers with any one character between them.
static size_t read_numbers(const char *text, int64_t *out, size_t capacity) {
  size_t count = 0;
  for (char *end = NULL; count < capacity && *text != '\0';
       text = *end == '\0' ? end : end + 1)
    out[count++] = strtoll(text, &end, 10);
  return count;
}

static ls_shape read_shape(const char *text) {
  ls_shape shape = {0};
  int64_t dims[LS_MAX_RANK];
  if (strcmp(text, "scalar") == 0) return shape;
  shape.rank = (int32_t)read_numbers(text, dims, LS_MAX_RANK);
  for (int32_t i = 0; i < shape.rank; ++i)
    shape.dim[i] = dims[i];
  return shape;
}

// Memory that attributes point to until the op is made.
typedef struct attr_memory {
  int64_t ints[LS_MAX_RANK];
  ls_size sizes[LS_MAX_RANK];
} attr_memory;

static ls_status read_attr(char *word, attr_memory *memory, ls_attr *out) {
  char *kind = strchr(word, ':'), *value = strchr(word, '=');
  if (kind == NULL || value != kind + 2)
    return ls_invalid_argument("expected an attribute, got '%s'", word);
  *kind = '\0';
  ++value;
  *out = (ls_attr){.name = word};
  switch (kind[1]) {
  case 'i':
    out->kind = LS_ATTR_INT;
    out->as.i = atoll(value);
    return ls_ok();
  case 'b':
    out->kind = LS_ATTR_BOOL;
    out->as.i = atoll(value);
    return ls_ok();
  case 'f':
    out->kind = LS_ATTR_FLOAT;
    out->as.f = atof(value);
    return ls_ok();
  case 't':
    out->kind = LS_ATTR_STRING;
    out->as.string = value;
    return ls_ok();
  case 'd':
    out->kind = LS_ATTR_DTYPE;
    return ls_dtype_parse(value, &out->as.dtype);
  case 'I':
    out->kind = LS_ATTR_INTS;
    out->as.ints.items = memory->ints;
    out->as.ints.count = read_numbers(value, memory->ints, LS_MAX_RANK);
    return ls_ok();
  case 's':
    out->kind = LS_ATTR_SIZES;
    out->as.sizes.items = memory->sizes;
    out->as.sizes.count = read_numbers(value, memory->ints, LS_MAX_RANK);
    for (size_t i = 0; i < out->as.sizes.count; ++i)
      memory->sizes[i] =
          (ls_size){.operand = LS_SIZE_CONSTANT, .value = memory->ints[i]};
    return ls_ok();
  default:
    return ls_invalid_argument("no attribute of kind '%c'", kind[1]);
  }
}

// ---- Traces ----------------------------------------------------------------
static ls_tensor find_value(const contestant *self, const char *word) {
  int64_t at[2] = {0};
  read_numbers(word, at, 2);
  if (at[0] < 0 || (size_t)at[0] >= self->num_statements)
    return ls_failed_tensor();
  return ls_op_is_failed(self->made[at[0]])
             ? self->args_of[at[0]]
             : ls_op_output(self->made[at[0]], (unsigned)at[1]);
}

static uint16_t find_op(const char *name) {
  static const char *const names[] = {
      NULL,
#define LS_OP(id, name, ...) name,
#include "lockstep/ops.def"
#undef LS_OP
  };
  for (uint16_t i = 1; i < LS_OP_COUNT; ++i)
    if (strcmp(names[i], name) == 0) return i;
  return LS_OP_NONE;
}

// Adds the op of a statement "op NAME ...".
static ls_status add_op(contestant *self, const statement *now) {
  ls_tensor inputs[MAX_WORDS];
  ls_attr attrs[8];
  attr_memory memory[8];
  ls_op_spec spec = {.inputs = inputs, .attrs = attrs};
  spec.type = now->count > 1 ? find_op(now->words[1]) : LS_OP_NONE;
  if (spec.type == LS_OP_NONE) return ls_not_found("no op of this name");
  for (size_t i = 2; i < now->count; ++i) {
    if (strchr(now->words[i], '=') == NULL) {
      inputs[spec.num_inputs++] = find_value(self, now->words[i]);
    } else if (spec.num_attrs < 8) {
      const size_t at = spec.num_attrs++;
      LS_RETURN_IF_ERROR(read_attr(now->words[i], &memory[at], &attrs[at]));
    }
  }
  self->made[self->num_statements] = ls_op_add(&spec);
  return ls_ok();
}

static ls_nest list_results(const contestant *self, const statement *now) {
  ls_nest out[MAX_WORDS];
  for (size_t i = 1; i < now->count; ++i)
    out[i - 1] = ls_leaf(find_value(self, now->words[i]));
  if (strcmp(now->words[0], "grad") == 0) {
    const ls_nest dy =
        ls_leaf(ls_stop_gradient(find_value(self, now->words[1])));
    ls_nest wrt[MAX_WORDS];
    memcpy(wrt, out + 1, sizeof(wrt) - sizeof(*wrt));
    const ls_status status = ls_gradients(
        out, 1, wrt, now->count - 2,
        &(ls_gradient_options){.grad_ys = &dy, .num_grad_ys = 1}, out + 1);
    if (!ls_status_is_ok(status)) return ls_fail(status);
  }
  return ls_nest_sequence(LS_KIND_LIST, out, now->count - 1);
}

static ls_nest trace_case(ls_nest args, void *user) {
  contestant *self = user;
  const char *at = self->text;
  size_t num_args = 0;
  statement now;
  self->num_statements = 0;
  for (; next_statement(&at, &now); ++self->num_statements) {
    if (self->num_statements == MAX_STATEMENTS) break;
    self->made[self->num_statements] = (ls_op){0};
    if (strcmp(now.words[0], "in") == 0) {
      self->args_of[self->num_statements] = ls_nest_tensor(args, num_args++);
    } else if (strcmp(now.words[0], "op") == 0) {
      const ls_status status = add_op(self, &now);
      if (!ls_status_is_ok(status)) return ls_fail(status);
    } else {
      return list_results(self, &now);
    }
  }
  return ls_fail(ls_invalid_argument("the case has no results"));
}

// ---- Arguments -------------------------------------------------------------
// Returns number i of argument `seed` in [low, high), as ops_peer.py does.
static double draw_number(uint32_t i, uint32_t seed, double low, double high) {
  uint32_t h = i * 2654435761u + seed * 40503u;
  h ^= h >> 15;
  h *= 0x2c1b3c6du;
  h ^= h >> 12;
  h *= 0x297a2d39u;
  h ^= h >> 15;
  return low + (high - low) * (double)(h >> 8) / 16777216;
}

static ls_status make_argument(const statement *now, uint32_t seed,
                               ls_nest *out) {
  ls_dtype dtype;
  ls_array *array = NULL;
  if (now->count != 5) return ls_invalid_argument("an argument has 4 words");
  LS_RETURN_IF_ERROR(ls_dtype_parse(now->words[1], &dtype));
  LS_RETURN_IF_ERROR(ls_array_create(dtype, read_shape(now->words[2]), &array));
  const double low = atof(now->words[3]), high = atof(now->words[4]);
  const bool is_float = dtype == LS_DTYPE_F32 || dtype == LS_DTYPE_F64 ||
                        dtype == LS_DTYPE_F16 || dtype == LS_DTYPE_BF16;
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i) {
    const double value = draw_number((uint32_t)i, seed, low, high);
    ls_array_set_f64(array, i, is_float ? value : floor(value));
  }
  *out = ls_nest_array(array);
  return ls_ok();
}

static void release_case(contestant *self) {
  ls_nest_release(self->args);
  ls_nest_release(self->results);
  if (self->function != NULL) ls_function_release(self->function);
  self->args = self->results = ls_none();
  self->function = NULL;
  self->text[0] = '\0';
}

// Prepares the function and its arguments, unless they are the last ones.
static ls_status prepare_case(contestant *self, const char *text) {
  if (strcmp(text, self->text) == 0) return ls_ok();
  release_case(self);
  ls_nest args[MAX_WORDS];
  size_t num_args = 0;
  statement now;
  for (const char *at = text; next_statement(&at, &now);)
    if (strcmp(now.words[0], "in") == 0 && num_args < MAX_WORDS) {
      LS_RETURN_IF_ERROR(
          make_argument(&now, (uint32_t)num_args, &args[num_args]));
      ++num_args;
    }
  self->args = ls_nest_sequence(LS_KIND_TUPLE, args, num_args);
  snprintf(self->text, sizeof(self->text), "%s", text);
  return ls_function_create(
      &(ls_function_options){.call = trace_case, .name = "case", .user = self},
      &self->function);
}

// ---- Answers ---------------------------------------------------------------
static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ls_status run_case(contestant *self, long count) {
  for (long i = 0; i < count; ++i) {
    const double before = machine_seconds(), cpu_before = cpu_seconds();
    LS_RETURN_IF_ERROR(
        ls_function_call(self->function, self->args, &self->results));
    self->cpu_times[i] = cpu_seconds() - cpu_before;
    self->times[i] = machine_seconds() - before;
  }
  return ls_ok();
}

static void print_times(const char *name, const double *times, long count) {
  printf("\"%s\": [", name);
  for (long i = 0; i < count; ++i)
    printf("%s%.6g", i > 0 ? "," : "", times[i] * 1e3);
  printf("], ");
}

static size_t bytes_of(ls_nest list) {
  size_t bytes = 0;
  for (size_t i = 0; i < ls_nest_count(list); ++i) {
    const ls_array *array = ls_nest_as_array(ls_nest_item(list, i));
    bytes += array != NULL ? ls_array_size(array) : 0;
  }
  return bytes;
}

static void print_answer(const contestant *self, long count) {
  putchar('{');
  print_times("ms", self->times, count);
  print_times("cpu_ms", self->cpu_times, count);
  printf("\"sums\": [");
  for (size_t i = 0; i < ls_nest_count(self->results); ++i) {
    const ls_array *array = ls_nest_as_array(ls_nest_item(self->results, i));
    double sum = 0;
    for (int64_t k = 0; array != NULL && k < SUMMED; ++k)
      if (k < ls_array_num_elements(array)) sum += fabs(ls_array_f64(array, k));
    printf("%s%.17g", i > 0 ? "," : "", isfinite(sum) ? sum : 0);
  }
  printf("], \"bytes\": %zu}\n",
         bytes_of(self->args) + bytes_of(self->results));
}

// Prints a failure as JSON; it ends the case only.
static void print_failure(ls_status status) {
  printf("{\"error\": \"");
  for (const char *c = ls_status_message(status); *c != '\0'; ++c)
    putchar(*c == '"' || *c == '\\' || *c < ' ' ? ' ' : *c);
  printf("\"}\n");
  ls_status_free(status);
}

static void print_machine(int threads) {
  enum { BYTES = 64 << 20 };
  char *to = calloc(2, BYTES);
  double flops = 0, bytes = 0;
  for (int i = 0; to != NULL && i < 5; ++i) {
    const double peak = machine_peak_run(threads);
    const double copy = machine_copy_run(threads, to, to + BYTES, BYTES);
    if (peak > 0) flops = fmax(flops, machine_peak_flops(threads) / peak);
    if (copy > 0) bytes = fmax(bytes, 2.0 * BYTES / copy);
  }
  free(to);
  printf("{\"flops\": %.6g, \"bytes\": %.6g}\n", flops, bytes);
}

int main(int argc, char **argv) {
  static contestant self;
  static char line[MAX_TEXT];
  if (argc != 3 || strcmp(argv[1], "--threads") != 0) {
    fprintf(stderr, "usage: ops --threads N\n");
    return 2;
  }
  setenv("LS_THREADS", argv[2], 1);
  print_machine(atoi(argv[2]));
  fflush(stdout);
  while (fgets(line, sizeof(line), stdin) != NULL) {
    long count = 0;
    int used = 0;
    ls_status status = ls_ok();
    if (sscanf(line, "run %ld %n", &count, &used) != 1 || count < 1 ||
        count > MAX_TIMES)
      status = ls_invalid_argument("expected 'run K CASE'");
    else
      status = prepare_case(&self, line + used);
    if (ls_status_is_ok(status)) status = run_case(&self, count);
    if (ls_status_is_ok(status)) {
      print_answer(&self, count);
    } else {
      release_case(&self);
      print_failure(status);
    }
    fflush(stdout);
  }
  release_case(&self);
  return 0;
}
