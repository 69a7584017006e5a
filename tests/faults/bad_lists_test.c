// SPDX-License-Identifier: Apache-2.0
//
// Lists that are counted and NULL, and lists with a NULL in them: every call
// that takes one refuses it.
#include <string.h>

#include "estimator/own.h"
#include "lockstep/full.h"
#include "lockstep/op_types.h"
#include "nn/own.h"
#include "support/callbacks.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/read_all.h"
#include "support/replicas.h"
#include "support/tpu_strategies.h"

static int taken;  // Calls that were to refuse, and did not.

static void check(const char *call, ls_status status) {
  if (ls_status_is_ok(status)) {
    print_error("not refused: %s\n", call);
    ++taken;
  }
  ls_status_free(status);
}

#define REFUSES(call) check(#call, (call))
// A maker of ops, whose failure is the graph's; or that of an eager op.
#define FAILS(call)                                                            \
  do {                                                                         \
    const bool failed_ = (call);                                               \
    const ls_status error_ = ls_graph_take_error(ls_graph_current());          \
    check(#call,                                                               \
          failed_ &&ls_status_is_ok(error_) ? ls_internal_error() : error_);   \
  } while (0)

static ls_status ls_internal_error(void) {
  return LS_STATUS(LS_INTERNAL, "failed without the graph's error");
}

static ls_status made_nest(ls_nest nest) {
  const ls_status status = ls_nest_status(nest);
  ls_nest_release(nest);
  return status;
}

static const char *const no_text[] = {NULL};

// ---- Trees, graphs and ops -------------------------------------------------
static void ops_refuse(void) {
  ls_nest out = ls_none();
  const ls_tensor x = ls_scalar(LS_DTYPE_F32, 2);
  const ls_nest leaf = ls_leaf(x);
  ls_scope scope = {0};
  REFUSES(made_nest(ls_nest_sequence(LS_KIND_LIST, NULL, 1)));
  REFUSES(made_nest(ls_nest_named_tuple("", NULL, &leaf, 1)));
  REFUSES(made_nest(ls_nest_dict("", NULL, &leaf, 1)));
  REFUSES(made_nest(ls_nest_dict("", no_text, &leaf, 1)));
  REFUSES(made_nest(ls_nest_dict("", &(const char *){"a"}, NULL, 1)));
  REFUSES(made_nest(ls_nest_pack(leaf, NULL, 1)));
  REFUSES(made_nest(ls_nest_distributed(LS_PER_REPLICA, NULL, 1)));
  REFUSES(made_nest(ls_nest_ragged(NULL, NULL, 1)));
  FAILS(ls_op_is_failed(ls_group(NULL, 1, NULL)));
  FAILS(ls_tensor_is_failed(ls_add_n(NULL, 1)));
  FAILS(ls_tensor_is_failed(ls_concatenate(NULL, 1, 0)));
  FAILS(ls_op_is_failed(ls_split_like(x, NULL, 1, 0)));
  FAILS(ls_op_is_failed(ls_sort_by(NULL, 1, 0, false)));
  FAILS(ls_tensor_is_failed(ls_string_join(NULL, 1, "")));
  FAILS(ls_tensor_is_failed(ls_collective_permute(x, NULL, 1)));
  FAILS(ls_tensor_is_failed(ls_cross_replica_permute(x, NULL, 1)));
  FAILS(ls_op_is_failed(
      ls_op_add(&(ls_op_spec){.type = LS_OP_NO_OP, .num_control = 1})));
  FAILS(ls_op_is_failed(
      ls_op_add(&(ls_op_spec){.type = LS_OP_NEG, .num_inputs = 1})));
  FAILS(ls_op_is_failed(ls_op_add(&(ls_op_spec){
      .type = LS_OP_NEG, .inputs = &x, .num_inputs = 1, .num_attrs = 1})));
  FAILS(ls_op_is_failed(ls_op_add(&(ls_op_spec){
      .type = LS_OP_WHILE, .inputs = &x, .num_inputs = 1, .num_regions = 2})));
  FAILS(ls_op_is_failed(ls_host_call_add(NULL, NULL, NULL, 1)));
  ls_control_scope_begin(&scope, NULL, 1);
  ls_scope_end(&scope);
  REFUSES(ls_gradients(NULL, 1, &leaf, 1, NULL, &out));
  REFUSES(ls_gradients(&leaf, 1, NULL, 1, NULL, &out));
  REFUSES(ls_gradients(&leaf, 1, &leaf, 1,
                       &(ls_gradient_options){.num_grad_ys = 1}, &out));
  REFUSES(ls_gradients(&leaf, 1, &leaf, 1,
                       &(ls_gradient_options){.num_stop_gradients = 1}, &out));
  REFUSES(ls_parameters_bind(&(ls_parameters){.count = 1}, "f", leaf, ls_none(),
                             &out));
  REFUSES(ls_parameters_bind(&(ls_parameters){.names = no_text, .count = 1},
                             "f", leaf, ls_none(), &out));
  ls_function *function = NULL;
  REFUSES(ls_function_load("graph", NULL, 1, &function));
  ls_graph *graph = NULL;
  REFUSES(ls_graph_parse("graph", NULL, 1, &graph));
  ls_variable *variable = NULL;
  REFUSES(ls_variable_create(&(ls_variable_options){.initial_value = x,
                                                    .num_collections = 1,
                                                    .collections = no_text},
                             &variable));
  REFUSES(ls_packed_variable_create("p", NULL, 1, &variable));
  REFUSES(ls_replicated_variable_create("p", NULL, 1, &variable));
  ls_shape shape = LS_SCALAR;
  (void)shape;
}

