// SPDX-License-Identifier: Apache-2.0
//
// The library's models as estimators (--estimator): a model function around a
// model's step, and input functions for the data of the commands.
#include <stdlib.h>
#include <string.h>

#include "cli/estimator.h"

// The estimator of this command.
static struct {
  ls_estimator_type type;
  const ls_model_type *own;    // The library's model,
  const ls_model_type *model;  // adapted to the data once they are open.
  ls_model_type adapted;       // See cli_run_type.
  ls_train_config config;
  const char *data, *features;  // Other data than the run's.
  const char *command;          // Reports resizing; NULL: silent.
  const ls_schedule *schedule;  // For --find-lr; NULL: the flags'.
  cli_opened set;
  ls_iterator *origins;  // See cli_open_examples.
} linked;

// ---- Data ------------------------------------------------------------------
static cli_data training_data(cli_classes *classes) {
  const ls_train_config *config = &linked.config;
  classes->names = config->classes;
  classes->one_hot = config->one_hot;
  classes->missing = config->missing;
  classes->categories = config->categories;
  classes->columns = config->columns;
  classes->bytes = config->bytes;
  return (cli_data){.data = config->data,
                    .test = config->test,
                    .features = config->features,
                    .split = config->split,
                    .classes = classes};
}

// Opens the training set of a new or resumed run, to find what the flags leave
// open.
static ls_status open_training(const train_flags *flags) {
  ls_train_config *config = &linked.config;
  cli_opened *set = &linked.set;
  if (flags->normalize && flags->resume != NULL && config->normalize == NULL)
    return ls_invalid_argument(
        "--normalize makes other steps: the run in '%s' was begun without it",
        flags->resume);
  *set = (cli_opened){.data = config->data,
                      .test = config->test,
                      .is_new = flags->resume == NULL,
                      .command = linked.command,
                      .config = config,
                      .type = linked.own};
  LS_RETURN_IF_ERROR(cli_open_training(flags, false, set));
  linked.model = set->type;
  config->steps = set->steps;
  return ls_ok();
}

ls_status cli_linked_open(const char *command, const estimator_flags *flags,
                          ls_estimator_mode mode) {
  const train_flags *train = &flags->train;
  linked.model = linked.own;
  linked.config = cli_train_fresh(train);
  // A training may go on to any step: its rate does not end with the first.
  if (train->asked.schedule == NULL) linked.config.schedule = "constant";
  linked.data = flags->data;
  linked.features = flags->features;
  linked.command =
      train->quiet || train->again != NULL || flags->json ? NULL : command;
  linked.schedule = train->again != NULL &&
                            train->again->schedule.kind != LS_SCHEDULE_CONSTANT
                        ? &train->again->schedule
                        : NULL;
  return mode == LS_MODE_TRAIN
             ? open_training(train)
             : cli_run_type(&linked.config, &linked.model, &linked.adapted);
}

const ls_train_config *cli_linked_config(void) { return &linked.config; }

const ls_task *cli_linked_task(void) {
  return ls_model_type_task(linked.model);
}

int64_t cli_linked_epoch(void) {
  return ls_train_count_steps(linked.model, linked.set.examples,
                              linked.config.batch_size, 1, 0);
}

void cli_linked_close(void) {
  cli_close_training(&linked.set);
  ls_iterator_release(linked.origins);
  linked.origins = NULL;
}

ls_status cli_linked_print_origin(int64_t number) {
  CLI_OWN(ls_nest, origin) = ls_none();
  if (linked.origins != NULL)
    LS_RETURN_IF_ERROR(ls_iterator_next(linked.origins, &origin));
  cli_print_origin(origin, number);
  return ls_ok();
}

