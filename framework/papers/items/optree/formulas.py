"""Items by formula: lemmas, theorems, Table I and the figures of times."""

from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from types import MappingProxyType

import numpy as np

from railweave.framework.drawing.plots import Axis, Curve, curves
from railweave.framework.papers.items.item import Claim, Claims
from railweave.framework.papers.items.workbench import Workbench
from railweave.framework.papers.optical.arcs import colour_intervals, ring_exchange
from railweave.framework.papers.optical.closed_forms import (
    RATE_BPS,
    RECONFIGURATION_S,
    arity_for,
    deepest,
    neighbor_exchange_steps,
    optimal_depth,
    ring_steps,
    ring_wavelengths,
    steps,
    time_s,
    wrht_steps,
)
from railweave.framework.papers.optical.optree import integer_steps

SIZES = (512, 1024, 2048, 4096)
"""Nodes of figure 4."""


ITEMS_BYTES = tuple(float(2**power) for power in range(22, 28))
"""4 MiB to 128 MiB, figures 5 and 6."""


BASELINES: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "WRHT": wrht_steps,
        "Ring": lambda nodes, _: ring_steps(nodes),
        "NE": lambda nodes, _: neighbor_exchange_steps(nodes),
    }
)
"""Steps by Table I, of nodes and wavelengths."""


