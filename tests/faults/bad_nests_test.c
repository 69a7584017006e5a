// SPDX-License-Identifier: Apache-2.0
//
// Nests that no constructor gives, put together by hand or by a caller without
// memory: leaves and nodes that refer to nothing, handles without a graph.
// Every call that takes a nest has an answer.
#include "distribute/own.h"
#include "lockstep/full.h"
#include "support/callbacks.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/read_all.h"
#include "support/tpu_strategies.h"
#include "tpu/steps/steps.h"

typedef struct setting {
  ls_nest bad;
  bool must_refuse;
  ls_strategy *strategy;
  ls_function *function;
  ls_variable *variable;  // Of the strategy.
  ls_tensor x;
  ls_optimizer *optimizer;
  ls_cross_device *reducer;
  ls_infeed_queue *queue;
  ls_step_context *context;
} setting;

static int taken;  // Calls that were to refuse, and did not.

static void check(const setting *s, const char *call, ls_status status,
                  ls_nest out) {
  char text[200];
  if (s->must_refuse && ls_status_is_ok(status)) {
    print_error("%s takes %s of kind %d\n", call,
                ls_nest_print(s->bad, text, sizeof(text)), (int)s->bad.kind);
    ++taken;
  }
  ls_status_free(status);
  ls_nest_release(out);
}

