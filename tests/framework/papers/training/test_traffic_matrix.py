"""Placement and traffic of PTD-P: who is where, what may talk, and how much."""

from __future__ import annotations

import zlib
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError, UnsupportedFabricError
from railweave.framework.model import Fabric
from railweave.framework.papers.training.heatmap import binned, colours, heatmap_png, heatmap_svg
from railweave.framework.papers.training.models import MODELS, LanguageModel
from railweave.framework.papers.training.placement import place, scaled_degrees
from railweave.framework.papers.training.traffic_matrix import (
    Demands,
    TrainingJob,
    job_of_batch,
    traffic,
    volumes,
)
from railweave.topologies.rail_only import RailOnly
from railweave.topologies.ring import Ring

MODEL = LanguageModel("even", 16, 1024, 144, 512, 1024)
DEGREES = st.sampled_from([1, 2, 3, 4, 6, 8])


def rails(domains: int, count: int) -> Fabric:
    return RailOnly().build({"domains": domains, "rails": count})


def places(fabric: Fabric) -> tuple[np.ndarray, np.ndarray]:
    where = fabric.gpu_coordinates
    same_domain = where[:, None, 0] == where[None, :, 0]
    same_rail = where[:, None, 1] == where[None, :, 1]
    return same_domain, same_rail


def test_exact_zeros_where_the_domain_is_the_tensor_group() -> None:
    """Tensor traffic never leaves its domain, pipeline and data traffic never its rail, and no GPU sends to
    itself."""
    fabric = rails(32, 8)
    job = TrainingJob(MODELS["gpt-1t"], 8, 8, 4, 1, 2, 64)
    found = traffic(job, place(fabric, 8, 8, 4, 2))
    same_domain, same_rail = places(fabric)
    assert np.all(found.matrix("tp")[~same_domain] == 0)
    assert np.all(found.matrix("pp", "dp")[~same_rail] == 0)
    assert np.all(found.matrix("pp", "dp")[same_domain] == 0)
    assert np.all(np.diag(found.matrix()) == 0)
    assert min(found.matrix(kind).sum() for kind in ("tp", "pp", "dp")) > 0
    assert np.array_equal(found.matrix(), found.matrix("tp") + found.matrix("pp") + found.matrix("dp"))


