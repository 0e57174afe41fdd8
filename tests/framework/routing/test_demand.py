"""What pairs send at once and in a row, by what the schedules of collectives wait for."""

from typing import Any

import numpy as np
import pytest

import railweave as rw
from railweave.framework.health.waits import Bursts
from railweave.framework.model import PacketFormat, Schedule
from railweave.framework.routing.demand import JobDemand


@pytest.mark.parametrize(
    ("collective", "in_a_row"),
    [
        ("ring-all-reduce", {1.0}),
        ("broadcast", {1.0, 8.0}),
        ("direct-all-to-all", {1.0}),
        ("all-to-all", {4.0}),
    ],
)
def test_messages_that_wait_for_nothing_are_sent_in_a_row(collective: str, in_a_row: set[float]) -> None:
    """Of 4 x 4: a ring waits, and so do chunks of a broadcast, but for those of its root, for what they send
    on; in an all-to-all a pair of a domain has a message for each domain, and one of a rail a message of each
    GPU of its domain."""
    rows = set[float]()
    for pairs, many, bits in sent_at_once(topology="rail-only", domains=4, rails=4, collective=collective):
        assert len(pairs) == len(many) == len(bits)
        rows.update(many.tolist())
    assert rows == in_a_row


def sent_at_once(**keys: Any) -> list[Bursts]:
    schedule, packet, n = sent(**keys)
    return JobDemand([schedule], packet).phases(n)


def sent(**keys: Any) -> tuple[Schedule, PacketFormat, int]:
    plan = rw.load(engine="fluid", **keys)
    job = plan.jobs[0]
    return job.on_gpus(job.compact[-1]), plan.packet, plan.fabric.n_gpus


def test_pairs_that_send_one_after_the_other_do_not_send_at_once() -> None:
    """A broadcast along a chain of 16 sends 8 chunks, so that the pairs of 8 hops do at once, and the last 7.
    OpTree on a ring takes turns within a stage: nobody sends with a pair whose data he waits for."""
    chain = sent_at_once(topology="rail-only", domains=4, rails=4, collective="broadcast")
    assert [len(phase.pairs) for phase in chain] == [8, 7]
    keys = dict[str, Any](topology={"name": "ring", "nodes": 15}, collective="optree", size=15 << 17)
    schedule, _, n = sent(**keys)
    waits_for: list[set[int]] = []
    for i in range(schedule.n_entries):
        direct = schedule.after[schedule.after_start[i] : schedule.after_start[i + 1]].tolist()
        waits_for.append(set(direct).union(*(waits_for[j] for j in direct)))
    number = schedule.src.astype(np.int64) * n + schedule.dst
    of_pair = {int(pair): np.flatnonzero(number == pair).tolist() for pair in number[schedule.is_transfer]}
    for phase in sent_at_once(**keys):
        once = [of_pair[pair][0] for pair in phase.pairs.tolist() if len(of_pair[pair]) == 1]
        assert not any(waits_for[i] & set(once) for i in once)
