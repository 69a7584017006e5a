// SPDX-License-Identifier: Apache-2.0
// Memory and disk that a training run will take, before its first step.
#ifndef LS_CLI_LOOK_ESTIMATE_H_
#define LS_CLI_LOOK_ESTIMATE_H_

#include "cli/estimator.h"

// Memory at a run's peak, in bytes.
typedef struct cli_memory {
  double process;     // Program, runtime and graphs; measured.
  double data;        // Open data sets; measured.
  double parameters;  // Variables of the model.
  double optimizer;   // Variables of the optimizer.
  double replicas;    // Variables of an estimator's other replicas.
  double copies;      // New values of variables, if they are kept apart.
  double values;      // Working memory of a step.
  double input;       // Batches of a step, made ahead.
  double evaluation;  // Working memory and batches of an evaluation.
  double saves;       // Copy of all variables, and of the model at the end.
} cli_memory;
double cli_memory_peak(const cli_memory *memory);

// Trains the model tiny for some steps, on data of its own, without a folder.
ls_status cli_train_tiny(ls_train_result *out_result);

// Parts of a run that are made before its first step.
typedef struct cli_plan_run {
  const ls_model_type *type;
  ls_model_type adapted;  // See cli_run_type.
  cli_step_flags step;  // Flags of an estimator's step; zeroed: a model's run.
  ls_train_config config;
  ls_strategy *strategy;
  ls_model model;
  ls_dataset *train, *test;  // No `test`: the run does not evaluate.
  int64_t examples, steps;   // 0: unknown, of an estimator.
  int64_t batch_size;  // 0: that of an estimator's input, until it is compiled.
  double data_bytes;   // Measured.
} cli_plan_run;
// Opens data and model, or an estimator with these parameters, as `lockstep
// train` does with these flags.
ls_status cli_plan_run_open(const train_flags *flags, const char *params,
                            cli_plan_run *out_run);
void cli_plan_run_close(cli_plan_run *run);
CLI_OWNED_STRUCT(cli_plan_run, cli_plan_run_close)

// Compiles the step for a batch size, which is not run, and estimates the
// memory of the run.
ls_status cli_plan_memory(cli_plan_run *run, int64_t batch_size,
                          cli_step *out_step, cli_memory *out_memory);
// Returns the largest batch size, a multiple of the replicas, with which a run
// fits into `room` bytes, given the memory that it takes with a larger one; 0
// if there is none.
ls_status cli_plan_batch_size(cli_plan_run *run, const cli_memory *memory,
                              double room, int64_t *out_batch_size);

// ---- The machine -----------------------------------------------------------
// Returns the resident memory of this process, in bytes; 0 if unknown.
double cli_resident_bytes(void);
// Returns an entry of a file of /proc such as "VmRSS:   1234 kB", in bytes; 0
// if there is none.
double cli_read_memory(const char *path, const char *name);
// Memory that this process may have: what it has and what is available, of the
// machine, the control group and the limits of the shell. INFINITY if unknown.
double cli_room(void);
// Returns the free bytes of the file system that a path is or will be on;
// INFINITY if unknown.
double cli_free_disk(const char *path);

// Returns the sum of the variables' bytes.
double cli_variable_bytes(ls_variable *const *variables, size_t count);
// Refuses a run on so many examples whose variables and a batch (0: the
// model's) are more than all memory of the machine or the control group.
//   LS_RESOURCE_EXHAUSTED  tells what it needs and what there is.
ls_status cli_check_room(const ls_model *model, int64_t batch_size,
                         int64_t examples);

#endif  // LS_CLI_LOOK_ESTIMATE_H_
