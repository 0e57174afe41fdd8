"""What RED is told, against the arithmetic of the kernel carried out here and the ramp of DCQCN (SIGCOMM
2015, figure 5). RED itself is tried in tests/vm."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import railweave as rw
from railweave.framework.errors import MachineError
from railweave.framework.experiment.ramp import Ramp
from railweave.framework.lab.switching.red import marked_share, parameters, probability_of
from railweave.framework.processes.netlink import attributes
from tests.framework.lab.inside import inside

DRAWS = 100_000


@pytest.mark.parametrize("probability", [0.003, 0.1, 0.3, 1 / 3, 0.5, 0.7, 1.0])
def test_distances_between_marks_are_those_of_an_even_draw(probability: float) -> None:
    """The first count that is u / p or more, for u all over 0..1."""
    counts = np.maximum(np.ceil((np.arange(DRAWS) + 0.5) / DRAWS / probability - 1e-9), 1)
    assert marked_share(probability) == pytest.approx(1 / counts.mean(), rel=1e-4)


@pytest.mark.parametrize("share", [0.0, 1e-4, 0.01, 0.2, 0.5, 2 / 3, 0.9, 1.0])
def test_a_share_has_the_probability_that_gives_it(share: float) -> None:
    assert 0 <= probability_of(share) <= 1
    assert marked_share(probability_of(share)) == pytest.approx(share, rel=1e-9)


def _told(ramp: Ramp) -> tuple[int, int, int, dict[int, bytes]]:
    """Thresholds, what the kernel divides its draws by, and all attributes."""
    data = parameters(ramp)
    values = {kind: data[at] for kind, at in attributes(data, slice(0, len(data)))}
    _limit, low, high, weight, _probability, _cell, flags = struct.unpack("=IIIBBBB", values[1])
    assert (weight, flags) == (0, 0)  # flags of the structure exclude those of the attribute
    return low, high, struct.unpack("=I", values[3])[0] // max(high - low, 1), values


def _kernel_share(ramp: Ramp, queue_bytes: int) -> float:
    """The share of packets that a queue of this length marks, by red_action (include/net/red.h), for draws
    of 32 bits all over their range."""
    low, high, divisor, _ = _told(ramp)
    if queue_bytes < low:
        return 0.0
    if queue_bytes >= high:
        return 1.0
    draws = (np.arange(DRAWS) + 0.5) / DRAWS * 2**32 // divisor
    return 1 / float(np.maximum(-(-draws // (queue_bytes - low)), 1).mean())


@pytest.mark.parametrize("pmax", [0.01, 0.2, 0.6, 1.0])
def test_the_kernel_marks_by_the_ramp_and_reaches_pmax_at_its_end(pmax: float) -> None:
    """More than the ramp in between, by less than its slope at kmin: marks are 1 / 2 p apart in the mean, or
    more. 1 % for whole numbers."""
    ramp = Ramp(20 << 10, 80 << 10, pmax)
    assert _kernel_share(ramp, (20 << 10) - 1) == 0 and _kernel_share(ramp, 80 << 10) == 1
    assert _kernel_share(ramp, (80 << 10) - 1) == pytest.approx(pmax, rel=0.01)
    for queue in range(22 << 10, 80 << 10, 3000):
        linear = pmax * (queue - (20 << 10)) / (60 << 10)
        share = _kernel_share(ramp, queue)
        assert share == pytest.approx(marked_share(probability_of(pmax) * linear / pmax), rel=0.01)
        assert 0.99 * linear <= share <= 1.01 * linear * 2 * probability_of(pmax) / pmax


def test_steps_and_thresholds_that_no_queue_reaches() -> None:
    for ramp in (Ramp(5_000, 5_000, 1.0), Ramp(1_000, 5_000, 0.0)):
        assert [_kernel_share(ramp, queue) for queue in (0, 4_999, 5_000)] == [0, 0, 1]
    low, high, divisor, _ = _told(Ramp(0, 1e12, 0.5))
    assert (low, high) == (0, 2**31 - 1) and divisor >= 1  # the kernel refuses 2^31


def test_the_mean_is_forgotten_and_nothing_is_dropped_early() -> None:
    """Source of the numbers: linux/pkt_sched.h, enum TCA_RED_*, TC_RED_ECN | TC_RED_NODROP as a bitfield."""
    _, _, _, values = _told(Ramp(1, 2, 1.0))
    assert set(values) == {1, 2, 3, 4} and struct.unpack("=II", values[4]) == (9, 9)
    assert len(values[2]) == 256 and all(2**31 - 1 >> shift == 0 for shift in values[2])


@pytest.mark.untimed
@pytest.mark.lab
@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("marked_by", ["auto", "red", "levels"])
def test_what_marks_is_in_the_result_and_red_is_refused_without_the_kernel(marked_by: str) -> None:
    engine = {"name": "emulation", "marks": "on", "marked_by": marked_by}
    topology = {"name": "rail-only", "domains": 2, "rails": 1}
    has = inside("has_red")

    def run() -> str:
        result = rw.run(topology=topology, engine=engine, collective="send-recv", size="64K", iterations=1,
                        faults=[], feedback=False)  # fmt: skip
        return result.versions["marks"]

    if marked_by == "red" and not has:
        with pytest.raises(MachineError, match=r"no RED that marks .* `engine.marked_by` to levels"):
            run()
    else:
        assert run() == ("red" if has and marked_by != "levels" else "levels")
