"""`railweave bench throughput`: the search for the best load, bare packets, and a short contest on the
lab."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from railweave.framework.bench.bare_sender import COUNTED, PORTS, RECEIVED, frame
from railweave.framework.bench.throughput import COARSE, LEAST_BYTES, Climber, Turn, planned
from railweave.framework.cli import main
from railweave.framework.errors import InputError
from railweave.framework.model import Endpoint
from railweave.framework.registry import Registers, load_plugins
from railweave.traffic.rocev2.tuning import SPAN, acknowledge_every

ENDS = [
    Endpoint(i, f"g{i}", "/none", f"h{i}", f"02:00:00:00:00:0{i + 1}", f"10.0.{i}.1", 4096) for i in range(2)
]


@given(peak=st.floats(15_000, 400_000), collapse=st.floats(1.1, 4))
def test_the_climb_ends_near_the_load_at_which_most_arrives(peak: float, collapse: float) -> None:
    """A switch that carries all up to its peak and less and less beyond it, as any with a receive
    livelock."""

    def run(pps: float) -> Turn:
        arrived = pps if pps <= peak else peak * (peak / pps) ** collapse
        return Turn(arrived, 1.0, 0.1, 1.0)

    climber = Climber(run, 10_000.0)
    climber.climb()
    assert peak / COARSE <= climber.pps <= peak * COARSE
    for _ in range(4):
        best = climber.turn()
    assert best.rate >= 0.85 * peak
    assert len(climber.turns) == 4


def test_luck_does_not_count() -> None:
    """Trials that scatter by 5 % around what arrives: the median of 200 turns is not above the peak."""
    draw, peak = np.random.default_rng(1), 100_000.0

    def run(pps: float) -> Turn:
        arrived = pps if pps <= peak else peak * (peak / pps) ** 2
        return Turn(arrived * draw.normal(1.0, 0.05), 1.0, 0.1, 1.0)

    climber = Climber(run, peak)
    rates = [climber.turn().rate for _ in range(200)]
    assert 0.85 * peak < np.median(rates) < 1.01 * peak


@pytest.mark.parametrize("mode", [RECEIVED, COUNTED])
def test_a_bare_packet_is_one_that_the_rules_of_the_pair_carry(mode: str) -> None:
    """scapy reads what was packed by hand."""
    read = Ether(frame(*ENDS, 4154, mode))
    assert len(read) == 4154
    assert (read.src, read.dst) == (ENDS[0].mac, ENDS[1].mac)
    assert (read[IP].src, read[IP].dst, read[IP].len, read[IP].tos) == (ENDS[0].ip, ENDS[1].ip, 4140, 0)
    assert (read[UDP].sport, read[UDP].dport, read[UDP].len) == (0xC000, PORTS[mode], 4120)


def test_acknowledgements_are_as_they_were_in_windows_of_shaped_links() -> None:
    """Up to the default of max_window: one in a quarter of the window, and one in 8 packets at most."""
    assert [acknowledge_every(w) for w in range(1, 65)] == [max(1, min(w // 4, 8)) for w in range(1, 65)]
    assert acknowledge_every(SPAN) == SPAN // 8


def test_a_prime_number_of_gpus_is_refused_with_a_mend(registers: Registers) -> None:
    with pytest.raises(InputError, match=r"13 is prime\. Try 14"):
        planned(13, 1, registers)


def test_the_fabric_is_square_and_at_its_declared_rates() -> None:
    plan = planned(16, 3, load_plugins())
    assert plan.fabric.kind == "rail-only" and plan.fabric.groups[0].shape == (4, 4)
    assert plan.experiment.rate_scale == 1.0 and plan.packet.path_mtu == 4096
    assert plan.iterations == 3 + 3


@pytest.mark.lab
def test_a_short_contest_delivers_every_element_and_says_what_it_cost() -> None:
    done = CliRunner().invoke(main, ["bench", "throughput", "--quick", "--json"], prog_name="railweave")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["schema"] == {"name": "railweave.bench.throughput", "version": 1}
    assert found["gpus"] == 16 and found["transport"]["wrong"] == 0
    # two small iterations to find the size, one of that size to warm up, one counted
    packets = 16 * (2 * LEAST_BYTES + 2 * found["message_bytes"]) // 4096
    sent = found["transport"]["packets_sent"] - found["transport"]["retransmitted"]
    assert sent == packets
    for way in ("transport", RECEIVED, COUNTED):
        assert found[way]["payload_bytes_s"] > 0
        assert found[way]["cpu_s_per_gb"] > 0
        assert found[way]["switch_cpu_s_per_gb"] > 0
    assert found["ratio"]["goal"] == 0.85
