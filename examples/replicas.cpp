// SPDX-License-Identifier: Apache-2.0
// From C++: a classifier trained on four replicas, each with its part of a
// batch. C++11 is enough; options are structs whose fields are assigned (from
// C++20 on they can be named in braces, as in C).
#include <cstdio>

#include "lockstep/lockstep.h"

namespace {

constexpr int kReplicas = 4, kBatch = 64, kEpochs = 4;
constexpr int kWidth = 20, kClasses = 5;

// Releases everything made in it.
struct bag : ls_bag {
  bag() : ls_bag() {}
  bag(const bag &) = delete;
  ~bag() { ls_bag_empty(this); }
};

struct net {
  ls_dense_layer *hidden, *output;
  ls_optimizer *optimizer;
};

ls_dense_layer *dense(ls_bag *bag, const char *name, int inputs, int units) {
  ls_dense_options options{};
  options.name = name;
  options.inputs = inputs;
  options.units = units;
  return ls_dense_layer_in(bag, options);
}

// Makes a replica's part of a step: traced once, then run as a compiled
// program.
ls_nest step(ls_nest batch, void *user) {
  const net *m = static_cast<const net *>(user);
  const ls_tensor x =
      ls_reshape(ls_nest_tensor(batch, 0), LS_SHAPE(-1, kWidth));
  const ls_tensor hidden = ls_relu(ls_dense_layer_apply(m->hidden, x));
  const ls_tensor logits = ls_dense_layer_apply(m->output, hidden);
  const ls_tensor terms =
      ls_softmax_cross_entropy(logits, ls_nest_tensor(batch, 1));
  const ls_tensor loss = ls_reduce_mean(terms, LS_AXES(0));
  ls_optimizer_minimize(m->optimizer, loss);
  return ls_leaf(ls_examples_mean(loss));
}

// Makes batches in another order each epoch, split over the replicas.
ls_iterator *make_batches(ls_bag *bag) {
  ls_synthetic_options examples{};
  examples.shape = LS_SHAPE(kWidth);
  examples.num_classes = kClasses;
  ls_batch_options batches{};
  batches.size = kBatch;
  ls_dataset *data =
      ls_dataset_shuffle(ls_dataset_synthetic(&examples), nullptr);
  data = ls_dataset_parts(ls_dataset_batch(data, &batches), kReplicas);
  return ls_iterator_in(bag, ls_dataset_in(bag, data));
}

ls_status train(ls_bag *bag, double *first, double *last) {
  ls_mirrored_options replicas{};
  replicas.num_replicas = LS_SOME(kReplicas);
  ls_strategy *strategy = ls_mirrored_strategy_in(bag, replicas);
  ls_adam_options adam{};
  adam.learning_rate = 0.01;
  net m = {dense(bag, "hidden", kWidth, 32), dense(bag, "output", 32, kClasses),
           ls_adam_in(bag, adam)};
  ls_function_options options{};
  options.call = step;
  options.user = &m;
  ls_function *function = ls_function_in(bag, options);
  ls_iterator *batches = make_batches(bag);
  ls_nest *batch = ls_nest_in(bag, ls_none());
  ls_nest *loss = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  for (int i = 0; ls_iterator_epoch(batches) < kEpochs;) {
    const ls_status status = ls_iterator_next(batches, batch);
    if (ls_status_code(status) == LS_OUT_OF_RANGE) {  // The end of an epoch.
      ls_status_free(status);
      LS_RETURN_IF_ERROR(ls_iterator_restart(batches));
      continue;
    }
    LS_RETURN_IF_ERROR(status);
    LS_RETURN_IF_ERROR(
        ls_strategy_run(strategy, ls_traced(function), *batch, loss));
    *(i++ == 0 ? first : last) =
        ls_nest_number(ls_distributed_component(*loss, 0));
  }
  return ls_ok();
}

}  // namespace

int main() {
  bag all;
  double first = 0, last = 0;
  const ls_status status = train(&all, &first, &last);
  std::printf("loss %.4f, then %.4f %s\n", first, last,
              ls_status_message(status));
  ls_status_free(status);
  return last < first / 4 ? 0 : 1;
}
