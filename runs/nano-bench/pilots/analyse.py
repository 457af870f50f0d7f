"""Sums up pilots: deviation between shapes and seeds, tau between halves of the seeds, of size.

    python analyse.py FILE...
"""
import json, sys
from collections import defaultdict
from itertools import combinations
import numpy as np
from scipy.stats import kendalltau

KEYS = ("space", "dataset", "size", "batch", "lr", "opt", "schedule", "decay", "steps", "step")

def halves(values):
    """The mean tau between the means of complementary halves of the seeds; and of the whole mean."""
    n = values.shape[1]
    taus = [kendalltau(values[:, list(h)].mean(1), values[:, [i for i in range(n) if i not in h]].mean(1))[0]
            for h in combinations(range(n), n // 2)]
    tau = float(np.mean(taus))
    return tau, 2 * tau / (1 + tau)

groups = defaultdict(list)
for path in sys.argv[1:]:
    for line in open(path):
        d = json.loads(line)
        groups[tuple(d.get(k, "adamw") for k in KEYS)].append(d)
print("| " + " | ".join(KEYS) + " | label | shapes | seeds | s/training | mean | SD shapes | SD seeds | tau halves | Spearman-Brown | tau params | flops | depth |")
print("|" + "---|" * (len(KEYS) + 12))
for key, rows in sorted(groups.items(), key=str):
    for label in ("ce_avg", "acc_avg", "train"):
        if label not in rows[0]: continue
        table = defaultdict(dict); facts = {}
        for d in rows:
            table[d["index"]][d["seed"]] = d[label]; facts[d["index"]] = (d["params"], d["flops"], d["depth"])
        seeds = max(len(v) for v in table.values())
        full = [i for i in sorted(table) if len(table[i]) == seeds]
        if len(full) < 4 or seeds < 2: continue
        v = np.array([[table[i][s] for s in sorted(table[i])] for i in full])
        if label != "acc_avg": v = -v
        within = np.sqrt((v - v.mean(0)).var(1, ddof=1).mean())
        between = np.sqrt(max(0, v.mean(1).var(ddof=1) - within**2 / seeds))
        tau, sb = halves(v)
        t = [kendalltau([facts[i][j] for i in full], v.mean(1))[0] for j in range(3)]
        s = np.mean([d["seconds"] for d in rows])
        print("| " + " | ".join(map(str, key)) + f" | {label} | {len(full)} | {seeds} | {s:.1f} | {abs(v.mean()):.3f} | {between:.4f} | {within:.4f} | {tau:.2f} | {sb:.2f} | {t[0]:.2f} | {t[1]:.2f} | {t[2]:.2f} |")