// ---- Input -----------------------------------------------------------------
static ls_status open_input(ls_estimator_mode mode, ls_dataset **out) {
  const ls_train_config *config = &linked.config;
  const ls_model_type *model = linked.model;
  const bool trains = mode == LS_MODE_TRAIN;
  CLI_OWN(ls_dataset, found) = NULL;
  CLI_OWN(ls_dataset, origins) = NULL;
  if (trains) {
    cli_classes classes = {0};
    const cli_data data = training_data(&classes);
    LS_RETURN_IF_ERROR(cli_open_data(&data, model, &found, NULL));
    LS_RETURN_IF_ERROR(cli_augment(config, &found));
  } else if (mode == LS_MODE_EVAL) {
    LS_RETURN_IF_ERROR(cli_open_run_test(config, linked.data, linked.features,
                                         linked.command, model, &found));
  } else {
    LS_RETURN_IF_ERROR(cli_open_examples(config, linked.data, linked.features,
                                         linked.command, model, &found,
                                         &origins));
    ls_iterator_release(linked.origins);
    linked.origins = NULL;
    if (origins != NULL)
      LS_RETURN_IF_ERROR(cli_begin_rows(origins, &linked.origins));
  }
  LS_RETURN_IF_ERROR(ls_train_check_data(model, found));
  *out = ls_train_examples(model, found, trains);
  return ls_ok();
}

static ls_nest make_input(void *user, ls_input_call *call) {
  const int64_t size =
      ls_params_i64(call->params, "batch_size", linked.model->batch_size);
  ls_dataset *examples = NULL;
  (void)user;
  const ls_status status = open_input(call->mode, &examples);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (call->mode == LS_MODE_TRAIN)
    examples = ls_dataset_repeat(examples, LS_INFINITE);
  return ls_nest_dataset(
      ls_dataset_batch(examples, &(ls_batch_options){.size = size}));
}

// ---- The model -------------------------------------------------------------
// Makes the optimizer of the flags, or the model's own, by creating a second
// model.
static ls_status make_optimizer(const ls_train_config *config,
                                ls_optimizer **out_optimizer) {
  CLI_OWN(ls_graph, graph) = NULL;
  LS_RETURN_IF_ERROR(ls_graph_create("optimizer", &graph));
  LS_GRAPH_SCOPE(graph);
  CLI_OWN(ls_model, model) = {0};
  LS_RETURN_IF_ERROR(
      linked.schedule != NULL
          ? cli_create_scheduled(config, linked.model, linked.schedule, &model)
          : cli_create_model_by(config, linked.model, config->steps, NULL,
                                &model));
  return ls_cross_shard_create(
      &(ls_cross_shard_options){.optimizer =
                                    linked.model->optimizer(model.self)},
      out_optimizer);
}

static ls_status make_model(const ls_model_call *call, ls_model *out) {
  ls_train_config config = linked.config;
  const ls_opt seed = ls_run_config_values(call->config)->random_seed;
  CLI_OWN(ls_optimizer, optimizer) = NULL;
  config.learning_rate =
      ls_params_f64(call->params, "learning_rate", config.learning_rate);
  config.seed = seed.set ? seed.value : 0;
  LS_RETURN_IF_ERROR(make_optimizer(&config, &optimizer));
  return cli_create_model_by(&config, linked.model, config.steps, optimizer,
                             out);
}

// Returns true for an op of a step: not one that sets a slot to its first
// value, nor a group, which may have such ones.
static bool is_of_step(ls_op op) {
  static const char end[] = "/initializer";
  const char *name = ls_op_name(op);
  const size_t size = strlen(name);
  return strcmp(ls_op_type_name(op), "no_op") != 0 &&
         (size < sizeof(end) ||
          strcmp(name + size + 1 - sizeof(end), end) != 0);
}

