// SPDX-License-Identifier: Apache-2.0
#include "lockstep/layers.h"

#include "lockstep/losses.h"
#include "support/values.h"

TEST(an_embedding_gives_a_row_for_each_index) {
  ls_embedding_layer *layer = NULL;
  expect_ok(ls_embedding_layer_create(
      &(ls_embedding_options){.rows = 3, .width = 2}, &layer));
  ls_variable *table = NULL;
  assert_int_equal(ls_embedding_layer_variables(layer, &table, 1), 1);
  assert_string_equal(ls_variable_name(table), "embedding/table");
  const double values[] = {1, 2, 3, 4, 5, 6};
  set_variable(table, values);
  const double indices[] = {2, 0, 1, 2}, x[] = {1, -1};
  const double rows[] = {5, 6, 1, 2, 3, 4, 5, 6}, logits[] = {-1, -1, -1};
  expect_ok(ls_frame_begin());
  const ls_tensor got = ls_embedding_layer_apply(
      layer, eager_of(LS_DTYPE_I32, LS_SHAPE(2, 2), indices));
  assert_true(ls_shape_equal(ls_tensor_shape(got), LS_SHAPE(2, 2, 2)));
  expect_tensor(got, rows, 8, 0);
  expect_tensor(ls_embedding_layer_logits(
                    layer, eager_of(LS_DTYPE_F32, LS_SHAPE(1, 2), x)),
                logits, 3, 0);
  expect_ok(ls_frame_end(NULL));
  ls_embedding_layer_destroy(layer);
}

// Tied: the table is used at both ends.
static ls_nest tied_loss(ls_nest args, void *user) {
  const ls_tensor tokens = ls_nest_tensor(args, 0);
  const ls_tensor x = ls_embedding_layer_apply(user, tokens);
  return ls_leaf(ls_mean_softmax_cross_entropy(
      ls_embedding_layer_logits(user, ls_tanh(x)), tokens));
}

TEST(gradients_of_a_tied_table_come_from_both_ends) {
  ls_embedding_layer *layer = NULL;
  expect_ok(ls_embedding_layer_create(
      &(ls_embedding_options){.rows = 4, .width = 3, .dtype = LS_DTYPE_F64},
      &layer));
  ls_variable *table = NULL;
  ls_embedding_layer_variables(layer, &table, 1);
  const double tokens[] = {0, 3, 3, 1, 0, 3};
  const ls_nest args =
      LS_TUPLE(ls_nest_array(array_of(LS_DTYPE_I32, LS_SHAPE(2, 3), tokens)));
  expect_variable_gradients(tied_loss, layer, args, &table, 1, 1e-6);
  ls_nest_release(args);
  ls_embedding_layer_destroy(layer);
}

TEST(embeddings_that_cannot_be_are_refused) {
  ls_embedding_layer *layer = NULL;
  expect_status(
      ls_embedding_layer_create(
          &(ls_embedding_options){.name = "words", .rows = 5}, &layer),
      LS_INVALID_ARGUMENT,
      "embedding 'words' needs at least one row and a width of 1, got 5 and 0");
  assert_null(layer);
}
