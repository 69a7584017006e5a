// SPDX-License-Identifier: Apache-2.0
//
// The program of a page's fragments (docs/blocks.awk): what it begins with, and
// a small net and its data for fragments that take these from elsewhere.
#ifndef TESTS_TOOLS_DOCS_PAGE_H
#define TESTS_TOOLS_DOCS_PAGE_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/full.h"

typedef ls_status (*page_fragment)(ls_bag *bag);

// Runs the fragment at a line, with a bag of its own; returns true if it failed.
static bool page_fails(int line, page_fragment fragment) {
  ls_bag bag = {};
  ls_status status = fragment(&bag);
  const bool failed = !ls_status_is_ok(status);
  if (failed) fprintf(stderr, "line %d: %s\n", line, ls_status_message(status));
  ls_status_free(status);
  ls_bag_empty(&bag);
  return failed;
}

#ifndef __cplusplus
typedef struct page_net {
  ls_dense_layer *layer;
  ls_optimizer *optimizer;
} page_net;

// A step on 16 numbers and a label; `user` is a page_net.
static ls_nest page_step(ls_nest args, void *user) {
  const page_net *net = user;
  const ls_tensor logits =
      ls_dense_layer_apply(net->layer, ls_nest_tensor(args, 0));
  const ls_tensor loss =
      ls_mean_softmax_cross_entropy(logits, ls_nest_tensor(args, 1));
  ls_optimizer_minimize(net->optimizer, loss);
  return ls_leaf(loss);
}

// The step as a function; a net has the life of the process.
static ls_function *page_function(ls_bag *bag) {
  static page_net net;
  net.layer = ls_dense_layer_in(bag, .inputs = 16, .units = 4);
  net.optimizer = ls_sgd_in(bag, .learning_rate = 0.1);
  return ls_function_in(bag, .call = page_step, .user = &net);
}

// Batches of 32 for it.
static ls_dataset *page_batches(void) {
  return ls_dataset_batch(
      ls_dataset_synthetic(&(ls_synthetic_options){
          .size = 128, .shape = LS_SHAPE(16), .num_classes = 4}),
      &(ls_batch_options){.size = 32});
}
#endif
#endif
