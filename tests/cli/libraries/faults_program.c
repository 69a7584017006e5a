// SPDX-License-Identifier: Apache-2.0
// A program for tools/plant-faults: trains the model of faults.c in a session,
// or as an estimator's, with a fault. Prints a line for each result of each op,
// "STEP REPLICA TRIP HASH ROWS LABEL", with a hash of each row where rows are
// those of the batch; or the failure of a step whose loss is NaN.
//
// usage: faults_program session|estimator REPLICAS FAULT AT VALUE
//   number  the last number of example AT is VALUE
//   label   the label of example AT is VALUE
//   rate    the learning rate of step AT is VALUE times the others'
//   NAME    bit VALUE of variable NAME is flipped before step AT
//   none    no fault
#include <stdio.h>
#include <string.h>

#include "faults.c"

enum { BATCH = 12, STEPS = 8, ROWS = BATCH * STEPS };

static struct {
  const char *fault;
  int replicas;
  int64_t at;
  double value;
  int64_t step;  // The step that is made, from 1 on.
} program;

static bool has_fault(const char *fault) {
  return strcmp(program.fault, fault) == 0;
}

// ---- Results of ops --------------------------------------------------------
static void print_result(void *user, const ls_op_result *result) {
  const int64_t rows = result->has_rows ? result->shape.dim[0] : 0;
  const unsigned char *bytes = result->data;
  (void)user;
  printf("%lld %d %lld %016llx ", (long long)program.step, result->replica,
         (long long)result->trip, (unsigned long long)result->hash);
  const int64_t size = (int64_t)ls_dtype_size(result->dtype) *
                       ls_shape_num_elements(result->shape);
  for (int64_t r = 0; r < rows; ++r) {
    uint32_t hash = 2166136261u;
    for (int64_t i = r * (size / rows); i < (r + 1) * (size / rows); ++i)
      hash = (hash ^ bytes[i]) * 16777619u;
    printf("%s%08x", r > 0 ? "," : "", hash);
  }
  printf("%s %s\n", rows > 0 ? "" : "-", result->label);
}

// ---- Faults ----------------------------------------------------------------
// Flips a bit of the variable before the step of the fault.
static ls_status flip_bit(ls_session *session, ls_graph *graph) {
  enum { MOST = 100 };
  ls_nest leaves[MOST];
  const size_t count = ls_graph_collection(graph, "variables", leaves, MOST);
  for (size_t i = 0; i < count && i < MOST; ++i) {
    ls_variable *variable = ls_nest_as_variable(leaves[i]);
    ls_array *array = NULL;
    if (!has_fault(ls_variable_name(variable))) continue;
    LS_RETURN_IF_ERROR(ls_session_variable_value(session, variable, &array));
    const int64_t bit = (int64_t)program.value;
    unsigned char *bytes = ls_array_mutable_data(array);
    bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    const ls_status status =
        ls_session_set_variable_value(session, variable, array);
    ls_array_release(array);
    return status;
  }
  return ls_ok();
}

static ls_status before_step(void *user, ls_run_context *context,
                             ls_run_wish *wish) {
  (void)user;
  (void)wish;
  ls_runtime_watch_ops(ls_runtime_current(), NULL, NULL);
  if (++program.step == program.at)
    LS_RETURN_IF_ERROR(flip_bit(ls_run_context_session(context),
                                ls_run_context_graph(context)));
  ls_runtime_watch_ops(ls_runtime_current(), print_result, NULL);
  return ls_ok();
}

static ls_tensor factor(ls_tensor step, void *user) {
  (void)user;
  const int64_t at = has_fault("rate") ? program.at - 1 : -1;
  return ls_select(ls_equal(step, ls_scalar_i64(LS_DTYPE_I64, at)),
                   ls_scalar(LS_DTYPE_F64, program.value),
                   ls_scalar(LS_DTYPE_F64, 1));
}

