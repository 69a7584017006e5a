// SPDX-License-Identifier: Apache-2.0
//
// Logits token by token have the bits of the whole window's.
#include <string.h>

#include "lockstep/full.h"
#include "lockstep/serving.h"
#include "support/fault.h"
#include "support/served_model.h"

enum { TOKENS = 21, CLASSES = 11, WIDTH = 24, HEADS = 2 };

typedef enum sort {
  PACKED,    // q, k and v side by side, learned positions.
  SEPARATE,  // Another scale, positions that are constant, RMS norm.
  OPEN,      // Attention to later tokens.
  SHIFTED,   // Sums along the tokens.
  TURNED,    // A scale below 0.
} sort;

typedef struct language {
  ls_bag bag;
  ls_graph *graph;
  ls_session *session;
  ls_tensor tokens, logits;
  ls_decoder *decoder;
} language;

static void drop_variable(void *variable) { ls_variable_release(variable); }

static ls_tensor weight(ls_bag *bag, const char *name, ls_dtype dtype,
                        ls_shape shape) {
  ls_variable *made = NULL;
  const ls_status status = ls_weight_create(
      &(ls_weight_options){.name = name,
                           .dtype = dtype,
                           .shape = shape,
                           .initializer = ls_init_normal(0, 0.4)},
      &made);
  (void)ls_bag_keep(bag, status, made, drop_variable);
  return made != NULL ? ls_variable_read(made) : ls_failed_tensor();
}

static ls_tensor attend(ls_bag *bag, sort of, ls_dtype dtype, ls_tensor x) {
  const ls_attention_options how = {.num_heads = HEADS,
                                    .causal = of != OPEN,
                                    .scale = of == SEPARATE ? 0.7
                                             : of == TURNED ? -0.5
                                                            : 0};
  const ls_shape square = LS_SHAPE(WIDTH, WIDTH);
  if (of != SEPARATE)
    return ls_attention_packed(
        ls_dense(x, weight(bag, "qkv", dtype, LS_SHAPE(WIDTH, 3 * WIDTH)),
                 weight(bag, "bias", dtype, LS_SHAPE(3 * WIDTH)),
                 LS_ACTIVATION_NONE),
        &how);
  return ls_attention(ls_matmul(x, weight(bag, "q", dtype, square)),
                      ls_matmul(x, weight(bag, "k", dtype, square)),
                      ls_matmul(x, weight(bag, "v", dtype, square)), &how);
}

static ls_tensor build(ls_bag *bag, sort of, ls_dtype dtype, ls_tensor tokens) {
  const ls_tensor table = weight(bag, "table", dtype, LS_SHAPE(CLASSES, WIDTH));
  const ls_tensor scale =
      weight(bag, "scale", dtype == LS_DTYPE_F64 ? dtype : LS_DTYPE_F32,
             LS_SHAPE(WIDTH));
  ls_tensor x = ls_gather(table, tokens, 0);
  x = ls_add(x, of == PACKED
                    ? weight(bag, "positions", dtype, LS_SHAPE(TOKENS, WIDTH))
                    : ls_convert(ls_iota(LS_DTYPE_I32, LS_SHAPE(TOKENS, 1), 0),
                                 dtype));
  for (int i = 0; i < 2; ++i) {
    const ls_tensor y = of == PACKED ? ls_layer_norm(x, scale, scale, 1e-5)
                                     : ls_rms_norm(x, scale, 1e-5);
    x = ls_add(x, attend(bag, of, dtype, y));
    x = ls_add(
        x, ls_gelu(ls_dense(x, weight(bag, "up", dtype, LS_SHAPE(WIDTH, WIDTH)),
                            ls_failed_tensor(), LS_ACTIVATION_NONE)));
  }
  if (of == SHIFTED) x = ls_cumsum(x, 1, false, false);
  return ls_matmul_transposed(x, false, table, true);
}

static void open_language(language *l, sort of, ls_dtype dtype) {
  LS_OWN(ls_nest, results) = ls_none();
  *l = (language){0};
  expect_ok(ls_graph_create("language", &l->graph));
  ls_op start;
  {
    LS_GRAPH_SCOPE(l->graph);
    l->tokens = ls_placeholder(LS_DTYPE_I32, LS_SHAPE(-1, TOKENS), "tokens");
    l->logits = build(&l->bag, of, dtype, l->tokens);
    start = ls_global_initializer();
  }
  expect_ok(ls_bag_take_error(&l->bag));
  expect_ok(ls_graph_take_error(l->graph));
  expect_ok(ls_session_create(l->graph, &l->session));
  expect_ok(ls_session_run(l->session, ls_nest_op(start), NULL, 0, &results));
  expect_ok(ls_decoder_create(l->session, l->tokens, l->logits, &l->decoder));
}

static void close_language(language *l) {
  ls_decoder_destroy(l->decoder);
  ls_session_destroy(l->session);
  ls_bag_empty(&l->bag);
  ls_graph_destroy(l->graph);
}
LS_OWNED_STRUCT(language, close_language)