#define REFUSES(call)                                                          \
  do {                                                                         \
    out = ls_none();                                                           \
    const ls_status status_ = (call);                                          \
    check(s, #call, status_, out);                                             \
  } while (0)
// Gives a nest: a failed one, or one that stands for the graph's first error.
#define FAILS(call)                                                            \
  do {                                                                         \
    const ls_nest made_ = (call);                                              \
    check(s, #call,                                                            \
          ls_status_join(ls_nest_status(made_),                                \
                         ls_graph_take_error(ls_graph_current())),             \
          made_);                                                              \
  } while (0)

static ls_nest give_bad(ls_nest args, void *user) {
  (void)args;
  return *(const ls_nest *)user;
}
static ls_nest no_map(ls_nest leaf, void *user) {
  (void)user;
  return ls_nest_retain(leaf);
}
static ls_nest yes(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_leaf(ls_scalar_i64(LS_DTYPE_BOOL, 1));
}
static ls_nest give_bad_gradient(ls_nest inputs, ls_nest outputs,
                                 ls_nest gradients, void *user) {
  (void)inputs, (void)outputs, (void)gradients;
  return *(const ls_nest *)user;
}

// ---- Trees -----------------------------------------------------------------
static void nests_refuse(const setting *s) {
  ls_nest out = ls_none();
  ls_nest leaves[4];
  char text[64];
  const ls_nest bad = s->bad;
  FAILS(LS_LIST(bad));
  FAILS(LS_TUPLE(ls_none(), bad));
  FAILS(ls_nest_dict("", &(const char *){"a"}, &bad, 1));
  FAILS(ls_nest_distributed(LS_PER_REPLICA, &bad, 1));
  FAILS(ls_nest_slices(bad, s->x, s->x));
  REFUSES(ls_nest_status(bad));
  (void)ls_nest_flatten(bad, leaves, 4);
  ls_nest_release(ls_nest_pack(bad, NULL, 0));
  leaves[0] = ls_none();
  ls_nest_release(ls_nest_pack(bad, leaves, 1));
  ls_nest_release(ls_nest_map(bad, no_map, NULL));
  ls_status_free(ls_nest_same_structure(bad, bad));
  ls_status_free(ls_nest_same_structure(bad, ls_none()));
  (void)ls_nest_is_same(bad, bad);
  (void)ls_nest_count(bad);
  (void)ls_nest_key(bad, 0);
  (void)ls_nest_find(bad, "a");
  (void)ls_nest_tensor(bad, 0);
  (void)ls_nest_data(bad, 0);
  (void)ls_nest_number(bad);
  (void)ls_nest_as_variable(bad);
  (void)ls_nest_as_array(bad);
  (void)ls_nest_as_dataset(bad);
  (void)ls_nest_print(bad, text, sizeof(text));
  ls_nest_release(ls_nest_retain(bad));
}

// ---- Graphs and runs -------------------------------------------------------
static void graphs_refuse(const setting *s) {
  const ls_nest bad = s->bad;
  ls_nest out = ls_none();
  ls_function *made = NULL;
  (void)out;
  FAILS(ls_while(yes, give_args, NULL, bad, 3));
  FAILS(ls_step_while(yes, give_args, NULL, bad, 3));
  FAILS(ls_while(yes, give_bad, (void *)(uintptr_t)&bad, ls_leaf(s->x), 3));
  FAILS(ls_cond(ls_scalar_i64(LS_DTYPE_BOOL, 1), give_bad, give_bad,
                (void *)(uintptr_t)&bad));
  FAILS(ls_barrier(bad));
  FAILS(ls_custom_gradient(give_args, keep_gradients, NULL, bad));
  FAILS(ls_custom_gradient(give_bad, keep_gradients, (void *)(uintptr_t)&bad,
                           ls_leaf(s->x)));
  REFUSES(ls_function_call(s->function, bad, &out));
  REFUSES(ls_function_call_named(s->function, bad, ls_none(), &out));
  REFUSES(ls_function_call_named(s->function, ls_none(), bad, &out));
  REFUSES(ls_function_make_concrete(s->function, bad, &made));
  ls_function_release(made);
  FAILS(ls_nest_to_dense(bad, 0, NULL));
  ls_nest_release(ls_nest_components(bad));
  (void)ls_nest_has_slices(bad);
  ls_tensor loss = ls_reduce_sum(s->x, LS_ALL_AXES);
  const ls_nest y = ls_leaf(loss), x = ls_leaf(s->x);
  REFUSES(ls_gradients(&bad, 1, &x, 1, NULL, &out));
  REFUSES(ls_gradients(&y, 1, &bad, 1, NULL, &out));
  REFUSES(ls_gradients(
      &y, 1, &x, 1, &(ls_gradient_options){.grad_ys = &bad, .num_grad_ys = 1},
      &out));
  ls_status_free(ls_graph_take_error(ls_graph_current()));
  ls_status_free(ls_graph_add_to_collection(ls_graph_current(), "c", bad));
}

// A function whose callback gives it.
static void callbacks_refuse(const setting *s) {
  ls_nest out = ls_none(), bad = s->bad;
  LS_OWN(ls_nest, none) = LS_TUPLE();
  ls_function *gives = unnamed_function(give_bad, &bad);
  REFUSES(ls_function_call(gives, ls_none(), &out));
  REFUSES(ls_strategy_run(s->strategy, ls_traced(gives), ls_none(), &out));
  ls_function_release(gives);
  REFUSES(ls_strategy_call_for_each_replica(s->strategy, give_bad, ls_none(),
                                            &bad, &out));
  REFUSES(ls_strategy_update(s->strategy, s->variable, give_bad, none, &bad,
                             false, &out));
  if (ls_graph_is_eager(ls_graph_current())) return;
  LS_OWN(ls_nest, y) =
      ls_custom_gradient(give_args, give_bad_gradient, &bad, ls_leaf(s->x));
  const ls_nest x = ls_leaf(s->x);
  REFUSES(ls_gradients(&y, 1, &x, 1, NULL, &out));
}

// ---- Strategies ------------------------------------------------------------
static void strategies_refuse(const setting *s) {
  const ls_nest bad = s->bad;
  ls_nest out = ls_none();
  ls_tensor tensor;
  ls_op op;
  double mean;
  const ls_destinations here = {0};
  REFUSES(ls_strategy_run(s->strategy, ls_traced(s->function), bad, &out));
  REFUSES(ls_strategy_call_for_each_replica(s->strategy, give_args, bad, NULL,
                                            &out));
  REFUSES(ls_strategy_reduce(s->strategy, LS_REDUCE_SUM, bad, &out));
  REFUSES(ls_strategy_reduce_to(s->strategy, LS_REDUCE_SUM, bad, here, &out));
  REFUSES(ls_strategy_batch_reduce_to(s->strategy, LS_REDUCE_SUM, &bad, &here,
                                      1, &out));
  REFUSES(ls_strategy_broadcast_to(s->strategy, bad, here, &out));
  REFUSES(ls_strategy_gather(s->strategy, bad, 0, &out));
  REFUSES(ls_strategy_unwrap(s->strategy, bad, &out));
  REFUSES(ls_strategy_local_results(s->strategy, bad, &out));
  REFUSES(ls_strategy_replica_result(s->strategy, bad, 0, &out));
  REFUSES(ls_strategy_group(s->strategy, bad, NULL, &op));
  REFUSES(ls_strategy_fetch(s->strategy, bad, NULL, NULL, NULL, &out));
  REFUSES(ls_strategy_update(s->strategy, s->variable, give_args, bad, NULL,
                             false, &out));
  REFUSES(
      ls_strategy_map(s->strategy, &bad, 1, give_args, ls_none(), NULL, &out));
  REFUSES(ls_strategy_distribute_dataset(s->strategy, bad, &out));
  REFUSES(ls_validate_colocate(bad, s->strategy));
  REFUSES(ls_validate_colocate_distributed_variable(bad, s->strategy));
  REFUSES(ls_distributed_get(bad, NULL, &out));
  REFUSES(ls_distributed_as_tensor(bad, &tensor));
  REFUSES(ls_distributed_as_tensor_of(bad, LS_DTYPE_F32, &tensor));
  REFUSES(ls_distributed_map(bad, no_map, NULL, &out));
  REFUSES(ls_variable_write(s->variable, LS_WRITE_ASSIGN, bad, NULL, &out));
  REFUSES(ls_regroup(&bad, 1, NULL, &out));
  REFUSES(ls_select_replica(0, bad, &out));
  REFUSES(ls_select_replica_mirrored(0, bad, &out));
  REFUSES(ls_assert_mirrored(bad));
  REFUSES(ls_update_regroup(s->strategy, &bad, 1, true, &out));
  REFUSES(ls_cross_device_reduce(s->reducer, LS_REDUCE_SUM, bad, here, &out));
  REFUSES(ls_cross_device_broadcast(s->reducer, bad, here, &out));
  REFUSES(ls_cross_device_gather(s->reducer, bad, 0, here, &out));
  REFUSES(ls_packed_variable_create("p", &bad, 1, &(ls_variable *){NULL}));
  REFUSES(ls_train_split(s->strategy, bad, &out));
  REFUSES(ls_train_mean(ls_none(), bad, &mean));
  (void)ls_distributed_count(bad);
  (void)ls_distributed_component(bad, 0);
  (void)ls_distributed_device(bad, 0);
  (void)ls_distributed_is_on(bad, "/device:CPU:0");
  (void)ls_is_distributed_variable(bad);
  (void)ls_is_distributed_table(bad);
  (void)ls_is_mirrored(bad);
  (void)ls_is_sync_on_read(bad);
  (void)ls_value_container(bad);
  (void)ls_strategy_value_container(s->strategy, bad);
  (void)ls_distributed_dataset_cardinality(bad);
  (void)ls_distributed_dataset_placement(bad, 0);
  REFUSES(ls_distributed_dataset_spec(bad, &out));
  LS_COLOCATE_VARIABLES_SCOPE(s->strategy, bad);
}

// ---- Data ------------------------------------------------------------------
static ls_nest map_to_bad(ls_nest element, const ls_map_call *call,
                          void *user) {
  (void)element, (void)call;
  return *(const ls_nest *)user;
}
static ls_nest make_bad(void *user, int64_t index) {
  (void)index;
  return *(const ls_nest *)user;
}
static ls_status open_bad(void *user, int64_t epoch, void **out_state) {
  (void)epoch;
  *out_state = user;
  return ls_ok();
}
static ls_status next_bad(void *state, ls_nest *out_element) {
  *out_element = *(const ls_nest *)state;
  return ls_ok();
}
static ls_dataset *give_range(ls_nest element, const ls_map_call *call,
                              void *user) {
  (void)element, (void)call, (void)user;
  return ls_dataset_range(0, 3, 1);
}
static ls_nest give_bad_input(ls_input_context context, void *user) {
  (void)context;
  return *(const ls_nest *)user;
}
static ls_nest give_bad_next(void *user) { return *(const ls_nest *)user; }

static void data_sets_refuse(const setting *s) {
  ls_nest bad = s->bad, out = ls_none();
  LS_OWN(ls_nest, number) = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR);
  ls_leaf_spec spec;
  (void)out;
  REFUSES(ls_nest_leaf_spec(bad, &spec));
  REFUSES(first_element(ls_dataset_from_arrays(bad)));
  REFUSES(first_element(ls_dataset_zip(bad)));
  REFUSES(first_element(ls_dataset_from_function(&(ls_index_options){
      .size = 3, .element = bad, .make = make_bad, .user = &bad})));
  REFUSES(first_element(ls_dataset_from_function(
      &(ls_index_options){.size = 3,
                          .element = ls_nest_retain(number),
                          .make = make_bad,
                          .user = &bad})));
  REFUSES(first_element(
      ls_dataset_map(ls_dataset_range(0, 3, 1),
                     &(ls_map_options){.call = map_to_bad, .user = &bad})));
  REFUSES(first_element(
      ls_dataset_map(ls_dataset_range(0, 3, 1),
                     &(ls_map_options){.call = map_to_bad,
                                       .user = &bad,
                                       .result = ls_nest_retain(number)})));
  if (bad.kind != LS_KIND_NONE)
    REFUSES(first_element(ls_dataset_map(
        ls_dataset_range(0, 3, 1),
        &(ls_map_options){.call = map_to_bad, .user = &bad, .result = bad})));
  REFUSES(first_element(ls_dataset_from_generator(
      &(ls_generator_options){.element = ls_nest_retain(number),
                              .open = open_bad,
                              .next = next_bad,
                              .user = &bad})));
  REFUSES(first_element(ls_dataset_from_generator(&(ls_generator_options){
      .element = bad, .open = open_bad, .next = next_bad, .user = &bad})));
  REFUSES(first_element(ls_dataset_flat_map(
      ls_dataset_range(0, 3, 1),
      &(ls_flat_options){.call = give_range, .result = bad})));
  REFUSES(ls_strategy_distribute_datasets_from_function(
      s->strategy, give_bad_input, &bad, &out));
  FAILS(ls_nest_input_callable(bad, give_bad_next, &bad, NULL));
  REFUSES(ls_npz_write("/nowhere/x.npz", bad, LS_FLAG_OFF));
}

