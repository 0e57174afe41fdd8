"""What is kept between runs, and what is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.vm import image


def test_who_comes_alone_clears_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "HOME", tmp_path)
    kept = ("image-bookworm-2/disk.raw", "image-bookworm-2/provisioned-2.qcow2", "image-bookworm-2/id",
            "image-trixie-0/disk.raw")  # fmt: skip
    left = ("image-bookworm-1/disk.raw", "image-bookworm-2/provisioned-1.qcow2", "running-1/disk.qcow2",
            "image-bookworm-3.making/root", "image-bookworm-2/disk.making")  # fmt: skip
    for name in kept + left:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for name in ("image-bookworm-1", "image-bookworm-2/provisioned-1.qcow2"):
        os.utime(tmp_path / name, (1, 1))
    with image.in_use():
        assert {str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")} == set(kept)
        running = tmp_path / "running-2"
        running.mkdir()
        with image.in_use():  # not alone now
            assert running.exists()
    with image.in_use():
        assert not running.exists()
