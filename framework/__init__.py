"""railweave: emulate the networks of AI clusters with real packets, and let measured link health steer the
routes.

    import railweave as rw

    result = rw.run(domains=4, rails=4, faults=["at=iter:4 degrade rail:1 to=20%"])

The functions are those of `railweave.framework.api`; docs/python.md has an example of each. Names load when
they are first used, so that importing the package costs next to nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from railweave.framework.api import (
        compare,
        compare_engines,
        compare_jobs,
        explain,
        lab,
        load,
        loads,
        read,
        run,
        sweep,
        topology,
        what_if,
    )
    from railweave.framework.errors import RailweaveError

    __version__: str

__all__ = [
    "RailweaveError",
    "__version__",
    "compare",
    "compare_engines",
    "compare_jobs",
    "explain",
    "lab",
    "load",
    "loads",
    "mark",
    "read",
    "run",
    "sweep",
    "topology",
    "what_if",
]


def mark() -> None:
    """In a program that railweave runs: this rank has ended an iteration. Does nothing elsewhere."""
    import os

    if path := os.environ.get("RAILWEAVE_MARKS"):
        with open(path, "a") as marks:  # noqa: PTH123 - pathlib costs more than all else here
            marks.write("\n")


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("railweave")
        except PackageNotFoundError:  # a source tree that was never installed
            return "0+unknown"
    if name == "RailweaveError":
        from railweave.framework.errors import RailweaveError

        return RailweaveError
    if name in __all__:
        from railweave.framework import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
