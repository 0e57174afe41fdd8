"""`railweave export`: a run in formats that other tools read."""

from pathlib import Path

import click

from railweave.framework.cli._context import example, plain_command, print_text, registers
from railweave.framework.errors import InputError

FORMATS = ("prometheus", "inspector", "perfetto", "csv", "parquet")
"""As page/exports/formats.py has them, which `--help` need not import."""
TABLES = ("iterations", "links", "kpi")


@click.command(
    epilog=example(
        "railweave export RUN --format prometheus --out /var/lib/node_exporter/railweave.prom",
        "railweave export RUN --format perfetto --out trace.json",
        "railweave export RUN --format parquet --table links --out links.parquet",
    )
)
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(FORMATS), required=True, help="What to write.")
@click.option("--table", type=click.Choice(TABLES), help="Of csv and parquet; by default iterations.")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="Where to.")
@plain_command
def export(ctx: click.Context, /, run: Path, form: str, table: str | None, out: Path) -> None:
    """Write RUN, a directory that `railweave run` left, for other tools (docs/exports.md): Prometheus' text
    format, NCCL Inspector's JSON lines, a trace for Perfetto, or tables. A run that failed is written as far
    as it came. The file is there whole or not at all."""
    from railweave.framework.page.exports.formats import exported
    from railweave.framework.results.directory import write_whole

    if out.is_dir() or not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}: not a file in a directory that exists. Give another.")
    data = exported(run, form, registers(ctx), table)
    write_whole(out, data)
    print_text(f"written to {out}, {len(data) / 1e3:.3g} kB")
