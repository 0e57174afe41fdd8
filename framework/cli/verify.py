"""`railweave verify`: packets go where the table says, counted on every link."""

from __future__ import annotations

from typing import Any

import click

from railweave.framework.cli.context import example, json_option, print_json, table, verbose_option
from railweave.framework.cli.inlab import done_in_lab
from railweave.framework.cli.options import ExperimentCommand, experiment_options, plan_of


@click.command(
    cls=ExperimentCommand,
    short_help="Prove on the lab that packets go where the table says.",
    epilog=example(
        "railweave verify --topology rail-only --domains 4 --rails 4 --router hscore",
        "railweave verify --topology torus --shape 4x4x4 --router wfr --fault 'at=0s down ocs:X:0,0'",
    ),
)
@experiment_options
@json_option
@verbose_option
@click.pass_context
def verify(ctx: click.Context, /, as_json: bool, verbose: bool, **_: object) -> None:
    """Bring the lab up, send marked packets for every ordered pair, and compare every link's counter with the
    route table's prediction, exactly; again after each fault, in their order. No collective runs.
    """
    asked = ctx.params.get("fault") or ctx.params.get("faults")
    plan = plan_of(ctx, {} if asked else {"fault": "none"})

    rows: list[dict[str, Any]] = done_in_lab("verify", {"document": plan.document()}, quiet=as_json)["rows"]
    if as_json:
        print_json("verify", {"experiment": plan.document(), "rows": rows})
    else:
        head = ("after", "pairs", "packets", "hops", "per link", "lost", "rules", "verdict")
        click.echo(table(head, [(r["after"], r["pairs"], r["packets"], r["hops"], _spread(r), r["lost"], r["rules"],
                                 "as the table says" if r["sound"] else _wrong(r)) for r in rows]))  # fmt: skip
    if not all(row["sound"] for row in rows):
        ctx.exit(1)


def _spread(row: dict[str, Any]) -> str:
    """Packets of the least and the most used link, by their counters."""
    counts = row["counted"].values()
    return f"{min(counts)} to {max(counts)}"


def _wrong(row: dict[str, Any]) -> str:
    found = row["difference"]
    if found is None:
        return f"{row['lost']} packets lost"
    return f"{found['link']}: {found['counted']} packets, {found['predicted']} predicted; first {found['pair']}: {found['hop']}"
