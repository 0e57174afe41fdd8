"""The table of nccl-tests for a railweave result, with two columns of our own; and a narrow one for
terminals.

Formats: nccl-tests src/util.cu (column widths, decimals that shrink to fit, footer). Collectives run in
place; the columns of the out-of-place run stay blank, as nccl-tests leaves them when it replays one placement
alone.
"""

import shlex
from collections.abc import Mapping, Sequence
from math import nan
from statistics import fmean

from railweave.framework.results.figures import JobFigures, Row
from railweave.framework.results.result import RunResult

WIDTH = 140
"""Columns that the wide table needs."""
SHOWN_NAMES = 8
"""Names of ranks that are listed whole; of more, the first and the last."""
_OUT_OF_PLACE = " " * 33


def nccl_table(result: RunResult, columns: int | None = None) -> str:
    """Header, a row per size (the mean of its iterations) and footer, ending in a newline.

    `columns`: of the terminal it is shown on; fewer than `WIDTH` give the narrow table. None: the wide one.
    """
    if result.jobs:
        return "\n".join(_of_job(result, job, columns) for job in result.jobs)
    if result.experiment.get("program"):
        return "\n".join(_program(result)) + "\n"
    form = _wide if columns is None or columns >= WIDTH else _narrow
    return "\n".join(form(result)) + "\n"


def _of_job(result: RunResult, job: JobFigures, columns: int | None) -> str:
    title = f"# job {job.name}: {len(job.ranks)} ranks, {spans(job.ranks)}\n"
    job_result = result.of_job(job.job)
    if job_result.rows:
        return title + nccl_table(job_result, columns)
    return title + "".join(f"# {line}\n" for line in f"failed: {job.error}".splitlines())


def spans(names: Sequence[str]) -> str:
    """A few of these names."""
    return ", ".join(names if len(names) <= SHOWN_NAMES else (*names[: SHOWN_NAMES - 2], "...", names[-1]))


def _ranks(result: RunResult) -> int:
    return result.fabric.gpus if result.fabric.ranks is None else result.fabric.ranks


def _narrow(result: RunResult) -> list[str]:
    first, scale, mixed = result.summary, result.fabric.rate_scale, _mixed(result)
    redop = "" if first.redop == "none" else f" {first.redop}"
    subject = f"{_name(result.experiment)}, {_ranks(result)} GPUs, {first.type}{redop}"
    return [
        f"# {subject}, mean of {_iterations(result)}{mixed or ' iterations'}",
        f"# declared times and rates; rate scale {scale:.6g}: {_slower(scale)}",
        "#" + _cells(("size", "time", "algbw", "busbw", "netbw", "limit", "#wrong"))[1:],
        "#" + _cells(("(B)", "(us)", "(GB/s)", "(GB/s)", "(GB/s)", "", ""))[1:].rstrip(),
        *(_cells((f"{row.size_bytes}", fitted(row.declared_time_us, 7), *_rates(row), _wrong(row)))
          for row in result.summaries),
        *_errors(result),
    ]  # fmt: skip


def _mixed(result: RunResult) -> str:
    """What a row is the mean of, where that is iterations of more than one state of the fabric."""
    groups = result.iterations
    states = [
        len(group.iterations) for group in (groups.before, groups.during, groups.after) if group.iterations
    ]
    return " iterations, healthy and faulted" if len(states) > 1 else ""


def _program(result: RunResult) -> list[str]:
    """A row per iteration and their mean, for a program: no size, and nothing to compare."""
    scale, words = result.fabric.rate_scale, result.experiment["program"]
    command = shlex.join(map(str, words)) if isinstance(words, Sequence) else ""
    return [
        f"# {command}, ranks: {result.experiment.get('ranks')}",
        f"# declared times and rates; rate scale {scale:.6g}: {_slower(scale)}",
        f"#{'iteration':>13}{'time':>11}{'netbw':>9}",
        f"#{'':>13}{'(us)':>11}{'(GB/s)':>9}",
        *(
            f"{'mean' if row.iteration is None else row.iteration:>14}"
            f"{fitted(row.declared_time_us, 9):>11}{fitted(row.netbw_gbs, 6):>9}"
            for row in result.rows
        ),
    ]


