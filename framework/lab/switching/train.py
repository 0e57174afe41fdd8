"""A measuring train, as the controller is asked to send it."""

from __future__ import annotations

from typing import NamedTuple

from railweave.framework.model import Fabric


class Train(NamedTuple):
    """Back-to-back packets out of a port; `timed`: their number if the controller times them, else 0."""

    switch: int
    port: int
    packets: int
    size_bytes: int
    timed: int = 0

    @classmethod
    def over(cls, fabric: Fabric, link: int, packets: int, size_bytes: int, timed: int = 0) -> Train:
        """The train over a link."""
        return cls(int(fabric.link_src[link]), int(fabric.link_port[link]), packets, size_bytes, timed)