def o02(workbench: Workbench, *, points: Sequence[int] = (4, 5, 8, 15), nodes: int = 1024) -> Claims:
    """Lemma 1 against colourings of the whole exchange, Lemma 2 against every tree's leaves."""
    figures = []
    for n in points:
        pairs = np.array([(a, b) for a in range(n) for b in range(a + 1, n)])
        colours = colour_intervals(pairs[:, 0], pairs[:, 1], np.ones(len(pairs), np.int64))
        line = len(np.unique(np.concatenate(colours)))
        around = int(ring_exchange(n).colour.max()) + 1
        figures.append(Claim(f"line of {n}: floor(n^2 / 4)", n * n // 4, line, "wavelengths"))
        printed = ring_wavelengths(n, published=True)
        figures.append(Claim(f"ring of {n}: ceil(n^2 / 8)", printed, around, "wavelengths"))
    short = sum(arity_for(nodes, depth) ** depth < nodes for depth in range(1, deepest(nodes) + 1))
    figures.append(Claim(f"trees with m = ceil(N^(1/k)) and fewer than {nodes} leaves", 0, short))
    return Claims(tuple(figures))


def o03(workbench: Workbench, *, nodes: int = 16, wavelengths: int = 2) -> Claims:
    """The example: steps with one stage, and by stage with arity 4 and 3; the picture has every arity."""

    def text(arity: int) -> str:
        return " + ".join(map(str, integer_steps(nodes, wavelengths, arity)))

    def total(arity: int) -> int:
        return sum(integer_steps(nodes, wavelengths, arity))

    arities = [*range(2, nodes + 1)]
    drawn = [Curve("steps", [*map(float, arities)], [float(total(m)) for m in arities])]
    return Claims(
        (
            Claim("one stage", 16, total(nodes), "steps"),
            Claim("4-ary, by stage", "4 + 8", text(4), "steps"),
            Claim("4-ary", 12, total(4), "steps"),
            Claim("3-ary", 12, total(3), "steps", bound=">"),
            Claim("3-ary, by stage", None, text(3), "steps"),
        ),
        curves(f"{nodes} nodes, {wavelengths} wavelengths", Axis("arity"), Axis("steps"), drawn),
    )


def o05(
    workbench: Workbench,
    *,
    wavelengths: int = 64,
    sizes: Sequence[int] = SIZES,
    item_bytes: float = 4.0 * 2**20,
    rate_bps: float = RATE_BPS,
    step_s: float = RECONFIGURATION_S,
) -> Claims:
    """Depths of Theorem 2 against the least steps by Theorem 1, and the time of Theorem 3."""
    printed = dict(zip(SIZES, (6, 6, 7, 8), strict=True))
    figures = []
    for nodes in sizes:
        depth = optimal_depth(nodes)
        least = min(steps(nodes, wavelengths, k) for k in range(1, deepest(nodes) + 1))
        figures.append(Claim(f"best depth, N = {nodes}", printed.get(nodes), depth))
        figures.append(Claim(f"least steps over all depths, N = {nodes}", least,
                              steps(nodes, wavelengths, depth)))  # fmt: skip
    nodes = 1024
    count = steps(nodes, wavelengths, optimal_depth(nodes))
    seconds = time_s(count, count, item_bytes, rate_bps, step_s)
    figures += [
        Claim("best depth, N = 1024, as Table I has it", 7, optimal_depth(nodes)),
        Claim("time, N = 1024", count * (item_bytes * 8 / rate_bps + step_s), seconds, "s"),
    ]
    return Claims(tuple(figures))


def o06(workbench: Workbench, *, nodes: int = 1024, wavelengths: int = 64) -> Claims:
    """Table I: steps of all five algorithms."""
    printed = {"Ring": 1023, "NE": 512, "WRHT": 259}
    ours = {name: formula(nodes, wavelengths) for name, formula in BASELINES.items()}
    rows = [Claim(name, printed[name], ours[name], "steps") for name in printed]
    depth = optimal_depth(nodes)
    rows += [
        Claim("One-stage", 128, steps(nodes, wavelengths, 1), "steps"),
        Claim("OpTree", 70, steps(nodes, wavelengths, depth), "steps"),
        Claim("OpTree, depth", 7, depth),
        Claim("OpTree, steps at depth 7", 70, steps(nodes, wavelengths, 7), "steps"),
    ]
    return Claims(tuple(rows))


def o09(workbench: Workbench, *, wavelengths: int = 64, sizes: Sequence[int] = SIZES) -> Claims:
    """Steps over depth relative to one stage, and what the best depth saves on average."""
    saved, drawn = [], []
    for nodes in sizes:
        one_stage = steps(nodes, wavelengths, 1)
        saved.append(1 - steps(nodes, wavelengths, optimal_depth(nodes)) / one_stage)
        depths = [*range(1, deepest(nodes) + 1)]
        shares = [steps(nodes, wavelengths, depth) / one_stage for depth in depths]
        drawn.append(Curve(f"N = {nodes}", [*map(float, depths)], shares))
    return Claims(
        (
            Claim("mean reduction against one stage", 96.85, 100 * mean(saved), "%"),
            *(
                Claim(f"reduction, N = {n}", None, 100 * part, "%")
                for n, part in zip(sizes, saved, strict=True)
            ),
        ),
        curves("time over that of one stage", Axis("depth"), Axis("normalised time"), drawn),
    )


def reductions(nodes: Sequence[int], wavelengths: Sequence[int]) -> dict[str, float]:
    """What OpTree saves against each baseline, in percent, mean over all nodes and wavelengths."""
    return {
        name: 100 * mean(
            1 - steps(n, w, optimal_depth(n)) / formula(n, w) for n in nodes for w in wavelengths
        )
        for name, formula in BASELINES.items()
    }  # fmt: skip


def times_by_size(nodes: int, wavelengths: int, item_bytes: Sequence[float]) -> list[Curve]:
    """Seconds of every algorithm over the size of an item, by equation 3."""
    counts = {name: formula(nodes, wavelengths) for name, formula in BASELINES.items()}
    counts["OpTree"] = steps(nodes, wavelengths, optimal_depth(nodes))
    return [
        Curve(
            f"{name}, N = {nodes}, w = {wavelengths}",
            [size / 2**20 for size in item_bytes],
            [time_s(count, count, size) for size in item_bytes],
        )
        for name, count in counts.items()
    ]


FIGURE_5 = {"WRHT": 56.36, "Ring": 92.76, "NE": 85.54}


FIGURE_6 = {"WRHT": 88.06, "Ring": 95.84, "NE": 91.69}


HEADLINE = {"WRHT": 72.21, "Ring": 94.30, "NE": 88.58}
"""Mean reductions in percent as printed."""


def o10(
    workbench: Workbench, *, nodes: Sequence[int] = (1024, 2048), wavelengths: Sequence[int] = (64,)
) -> Claims:
    """Figure 5: all algorithms over the size of an item."""
    return _reduced(FIGURE_5, nodes, wavelengths, "time of an all-gather")


def o11(
    workbench: Workbench, *, nodes: Sequence[int] = (1024,), wavelengths: Sequence[int] = (96, 128)
) -> Claims:
    """Figure 6: the same with more wavelengths."""
    return _reduced(FIGURE_6, nodes, wavelengths, "time of an all-gather, more wavelengths")


def _reduced(
    printed: dict[str, float], nodes: Sequence[int], wavelengths: Sequence[int], title: str
) -> Claims:
    ours = reductions(nodes, wavelengths)
    drawn = [c for n in nodes for w in wavelengths for c in times_by_size(n, w, ITEMS_BYTES)]
    size, seconds = Axis("item, MiB"), Axis("s")
    figures = tuple(Claim(f"reduction against {name}", printed[name], ours[name], "%") for name in printed)
    return Claims(figures, curves(title, size, seconds, drawn))


def o12(
    workbench: Workbench,
    *,
    nodes: Sequence[int] = (1024, 2048),
    more_wavelengths: Sequence[int] = (96, 128),
) -> Claims:
    """The averages of figures 5 and 6 together."""
    first, second = reductions(nodes, (64,)), reductions(nodes[:1], more_wavelengths)
    return Claims(
        tuple(
            Claim(f"reduction against {name}", HEADLINE[name], mean((first[name], second[name])), "%")
            for name in HEADLINE
        )
    )
