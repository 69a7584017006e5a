// SPDX-License-Identifier: Apache-2.0
// A training step of a model or an estimator, which bench, compile, graph, plan
// and summary run.
#include <stdio.h>
#include <string.h>

#include "cli/estimator.h"
#include "cli/look/estimate.h"
#include "lockstep/device.h"

// Makes a strategy on a row of TPU cores of one host.
static ls_status create_tpu_strategy(int32_t replicas,
                                     ls_strategy **out_strategy) {
  char shape[40];
  CLI_OWN(ls_tpu_resolver, resolver) = NULL;
  snprintf(shape, sizeof(shape), "%dx1,cores=1", replicas);
  LS_RETURN_IF_ERROR(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "local", .local = shape}, &resolver));
  return ls_tpu_strategy_create(&(ls_tpu_options){.resolver = resolver},
                                out_strategy);
}

// Refuses a batch that replicas on devices cannot share evenly, which the CPU
// would compute.
static ls_status check_shares(const cli_step_flags *flags) {
  const int64_t batch = flags->batch_size, replicas = flags->replicas;
  ls_device_facts facts;
  LS_RETURN_IF_ERROR(ls_device_describe(ls_runtime_current(), &facts));
  if (facts.plugin == NULL || batch % replicas == 0) return ls_ok();
  int64_t fewer = replicas;
  while (batch % fewer != 0)
    --fewer;
  return ls_invalid_argument(
      "a batch of %lld does not divide evenly among %lld replicas, and the CPU "
      "would compute it: use --batch-size %lld or --replicas %lld",
      (long long)batch, (long long)replicas,
      (long long)(batch + replicas - batch % replicas), (long long)fewer);
}

// ---- Loops -----------------------------------------------------------------
static ls_nest makes_step(ls_nest values, void *user) {
  const cli_step *step = user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 0),
                         ls_scalar(LS_DTYPE_I64, (double)step->flags->steps)));
}

// Takes a replica's part of a batch from the infeed, and trains with it.
static ls_status take_step(const cli_step *step, ls_nest *out_results) {
  enum { MOST = 16 };
  ls_nest leaves[MOST];
  ls_type types[MOST];
  const size_t count = ls_nest_num_leaves(step->batch);
  if (count > MOST)
    return ls_unimplemented("batches of more than %d tensors", MOST);
  ls_nest_flatten(step->batch, leaves, count);
  for (size_t i = 0; i < count; ++i) {
    const ls_array *array = ls_nest_as_array(leaves[i]);
    types[i] = (ls_type){ls_array_dtype(array), ls_array_shape(array)};
    types[i].shape.dim[0] /= step->flags->replicas;
  }
  const ls_op op = ls_infeed_dequeue_tuple(types, count);
  for (size_t i = 0; i < count; ++i)
    leaves[i] = ls_leaf(ls_op_output(op, (unsigned)i));
  CLI_OWN(ls_nest, batch) = ls_nest_pack(step->batch, leaves, count);
  *out_results = step->call(batch, step->user);
  return ls_nest_status(*out_results);
}

static ls_nest make_step(ls_nest values, void *user) {
  CLI_OWN(ls_nest, results) = {0};
  const ls_status status = take_step(user, &results);
  return ls_status_is_ok(status)
             ? LS_LIST(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)))
             : ls_fail(status);
}

static ls_nest make_steps(ls_nest args, void *user) {
  (void)args;
  return ls_step_while(makes_step, make_step, user,
                       LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_I64, 0))), 0);
}

// ---- Making ----------------------------------------------------------------
static ls_status make_model(const cli_step_flags *flags, cli_step *step) {
  const ls_model_type *type = flags->type;
  ls_model_options model = {.inputs = flags->inputs};
  LS_RETURN_IF_ERROR(cli_precision(flags->precision, &model.dtype));
  LS_RETURN_IF_ERROR(ls_model_create(type, &model, &step->model));
  step->call = type->train_step;
  step->user = step->model.self;
  LS_RETURN_IF_ERROR(
      cli_check_room(&step->model, flags->batch_size, flags->batch_size));
  return ls_model_synthetic_batch(type, flags->batch_size, &step->batch);
}

// Returns the first dimension of a batch's arrays; 0: it has none.
static int64_t count_rows(ls_nest batch) {
  const ls_array *array = ls_nest_as_array(batch);
  if (array != NULL)
    return ls_array_shape(array).rank > 0 ? ls_array_shape(array).dim[0] : 0;
  int64_t rows = 0;
  for (size_t i = 0; i < ls_nest_count(batch) && rows == 0; ++i)
    rows = count_rows(ls_nest_item(batch, i));
  return rows;
}

// Takes the batch size of an estimator's input, which may be another than the
// estimator's but not than one that is asked for.
static ls_status take_batch_size(cli_step_flags *flags, ls_nest batch) {
  const int64_t rows = count_rows(batch), asked = flags->batch_size;
  flags->batch_size = rows;
  if (asked == 0 || asked == rows) return ls_ok();
  return ls_invalid_argument(
      "--batch-size is %lld, but the input of '%s' gives a batch of %lld",
      (long long)asked, flags->model, (long long)rows);
}

