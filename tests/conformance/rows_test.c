// SPDX-License-Identifier: Apache-2.0
//
// One example's bits are the same whatever the batch it is in (ruling 57): for
// every op with rows, for models that predict, train and serve, at any place in
// batches of many sizes. Batch statistics while training, and sums over
// examples, are no example's own.
#include <stdio.h>
#include <string.h>

#include "lockstep/full.h"
#include "nn/own.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/memory_files.h"
#include "support/op_case.h"
#include "support/sanitizer.h"
#include "support/small_models.h"

enum { MOST_RESULTS = 16, TRIALS = 4, MOST_VARIABLES = 64 };

// The first is what the others are held against.
static const int64_t sizes[] = {1, 2, 3, 7, 8, 16, 33, 64, 100, 129};

// ---- Batches ---------------------------------------------------------------
// Where the example is in a batch: first, in the middle and last.
static bool is_example(int64_t row, int64_t batch) {
  return row == 0 || row == batch / 2 || row == batch - 1;
}

// `batch` rows like those of `from`: its first one at the example's places, and
// elsewhere others made of its elements.
static ls_array *batch_of(const ls_array *from, int64_t batch) {
  ls_shape shape = ls_array_shape(from);
  const int64_t total = ls_array_num_elements(from);
  const int64_t width = total / shape.dim[0];
  const size_t size = ls_array_size(from) / (size_t)total;
  ls_array *made = NULL;
  shape.dim[0] = batch;
  expect_ok(ls_array_create(ls_array_dtype(from), shape, &made));
  const char *source = ls_array_data(from);
  char *at = ls_array_mutable_data(made);
  for (int64_t i = 0; i < batch; ++i)
    for (int64_t k = 0; k < width; ++k, at += size) {
      const int64_t other = (i * 13 + k + 1) % total;
      memcpy(at, source + (size_t)(is_example(i, batch) ? k : other) * size,
             size);
    }
  return made;
}

// Row by row: the example's rows of `got` are the one of `want`.
static void expect_example(const char *name, const ls_array *want,
                           const ls_array *got, int64_t batch) {
  const size_t size = ls_array_size(want);
  assert_int_equal(ls_array_size(got), size * (size_t)batch);
  const char *rows = ls_array_data(got);
  for (int64_t i = 0; i < batch; ++i)
    if (is_example(i, batch) &&
        memcmp(rows + (size_t)i * size, ls_array_data(want), size) != 0)
      fail_msg("%s: row %lld of %lld has other bits than it has alone", name,
               (long long)i, (long long)batch);
}

// ---- Ops -------------------------------------------------------------------
// Whether operand `i` is rows, as the op's traits say.
static bool is_rows(const trial *t, size_t i) {
  const unsigned traits = ls_op_table[t->row->op].traits;
  const ls_shape shape = ls_array_shape(t->operand[i]);
  if (shape.rank < 1) return false;
  int32_t most = 0;
  for (size_t k = 0; k < t->count; ++k)
    if (ls_array_shape(t->operand[k]).rank > most)
      most = ls_array_shape(t->operand[k]).rank;
  if ((traits & LS_OP_SIZED) != 0 && i >= ls_op_most(&ls_op_table[t->row->op]))
    return true;  // Lends the result's sizes.
  switch (traits & LS_OP_ALL_ROWS) {
  case LS_OP_ROWS:
  case LS_OP_ROWS_IF_KEPT:
    return true;
  case LS_OP_LINES:  // One alone is no row.
    return most > 1;
  case LS_OP_ROWS_OF_FIRST:
    return i == 0;
  case LS_OP_LINES_OF_FIRST:
    return i == 0 && most > 1;
  case LS_OP_ROWS_BUT_LAST:
    return i + 1 < t->count;
  case LS_OP_ROWS_OF_INDICES:
    return i == 1;
  case LS_OP_ROWS_OF_PRODUCT:
    return shape.rank > 1 && (i == 0 || (i == 1 && shape.rank > 2));
  default:  // Elementwise, unless it repeats.
    return (traits & LS_OP_ELEMENTWISE) != 0 && shape.rank == most;
  }
}

static bool has_rows(uint16_t op) {
  const unsigned traits = ls_op_table[op].traits;
  const unsigned rows = traits & LS_OP_ALL_ROWS;
  if ((traits & (LS_OP_RANDOM | LS_OP_EFFECT)) != 0) return false;
  return rows != 0 ? rows != LS_OP_WHOLE : (traits & LS_OP_ELEMENTWISE) != 0;
}

