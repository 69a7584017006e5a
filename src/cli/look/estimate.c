// SPDX-License-Identifier: Apache-2.0
//
// The memory of a run is that of this process with the run's data, model and
// compiled step, and of what the first step, evaluation and save add: their
// sizes are known once their programs are compiled.
#include "cli/look/estimate.h"

#include <math.h>

#include "cli/look/layers.h"
#include "lockstep/device.h"
#include "lockstep/function_plan.h"
#include "lockstep/training_parts.h"

// Batches at the same time: that of a step, of which those of files are made
// ahead, and those of an evaluation.
static const double own_batches = 1, file_batches = 3, evaluation_batches = 2;
// Labels of a batch of an evaluation.
static const int64_t evaluation_labels = 1000;
// Memory that first steps add to the process: stacks, small buffers.
static const double first_step_bytes = 256 << 10;

double cli_memory_peak(const cli_memory *m) {
  return m->process + m->data + m->parameters + m->optimizer + m->replicas +
         m->copies + m->values + m->input + m->evaluation + m->saves;
}

// ---- A tiny run ------------------------------------------------------------
ls_status cli_train_tiny(ls_train_result *out_result) {
  CLI_OWN(ls_model, model) = {0};
  CLI_OWN(ls_strategy, strategy) = NULL;
  const ls_model_type *type = ls_model_find("tiny");
  CLI_OWN(ls_dataset, data) = ls_dataset_synthetic(
      &(ls_synthetic_options){.size = 256,
                              .dtype = type->example_dtype,
                              .shape = type->example_shape,
                              .num_classes = type->num_classes});
  LS_RETURN_IF_ERROR(
      ls_model_create(type, &(ls_model_options){.metrics = true}, &model));
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, &strategy));
  return ls_train(&(ls_train_options){.model = &model,
                                      .strategy = strategy,
                                      .train = data,
                                      .batch_size = 32,
                                      .steps = 8},
                  out_result);
}

// ---- A run's parts ---------------------------------------------------------
static ls_status open_parts(const train_flags *flags, cli_plan_run *run) {
  const ls_train_config *config = &run->config;
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(config->replicas)},
      &run->strategy));
  const double before = cli_resident_bytes();
  cli_classes classes = {.may_find = true,
                         .one_hot = config->one_hot,
                         .missing = config->missing};
  const cli_data data = {.data = config->data,
                         .test = config->test,
                         .features = config->features,
                         .split = config->split,
                         .classes = &classes};
  ls_status opened = cli_find_sizes(&data, run->type, &run->config);
  if (ls_status_is_ok(opened))
    opened = cli_run_type(config, &run->type, &run->adapted);
  if (ls_status_is_ok(opened))
    opened = cli_open_data(&data, run->type, &run->train, &run->test);
  cli_classes_release(&classes);
  LS_RETURN_IF_ERROR(opened);
  LS_RETURN_IF_ERROR(
      ls_status_annotate(ls_train_check_data(run->type, run->train),
                         "--data synthetic generates examples that fit"));
  LS_RETURN_IF_ERROR(cli_augment(config, &run->train));
  LS_RETURN_IF_ERROR(ls_train_count_examples(run->train, &run->examples));
  run->data_bytes = fmax(0, cli_resident_bytes() - before);
  run->batch_size = flags->asked.batch_size != 0 ? flags->asked.batch_size
                                                 : run->type->batch_size;
  if (flags->asked.batch_size == 0 && run->batch_size > run->examples)
    run->batch_size = run->examples;
  LS_RETURN_IF_ERROR(cli_check_batch(run->batch_size, run->examples));
  run->steps =
      ls_train_count_steps(run->type, run->examples, config->batch_size,
                           config->epochs, config->steps);
  LS_RETURN_IF_ERROR(
      cli_create_model(config, run->type, run->steps, &run->model));
  return cli_check_room(&run->model, run->batch_size, run->examples);
}

static void find_parts(const train_flags *flags, const char *params,
                       cli_plan_run *run) {
  const ls_estimator_type *type = run->step.estimator;
  const ls_train_config *asked = &flags->asked;
  run->steps = asked->steps > 0 ? asked->steps : type->train_steps;
  run->batch_size = asked->batch_size;
  run->step.model = run->config.model;
  run->step.precision = "f32";
  run->step.replicas = run->config.replicas;
  run->step.params = params;
}

