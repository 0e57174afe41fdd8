"""What a pod is made of, and rates from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from railweave.framework.errors import ExperimentError
from railweave.framework.papers.fleet import pod
from railweave.framework.papers.fleet.pod import FailureRates, Pod, read_rates


def test_the_parts_of_a_cube() -> None:
    """By hand: 6 faces of 16 fibres; 3 x 16 x 3 = 144 links inside, of which 16 trays hold 4 each."""
    assert (pod.OPTICAL_CABLES, pod.ELECTRICAL_CABLES, pod.CABLES_PER_CUBE) == (96, 80, 176)
    assert (pod.HOSTS_PER_CUBE, pod.SWITCHES) == (16, 48)
    assert FailureRates() == FailureRates(hosts=0.08 / 100, cables=0.005 / 100, ocs=0.04 / 100)


@pytest.mark.parametrize(
    ("cubes", "spares", "says"),
    [(0, 0, "a pod of 0 cubes"), (4, 4, "4 spare cubes in a pod of 4"), (4, -1, "Keep 0 to 3")],
)
def test_impossible_pods(cubes: int, spares: int, says: str) -> None:
    with pytest.raises(ExperimentError, match=says):
        Pod(cubes, spares)


@pytest.mark.parametrize(
    "text", ["hosts: 1%\ncables: 0.001\nocs: 0\n", '{"hosts": 0.01, "cables": "0.1%", "ocs": 0}']
)
def test_rates_are_read_from_yaml_and_json(tmp_path: Path, text: str) -> None:
    file = tmp_path / "rates"
    file.write_text(text)
    assert read_rates(file) == FailureRates(hosts=0.01, cables=0.001, ocs=0)


def test_every_mistake_in_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rates.yaml"
    file.write_text("hosts: often\ncable: 1%\ncables: true\n")
    with pytest.raises(ExperimentError) as refused:
        read_rates(file)
    message = str(refused.value)
    assert "rates.yaml:1:1: hosts: 'often' is not a share" in message
    assert "cable: there is no such rate; the file holds hosts, cables, ocs. Did you mean cables?" in message
    assert "cables: True is not a share" in message
    assert "ocs is missing. Add" in message and "hosts is missing" not in message
