"""Benchmarks about railweave itself: a checkout has them in tests/bench/, which is imported as
`railweave.bench`; a wheel does not have them."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from railweave.framework.errors import NotInstalledError
from railweave.framework.hookspecs import Benchmark
from railweave.framework.registry import Registers

NAMES = ("files", "flows", "health", "live", "packet", "report", "sweep")
"""What `railweave bench` has in a checkout alone; there, `fluid` has all of its rows, too."""


def is_checkout() -> bool:
    """Whether this is an editable install of a checkout: .links/railweave/bench leads to tests/bench/."""
    return find_spec("railweave.bench") is not None


def not_here(command: str) -> NotInstalledError:
    """The error for what a wheel does not have; `command`: its words."""
    return NotInstalledError(
        f"`railweave {command}` measures railweave itself and is not installed here: it is in tests/bench/ "
        "of a checkout. Clone the repository, run `make dev` in it, and call its .venv/bin/railweave."
    )


def benchmarks() -> Mapping[str, Benchmark]:
    """Those of a checkout; none elsewhere."""
    if not is_checkout():
        return {}
    from railweave.bench.benchmarks import BENCHMARKS

    return BENCHMARKS


def benchmark(name: str, registers: Registers) -> Benchmark:
    """The benchmark of that name. Raises PluginError where there is none, NotInstalledError where a checkout
    has it alone."""
    register = registers["benchmark"]
    if name in NAMES and name not in register and not is_checkout():
        raise not_here(f"bench {name}")
    registered: Benchmark = register[name]
    return registered


def compare_cases(
    engines: Sequence[str],
    registers: Registers,
    changed: Mapping[str, object],
    directory: Path,
    *,
    quick: bool,
    repeat: int,
    as_json: bool,
) -> None:
    """Compare engines on many experiments, as a study in `directory`, and print how far apart they are
    (tests/bench/engine_table.py). Raises NotInstalledError in a wheel."""
    if not is_checkout():
        raise not_here(f"compare --engines {','.join(engines)} --{'quick' if quick else 'all'}")
    from railweave.bench.engine_table import compare_cases

    compare_cases(engines, registers, changed, directory, quick=quick, repeat=repeat, as_json=as_json)
