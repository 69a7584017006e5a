// SPDX-License-Identifier: Apache-2.0
//
// Our contestant in bench/compare, a user of the public interface: it builds
// a reference model's training step, runs it once and then does what it is
// told on standard input. bench/contestants/peer.py is the same for the peers.
//
//   run K   K steps, each timed with its loss at hand; the answer is one line
//           {"ms": [...], "loss": L}
//
// Usage: serve MODEL [--replicas N] [--threads N] [--precision f32|f64|bf16]
//              [--math direct|fast] [--export FILE]
//   --export  no step: writes the first weights and the batch to FILE, and
//             {"flops": F}, of a step, to standard output
// The model "peak" is no model: each step is a burst of multiply-adds on the
// registers of all threads, and the first answer has its flops.

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine.h"
#include "lockstep/full.h"

enum { MAX_VARIABLES = 1024, MAX_STEPS = 1000000 };

typedef struct asked {
  const char *model, *precision, *math, *export_path;
  int64_t replicas;
  int threads;
} asked;

// What takes a step and says its loss.
typedef struct contestant {
  int threads;
  ls_model model;
  ls_strategy *strategy;
  ls_function *function;
  ls_nest batch, args, results;
} contestant;

typedef ls_status (*take_step)(contestant *self, double *out_loss);

// ---- Steps -----------------------------------------------------------------
// The mean over the replicas, which have even shares of the batch.
static double loss_of(ls_nest results) {
  const ls_nest loss = ls_nest_find(results, "loss");
  const size_t count = ls_distributed_count(loss);
  if (count == 0) return ls_nest_number(loss);
  double sum = 0;
  for (size_t i = 0; i < count; ++i)
    sum += ls_nest_number(ls_distributed_component(loss, i));
  return sum / (double)count;
}

static ls_status train(contestant *self, double *out_loss) {
  LS_RETURN_IF_ERROR(ls_strategy_run(self->strategy, ls_traced(self->function),
                                     self->args, &self->results));
  *out_loss = loss_of(self->results);
  return ls_ok();
}

static ls_status burst(contestant *self, double *out_loss) {
  *out_loss = 0;
  if (machine_peak_run(self->threads) > 0) return ls_ok();
  return LS_STATUS(LS_RESOURCE_EXHAUSTED, "no %d threads", self->threads);
}

static ls_status open_model(const asked *what, contestant *self) {
  const ls_model_type *type = ls_model_find(what->model);
  if (type == NULL) return ls_not_found("there is no model '%s'", what->model);
  ls_model_options options = {0};
  if (strcmp(what->precision, "bf16") != 0)
    LS_RETURN_IF_ERROR(ls_dtype_parse(what->precision, &options.dtype));
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(what->replicas)},
      &self->strategy));
  LS_RETURN_IF_ERROR(ls_model_create(type, &options, &self->model));
  LS_RETURN_IF_ERROR(
      ls_function_create(&(ls_function_options){.call = type->train_step,
                                                .user = self->model.self,
                                                .name = "train_step"},
                         &self->function));
  LS_RETURN_IF_ERROR(
      ls_model_synthetic_batch(type, type->batch_size, &self->batch));
  return ls_train_split(self->strategy, self->batch, &self->args);
}

static void close_model(contestant *self) {
  ls_nest_release(self->results);
  ls_nest_release(self->args);
  ls_nest_release(self->batch);
  ls_function_release(self->function);
  ls_model_destroy(&self->model);
  ls_strategy_release(self->strategy);
}

static double step_flops(const contestant *self) {
  const ls_model_type *type = self->model.type;
  return type->flops_per_example * (double)type->batch_size;
}

// ---- Answers ---------------------------------------------------------------
static ls_status run_steps(take_step step, contestant *self, double *times,
                           long count) {
  double loss = 0;
  for (long i = 0; i < count; ++i) {
    const double before = machine_seconds();
    LS_RETURN_IF_ERROR(step(self, &loss));
    times[i] = machine_seconds() - before;
  }
  printf("{\"ms\": [");
  for (long i = 0; i < count; ++i)
    printf("%s%.6g", i > 0 ? "," : "", times[i] * 1e3);
  printf("], \"loss\": %.9g}\n", loss);
  fflush(stdout);
  return ls_ok();
}

static ls_status answer(take_step step, contestant *self, double flops) {
  double loss = 0;
  LS_RETURN_IF_ERROR(step(self, &loss));
  printf("{\"loss\": %.9g, \"flops\": %.9g}\n", loss, flops);
  fflush(stdout);
  double *times = calloc(MAX_STEPS, sizeof(*times));
  if (times == NULL) return ls_out_of_memory();
  ls_status status = ls_ok();
  char line[64];
  while (ls_status_is_ok(status) && fgets(line, sizeof(line), stdin) != NULL) {
    long count = 0;
    if (sscanf(line, "run %ld", &count) != 1 || count < 1 || count > MAX_STEPS)
      status = ls_invalid_argument("expected 'run K', got '%s'", line);
    else
      status = run_steps(step, self, times, count);
  }
  free(times);
  return status;
}

