"""Ledgers: nothing lost, nothing counted twice, whichever process is killed, at any time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from railweave.framework.errors import InputError
from railweave.framework.studies.ledger import Ledger, known, rows

VERSION, OTHER = "0123456789ab", "ba9876543210"


def point(number: int) -> str:
    return f"{number:032x}"


def filled(path: Path, count: int) -> None:
    with Ledger(path, "study") as ledger:
        for number in range(count):
            ledger.add(point(number), VERSION, number % 3 != 2, {"settings": {"n": number}, "text": "ä" * 5})


def test_what_was_kept_is_there_and_the_later_row_of_a_point_counts(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    filled(path, 6)
    with Ledger(path, "study") as ledger:
        ledger.add(point(2), VERSION, True, {"settings": {"n": 20}})
        ledger.add(point(9), OTHER, True, {"settings": {"n": 9}})
    found = known(path, "study", VERSION)
    assert found.ok == {point(n): n != 5 for n in range(6)} and found.others == {OTHER: 1}
    kept = rows(path, "study", VERSION)
    assert [row["settings"]["n"] for row in kept.values()] == [0, 1, 20, 3, 4, 5]
    assert {*rows(path, "study", None)} == {*kept, point(9)}


def test_a_ledger_that_was_cut_anywhere_loses_its_last_row_alone(tmp_path: Path) -> None:
    """A kill or a full disk leaves any number of bytes of what was being written."""
    path = tmp_path / "rows.jsonl"
    filled(path, 3)
    whole = path.read_bytes()
    header_bytes, last = whole.index(b"\n") + 1, whole.rindex(b"\n", 0, -1) + 1
    for end in [*range(header_bytes), *range(last, len(whole))]:
        path.write_bytes(whole[:end])
        before = known(path, "study", VERSION).ok
        assert before == ({} if end < header_bytes else {point(0): True, point(1): True})
        with Ledger(path, "study") as ledger:
            assert ledger.cut == (end if end < header_bytes else end - last)
            ledger.add(point(7), VERSION, True, {"settings": {}})
        assert known(path, "study", VERSION).ok == {**before, point(7): True}


HOLDS = """
import sys, time
from pathlib import Path
from railweave.framework.studies.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]), "study")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_writer_is_refused_until_the_first_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match="another railweave is writing it"):
            Ledger(path, "study")
        assert known(path, "study", VERSION).ok == {}  # reading is free
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    Ledger(path, "study").close()


FILLS = """
import resource, signal, sys
from pathlib import Path
from railweave.framework.errors import RunFailedError
from railweave.framework.studies.ledger import Ledger
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
with Ledger(path, "study") as ledger:
    size = path.stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 400, size + 400))
    try:
        for number in range(100):
            ledger.add(f"{number:032x}", "0123456789ab", True, {"text": "x" * 90})
    except RunFailedError as error:
        print(number, error)
"""


def test_without_room_the_rows_before_stay_whole(tmp_path: Path) -> None:
    """A limit on the size of files refuses a write in its middle, as a full disk does."""
    path = tmp_path / "rows.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", FILLS, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    kept, _, message = done.stdout.partition(" ")
    assert "cannot be written" in message and "make room and run the same command again" in message
    assert 1 <= int(kept) < 4 and len(known(path, "study", VERSION).ok) == int(kept)
    assert path.read_bytes().endswith(b"}\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello\n", "its first line does not say so"),
        (b"hello", "its first line does not say so"),
        (b'{"schema":{"name":"railweave.rows","version":9},"study":"study"}\n', "'version': 9"),
        (b'{"schema":{"name":"railweave.rows","version":1},"study":"mine"}\n', "rows of study 'mine'"),
        (b'{"schema":{"name":"railweave.rows","version":1},"study":"study"}\n{"x":1}\n', "line 2 is no row"),
        (b'{"schema":{"name":"railweave.rows","version":1},"study":"study"}\nPAR1', "last line is no row"),
    ],
)
def test_what_is_no_ledger_of_the_study_is_refused_and_left_alone(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        Ledger(path, "study")
    assert path.read_bytes() == content


def test_a_row_has_numbers_of_json_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with Ledger(path, "study") as ledger:
        with pytest.raises(ValueError, match="not JSON compliant"):
            ledger.add(point(0), VERSION, True, {"after_us": float("nan")})
        ledger.add(point(1), VERSION, True, {})
    assert [json.loads(line) for line in path.read_text().splitlines()][1]["point"] == point(1)


def test_a_directory_is_no_ledger(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be opened: Is a directory"):
        Ledger(tmp_path, "study")
    with pytest.raises(InputError, match="cannot be opened: No such file"):
        Ledger(tmp_path / "none" / "rows.jsonl", "study")
