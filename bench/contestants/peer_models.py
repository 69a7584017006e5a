# SPDX-License-Identifier: Apache-2.0
"""The models of peers that are functions of weights, which stand in a dict by
their names. What a framework does in its own way it brings along."""

import peer


def models(dense, conv, batch_norm, relu, mean_of_images):
    """Those that are the same in any framework: model(weights, stats, x)."""

    def tiny(p, stats, x):
        return dense(p, "logits", relu(dense(p, "hidden1", x)))

    def mlp(p, stats, x):
        x = relu(dense(p, "hidden1", x))
        return dense(p, "logits", relu(dense(p, "hidden2", x)))

    def resnet20(p, stats, x):
        def unit(name, x, stride=1):
            return batch_norm(p, stats, f"{name}/norm",
                              conv(p, f"{name}/conv", x, stride))

        x = relu(unit("stem", x))
        for stage, block, halves in peer.resnet_units():
            name = f"stage{stage}/block{block}"
            y = relu(unit(f"{name}/unit1", x, 2 if halves else 1))
            y = unit(f"{name}/unit2", y)
            if halves:
                x = conv(p, f"stage{stage}/projection", x, 2)
            x = relu(x + y)
        return dense(p, "logits", mean_of_images(x))

    return {"tiny": tiny, "mlp": mlp, "resnet20": resnet20}
