"""`import railweave as rw` as a script or a notebook uses it, on real switches; and every example of
docs/python.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import railweave as rw
from railweave.framework.errors import LabError
from railweave.framework.model.events import IterationEnded, RunEvent
from railweave.framework.results.result import RunResult
from railweave.framework.studies.leftovers import MARK, footprint

PAGE = (Path(__file__).parents[1] / "docs" / "python.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def small(**keys: object) -> RunResult:
    """Four GPUs, three iterations of some tenths of a second."""
    return rw.run(domains=2, rails=2, size="64K", iterations=3, rate_scale=2e-5, **keys)


@pytest.mark.lab
@pytest.mark.untimed
def test_every_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    assert len(EXAMPLES) >= 8
    for example in EXAMPLES:
        exec(compile(example, "docs/python.md", "exec"), namespace)  # noqa: S102 - the page is ours
    calls = {name for name in rw.__all__ if re.search(rf"\brw\.{name}\(", PAGE)}
    assert calls == set(rw.__all__) - {"__version__", "RailweaveError"}, "an example per call"


OWN = """
    import railweave as rw

    if __name__ == "__main__":
        result = rw.run(router=MyRouter(), domains=2, rails=2, size="64K", iterations=2, rate_scale=2e-5)
        print(result.experiment["router"]["name"], result.wrong)
"""


@pytest.mark.lab
@pytest.mark.untimed
def test_a_router_of_a_script_runs_on_the_lab(tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    example = Path(__file__).parents[1] / "examples" / "plugins" / "oblivious.py"
    script.write_text(example.read_text().replace("Oblivious", "MyRouter") + textwrap.dedent(OWN))
    ran = subprocess.run(
        [sys.executable, script], check=False, capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert ran.stdout.split() == ["my-router", "0"], ran.stderr


@pytest.mark.lab
@pytest.mark.untimed
def test_two_runs_at_once_each_in_a_thread_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, f"threads-{os.getpid()}")
    before = footprint(os.environ[MARK])
    together = threading.Barrier(2, timeout=60)
    events: dict[int, list[RunEvent]] = {1: [], 2: []}

    def one(seed: int) -> RunResult:
        def heard(event: RunEvent) -> None:
            if isinstance(event, IterationEnded) and event.iteration == 0:
                together.wait()  # both labs are up and have carried traffic
            events[seed].append(event)

        return small(seed=seed, on_event=heard)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(one, (1, 2)))
    for seed, result in zip((1, 2), results, strict=True):
        assert (result.wrong, result.seed) == (0, seed)
        assert sum(isinstance(event, IterationEnded) for event in events[seed]) == 3
    assert footprint(os.environ[MARK]) <= before


@pytest.mark.lab
@pytest.mark.untimed
def test_a_callers_mistake_in_on_event_ends_the_lab_and_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARK, f"raises-{os.getpid()}")
    before = footprint(os.environ[MARK])

    def wrong(event: RunEvent) -> None:
        if isinstance(event, IterationEnded):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        small(on_event=wrong)
    assert footprint(os.environ[MARK]) <= before


@pytest.mark.lab
@pytest.mark.untimed
def test_interrupting_a_cell_ends_the_lab_and_the_next_cell_runs() -> None:
    """A notebook's kernel gets SIGINT while a cell runs, shows KeyboardInterrupt, and goes on with the next
    cell."""
    script = textwrap.dedent("""
        import os, signal, railweave as rw
        from railweave.framework.model.events import IterationEnded
        from railweave.framework.studies.leftovers import MARK, footprint
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as IPython does
        before = footprint(os.environ[MARK])
        def interrupt(event):
            if isinstance(event, IterationEnded):
                os.kill(os.getpid(), signal.SIGINT)
        try:
            rw.run(domains=2, rails=2, size="64K", iterations=200, rate_scale=2e-5, on_event=interrupt)
        except KeyboardInterrupt:
            print("interrupted; left:", sorted(footprint(os.environ[MARK]) - before))
        result = rw.run(domains=2, rails=2, size="64K", iterations=2, rate_scale=2e-5)
        print("next:", result.wrong, len(result._repr_html_()) > 100)
    """)
    environment = {**os.environ, MARK: f"cell-{os.getpid()}"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.splitlines() == ["interrupted; left: []", "next: 0 True"], done.stderr


@pytest.mark.lab
@pytest.mark.untimed
def test_a_failed_run_is_an_exception_that_names_the_rank() -> None:
    with pytest.raises(rw.RailweaveError, match=r"g1\.1") as caught:
        small(faults=["at=iter:1 down gpu:1.1"])
    assert not isinstance(caught.value, LabError), "the fabric failed, not the lab"