// Makes an estimator that trains in the step's strategy. Its step writes
// nothing to the folder.
static ls_status make_estimator(cli_step_flags *flags, cli_step *step) {
  const ls_estimator_type *type = flags->estimator;
  ls_estimator_options options = type->options;
  CLI_OWN(ls_nest, params) = {0};
  CLI_OWN(ls_run_config, config) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_run_config_create(
      &(ls_run_config_options){.model_dir = "runs",
                               .train_distribute = step->strategy},
      &config));
  LS_RETURN_IF_ERROR(cli_params_read("train", flags->params, &params));
  options.config = config;
  options.params = params;
  options.use_tpu = options.eval_on_tpu = LS_FLAG_OFF;
  if (flags->batch_size > 0)
    options.train_batch_size = (ls_opt)LS_SOME(flags->batch_size);
  LS_RETURN_IF_ERROR(ls_estimator_create(&options, &step->estimator));
  step->call = ls_estimator_step;
  step->user = step->estimator;
  LS_RETURN_IF_ERROR(
      ls_estimator_first_batch(step->estimator, &type->train, &step->batch));
  return take_batch_size(flags, step->batch);
}

static ls_status fill_step(cli_step_flags *flags, cli_step *step) {
  LS_RETURN_IF_ERROR(
      flags->tpu
          ? create_tpu_strategy((int32_t)flags->replicas, &step->strategy)
          : ls_mirrored_strategy_create(
                &(ls_mirrored_options){.num_replicas =
                                           LS_SOME(flags->replicas)},
                &step->strategy));
  step->flags = flags;
  LS_RETURN_IF_ERROR(flags->estimator != NULL ? make_estimator(flags, step)
                                              : make_model(flags, step));
  LS_RETURN_IF_ERROR(check_shares(flags));
  const bool is_loop = flags->steps > 0;
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = is_loop ? make_steps : step->call,
                             .user = is_loop ? step : step->user,
                             .name = is_loop ? "train_steps" : "train_step"},
      &step->function));
  return is_loop ? ls_ok()
                 : ls_train_split(step->strategy, step->batch, &step->args);
}

ls_status cli_step_open(cli_step_flags *flags, cli_step *out_step) {
  *out_step = (cli_step){0};
  const ls_status status = fill_step(flags, out_step);
  if (!ls_status_is_ok(status)) cli_step_close(out_step);
  return status;
}

ls_status cli_step_run(const cli_step *step, ls_nest *results) {
  CLI_OWN(ls_nest, own) = {0};
  return ls_strategy_run(step->strategy, ls_traced(step->function), step->args,
                         results != NULL ? results : &own);
}

void cli_step_close(cli_step *step) {
  ls_nest_release(step->args);
  ls_nest_release(step->batch);
  ls_function_release(step->function);
  ls_model_destroy(&step->model);
  ls_estimator_destroy(step->estimator);
  ls_strategy_release(step->strategy);
  *step = (cli_step){0};
}

static bool check_estimator(const char *command, cli_step_flags *flags) {
  const ls_estimator_type *type = flags->estimator;
  if (flags->task != NULL || flags->outputs != 0 ||
      strcmp(flags->precision, "f32") != 0)
    return cli_refuse(command,
                      "--task, --outputs and --precision are for models: the "
                      "functions of estimator '%s' choose them",
                      flags->model);
  if (type->train.call == NULL)
    return cli_refuse(command,
                      "the estimator '%s' has no input to train with (its "
                      "field 'train')",
                      flags->model);
  return cli_params_check(command, flags->params, type);
}

// Finds the model of a run, with the run's sizes and task.
static bool find_in_run(const char *command, cli_step_flags *flags) {
  CLI_OWN(ls_train_config, config) = NULL;
  const ls_status status = ls_train_config_read(flags->model, &config);
  if (cli_report(command, status) != CLI_OK) return false;
  if (cli_is_library(config->model))
    return cli_refuse(command,
                      "the model of the run in '%s' is in a shared library, "
                      "which is loaded only if you name it: lockstep %s %s",
                      flags->model, command, config->model);
  flags->type = cli_find_model(command, config->model);
  if (flags->task != NULL) config->task = flags->task;
  if (flags->outputs > 0) config->outputs = flags->outputs;
  flags->inputs = config->inputs;
  if (flags->batch_size == 0) flags->batch_size = config->batch_size;
  return flags->type != NULL &&
         cli_report(command, cli_run_type(config, &flags->type,
                                          &flags->adapted)) == CLI_OK;
}

bool cli_step_find(const char *command, cli_step_flags *flags) {
  cli_found found = {0};
  const bool is_run =
      ls_model_find(flags->model) == NULL && cli_is_run(flags->model);
  if (!is_run && !cli_find_type(command, flags->model, &found)) return false;
  flags->type = found.model;
  flags->estimator = found.estimator;
  if (found.estimator != NULL) return check_estimator(command, flags);
  if (flags->params != NULL)
    return cli_refuse(command, "--param is for estimators: '%s' is a %s",
                      flags->model, is_run ? "run" : "model");
  if (is_run) return find_in_run(command, flags);
  if (!cli_flagged_type(command, flags->task, flags->outputs, &flags->type,
                        &flags->adapted))
    return false;
  if (flags->batch_size == 0) flags->batch_size = flags->type->batch_size;
  return true;
}

int cli_with_step(const char *command, cli_step_flags *flags,
                  ls_status (*body)(void *user, ls_runtime *runtime),
                  void *user) {
  ls_runtime *runtime = NULL;
  ls_trace *trace = NULL;
  if (!cli_check_arithmetic(command, flags->precision, &flags->math))
    return CLI_USAGE;
  ls_status status = cli_runtime_open(flags->threads, flags->math, &runtime);
  if (!ls_status_is_ok(status)) return cli_report(command, status);
  if (!cli_step_find(command, flags))
    return cli_runtime_close(command, runtime, CLI_USAGE);
  status = cli_trace_begin(runtime, flags->trace, &trace);
  if (ls_status_is_ok(status)) status = body(user, runtime);
  const int code = cli_trace_end(command, trace, cli_report(command, status));
  return cli_runtime_close(command, runtime, code);
}
