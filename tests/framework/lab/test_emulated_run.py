"""What a run keeps when its capture fails; the rest of the emulated run is tested on the lab."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from railweave.framework.errors import LabError, TransportError
from railweave.framework.lab.emulated_run import EmulatedRun


class DeadCapture:
    def stop(self) -> int:
        raise TransportError("the capture process died")


@pytest.fixture
def run() -> Any:
    """The parts of a run that capturing uses; its capture process dies before it is stopped."""
    plan = SimpleNamespace(
        pcap_links=(0,),
        fabric=SimpleNamespace(link_name=lambda link: "g0.0->d0"),
        transport=SimpleNamespace(capture=lambda links, file, log: DeadCapture()),
    )
    notes: list[str] = []
    lab = SimpleNamespace(link_interfaces=lambda: {0: ("netns", "eth0")})
    return SimpleNamespace(_plan=plan, lab=lab, notes=notes, _recorder=SimpleNamespace(note=notes.append))


def test_a_capture_that_died_is_a_note_of_a_finished_run(run: Any) -> None:
    with EmulatedRun.captured(cast(EmulatedRun, run), 3):
        pass
    assert run.notes == ["the capture is incomplete: the capture process died"]


def test_a_capture_that_died_does_not_hide_why_the_run_failed(run: Any) -> None:
    with pytest.raises(LabError, match="a switch died"), EmulatedRun.captured(cast(EmulatedRun, run), 3):
        raise LabError("a switch died")
