"""What docs/multipath.md says of collectives by health and of control delays, with real packets."""

from __future__ import annotations

from pathlib import Path

import pytest

import railweave as rw
from railweave.framework.registry import FILES, load_plugins
from railweave.framework.results.result import RunResult

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("nothing_left")]
RING = {"name": "clos", "servers": 4, "gpus": 1, "t0": 2, "t1": 1}


@pytest.mark.untimed
def test_a_slow_server_sends_its_buffer_once() -> None:
    """In a plain ring of four every rank sends 1.5 times its buffer; one that keeps out of it sends it once,
    the others (2 x 2 + 1) / 3 times. Acknowledgements and headers add a twentieth at most each."""
    size, iterations = 1 << 20, 8
    result = rw.run(
        topology=RING, collective={"name": "ring-all-reduce", "by_health": True}, size=size,
        iterations=iterations, faults=["at=iter:1 degrade gpu:0.1.0 to=40%"],
    )  # fmt: skip
    assert [row.wrong for row in result.rows] == [0] * len(result.rows)
    starts = [int(note.split()[1]) for note in result.notes if "ring-all-reduce by health" in note]
    assert len(starts) == 1 and 1 < starts[0] < iterations
    plain, apart = starts[0], iterations - starts[0]
    links = {link.name: link for link in result.links}
    sent = {gpu: links[f"g0.{gpu}.0->a0.0.{gpu // 2}"].bytes / size for gpu in range(4)}
    assert 1 <= sent[1] / (1.5 * plain + apart) < 1.1
    assert 1 <= sent[3] / (1.5 * plain + 5 / 3 * apart) < 1.1


@pytest.mark.untimed
def test_a_lossy_link_is_named_in_the_first_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 packets over each plane, of which one link loses 1.5 % (arXiv 2605.03702: one iteration)."""
    monkeypatch.setenv(FILES, str(Path(__file__).parents[1] / "examples" / "plugins" / "spray_check.py"))
    result = rw.run(
        topology={"name": "clos", "servers": 2, "gpus": 1, "planes": 2, "t0": 2, "t1": 1}, router="spray",
        collective="send-recv", size="8000K", iterations=1, feedback=False, estimator="spray-check",
        faults=["at=iter:0 loss link:a0.0.0->b0.0.0 rate=1.5%"], registers=load_plugins(),
    )  # fmt: skip
    assert [row.wrong for row in result.rows] == [0] * len(result.rows)
    assert [link.name for link in result.links if link.h_score < 1] == ["a0.0.0->b0.0.0"]


def delayed(delay: str) -> RunResult:
    return rw.run(
        domains=2, rails=4, size="1M", iterations=12, rate_scale=2e-5,
        faults=["at=iter:2 degrade rail:1 to=20%"], health={"control_delay": delay},
    )  # fmt: skip


@pytest.mark.quiet
@pytest.mark.parametrize("delay_us", [10, 30, 100])
def test_new_routes_come_later_by_the_control_delay(delay_us: int) -> None:
    """Counted from when scores first showed the fault, as the time to see it differs from run to run."""
    answers_s = []
    for result in (delayed("0s"), delayed(f"{delay_us}us")):
        (fault,) = result.faults
        assert fault.detected_s is not None and fault.recovered_s is not None
        answers_s.append(fault.recovered_s - fault.detected_s)
    waited_s, declared_s = answers_s[1] - answers_s[0], delay_us * 1e-6 / 2e-5
    assert waited_s == pytest.approx(declared_s, rel=0.05, abs=0.05)