static ls_nest make(ls_nest args, void *user) {
  ls_tensor xs[TRIAL_OPERANDS];
  for (size_t i = 0; i < ls_nest_count(args); ++i)
    xs[i] = ls_nest_tensor(args, i);
  return trial_make(user, xs);
}

// The op's results for a batch of so many rows; none where they do not go
// together, such as a product whose rows are summed. `now` is the trial that
// the function is traced by: cases look at their operands' sizes.
static ls_nest run_op(const trial *t, trial *now, ls_function *function,
                      int64_t batch) {
  ls_nest leaves[TRIAL_OPERANDS], results = ls_none();
  for (size_t i = 0; i < t->count; ++i) {
    now->operand[i] = is_rows(t, i) ? batch_of(t->operand[i], batch)
                                    : ls_array_retain(t->operand[i]);
    leaves[i] = ls_nest_array(now->operand[i]);
  }
  LS_OWN(ls_nest, args) = ls_nest_sequence(LS_KIND_LIST, leaves, t->count);
  const ls_status status = ls_function_call(function, args, &results);
  if (ls_status_is_ok(status)) return results;
  ls_status_free(status);
  return ls_none();
}

// Compares the results that are rows; false: there is none.
static bool compare_results(const trial *t, ls_nest want, ls_nest got,
                            int64_t batch) {
  ls_nest a[MOST_RESULTS], b[MOST_RESULTS];
  const size_t count = ls_nest_flatten(want, a, MOST_RESULTS);
  bool any = false;
  if (ls_nest_flatten(got, b, MOST_RESULTS) != count) return false;
  for (size_t i = 0; i < count; ++i) {
    const ls_array *one = ls_nest_as_array(a[i]), *all = ls_nest_as_array(b[i]);
    if (one == NULL || all == NULL) continue;
    const ls_shape single = ls_array_shape(one), shape = ls_array_shape(all);
    if (shape.rank < 1 || single.dim[0] != 1 || shape.dim[0] != batch) continue;
    expect_example(ls_op_table[t->row->op].name, one, all, batch);
    any = true;
  }
  return any;
}

// Whether there is an example in the trial's operands.
static bool can_batch(const trial *t) {
  int64_t rows = 0;
  if (t->variable != NULL) return false;
  for (size_t i = 0; i < t->count; ++i) {
    if (!is_rows(t, i)) continue;
    const ls_array *x = t->operand[i];
    if (ls_array_num_elements(x) == 0) return false;
    if (rows != 0 && ls_array_shape(x).dim[0] != rows) return false;
    rows = ls_array_shape(x).dim[0];
  }
  return rows > 0;
}

static bool check_trial(trial *t) {
  bool any = false;
  trial now = *t;
  if (!can_batch(t)) return false;
  LS_OWN(ls_function, function) = unnamed_function(make, &now);
  LS_OWN(ls_nest, want) = run_op(t, &now, function, sizes[0]);
  for (size_t s = 1; s < LS_COUNT_OF(sizes); ++s) {
    LS_OWN(ls_nest, got) = want.kind == LS_KIND_NONE
                               ? ls_none()
                               : run_op(t, &now, function, sizes[s]);
    any = compare_results(t, want, got, sizes[s]) || any;
    if (!any) break;
  }
  return any;
}

// Makes every third number of floats a denormal.
static void add_denormals(trial *t) {
  for (size_t i = 0; i < t->count; ++i) {
    if (ls_array_dtype(t->operand[i]) != LS_DTYPE_F32) continue;
    float *x = ls_array_mutable_data(t->operand[i]);
    for (int64_t k = 0; k < ls_array_num_elements(t->operand[i]); k += 3)
      x[k] = k % 2 == 0 ? 1e-39F : -1e-39F;
  }
}

// Whether an example of the op has been compared.
static bool check_op(uint16_t op) {
  bool any = false;
  for (size_t i = 0; op_case_tables[i] != NULL; ++i)
    for (const op_case *row = op_case_tables[i]; row->dtypes != 0; ++row) {
      loop_random random = {op};
      const ls_dtype dtype =
          row->dtypes & DTYPE(F32) ? LS_DTYPE_F32 : LS_DTYPE_I32;
      if (row->op != op || (row->dtypes & 1U << dtype) == 0) continue;
      for (int round = 0; round < 4 * TRIALS; ++round) {
        trial t;
        trial_init(&t, row, dtype, 2 * round, &random);
        if (round % 2 != 0) add_denormals(&t);
        const bool compared = check_trial(&t);
        trial_deinit(&t);
        any = any || compared;
        if (any && round + 1 >= TRIALS) break;
      }
    }
  return any;
}

