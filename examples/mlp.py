# SPDX-License-Identifier: Apache-2.0
"""From Python, with ctypes alone: the model `mlp` as a program writes it,
trained on eight replicas, here or on the ranks that mpirun starts. The weights
have the bytes of `lockstep train --model mlp --replicas 8`.

  python3 mlp.py [RUN_FOLDER [STEPS]]
"""

import sys

import lockstep as ls

LAYERS = [("hidden1", 784, 512, "relu"), ("hidden2", 512, 512, "relu"),
          ("logits", 512, 10, "none")]


def make_mlp():
  """Returns the model, and its step alone."""
  layers = [ls.dense_layer(name=name, inputs=inputs, units=units,
                           activation=activation)
            for name, inputs, units, activation in LAYERS]
  optimizer = ls.sgd(learning_rate=0.1)

  def logits(x, *_):
    for layer in layers:
      x = layer.apply(x)
    return x

  def step(x, labels):
    found = logits(x)
    loss = ls.mean_softmax_cross_entropy(found, labels)
    optimizer.minimize(loss)
    return {"loss": loss, "accuracy": ls.accuracy(found, labels)}

  variables = [v for layer in layers for v in ls.variables_of(layer)]
  return ls.Model("mlp", step, logits, variables, optimizer,
                  example_shape=(784,), num_classes=10, batch_size=256,
                  epochs=20, learning_rate=0.1), step


def train(run_folder=None, steps=32):
  """Trains, and returns the accuracy of the last epoch."""
  strategy = ls.mirrored_strategy(num_replicas=8)
  with strategy.scope():
    model, _ = make_mlp()
  data = ls.dataset_synthetic(size=8192, shape=(784,), num_classes=10)
  accuracy = []
  ls.train(model=model, strategy=strategy, train=data, steps=steps,
           run_folder=run_folder, report=lambda r: accuracy.append(r.accuracy))
  return accuracy[-1]


if __name__ == "__main__":
  with ls.ranks() as ranks:
    reached = train(*sys.argv[1:2], *map(int, sys.argv[2:3]))
  if ranks.rank == 0:
    print("accuracy %.1f%%" % (100 * reached))
  sys.exit(0 if reached > 0.2 else 1)