static int32_t token_at(int i) { return (i * 7 + i * i) % CLASSES; }

// Expects the logits of the last of `count` tokens, by a second decoder's whole
// window.
static void expect_row(ls_decoder *whole, int count, const ls_array *row) {
  int32_t window[TOKENS] = {0};
  const int filled = count < TOKENS ? count : TOKENS;
  const ls_array *all = NULL;
  for (int i = 0; i < filled; ++i)
    window[i] = token_at(count - filled + i);
  expect_ok(ls_decoder_run(whole, window, &all));
  assert_int_equal(ls_array_shape(all).dim[1], TOKENS);
  const size_t bytes = ls_array_size(all) / TOKENS;
  assert_int_equal(ls_array_size(row), bytes);
  assert_memory_equal(
      ls_array_data(row),
      (const char *)ls_array_data(all) + (size_t)(filled - 1) * bytes, bytes);
}

static void expect_bits(sort of, ls_dtype dtype, bool is_incremental) {
  LS_OWN_BEGUN(language, l, open_language, of, dtype);
  ls_decoder *whole = NULL;
  expect_ok(ls_decoder_create(l.session, l.tokens, l.logits, &whole));
  assert_int_equal(ls_decoder_is_incremental(l.decoder), is_incremental);
  for (int begun = 1; begun < TOKENS + 4; begun += 7) {
    int32_t tokens[TOKENS + 4];
    const ls_array *row = NULL;
    for (int i = 0; i < begun; ++i)
      tokens[i] = token_at(i);
    expect_ok(ls_decoder_begin(l.decoder, tokens, begun, &row));
    expect_row(whole, begun, row);
    for (int i = begun; i < TOKENS + 3; ++i) {
      expect_ok(ls_decoder_next(l.decoder, token_at(i), &row));
      expect_row(whole, i + 1, row);
    }
  }
  ls_decoder_destroy(whole);
}

TEST(logits_token_by_token_have_the_bits_of_the_windows) {
  expect_bits(PACKED, LS_DTYPE_F32, true);
  expect_bits(SEPARATE, LS_DTYPE_F32, true);
  expect_bits(PACKED, LS_DTYPE_F64, true);
  expect_bits(SEPARATE, LS_DTYPE_BF16, true);
  expect_bits(PACKED, LS_DTYPE_F16, true);
}

TEST(a_model_whose_tokens_depend_on_others_is_run_whole) {
  expect_bits(OPEN, LS_DTYPE_F32, false);
  expect_bits(SHIFTED, LS_DTYPE_F32, false);
  expect_bits(TURNED, LS_DTYPE_F32, false);
}

TEST(a_decoder_is_refused_what_is_no_text) {
  LS_OWN_BEGUN(language, l, open_language, PACKED, LS_DTYPE_F32);
  const int32_t token = 1;
  const ls_array *row = NULL;
  expect_status(ls_decoder_next(l.decoder, 1, &row), LS_FAILED_PRECONDITION,
                "call ls_decoder_begin");
  expect_status(ls_decoder_begin(l.decoder, &token, 0, &row),
                LS_INVALID_ARGUMENT, "begins with one or more");
  expect_ok(ls_decoder_begin(l.decoder, &token, 1, &row));
  ls_decoder *other = NULL;
  expect_status(ls_decoder_create(l.session, l.logits, l.logits, &other),
                LS_INVALID_ARGUMENT, "takes tokens i32[?, N]");
  assert_null(other);
}

TEST(a_decoder_keeps_an_earlier_error_of_the_graph) {
  LS_OWN_BEGUN(language, l, open_language, PACKED, LS_DTYPE_F32);
  ls_decoder *other = NULL;
  {
    LS_GRAPH_SCOPE(l.graph);
    const ls_tensor any = ls_placeholder(LS_DTYPE_F32, LS_SHAPE_UNKNOWN, "any");
    assert_true(ls_tensor_is_failed(ls_slice_axis(any, 0, 0, 1)));
  }
  expect_ok(ls_decoder_create(l.session, l.tokens, l.logits, &other));
  assert_true(ls_decoder_is_incremental(other));
  ls_decoder_destroy(other);
  expect_status(ls_graph_take_error(l.graph), LS_UNIMPLEMENTED,
                "the rank of 'any:0' is not known");
}

// Expects that a cancelled run fails, and that no text is left.
static void expect_ended(ls_decoder *decoder, ls_cancel *cancel, bool begins) {
  const int32_t token = token_at(1);
  const ls_array *row = NULL;
  ls_cancel_request(cancel);
  expect_status(begins ? ls_decoder_begin(decoder, &token, 1, &row)
                       : ls_decoder_next(decoder, token, &row),
                LS_CANCELLED, "");
  ls_cancel_reset(cancel);
  expect_status(ls_decoder_next(decoder, token, &row), LS_FAILED_PRECONDITION,
                "call ls_decoder_begin");
}