def _cells(cells: Sequence[str]) -> str:
    widths = (14, 9, 9, 9, 9, 7, 8)
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def _rates(row: Row) -> tuple[str, str, str, str]:
    limit = "" if row.ratio_to_bound is None else f"{row.ratio_to_bound:6.2f}"
    busbw = nan if row.busbw_gbs is None else row.busbw_gbs
    netbw = fitted(row.netbw_gbs, 6) if row.netbw_gbs < 999_999.5 else f"{row.netbw_gbs:.0f}"  # of all links
    return fitted(row.algbw_gbs, 6), fitted(busbw, 6), netbw, limit


def _wide(result: RunResult) -> list[str]:
    sizes, scale = [row.size_bytes for row in result.summaries], result.fabric.rate_scale
    mixed = _mixed(result)
    return [
        (
            f"# nThread 1 nGpus {_ranks(result)} minBytes {sizes[0]} maxBytes {sizes[-1]} step: "
            f"{_step(result.experiment)} warmup iters: 0 iters: {_iterations(result)} agg iters: 1 "
            f"validation: {int(result.summary.wrong is not None)} graph: 0"
        ),
        "#",
        (
            f"# declared times and rates; the run's clock ran {_slower(scale)} (rate scale {scale:.6g}). "
            f"limit: share of what the fabric's links allow{mixed and f'; a row is the mean of all{mixed}'}"
        ),
        "#",
        f"#{'out-of-place':>74}{'in-place':>31}",
        _header(
            ("size", "count", "type", "redop", "root"),
            ("time", "algbw", "busbw", "#wrong"),
            ("netbw", "limit"),
        ),
        _header(("(B)", "(elements)", "", "", ""), ("(us)", "(GB/s)", "(GB/s)", ""), ("(GB/s)", "")).rstrip(),
        *(_row(row) for row in result.summaries),
        *_errors(result),
        "#",
        f"# Collective test concluded: {_name(result.experiment)}",
    ]


def _row(row: Row) -> str:
    """nccl-tests' columns, then what the whole fabric carried and the ratio to its limit."""
    algbw, busbw, netbw, limit = _rates(row)
    figures = "  ".join(("", fitted(row.declared_time_us, 7), algbw, busbw, f"{_wrong(row):>6}"))
    head = f"{row.size_bytes:12d}  {row.count:12d}  {row.type:>8}  {row.redop:>6}  {row.root:6d}"
    return f"{head}{_OUT_OF_PLACE}{figures}  {netbw}  {limit}".rstrip()


def _wrong(row: Row) -> str:
    """As nccl-tests prints it, which writes N/A where nothing is compared."""
    return "N/A" if row.wrong is None else f"{row.wrong:g}"


def _errors(result: RunResult) -> list[str]:
    errors = sum((row.wrong or 0) > 0 for row in result.rows if row.iteration is not None)
    busbw = fmean(nan if row.busbw_gbs is None else row.busbw_gbs for row in result.summaries)
    checked = any(row.wrong is not None for row in result.rows)
    out_of_bounds = f"{errors} {'FAILED' if errors else 'OK'}" if checked else "N/A"
    return [
        f"# {'Out of bounds values':<20} : {out_of_bounds}",
        f"# {'Avg bus bandwidth':<20} : {busbw:g} ",
    ]


def fitted(value: float, width: int) -> str:
    """The number right-aligned with as many decimals, two at most, as its column holds."""
    texts = (f"{value:{width}.{decimals}f}" for decimals in (2, 1, 0))
    return next((t for t in texts if len(t) <= width), f"{value:{width}.{1 if width >= 7 else 0}e}")


def _header(names: tuple[str, ...], figures: tuple[str, ...], common: tuple[str, ...]) -> str:
    widths = (10, 12, 8, 6, 6)
    left = "  ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    group = "  ".join(f"{name:>{width}}" for name, width in zip(figures, (7, 6, 6, 6), strict=True))
    return f"# {left}  {group}  {group}  " + "  ".join(f"{name:>6}" for name in common)


def _iterations(result: RunResult) -> int:
    """Of each size."""
    return len(result.rows) // len(result.summaries) - 1


def _slower(scale: float) -> str:
    return f"{1 / scale:.6g} times slower" if scale <= 1 else f"{scale:.6g} times faster"


def _step(experiment: Mapping[str, object]) -> str:
    """The step of a sweep in nccl-tests' words."""
    step = str(experiment.get("size", "")).rpartition(":")[2]
    if step.startswith("+"):
        return f"{step[1:]}(bytes)"
    return f"{step[1:] if step.startswith('x') else 1}(factor)"


def _name(experiment: Mapping[str, object]) -> str:
    traffic = experiment.get("workload") or experiment.get("collective")
    return str(traffic["name"]) if isinstance(traffic, Mapping) else "railweave"
