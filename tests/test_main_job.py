"""The main job as a user runs it: the command, on real switches, with everything that can go wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("nothing_left")]

COMMAND = [str(Path(sys.executable).with_name("railweave"))]
SHORT = [
    "run",
    "--domains",
    "2",
    "--rails",
    "2",
    "--size",
    "512K",
    "--rate-scale",
    "1e-5",
]
SMALL = [*SHORT, "--iterations", "6"]
FAULT = "at=iter:2 degrade rail:1 to=20%"
NOBODY = 65534


def railweave(*words: str, prefix: tuple[str, ...] = (), **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, *COMMAND, *words], capture_output=True, text=True, timeout=150, check=False, **more
    )


@pytest.mark.parametrize("controller", ["ryu", "os-ken"])
def test_measured_health_moves_the_routes_and_nothing_is_wrong(controller: str, tmp_path: Path) -> None:
    done = railweave(
        *SMALL, "--fault", FAULT, "--controller", controller, "--json", "-", "--out", str(tmp_path / "run")
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["schema"] == {"name": "railweave.run", "version": 2}
    assert [row["wrong"] for row in result["rows"]] == [0] * 7
    assert result["fabric"]["gpus"] == 4 and result["fabric"]["links"] == 16
    assert result["controller"]["name"] == controller and result["controller"]["rules"] > 0
    fault, reroute = result["faults"][0], result["reroutes"][0]
    assert fault["t_s"] < reroute["t_s"] and "rail:1" in reroute["why"]
    last = result["health"][-1]["elements"]
    assert last["rail:1"] < 0.7 < last["rail:0"]
    # what a link is asked to carry it carries: the payload that crosses rail 0 and 1, plus headers
    assert all(link["drops"] == 0 for link in result["links"])
    assert result["fidelity"]["verdict"] in ("pass", "degraded"), result["fidelity"]
    # by arithmetic the detour over the one other rail doubles its load: 2 against 5 rail times
    after = [r["time_us"] for r in result["rows"] if r["iteration"] in (4, 5)]
    before = [r["time_us"] for r in result["rows"] if r["iteration"] in (0, 1)]
    assert min(before) < min(after) < 4 * min(before)
    assert {p.name for p in (tmp_path / "run").iterdir()} >= {
        "experiment.yaml",
        "result.json",
        "events.jsonl",
    }
    again = railweave(
        "run",
        str(tmp_path / "run" / "experiment.yaml"),
        "--iterations",
        "1",
        "--fault",
        "none",
        "--out",
        str(tmp_path / "again"),
    )
    assert again.returncode == 0, again.stderr


def test_without_feedback_no_route_moves(tmp_path: Path) -> None:
    done = railweave(*SMALL, "--fault", FAULT, "--no-feedback", "--json", "-", "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["reroutes"] == []
    *each, overall = result["bottlenecks"]
    assert [one["iteration"] for one in each] == list(range(6)) and overall["iteration"] is None
    assert all(one["balanced"] for one in each[:2])
    for one in (*each[2:], overall):  # two of three rail steps wait for the slow rail at a fifth of its rate
        assert (one["element"], one["balanced"]) == ("rail:1", False) and 0.5 < one["share"] <= 1


def test_a_killed_controller_comes_back_and_the_run_goes_on(tmp_path: Path) -> None:
    done = railweave(
        *SMALL,
        "--fault",
        "at=iter:1 kill controller",
        "--controller",
        "c65of",
        "--json",
        "-",
        "--out",
        str(tmp_path / "run"),
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"][-1]["wrong"] == 0
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    notes = [event["text"] for event in events if event["kind"] == "note"]
    assert any("controller died" in note for note in notes)


def test_a_dead_switch_fails_the_run_with_its_words(tmp_path: Path) -> None:
    done = railweave(*SMALL, "--fault", "at=iter:1 kill switch:g0.0", "--out", str(tmp_path / "run"))
    assert done.returncode == 1
    assert "ovs-vswitchd of shard 0 died" in done.stderr and "last lines of its log" in done.stderr


def test_two_labs_run_side_by_side(tmp_path: Path) -> None:
    words = [*SHORT, "--fault", "none", "--iterations", "2"]
    labs = [
        subprocess.Popen([*COMMAND, *words, "--out", str(tmp_path / name)], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True)
        for name in ("a", "b")
    ]  # fmt: skip
    for lab in labs:
        said, _ = lab.communicate(timeout=150)
        assert lab.returncode == 0, said


def _started(out: Path) -> subprocess.Popen[str]:
    """A run that has begun to iterate."""
    lab = subprocess.Popen(
        [*COMMAND, *SHORT, "--iterations", "1000", "--fault", "none", "--out", str(out)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert lab.stderr is not None
    for line in lab.stderr:
        if "iteration" in line and "/1000" in line:
            return lab
    raise AssertionError("the run ended before its first iteration")


@pytest.mark.untimed
@pytest.mark.parametrize("kill, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
@pytest.mark.usefixtures("sigint_as_at_a_terminal")
def test_ended_from_outside_it_leaves_nothing(kill: signal.Signals, code: int, tmp_path: Path) -> None:
    with _started(tmp_path / "run") as lab:
        lab.send_signal(kill)
        assert lab.wait(60) == code
    assert not (tmp_path / "run" / "result.json").exists()


@pytest.mark.untimed
@pytest.mark.parametrize("delay_s", [0.05, 0.3, 0.6, 0.9, 1.2])
def test_killed_during_bring_up_it_leaves_nothing(delay_s: float, tmp_path: Path) -> None:
    lab = subprocess.Popen([*COMMAND, *SMALL, "--out", str(tmp_path / "run")], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)  # fmt: skip
    time.sleep(delay_s)  # any moment will do; these are spread over the bring-up
    lab.kill()
    lab.wait()


def _without_xdg() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}


def _readable_by_nobody(path: Path) -> bool:
    return all(p.stat().st_mode & 0o005 == 0o005 for p in (path, *path.parents))


@pytest.mark.untimed
def test_an_ordinary_user_needs_no_root(tmp_path: Path) -> None:
    """As `nobody`, without sudo; the same run in a user namespace."""
    if os.geteuid() != 0:
        done = railweave(*SMALL, "--fault", "none", "--out", str(tmp_path / "run"))
        assert done.returncode == 0, done.stderr
        return
    interpreter = Path(sys.executable).resolve()
    if not _readable_by_nobody(interpreter) or not _readable_by_nobody(Path(__file__).resolve().parents[1]):
        pytest.skip("the interpreter or the checkout lies where only root may look")
    home = Path("/tmp") / f"railweave-test-{os.getpid()}"
    home.mkdir()
    os.chown(home, NOBODY, NOBODY)
    prefix = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    try:
        done = railweave(*SMALL, "--fault", FAULT, "--json", "-", "--out", str(home / "run"), prefix=prefix,
                         cwd=home, env={**_without_xdg(), "HOME": str(home)})  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["rows"][-1]["wrong"] == 0
        assert [entry.name for entry in home.iterdir()] == ["run"], "nothing but the run directory"
    finally:
        subprocess.run(["rm", "-r", str(home)], check=True)


def _in_private_mounts(script: str) -> tuple[str, ...]:
    """Run a command after `script` in a mount namespace of its own, as root of a user namespace if need
    be."""
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return ("unshare", *user, "--mount", "sh", "-ec", f'{script}\nexec "$@"', "sh")


@pytest.mark.untimed
def test_no_tun_device_is_needed(tmp_path: Path) -> None:
    """Containers have none."""
    prefix = _in_private_mounts("mount -t tmpfs none /dev/net")
    done = railweave(*SMALL, "--fault", "none", "--json", "-", "--out", str(tmp_path / "run"), prefix=prefix)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"][-1]["wrong"] == 0


@pytest.mark.untimed
def test_without_open_vswitch_it_says_so(tmp_path: Path) -> None:
    prefix = _in_private_mounts(
        'touch "$TMPDIR/empty"; mount --bind "$TMPDIR/empty" "$(command -v ovs-vswitchd)"'
    )
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    done = railweave(*SMALL, "--out", str(tmp_path / "run"), prefix=prefix,
                     env={**os.environ, "TMPDIR": str(tmp_path), "PATH": path})  # fmt: skip
    assert done.returncode == 2
    assert "ovs-vswitchd is not installed" in done.stderr and "make setup" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.untimed
def test_where_user_namespaces_are_forbidden_it_says_so(tmp_path: Path) -> None:
    prefix = (
        "unshare", "--user", "--map-user=1000", "--map-group=1000", "--keep-caps", "sh", "-ec",
        'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"', "sh",
    )  # fmt: skip
    tmp_path.chmod(0o777)
    done = railweave(*SMALL, "--out", str(tmp_path / "run"), prefix=prefix)
    assert done.returncode == 2
    assert "may not make private namespaces" in done.stderr and "max_user_namespaces" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.untimed
def test_where_proc_is_masked_as_in_containers_it_says_so(tmp_path: Path) -> None:
    prefix = (
        "unshare", "--user", "--map-user=1000", "--map-group=1000", "--keep-caps", "--mount", "sh", "-ec",
        'mount --bind /dev/null /proc/loadavg; exec "$@"', "sh",
    )  # fmt: skip
    tmp_path.chmod(0o777)
    done = railweave(*SMALL, "--out", str(tmp_path / "run"), prefix=prefix)
    assert done.returncode == 2
    assert "mount /proc failed" in done.stderr and "systempaths=unconfined" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.untimed
def test_a_full_disk_fails_the_run_and_says_so(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    script = f"mount -t tmpfs -o size=16k none {full}; head -c 8192 /dev/zero > {full}/filler"
    done = railweave(*SMALL, "--out", str(full / "run"), prefix=_in_private_mounts(script))
    assert done.returncode == 1
    assert "No space left" in done.stderr or "full" in done.stderr


@pytest.mark.untimed
def test_a_latency_this_kernel_cannot_emulate_is_refused_by_name(tmp_path: Path) -> None:
    done = railweave(*SMALL, "--set", "topology.rail_latency=1us", "--out", str(tmp_path / "run"))
    if done.returncode == 0:  # a kernel with netem emulates it
        return
    assert done.returncode == 2
    assert "netem" in done.stderr and "g0.0->r0" in done.stderr


def test_an_optical_switch_fails_under_traffic_and_comes_back(tmp_path: Path) -> None:
    """64 TPUs in a 4x4x4 torus: as many pairs move as `loads` says, packets in flight complete, the old
    routes return."""
    done = railweave(
        "run",
        "--topology",
        "torus",
        "--router",
        "wfr",
        "--collective",
        "ring-all-reduce",
        "--iterations",
        "3",
        "--size",
        "512K",
        "--rate-scale",
        "3e-5",
        "--fault",
        "at=1s down ocs:X:0,0",
        "--fault",
        "at=iter:2 up ocs:X:0,0",
        "--json",
        "-",
        "--out",
        str(tmp_path / "run"),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["rows"][-1]["wrong"] == 0
    away, back = result["reroutes"]
    told = railweave(
        "loads", "--topology", "torus", "--router", "wfr", "--fault", "down ocs:X:0,0", "--json"
    )  # fmt: skip
    moved = json.loads(told.stdout)["moved_pairs"]
    assert away["pairs_changed"] == back["pairs_changed"] == moved >= 64
    assert "ocs:X:0,0" in done.stderr
