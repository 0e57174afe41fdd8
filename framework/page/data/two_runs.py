"""Two runs on one page, and in a sentence how far apart they are."""

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from railweave.framework.page.data.directories import read_known
from railweave.framework.page.data.page_data import Iterations, PageData, RunPage
from railweave.framework.page.data.run_page import run_page
from railweave.framework.registry import Registers

SAME = 0.03
"""Times that differ by less are called equal."""


def page_of_two_runs(first: Path, second: Path, registers: Registers) -> PageData:
    """The page of both; the sentence says how much longer the second's iterations took. Raises InputError."""
    one, two = (run_page(read_known(path, registers)) for path in (first, second))
    title = f"{one.title} and {two.title}"
    return PageData("run", title, apart(one, two), (one, two))


def apart(one: RunPage, two: RunPage) -> str:
    """`Compared with A, iterations of B took as long before the fault (10.1 us), and 1.40 times as long ...`
    Medians of declared times."""
    parts = [
        f"{_ratio(theirs / ours)} {when} ({theirs:.4g} us instead of {ours:.4g} us)"
        for when, states in (("before the fault", ("before",)), ("from the fault on", ("during", "after")))
        for ours, theirs in [(_median(one.iterations, states), _median(two.iterations, states))]
        if ours and theirs
    ]
    if not parts:
        return f"{one.title} and {two.title} have no iterations that can be compared."
    return f"Compared with {one.title}, iterations of {two.title} took {', and '.join(parts)}."


def _ratio(ratio: float) -> str:
    return "as long" if abs(ratio - 1) < SAME else f"{ratio:.2f} times as long"


def _median(done: Iterations, parts: Sequence[str]) -> float | None:
    times = zip(done.declared_us, done.part, strict=True)
    known = [us for us, part in times if us is not None and part in parts]
    return median(known) if known else None
