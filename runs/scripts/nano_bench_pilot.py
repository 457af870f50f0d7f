"""Trains some shapes of one size in a trial regime; appends the scores of every checkpoint.

    python runs/scripts/nano_bench_pilot.py SPACE DATASET OUT --size 40000 --shapes 20 --seeds 2 ...

The learning rate warms up and stays; checkpoints are averages of the weights (exponential), so that
one training shows what shorter ones would have given. With --schedule cosine the last counts.
"""

import argparse
import copy
import json
import math
import random
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from autoprox.searchspaces import SPACES

torch.set_num_threads(1)
torch.set_flush_denormal(True)
DATA = Path("DATA")  # what nano_bench_data.py wrote
TEXTS = ("python-sources", "english-docs")


def options():
    p = argparse.ArgumentParser()
    p.add_argument("space"), p.add_argument("dataset"), p.add_argument("out")
    p.add_argument("--size", type=float, default=40e3)
    p.add_argument("--shapes", type=int, default=20)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--seeds", type=int, default=2)
    p.add_argument("--batch", type=int, default=128)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--wd", type=float, default=0.05)
    p.add_argument("--decay", type=float, default=0.99)  # of the averaged weights, each step
    p.add_argument("--schedule", default="constant")
    p.add_argument("--opt", default="adamw")
    p.add_argument("--muon", type=float, default=0.02)
    p.add_argument("--pos", type=float, default=1)
    p.add_argument("--residual", type=int, default=0)
    p.add_argument("--mirror", type=int, default=0)
    p.add_argument("--held", type=int, default=0)  # 0: all
    p.add_argument("--at", type=int, nargs="+", default=[200, 400, 800])
    return p.parse_args()


class Muon(torch.optim.Optimizer):
    """Momentum whose singular values are brought near one, scaled to a width-free step."""

    def __init__(self, params, lr, momentum=0.95):
        super().__init__(params, {"lr": lr, "momentum": momentum})
        self.buffers = {id(p): torch.zeros_like(p) for g in self.param_groups for p in g["params"]}

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            by_shape = {}
            for p in group["params"]:
                buffer = self.buffers[id(p)]
                buffer.lerp_(p.grad, 1 - group["momentum"])
                by_shape.setdefault(p.shape, []).append((p, p.grad.lerp(buffer, group["momentum"])))
            for shape, pairs in by_shape.items():
                updates = orthogonal(torch.stack([u for _, u in pairs]))
                scale = group["lr"] * max(1, shape[0] / shape[1]) ** 0.5
                for (p, _), update in zip(pairs, updates, strict=False):
                    p.sub_(update, alpha=scale)


def orthogonal(m):
    turned = m.shape[1] > m.shape[2]
    x = m.mT if turned else m
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x.mT @ x
        x = x @ (3.4445 * torch.eye(a.shape[1]) - 4.775 * a + 2.0315 * a @ a)
    return x.mT if turned else x


def shapes(space, size, count):
    rng = random.Random(1)
    found = []
    while len(found) < count:
        a = space.sample(rng)
        if abs(space.params(a, 10) / size - 1) < 0.05 and a not in found:
            found.append(a)
    return found


def images(name):
    out = []
    for part in ("", ".test"):
        d = np.load(DATA / f"{name}{part}.npz")
        x = torch.from_numpy(d["images"]).float().div_(255)
        if not part:
            mean, std = x.mean((0, 1, 2)), x.std((0, 1, 2))
        out += [((x - mean) / std).permute(0, 3, 1, 2).contiguous(), torch.from_numpy(d["labels"])]
    return out


def text(name, length):
    t = np.frombuffer((DATA / f"{name}.txt").read_bytes(), dtype=np.uint8)
    t = torch.from_numpy(t.astype(np.int64))
    cut = len(t) - len(t) // 5
    return t[:cut], t[cut:]


def main():
    o = options()
    space = SPACES[o.space]
    is_text = o.dataset in TEXTS
    data = text(o.dataset, 64) if is_text else images(o.dataset)
    for index, arch in list(enumerate(shapes(space, o.size, o.shapes)))[o.first :]:
        for seed in range(o.seeds):
            run(o, space, is_text, data, index, arch, seed)


