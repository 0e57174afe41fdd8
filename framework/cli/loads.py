"""`railweave loads`: the load of every link under a traffic pattern, by the router's paths."""

from dataclasses import asdict

import click
import numpy as np

from railweave.framework import api
from railweave.framework.api.runs import LoadReport
from railweave.framework.cli._context import example, json_command, print_json, print_text, table
from railweave.framework.cli._options import ROUTES, routed_of
from railweave.framework.cli._progress_bar import progress_bar

SHOWN_PAIRS = 1000
"""Unreachable pairs that are listed; all of them are counted."""


@click.command(
    **ROUTES,
    epilog=example(
        "railweave loads --topology torus --shape 8x8x8 --router wfr --fault 'down ocs:X:0,0'",
        "railweave loads --domains 8 --pattern permutation --seed 7 --fault 'degrade rail:1 to=20%'",
    ),
)
@click.option(
    "--pattern",
    "what",
    metavar="PATTERN",
    default="all-to-all",
    show_default=True,
    help="all-to-all or permutation (1 unit a pair), or a CSV or .npy FILE of bytes from row to column.",
)
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
@json_command
def loads(ctx: click.Context, /, what: str, pattern_seed: int, top: int, as_json: bool, **_: object) -> None:
    """Compute the load of every link, and the throughput relative to the healthy fabric. No lab.

    Throughput is the share of its demand that every pair can be given at once; the busiest link limits it. A
    link degraded to 20 % counts with a fifth of its rate. The throughput is 0 when a pair is unreachable.
    """
    routed = routed_of(ctx)
    fabric, name, faults = routed.fabric, routed.name, routed.faults
    with progress_bar("pairs") as on_progress:
        report = api.loads(what, routed=routed, seed=pattern_seed, on_progress=on_progress)
    demand = report.demand
    pairs = fabric.n_gpus * (fabric.n_gpus - 1) if demand.uniform else len(demand.src)
    busiest = _busiest(report, top)
    if as_json:
        print_json(
            "loads",
            2,
            topology=fabric.kind,
            options=dict(fabric.params),
            router=name,
            faults=[fault.text for fault in faults],
            pattern=demand.name,
            unit=demand.unit,
            pairs=pairs,
            kinds=[asdict(kind) for kind in report.kinds],
            busiest=busiest,
            unreachable={
                "pairs": len(report.unreachable),
                "amount": report.unroutable,
                "first": [
                    [fabric.node_name(a), fabric.node_name(b)]
                    for a, b in report.unreachable[:SHOWN_PAIRS].tolist()
                ],
            },
            throughput_ratio=report.ratio,
            throughput_ratio_of_routed=report.ratio_of_routed,
            moved_pairs=report.moved,
        )
        return
    print_text(f"{demand.name} on {fabric.kind}, router {name}, {pairs} pairs; loads in {demand.unit}")
    for fault in faults:
        print_text(f"after {fault.text}")
    print_text("\n" + _described(report, busiest))
    if faults:
        share = f"{report.moved} pairs ({report.moved / pairs:.1%})"
        print_text(f"moved by the faults, and back by their repair: {share}")


def _busiest(loads: LoadReport, top: int) -> list[dict[str, object]]:
    """Links by the time they need, longest first; equal ones by id."""
    fabric = loads.fabric
    order = np.argsort(-loads.busy_s, kind="stable")[:top]
    most = float(loads.busy_s.max(initial=0.0))
    return [
        {
            "link": fabric.link_name(int(link)),
            "kind": fabric.kinds[fabric.link_kind[link]],
            "load": float(loads.load[link]),
            "of_busiest": float(loads.busy_s[link]) / most,
        }
        for link in order
        if loads.load[link] > 0
    ]


def _described(loads: LoadReport, busiest: list[dict[str, object]]) -> str:
    kinds = [
        (k.kind, k.links, k.down, f"{k.most:.6g}", f"{k.least:.6g}", f"{k.mean:.6g}") for k in loads.kinds
    ]
    parts = [table(("links", "count", "down", "max", "min", "mean"), kinds)]
    if busiest:
        listed = [(b["link"], b["kind"], f"{b['load']:.6g}", f"{b['of_busiest']:.1%}") for b in busiest]
        parts.append(table(("busiest", "kind", "load", "busy time"), listed))
    relative = "throughput relative to the healthy fabric"
    if len(loads.unreachable):
        first = " -> ".join(loads.fabric.node_name(int(gpu)) for gpu in loads.unreachable[0])
        parts.append(
            f"unreachable: {len(loads.unreachable)} pairs, the first {first}; {loads.unroutable:.6g} "
            f"{loads.demand.unit}\n"
            f"{relative}: 0 (pairs are unreachable); {loads.ratio_of_routed:.4f} for the others"
        )
    else:
        parts.append(f"unreachable: 0 pairs\n{relative}: {loads.ratio:.4f}")
    return "\n\n".join(parts)