// ---- Strategies ------------------------------------------------------------
static void strategies_refuse(ls_strategy *strategy) {
  ls_nest out = ls_none();
  ls_strategy *other = NULL;
  ls_cross_device *ops = NULL;
  ls_variable *variable = NULL;
  size_t count = 0;
  const char *device = NULL;
  const ls_tensor x = ls_scalar(LS_DTYPE_F32, 2);
  const ls_nest leaf = ls_leaf(x);
  const ls_destinations where = {.num_devices = 1},
                        nowhere = {.devices = no_text, .num_devices = 1};
  REFUSES(ls_mirrored_strategy_create(&(ls_mirrored_options){.num_devices = 1},
                                      &other));
  REFUSES(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.devices = no_text, .num_devices = 1}, &other));
  REFUSES(ls_strategy_reduce_to(strategy, LS_REDUCE_SUM, leaf, where, &out));
  REFUSES(ls_strategy_reduce_to(strategy, LS_REDUCE_SUM, leaf, nowhere, &out));
  REFUSES(ls_strategy_broadcast_to(strategy, leaf, where, &out));
  REFUSES(ls_strategy_broadcast_to(strategy, leaf, nowhere, &out));
  REFUSES(ls_strategy_batch_reduce_to(strategy, LS_REDUCE_SUM, NULL, &where, 1,
                                      &out));
  REFUSES(ls_strategy_batch_reduce_to(strategy, LS_REDUCE_SUM, &leaf, NULL, 1,
                                      &out));
  REFUSES(ls_strategy_reduce_with(strategy, LS_REDUCE_SUM, leaf,
                                  &(ls_reduce_options){.num_axes = 1}, &out));
  REFUSES(ls_strategy_reduce_with(strategy, LS_REDUCE_MEAN, leaf,
                                  &(ls_reduce_options){.num_weights = 2},
                                  &out));
  REFUSES(ls_strategy_map(strategy, NULL, 1, give_args, ls_none(), NULL, &out));
  REFUSES(ls_strategy_update_non_slot(strategy, NULL, 1, give_args, ls_none(),
                                      NULL, false, &out));
  REFUSES(ls_strategy_update_non_slot(strategy, no_text, 1, give_args,
                                      ls_none(), NULL, false, &out));
  REFUSES(ls_strategy_non_slot_devices(strategy, NULL, 1, &device, 1, &count));
  REFUSES(ls_strategy_worker_devices(strategy, NULL, 1, &count));
  REFUSES(ls_regroup(NULL, 1, NULL, &out));
  REFUSES(ls_update_regroup(strategy, NULL, 1, true, &out));
  REFUSES(ls_sum_gradient(NULL, 1, false, &(ls_tensor){0}, NULL));
  REFUSES(ls_cross_device_by_links(NULL, 1, &(ls_machine){0}, &ops));
  REFUSES(ls_cross_device_by_links(no_text, 1, &(ls_machine){0}, &ops));
  REFUSES(ls_cross_device_by_links(&(const char *){"/gpu:0"}, 1,
                                   &(ls_machine){.num_devices = 1}, &ops));
  REFUSES(ls_cross_device_by_links(
      &(const char *){"/gpu:0"}, 1,
      &(ls_machine){.devices = &(ls_machine_device){.num_links = 1},
                    .num_devices = 1},
      &ops));
  REFUSES(ls_cross_device_auto(&(const char *){"/gpu:0"}, 1,
                               &(ls_machine){.num_devices = 1}, &ops));
  REFUSES(ls_cross_device_auto(&(const char *){"/cpu:0"}, 1, NULL, &ops));
  REFUSES(ls_cross_device_auto(NULL, 1, &(ls_machine){0}, &ops));
  {
    LS_STRATEGY_SCOPE(strategy);
    REFUSES(ls_variable_create(
        &(ls_variable_options){.initial_value = x, .num_devices = 1},
        &variable));
    REFUSES(ls_variable_create(&(ls_variable_options){.initial_value = x,
                                                      .devices = no_text,
                                                      .num_devices = 1},
                               &variable));
  }
}

