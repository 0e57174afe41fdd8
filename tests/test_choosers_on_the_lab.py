"""Real packets take the paths that a chooser names."""

from __future__ import annotations

import pytest

import railweave as rw

pytestmark = [pytest.mark.lab, pytest.mark.untimed, pytest.mark.usefixtures("nothing_left")]
PLANES = {"name": "clos", "servers": 2, "gpus": 1, "planes": 2, "t0": 2, "t1": 1}
PACKETS = 128


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
