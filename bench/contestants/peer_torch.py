# SPDX-License-Identifier: Apache-2.0
"""PyTorch: modules with fused optimizers, eager or through torch.compile.

Replicas are processes under DistributedDataParallel with gloo, each with its
share of the threads. This process is rank 0 and starts the others.
"""

import os

import peer
import ranks

args = peer.arguments()
if args.replicas > 1:
    os.environ["OMP_NUM_THREADS"] = str(max(1, args.threads // args.replicas))
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

WIDE = torch.float64 if args.precision == "f64" else torch.float32


def conv(inputs, outputs, size=3, stride=1, bias=False):
    """With the padding that "same" means for images of even size."""
    if stride == 1:
        return nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=bias)
    # Nothing in front, what is missing behind.
    layer = nn.Conv2d(inputs, outputs, size, stride, bias=bias)
    return nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), layer) if size > 1 \
        else layer


def batch_norm(channels):
    return nn.BatchNorm2d(channels, eps=peer.BN_EPSILON,
                          momentum=1 - peer.BN_MOMENTUM)


def perceptron(*sizes):
    layers = []
    for inputs, outputs in zip(sizes, sizes[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def cnn():
    return nn.Sequential(
        conv(1, 32, bias=True), nn.ReLU(), conv(32, 64, bias=True), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 14 * 14, 128), nn.ReLU(),
        nn.Linear(128, 10))


class Block(nn.Module):
    def __init__(self, inputs, outputs, halves):
        super().__init__()
        self.conv1 = conv(inputs, outputs, stride=2 if halves else 1)
        self.norm1 = batch_norm(outputs)
        self.conv2 = conv(outputs, outputs)
        self.norm2 = batch_norm(outputs)
        self.projection = conv(inputs, outputs, 1, 2) if halves else None

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        y = self.norm2(self.conv2(y))
        if self.projection is not None:
            x = self.projection(x)
        return F.relu(x + y, inplace=True)


def resnet20():
    blocks = []
    for stage, _, halves in peer.resnet_units():
        outputs = 8 << stage
        blocks.append(Block(outputs // 2 if halves else outputs, outputs,
                            halves))
    return nn.Sequential(
        conv(3, 16), batch_norm(16), nn.ReLU(inplace=True), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class GptBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width, eps=peer.LN_EPSILON)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm2 = nn.LayerNorm(width, eps=peer.LN_EPSILON)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        batch, size, width = x.shape
        qkv = self.qkv(self.norm1(x))
        q, k, v = (part.view(batch, size, self.heads, -1).transpose(1, 2)
                   for part in qkv.chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, size, width))
        y = F.gelu(self.up(self.norm2(x)), approximate="tanh")
        return x + self.down(y)


class Gpt(nn.Module):
    def __init__(self, name):
        super().__init__()
        _, size, width, blocks, heads = peer.GPTS[name]
        self.embedding = nn.Embedding(peer.VOCABULARY, width)
        self.positions = nn.Parameter(torch.empty(size, width))
        self.blocks = nn.Sequential(*[GptBlock(width, heads)
                                      for _ in range(blocks)])
        self.norm = nn.LayerNorm(width, eps=peer.LN_EPSILON)

    def forward(self, tokens):
        x = self.blocks(self.embedding(tokens) + self.positions)
        return F.linear(self.norm(x), self.embedding.weight)


MODELS = {
    "tiny": lambda: perceptron(16, 16, 4),
    "mlp": lambda: perceptron(784, 512, 512, 10),
    "cnn": cnn,
    "resnet20": resnet20,
    "gpt": lambda: Gpt("gpt"),
    "gpt-large": lambda: Gpt("gpt-large"),
}


def slots_of(name, net):
    """What the weights go to, in the order in which they are exported."""
    if name not in peer.GPTS:
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                yield from (module.weight, module.bias, module.running_mean,
                            module.running_var)
            elif isinstance(module, (nn.Conv2d, nn.Linear)):
                yield module.weight
                if module.bias is not None:
                    yield module.bias
        return
    yield net.embedding.weight
    yield net.positions
    for b in net.blocks:
        yield from (b.norm1.weight, b.norm1.bias, b.qkv.weight, b.out.weight,
                    b.norm2.weight, b.norm2.bias, b.up.weight, b.down.weight)
    yield from (net.norm.weight, net.norm.bias)


@torch.no_grad()
def fill(name, net, weights):
    slots = list(slots_of(name, net))
    assert len(slots) == len(weights), (len(slots), len(weights))
    for slot, (key, w) in zip(slots, weights.items()):
        w = torch.from_numpy(w.copy())
        if w.ndim == 4:
            w = w.permute(3, 2, 0, 1)  # HWIO to OIHW.
        elif key.endswith("/kernel"):
            w = w.T
        if key == "hidden/kernel":  # Behind the pool: from HWC to CHW.
            w = w.view(-1, 14, 14, 64).permute(0, 3, 1, 2).flatten(1)
        slot.copy_(w)


def optimizer_of(name, parameters):
    kind, rate = peer.OPTIMIZERS[name]
    if kind == "adam":
        graph = {"capturable": True} if args.graph else {}
        return torch.optim.Adam(parameters, rate, fused=True, **graph)
    momentum = 0.9 if kind == "momentum" else 0
    return torch.optim.SGD(parameters, rate, momentum, fused=True)


def capture(run):
    """The step as a CUDA graph, which is launched at once."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = run()

    def replay():
        graph.replay()
        return loss

    return replay


def main():
    many = args.replicas > 1
    others = ranks.Others(args)
    torch.set_num_threads(max(1, args.threads // args.replicas))
    torch.set_flush_denormal(True)
    if many:
        torch.distributed.init_process_group(
            "gloo", init_method=args.meet, rank=args.rank,
            world_size=args.replicas)
    device = "cuda" if args.device == "gpu" else "cpu"
    if device == "cuda":
        tf32 = args.products == "default"
        torch.backends.cuda.matmul.allow_tf32 = tf32
        torch.backends.cudnn.allow_tf32 = tf32
    weights, x, labels = (peer.load(args.weights) if args.weights
                          else peer.make_gpt(args.model))
    net = MODELS[args.model]().to(WIDE)
    fill(args.model, net, weights)
    share = len(labels) // args.replicas
    mine = slice(args.rank * share, (args.rank + 1) * share)
    x = torch.from_numpy(x[mine].copy())
    labels = torch.from_numpy(labels[mine].copy()).long().flatten()
    if x.ndim == 4:
        x = x.permute(0, 3, 1, 2).contiguous()
        # Faster for resnet20 by a fifth, and as fast for cnn.
        net = net.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    x = x.to(WIDE) if x.is_floating_point() else x.long()
    net, x, labels = net.to(device), x.to(device), labels.to(device)
    if many:
        net = nn.parallel.DistributedDataParallel(
            net, broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = optimizer_of(args.model, net.parameters())

    def loss_of(x, labels):
        with torch.autocast(device, torch.bfloat16,
                            enabled=args.precision == "bf16"):
            logits = net(x)
        return F.cross_entropy(logits.flatten(0, -2).to(WIDE), labels)

    if args.compile:
        loss_of = torch.compile(loss_of)

    def start():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(x, labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if args.graph:
        start = capture(start)

    def mean(loss):
        if not many:
            return loss
        losses = torch.tensor(loss)
        torch.distributed.all_reduce(losses)
        return losses.item() / args.replicas

    peer.answer(lambda: start().item(), others.tell, mean, start)
    others.close()
    if many:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