// ---- Cores -----------------------------------------------------------------
static void computations_refuse(const setting *s) {
  ls_nest bad = s->bad, out = ls_none();
  ls_tensor compiled;
  const ls_training_loop loop = {.body = give_args, .condition = yes},
                         gives = {
                             .body = give_bad, .condition = yes, .user = &bad};
  LS_OWN(ls_nest, list) = LS_LIST(LS_LIST(ls_leaf(s->x)));
  REFUSES(ls_replicate(give_args, NULL, bad, NULL, &out));
  REFUSES(ls_replicate(give_bad, &bad, list, NULL, &out));
  REFUSES(ls_split_compile_and_replicate(give_args, NULL, bad, NULL, &compiled,
                                         &out));
  REFUSES(ls_shard(give_args, NULL, bad, NULL, &out));
  REFUSES(ls_batch_parallel(give_args, NULL, bad, 1, NULL, &out));
  REFUSES(ls_rewrite(give_args, NULL, bad, NULL, &out));
  REFUSES(ls_rewrite(give_bad, &bad, ls_none(), NULL, &out));
  REFUSES(ls_rewrite_for_inference(give_args, NULL, bad, NULL, &out));
  REFUSES(ls_training_while(&loop, bad, &out));
  REFUSES(ls_training_repeat(2, &loop, bad, &out));
  REFUSES(ls_training_repeat(2, &gives, ls_none(), &out));
  FAILS(ls_outside_compilation(give_args, NULL, bad));
  FAILS(ls_map_outside_compilation(give_args, NULL, bad));
  REFUSES(ls_infeed_put("/device:TPU:0", bad));
  REFUSES(ls_infeed_queue_configure_from(s->queue, bad));
  REFUSES(ls_infeed_queue_configure_from_shards(s->queue, bad));
  REFUSES(ls_infeed_queue_enqueue(s->queue, bad, NULL, &out));
  REFUSES(ls_infeed_queue_split_and_enqueue(s->queue, bad, NULL, &out));
  REFUSES(ls_tpu_read_variable(bad, &compiled));
  REFUSES(ls_replicated_variable_create("r", &bad, 1, &(ls_variable *){NULL}));
}

