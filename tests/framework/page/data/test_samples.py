"""Files of a run directory that do not belong to its fabric are left out, and it is said why."""

from __future__ import annotations

import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from railweave.framework import api
from railweave.framework.model import HealthSnapshot
from railweave.framework.model.findings import PathsInUse
from railweave.framework.page.data.samples import read_paths, read_samples


def test_paths_of_another_fabric_are_left_out(tmp_path: Path) -> None:
    """A page would name each of its GPUs."""
    small, large = (api.topology("rail-only", domains=domains, rails=8) for domains in (2, 10))
    table = api.installed()["router"]["shortest"].routes(small, HealthSnapshot.healthy(small))
    paths = PathsInUse.of([(0.0, table.paths(np.array([0]), np.array([8])))])
    np.savez_compressed(tmp_path / "routes.npz", **asdict(paths))
    arrays, why = read_paths(tmp_path / "routes.npz", small)
    assert arrays is not None and why == ""
    assert read_paths(tmp_path / "routes.npz", large) == (
        None, "routes.npz is left out: routes are kept of up to 64 GPUs, and this fabric has 80.",
    )  # fmt: skip


FABRIC = api.topology("rail-only", domains=2, rails=2)


def samples(**changed: Any) -> dict[str, Any]:
    of_links = np.ones((3, FABRIC.n_links))
    names = ("queue_bytes", "link_score", "sent_bytes", "sent_packets", "lost")
    arrays = {"t_s": np.arange(3.0), "element_score": np.ones((3, FABRIC.n_nodes))}
    return {**arrays, **dict.fromkeys(names, of_links), **changed}


def test_what_was_sent_and_lost_is_known_together_or_not_at_all(tmp_path: Path) -> None:
    """The load is made of one, the loss of the others."""
    file, names = tmp_path / "health.npz", ("sent_bytes", "sent_packets", "lost")
    for left_out in (names, ()):
        np.savez(file, **{key: array for key, array in samples().items() if key not in left_out})
        assert read_samples(file, FABRIC)[1] == ""
    for name in names:
        np.savez(file, **{key: array for key, array in samples().items() if key != name})
        assert read_samples(file, FABRIC) == (None, f"health.npz is left out: it has no {name}.")


HEADER = b"{'descr': %s, 'fortran_order': False, 'shape': %s"


@pytest.mark.parametrize(
    "header",
    [
        HEADER % (b"'<f8'", b"(3,"),
        HEADER % (b"'<f8'", b"(3,)}}"),
        HEADER % (b"'<f8'", b"('x',)}"),
        HEADER % (b"'<f8'", b"(1e9,)}"),
        HEADER % (b"'nothing'", b"(3,)}"),
        HEADER % (b"{'a': [1]}", b"(3,)}"),
        b"{'descr': " + b"'" * 3,
        b"(" * 3000,
        b"\0" * 20,
    ],
    ids=range(9),
)
def test_a_damaged_header_of_an_array_is_said(header: bytes, tmp_path: Path) -> None:
    file = tmp_path / "health.npz"
    np.savez(file, **{key: array for key, array in samples().items() if key != "t_s"})
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("t_s.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    arrays, why = read_samples(file, FABRIC)
    assert arrays is None and why.startswith("health.npz is left out: ")


@pytest.mark.parametrize(("place", "value"), [(8, 1), (10, 99)], ids=["password", "packing"])
def test_an_archive_with_a_password_or_packed_otherwise_is_said(
    place: int, value: int, tmp_path: Path
) -> None:
    """In the central directory: flag 1 is encryption, and method 99 none that is read."""
    file = tmp_path / "health.npz"
    np.savez(file, **samples())
    data = bytearray(file.read_bytes())
    for start in (i for i in range(len(data)) if data[i : i + 4] == b"PK\x01\x02"):
        data[start + place] = value
    file.write_bytes(data)
    arrays, why = read_samples(file, FABRIC)
    assert arrays is None and why.startswith("health.npz is left out: ")


@pytest.mark.parametrize("dtype", ["f2", "f4", "g", "u8", "i1"])
def test_numbers_of_any_width_are_read(dtype: str, tmp_path: Path) -> None:
    file, ones = tmp_path / "health.npz", np.ones((3, FABRIC.n_links), dtype)
    np.savez(file, **samples(lost=ones, queue_bytes=np.full((3, FABRIC.n_links), 1e300)))
    arrays, why = read_samples(file, FABRIC)
    assert arrays is not None and why == ""
    assert arrays["lost"].dtype in (np.float32, np.float64, np.int64) and (arrays["lost"] == 1).all()
    assert np.isnan(arrays["queue_bytes"]).all(), "too large for a queue: not known"
