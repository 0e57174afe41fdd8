"""How a notebook shows a result: the verdict, a bar per iteration, the faults between them, a row per
size."""

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from railweave.framework.results.result import RunResult

WIDTH, HEIGHT = 480, 96
SHOWN_BARS = 120


def result_html(result: "RunResult") -> str:
    """A self-contained fragment of HTML, of several jobs one for each; names are escaped."""
    if result.jobs:
        each = ((job, result.of_job(job.job)) for job in result.jobs)
        return "".join(f"<h4>job {escape(job.name)}</h4>{result_html(one)}" for job, one in each)
    fabric, fidelity = result.fabric, result.fidelity
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td>{cell}</td>"
            for cell in (
                row.size_bytes,
                f"{row.declared_time_us:.4g}",
                f"{row.algbw_gbs:.4g}",
                "" if row.busbw_gbs is None else f"{row.busbw_gbs:.4g}",
                "N/A" if row.wrong is None else row.wrong,
            )
        )
        + "</tr>"
        for row in result.summaries
    )
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in fidelity.reasons)
    compared = any(row.wrong is not None for row in result.summaries)
    wrong = f"{result.wrong} wrong elements" if compared else "no elements compared"
    return (
        f"<p><b>{fidelity.verdict}</b>: {fabric.gpus} GPUs, {escape(fabric.kind)}, "
        f"{len(result.reroutes)} reroutes, {wrong}</p>"
        f"{f'<ul>{reasons}</ul>' if reasons else ''}{_bars(result)}"
        "<table><tr><th>size (B)</th><th>time (us, declared)</th><th>algbw (GB/s)</th><th>busbw (GB/s)</th>"
        f"<th>wrong</th></tr>{rows}</table>"
    )


def _bars(result: "RunResult") -> str:
    """Iteration times as bars; a red line where a fault was injected."""
    iterations = [row for row in result.rows if row.iteration is not None][:SHOWN_BARS]
    if not iterations:
        return ""
    step, longest = WIDTH / len(iterations), max(row.time_us for row in iterations)
    shapes = []
    for i, row in enumerate(iterations):
        height = HEIGHT * row.time_us / longest if longest else 0.0
        place = f'x="{i * step:.1f}" y="{HEIGHT - height:.1f}" width="{0.8 * step:.1f}" height="{height:.1f}"'
        title = f"iteration {row.iteration}: {row.time_us * 1e-6:.4g} s emulated"
        shapes.append(f'<rect {place} fill="#4c78a8"><title>{title}</title></rect>')
    for fault in result.faults:
        if fault.t_s is not None:
            x = step * sum(row.t_s < fault.t_s for row in iterations)  # as many had begun
            line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT}" stroke="#c0392b" stroke-width="2">'
            shapes.append(f"{line}<title>{escape(fault.text)}</title></line>")
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">{"".join(shapes)}</svg>'