// ---- Data ------------------------------------------------------------------
static ls_dataset *three(void) { return ls_dataset_range(0, 3, 1); }

static void data_sets_refuse(void) {
  static const char *const path[] = {"/nowhere/x"};
  REFUSES(first_element(ls_dataset_batch(
      three(), &(ls_batch_options){.size = 2, .num_padded_shapes = 1})));
  REFUSES(first_element(
      ls_dataset_bucket(three(), &(ls_bucket_options){.num_boundaries = 1})));
  REFUSES(first_element(ls_dataset_sample(NULL, 1, NULL)));
  REFUSES(first_element(ls_dataset_sample(&(ls_dataset *){NULL}, 1, NULL)));
  REFUSES(first_element(
      ls_dataset_prefetch_to_devices(three(), NULL, 1, (ls_opt){0})));
  REFUSES(first_element(
      ls_dataset_prefetch_to_devices(three(), no_text, 1, (ls_opt){0})));
  REFUSES(first_element(ls_dataset_idx(NULL, 1, NULL)));
  REFUSES(first_element(ls_dataset_idx(no_text, 1, NULL)));
  REFUSES(first_element(ls_dataset_lines(NULL, 1, NULL)));
  REFUSES(first_element(ls_dataset_lines(no_text, 1, NULL)));
  REFUSES(first_element(ls_dataset_csv(NULL, 1, &(ls_csv_options){0})));
  REFUSES(first_element(ls_dataset_csv(no_text, 1, &(ls_csv_options){0})));
  REFUSES(first_element(
      ls_dataset_csv(path, 1, &(ls_csv_options){.num_columns = 1})));
  REFUSES(first_element(ls_dataset_csv(
      path, 1,
      &(ls_csv_options){.columns = &(ls_csv_column){.dtype = LS_DTYPE_F32},
                        .num_columns = 1})));
  REFUSES(first_element(ls_dataset_tfrecords(NULL, 1, NULL)));
  REFUSES(first_element(ls_dataset_tfrecords(no_text, 1, NULL)));
  REFUSES(first_element(ls_dataset_tfrecords(
      path, 1, &(ls_tfrecord_options){.num_features = 1})));
  REFUSES(first_element(ls_dataset_tfrecords(
      path, 1,
      &(ls_tfrecord_options){.features =
                                 &(ls_tfrecord_feature){.dtype = LS_DTYPE_F32},
                             .num_features = 1})));
  REFUSES(first_element(ls_dataset_npz("/nowhere/x", NULL, 1, NULL)));
  REFUSES(first_element(ls_dataset_npz("/nowhere/x", no_text, 1, NULL)));
  REFUSES(made_nest(ls_tfrecord_first_example(NULL, 1)));
  REFUSES(made_nest(ls_tfrecord_first_example(no_text, 1)));
}