def run(o, space, is_text, data, index, arch, seed):
    net = space.build(arch, 10, seed)
    if o.pos != 1:
        net.position.data.mul_(o.pos)
    if o.residual:
        for block in net.transformer_blocks:
            for layer in (block.proj, block.fc2):
                layer.weight.data.div_(math.sqrt(2 * len(net.transformer_blocks)))
    avg = copy.deepcopy(net).requires_grad_(False)
    matrices = [layer.weight for _, layer in net.layers()] if o.opt == "muon" else []
    ids = set(map(id, matrices))
    others = [p for p in net.parameters() if id(p) not in ids]
    opts = [torch.optim.AdamW(others, lr=o.lr, weight_decay=o.wd, fused=True)]
    if matrices:
        opts.append(Muon(matrices, o.muon))
    g = torch.Generator().manual_seed(seed)
    steps, length = max(o.at), 64
    n = len(data[0])
    begin, spent, train_losses = time.process_time(), 0.0, []
    order = torch.cat([torch.randperm(n, generator=g) for _ in range(1 + steps * o.batch // n)])
    for step in range(1, steps + 1):
        f = min(1, step / (0.1 * min(o.at)))
        if o.schedule == "cosine":
            f = min(step / (0.1 * steps), (1 + math.cos(math.pi * step / steps)) / 2)
        elif o.schedule == "linear":
            f = min(step / (0.1 * steps), 1 - (step - 1) / steps)
        for opt, base in zip(opts, (o.lr, o.muon), strict=False):
            for group in opt.param_groups:
                group["lr"] = base * f
        if is_text:
            b = torch.randint(n - length - 1, (o.batch,), generator=g)
            w = data[0][b[:, None] + torch.arange(length + 1)]
            loss = functional.cross_entropy(net(w[:, :-1]).flatten(0, 1), w[:, 1:].flatten())
        else:
            c = order[(step - 1) * o.batch : step * o.batch]
            x = data[0][c]
            if o.mirror:
                m = torch.rand(len(x), 1, 1, 1, generator=g) < 0.5
                x = torch.where(m, x.flip(3), x)
            loss = functional.cross_entropy(net(x), data[1][c])
        net.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        for opt in opts:
            opt.step()
        train_losses.append(loss.item())
        d = min(o.decay, 1 - 1 / step)
        torch._foreach_lerp_(list(avg.parameters()), [p.data for p in net.parameters()], 1 - d)
        if step in o.at:
            spent = time.process_time() - begin
            pause = time.process_time()
            scores = {w: evaluate(m, is_text, data, o.held) for w, m in (("avg", avg),)}
            begin += time.process_time() - pause
            line = {
                **{k: v for k, v in vars(o).items() if k not in ("out", "at", "first")},
                **{"steps": steps, "step": step, "index": index, "seed": seed},
                "arch": arch.to_json()["choices"],
                "params": space.params(arch, 10),
                "flops": space.flops(arch, 10),
                "depth": len(space.blocks(arch)),
                "seconds": round(spent, 2),
                "train": float(np.mean(train_losses[-50:])),
                **{f"{m}_{w}": v for w, s in scores.items() for m, v in s.items()},
            }
            with open(o.out, "a") as f_:
                f_.write(json.dumps(line) + "\n")


@torch.no_grad()
def evaluate(net, is_text, data, held):
    net.eval()
    total = right = count = 0
    if is_text:
        t, length = data[1], 64
        begins = torch.arange(0, len(t) - length - 1, length)
        begins = begins[:: max(1, len(begins) // (held or 4000))]
        for some in begins.split(250):
            w = t[some[:, None] + torch.arange(length + 1)]
            z, y = net(w[:, :-1]).flatten(0, 1), w[:, 1:].flatten()
            total += functional.cross_entropy(z, y, reduction="sum").item()
            count += len(y)
    else:
        for x, y in zip(data[2].split(500), data[3].split(500), strict=False):
            z = net(x)
            total += functional.cross_entropy(z, y, reduction="sum").item()
            right += int((z.argmax(1) == y).sum())
            count += len(y)
    net.train()
    return {"ce": total / count} if is_text else {"ce": total / count, "acc": 100 * right / count}


main()