// Makes examples, which differ from row to row.
static ls_status make_data(ls_array **x, ls_array **y) {
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_F32, LS_SHAPE(ROWS, WIDTH), x));
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_I32, LS_SHAPE(ROWS), y));
  for (int64_t i = 0; i < ROWS * WIDTH; ++i)
    ls_array_set_f64(*x, i, (double)(i * 7919 % 1009) / 1009);
  for (int64_t i = 0; i < ROWS; ++i)
    ls_array_set_i64(*y, i, i * 31 % CLASSES);
  if (has_fault("number"))
    ls_array_set_f64(*x, program.at * WIDTH + WIDTH - 1, program.value);
  if (has_fault("label"))
    ls_array_set_i64(*y, program.at, (int64_t)program.value);
  return ls_ok();
}

// ---- The model -------------------------------------------------------------
static ls_status make_net(ls_bag *bag, net *out) {
  out->layer = ls_dense_layer_in(bag, .name = "only", .inputs = WIDTH,
                                 .units = CLASSES, .seed = 3);
  out->optimizer =
      ls_adam_in(bag, .learning_rate = 0.01, .schedule = {.custom = factor});
  return ls_bag_take_error(bag);
}

static ls_tensor loss_of(const net *n, ls_tensor x, ls_tensor y) {
  return ls_mean_softmax_cross_entropy(apply(n, x), y);
}

// ---- A session -------------------------------------------------------------
// Copies the batch of a step.
static ls_status copy_rows(const ls_array *all, int64_t step, ls_array **out) {
  ls_shape shape = ls_array_shape(all);
  const size_t size = ls_array_size(all) / STEPS;
  shape.dim[0] = BATCH;
  LS_RETURN_IF_ERROR(ls_array_create(ls_array_dtype(all), shape, out));
  memcpy(ls_array_mutable_data(*out),
         (const char *)ls_array_data(all) + (size_t)step * size, size);
  return ls_ok();
}

static ls_status make_steps(ls_monitored_session *session, ls_nest fetches,
                            ls_feed *feeds, const ls_array *x,
                            const ls_array *y) {
  ls_status status = ls_ok();
  for (int64_t i = 0; i < STEPS && ls_status_is_ok(status); ++i) {
    ls_nest results = ls_none();
    ls_array *parts[2] = {NULL, NULL};
    const ls_array *all[2] = {x, y};
    for (int k = 0; k < 2 && ls_status_is_ok(status); ++k) {
      status = copy_rows(all[k], i, &parts[k]);
      feeds[k].value = parts[k];
    }
    if (ls_status_is_ok(status))
      status = ls_monitored_session_run(session, fetches, feeds, 2, &results);
    ls_nest_release(results);
    ls_array_release(parts[0]);
    ls_array_release(parts[1]);
  }
  return status;
}

static ls_status run_session(ls_bag *bag, ls_graph *graph, ls_hook *watch) {
  ls_array *x = NULL, *y = NULL;
  net n = {0};
  ls_variable *step = NULL;
  ls_hook *guard = NULL;
  ls_monitored_session *session = NULL;
  LS_RETURN_IF_ERROR(make_data(&x, &y));
  LS_RETURN_IF_ERROR(make_net(bag, &n));
  LS_RETURN_IF_ERROR(ls_global_step_create(graph, &step));
  ls_feed feeds[] = {
      {.tensor = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(BATCH, WIDTH), "x")},
      {.tensor = ls_placeholder(LS_DTYPE_I32, LS_SHAPE(BATCH), "y")}};
  const ls_tensor loss = loss_of(&n, feeds[0].tensor, feeds[1].tensor);
  const ls_nest train = ls_nest_op(ls_train_op(n.optimizer, loss));
  LS_RETURN_IF_ERROR(ls_nan_hook(loss, LS_FLAG_ON, &guard));
  ls_hook *const hooks[] = {watch, guard};
  LS_RETURN_IF_ERROR(ls_monitored_session_create(
      &(ls_monitored_options){.graph = graph, .hooks = hooks, .num_hooks = 2},
      &session));
  const ls_status status = ls_monitored_session_close(
      session, make_steps(session, train, feeds, x, y));
  ls_hook_release(guard);
  ls_array_release(x);
  ls_array_release(y);
  return status;
}