// ---- Saved values ----------------------------------------------------------
static ls_status save_nothing(void *self, ls_record *record) {
  (void)self, (void)record;
  return ls_ok();
}
static ls_status restore_nothing(void *self, const ls_record *record) {
  (void)self, (void)record;
  return ls_ok();
}

static void savers_refuse(void) {
  LS_OWN(ls_variable, variable) = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "w",
                             .initial_value = ls_scalar(LS_DTYPE_F32, 1)},
      &variable));
  const ls_saver saver = {.variables = &variable, .num_variables = 1};
  const ls_saver none = {.num_variables = 1};
  static const char file[] = "bad_lists_test.tmp.safetensors";
  REFUSES(ls_saver_save(&none, file));
  REFUSES(ls_saver_save(
      &(ls_saver){.variables = &(ls_variable *){NULL}, .num_variables = 1},
      file));
  REFUSES(ls_saver_save(
      &(ls_saver){.variables = &variable, .num_variables = 1, .names = no_text},
      file));
  expect_ok(ls_saver_save(&saver, file));
  REFUSES(ls_saver_restore(&none, file));
  const ls_value_choice choices[] = {
      {.num_only = 1},   {.only = no_text, .num_only = 1},
      {.num_except = 1}, {.except = no_text, .num_except = 1},
      {.num_names = 1},  {.names = &(ls_name_map){0}, .num_names = 1}};
  for (size_t i = 0; i < sizeof(choices) / sizeof(*choices); ++i)
    REFUSES(ls_saver_restore_part(&saver, file, &choices[i], NULL));
  ls_saved_file *saved = NULL;
  expect_ok(ls_saved_file_open(file, &saved));
  const ls_saved_write_options writes[] = {
      {.num_only = 1},   {.only = no_text, .num_only = 1},
      {.num_except = 1}, {.except = no_text, .num_except = 1},
      {.num_names = 1},  {.names = &(ls_name_map){0}, .num_names = 1}};
  for (size_t i = 0; i < sizeof(writes) / sizeof(*writes); ++i)
    REFUSES(
        ls_saved_file_write(saved, "bad_lists_test.tmp.npz", &writes[i], NULL));
  ls_saved_file_close(saved);
  ls_checkpoints *checkpoints = NULL;
  REFUSES(ls_checkpoints_open(
      &(ls_checkpoints_options){
          .folder = "bad_lists_test.tmp", .values = &saver, .num_states = 1},
      &checkpoints));
  const ls_saveable state = {
      .name = "s", .save = save_nothing, .restore = restore_nothing};
  expect_ok(ls_checkpoints_open(
      &(ls_checkpoints_options){.folder = "bad_lists_test.tmp",
                                .values = &saver,
                                .states = &state,
                                .num_states = 1,
                                .background = LS_FLAG_OFF},
      &checkpoints));
  expect_ok(ls_checkpoints_save(checkpoints, 1, NULL, 0));
  REFUSES(ls_checkpoints_save(checkpoints, 2, NULL, 1));
  REFUSES(ls_checkpoints_save(checkpoints, 2, &(ls_checkpoint_metric){0}, 1));
  REFUSES(ls_checkpoints_restore(checkpoints,
                                 &(ls_restore_options){.num_states = 1}, NULL));
  REFUSES(ls_checkpoints_restore(
      checkpoints, &(ls_restore_options){.states = no_text, .num_states = 1},
      NULL));
  REFUSES(ls_checkpoints_list(checkpoints, NULL, 1, &(size_t){0}));
  expect_ok(ls_checkpoints_close(checkpoints));
}

// ---- Training --------------------------------------------------------------
static ls_status wish_nothing_counted(void *user, ls_run_context *context,
                                      ls_run_wish *wish) {
  (void)user, (void)context;
  wish->num_feeds = 1;
  return ls_ok();
}
static ls_status feed_nothing(void *user, ls_feed *feeds, size_t capacity,
                              size_t *out_count) {
  (void)user;
  memset(feeds, 0, sizeof(*feeds) * capacity);
  *out_count = 1;
  return ls_ok();
}

static ls_status hook_made(ls_status status, ls_hook *hook) {
  ls_hook_release(hook);
  return status;
}