ls_status cli_plan_run_open(const train_flags *flags, const char *params,
                            cli_plan_run *out_run) {
  cli_plan_run *run = out_run;
  run->config = cli_train_fresh(flags);
  ls_train_result result;
  // Loads the code that a training needs, which is measured with the process.
  LS_RETURN_IF_ERROR(cli_train_tiny(&result));
  if (run->step.estimator != NULL) {
    find_parts(flags, params, run);
    return ls_ok();
  }
  const ls_status status = open_parts(flags, run);
  if (!ls_status_is_ok(status)) cli_plan_run_close(run);
  return status;
}

void cli_plan_run_close(cli_plan_run *run) {
  ls_model_destroy(&run->model);
  ls_dataset_release(run->train);
  ls_dataset_release(run->test);
  ls_strategy_release(run->strategy);
  *run = (cli_plan_run){.type = run->type, .step = run->step};
}

// ---- Sizes -----------------------------------------------------------------
static ls_status size_variables(const ls_model *model, const ls_graph *graph,
                                cli_memory *memory) {
  size_t count = 0, slots = 0;
  CLI_OWN_MEMORY(ls_variable *, variables) = NULL;
  LS_RETURN_IF_ERROR(
      cli_list_variables(model, graph, &variables, &count, &slots));
  // Other threads compute initial values: from then on they are in this
  // process's memory.
  CLI_OWN(ls_array, value) = NULL;
  if (count > 0) LS_RETURN_IF_ERROR(ls_variable_value(variables[0], &value));
  memory->parameters = cli_variable_bytes(variables, count - slots);
  memory->optimizer = cli_variable_bytes(variables + count - slots, slots);
  return ls_ok();
}

static double batch_bytes(ls_nest batch) {
  const ls_array *array = ls_nest_as_array(batch);
  double bytes = 0;
  if (array != NULL)
    return (double)ls_dtype_size(ls_array_dtype(array)) *
           (double)ls_shape_num_elements(ls_array_shape(array));
  for (size_t i = 0; i < ls_nest_count(batch); ++i)
    bytes += batch_bytes(ls_nest_item(batch, i));
  return bytes;
}

// ---- Compiling -------------------------------------------------------------
// Makes the step of a model that is open.
static ls_status make_step(const cli_plan_run *run, int64_t batch_size,
                           cli_step *step) {
  step->strategy = ls_strategy_retain(run->strategy);
  LS_RETURN_IF_ERROR(
      ls_function_create(&(ls_function_options){.call = run->type->train_step,
                                                .user = run->model.self,
                                                .name = "train_step"},
                         &step->function));
  LS_RETURN_IF_ERROR(
      ls_model_synthetic_batch(run->type, batch_size, &step->batch));
  return ls_train_split(run->strategy, step->batch, &step->args);
}

static ls_status compile_step(cli_plan_run *run, int64_t batch_size,
                              cli_step *step, ls_program_figures *figures) {
  run->step.batch_size = batch_size;
  LS_RETURN_IF_ERROR(run->step.estimator != NULL
                         ? cli_step_open(&run->step, step)
                         : make_step(run, batch_size, step));
  if (run->batch_size == 0) run->batch_size = run->step.batch_size;
  ls_function_set_compiles_only(step->function, true);
  LS_RETURN_IF_ERROR(cli_step_run(step, NULL));
  ls_function_set_compiles_only(step->function, false);
  return ls_function_describe_program(step->function, figures);
}

static ls_nest evaluate_batch(ls_nest args, void *user) {
  const ls_model *model = user;
  CLI_OWN(ls_nest, result) = model->type->logits(args, model->self);
  if (ls_nest_is_failed(result)) return cli_give(&result);
  const ls_task *task = ls_model_type_task(model->type);
  const ls_tensor outputs = ls_nest_tensor(result, 0);
  const ls_tensor labels = ls_nest_tensor(args, 1);
  return LS_TUPLE(
      ls_leaf(ls_reduce_sum(task->losses(outputs, labels), LS_ALL_AXES)),
      ls_leaf(ls_reduce_sum(task->scores(outputs, labels), LS_ALL_AXES)));
}