// What gives its operand computes nothing.
static bool gives_its_operand(uint16_t op) {
  return op == LS_OP_GUARANTEE_CONST || op == LS_OP_SHARDING;
}

TEST(every_op_with_rows_keeps_an_examples_bits) {
  int missing = 0;
  for (uint16_t op = LS_OP_NONE + 1; op < LS_OP_COUNT; ++op) {
    if (!has_rows(op) || gives_its_operand(op) || check_op(op)) continue;
    print_error("op %s has rows, and no case compares them\n",
                ls_op_table[op].name);
    ++missing;
  }
  assert_int_equal(missing, 0);
}

// ---- Models ----------------------------------------------------------------
typedef struct net {
  const ls_model_type *type;
  ls_model model;
  ls_array *examples, *labels;  // Of which one is followed.
  ls_nest want;                 // Its logits alone.
  char name[60];
} net;

static ls_nest predict(ls_nest args, void *user) {
  const net *n = user;
  return n->type->logits(args, n->model.self);
}

// A step that gives what the model said before it moved.
static ls_nest train(ls_nest args, void *user) {
  const net *n = user;
  const ls_nest logits = n->type->logits(args, n->model.self);
  const ls_tensor labels = ls_nest_tensor(args, 1);
  const ls_tensor loss =
      ls_mean_softmax_cross_entropy(ls_nest_tensor(logits, 0), labels);
  ls_optimizer_minimize(n->type->optimizer(n->model.self), loss);
  return logits;
}

static ls_array *some_examples(const ls_model_type *type, bool labels) {
  const bool whole = labels || type->example_dtype == LS_DTYPE_I32;
  const ls_shape own = labels ? type->label_shape : type->example_shape;
  ls_shape shape = {.rank = own.rank + 1, .dim = {3}};
  ls_array *array = NULL;
  memcpy(shape.dim + 1, own.dim, (size_t)own.rank * sizeof(*own.dim));
  expect_ok(
      ls_array_create(whole ? LS_DTYPE_I32 : LS_DTYPE_F32, shape, &array));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    if (whole)
      ls_array_set_i64(array, i, i * 37 % type->num_classes);
    else
      ls_array_set_f64(array, i, (double)(i * 7919 % 1009) / 504 - 1);
  return array;
}

// Follows the example through batches, by a function or an export.
static void follow(net *n, ls_function *function, ls_serving *serving,
                   const char *how, size_t from, size_t end) {
  for (size_t s = from; s < end; ++s) {
    LS_OWN(ls_nest, results) = ls_none();
    ls_array *x = batch_of(n->examples, sizes[s]);
    ls_array *y = batch_of(n->labels, sizes[s]);
    LS_OWN(ls_nest, args) = ls_none();
    if (serving != NULL) {
      args = ls_nest_dict("", (const char *const[]){"x"},
                          (const ls_nest[]){ls_nest_array(x)}, 1);
      ls_array_release(y);
      expect_ok(ls_serving_run(serving, NULL, args, &results));
    } else {
      args = LS_TUPLE(ls_nest_array(x), ls_nest_array(y));
      expect_ok(ls_function_call(function, args, &results));
    }
    const ls_nest got = serving != NULL ? ls_nest_find(results, "y") : results;
    snprintf(n->name, sizeof(n->name), "%s, %s", n->type->name, how);
    if (n->want.kind == LS_KIND_NONE)
      n->want = ls_nest_array(ls_array_retain(
          ls_nest_as_array(ls_nest_is_node(got) ? ls_nest_item(got, 0) : got)));
    else
      expect_example(
          n->name, ls_nest_as_array(n->want),
          ls_nest_as_array(ls_nest_is_node(got) ? ls_nest_item(got, 0) : got),
          sizes[s]);
  }
}

static net open_net(const ls_model_type *type, ls_optimizer *optimizer) {
  net n = {.type = type,
           .examples = some_examples(type, false),
           .labels = some_examples(type, true)};
  expect_ok(ls_model_create(
      type, &(ls_model_options){.seed = 4, .optimizer = optimizer}, &n.model));
  return n;
}

static void close_net(net *n) {
  ls_nest_release(n->want);
  ls_model_destroy(&n->model);
  ls_array_release(n->examples);
  ls_array_release(n->labels);
}
LS_OWNED_STRUCT(net, close_net)