// A run with a hook, taken over.
static ls_status run_with(ls_graph *graph, ls_hook *hook) {
  ls_monitored_session *session = NULL;
  ls_nest results = ls_none();
  ls_status status = ls_monitored_session_create(
      &(ls_monitored_options){.graph = graph, .hooks = &hook, .num_hooks = 1},
      &session);
  if (ls_status_is_ok(status))
    status = ls_monitored_session_run(session, ls_none(), NULL, 0, &results);
  ls_hook_release(hook);
  return session == NULL ? status : ls_monitored_session_close(session, status);
}

static void hooks_refuse(ls_graph *graph) {
  ls_hook *hook = NULL;
  ls_monitored_session *session = NULL;
  ls_nest out = ls_none();
  REFUSES(hook_made(
      ls_log_hook(&(ls_log_hook_options){.num_values = 1, .at_end = true},
                  &hook),
      hook));
  REFUSES(hook_made(ls_log_hook(&(ls_log_hook_options){.names = no_text,
                                                       .num_values = 1,
                                                       .at_end = true},
                                &hook),
                    hook));
  REFUSES(ls_saver_hook(
      &(ls_saver_hook_options){.folder = "x", .num_variables = 1}, &hook));
  REFUSES(ls_saver_hook(
      &(ls_saver_hook_options){.folder = "x", .num_states = 1}, &hook));
  REFUSES(ls_saver_hook(
      &(ls_saver_hook_options){.folder = "x", .num_listeners = 1}, &hook));
  REFUSES(ls_saver_hooks_add_listeners(NULL, 1, NULL, 0));
  REFUSES(ls_summary_hook(
      &(ls_summary_hook_options){.num_ops = 1, .every_steps = LS_SOME(1)},
      &hook));
  REFUSES(ls_final_ops_hook(ls_none(), NULL, 1, &out, &hook));
  REFUSES(ls_monitored_session_create(
      &(ls_monitored_options){.graph = graph, .num_hooks = 1}, &session));
  REFUSES(ls_monitored_session_create(
      &(ls_monitored_options){.graph = graph, .num_states = 1}, &session));
  ls_scaffold feeds = {.num_init_feeds = 1}, saved = {.num_saved = 1};
  REFUSES(ls_monitored_session_create(
      &(ls_monitored_options){.graph = graph, .scaffold = &feeds}, &session));
  REFUSES(ls_monitored_session_create(
      &(ls_monitored_options){.graph = graph, .scaffold = &saved}, &session));
  expect_ok(ls_hook_create(
      &(ls_hook_options){.before_run = wish_nothing_counted}, &hook));
  REFUSES(run_with(graph, hook));
  expect_ok(ls_feed_hook(feed_nothing, NULL, &hook));
  REFUSES(run_with(graph, hook));
  ls_event_writer *writer = NULL;
  expect_ok(ls_event_writer_open(
      &(ls_event_writer_options){.folder = "bad_lists_test.tmp"}, &writer));
  ls_event_writer_record(NULL, NULL);
  ls_event_writer_record(writer, NULL);
  REFUSES(ls_event_writer_flush(writer));
  ls_event_writer_record(writer, &(ls_summary_record){.tag = "a"});
  REFUSES(ls_event_writer_close(writer));
  assert_int_equal(ls_train_count_steps(NULL, 10, INT64_MAX, 3, 0), 3);
  assert_int_equal(ls_train_count_steps(NULL, INT64_MAX, 1, INT64_MAX, 0),
                   INT64_MAX);
}

static void optimizers_refuse(void) {
  LS_OWN(ls_optimizer, adam) = NULL;
  LS_OWN(ls_variable, variable) = NULL;
  ls_op op;
  expect_ok(ls_adam_create(NULL, &adam));
  const ls_nest gradient = ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "o",
                             .initial_value = ls_scalar(LS_DTYPE_F32, 1)},
      &variable));
  FAILS(ls_op_is_failed(ls_optimizer_apply(adam, NULL, &gradient, 1)));
  FAILS(ls_op_is_failed(ls_optimizer_apply(adam, &variable, NULL, 1)));
  REFUSES(ls_optimizer_apply_across(adam, NULL, &gradient, 1, NULL, &op));
  REFUSES(ls_optimizer_apply_across(adam, &variable, NULL, 1, NULL, &op));
  ls_average *average = NULL;
  REFUSES(ls_average_create(&(ls_average_options){.count = 1}, &average));
  REFUSES(ls_average_create(
      &(ls_average_options){.variables = &(ls_variable *){NULL}, .count = 1},
      &average));
}

