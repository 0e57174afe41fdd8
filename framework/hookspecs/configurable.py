"""What every registered object has."""

from collections.abc import Mapping
from typing import Any, Protocol

from railweave.framework.parameters import Parameter, Value


class Configurable(Protocol):
    """What every registered object has: one line on what it is, its options, and how it takes values."""

    summary: str
    parameters: tuple[Parameter, ...] = ()

    def configured(self, options: Mapping[str, Value]) -> Any:
        """The object to use with these (parsed, complete) options; asked once per run."""
        return self
