// SPDX-License-Identifier: Apache-2.0
// From C++17, by lockstep.hpp: the model `mlp` as a program writes it, with
// lambdas for its step and its logits, trained on eight replicas, here or on
// the ranks that mpirun starts. The weights have the bytes of
// `lockstep train --model mlp --replicas 8`.
//
//   mlp [RUN_FOLDER [STEPS]]
#include <cstdio>
#include <cstdlib>

#include "lockstep/lockstep.hpp"

namespace {

constexpr int kReplicas = 8, kClasses = 10;

using layer = lockstep::owned<ls_dense_layer>;

layer dense(const char *name, int inputs, int units,
            ls_activation activation = LS_ACTIVATION_NONE) {
  ls_dense_options options{};
  options.name = name;
  options.inputs = inputs;
  options.units = units;
  options.activation = activation;
  return lockstep::make<ls_dense_layer_create>(options);
}

ls_model_type describe() {
  ls_model_type type{};
  type.name = "mlp";
  type.batch_size = 256;
  type.epochs = 20;
  type.learning_rate = 0.1;
  type.example_dtype = LS_DTYPE_F32;
  type.example_shape = LS_SHAPE(784);
  type.num_classes = kClasses;
  return type;
}

lockstep::dataset examples() {
  ls_synthetic_options options{};
  options.size = 8192;
  options.shape = LS_SHAPE(784);
  options.num_classes = kClasses;
  return lockstep::dataset(ls_dataset_synthetic(&options));
}

double train(const char *run_folder, int steps) {
  ls_mirrored_options replicas{};
  replicas.num_replicas = LS_SOME(kReplicas);
  const auto strategy = lockstep::make<ls_mirrored_strategy_create>(replicas);
  ls_sgd_options sgd{};
  sgd.learning_rate = 0.1;
  const auto optimizer = lockstep::make<ls_sgd_create>(sgd);

  const layer layers[] = {dense("hidden1", 784, 512, LS_ACTIVATION_RELU),
                          dense("hidden2", 512, 512, LS_ACTIVATION_RELU),
                          dense("logits", 512, kClasses)};
  std::vector<ls_variable *> variables;
  for (const layer &each : layers)
    for (ls_variable *variable :
         lockstep::variables<ls_dense_layer_variables>(each.get()))
      variables.push_back(variable);

  const auto logits = [&](ls_nest args) {
    ls_tensor x = ls_nest_tensor(args, 0);
    for (const layer &each : layers)
      x = ls_dense_layer_apply(each, x);
    return x;
  };
  const auto step = [&](ls_nest args) {
    const ls_tensor found = logits(args), labels = ls_nest_tensor(args, 1);
    const ls_tensor loss = ls_mean_softmax_cross_entropy(found, labels);
    ls_optimizer_minimize(optimizer, loss);
    return lockstep::nest::dict(
        std::make_pair("loss", loss),
        std::make_pair("accuracy", ls_accuracy(found, labels)));
  };
  const lockstep::model model(describe(), step, logits, variables, optimizer);

  const lockstep::dataset data = examples();
  double accuracy = 0;
  ls_train_options options{};
  options.model = model;
  options.strategy = strategy;
  options.train = data;
  options.steps = steps;
  options.run_folder = run_folder;
  options.report = [](void *user, const ls_train_report *report) {
    *static_cast<double *>(user) = report->accuracy;
  };
  options.report_user = &accuracy;
  lockstep::train(options);
  return accuracy;
}

}  // namespace

int main(int argc, char **argv) {
  try {
    lockstep::ranks ranks;
    ls_runtime_options options{};
    options.communicator = ranks;
    lockstep::runtime runtime(options);
    const double accuracy =
        train(argc > 1 ? argv[1] : nullptr, argc > 2 ? std::atoi(argv[2]) : 32);
    if (ranks.rank() == 0) std::printf("accuracy %.1f%%\n", 100 * accuracy);
    runtime.close();
    ranks.close();
    return accuracy > 0.2 ? 0 : 1;
  } catch (const std::exception &failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}
