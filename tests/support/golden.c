// SPDX-License-Identifier: Apache-2.0
#include "support/golden.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/eager.h"
#include "lockstep/models.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/mlp.h"
#include "support/sanitizer.h"
#include "support/training.h"

enum { STEPS = 20, FIRST_STEPS = 3, MOST_VARIABLES = 128, NAME_SIZE = 64 };
// Streams of the generator: variable i has stream i.
enum { STREAM_EXAMPLES = 1000, STREAM_LABELS, STREAM_CHECKSUM };

typedef struct trace {
  int64_t batch;
  double loss[STEPS];
  size_t num_losses, num_variables;
  char name[MOST_VARIABLES][NAME_SIZE];
  double norm[MOST_VARIABLES], checksum[MOST_VARIABLES];
} trace;

// ---- The golden file -------------------------------------------------------
// Takes in "<what> <key> <number>".
static void add_line(trace *golden, const char *what, const char *key,
                     double value) {
  if (strcmp(what, "loss") == 0) {
    assert_true(golden->num_losses < STEPS);
    golden->loss[golden->num_losses++] = value;
  } else if (strcmp(what, "norm") == 0) {
    assert_true(golden->num_variables < MOST_VARIABLES);
    const size_t i = golden->num_variables++;
    snprintf(golden->name[i], NAME_SIZE, "%s", key);
    golden->norm[i] = value;
  } else {  // Of the variable whose norm was in the line before.
    assert_string_equal(what, "checksum");
    assert_true(golden->num_variables > 0);
    assert_string_equal(golden->name[golden->num_variables - 1], key);
    golden->checksum[golden->num_variables - 1] = value;
  }
}

static void read_golden(const char *path, ls_dtype dtype, trace *golden) {
  char line[256];
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  memset(golden, 0, sizeof(*golden));
  while (fgets(line, sizeof(line), file) != NULL) {
    char type[8], what[16], key[NAME_SIZE];
    long long batch = 0;
    double value = 0;
    if (line[0] == '#') continue;
    if (sscanf(line, "batch %lld", &batch) == 1) {
      golden->batch = batch;
      continue;
    }
    assert_int_equal(sscanf(line, "%7s %15s %63s %lf", type, what, key, &value),
                     4);
    if (strcmp(type, ls_dtype_name(dtype)) == 0)
      add_line(golden, what, key, value);
  }
  fclose(file);
  assert_true(golden->batch > 0);
  assert_int_equal(golden->num_losses, STEPS);
  assert_true(golden->num_variables > 0);
}

// ---- First values and batch ------------------------------------------------
static double signed_number(uint32_t stream, int64_t index) {
  const uint32_t bits = mlp_hash(stream, (uint32_t)index) >> 20;
  return ((double)bits - 2048) / 2048;
}

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), part = strlen(end);
  return length >= part && strcmp(text + length - part, end) == 0;
}

// Vectors are around 1 or around 0; the others have the power of two that is in
// the range of Glorot and Bengio.
static void set_first_value(ls_variable *variable, size_t index) {
  const char *name = ls_variable_name(variable);
  const ls_shape shape = ls_variable_shape(variable);
  const bool around_1 = ends_with(name, "scale") || ends_with(name, "variance");
  double scale = 1, offset = 0;
  if (shape.rank == 1) {
    scale = 1.0 / 8;
    offset = around_1 ? 1 : 0;
  } else {
    int64_t fans = shape.dim[shape.rank - 2] + shape.dim[shape.rank - 1];
    for (int i = 0; i + 2 < shape.rank; ++i)
      fans *= shape.dim[i];
    for (int64_t n = 6; n < fans; n *= 4)
      scale /= 2;
  }
  LS_OWN(ls_array, value) = NULL;
  expect_ok(ls_array_create(ls_variable_dtype(variable), shape, &value));
  for (int64_t i = 0; i < ls_array_num_elements(value); ++i)
    ls_array_set_f64(value, i,
                     signed_number((uint32_t)index, i) * scale + offset);
  expect_ok(ls_variable_set_value(variable, value));
}

static ls_array *make_rows(ls_dtype dtype, int64_t size, ls_shape shape) {
  ls_shape whole = {.rank = shape.rank + 1, .dim = {size}};
  for (int i = 0; i < shape.rank; ++i)
    whole.dim[i + 1] = shape.dim[i];
  ls_array *array = NULL;
  expect_ok(ls_array_create(dtype, whole, &array));
  return array;
}

static void fill_classes(ls_array *array, uint32_t stream, int64_t classes) {
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_i64(array, i, (mlp_hash(stream, (uint32_t)i) >> 16) % classes);
}

