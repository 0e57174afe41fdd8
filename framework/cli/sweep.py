"""`railweave sweep`: an experiment at every combination of settings, resumed where it was left."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from railweave.framework import api
from railweave.framework.api import studies
from railweave.framework.api.studies import Ahead, Answer, Spread, Sweep, SweepResult, Tally, words
from railweave.framework.cli import KEPT, _context
from railweave.framework.cli._context import example, json_command, print_json, print_text, registers, table
from railweave.framework.cli._dry_run import duration
from railweave.framework.cli._signals import raised_signals
from railweave.framework.errors import RunFailedError

SHOWN = 40
"""Settings of a table; of more, the first and the last."""


@click.command(
    epilog=example(
        "railweave sweep slow-nic.yaml",
        "railweave sweep slow-nic.yaml --dry-run",
        "railweave sweep status slow-nic.yaml",
        "railweave sweep slow-nic.yaml --on tcp://10.0.0.1:8786",
    )
)
@click.argument("words", nargs=-1, required=True, metavar="[status] SWEEP")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR",
    help="Where rows are kept and looked for; by default studies/NAME.",
)  # fmt: skip
@click.option("--limit", type=click.IntRange(1), metavar="N", help="The first N points alone.")
@click.option(
    "--workers", type=click.IntRange(1), metavar="N", help="Processes; by default one for each processor."
)
@click.option(
    "--on", metavar="ADDRESS",
    help="A Dask cluster that computes instead: tcp://HOST:8786, tls://..., or a scheduler file.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Count the points and say how long they will take.")
@click.option("--retry-failed", is_flag=True, help="Run points again that failed earlier.")
@click.option(
    "--add", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Rows of the same study from elsewhere, a rows.jsonl or a Parquet file, to begin with.",
)  # fmt: skip
@click.option("--mix-versions", is_flag=True, help="Take rows of other versions of railweave as well.")
@json_command
def sweep(
    ctx: click.Context,
    /,
    words: tuple[str, ...],
    out: Path | None,
    limit: int | None,
    workers: int | None,
    on: str | None,
    dry_run: bool,
    retry_failed: bool,
    add: Path | None,
    mix_versions: bool,
    as_json: bool,
) -> None:
    """Run the points of SWEEP, a YAML file (docs/studies.md) or the directory of a study, that have no row
    yet, and show what the rows say. Points without packets run on all processors, labs one after the other.

    A point that fails is kept with its cause, and the others run; the exit code is 1 then. `sweep status`
    says how far a study is, and computes nothing.
    """
    only_status = words[0] == "status" and len(words) > 1
    if len(words) != 1 + only_status:
        raise click.UsageError(f"expects one SWEEP (got {' '.join(words)}).", ctx)
    read, directory = studies.found(Path(words[-1]), limited=limit is not None)
    directory = out or directory
    if only_status:
        tally = studies.status(read.study, directory, limit=limit, mix_versions=mix_versions)
        _show_tally(read, directory, tally, as_json=as_json)
    elif dry_run:
        ahead = studies.ahead(read, directory, registers(ctx), limit=limit, mix_versions=mix_versions)
        _show_ahead(ahead, as_json=as_json)
    else:
        ctx.meta[KEPT] = f"Rows are kept in {directory / studies.ROWS}; the same command goes on from there."
        with raised_signals(), _progress() as on_progress:
            result = api.sweep(
                words[-1], out=directory, limit=limit, workers=workers, on=on, retry_failed=retry_failed,
                mix_versions=mix_versions, add=add, on_progress=on_progress, registers=registers(ctx),
            )  # fmt: skip
        _show(read, directory, result, as_json=as_json)


class _SweepProgress:
    """How many of the points, how many failed, how long yet, or what they wait for: `show` gets it at every
    point; without, standard error gets a line a minute, and one when it changes what they wait for."""

    def __init__(self, show: Callable[[str], None] | None = None) -> None:
        self._show, self._waits_for = show, ""
        self._began_s = self._told_s = time.monotonic()

    def __call__(self, tally: Tally) -> None:
        now_s = time.monotonic()
        if self._show:
            self._show(self._line(tally, now_s))
        elif now_s - self._told_s >= _context.MINUTE_S or tally.waits_for != self._waits_for:
            self._told_s, self._waits_for = now_s, tally.waits_for
            click.echo(self._line(tally, now_s), err=True)

    def _line(self, tally: Tally, now_s: float) -> str:
        """`120 of 400 points, 2 failed, 3 min to go`, or in the place of the time what they wait for."""
        failed = sum(tally.failed.values())
        text = f"{tally.done} of {tally.points} points" + f", {failed} failed" * bool(failed)
        if tally.waits_for:
            return f"{text}; {tally.waits_for}"
        computed, left = tally.done - tally.before, tally.points - tally.done
        if computed < 1 or left < 1:
            return text
        return f"{text}, {duration((now_s - self._began_s) / computed * left)} to go"


@contextmanager
def _progress() -> Iterator[_SweepProgress]:
    """Progress on stderr while the block runs."""
    from rich.console import Console
    from rich.status import Status

    console = Console(emoji=False, stderr=True, highlight=False)
    if not console.is_terminal:
        yield _SweepProgress()
        return
    with Status("the first points", console=console) as line:
        yield _SweepProgress(line.update)


def _show(read: Sweep, directory: Path, result: SweepResult, *, as_json: bool) -> None:
    """The rows as a table or JSON. Raises RunFailedError where points failed, with causes by count."""
    tally = result.tally
    failures = [row for row in result.rows if not row["ok"]]
    causes = Counter(str(row["cause"]) for row in failures)
    if as_json:
        print_json(
            "sweep",
            study=read.study.name,
            question=read.question,
            answer=result.answer,
            rows=str(directory / studies.ROWS),
            points=tally.points,
            done=tally.done,
            failed=dict(causes),
            lines=[asdict(line) for line in result.lines],
        )
    else:
        print_text("\n".join(_lines(read, result.lines)))
        if read.question:
            print_text(read.question)
        print_text(result.answer)
        print_text(f"{_counted(tally)}; rows in {directory / studies.ROWS}")
    if failures:
        listed = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
        raise RunFailedError(
            f"{len(failures)} of {tally.points} points failed: {listed}. The first: "
            f"{words(failures[0]['settings'])}: {failures[0]['error']} Once that is fixed, `--retry-failed` "
            "runs them again."
        )


def _counted(tally: Tally) -> str:
    parts = [
        f"{tally.points} points: {tally.done - tally.before} computed now, {tally.before} before",
        *[f"{tally.twice} others are the same again"] * bool(tally.twice),
        *[f"{tally.foreign} rows belong to none of them and are kept"] * bool(tally.foreign),
        *(
            f"{count} rows are of version {version} and left out (--mix-versions takes them)"
            for version, count in tally.versions.items()
        ),
        *[f"{tally.cut_bytes} bytes of a torn last line were dropped"] * bool(tally.cut_bytes),
    ]
    return "; ".join(parts)


def _lines(read: Sweep, lines: Sequence[Answer]) -> list[str]:
    names = list(dict.fromkeys(name for line in lines for name in line.settings))
    relative = read.judge is not None and bool(read.judge.to)
    figure = lines[0].figure if lines else ""
    head = [*names, "n", figure, "CV", "95 % interval"]
    head += [f"/ {words(read.judge.to)}", "95 % interval"] if read.judge and relative else []
    head += ["holds"] if read.judge and read.judge.at_most is not None else []
    head += ["verdicts"]
    body = [_cells(names, line, relative, "holds" in head) for line in lines]
    left_out = len(body) - SHOWN
    shown = body if left_out <= 0 else [*body[: SHOWN // 2], *body[-SHOWN // 2 :]]
    text = [table(head, shown)]
    if left_out > 0:
        text.append(f"the first and last of {len(body)} settings; all are in --json")
    return text


def _cells(names: Sequence[str], line: Answer, relative: bool, judged: bool) -> list[object]:
    value = line.value
    cells: list[object] = [str(line.settings.get(name, "-")) for name in names]
    cells += [str(value.n if value else 0), "-" if value is None else f"{value.median:.4g}"]
    cells.append("-" if value is None or value.cv is None else f"{100 * value.cv:.1f} %")
    cells.append(_interval(value))
    if relative:
        cells += ["-" if line.relative is None else f"{line.relative.median:.4g}", _interval(line.relative)]
    if judged:
        cells.append({None: "-", True: "yes", False: "NO"}[line.holds])
    verdicts = [*line.verdicts, *[f"{line.failed} failed"] * bool(line.failed)]
    return [*cells, ", ".join(verdicts)]


def _interval(spread: Spread | None) -> str:
    return "-" if spread is None or spread.low is None else f"{spread.low:.4g} to {spread.high:.4g}"


def _show_tally(read: Sweep, directory: Path, tally: Tally, *, as_json: bool) -> None:
    failed, left = sum(tally.failed.values()), tally.points - tally.done
    figures = {
        "points": tally.points,
        "finished": tally.done - failed,
        "failed": failed,
        "to do": left,
        "the same again": tally.twice,
        "rows of none of them": tally.foreign,
        "rows of other versions": sum(tally.versions.values()),
    }
    if as_json:
        named = {key.replace(" ", "_"): value for key, value in figures.items()}
        print_json("sweep-status", study=read.study.name, directory=str(directory), **named)
    else:
        print_text(table(("what", "count"), [*figures.items()]))


def _show_ahead(ahead: Ahead, *, as_json: bool) -> None:
    if as_json:
        print_json("sweep-dry-run", **asdict(ahead))
        return
    takes = [duration(ahead.seconds)] if ahead.seconds is not None else []
    takes += [f"{ahead.memory_bytes / 1e9:.2g} GB of memory"] if ahead.memory_bytes is not None else []
    how = "one lab after the other" if ahead.on_labs else "on all processors"
    tried = f"; one point was computed, in {ahead.tried_s:.2g} s" if ahead.tried_s is not None else ""
    text = f"about {' and '.join(takes)}, {how}{tried}" if takes else "no engine says what they take"
    print_text(f"{ahead.points} points, {ahead.missing} without a row: {text}")
