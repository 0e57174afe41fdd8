"""The ground that every other part of railweave stands on."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("railweave")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

__all__ = ["__version__"]