// Training leaves the weights where they are: the rate is next to nothing.
TEST(a_models_examples_have_their_bits_in_every_batch) {
  static const ls_model_type *const types[] = {&small_mlp, &small_cnn,
                                               &small_gpt};
  static const char *const named[] = {"tiny", "mlp", "cnn", "resnet20", "unet", "gpt"};
  for (size_t i = 0; i < LS_COUNT_OF(types) + LS_COUNT_OF(named); ++i) {
    const bool is_small = i < LS_COUNT_OF(types);
    const ls_model_type *type =
        is_small ? types[i] : ls_model_find(named[i - LS_COUNT_OF(types)]);
    LS_OWN(ls_optimizer, still) = NULL;
    expect_ok(
        ls_sgd_create(&(ls_sgd_options){.learning_rate = 1e-300}, &still));
    LS_OWN(net, n) = open_net(type, still);
    LS_OWN(ls_function, predicts) = unnamed_function(predict, &n);
    LS_OWN(ls_function, trains) = unnamed_function(train, &n);
    const size_t most = is_small ? LS_COUNT_OF(sizes) : 5;
    follow(&n, predicts, NULL, "predicting", 0, most);
    follow(&n, trains, NULL, "training", 0, is_small ? most : 3);
  }
}

// ---- Exports ---------------------------------------------------------------
static ls_status export_net(const ls_model_type *type, char **out_path) {
  LS_OWN(ls_graph, graph) = NULL;
  ls_op initial;
  LS_OWN(net, n) = {0};
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_nest, inputs) = ls_none();
  LS_OWN(ls_nest, outputs) = ls_none();
  expect_ok(ls_graph_create(type->name, &graph));
  {
    LS_GRAPH_SCOPE(graph);
    n = open_net(type, NULL);
    ls_shape shape = ls_array_shape(n.examples);
    shape.dim[0] = -1;
    const ls_tensor x = ls_placeholder(ls_array_dtype(n.examples), shape, "x");
    LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(x));
    inputs = ls_nest_dict("", (const char *const[]){"x"},
                          (const ls_nest[]){ls_leaf(x)}, 1);
    outputs = ls_nest_dict("", (const char *const[]){"y"},
                           (const ls_nest[]){predict(args, &n)}, 1);
    initial = ls_global_initializer();
  }
  expect_ok(ls_graph_error(graph));
  expect_ok(ls_session_create(graph, &session));
  LS_OWN(ls_nest, results) = session_results(session, ls_nest_op(initial));
  const ls_serving_signature signature = {
      {LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, outputs}, inputs};
  const ls_serving_graph one = {
      .graph = graph, .signatures = &signature, .num_signatures = 1};
  return ls_serving_export(&(ls_serving_options){.base = "exports",
                                                 .graphs = &one,
                                                 .num_graphs = 1,
                                                 .session = session},
                           out_path);
}

// A folder takes along what is in it.
static ls_status move(void *user, const char *from, const char *to) {
  memory_files *files = user;
  const size_t length = strlen(from);
  for (size_t i = 0; i < files->count; ++i) {
    char *path = files->items[i].path, moved[sizeof(files->items[i].path)];
    if (strncmp(path, from, length) != 0 || path[length] != '/') continue;
    snprintf(moved, sizeof(moved), "%s%s", to, path + length);
    memcpy(path, moved, sizeof(moved));
  }
  return memory_files_system(files).rename(user, from, to);
}

TEST(exports_give_the_bits_of_predictions) {
  static const ls_model_type *const types[] = {&small_mlp, &small_cnn,
                                               &small_gpt};
  static memory_files files;
  ls_file_system in_memory = memory_files_system(&files);
  in_memory.rename = move;
  LS_OWN(counted, memory) =
      counted_begin_with((ls_runtime_options){.file_system = &in_memory});
  for (size_t i = 0; i < LS_COUNT_OF(types); ++i) {
    LS_OWN(printed, path) = NULL;
    ls_serving *serving = NULL;
    net n = open_net(types[i], NULL);
    ls_function *predicts = unnamed_function(predict, &n);
    follow(&n, predicts, NULL, "predicting", 0, 1);
    expect_ok(export_net(types[i], &path));
    expect_ok(ls_serving_load(path, NULL, &serving));
    follow(&n, NULL, serving, "serving", 0, LS_COUNT_OF(sizes));
    ls_serving_destroy(serving);
    ls_function_release(predicts);
    close_net(&n);
    memory_files_clear(&files);
  }
}