// Compiles an evaluation's program, as ls_evaluator has it, for its memory.
static ls_status size_evaluation(cli_plan_run *run, cli_memory *memory) {
  ls_program_figures figures = {0};
  int64_t examples = 0;
  if (run->test == NULL) return ls_ok();
  LS_RETURN_IF_ERROR(ls_train_count_examples(run->test, &examples));
  int64_t size =
      evaluation_labels / ls_shape_num_elements(run->type->label_shape);
  if (size < 1) size = 1;
  const double batches = (double)examples / (double)size;
  if (size > examples) size = examples;
  CLI_OWN(ls_function, function) = NULL;
  CLI_OWN(ls_nest, batch) = {0};
  CLI_OWN(ls_nest, results) = {0};
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){
          .call = evaluate_batch, .user = &run->model, .name = "evaluate"},
      &function));
  LS_RETURN_IF_ERROR(ls_model_synthetic_batch(run->type, size, &batch));
  ls_function_set_compiles_only(function, true);
  LS_RETURN_IF_ERROR(ls_function_call(function, batch, &results));
  LS_RETURN_IF_ERROR(ls_function_describe_program(function, &figures));
  memory->evaluation =
      (double)figures.temporary_bytes +
      fmin(evaluation_batches, fmax(1, batches)) * batch_bytes(batch);
  return ls_ok();
}

ls_status cli_plan_memory(cli_plan_run *run, int64_t batch_size,
                          cli_step *out_step, cli_memory *out_memory) {
  CLI_OWN(cli_step, step) = {0};
  ls_program_figures figures = {0};
  cli_memory memory = {.data = run->data_bytes};
  *out_step = (cli_step){0};
  LS_RETURN_IF_ERROR(compile_step(run, batch_size, &step, &figures));
  LS_RETURN_IF_ERROR(
      size_variables(&run->model, ls_function_graph(step.function), &memory));
  const double batch = batch_bytes(step.batch);
  memory.process =
      fmax(0, cli_resident_bytes() - memory.data - memory.parameters - batch) +
      first_step_bytes;
  memory.values = (double)figures.temporary_bytes;
  if (run->config.gradient_norm) memory.values += memory.parameters;
  memory.input =
      batch * (cli_is_place(run->config.data) ? file_batches : own_batches);
  const bool is_model = run->step.estimator == NULL;
  if (!is_model)
    memory.replicas = (double)(run->config.replicas - 1) *
                      (memory.parameters + memory.optimizer);
  // Without separate buffers all new values are in the variables' own; the
  // program of an estimator's session, which reads data, has such buffers.
  if (figures.alias_bytes == 0 || !is_model)
    memory.copies = memory.parameters + memory.optimizer;
  LS_RETURN_IF_ERROR(size_evaluation(run, &memory));
  // A copy of all variables is written while the run goes on, and a model's own
  // are copied once more at the end; an estimator's first checkpoint may still
  // be written at its second.
  memory.saves = memory.parameters + memory.optimizer;
  memory.saves += is_model ? memory.parameters : memory.saves;
  *out_memory = memory;
  return cli_hand_over(&step, out_step);
}

// ---- A batch that fits -----------------------------------------------------
// Tries the batch size at which a run would fit if memory grew in proportion to
// it; what it needs is then compiled, and a smaller one tried if it is too
// much.
ls_status cli_plan_batch_size(cli_plan_run *run, const cli_memory *memory,
                              double room, int64_t *out_batch_size) {
  enum { TRIES = 6 };
  const int64_t replicas = run->config.replicas;
  cli_memory tried = *memory;
  int64_t size = run->batch_size;
  *out_batch_size = 0;
  for (int i = 0; i < TRIES; ++i) {
    const double part = tried.values + tried.input;
    const double rest = room - (cli_memory_peak(&tried) - part);
    if (rest <= 0) return ls_ok();
    const double scale = fmin(rest / part, 0.95);
    size = (int64_t)((double)size * scale) / replicas * replicas;
    if (size < replicas) return ls_ok();
    CLI_OWN(cli_step, step) = {0};
    const ls_status planned = cli_plan_memory(run, size, &step, &tried);
    if (run->step.estimator != NULL &&
        ls_status_code(planned) == LS_INVALID_ARGUMENT) {
      ls_status_free(planned);  // No smaller batches of its input.
      return ls_ok();
    }
    LS_RETURN_IF_ERROR(planned);
    if (cli_memory_peak(&tried) > room) continue;
    *out_batch_size = size;
    return ls_ok();
  }
  return ls_ok();
}
