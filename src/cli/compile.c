// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "cli/cli.h"
#include "lockstep/device.h"

typedef struct compile_flags {
  cli_step_flags step;
  bool json;
} compile_flags;

// ---- Compiling -------------------------------------------------------------
// Runs the step once, which compiles it; for a topology nothing can run it.
static ls_status compile_step(cli_step_flags *flags,
                              ls_program_figures *out_figures) {
  CLI_OWN(cli_step, step) = {0};
  LS_RETURN_IF_ERROR(cli_step_open(flags, &step));
  const ls_status ran = cli_step_run(&step, NULL);
  if (!ls_status_is_ok(ran) &&
      (cli_device.topology == NULL || ls_status_code(ran) != LS_UNAVAILABLE ||
       ls_function_num_traces(step.function) == 0))
    return ran;
  ls_status_free(ran);
  return ls_function_describe_program(step.function, out_figures);
}

// ---- Printing --------------------------------------------------------------
// The rows of figures: name in JSON, label, value, and unit of a label.
typedef struct figure_row {
  const char *name, *label;
  double value, scale;  // A label's value is `value` / `scale`.
  const char *unit;
} figure_row;

enum { NUM_ROWS = 8 };

static void list_rows(const ls_program_figures *f, figure_row rows[NUM_ROWS]) {
  const double mib = 1 << 20;
  const figure_row filled[NUM_ROWS] = {
      {"flops", "flops", f->flops, 1e9, "Gflop"},
      {"bytes_accessed", "accesses", f->bytes_accessed, mib, "MiB"},
      {"argument_bytes", "arguments", (double)f->argument_bytes, mib, "MiB"},
      {"result_bytes", "results", (double)f->result_bytes, mib, "MiB"},
      {"alias_bytes", "in place", (double)f->alias_bytes, mib, "MiB"},
      {"temporary_bytes", "temporary", (double)f->temporary_bytes, mib, "MiB"},
      {"code_bytes", "code", (double)f->code_bytes, mib, "MiB"},
      {"compile_seconds", "compiled in", f->compile_seconds, 1, "s"}};
  for (int i = 0; i < NUM_ROWS; ++i)
    rows[i] = filled[i];
}

static void print_json(const cli_step_flags *flags,
                       const ls_device_facts *facts,
                       const ls_program_figures *figures,
                       const figure_row rows[NUM_ROWS]) {
  cli_print_text('{', "model", flags->model);
  printf(",\"topology\":");
  if (cli_device.topology != NULL)
    cli_print_json(cli_device.topology);
  else
    printf("null");
  cli_print_text(',', "kind", facts->kind != NULL ? facts->kind : "CPU");
  printf(",\"devices\":%d,\"replicas\":%lld,\"precision\":\"%s\","
         "\"batch_size\":%lld",
         figures->num_devices, (long long)flags->replicas, flags->precision,
         (long long)flags->batch_size);
  for (int i = 0; i < NUM_ROWS; ++i) {
    if (rows[i].value < 0)
      printf(",\"%s\":null", rows[i].name);
    else
      printf(",\"%s\":%.15g", rows[i].name, rows[i].value);
  }
  printf("}\n");
}

static void print_figures(const compile_flags *all,
                          const ls_device_facts *facts,
                          const ls_program_figures *figures) {
  const cli_step_flags *flags = &all->step;
  figure_row rows[NUM_ROWS];
  list_rows(figures, rows);
  if (all->json) {
    print_json(flags, facts, figures, rows);
    return;
  }
  printf("%s, %lld replica%s on %d of %d devices '%s'%s%s, %s, batch of %lld\n"
         "on each device:\n",
         flags->model, (long long)flags->replicas,
         flags->replicas == 1 ? "" : "s", figures->num_devices, facts->count,
         facts->kind != NULL ? facts->kind : "CPU",
         cli_device.topology != NULL ? " of topology " : "",
         cli_device.topology != NULL ? cli_device.topology : "",
         flags->precision, (long long)flags->batch_size);
  for (int i = 0; i < NUM_ROWS; ++i) {
    if (rows[i].value < 0)
      printf("  %-11s  unknown\n", rows[i].label);
    else
      printf("  %-11s  %.4g %s\n", rows[i].label, rows[i].value / rows[i].scale,
             rows[i].unit);
  }
}

// ---- The command -----------------------------------------------------------
static ls_status compile_model(void *user, ls_runtime *runtime) {
  compile_flags *flags = user;
  ls_device_facts facts = {0};
  ls_program_figures figures = {0};
  LS_RETURN_IF_ERROR(ls_device_describe(runtime, &facts));
  if (flags->step.replicas == 0) flags->step.replicas = facts.count;
  LS_RETURN_IF_ERROR(compile_step(&flags->step, &figures));
  print_figures(flags, &facts, &figures);
  return ls_ok();
}

int cli_compile(int argc, char **argv) {
  compile_flags flags = {.step.precision = "f32"};
  const cli_option options[] = {
      CLI_TOPOLOGY_OPTION("compile for"),
      {"replicas", CLI_COUNT, &flags.step.replicas, "N",
       "replicas that share the batch (default: one a device)"},
      CLI_THREADS_OPTION(&flags.step.threads),
      CLI_DEVICE_OPTIONS,
      CLI_BATCH_OPTION(&flags.step.batch_size),
      {"steps", CLI_COUNT, &flags.step.steps, "N",
       "with --topology: a loop of N steps, which take their batches from the "
       "infeed, as an estimator's do"},
      CLI_PRECISION_OPTION(&flags.step.precision),
      CLI_STEP_TASK_OPTIONS(&flags.step),
      CLI_MATH_OPTION(&flags.step.math),
      {"json", CLI_FLAG, &flags.json, NULL,
       "print one line of JSON: model, topology, kind, devices, replicas, "
       "precision, batch_size, flops, bytes_accessed, argument_bytes, "
       "result_bytes, alias_bytes, temporary_bytes, code_bytes, "
       "compile_seconds"},
  };
  const cli_syntax syntax = {
      .command = "compile",
      .about = "Compiles a model's training step, and prints the work, memory "
               "and code of one device. With --topology the plug-in compiles "
               "for devices that are elsewhere; for TPUs it is libtpu, which "
               "'pip install libtpu' installs. MODEL may be a shared library "
               "of models or estimators: ./mine.so or ./mine.so:NAME, or a "
               "model's run.",
      CLI_OPTIONS(options),
      .operand_form = "MODEL",
      .operand = &flags.step.model};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  if (flags.step.steps > 0 && cli_device.topology == NULL)
    return cli_misuse("compile", "--steps: give a --topology, too");
  return cli_with_step("compile", &flags.step, compile_model, &flags);
}
