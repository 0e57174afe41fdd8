"""Caches of keys and values: bytes and times derived by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import railweave as rw
from railweave.framework.errors import ExperimentError
from railweave.topologies.rail_only import RailOnly
from railweave.traffic.workloads.kv import KvTransfer

FABRIC = RailOnly().build({"domains": 4, "rails": 4})
EXAMPLE = Path(__file__).parents[3] / "examples" / "kv.yaml"


def test_a_token_of_llama_3_70b_has_320_kib() -> None:
    """80 layers, 8 heads with keys and values, 128 numbers in each, of 2 bytes: 2 x 80 x 8 x 128 x 2."""
    assert KvTransfer().token_bytes == 327_680


def test_every_prompt_is_one_message_of_its_tokens() -> None:
    """1:3 on 16 GPUs: 4 prefill, 12 decode. 24 prompts of a token: request i goes from i mod 4 to
    4 + i mod 12, 327,680 bytes each; every GPU that prefills sends 6, every one that decodes gets 2."""
    work = KvTransfer(requests=24, tokens=1, spread=0.0, prefill=1, decode=3, scaled=False)
    schedule = work.schedule(FABRIC, range(16), 1 << 20, "int8", "sum")
    assert schedule.src.tolist() == [i % 4 for i in range(24)]
    assert schedule.dst.tolist() == [4 + i % 12 for i in range(24)]
    assert set(schedule.size.tolist()) == {327_680}
    assert schedule.size_bytes == 6 * 327_680 and schedule.seconds.sum() == 0
    inputs = work.inputs(schedule, 1)
    ends = [work.expected(schedule, inputs, rank) for rank in range(16)]
    for i in range(24):
        sent = inputs[i % 4][schedule.src_offset[i] :][:327_680]
        landed = ends[4 + i % 12][schedule.dst_offset[i] :][:327_680]
        assert np.array_equal(sent, landed)


def test_scaled_caches_keep_their_ratios_and_the_busiest_gpu_sends_the_size() -> None:
    work = KvTransfer(requests=8, tokens=1000, spread=0.5, seed=3)
    tokens = work.lengths()
    assert tokens.min() >= 500 and tokens.max() <= 1500 and len(set(tokens.tolist())) > 4
    schedule = work.schedule(FABRIC, range(2), 1 << 20, "int8", "sum")
    assert schedule.size.sum() == pytest.approx(1 << 20, abs=8)
    assert schedule.size / schedule.size.sum() == pytest.approx(tokens / tokens.sum(), rel=1e-4)


@pytest.mark.parametrize(
    ("ranks", "prefill", "decode", "expected"),
    [(16, 1, 3, 4), (16, 3, 1, 12), (16, 1, 1, 8), (2, 1, 100, 1), (2, 100, 1, 1), (3, 1, 1, 2)],
)
def test_ranks_divide_by_the_ratio_and_neither_part_is_empty(
    ranks: int, prefill: int, decode: int, expected: int
) -> None:
    assert KvTransfer(prefill=prefill, decode=decode).prefilling(ranks) == expected


def test_one_rank_cannot_do_both() -> None:
    with pytest.raises(ExperimentError, match="kv of 1 rank: it needs 2 or more"):
        KvTransfer().schedule(FABRIC, [0], 1 << 20, "int8", "sum")


def test_first_tokens_come_when_prompts_are_prefilled_and_caches_sent() -> None:
    """One GPU prefills three prompts of 1,000 tokens at 10,000 a second, and sends each cache over a rail of
    400 Gb/s to the GPU of the other domain: 327,680,000 bytes take 6.55 ms without headers, so none waits
    for the one before. They land 6.55 ms after 100, 200 and 300 ms; headers are 58 bytes of 4,154."""
    workload = {
        "name": "kv", "requests": 3, "tokens": 1000, "spread": 0.0, "prefill_rate": 10000.0, "scaled": False,
    }  # fmt: skip
    result = rw.run(engine="fluid", domains=2, rails=1, workload=workload, iterations=2, faults=[])
    found = result.summary.message_figures
    assert found is not None and found.messages == 6 and found.p99_us is None
    sending_us = 327_680_000 * 8 / 400e9 * 1e6 * 4154 / 4096
    assert found.p50_us == pytest.approx(200_000 + sending_us, rel=1e-4)
    assert found.p95_us == found.max_us == pytest.approx(300_000 + sending_us, rel=1e-4)
    assert result.summary.declared_time_us == pytest.approx(found.max_us)


def test_the_example_has_the_bytes_of_its_tokens() -> None:
    """The busiest of 4 GPUs sends all caches of its 16 prompts; the last token ends the iteration."""
    result = rw.run(EXAMPLE)
    tokens = KvTransfer(requests=64, tokens=2048, spread=0.5).lengths()
    busiest = max(int(tokens[gpu::4].sum()) for gpu in range(4))
    assert result.summary.size_bytes == busiest * 327_680
    found = result.summary.message_figures
    assert found is not None and found.messages == 4 * 64
    assert found.max_us == pytest.approx(result.summary.declared_time_us)
    assert found.max_us >= busiest / 20_000 * 1e6
