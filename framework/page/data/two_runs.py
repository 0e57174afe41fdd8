"""Two runs on one page, and in a sentence how far apart they are."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from railweave.framework.page.data.directories import read_known
from railweave.framework.page.data.page_data import Iterations, PageData, RunPage
from railweave.framework.page.data.run_page import run_page
from railweave.framework.page.data.sentence import SAME
from railweave.framework.registry import Registers


def page_of_two_runs(first: Path, second: Path, registers: Registers) -> PageData:
    """The page of both; the sentence says how much longer the second's iterations took. Raises InputError."""
    first_run, second_run = (run_page(read_known(path, registers)) for path in (first, second))
    title = f"{first_run.title} and {second_run.title}"
    return PageData("run", title, apart(first_run, second_run), (first_run, second_run))


def apart(first: RunPage, second: RunPage) -> str:
    """`Compared with A, iterations of B took as long before the fault (10.1 us), and 1.40 times as long ...`
    Medians of declared times."""
    parts = [
        f"{_ratio(theirs / ours)} {when} ({theirs:.4g} us instead of {ours:.4g} us)"
        for when, states in (("before the fault", ("before",)), ("from the fault on", ("during", "after")))
        for ours, theirs in [(_median(first.iterations, states), _median(second.iterations, states))]
        if ours and theirs
    ]
    if not parts:
        return f"{first.title} and {second.title} have no iterations that can be compared."
    return f"Compared with {first.title}, iterations of {second.title} took {', and '.join(parts)}."


def _ratio(ratio: float) -> str:
    return "as long" if abs(ratio - 1) < SAME else f"{ratio:.2f} times as long"


def _median(done: Iterations, parts: Sequence[str]) -> float | None:
    times = zip(done.declared_us, done.part, strict=True)
    times_us = [us for us, part in times if us is not None and part in parts]
    return median(times_us) if times_us else None
