"""Packets over eight planes while links come and go: what a permutation of 2 ms loses.

    python examples/mrc.py [SECONDS [RATE]]

The case of MRC (OpenAI and others, arXiv 2605.04333): 128 GPUs with a port in each of eight planes; a tenth
of the cables are gone for 50 to 200 us each, a T1 switch for 500 us, and no route changes. SECONDS: declared
time of the permutation on healthy links, 2e-3 if it is left out; RATE: bit/s of the eight ports of a GPU
together, 400e9 if it is left out. It takes a minute and 1 GB.
"""

import random
import sys

import railweave as rw
from railweave.framework.model import Fabric

SCALE = 1e-4
"""Declared time over the run's, so that 2 ms are 20 s of it."""
FABRIC = {
    "name": "clos", "planes": 8, "servers": 16, "gpus": 8, "t0": 8, "t1": 8, "link_latency": "500ns",
}  # fmt: skip
WAYS = {
    "in turn": {},
    "REPS": {"chooser": "reps"},
    "adaptive switches": {"engine": {"name": "packet", "adaptive": "packet"}},
}
"""How packets are spread."""


def faults(fabric: Fabric, seconds: float, seed: int = 1) -> list[str]:
    """A tenth of the cables, each down once, and the first T1 of the first plane."""
    draw = random.Random(seed)
    cables = draw.sample(range(0, fabric.n_links, 2), fabric.n_links // 20)
    texts = [f"at=iter:0+{0.3 * seconds / SCALE:.6f}s kill switch:b0.0.0 back={500e-6 / SCALE}s"]
    for cable in cables:
        down_s = draw.uniform(0, 0.9 * seconds)
        up_s = down_s + draw.uniform(50e-6, 200e-6)
        for at_s, verb in ((down_s, "down"), (up_s, "up")):
            texts.append(f"at=iter:0+{at_s / SCALE:.6f}s {verb} link:{fabric.link_name(cable)}")
    return texts


def main(seconds: float = 2e-3, rate_bps: float = 400e9) -> None:
    size = int(seconds * rate_bps / 8)
    keys = {
        "topology": {**FABRIC, "gpu_rate": rate_bps}, "router": "spray", "collective": "permutation",
        "size": size, "iterations": 1, "feedback": False, "rate_scale": SCALE, "engine": "packet",
    }  # fmt: skip
    fabric = rw.load(**keys, faults="none").fabric
    lost = faults(fabric, seconds)
    say = sys.stdout.write
    say(f"{'':18}  {'time':>7}  {'slowdown P50':>12}  {'P99':>4}  {'sent again':>10}\n")
    for name, way in WAYS.items():
        row = rw.run(**{**keys, **way}, faults=lost).rows[0]
        assert row.slowdown is not None and row.retransmitted is not None
        slowdown, again = row.slowdown[0], row.retransmitted / row.packets
        say(
            f"{name:18}  {row.declared_time_us:4.0f} us  {slowdown.p50:12.2f}"
            f"  {slowdown.p99 or slowdown.max:4.2f}  {again:10.1%}\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
