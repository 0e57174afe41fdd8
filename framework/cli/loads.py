"""`railweave loads`: what traffic puts on every link, by the router's paths."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from railweave.framework.cli.context import example, json_option, print_json, table, verbose_option
from railweave.framework.cli.lookups import looked_up, lookup_options
from railweave.framework.cli.options import ExperimentCommand

if TYPE_CHECKING:
    from railweave.framework.demand import Demand
    from railweave.framework.model import Fabric
    from railweave.framework.throughput import LoadReport

SHOWN_CUT = 1000
QUIET_S = 2.0
"""Nobody needs a bar for less."""


@click.command(
    cls=ExperimentCommand,
    short_help="Say what traffic puts on every link; no lab.",
    epilog=example(
        "railweave loads --topology torus --shape 8x8x8 --router wfr --fault 'down ocs:X:0,0'",
        "railweave loads --domains 8 --rails 8 --pattern permutation --seed 7 --fault 'degrade rail:1 to=20%'",
    ),
)
@lookup_options
@click.option(
    "--pattern", "what", metavar="PATTERN", default="all-to-all", show_default=True,
    help="all-to-all or permutation (1 unit a pair), or a FILE: CSV or .npy, GPUs x GPUs bytes from row to column.",
)  # fmt: skip
@click.option(
    "--seed",
    "pattern_seed",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="Draws the permutation.",
)
@click.option(
    "--top",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="How many of the busiest links to list.",
)
@json_option
@verbose_option
@click.pass_context
def loads(
    ctx: click.Context, /, what: str, pattern_seed: int, top: int, as_json: bool, verbose: bool, **_: object
) -> None:
    """Compute the load of every link and the throughput beside the healthy fabric. No lab.

    Throughput is what all pairs can have alike, in proportion to what they ask for: the busiest link decides. A
    link that a fault left at 20 % counts with a fifth of its rate. With a pair cut off it is 0.
    """
    from railweave.framework.demand import pattern
    from railweave.framework.supposed_health import supposed
    from railweave.framework.throughput import report, tables_asked

    fabric, name, router, faults = looked_up(ctx)
    demand = pattern(what, fabric, pattern_seed)
    health = supposed(fabric, None, faults)
    pairs = fabric.n_gpus * (fabric.n_gpus - 1) if demand.uniform else len(demand.src)
    with _progress(pairs * tables_asked(health)) as watch:
        found = report(name, router, fabric, health, demand, watch)
    busiest = _busiest(found, fabric, top)
    if as_json:
        print_json(
            "loads",
            {
                "topology": fabric.kind, "options": dict(fabric.params), "router": name,
                "faults": [fault.text for fault in faults],
                "pattern": demand.name, "unit": demand.unit, "pairs": pairs,
                "kinds": [asdict(kind) for kind in found.kinds],
                "busiest": busiest,
                "unroutable": {
                    "pairs": len(found.cut), "amount": found.unroutable,
                    "first": [[fabric.node_name(int(a)), fabric.node_name(int(b))] for a, b in found.cut[:SHOWN_CUT]],
                },
                "throughput_ratio": found.ratio, "throughput_ratio_of_routed": found.ratio_of_routed,
            },
        )  # fmt: skip
        return
    click.echo(f"{demand.name} on {fabric.kind}, router {name}, {pairs} pairs; loads in {demand.unit}")
    for fault in faults:
        click.echo(f"after {fault.text}")
    click.echo("\n" + _told(found, fabric, demand, busiest))


def _busiest(found: LoadReport, fabric: Fabric, top: int) -> list[dict[str, object]]:
    """Links by the time they need, longest first; equal ones by id."""
    import numpy as np

    order = np.argsort(-found.busy_s, kind="stable")[:top]
    most = float(found.busy_s.max(initial=0.0))
    return [
        {
            "link": fabric.link_name(int(link)),
            "kind": fabric.kinds[fabric.link_kind[link]],
            "load": float(found.load[link]),
            "of_busiest": float(found.busy_s[link]) / most,
        }
        for link in order
        if found.load[link] > 0
    ]


def _told(found: LoadReport, fabric: Fabric, demand: Demand, busiest: list[dict[str, object]]) -> str:
    rows = [
        (k.kind, k.links, k.down, f"{k.most:.6g}", f"{k.least:.6g}", f"{k.mean:.6g}") for k in found.kinds
    ]
    parts = [table(("links", "count", "down", "max", "min", "mean"), rows)]
    if busiest:
        listed = [(b["link"], b["kind"], f"{b['load']:.6g}", f"{b['of_busiest']:.1%}") for b in busiest]
        parts.append(table(("busiest", "kind", "load", "busy time"), listed))
    if len(found.cut):
        a, b = (fabric.node_name(int(gpu)) for gpu in found.cut[0])
        parts.append(
            f"unroutable: {len(found.cut)} pairs, the first {a} -> {b}; {found.unroutable:.6g} {demand.unit}\n"
            f"throughput beside healthy: 0 (pairs are cut off); {found.ratio_of_routed:.4f} for the others"
        )
    else:
        parts.append(f"unroutable: 0 pairs\nthroughput beside healthy: {found.ratio:.4f}")
    return "\n\n".join(parts)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """Tells pairs done on stderr, from two seconds on and on terminals alone."""
    if not sys.stderr.isatty():
        yield lambda pairs: None
        return
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(console=Console(stderr=True), transient=True)
    task = bar.add_task("pairs", total=total)
    begun = time.monotonic()

    def watch(pairs: int) -> None:
        bar.advance(task, pairs)
        if not bar.live.is_started and time.monotonic() - begun > QUIET_S:
            bar.start()

    try:
        yield watch
    finally:
        bar.stop()
