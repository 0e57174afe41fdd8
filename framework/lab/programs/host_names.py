"""What programs call the hosts, and the file that resolves these names."""

from collections.abc import Sequence

from railweave.framework.lab.interface_names import host_name, program_host_name
from railweave.framework.lab.programs.rank_space import HOSTS
from railweave.framework.model import Endpoint, Fabric


def write_host_names(fabric: Fabric, endpoints: Sequence[Endpoint]) -> list[str]:
    """Write the names of all hosts, each with its alias (`h0-0`, `h0.0`), to HOSTS; returns the names."""
    names = [program_host_name(fabric, end.gpu) for end in endpoints]
    HOSTS.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    lines = [
        f"{end.ip} {name} {host_name(fabric, end.gpu)}\n" for end, name in zip(endpoints, names, strict=True)
    ]
    HOSTS.write_text("127.0.0.1 localhost\n" + "".join(lines))
    return names