static ls_nest step_gives(ls_step_context *context, ls_nest inputs,
                          void *user) {
  (void)context, (void)inputs;
  return *(const ls_nest *)user;
}

static ls_nest step_sets(ls_step_context *context, ls_nest inputs, void *user) {
  const setting *s = user;
  ls_nest out = ls_none();
  (void)inputs, (void)out;
  REFUSES(ls_step_context_set_outputs(context, s->bad));
  ls_status_free(ls_step_context_set_output(context, "a", s->bad, (ls_opt){0}));
  ls_status_free(ls_step_context_set_non_tensor_output(context, "b", s->bad));
  return ls_none();
}

static void steps_refuse(const setting *s) {
  ls_nest bad = s->bad, out = ls_none();
  ls_nest data = ls_none();
  LS_OWN(ls_distributed_iterator, iterator) = NULL;
  LS_OWN(ls_step_context, context) = NULL;
  ls_dataset *numbers = ls_dataset_batch(ls_dataset_range(0, 8, 1),
                                         &(ls_batch_options){.size = 4});
  LS_OWN(ls_nest, leaf) = ls_nest_dataset(numbers);
  expect_ok(ls_strategy_distribute_dataset(s->strategy, leaf, &data));
  expect_ok(ls_distributed_iterator_create(
      data, &(ls_distributed_iterator_options){.kind = LS_ITERATOR_ONE_SHOT},
      &iterator));
  ls_nest_release(data);
  data = ls_none();
  REFUSES(ls_strategy_run_steps(
      s->strategy,
      &(ls_steps){.fn = step_gives, .user = &bad, .iterator = iterator},
      &context));
  ls_step_context_release(context);
  context = NULL;
  ls_status_free(ls_strategy_run_steps(s->strategy,
                                       &(ls_steps){.fn = step_sets,
                                                   .user = (void *)(uintptr_t)s,
                                                   .iterator = iterator},
                                       &context));
  ls_step_context_release(context);
  context = NULL;
  ls_status_free(ls_strategy_run_steps(s->strategy,
                                       &(ls_steps){.fn = step_gives,
                                                   .user = &data,
                                                   .iterator = iterator,
                                                   .iterations = LS_SOME(2),
                                                   .initial = bad},
                                       &context));
}

