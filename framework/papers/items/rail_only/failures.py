"""Section 4.1: an idle GPU, a small group or an idle domain takes the place of what failed."""

from railweave.framework.papers.items.item import Claim, Claims
from railweave.framework.papers.items.swaps import swap
from railweave.framework.papers.items.workbench import Workbench


def r09(
    workbench: Workbench,
    *,
    domains: int = 3,
    rails: int = 4,
    connect: str = "25us",
    size: str = "1M",
) -> Claims:
    """A spare GPU of the same domain, two of them as a group, and a whole domain: an OCS patches them to the
    rails, the ranks go on."""
    cases = (
        ("idle GPU of the domain", ("gpu:1.2",), "gpu:1.2", 1),
        ("group of 2 GPUs", ("gpu:1.2", "gpu:1.3"), "gpu:1.2", 2),
        ("whole domain", ("domain:1",), "gpu:1.2", rails),
    )
    figures: list[Claim] = []
    for name, units, slow, circuits in cases:
        topology = {
            "name": "rail-only", "domains": domains, "rails": rails, "spares": 2, "spare_domains": 1,
            "ocs_time": connect,
        }  # fmt: skip
        made = swap(workbench, units, slow, topology=topology, size=size)
        figures += made.claims(name, connect, circuits)
    return Claims(tuple(figures))
