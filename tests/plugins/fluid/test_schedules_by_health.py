"""Collectives that know the health of links when an iteration begins, on the engine fluid."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import railweave as rw
from railweave.framework.errors import ExperimentError, RailweaveError
from railweave.framework.registry import FILES, load_plugins

SLOW = "at=iter:2 degrade gpu:0.0.3 to=50%"
RING: dict[str, Any] = {
    "engine": "fluid", "topology": "clos", "planes": 2, "size": "16M", "iterations": 8, "faults": [SLOW],
    "collective": {"name": "ring-all-reduce", "by_health": True},
}  # fmt: skip


def times_us(**keys: Any) -> list[float]:
    return [row.declared_time_us for row in rw.run(**keys).rows if row.iteration is not None]


def test_a_ring_leaves_a_slow_server_at_its_side() -> None:
    """A plain ring takes twice the time. By health an iteration takes no longer than the bound of arXiv
    2606.01680 for this rank (its rate takes 2 of the buffer's time, healthy ones 30 / 16) and one block."""
    plain = times_us(**(RING | {"collective": "ring-all-reduce"}))
    by_health = times_us(**RING)
    assert by_health[:3] == plain[:3] and plain[-1] / plain[0] == pytest.approx(2, rel=0.01)
    assert 32 / 30 < by_health[-1] / plain[0] < 32 / 30 + 2.5 / 32


def test_it_returns_when_the_server_has_recovered() -> None:
    result = rw.run(**(RING | {"iterations": 12, "faults": [SLOW, "at=iter:6 restore gpu:0.0.3"]}))
    times = [row.declared_time_us for row in result.rows if row.iteration is not None]
    assert times[4] < 1.2 * times[0] and times[-1] == pytest.approx(times[0], rel=1e-6)
    notes = [note for note in result.notes if "ring-all-reduce" in note]
    assert ["by health" in note for note in notes] == [True, False]  # the other one: scores have risen


@pytest.mark.parametrize("keys", [{"feedback": False}, {"faults": []}])
def test_nothing_changes_where_nothing_is_known(keys: dict[str, Any]) -> None:
    assert times_us(**(RING | keys)) == times_us(**(RING | keys | {"collective": "ring-all-reduce"}))


def test_rails_and_domains() -> None:
    """All NICs of a domain at half their rate, on routes that do not follow scores."""
    keys = RING | {"topology": "rail-only", "domains": 8, "rails": 4, "router": "shortest"}
    del keys["planes"]
    keys["faults"] = [f"at=iter:2 degrade nic:1.{rail} to=50%" for rail in range(4)]
    usual, by_health = (
        times_us(**(keys | {"collective": {"name": "all-reduce", "by_health": by_health}}))
        for by_health in (False, True)
    )
    assert usual[-1] / usual[0] > 1.5 and by_health[-1] / usual[0] < 1.25


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "mine.py"
    monkeypatch.setenv(FILES, str(path))
    yield path


LINE = (Path(__file__).parents[2] / "strangers" / "last_in_line.py").read_text()
KEYS: dict[str, Any] = RING | {"collective": "last-in-line", "size": "1M"}


def test_a_strangers_chain_puts_the_slow_one_last(file: Path) -> None:
    """In a chain of 15 hops without pipelining a slow rank in the middle costs two hops of twice the time, at
    the end one: 17 and 16 for 15."""
    file.write_text(LINE)
    registers = load_plugins()
    times = times_us(**KEYS, registers=registers)
    plain = times_us(**KEYS, feedback=False, registers=registers)
    assert plain[-1] / plain[0] == pytest.approx(17 / 15, rel=0.01)
    assert times[-1] / plain[0] == pytest.approx(16 / 15, rel=0.01)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "size, dtype, redop, size,",
            "size, dtype, redop, size + int(speed.min() < 1) * 64,",
            "in buffers of",
        ),
        ("line = np.append(", "line = 1 / 0 if speed.min() < 1 else np.append(", "ZeroDivisionError"),
        ("wants_health = True", "wants_health = 'yes'", "it takes True or False"),
    ],
)
def test_a_mistake_is_named_before_the_run(old: str, new: str, message: str, file: Path) -> None:
    assert old in LINE
    file.write_text(LINE.replace(old, new, 1))
    with pytest.raises((ExperimentError, RailweaveError), match=message):
        rw.load(**KEYS, registers=load_plugins())