// ---- Cores -----------------------------------------------------------------
static ls_status look_up_nothing(void *user, const char *name, const char *zone,
                                 const char *project, ls_tpu_node *out_node) {
  (void)user, (void)name, (void)zone, (void)project;
  *out_node = (ls_tpu_node){.state = "READY", .num_endpoints = 2};
  return ls_ok();
}

static ls_status answer_nothing(void *user, const ls_tpu_question *question,
                                ls_tpu_answer *out_answer) {
  (void)user, (void)question;
  *out_answer = (ls_tpu_answer){.num_devices = 1, .topology_size = 1};
  return ls_ok();
}

static void systems_refuse(void) {
  ls_tpu_resolver *resolver = NULL;
  ls_cluster_spec *spec = NULL;
  ls_master master;
  ls_tpu_metadata *metadata = NULL;
  REFUSES(ls_tpu_resolver_create(&(ls_tpu_resolver_options){.num_names = 1},
                                 &resolver));
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){
          .name = "far", .lookup = look_up_nothing, .query = answer_nothing},
      &resolver));
  REFUSES(ls_tpu_resolver_cluster_spec(resolver, &spec));
  REFUSES(ls_tpu_resolver_master(resolver, NULL, (ls_opt){0}, &master));
  REFUSES(ls_tpu_metadata_query(resolver, true, &metadata));
  ls_tpu_resolver_release(resolver);
  REFUSES(ls_cluster_spec_copy(&(ls_cluster_spec){.num_jobs = 1}, &spec));
  REFUSES(ls_cluster_spec_copy(
      &(ls_cluster_spec){.jobs = &(ls_cluster_job){0}, .num_jobs = 1}, &spec));
  REFUSES(ls_cluster_spec_copy(
      &(ls_cluster_spec){.jobs =
                             &(ls_cluster_job){.name = "w", .num_addresses = 1},
                         .num_jobs = 1},
      &spec));
  REFUSES(ls_cluster_spec_copy(
      &(ls_cluster_spec){.jobs = &(ls_cluster_job){.name = "w",
                                                   .addresses = no_text,
                                                   .num_addresses = 1},
                         .num_jobs = 1},
      &spec));
  LS_OWN(ls_topology, topology) = NULL;
  ls_device_assignment *assignment = NULL;
  LS_OWN(ls_array, places) = NULL;
  static const int32_t mesh[] = {1, 1, 1, 1};
  expect_ok(ls_array_create(LS_DTYPE_I32, LS_SHAPE(1, 1, 4), &places));
  REFUSES(ls_topology_create(NULL, 4, places, &topology));
  REFUSES(ls_topology_create(mesh, 4000, places, &topology));
  expect_ok(ls_topology_create(mesh, 4, places, &topology));
  REFUSES(ls_device_assignment_build(
      topology, &(ls_device_assignment_options){.shape_rank = 4}, &assignment));
  REFUSES(ls_device_assignment_build(
      topology,
      &(ls_device_assignment_options){.shape = mesh, .shape_rank = 4000},
      &assignment));
  REFUSES(ls_device_assignment_build(
      topology,
      &(ls_device_assignment_options){.stride = mesh, .stride_rank = 4000},
      &assignment));
}

