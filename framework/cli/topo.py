"""`railweave topo`: fabrics, without bringing one up."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np

from railweave.framework.cli._context import (
    example,
    json_command,
    plain_command,
    print_json,
    print_text,
    registers,
    show_offers,
    table,
)
from railweave.framework.cli._options import FABRIC, overrides_of
from railweave.framework.experiment.plan import build_fabric
from railweave.framework.model import Fabric
from railweave.framework.parameters import units

if TYPE_CHECKING:
    from railweave.framework.api.fabrics import FabricCost, TopologyMetrics


@click.group(
    epilog=example("railweave topo show rail-only --domains 8 --rails 8"),
)
def topo() -> None:
    """List the fabrics there are, show, draw or export what one consists of, measure it on paper, or
    price it."""


@topo.command("list", epilog=example("railweave topo list --json"))
@json_command
def list_(ctx: click.Context, as_json: bool) -> None:
    """List every topology, with its options and their defaults."""
    show_offers(ctx, "topology", as_json=as_json)


@topo.command(
    "show", short_help="Show the nodes, links and rates of a fabric.", **FABRIC,
    epilog=example("railweave topo show rail-only --domains 2 --links"),
)  # fmt: skip
@click.option("--links", "every_link", is_flag=True, help="List every link by name.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "svg", "graphml", "json"]),
    default="table",
    show_default=True,
    help="svg: a picture; graphml, json (node-link): the graph for other programs.",
)
@json_command
def show(ctx: click.Context, /, name: str, every_link: bool, form: str, as_json: bool, **_: object) -> None:
    """Show the nodes, links and rates of the fabric NAME (rail-only), as declared."""
    if as_json and form != "table":
        raise click.BadParameter(
            f"--json is a summary; it goes with table, not {form}.", param_hint="--format"
        )
    fabric = _fabric(ctx, name)
    if form != "table":
        from railweave.framework.api import fabrics

        print_text(fabrics.graph(fabric, form), nl=False)
    elif as_json:
        print_json("fabric", **summary(fabric, every_link=every_link))
    else:
        print_text(describe(fabric, every_link=every_link))


@topo.command(
    "export",
    short_help="Write a fabric as a file that `--topology file:FILE` reads.",
    **FABRIC,
    epilog=example(
        "railweave topo export torus --shape 4x4 > torus.yaml",
        "railweave topo export file:cluster.graphml --format infragraph",
    ),
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["railweave", "graphml", "infragraph"]),
    default="railweave",
    show_default=True,
    help="railweave: reads back as the same fabric; of the others stderr says what they leave out.",
)
@plain_command
def export(ctx: click.Context, /, name: str, form: str, **_: object) -> None:
    """Write the fabric NAME (rail-only) as a file that `--topology file:FILE` reads (docs/fabrics.md)."""
    from railweave.framework.api import fabrics

    text, lost = fabrics.exported(_fabric(ctx, name), form)
    print_text(text, nl=False)
    for loss in lost:
        _note(f"left out of {form}: {loss}")


@topo.command(
    "metrics",
    short_help="Measure diameter, distances, bisection of a fabric.",
    **FABRIC,
    epilog=example("railweave topo metrics torus --shape 4x4x8 --json"),
)
@json_command
def metrics(ctx: click.Context, /, name: str, as_json: bool, **_: object) -> None:
    """Diameter, distances, bisection, links by kind and by OCS of the fabric NAME (rail-only)."""
    from railweave.framework.api import fabrics

    fabric = _fabric(ctx, name)
    measured = fabrics.metrics(fabric)
    if as_json:
        print_json("topology-metrics", kind=fabric.kind, options=dict(fabric.params), **asdict(measured))
    else:
        print_text(describe_metrics(fabric.kind, measured))


@topo.command(
    "cost",
    short_help="Price a fabric: ports, cables, optics and power.",
    **FABRIC,
    epilog=example("railweave topo cost rail-only --prices examples/prices.yaml"),
)
@click.option(
    "--prices", type=click.Path(path_type=Path), required=True, metavar="FILE", help="What each part costs."
)
@json_command
def cost(ctx: click.Context, /, name: str, prices: Path, as_json: bool, **_: object) -> None:
    """What the fabric NAME (rail-only) costs by a price file: ports, cables, optics and power
    (docs/fabrics.md)."""
    from railweave.framework.api import fabrics

    fabric = _fabric(ctx, name)
    total = fabrics.cost(fabric, fabrics.read_prices(prices))
    if as_json:
        figures = {**asdict(total), "price_per_gpu": total.price_per_gpu}
        print_json("topology-cost", kind=fabric.kind, options=dict(fabric.params), **figures)
    else:
        print_text(describe_cost(fabric.kind, total))


def describe_cost(kind: str, total: "FabricCost") -> str:
    cells = [
        (part.section, part.kind, part.count, f"{part.price:,.0f}", f"{part.power_w:,.0f}", part.optics)
        for part in total.parts
    ]
    together = f"together {total.price:,.0f} {total.currency} and {total.power_w:,.0f} W"
    counts = f"{total.gpus} GPUs, {total.ports} ports, {total.cables} cables, {total.optics} optics"
    parts = (
        f"{kind}: {counts}",
        table(("part", "kind", "count", f"price ({total.currency})", "power (W)", "optics"), cells),
        f"{together}; {total.price_per_gpu:,.0f} {total.currency} a GPU",
    )
    return "\n\n".join(parts)


def _fabric(ctx: click.Context, name: str) -> Fabric:
    """The fabric that the command's options describe."""
    values, labels = overrides_of(ctx)
    options = {}
    for key, value in values.items():
        section, _dot, option = key.rpartition(".")
        if section not in ("", "topology"):
            raise click.BadParameter(f"{key} is no option of a fabric.", ctx=ctx, param_hint="--set")
        options[option] = value
        labels[f"topology.{option}"] = labels[key]
    labels["topology"] = "NAME"
    return build_fabric(name, options, labels, registers(ctx), _note)


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)


