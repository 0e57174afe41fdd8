"""A lab that may not open enough files is refused with the number."""

from __future__ import annotations

import pytest

from railweave.framework.errors import MachineError
from railweave.framework.lab.switching.emulation import check_descriptors
from railweave.topologies.rail_only import RailOnly


def test_too_few_open_files_are_named() -> None:
    """4 x 4 GPUs: 32 cables, so 64 borrowed sockets, 16 namespaces and 64 others."""
    fabric = RailOnly().build({"domains": 4, "rails": 4, "domain_rate": 1e9, "rail_rate": 1e9})
    with pytest.raises(MachineError, match=r"may have 64 open files here .* 64 links needs 144. Raise it"):
        check_descriptors(fabric, 64)
    check_descriptors(fabric, 1024)
    check_descriptors(fabric, -1)  # no limit