// ---- An estimator ----------------------------------------------------------
static ls_nest input(void *user, ls_input_call *call) {
  ls_array *x = NULL, *y = NULL;
  (void)user;
  const ls_status status = make_data(&x, &y);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  ls_dataset *data =
      ls_dataset_from_arrays(LS_TUPLE(ls_nest_array(x), ls_nest_array(y)));
  return ls_nest_dataset(ls_dataset_batch(
      data, &(ls_batch_options){
                .size = ls_params_i64(call->params, "batch_size", BATCH)}));
}

static ls_status call_model(void *user, ls_model_call *call,
                            ls_estimator_spec **out) {
  ls_bag bag = {0};
  net n = {0};
  (void)user;
  ls_status status = make_net(&bag, &n);
  if (ls_status_is_ok(status)) {
    const ls_tensor loss =
        loss_of(&n, call->features.as.tensor, call->labels.as.tensor);
    status = ls_tpu_estimator_spec_create(
        &(ls_estimator_spec_options){.mode = call->mode,
                                     .loss = loss,
                                     .train_op =
                                         ls_train_op(n.optimizer, loss)},
        out);
  }
  ls_bag_empty(&bag);
  return status;
}

static ls_status run_estimator(ls_hook *watch) {
  ls_strategy *strategy = NULL;
  ls_run_config *config = NULL;
  ls_estimator *estimator = NULL;
  ls_hook *guard = NULL;
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(program.replicas)},
      &strategy));
  LS_RETURN_IF_ERROR(ls_tpu_run_config_create(
      &(ls_run_config_options){.model_dir = "estimated",
                               .train_distribute = strategy},
      &config));
  LS_RETURN_IF_ERROR(ls_estimator_create(
      &(ls_estimator_options){.model_fn = {.call = call_model},
                              .config = config,
                              .use_tpu = LS_FLAG_OFF,
                              .eval_on_tpu = LS_FLAG_OFF,
                              .train_batch_size = LS_SOME(BATCH)},
      &estimator));
  LS_RETURN_IF_ERROR(ls_nan_hook_named("loss", LS_FLAG_ON, &guard));
  ls_hook *const hooks[] = {watch, guard};
  const ls_status status =
      ls_estimator_train(estimator,
                         &(ls_estimator_training){.input = {.call = input},
                                                  .max_steps = LS_SOME(STEPS),
                                                  .hooks = hooks,
                                                  .num_hooks = 2},
                         NULL);
  ls_hook_release(guard);
  ls_estimator_destroy(estimator);
  ls_run_config_release(config);
  ls_strategy_release(strategy);
  return status;
}

// ---- The program -----------------------------------------------------------
static ls_status run(const char *way) {
  ls_graph *graph = NULL;
  ls_bag bag = {0};
  ls_hook *watch = NULL;
  LS_RETURN_IF_ERROR(ls_hook_create(
      &(ls_hook_options){.name = "watch", .before_run = before_step}, &watch));
  ls_status status = ls_ok();
  if (strcmp(way, "estimator") == 0) {
    status = run_estimator(watch);
  } else {
    LS_RETURN_IF_ERROR(ls_graph_create("faults", &graph));
    LS_GRAPH_SCOPE(graph);
    status = run_session(&bag, graph, watch);
  }
  ls_hook_release(watch);
  ls_bag_empty(&bag);
  ls_graph_destroy(graph);
  return status;
}

int main(int argc, char **argv) {
  ls_runtime *runtime = NULL;
  if (argc != 6) return 2;
  program.replicas = atoi(argv[2]);
  program.fault = argv[3];
  program.at = atoll(argv[4]);
  program.value = atof(argv[5]);
  ls_status status = ls_runtime_create(
      &(ls_runtime_options){.find_nan = true, .threads = 1}, &runtime);
  if (ls_status_is_ok(status)) {
    ls_runtime_make_current(runtime);
    status = run(argv[1]);
    ls_runtime_make_current(NULL);
  }
  const int failed = !ls_status_is_ok(status);
  if (failed) printf("%s\n", ls_status_message(status));
  ls_status_free(status);
  ls_status_free(ls_runtime_destroy(runtime));
  return failed;
}
