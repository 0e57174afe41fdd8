"""Real packets take the paths that a chooser names."""

from __future__ import annotations

import pytest

import railweave as rw

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("nothing_left")]
PLANES = {"name": "clos", "servers": 2, "gpus": 1, "planes": 2, "t0": 2, "t1": 1}
PACKETS = 128


@pytest.mark.untimed
@pytest.mark.parametrize(
    ("chooser", "together"),
    [("random", False), ({"name": "flowlets", "gap": "1s"}, True), ("messages", True)],
)
def test_packets_are_shared_out_over_two_planes(chooser: object, together: bool) -> None:
    """A message of 128 packets each way. Drawn one by one, 0.2 to 0.8 of them take each plane, 6.8 standard
    deviations off the half; in one flowlet, as a gap of a second never comes, or one message all take the
    same."""
    result = rw.run(
        topology=PLANES, router="spray", chooser=chooser, collective="send-recv", size=f"{4 * PACKETS}K",
        iterations=1, faults=[], feedback=False,
    )  # fmt: skip
    assert [row.wrong for row in result.rows] == [0] * len(result.rows)
    ports = [link for link in result.links if link.name.startswith("g0.0.0->")]
    assert len(ports) == 2
    shares = [port.bytes / sum(port.bytes for port in ports) for port in ports]
    assert (max(shares) > 0.9) == together and (together or min(shares) > 0.2)


def test_reps_leaves_a_slow_plane_by_its_marks() -> None:
    """One plane at a quarter one way. In turn it would carry half; with a queue there it carries less, down
    to what it serves, a quarter of the other. What a link marks arrives marked, once, but for packets sent
    again."""
    result = rw.run(
        topology=PLANES, router="spray", chooser="reps", collective="send-recv", size=f"{16 * PACKETS}K",
        iterations=1, faults=["at=0s degrade link:a0.0.0->b0.0.0 to=25%"], feedback=False,
    )  # fmt: skip
    links = {link.name: link for link in result.links}
    slow, other = (links[f"g0.0.0->a{plane}.0.0"].bytes for plane in (0, 1))
    assert slow < 0.45 * (slow + other)
    row, marked = result.rows[0], {name: link.marked for name, link in links.items() if link.marked}
    assert row.wrong == 0 and marked["a0.0.0->b0.0.0"] == max(marked.values()) >= 10
    assert 0 <= sum(marked.values()) - (row.marked or 0) <= 2 * (row.retransmitted or 0)
    assert links["g0.0.0->a0.0.0"].marked is None
