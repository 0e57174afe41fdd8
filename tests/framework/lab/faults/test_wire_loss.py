"""Packets lost at the far end of a cable: counted at both ends, for both datapaths."""

from __future__ import annotations

from math import sqrt

import pytest

from tests.framework.lab.inside import inside

pytestmark = pytest.mark.lab


def test_what_the_far_end_loses_left_the_near_end_and_is_not_counted_as_arrived() -> None:
    packets, share = 1000, 0.1
    spread = 5 * sqrt(packets * share * (1 - share))
    at_socket, at_ingress, healed = inside("lost_on_the_wire", share, packets)["passed"]
    # sent by the shaper, taken in by the socket, behind the ingress rules: sockets come before these
    assert at_socket[0] == at_ingress[0] == packets
    assert abs(packets - at_socket[1] - packets * share) < spread
    assert at_socket[2] == at_ingress[1] == packets
    assert abs(packets - at_ingress[2] - packets * share) < spread
    assert healed == [packets, packets, packets]
