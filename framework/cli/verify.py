"""`railweave verify`: packets follow the route table, counted on every link."""

from typing import Any

import click

from railweave.framework.cli._context import example, json_command, print_json, print_text, table
from railweave.framework.cli._in_lab import LAB, done_in_lab


@click.command(
    **LAB,
    epilog=example(
        "railweave verify --topology rail-only --domains 4 --rails 4 --router hscore",
        "railweave verify --topology torus --shape 4x4x4 --router wfr --fault 'at=0s down ocs:X:0,0'",
    ),
)
@json_command
def verify(ctx: click.Context, /, as_json: bool, **_: object) -> None:
    """Bring the lab up, send marked packets for every ordered pair, and compare every link's counter with the
    route table's prediction, exactly; again after each fault, in their order. No collective runs.
    """
    plan, rows = done_in_lab(ctx, "verify", quiet=as_json)
    if as_json:
        print_json("verify", experiment=plan.document(), rows=rows)
    else:
        head = ("after", "pairs", "packets", "hops", "per link", "lost", "rules", "verdict")
        cells = []
        for row in rows:
            counts = row["counted"].values()
            shown = row | {"per link": f"{min(counts)} to {max(counts)}", "verdict": _verdict(row)}
            cells.append([shown[column] for column in head])
        print_text(table(head, cells))
    if not all(row["sound"] for row in rows):
        ctx.exit(1)


def _verdict(row: dict[str, Any]) -> str:
    if row["sound"]:
        return "as predicted"
    difference = row["difference"]
    if difference is None:
        return f"{row['lost']} packets lost"
    return "{link}: {counted} packets, {predicted} predicted; first {pair}: {hop}".format(**difference)
