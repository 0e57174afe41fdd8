"""`railweave report`: a run, a comparison or a chaos campaign as one HTML file."""

from pathlib import Path

import click

from railweave.framework.cli._context import example, plain_command, registers
from railweave.framework.errors import InputError


@click.command(
    epilog=example(
        "railweave report runs/20261122-074744-hscore-rail-only",
        "railweave report RUN --out page.html",
        "railweave report RUN RUN2",
        "railweave compare --router hscore,spray --json > rows.json && railweave report rows.json",
    )
)
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("run2", required=False, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write it; by default RUN/report.html (of two runs RUN/report-RUN2.html), of a file the "
    "same name with .html.",
)
@plain_command
def report(ctx: click.Context, /, run: Path, run2: Path | None, out: Path | None) -> None:
    """Write RUN, a directory that `railweave run` left, as one HTML file: it opens from disk and needs no
    network. A run that was killed shows what there is. With RUN2 the page shows both, and how they differ.
    RUN may also be the JSON of `compare` or `chaos`."""
    from railweave.framework.page.data.directories import page_of_run
    from railweave.framework.page.html import write_report

    if out is not None and not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}: its directory does not exist. Give a file in one that does.")
    if run2 is not None:
        from railweave.framework.page.data.two_runs import page_of_two_runs

        page = page_of_two_runs(run, run2, registers(ctx))
        path = out or run / f"report-{run2.absolute().name}.html"
    elif run.is_file():
        from railweave.framework.page.data.study_pages import campaign_page

        page, path = campaign_page(run), out or run.with_suffix(".html")
    else:
        page, path = page_of_run(run, registers(ctx)), out or run / "report.html"
    write_report(page, path)
    click.echo(f"{page.sentence}\nwritten to {path}, {path.stat().st_size / 1e3:.0f} kB")
