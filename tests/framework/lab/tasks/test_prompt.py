"""What a line at the prompt asks of the lab; the lab here only notes it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from railweave.framework.errors import InputError
from railweave.framework.lab.tasks.prompt import Prompt
from railweave.framework.registry import load_plugins


class NotedLab:
    """Notes the keys of every run."""

    def __init__(self) -> None:
        self.registers = load_plugins()
        self.runs: list[dict[str, Any]] = []

    def run(self, **keys: Any) -> SimpleNamespace:
        self.runs.append(keys)
        return SimpleNamespace(wrong=0, fidelity=SimpleNamespace(verdict="pass"))


@pytest.fixture
def prompt() -> Prompt:
    prompt = Prompt(None, lambda event: None, lambda result: "")
    prompt.lab = NotedLab()  # type: ignore[assignment]
    return prompt


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("all-reduce 1M", {"collective": "all-reduce", "size": "1M"}),
        ("ptdp 4M tp=2", {"workload": "ptdp", "size": "4M", "tp": "2"}),
        ("workload=ptdp 1M", {"workload": "ptdp", "size": "1M"}),
        ("nothing 1M", {"collective": "nothing", "size": "1M"}),
        ("all-reduce 1M faults='at=iter:2 down rail:1'",
         {"collective": "all-reduce", "size": "1M", "faults": "at=iter:2 down rail:1"}),
        ("", {}),
    ],
)  # fmt: skip
def test_run_takes_a_collective_or_a_workload_a_size_and_keys(
    line: str, keys: dict[str, str], prompt: Prompt
) -> None:
    prompt.do_run(line)
    assert prompt.lab.runs == [keys] and not prompt.failed  # type: ignore[attr-defined]


def test_run_names_the_word_that_is_too_many(prompt: Prompt) -> None:
    with pytest.raises(InputError, match=r"a size, and key=value \(got '2M'\)"):
        prompt.do_run("ptdp 1M 2M")