static void queues_refuse(ls_strategy *cores) {
  ls_infeed_queue *queue = NULL;
  ls_nest out = ls_none();
  const ls_tensor x = ls_scalar(LS_DTYPE_F32, 2);
  LS_OWN(ls_nest, inputs) = LS_LIST(ls_leaf(ls_reshape(x, LS_SHAPE(1))));
  REFUSES(
      ls_infeed_queue_create(&(ls_infeed_options){.num_dtypes = 1}, &queue));
  REFUSES(
      ls_infeed_queue_create(&(ls_infeed_options){.num_shapes = 1}, &queue));
  REFUSES(ls_infeed_queue_create(&(ls_infeed_options){.num_dimensions = 1},
                                 &queue));
  expect_ok(ls_infeed_queue_create(
      &(ls_infeed_options){.num_elements = LS_SOME(1)}, &queue));
  assert_false(ls_infeed_queue_dimension(queue, 7).set);
  assert_int_equal(ls_infeed_queue_type(queue, 7).dtype, LS_DTYPE_NONE);
  assert_null(ls_infeed_queue_policy(queue, 7));
  ls_infeed_queue_release(queue);
  FAILS(ls_op_is_failed(ls_infeed_dequeue_tuple(NULL, 1)));
  FAILS(ls_op_is_failed(ls_outfeed_enqueue_tuple(NULL, 1)));
  FAILS(ls_op_is_failed(ls_infeed_enqueue_tuple(NULL, 1, NULL, 0, 0)));
  FAILS(ls_op_is_failed(ls_infeed_enqueue_tuple(&x, 1, NULL, 1, 0)));
  FAILS(ls_op_is_failed(ls_outfeed_dequeue_tuple(NULL, 1, 0)));
  FAILS(ls_op_is_failed(ls_outfeed_dequeue_tuple_at(x, NULL, 1)));
  FAILS(ls_tensor_is_failed(ls_split_to_logical_devices(cores, x, NULL, 1)));
  const ls_shard_options shards[] = {{.num_input_axes = 1},
                                     {.num_output_axes = 1},
                                     {.num_outputs_from_all = 1}};
  for (size_t i = 0; i < sizeof(shards) / sizeof(*shards); ++i)
    REFUSES(ls_shard(give_args, NULL, inputs, &shards[i], &out));
  REFUSES(ls_replicate(
      give_args, NULL, ls_none(),
      &(ls_replicate_options){.parameters = &(ls_parameters){.count = 1}},
      &out));
}

// ---- Estimators and exports ------------------------------------------------
static ls_status input_of_nothing(void *user, ls_input_call *call) {
  (void)user, (void)call;
  return ls_ok();
}
static ls_status no_model(void *user, ls_model_call *call,
                          ls_estimator_spec **out_spec) {
  (void)user, (void)call, (void)out_spec;
  return ls_ok();
}
static ls_status receive_nothing(void *user, ls_serving_receiver *out) {
  (void)user, (void)out;
  return ls_ok();
}