def describe_metrics(kind: str, metrics: "TopologyMetrics") -> str:
    far, cut = metrics.distances, metrics.bisection
    sums = str(far.least_sum) if far.least_sum == far.most_sum else f"{far.least_sum} to {far.most_sum}"
    where = f"({cut.halves[0]} | {cut.halves[1]} GPUs, {cut.cut})"
    lines = [
        f"{kind}: {metrics.gpus} GPUs, {metrics.switches} switches, {metrics.links} links",
        f"diameter {far.diameter} hops, mean distance {far.mean:.4g}, sum of distances from a GPU {sums}"
        + (f", {far.unreachable} pairs not connected" if far.unreachable else ""),
        f"bisection {units.rate(cut.capacity_bps)} per direction over {cut.links} links {where}",
    ]
    parts = [
        "\n".join(lines),
        table(("hops", "pairs"), [(hops, pairs) for hops, pairs in enumerate(far.pairs) if pairs]),
        table(
            ("link", "count", "together"),
            [
                (kind, count, units.rate(metrics.kind_capacity_bps[kind]))
                for kind, count in metrics.kind_links.items()
            ],
        ),
    ]
    if metrics.ocs_cables:
        by_count = Counter((name.partition(":")[0], cables) for name, cables in metrics.ocs_cables.items())
        rows = [(axis, switches, cables) for (axis, cables), switches in by_count.items()]
        parts.append(table(("ocs of", "switches", "cables each"), rows))
    return "\n\n".join(parts)


def summary(fabric: Fabric, *, every_link: bool = False) -> dict[str, object]:
    """The fabric in numbers: nodes by kind, links by kind and rate. Base units."""
    document: dict[str, object] = {
        "kind": fabric.kind,
        "options": dict(fabric.params),
        "gpus": fabric.n_gpus,
        "nodes": [
            {"kind": g.kind, "count": g.size, "shape": list(g.shape), "first": g.name(g.first)}
            for g in fabric.groups
        ],
        "links": [
            {"kind": kind, "count": count, "capacity_bps": rate, "latency_s": latency}
            for (kind, rate, latency), count in _link_counts(fabric).items()
        ],
    }
    if every_link:
        document["every_link"] = [
            {
                "name": link.name,
                "kind": link.kind,
                "capacity_bps": link.capacity_bps,
                "latency_s": link.latency_s,
            }
            for link in fabric.links()
        ]
    return document


def describe(fabric: Fabric, *, every_link: bool = False) -> str:
    nodes = [
        (
            g.kind,
            g.size,
            " x ".join(map(str, g.shape)),
            f"{g.name(g.first)} .. {g.name(g.first + g.size - 1)}",
        )
        for g in fabric.groups
    ]
    links = [
        (kind, count, units.rate(rate), units.time(latency))
        for (kind, rate, latency), count in _link_counts(fabric).items()
    ]
    switches = fabric.n_nodes - fabric.n_gpus
    parts = [
        f"{fabric.kind}: {fabric.n_gpus} GPUs, {switches} switches, {fabric.n_links} links",
        table(("node", "count", "shape", "names"), nodes),
        table(("link", "count", "rate", "latency"), links),
    ]
    if every_link:
        every = [
            (x.name, x.kind, units.rate(x.capacity_bps), units.time(x.latency_s)) for x in fabric.links()
        ]
        parts.append(table(("link", "kind", "rate", "latency"), every))
    return "\n\n".join(parts)


def _link_counts(fabric: Fabric) -> dict[tuple[str, float, float], int]:
    """Directed links by (kind, rate in bit/s, latency in s), in the order they first appear."""
    columns = np.stack([fabric.link_kind.astype(float), fabric.capacity_bps, fabric.latency_s], axis=1)
    rows, first, counts = np.unique(columns, axis=0, return_index=True, return_counts=True)
    return {
        (fabric.kinds[int(rows[i, 0])], float(rows[i, 1]), float(rows[i, 2])): int(counts[i])
        for i in np.argsort(first)
    }
