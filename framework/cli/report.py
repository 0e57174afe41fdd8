"""`railweave report`: a run, a comparison or a chaos campaign as one HTML file."""

from pathlib import Path

import click

from railweave.framework.cli._context import example, plain_command, print_text, registers
from railweave.framework.errors import InputError

SWEEP = "sweep.yaml"
"""What makes a directory one of a study."""


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
@click.option(
    "--parquet",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Of a study: write its rows as a Parquet file instead (extra data).",
)
@plain_command
def report(
    ctx: click.Context, /, run: Path, run2: Path | None, out: Path | None, parquet: Path | None
) -> None:
    """Write RUN, a directory that `railweave run` left, as one HTML file: it opens from disk and needs no
    network. A run that was killed shows what there is. With RUN2 the page shows both, and how they differ.
    RUN may also be the JSON of `compare` or `chaos`, or the directory of a study (`sweep`), whose figures are
    written next to the page as SVG and CSV."""
    from railweave.framework.page.data.directories import page_of_run
    from railweave.framework.page.html import write_report

    if parquet is not None:
        _rows_as_parquet(run, parquet)
        return
    if out is not None and not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}: its directory does not exist. Give a file in one that does.")
    if run2 is not None:
        from railweave.framework.page.data.two_runs import page_of_two_runs

        page = page_of_two_runs(run, run2, registers(ctx))
        path = out or run / f"report-{run2.absolute().name}.html"
    elif (run / SWEEP).is_file():
        _of_study(run, out or run / "report.html")
        return
    elif run.is_file():
        from railweave.framework.page.data.study_pages import campaign_page

        page, path = campaign_page(run), out or run.with_suffix(".html")
    else:
        page, path = page_of_run(run, registers(ctx)), out or run / "report.html"
    write_report(page, path)
    print_text(f"{page.sentence}\nwritten to {path}, {path.stat().st_size / 1e3:.0f} kB")


def _of_study(directory: Path, path: Path) -> None:
    from railweave.framework.page.data.sweep_page import page_of_study
    from railweave.framework.page.html import write_report
    from railweave.framework.results.directory import write_whole

    page, figures = page_of_study(directory)
    write_report(page, path)
    for name, text in figures.items():
        (path.parent / name).parent.mkdir(exist_ok=True)
        write_whole(path.parent / name, text.encode())
    print_text(f"{page.sentence}\nwritten to {path}, and {len(figures)} files in {path.parent / 'figures'}")


def _rows_as_parquet(directory: Path, path: Path) -> None:
    from railweave.framework.api.studies import as_parquet

    if not (directory / SWEEP).is_file():
        raise InputError(
            f"{directory} is no study, whose rows --parquet writes. Give a directory of `sweep`."
        )
    if not path.absolute().parent.is_dir():
        raise InputError(f"--parquet {path}: its directory does not exist. Give a file in one that does.")
    print_text(f"{as_parquet(directory, path)} rows written to {path}")