static ls_status linked_train(const ls_model *model, ls_nest args,
                              ls_estimator_spec_options *spec) {
  ls_variable *global_step = NULL;
  ls_graph *graph = ls_graph_current();
  LS_RETURN_IF_ERROR(ls_global_step_get(graph, &global_step));
  const size_t first = ls_graph_num_ops(graph);
  CLI_OWN(ls_nest, made) = model->type->train_step(args, model->self);
  LS_RETURN_IF_ERROR(ls_nest_status(made));
  spec->loss = ls_nest_tensor(ls_nest_find(made, "loss"), 0);
  (void)ls_variable_assign_add(global_step, ls_scalar_i64(LS_DTYPE_I64, 1));
  // Groups all ops of a model's step with its train op, as a function would run
  // them.
  const size_t all = ls_graph_num_ops(graph);
  size_t count = 0;
  CLI_OWN_ARRAY_OR_RETURN(ls_op, ops, all - first);
  for (size_t i = first; i < all; ++i) {
    ops[count] = ls_graph_op(graph, i);
    count += is_of_step(ops[count]);
  }
  spec->train_op = ls_group(ops, count, "train_op");
  return ls_ok();
}

static bool is_classifier(void) {
  return ls_model_type_task(linked.model)->label_dtype == LS_DTYPE_I32;
}

// Returns true if the metric counts labels, all of which are classes.
static bool counts_labels(void) {
  return is_classifier() && !ls_model_type_task(linked.model)->has_void;
}

// Returns the examples' weights with as many dimensions as their labels have.
static ls_tensor weights_of(ls_tensor weights, ls_tensor labels) {
  ls_shape shape = ls_tensor_shape(weights);
  const int32_t rank = ls_tensor_shape(labels).rank;
  if (ls_tensor_is_failed(weights) || shape.rank == rank) return weights;
  while (shape.rank < rank)
    shape.dim[shape.rank++] = 1;
  return ls_reshape(weights, shape);
}

// Returns weights of examples: those whose labels are all void do not count.
static ls_tensor weigh_examples(ls_tensor labels, ls_tensor mask) {
  if (!ls_model_type_task(linked.model)->has_void ||
      linked.model->num_classes > LS_VOID_LABEL)
    return mask;
  const ls_tensor counts = ls_reduce_max(
      ls_convert(ls_not_equal(labels, ls_scalar_i64(ls_tensor_dtype(labels),
                                                    LS_VOID_LABEL)),
                 LS_DTYPE_F32),
      LS_AXES(1, 2));
  return ls_tensor_is_failed(mask)
             ? counts
             : ls_mul(counts, ls_convert(mask, LS_DTYPE_F32));
}

// Computes a classifier's accuracy of labels and classes, else the mean of the
// second values, a score for each example.
static ls_nest metrics(ls_nest of, void *user) {
  const char *name = ls_model_type_task(linked.model)->metric;
  const ls_nest value =
      counts_labels()
          ? ls_metric_accuracy(
                ls_nest_tensor(of, 0), ls_nest_tensor(of, 1),
                weights_of(ls_nest_tensor(of, 2), ls_nest_tensor(of, 0)), name)
          : ls_metric_mean(
                ls_nest_tensor(of, 1),
                weigh_examples(ls_nest_tensor(of, 0), ls_nest_tensor(of, 2)),
                name);
  (void)user;
  return ls_nest_dict("", &name, &value, 1);
}

// Returns the mean of each example's labels.
static ls_tensor mean_of_labels(ls_tensor values) {
  while (ls_tensor_shape(values).rank > 1)
    values = ls_reduce_mean(values, LS_AXES(-1));
  return values;
}

static ls_nest predictions_of(ls_tensor outputs) {
  const int last = ls_tensor_shape(outputs).rank - 1;
  if (!is_classifier())
    return ls_model_type_task(linked.model)->predictions(outputs);
  const char *const names[] = {"class", "probability"};
  const ls_nest items[] = {
      ls_leaf(ls_convert(ls_argmax(outputs, last), LS_DTYPE_I32)),
      ls_leaf(ls_reduce_max(ls_softmax(outputs), LS_AXES(last)))};
  return ls_nest_dict("", names, items, 2);
}

