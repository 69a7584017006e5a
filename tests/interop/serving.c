// SPDX-License-Identifier: Apache-2.0
// Exports of the reference models and of ops, each with what it gives for some
// batches: half of check-serving.
//
// Usage: serving FOLDER
//
//   FOLDER/NAME/SECONDS/   the export, StableHLO for a batch of 4
//   FOLDER/NAME-4.npz      inputs ("in/...") and outputs ("out/...") of it
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/full.h"
#include "runtime/own.h"
#include "support/training.h"

static void must(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "serving: %s\n", ls_status_message(status));
  exit(1);
}

enum { MOST = 64 };

// A graph on its way: what it is given, and gives.
typedef struct graph {
  const char *input_names[MOST], *names[MOST];
  ls_nest inputs[MOST], outputs[MOST];
  size_t num_inputs, count;
  ls_variable *variables[200];
  size_t num_variables;
} graph;

static ls_tensor input(graph *g, const char *name, ls_dtype dtype,
                       ls_shape shape) {
  const ls_tensor x = ls_placeholder(dtype, shape, name);
  g->input_names[g->num_inputs] = name;
  g->inputs[g->num_inputs++] = ls_leaf(x);
  return x;
}

static void give(graph *g, const char *name, ls_tensor y) {
  g->names[g->count] = name;
  g->outputs[g->count++] = ls_leaf(y);
}

static ls_tensor numbers(ls_shape shape) {
  LS_OWN(ls_array, array) = NULL;
  must(ls_array_create(LS_DTYPE_F32, shape, &array));
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_f64(array, i, (double)(i * 37 % 41) / 41 - 0.4);
  return ls_constant(array);
}

// ---- Ops -------------------------------------------------------------------
static void make_elements(graph *g) {
  const ls_tensor x = input(g, "x", LS_DTYPE_F32, LS_SHAPE(-1, 4, 6));
  const ls_tensor i = input(g, "i", LS_DTYPE_I32, LS_SHAPE(-1, 3));
  const ls_tensor positive = ls_add_scalar(ls_abs(x), 0.1);
  const ls_tensor half = ls_scalar(LS_DTYPE_F32, 0.5);
  give(g, "neg", ls_neg(x));
  give(g, "sign", ls_sign(x));
  give(g, "exp", ls_exp(x));
  give(g, "log", ls_log(positive));
  give(g, "sqrt", ls_sqrt(positive));
  give(g, "rsqrt", ls_rsqrt(positive));
  give(g, "tanh", ls_tanh(x));
  give(g, "sigmoid", ls_sigmoid(x));
  give(g, "erf", ls_erf(x));
  give(g, "erfc", ls_erfc(x));
  give(g, "relu", ls_relu(x));
  give(g, "gelu", ls_gelu(x));
  give(g, "silu", ls_silu(x));
  give(g, "softplus", ls_softplus(x));
  give(g, "expm1", ls_expm1(x));
  give(g, "log1p", ls_log1p(positive));
  give(g, "ceil", ls_ceil(ls_mul_scalar(x, 9)));
  give(g, "floor", ls_floor(ls_mul_scalar(x, 9)));
  give(g, "round", ls_round(ls_mul_scalar(x, 9)));
  give(g, "cos", ls_cos(x));
  give(g, "sin", ls_sin(x));
  give(g, "tan", ls_tan(x));
  give(g, "sub", ls_sub(half, x));
  give(g, "div", ls_div(x, positive));
  give(g, "div_i32", ls_div(i, ls_scalar(LS_DTYPE_I32, 3)));
  give(g, "maximum", ls_maximum(x, half));
  give(g, "minimum", ls_minimum(x, half));
  give(g, "pow", ls_pow(positive, x));
  give(g, "remainder", ls_remainder(x, half));
  give(g, "clamp", ls_clamp(ls_neg(half), x, half));
  give(g, "select", ls_select(ls_less(x, half), x, ls_neg(x)));
  give(g, "logic",
       ls_or(ls_and(ls_greater(x, half), ls_not_equal(x, half)),
             ls_not(ls_less_equal(x, half))));
  give(g, "convert", ls_convert(ls_mul_scalar(x, 9), LS_DTYPE_I64));
  give(g, "one_hot", ls_one_hot(i, 5, LS_DTYPE_F32));
  give(g, "add_n", ls_add_n((const ls_tensor[]){x, positive, x}, 3));
}