static void all_refuse(setting *s) {
  nests_refuse(s);
  graphs_refuse(s);
  callbacks_refuse(s);
  strategies_refuse(s);
  data_sets_refuse(s);
}

// ---- Settings --------------------------------------------------------------
static ls_variable *variable_of(ls_strategy *strategy) {
  ls_variable *variable = NULL;
  LS_STRATEGY_SCOPE(strategy);
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "v",
                             .initial_value = ls_scalar(LS_DTYPE_F32, 1)},
      &variable));
  return variable;
}

static void every_call_of_answers(bool on_cores, ls_nest bad,
                                  bool must_refuse) {
  setting s = {.bad = bad, .must_refuse = must_refuse};
  counted c = counted_begin(1);
  if (on_cores)
    s.strategy = tpu_strategy_of(2);
  else
    expect_ok(ls_mirrored_strategy_create(
        &(ls_mirrored_options){.num_replicas = LS_SOME(2)}, &s.strategy));
  expect_ok(ls_function_create(&(ls_function_options){.call = give_args},
                               &s.function));
  expect_ok(ls_reduce_to_one_create(NULL, &s.reducer));
  expect_ok(ls_infeed_queue_create(
      &(ls_infeed_options){.num_elements = LS_SOME(1)}, &s.queue));
  s.variable = variable_of(s.strategy);
  s.x = ls_scalar(LS_DTYPE_F32, 2);
  all_refuse(&s);
  ls_variable_release(s.variable);
  ls_graph *graph = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    s.variable = variable_of(s.strategy);
    s.x = ls_scalar(LS_DTYPE_F32, 2);
    all_refuse(&s);
    computations_refuse(&s);
    steps_refuse(&s);
    ls_nest out = ls_none();
    ls_status_free(ls_graph_take_error(graph));
    ls_session *session = session_of(graph);
    const ls_status status = ls_session_run(session, bad, NULL, 0, &out);
    check(&s, "ls_session_run", status, out);
    ls_session_destroy(session);
    ls_variable_release(s.variable);
  }
  ls_graph_destroy(graph);
  ls_infeed_queue_release(s.queue);
  ls_cross_device_release(s.reducer);
  ls_function_release(s.function);
  ls_strategy_release(s.strategy);
  counted_end(&c);
  assert_int_equal(taken, 0);
}

static void every_call_answers(ls_nest bad, bool must_refuse) {
  every_call_of_answers(false, bad, must_refuse);
  every_call_of_answers(true, bad, must_refuse);
}

TEST(leaves_that_refer_to_nothing_are_refused) {
  static const ls_kind kinds[] = {LS_KIND_ARRAY,       LS_KIND_VARIABLE,
                                  LS_KIND_DISTRIBUTED, LS_KIND_SLICES,
                                  LS_KIND_OBJECT,      LS_KIND_FAILED};
  for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); ++i)
    every_call_answers((ls_nest){.kind = kinds[i]}, true);
}

TEST(nodes_that_refer_to_nothing_are_refused) {
  for (ls_kind kind = LS_KIND_LIST; kind <= LS_KIND_DICT; ++kind)
    every_call_answers((ls_nest){.kind = kind}, true);
}

// Some calls take a failed tensor or op for nothing: none may crash.
TEST(handles_without_a_graph_have_an_answer) {
  every_call_answers(ls_leaf((ls_tensor){NULL, 5 << LS_TENSOR_OUTPUT_BITS}),
                     false);
  every_call_answers(ls_leaf((ls_tensor){0}), false);
  every_call_answers(ls_nest_op((ls_op){NULL, 5}), false);
  every_call_answers(ls_nest_op((ls_op){0}), false);
}