// ---- Export ----------------------------------------------------------------
// A line "name dtype dim dim ..." for each array, an empty line, and then all
// their elements as they are in memory.
static void write_line(FILE *file, const char *name, const ls_array *array) {
  fprintf(file, "%s %s", name, ls_dtype_name(ls_array_dtype(array)));
  const ls_shape shape = ls_array_shape(array);
  for (int i = 0; i < shape.rank; ++i)
    fprintf(file, " %lld", (long long)shape.dim[i]);
  fputc('\n', file);
}

static void write_arrays(FILE *file, const char *const *names,
                         ls_array *const *arrays, size_t count) {
  for (size_t i = 0; i < count; ++i)
    write_line(file, names[i], arrays[i]);
  fputc('\n', file);
  for (size_t i = 0; i < count; ++i)
    fwrite(ls_array_data(arrays[i]), 1, ls_array_size(arrays[i]), file);
}

static ls_status export(contestant *self, const char *path) {
  ls_variable *variables[MAX_VARIABLES];
  const char *names[MAX_VARIABLES + 2];
  ls_array *arrays[MAX_VARIABLES + 2] = {NULL};
  size_t count =
      self->model.type->variables(self->model.self, variables, MAX_VARIABLES);
  ls_status status = ls_ok();
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i) {
    names[i] = ls_variable_name(variables[i]);
    status = ls_variable_value(variables[i], &arrays[i]);
  }
  names[count] = "examples";
  arrays[count++] =
      ls_array_retain(ls_nest_as_array(ls_nest_item(self->batch, 0)));
  names[count] = "labels";
  arrays[count++] =
      ls_array_retain(ls_nest_as_array(ls_nest_item(self->batch, 1)));
  FILE *file = ls_status_is_ok(status) ? fopen(path, "wb") : NULL;
  if (file != NULL) write_arrays(file, names, arrays, count);
  const bool failed = file == NULL || ferror(file) != 0;
  if ((file != NULL && fclose(file) != 0) || failed)
    status = ls_status_join(
        status, LS_STATUS(LS_UNAVAILABLE, "cannot write '%s'", path));
  if (ls_status_is_ok(status)) printf("{\"flops\": %.9g}\n", step_flops(self));
  for (size_t i = 0; i < count; ++i)
    ls_array_release(arrays[i]);
  return status;
}

// ---- Main ------------------------------------------------------------------
static bool read_flags(int argc, char **argv, asked *what) {
  if (argc < 2 || argc % 2 != 0) return false;
  what->model = argv[1];
  for (int i = 2; i < argc; i += 2) {
    if (strcmp(argv[i], "--replicas") == 0)
      what->replicas = atoll(argv[i + 1]);
    else if (strcmp(argv[i], "--threads") == 0)
      what->threads = atoi(argv[i + 1]);
    else if (strcmp(argv[i], "--precision") == 0)
      what->precision = argv[i + 1];
    else if (strcmp(argv[i], "--math") == 0)
      what->math = argv[i + 1];
    else if (strcmp(argv[i], "--export") == 0)
      what->export_path = argv[i + 1];
    else
      return false;
  }
  return true;
}

static ls_status serve(const asked *what) {
  const bool fast = strcmp(what->math, "fast") == 0;
  if (!fast && strcmp(what->math, "direct") != 0)
    return ls_invalid_argument("math is '%s', expected direct or fast",
                               what->math);
  const bool bf16 = strcmp(what->precision, "bf16") == 0;
  static const ls_math maths[2][2] = {{LS_MATH_DIRECT, LS_MATH_FAST},
                                      {LS_MATH_BF16_DIRECT, LS_MATH_BF16}};
  ls_runtime *runtime = NULL;
  LS_RETURN_IF_ERROR(
      ls_runtime_create(&(ls_runtime_options){.threads = what->threads,
                                              .math = maths[bf16][fast]},
                        &runtime));
  ls_runtime_make_current(runtime);
  contestant self = {.threads = ls_runtime_threads(runtime)};
  ls_status status = ls_ok();
  if (strcmp(what->model, "peak") == 0) {
    status = answer(burst, &self, machine_peak_flops(self.threads));
  } else {
    status = open_model(what, &self);
    if (ls_status_is_ok(status))
      status = what->export_path != NULL
                   ? export(&self, what->export_path)
                   : answer(train, &self, step_flops(&self));
  }
  close_model(&self);
  ls_runtime_make_current(NULL);
  return ls_status_join(status, ls_runtime_destroy(runtime));
}

int main(int argc, char **argv) {
  asked what = {.replicas = 1, .precision = "f32", .math = "direct"};
  if (!read_flags(argc, argv, &what)) {
    fprintf(
        stderr,
        "usage: serve MODEL [--replicas N] [--threads N] "
        "[--precision f32|f64|bf16] [--math direct|fast] [--export FILE]\n");
    return 2;
  }
  const ls_status status = serve(&what);
  if (ls_status_is_ok(status)) return EXIT_SUCCESS;
  fprintf(stderr, "%s: %s\n", ls_code_name(ls_status_code(status)),
          ls_status_message(status));
  ls_status_free(status);
  return EXIT_FAILURE;
}