TEST(a_run_that_fails_ends_the_text) {
  static const sort sorts[] = {PACKED, OPEN};
  ls_cancel *cancel = NULL;
  expect_ok(ls_cancel_create(ls_runtime_current(), &cancel));
  for (size_t i = 0; i < LS_COUNT_OF(sorts); ++i) {
    LS_OWN_BEGUN(language, l, open_language, sorts[i], LS_DTYPE_F32);
    ls_decoder *whole = NULL;
    const ls_array *row = NULL;
    const int32_t first = token_at(0);
    expect_ok(ls_decoder_create(l.session, l.tokens, l.logits, &whole));
    ls_cancel *outer = ls_cancel_make_current(cancel);
    expect_ended(l.decoder, cancel, true);
    expect_ok(ls_decoder_begin(l.decoder, &first, 1, &row));
    expect_ended(l.decoder, cancel, false);
    expect_ok(ls_decoder_begin(l.decoder, &first, 1, &row));
    expect_ok(ls_decoder_next(l.decoder, token_at(1), &row));
    expect_row(whole, 2, row);
    ls_cancel_make_current(outer);
    ls_decoder_destroy(whole);
  }
  ls_cancel_destroy(cancel);
}

static void drop_model(void *model) { ls_model_destroy(model); }

TEST(gpt_is_computed_token_by_token) {
  LS_OWN_BEGUN(language, l, open_language, PACKED, LS_DTYPE_F32);
  LS_GRAPH_SCOPE(l.graph);
  ls_model model = {0};
  expect_ok(
      ls_model_create(ls_model_find("gpt"), &(ls_model_options){0}, &model));
  (void)ls_bag_keep(&l.bag, ls_ok(), &model, drop_model);
  const ls_tensor tokens =
      ls_placeholder(LS_DTYPE_I32, LS_SHAPE(-1, 128), "more");
  const ls_nest args = ls_bag_nest(&l.bag, LS_TUPLE(ls_leaf(tokens)));
  const ls_nest logits =
      ls_bag_nest(&l.bag, model.type->logits(args, model.self));
  ls_decoder *decoder = NULL;
  expect_ok(ls_decoder_create(l.session, tokens, ls_nest_tensor(logits, 0),
                              &decoder));
  assert_true(ls_decoder_is_incremental(decoder));
  ls_decoder_destroy(decoder);
}

TEST(a_decoder_of_an_export_is_that_of_a_signature) {
  LS_OWN_BEGUN(language, l, open_language, SEPARATE, LS_DTYPE_F32);
  served_make_folder();
  LS_OWN(ls_nest, in) = served_dict_of("tokens", ls_leaf(l.tokens));
  LS_OWN(ls_nest, out) = served_dict_of("logits", ls_leaf(l.logits));
  const ls_serving_signature signature = {
      {LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, out}, in};
  const ls_serving_graph graph = {
      .graph = l.graph, .signatures = &signature, .num_signatures = 1};
  LS_OWN(printed, path) = NULL;
  ls_serving *export = NULL;
  ls_decoder *decoder = NULL;
  expect_ok(ls_serving_export(&(ls_serving_options){.base = served_folder,
                                                    .graphs = &graph,
                                                    .num_graphs = 1,
                                                    .session = l.session},
                              &path));
  expect_ok(ls_serving_load(path, NULL, &export));
  expect_status(ls_serving_create_decoder(export, "no", "logits", &decoder),
                LS_NOT_FOUND, "serving_default");
  expect_status(ls_serving_create_decoder(export, NULL, "classes", &decoder),
                LS_INVALID_ARGUMENT, "has no output 'classes'");
  expect_ok(ls_serving_create_decoder(export, NULL, "logits", &decoder));
  assert_true(ls_decoder_is_incremental(decoder));
  const int32_t first = token_at(0);
  const ls_array *row = NULL;
  expect_ok(ls_decoder_begin(decoder, &first, 1, &row));
  expect_row(l.decoder, 1, row);
  expect_ok(ls_decoder_next(decoder, token_at(1), &row));
  expect_row(l.decoder, 2, row);
  ls_decoder_destroy(decoder);
  ls_serving_destroy(export);
  served_remove_folder(served_folder);
}

LS_OWNED_POINTER(ls_decoder, ls_decoder_destroy)

static ls_status begin_language(void *self) {
  open_language(self, SEPARATE, LS_DTYPE_F32);
  return ls_ok();
}
static void end_language(void *self) { close_language(self); }

MEMORY_TEST(decode_a_text, .size = sizeof(language), .begin = begin_language,
            .end = end_language) {
  const language *l = self;
  const int32_t tokens[] = {1, 2, 3};
  const ls_array *row = NULL;
  LS_OWN(ls_decoder, decoder) = NULL;
  LS_RETURN_IF_ERROR(
      ls_decoder_create(l->session, l->tokens, l->logits, &decoder));
  LS_RETURN_IF_ERROR(ls_decoder_begin(decoder, tokens, 3, &row));
  return ls_decoder_next(decoder, 4, &row);
}