static void make_shapes(graph *g) {
  const ls_tensor x = input(g, "x", LS_DTYPE_F32, LS_SHAPE(-1, 4, 6));
  const ls_tensor i = input(g, "i", LS_DTYPE_I32, LS_SHAPE(-1, 3));
  const ls_tensor table = numbers(LS_SHAPE(7, 5));
  give(g, "reshape", ls_reshape(x, LS_SHAPE(-1, 24)));
  give(g, "rows", ls_reshape(x, LS_SHAPE(-1, 6)));
  give(g, "transpose", ls_transpose(x, (const int[]){2, 0, 1}));
  give(g, "broadcast", ls_broadcast_like(ls_reduce_max_keep(x, LS_AXES(2)), x));
  give(g, "bias", ls_add(x, numbers(LS_SHAPE(6))));
  give(g, "sum", ls_reduce_sum(x, LS_AXES(0, 2)));
  give(g, "mean", ls_reduce_mean(x, LS_AXES(1, 2)));
  give(g, "min", ls_reduce_min(x, LS_AXES(1)));
  give(g, "product", ls_reduce_product(x, LS_AXES(2)));
  give(g, "all",
       ls_reduce_and(ls_less(x, ls_scalar(LS_DTYPE_F32, 0.9)), LS_AXES(2)));
  give(g, "any",
       ls_reduce_or(ls_less(x, ls_scalar(LS_DTYPE_F32, -0.9)), LS_AXES(2)));
  give(g, "argmax", ls_argmax(x, 2));
  give(g, "argmin", ls_argmin(x, 1));
  give(g, "softmax", ls_softmax(x));
  give(g, "softmax_large", ls_softmax(ls_mul_scalar(x, 300)));
  give(g, "log_softmax", ls_log_softmax(x));
  // Some classes cannot be.
  const ls_tensor masked =
      ls_select(ls_greater(x, ls_scalar(LS_DTYPE_F32, 0.5)),
                ls_scalar(LS_DTYPE_F32, -HUGE_VAL), x);
  give(g, "cross_entropy",
       ls_softmax_cross_entropy(masked, ls_argmax(masked, 2)));
  give(g, "slice",
       ls_slice(x, LS_SHAPE(0, 1, 0), LS_SHAPE(-1, 4, 6), LS_SHAPE(1, 2, 3)));
  give(g, "every_second",
       ls_slice(x, LS_SHAPE(0, 0, 0), LS_SHAPE(-1, 4, 5), LS_SHAPE(1, 3, 2)));
  give(g, "hollow",
       ls_slice(x, LS_SHAPE(0, 0, 0), LS_SHAPE(-1, 0, 5), LS_SHAPE(1, 2, 2)));
  give(g, "pad",
       ls_pad(x, ls_scalar(LS_DTYPE_F32, 7), LS_SHAPE(0, 1, -1),
              LS_SHAPE(0, 2, 1), LS_SCALAR));
  give(g, "concatenate",
       ls_concatenate((const ls_tensor[]){x, ls_neg(x)}, 2, 1));
  give(g, "stacked", ls_concatenate((const ls_tensor[]){x, x}, 2, 0));
  give(g, "reverse", ls_reverse(x, LS_AXES(1, 2)));
  give(g, "gather", ls_gather(table, ls_sub(i, ls_scalar(LS_DTYPE_I32, 1)), 0));
  give(g, "gather_1", ls_gather(numbers(LS_SHAPE(2, 7, 3)), i, 1));
  give(g, "matmul", ls_matmul(x, numbers(LS_SHAPE(6, 3))));
  give(g, "transposed", ls_matmul_transposed(x, false, x, true));
  give(g, "dense",
       ls_dense(x, numbers(LS_SHAPE(6, 3)), numbers(LS_SHAPE(3)),
                LS_ACTIVATION_RELU));
  give(g, "layer_norm",
       ls_layer_norm(x, numbers(LS_SHAPE(6)), numbers(LS_SHAPE(6)), 1e-5));
  give(g, "group_norm",
       ls_group_norm(x, numbers(LS_SHAPE(6)), numbers(LS_SHAPE(6)), 3, 1e-5));
  give(g, "rms_norm", ls_rms_norm(x, numbers(LS_SHAPE(6)), 1e-5));
  give(g, "batch_norm",
       ls_batch_norm_inference(
           x, numbers(LS_SHAPE(6)), numbers(LS_SHAPE(6)), numbers(LS_SHAPE(6)),
           ls_abs(numbers(LS_SHAPE(6))), 1e-3, LS_ACTIVATION_RELU));
  give(g, "attention",
       ls_attention(x, x, x,
                    &(ls_attention_options){.num_heads = 2, .causal = true}));
  // Queries of other tokens than keys, values of another depth.
  const ls_tensor keys =
      ls_concatenate((const ls_tensor[]){ls_neg(x), x, x}, 3, 1);
  give(g, "cross_attention",
       ls_attention(x, keys, ls_matmul(keys, numbers(LS_SHAPE(6, 9))),
                    &(ls_attention_options){.num_heads = 3, .scale = 0.7}));
  give(g, "packed",
       ls_attention_packed(x, &(ls_attention_options){.num_heads = 2}));
  const ls_op best = ls_top_k(x, 3);
  give(g, "top_k", ls_op_output(best, 0));
  give(g, "top_k_at", ls_op_output(best, 1));
  give(g, "places", ls_argmax(x, 0));
  give(g, "iota", ls_mul(x, ls_iota(LS_DTYPE_F32, LS_SHAPE(4, 6), 1)));
}

