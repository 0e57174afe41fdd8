"""The fixtures of the framework's tests: plugins that stand in for real ones, and a result."""

from __future__ import annotations

from tests.framework.conftest import registers, result

__all__ = ["registers", "result"]