@settings(max_examples=60)
@given(DEGREES, DEGREES, DEGREES, st.sampled_from([1, 2, 3]), st.sampled_from([1, 2, 4]))
def test_nothing_is_off_domain_and_off_rail(t: int, p: int, d: int, v: int, more: int) -> None:
    """Every rank is one GPU; each byte stays in a domain or on a rail; all volumes are those of equations 6
    and 7."""
    assume((p * d) % more == 0 and t in (1, 2, 4, 8))
    fabric = rails(p * d // more, t * more) if t * p * d > 1 else rails(1, 2)
    assume(fabric.n_gpus == t * p * d)
    try:
        placed = place(fabric, t, p, d, v)
    except ExperimentError:
        assume(False)
    assert sorted(placed.gpu.ravel()) == list(range(fabric.n_gpus))
    job = TrainingJob(MODEL, t, p, d, 1, v, 6)
    found = traffic(job, placed)
    same_domain, same_rail = places(fabric)
    assert np.all(found.matrix("tp")[~same_domain] == 0)
    assert np.all(found.matrix()[~same_domain & ~same_rail] == 0)
    activations = 2.0 * MODEL.hidden * MODEL.sequence
    gradients = 2.0 * MODEL.layers * MODEL.layer_parameters / (p * t)
    n = fabric.n_gpus
    assert found.matrix("tp").sum() == pytest.approx(n * 8 * MODEL.layers / p * 6 * activations * (t - 1) / t)
    assert found.matrix("dp").sum() == pytest.approx(n * 2 * gradients * (d - 1) / d)
    hops = p * v - 1 if p > 1 else 0
    assert found.matrix("pp").sum() == pytest.approx(t * d * 2 * 6 * hops * activations / t)


def test_a_wide_domain_takes_data_ranks_then_stages() -> None:
    """Eight GPUs a domain, tensor groups of 2, d = 2: two data ranks and two stages inside, to and fro
    across."""
    placed = place(rails(4, 8), 2, 8, 2)
    assert (placed.ph, placed.dh) == (2, 2)
    rail = placed.gpu % 8
    assert rail[0, :, 0].tolist() == [0, 2, 2, 0, 0, 2, 2, 0]
    assert (placed.gpu // 8)[0, :, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_middle_stages_send_what_equation_6_says() -> None:
    """2 m v D_p per GPU of a middle stage."""
    job = TrainingJob(MODEL, 2, 4, 1, 3, 2, 8)
    placed = place(rails(4, 2), 2, 4, 1, 2)
    sent = np.bincount(placed.gpu[0, 1], minlength=8)
    pp = traffic(job, placed).matrix("pp").sum(axis=1)
    edge = 2 * 3 * MODEL.hidden * MODEL.sequence / 2
    assert pp[sent > 0] == pytest.approx(2 * 8 * 2 * edge)
    assert volumes(job).edge == edge


@pytest.mark.parametrize(
    ("shape", "asked", "expected"),
    [
        ((32, 8), (8, 8, 4), (8, 8, 4)),
        ((4, 4), (8, 8, 4), (4, 2, 2)),
        ((8, 8), (8, 8, 4), (8, 4, 2)),
        ((4, 4), (8, 64, 1), (4, 4, 1)),
        ((2, 6), (4, 8, 4), (3, 2, 2)),
    ],
)
def test_scaled_degrees(shape: tuple[int, int], asked: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """By hand: whole tensor groups in a domain, then what keeps p to d."""
    assert scaled_degrees(rails(*shape), *asked) == expected


def test_smaller_groups_keep_the_shares() -> None:
    """A GPU sends as much for tensor and data parallelism on 16 GPUs as on 256."""
    job = job_of_batch(MODELS["gpt-1t"], 8, 8, 4, 1, 1, 512)
    whole = traffic(job, place(rails(32, 8), 8, 8, 4))
    part = traffic(job, place(rails(4, 4), 4, 2, 2))
    for kind in ("tp", "dp"):
        assert part.matrix(kind).sum() / 16 == pytest.approx(whole.matrix(kind).sum() / 256)
        assert part.shares[kind] == pytest.approx(whole.shares[kind], rel=0.01)


def test_most_pairs_are_silent() -> None:
    """The rail-only paper's observation: under one percent of all pairs exchange anything at thousands of
    GPUs."""
    job = job_of_batch(MODELS["gpt-1t"], 8, 64, 2, 1, 1, 1024)
    found = traffic(job, place(rails(128, 8), 8, 64, 2))
    assert found.silent_pairs > 0.99
    assert found.shares["tp"] > 0.75 and sum(found.shares.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("shape", "degrees", "chunks", "says"),
    [
        ((2, 4), (8, 1, 1), 1, "does not divide its 4 GPUs"),
        ((3, 2), (1, 6, 1), 2, "fill the 2 tensor groups"),
    ],
)
def test_placements_that_cannot_be(
    shape: tuple[int, int], degrees: tuple[int, int, int], chunks: int, says: str
) -> None:
    """The last: stages go to and fro over three domains, so the last is on another rail than the first."""
    with pytest.raises(ExperimentError, match=says):
        place(rails(*shape), *degrees, chunks)


def test_a_rail_fabric_of_another_name_is_served() -> None:
    own = replace(rails(4, 4), kind="our-own")
    assert np.array_equal(place(own, 4, 2, 2).gpu, place(rails(4, 4), 4, 2, 2).gpu)


def test_refusals() -> None:
    with pytest.raises(UnsupportedFabricError, match="domains, lattice"):
        place(Ring().build({"nodes": 4}), 2, 2, 1)
    with pytest.raises(ExperimentError, match="Raise dp"):
        scaled_degrees(rails(4, 4), 2, 2, 2)
    with pytest.raises(ExperimentError, match="cannot be reduced"):
        scaled_degrees(rails(9, 2), 2, 8, 2)
    with pytest.raises(ExperimentError, match="constraint 18"):
        TrainingJob(MODEL, 2, 5, 1)
    with pytest.raises(ExperimentError, match="sequence"):
        TrainingJob(MODEL, 3, 1, 1)
    with pytest.raises(ExperimentError, match="constraint 13"):
        job_of_batch(MODEL, 2, 2, 3, 1, 1, 8)


def test_no_traffic_at_all() -> None:
    found = Demands(2, *(np.empty(0, np.int64) for _ in range(3)), np.empty(0))
    assert found.shares == {"tp": 0, "pp": 0, "dp": 0} and found.silent_pairs == 1


def test_heatmap_svg_is_a_picture_of_the_matrix() -> None:
    """One filled cell per pair that talks, titled with its bytes; as many lines as edges of domains."""
    matrix = traffic(TrainingJob(MODEL, 4, 2, 2, m=4), place(rails(4, 4), 4, 2, 2)).matrix()
    picture = heatmap_svg(matrix, 4, "traffic", "shares")
    root = ElementTree.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    titled = [r for r in root.iter(f"{space}rect") if r.find(f"{space}title") is not None]
    assert len(titled) == np.count_nonzero(matrix)
    assert len(list(root.iter(f"{space}path"))) == 2 * 5
    assert heatmap_svg(matrix, 4, "traffic", "shares") == picture


def test_heatmap_png_is_the_same_matrix() -> None:
    """Decoded by hand: header, one filter byte a row, white exactly where nothing is sent."""
    matrix = traffic(TrainingJob(MODEL, 4, 2, 2, m=4), place(rails(4, 4), 4, 2, 2)).matrix()
    image = heatmap_png(matrix, 4)
    assert image[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(image[i : i + 4], "big") for i in (16, 20))
    assert (width, height) == (512, 512)
    start = image.index(b"IDAT")
    length = int.from_bytes(image[start - 4 : start], "big")
    body = image[start + 4 : start + 4 + length]
    assert zlib.crc32(b"IDAT" + body).to_bytes(4, "big") == image[start + 4 + length : start + 8 + length]
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(512, 1 + 3 * 512)
    assert not rows[:, 0].any()
    centres = rows[:, 1:].reshape(512, 512, 3)[16::32, 16::32]
    assert np.array_equal((centres == 255).all(axis=2), matrix == 0)


def test_colours_follow_the_logarithm() -> None:
    shades = colours(np.array([[0.0, 1.0], [1e3, 1e6]]))
    assert shades[0, 0].tolist() == [255, 255, 255]
    assert len({tuple(shade) for shade in shades.reshape(-1, 3).tolist()}) == 4
    assert colours(np.zeros((2, 2))).min() == 255


def test_large_matrices_are_summed() -> None:
    matrix = np.ones((600, 600))
    small, step = binned(matrix)
    assert step == 3 and small.shape == (200, 200) and small.sum() == matrix.sum()
    assert "GPUs 0 to 2" in heatmap_svg(matrix, 8, "t")
    assert heatmap_png(np.ones((1500, 1500)), 4)[16:20] == (750).to_bytes(4, "big")