static void make_windows(graph *g) {
  const ls_tensor x = input(g, "x", LS_DTYPE_F32, LS_SHAPE(-1, 9, 7, 4));
  const ls_tensor w = numbers(LS_SHAPE(3, 3, 4, 6));
  const ls_convolution_options same = {.padding = LS_PADDING_SAME};
  const ls_convolution_options strided = {.padding = LS_PADDING_SAME,
                                          .strides = LS_SHAPE(2, 2)};
  const ls_convolution_options dilated = {.dilations = LS_SHAPE(2, 1)};
  const ls_convolution_options groups = {.groups = 2};
  const ls_window_options tight = {.padding = LS_PADDING_SAME,
                                   .strides = LS_SHAPE(1, 2)};
  ls_window_options counted = tight;
  counted.count_padding = true;
  give(g, "convolution", ls_convolution(x, w, &same));
  give(g, "strided", ls_convolution(x, w, &strided));
  give(g, "dilated", ls_convolution(x, w, &dilated));
  give(g, "groups", ls_convolution(x, numbers(LS_SHAPE(3, 3, 2, 6)), &groups));
  give(g, "bias",
       ls_conv_bias_act(x, w, numbers(LS_SHAPE(6)), LS_ACTIVATION_RELU, &same));
  give(g, "max", ls_max_pool(x, LS_SHAPE(2, 3), &tight));
  give(g, "mean", ls_avg_pool(x, LS_SHAPE(2, 3), &tight));
  give(g, "mean_valid", ls_avg_pool(x, LS_SHAPE(3, 2), NULL));
  give(g, "mean_of_all", ls_avg_pool(x, LS_SHAPE(9, 7), NULL));
  give(g, "counted", ls_avg_pool(x, LS_SHAPE(2, 3), &counted));
  give(g, "plain", ls_max_pool(x, LS_SHAPE(2, 2), NULL));
  give(g, "sum", ls_reduce_window(LS_WINDOW_SUM, x, LS_SHAPE(2, 2), NULL));
}

// ---- Models ----------------------------------------------------------------
static void make_model(graph *g, const char *name, ls_model *model) {
  const ls_model_type *type = ls_model_find(name);
  ls_shape shape = {.rank = type->example_shape.rank + 1, .dim = {-1}};
  memcpy(shape.dim + 1, type->example_shape.dim,
         sizeof(int64_t) * (size_t)type->example_shape.rank);
  const ls_dtype dtype =
      type->example_dtype != LS_DTYPE_NONE ? type->example_dtype : LS_DTYPE_F32;
  must(ls_model_create(type, NULL, model));
  const ls_tensor x = input(g, "x", dtype, shape);
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(x));
  const ls_nest y = type->logits(args, model->self);
  must(ls_nest_status(y));
  give(g, "logits", ls_nest_tensor(y, 0));
  g->num_variables = type->variables(model->self, g->variables, 200);
}

// ---- Answers ---------------------------------------------------------------
static ls_array *values_for(ls_type type, int64_t batch) {
  ls_array *array = NULL;
  type.shape.dim[0] = batch;
  must(ls_array_create(type.dtype, type.shape, &array));
  uint32_t state = 12345;
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i) {
    state = state * 1664525 + 1013904223;
    if (type.dtype == LS_DTYPE_F32)
      ls_array_set_f64(array, i, (double)(state >> 8) / (1 << 23) - 1);
    else
      ls_array_set_i64(array, i, (int64_t)(state >> 16) % 8);
  }
  return array;
}

static void find_default(const ls_serving *s, ls_serving_info *info) {
  for (size_t i = 0; i < ls_serving_num_signatures(s); ++i) {
    must(ls_serving_signature_info(s, i, info));
    if (strcmp(info->key, LS_SERVING_DEFAULT) == 0) return;
  }
}

