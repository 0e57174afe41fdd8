"""The keys of the experiment file, whose defaults are those that issue 2 states for the main job; one size or
a sweep, as nccl-tests' -b, -e, -f and -i have it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.plan import load_plan
from railweave.framework.experiment.schema import MOST, canonical, parse_sizes, spoken
from railweave.framework.health.options import HealthOptions
from railweave.framework.registry import Registers
from tests.framework.experiment.experiments import written


def test_nothing_said_is_the_main_job(registers: Registers) -> None:
    plan = load_plan(None, None, registers)
    asked = plan.experiment
    assert (plan.fabric.kind, plan.fabric.n_gpus) == ("rail-only", 16)
    assert (asked.router.name, asked.collective.name, asked.controller.name) == (
        "hscore",
        "all-reduce",
        "ryu",
    )
    assert (asked.size, asked.dtype, asked.redop, asked.iterations) == (1 << 20, "float32", "sum", 12)
    assert (asked.path_mtu, asked.seed, asked.feedback, asked.rate_scale) == (4096, 1, True, "auto")
    assert asked.faults == ("at=iter:4 degrade rail:1 to=20%",)
    assert plan.schedule.n_ranks == 16
    assert plan.packet.path_mtu == 4096
    assert asked.health == HealthOptions()
    rates = {
        plan.fabric.kinds[k]: r for k, r in zip(plan.fabric.link_kind, plan.fabric.capacity_bps, strict=True)
    }
    assert rates == {"d": 450e9 * 8, "r": 400e9}


def test_a_file_with_units_and_sections(registers: Registers, tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        topology: {domains: 2, rail_rate: 200Gb/s}
        router: hscore
        size: 64K
        faults:
          - at=1s down rail:0
          - at=2s up rail:0
        health: {dwell: 500ms, aggregate: min}
        feedback: no
        rate_scale: 1e-5
        timeout: 30s
        pcap: g0.0->r0
        """,
    )
    plan = load_plan(path, None, registers)
    assert plan.fabric.n_gpus == 8
    assert plan.experiment.topology.options["rail_rate"] == 200e9
    assert plan.experiment.size == 65536
    assert [f.verb for f in plan.faults] == ["down", "up"]
    assert (plan.experiment.health.dwell_s, plan.experiment.health.aggregate) == (0.5, "min")
    assert plan.experiment.feedback is False
    assert (plan.experiment.rate_scale, plan.experiment.timeout) == (1e-5, 30.0)
    assert [plan.fabric.link_name(i) for i in plan.pcap_links] == ["g0.0->r0"]


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1M", (1 << 20,)),
        (0, (0,)),
        ("64K:512K:x2", (65536, 131072, 262144, 524288)),
        ("8:1000:x10", (8, 80, 800)),
        ("1K:4K:+1K", (1024, 2048, 3072, 4096)),
        ("0:10:+4", (0, 4, 8)),
        ("4K:4K:x2", (4096,)),
    ],
)
def test_sizes_step_as_in_nccl_tests(text: object, sizes: tuple[int, ...]) -> None:
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("4M:64K:x2", "ends before it"),
        ("64K:4M", "FROM:TO:xFACTOR"),
        ("64K:4M:x1", "from 2 on"),
        ("0:4M:x2", "above 0"),
        ("64K:4M:*2", "xFACTOR or"),
        ("64K:4M:+0", "xFACTOR or"),
        ("1:100000:+1", f"more than {MOST}"),
        ("64Q:4M:x2", "'64Q' is not a size"),
        ("-1", "too small; it takes a size"),
    ],
)
def test_what_is_no_sweep_is_refused_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(ExperimentError, match=says):
        parse_sizes(text)


@given(st.integers(1, 1 << 30), st.integers(0, 40), st.integers(2, 9))
def test_what_is_spoken_reads_back(low: int, more: int, factor: int) -> None:
    text = f"{low}:{low * factor**more}:x{factor}"
    assert spoken(canonical(text)) == spoken(canonical(spoken(canonical(text))))
    assert parse_sizes(text) == parse_sizes(spoken(canonical(text)))
    assert parse_sizes(canonical(text)) == parse_sizes(text)