// Examples are tokens, or multiples of 1/256 in [0, 1).
static ls_nest make_batch(const ls_model_type *type, int64_t size) {
  const bool tokens = type->example_dtype == LS_DTYPE_I32;
  ls_array *x = make_rows(tokens ? LS_DTYPE_I32 : LS_DTYPE_F32, size,
                          type->example_shape);
  ls_array *y = make_rows(LS_DTYPE_I32, size, type->label_shape);
  fill_classes(y, STREAM_LABELS, type->num_classes);
  if (tokens)
    fill_classes(x, STREAM_EXAMPLES, type->num_classes);
  else
    for (int64_t i = 0; i < ls_array_num_elements(x); ++i)
      ls_array_set_f64(x, i,
                       (mlp_hash(STREAM_EXAMPLES, (uint32_t)i) >> 24) / 256.0);
  return LS_TUPLE(ls_nest_array(x), ls_nest_array(y));
}

// ---- What we make of it ----------------------------------------------------
static void measure(ls_variable *variable, trace *out) {
  const size_t index = out->num_variables++;
  LS_OWN(ls_array, value) = NULL;
  expect_ok(ls_variable_value(variable, &value));
  long double squares = 0, products = 0;
  for (int64_t i = 0; i < ls_array_num_elements(value); ++i) {
    const long double x = ls_array_f64(value, i);
    squares += x * x;
    products += x * signed_number(STREAM_CHECKSUM, i);
  }
  snprintf(out->name[index], NAME_SIZE, "%s", ls_variable_name(variable));
  out->norm[index] = (double)sqrtl(squares);
  out->checksum[index] = (double)products;
}

static void train(const ls_model_type *type, ls_dtype dtype, int64_t batch,
                  size_t steps, trace *out) {
  LS_OWN(ls_model, model) = {0};
  ls_variable *variables[MOST_VARIABLES];
  LS_OWN(ls_function, step) = NULL;
  memset(out, 0, sizeof(*out));
  expect_ok(ls_model_create(type, &(ls_model_options){.dtype = dtype}, &model));
  const size_t count = type->variables(model.self, variables, MOST_VARIABLES);
  assert_in_range(count, 1, MOST_VARIABLES);
  for (size_t i = 0; i < count; ++i)
    set_first_value(variables[i], i);
  expect_ok(ls_function_create(
      &(ls_function_options){.call = type->train_step, .user = model.self},
      &step));
  LS_OWN(ls_nest, args) = make_batch(type, batch);
  LS_OWN(ls_nest, result) = ls_none();
  while (out->num_losses < steps) {
    expect_ok(ls_function_call(step, args, &result));
    const ls_array *loss = ls_nest_as_array(ls_nest_find(result, "loss"));
    assert_int_equal(ls_array_dtype(loss), dtype);
    out->loss[out->num_losses++] = ls_array_f64(loss, 0);
  }
  for (size_t i = 0; i < count; ++i)
    measure(variables[i], out);
}

// ---- Comparing -------------------------------------------------------------
static double worst;  // Of the errors seen.

// The error may be `limit` times `scale`.
static void expect_near(const char *what, const char *name, double got,
                        double want, double scale, double limit) {
  const double error = fabs(got - want) / scale;
  if (error > worst) worst = error;
  if (!(error <= limit))
    fail_msg("%s %s: wanted %.17g, got %.17g, off by %.3g of %.3g", what, name,
             want, got, error, scale);
}

static void compare_losses(const trace *got, const trace *want, size_t first,
                           size_t end, double limit) {
  for (size_t i = first; i < end; ++i) {
    char name[24];
    snprintf(name, sizeof(name), "%zu", i);
    expect_near("loss", name, got->loss[i], want->loss[i], want->loss[i],
                limit);
  }
}

static void compare_variables(const trace *got, const trace *want,
                              double limit) {
  for (size_t i = 0; i < want->num_variables; ++i) {
    const char *name = want->name[i];
    const double norm = want->norm[i];
    expect_near("norm", name, got->norm[i], norm, norm, limit);
    // A sum with cancellation, whose terms have the norm's size.
    expect_near("checksum", name, got->checksum[i], want->checksum[i], norm,
                limit);
  }
}

void expect_golden(const char *model, const char *path,
                   const golden_limits *limits) {
  static trace want, got;
  const size_t steps = LS_SANITIZED ? FIRST_STEPS : STEPS;
  const ls_model_type *type = ls_model_find(model);
  assert_non_null(type);
  read_golden(path, limits->dtype, &want);
  train(type, limits->dtype, want.batch, steps, &got);
  worst = 0;
  assert_int_equal(got.num_variables, want.num_variables);
  for (size_t i = 0; i < want.num_variables; ++i)
    assert_string_equal(got.name[i], want.name[i]);
  compare_losses(&got, &want, 0, FIRST_STEPS, limits->first);
  print_message("%s in %s: off by at most %.2g in %d steps", model,
                ls_dtype_name(limits->dtype), worst, FIRST_STEPS);
  if (limits->all > 0 && steps == STEPS) {
    compare_losses(&got, &want, FIRST_STEPS, STEPS, limits->all);
    compare_variables(&got, &want, limits->all);
    print_message(", %.2g in %d", worst, STEPS);
  }
  print_message("\n");
  assert_true(got.loss[steps - 1] < got.loss[0]);
}