static void estimators_refuse(void) {
  LS_OWN(ls_run_config, config) = NULL;
  ls_run_config *other = NULL;
  LS_OWN(ls_estimator, estimator) = NULL;
  expect_ok(ls_tpu_run_config_create(
      &(ls_run_config_options){.model_dir = "bad_lists_test.tmp.model"},
      &config));
  const ls_run_config_options values = {0};
  REFUSES(ls_run_config_replace(config, NULL, 1, &values, &other));
  REFUSES(ls_run_config_replace(config, no_text, 1, &values, &other));
  REFUSES(ls_estimator_create(
      &(ls_estimator_options){.model_fn = {.call = no_model},
                              .config = config,
                              .num_batch_axes = 1},
      &estimator));
  expect_ok(ls_estimator_create(
      &(ls_estimator_options){.model_fn = {.call = no_model},
                              .config = config,
                              .train_batch_size = LS_SOME(8)},
      &estimator));
  (void)input_of_nothing;
  const ls_estimator_training trainings[] = {{.num_hooks = 1},
                                             {.num_listeners = 1}};
  for (size_t i = 0; i < 2; ++i)
    REFUSES(ls_estimator_train(estimator, &trainings[i], NULL));
  ls_nest metrics = ls_none();
  REFUSES(ls_estimator_evaluate(
      estimator, &(ls_estimator_evaluation){.num_hooks = 1}, &metrics));
  ls_predictions *predictions = NULL;
  const ls_estimator_prediction asked[] = {
      {.num_hooks = 1}, {.num_keys = 1}, {.keys = no_text, .num_keys = 1}};
  for (size_t i = 0; i < 3; ++i)
    REFUSES(ls_estimator_predict(estimator, &asked[i], &predictions));
  char *path = NULL;
  REFUSES(ls_estimator_export(
      estimator,
      &(ls_estimator_exporting){.base = "bad_lists_test.tmp",
                                .receiver = {.call = receive_nothing},
                                .num_assets = 1},
      &path));
  ls_exporter *exporter = NULL;
  REFUSES(ls_exporter_create(
      &(ls_exporter_options){
          .name = "e", .receiver = {.call = receive_nothing}, .num_assets = 1},
      &exporter));
  ls_export_output output = {.key = "k"};
  ls_estimator_spec *spec = NULL;
  const ls_estimator_spec_options specs[] = {
      {.mode = LS_MODE_PREDICT, .num_export_outputs = 1},
      {.mode = LS_MODE_PREDICT, .num_prediction_hooks = 1},
      {.mode = LS_MODE_PREDICT, .num_training_hooks = 1},
      {.mode = LS_MODE_PREDICT, .num_evaluation_hooks = 1},
      {.mode = LS_MODE_PREDICT, .num_training_chief_hooks = 1},
      {.mode = LS_MODE_PREDICT, .cache_size = 1},
      {.mode = LS_MODE_PREDICT,
       .export_outputs = &(ls_export_output){.key = NULL},
       .num_export_outputs = 1}};
  for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); ++i) {
    ls_estimator_spec_options tried = specs[i];
    tried.predictions = ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
    REFUSES(ls_tpu_estimator_spec_create(&tried, &spec));
    REFUSES(ls_estimator_spec_create(&tried, &spec));
  }
  (void)output;
  REFUSES(ls_train_and_evaluate(
      estimator, &(ls_train_spec){.input = {.call = NULL}, .num_hooks = 1},
      &(ls_eval_spec){0}, NULL));
  const ls_serving_options exports[] = {
      {.base = "x", .num_graphs = 1},
      {.base = "x", .num_assets = 1},
      {.base = "x", .graphs = &(ls_serving_graph){0}, .num_graphs = 1},
      {.base = "x",
       .graphs =
           &(ls_serving_graph){.graph = ls_graph_current(), .num_tags = 1},
       .num_graphs = 1},
      {.base = "x",
       .graphs = &(ls_serving_graph){.graph = ls_graph_current(),
                                     .tags = no_text,
                                     .num_tags = 1},
       .num_graphs = 1},
      {.base = "x",
       .graphs = &(ls_serving_graph){.graph = ls_graph_current(),
                                     .num_signatures = 1},
       .num_graphs = 1},
      {.base = "x",
       .graphs =
           &(ls_serving_graph){
               .graph = ls_graph_current(),
               .signatures = &(ls_serving_signature){.output = {.key = NULL}},
               .num_signatures = 1},
       .num_graphs = 1},
      {.base = "x", .assets = &(ls_serving_asset){0}, .num_assets = 1}};
  for (size_t i = 0; i < sizeof(exports) / sizeof(*exports); ++i)
    REFUSES(ls_serving_export(&exports[i], &path));
  ls_serving *serving = NULL;
  const ls_serving_load_options loads[] = {
      {.num_tags = 1}, {.tags = no_text, .num_tags = 1}, {.num_kernels = 1}};
  for (size_t i = 0; i < 3; ++i)
    REFUSES(ls_serving_load("x", &loads[i], &serving));
}

// ---- Settings --------------------------------------------------------------
TEST(lists_of_nothing_are_refused) {
  counted c = counted_begin(1);
  ls_strategy *cores = tpu_strategy_of(2);
  ls_strategy *strategy = mirrored_of(2);
  data_sets_refuse();
  strategies_refuse(strategy);
  strategies_refuse(cores);
  savers_refuse();
  systems_refuse();
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    ops_refuse();
    strategies_refuse(strategy);
    strategies_refuse(cores);
    optimizers_refuse();
    queues_refuse(cores);
    estimators_refuse();
    ls_status_free(ls_graph_take_error(graph));
    hooks_refuse(graph);
  }
  ls_graph_destroy(graph);
  ls_strategy_release(strategy);
  ls_strategy_release(cores);
  counted_end(&c);
  assert_int_equal(taken, 0);
}
