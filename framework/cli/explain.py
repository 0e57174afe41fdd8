"""`railweave explain`: the path between two GPUs, and the router's reasons for it."""

from dataclasses import asdict
from itertools import chain
from math import isfinite
from pathlib import Path

import click

from railweave.framework import api
from railweave.framework.api.runs import AssumedScores, ExplainedPair, Fact, read_scores
from railweave.framework.cli._context import example, json_command, print_json, print_text, table
from railweave.framework.cli._options import ROUTES, routed_of


@click.command(
    **ROUTES,
    epilog=example(
        "railweave explain g0.0 g1.1 --domains 2 --rails 5 --router hscore --fault 'degrade rail:1 to=20%'",
        "railweave explain 1,0,0 5,0,0 --topology torus --shape 8x8x8 --router dor",
    ),
)
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option(
    "--scores",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="YAML of h-scores: `domains: {1: 1.0, 2: 0.8}`, `rails: {1: 0.4}`; the default is 1.",
)
@json_command
def explain(
    ctx: click.Context,
    /,
    source: str,
    target: str,
    scores: Path | None,
    as_json: bool,
    **_: object,
) -> None:
    """Show the path from GPU SRC to GPU DST hop by hop, and the reasons of the router. No lab.

    SRC and DST are names (`g1.1`) or coordinates: `1,1` is domain and rail, `1,0,0` is x, y and z.
    Coordinates count from 0, or from 1 when the lowest index in the scores file is 1 (`count_from: 0` or `1`
    in it overrides that). Names and faults always count from 0.
    """
    routed = routed_of(ctx)
    fabric, name, faults = routed.fabric, routed.name, routed.faults
    assumed = read_scores(scores, fabric) if scores else AssumedScores()
    counting = assumed.counting
    pair = api.explain(source, target, routed=routed, scores=assumed)
    src, dst = counting.gpu(fabric, source, "SRC"), counting.gpu(fabric, target, "DST")
    if as_json:
        print_json(
            "explain",
            2,
            topology=fabric.kind,
            options=dict(fabric.params),
            router=name,
            counts_from=counting.first,
            faults=[fault.text for fault in faults],
            src={"name": fabric.node_name(src), "coordinates": list(counting.place(fabric, src))},
            dst={"name": fabric.node_name(dst), "coordinates": list(counting.place(fabric, dst))},
            unreachable=not pair.paths and src != dst,
            paths=[asdict(path) for path in pair.paths],
            why=pair.why,
            facts={key: _plain(fact) for key, fact in pair.facts.items()},
        )
        return
    print_text(f"{pair.src} to {pair.dst} on {fabric.kind}, router {name}")
    if counting.first:
        print_text(
            f"coordinates count from {counting.first}, as {scores} does; names such as "
            f"{fabric.node_name(src)} count from 0"
        )
    for fault in faults:
        print_text(f"after {fault.text}")
    print_text("\n" + _described(pair, same=src == dst))


def _described(pair: ExplainedPair, *, same: bool) -> str:
    parts = []
    for number, path in enumerate(pair.paths, 1):
        share = (
            ""
            if len(pair.paths) == 1
            else f" {number} of {len(pair.paths)}, {path.weight:.4g} of the packets"
        )
        head = ("hop", "from", "to", "link", "kind", "vc", "score")
        rows = [
            (i, hop.start, hop.end, hop.link, hop.kind, "-" if hop.vc is None else hop.vc, f"{hop.score:.6g}")
            for i, hop in enumerate(path.hops, 1)
        ]
        parts.append(f"path{share}: {len(path.hops)} hops, score {path.score:.6g}\n{table(head, rows)}")
    if not pair.paths:
        parts.append("no path: the same GPU" if same else "no path: the pair is cut off")
    if pair.why is None:
        parts.append("the router gives no reasons")
    else:
        width = max((len(key) for key in pair.facts), default=0)
        facts = (_fact_lines(key.replace("_", " ").ljust(width), fact) for key, fact in pair.facts.items())
        parts.append("\n".join((f"why: {pair.why}", *chain.from_iterable(facts))))
    return "\n\n".join(parts)


def _fact_lines(label: str, fact: Fact) -> list[str]:
    if isinstance(fact, str | int | float):
        words = [f"{fact:.6g}" if isinstance(fact, float) else str(fact)]
    else:
        long = any(":" in word or len(word) > 24 for word in fact)
        words = list(fact) if long else [", ".join(fact) or "none"]
    return [f"  {'' if i else label:<{len(label)}}  {word}" for i, word in enumerate(words)]


def _plain(fact: Fact) -> object:
    """Plain JSON: infinite numbers (h-ratios of a domain of score 0) are null."""
    if isinstance(fact, float):
        return fact if isfinite(fact) else None
    return fact if isinstance(fact, str | int) else list(fact)