static ls_status use_model(const ls_model *model, const ls_model_call *call,
                           ls_bag *bag, ls_estimator_spec_options *spec) {
  const ls_nest args =
      ls_bag_nest(bag, ls_nest_sequence(LS_KIND_TUPLE, &call->features, 1));
  const ls_nest made = ls_bag_nest(bag, model->type->logits(args, model->self));
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  const ls_task *task = ls_model_type_task(linked.model);
  const ls_tensor outputs = ls_nest_tensor(made, 0);
  if (call->mode == LS_MODE_PREDICT) {
    spec->predictions = ls_bag_nest(bag, predictions_of(outputs));
    return ls_bag_take_error(bag);
  }
  const ls_tensor labels = call->labels.as.tensor;
  spec->loss = ls_weighted_mean(mean_of_labels(task->losses(outputs, labels)),
                                call->mask);
  const ls_tensor judged =
      counts_labels() ? ls_convert(ls_argmax(outputs, -1), LS_DTYPE_I32)
                      : mean_of_labels(task->scores(outputs, labels));
  spec->eval_metrics = (ls_host_function){
      .call = metrics,
      .tensors = ls_bag_nest(bag, LS_LIST(ls_leaf(labels), ls_leaf(judged)))};
  return ls_bag_take_error(bag);
}

static ls_status call_model(void *user, ls_model_call *call,
                            ls_estimator_spec **out) {
  CLI_OWN(ls_model, model) = {0};
  CLI_OWN(ls_bag, bag) = {0};
  ls_estimator_spec_options spec = {.mode = call->mode};
  (void)user;
  LS_RETURN_IF_ERROR(make_model(call, &model));
  if (call->mode == LS_MODE_TRAIN) {
    const ls_nest parts[] = {call->features, call->labels};
    const ls_nest args =
        ls_bag_nest(&bag, ls_nest_sequence(LS_KIND_TUPLE, parts, 2));
    LS_RETURN_IF_ERROR(ls_bag_take_error(&bag));
    LS_RETURN_IF_ERROR(linked_train(&model, args, &spec));
  } else {
    LS_RETURN_IF_ERROR(use_model(&model, call, &bag, &spec));
  }
  return ls_tpu_estimator_spec_create(&spec, out);
}

// ---- Exports ---------------------------------------------------------------
static ls_status receive(void *user, ls_serving_receiver *out) {
  const ls_model_type *model = linked.model;
  ls_shape shape = {.rank = model->example_shape.rank + 1};
  (void)user;
  shape.dim[0] = LS_UNKNOWN_DIM;
  memcpy(shape.dim + 1, model->example_shape.dim,
         (size_t)model->example_shape.rank * sizeof(*shape.dim));
  out->features = ls_leaf(ls_placeholder(model->example_dtype == LS_DTYPE_NONE
                                             ? LS_DTYPE_F32
                                             : model->example_dtype,
                                         shape, "examples"));
  return ls_ok();
}

// ---- The estimator ---------------------------------------------------------
const ls_estimator_type *cli_linked_estimator(const ls_model_type *model) {
  const ls_opt batch = LS_SOME(model->batch_size);
  const ls_input_function data = {.call = make_input};
  linked.own = linked.model = model;
  // A training step computes means over its whole batch, which would include
  // padding.
  linked.type =
      (ls_estimator_type){.name = model->name,
                          .description = model->description,
                          .train = data,
                          .eval = data,
                          .predict = data,
                          .receiver = {.call = receive},
                          .options = {.model_fn = {.call = call_model},
                                      .train_batch_size = batch,
                                      .eval_batch_size = batch,
                                      .predict_batch_size = batch,
                                      .any_use_batch = true}};
  return &linked.type;
}

bool cli_linked_takes(const char *command, const ls_estimator_type *type,
                      const ls_name_map *param) {
  if (!cli_is_linked(type)) return true;
  if (strcmp(param->from, "learning_rate") != 0)
    return cli_refuse(
        command,
        "--param has '%s': models of the library take only learning_rate",
        param->from);
  return strtod(param->to, NULL) > 0 ||
         cli_refuse(command, "--param has 'learning_rate=%s', expected a "
                             "number above 0",
                    param->to);
}

bool cli_is_linked(const ls_estimator_type *type) {
  return type == &linked.type;
}