// What it is asked, "in/NAME", and answers, "out/NAME".
static void save_batch(ls_serving *s, const char *folder, const char *name,
                       int64_t batch) {
  char path[500], keys[2 * MOST][80];
  const char *pointers[2 * MOST], *names[MOST];
  ls_nest inputs[MOST], all[2 * MOST], results = ls_none();
  ls_serving_info info = {0};
  find_default(s, &info);
  for (size_t i = 0; i < info.num_inputs; ++i) {
    names[i] = info.inputs[i].name;
    inputs[i] = ls_nest_array(values_for(info.inputs[i].type, batch));
  }
  LS_OWN(ls_nest, dict) = ls_nest_dict("", names, inputs, info.num_inputs);
  must(ls_nest_status(dict));
  must(ls_serving_run(s, NULL, dict, &results));
  size_t count = 0;
  for (size_t i = 0; i < info.num_inputs + info.num_outputs; ++i) {
    const bool is_input = i < info.num_inputs;
    const char *of =
        is_input ? names[i] : info.outputs[i - info.num_inputs].name;
    snprintf(keys[count], sizeof(keys[count]), "%s/%s", is_input ? "in" : "out",
             of);
    pointers[count] = keys[count];
    all[count++] = ls_nest_retain(is_input ? ls_nest_item(dict, i)
                                           : ls_nest_find(results, of));
  }
  LS_OWN(ls_nest, both) = ls_nest_dict("", pointers, all, count);
  must(ls_nest_status(both));
  snprintf(path, sizeof(path), "%s/%s-%d.npz", folder, name, (int)batch);
  must(ls_npz_write(path, both, LS_FLAG_DEFAULT));
  ls_nest_release(results);
}

static void save_answers(const char *export, const char *folder,
                         const char *name) {
  ls_serving *serving = NULL;
  must(ls_serving_load(export, NULL, &serving));
  save_batch(serving, folder, name, 4);
  save_batch(serving, folder, name, 7);
  ls_serving_destroy(serving);
}

// ---- Exporting -------------------------------------------------------------
static void initialize(const graph *g, ls_session *session) {
  ls_nest results = ls_none();
  for (size_t i = 0; i < g->num_variables; ++i) {
    const ls_nest op = ls_nest_op(ls_variable_initializer(g->variables[i]));
    must(ls_session_run(session, op, NULL, 0, &results));
    ls_nest_release(results);
    results = ls_none();
  }
}

static void export(graph *g, ls_graph *of, const char *folder,
                   const char *name) {
  LS_OWN(ls_session, session) = NULL;
  char base[400], *path = NULL;
  must(ls_session_create(of, &session));
  initialize(g, session);
  LS_OWN(ls_nest, inputs) =
      ls_nest_dict("", g->input_names, g->inputs, g->num_inputs);
  LS_OWN(ls_nest, outputs) = ls_nest_dict("", g->names, g->outputs, g->count);
  const ls_serving_signature signature = {
      {LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, outputs}, inputs};
  const ls_serving_graph one = {
      .graph = of, .signatures = &signature, .num_signatures = 1};
  snprintf(base, sizeof(base), "%s/%s", folder, name);
  must(ls_serving_export(&(ls_serving_options){.base = base,
                                               .graphs = &one,
                                               .num_graphs = 1,
                                               .session = session,
                                               .onnx = LS_FLAG_ON,
                                               .stablehlo = LS_FLAG_ON,
                                               .batch_size = 4},
                         &path));
  save_answers(path, folder, name);
  ls_text_release(path);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*make)(graph *g);  // NULL: a reference model.
  } all[] = {{"elements", make_elements},
             {"shapes", make_shapes},
             {"windows", make_windows},
             {"mlp", NULL},
             {"cnn", NULL},
             {"resnet20", NULL},
             {"unet", NULL},
             {"gpt", NULL}};
  if (argc == 4) {
    save_answers(argv[2], argv[1], argv[3]);
    return 0;
  }
  if (argc != 2) {
    fprintf(stderr, "usage: serving FOLDER [EXPORT NAME]\n");
    return 2;
  }
  for (size_t i = 0; i < sizeof(all) / sizeof(*all); ++i) {
    graph g = {0};
    LS_OWN(ls_graph, of) = NULL;
    LS_OWN(ls_model, model) = {0};
    must(ls_graph_create(all[i].name, &of));
    {
      LS_GRAPH_SCOPE(of);
      if (all[i].make != NULL)
        all[i].make(&g);
      else
        make_model(&g, all[i].name, &model);
    }
    must(ls_graph_take_error(of));
    export(&g, of, argv[1], all[i].name);
  }
  return 0;
}
