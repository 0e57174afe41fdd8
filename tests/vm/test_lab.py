"""The lab where its users have it: a machine with Open vSwitch in its kernel, and netem. `make test-vm`;
docs/vm.md."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from railweave.framework.lab.switching.red import probability_of
from tests.vm import image
from tests.vm.machine import Machine, Result
from tests.vm.needs import QEMU, missing
from tests.vm.project import PROJECT, vagrant_rsync

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(missing(QEMU)), reason=missing(QEMU) or "nothing is missing"),
]

PROVISIONED_BY = (".ci/provision.sh", ".ci/links.sh", ".ci/build-constraints.txt", "pyproject.toml")
STRANGER = "stranger"
PROVISION = "railweave/.ci/provision.sh vm"
PROVISIONED_WITHIN_S = 2400
RUN_WITHIN_S = 1200
"""Limits against hanging: on busy cores the emulated processor is several times slower than on idle ones."""
SLOW = ("--rate-scale", "3e-6")
"""Slow enough for an emulated processor."""


@pytest.fixture(scope="module")
def guest() -> Iterator[Machine]:
    """A machine provisioned by the project's own script; its disk is kept until the inputs change."""
    bare = image.build()
    layer = (
        bare.folder
        / f"provisioned-{image.digest(*((PROJECT / name).read_bytes() for name in PROVISIONED_BY))}.qcow2"
    )
    if not layer.exists():
        with Machine(bare) as machine:
            machine.push(PROJECT, "railweave", vagrant_rsync())
            machine.run(PROVISION, timeout_s=PROVISIONED_WITHIN_S).check()
            machine.keep(layer)
    with Machine(bare, layer) as machine:
        machine.push(PROJECT, "railweave", vagrant_rsync())
        machine.run(f"id {STRANGER} || useradd -m {STRANGER}", user="root").check()
        yield machine


def run(guest: Machine, *words: str, user: str = "vagrant") -> dict[str, Any]:
    """The result of a run in the guest; it must have ended with 0 and every element right."""
    found: dict[str, Any] = json.loads(railweave(guest, "run", *words, "--json", "-", user=user).check())
    assert [row["wrong"] for row in found["rows"]] == [0] * len(found["rows"])
    assert found["fidelity"]["verdict"] != "invalid", found["fidelity"]
    return found


def railweave(guest: Machine, *words: str, user: str = "vagrant") -> Result:
    quoted = " ".join(f"'{word}'" for word in words)
    as_user = f"sudo -i -u {user} " if user != "vagrant" else ""
    return guest.run(f"cd /tmp && {as_user}railweave {quoted}", timeout_s=RUN_WITHIN_S)


def findings(guest: Machine, user: str = "vagrant") -> dict[str, tuple[bool | None, str]]:
    document = json.loads(railweave(guest, "doctor", "--json", user=user).check())
    return {row["name"]: (row["ok"], row["detail"]) for row in document["findings"]}


def test_a_second_provisioning_changes_nothing_and_finds_everything(guest: Machine) -> None:
    said = guest.run(PROVISION, timeout_s=PROVISIONED_WITHIN_S).check()
    assert "Installing" not in said
    assert "MISSING" not in said and "limited" not in said, said
    assert "kernel datapath of Open vSwitch" in said
    assert "link latency can be emulated" in said
    assert "the kernel's RED marks packets" in said


def test_the_main_job_runs_on_the_kernel_datapath(guest: Machine) -> None:
    """`system@` is how Open vSwitch calls a datapath of the kernel; it is asked while the run goes on."""
    asked = guest.run(WATCHED, timeout_s=RUN_WITHIN_S).check()
    log, _, result = asked.partition("\nRESULT\n")
    assert "system@" in log and "netdev@" not in log, log
    found = json.loads(result)
    assert found["versions"]["datapath"] == "kernel"
    assert found["controller"]["name"] == "ryu"
    assert found["fabric"]["gpus"] == 16
    assert [row["wrong"] for row in found["rows"]] == [0] * len(found["rows"])
    assert found["reroutes"] and "rail:1" in found["reroutes"][0]["why"]
    assert found["health"][-1]["elements"]["rail:1"] < 0.5


WATCHED = """
cd /tmp; rm -f result.json
railweave run --json result.json >run.log 2>&1 &
run=$!
answer=
while [ -z "$answer" ] && kill -0 $run 2>/dev/null; do
    for pid in $(pgrep -u vagrant -x ovs-vswitchd); do
        # the control socket is in the lab's own /run
        answer=$(sudo nsenter -t $pid -m -n sh -c 'for s in /run/railweave/shard*/ovs-vswitchd.*.ctl; do
            ovs-appctl -t $s dpif/show | grep @; done' 2>/dev/null) && break
    done
    sleep 2
done
echo "$answer"
wait $run || { cat run.log; exit 1; }
echo RESULT; cat result.json
"""


@pytest.mark.parametrize(
    "fabric",
    [
        ("--domains", "2", "--rails", "2", "--fault", "at=0s down rail:1"),
        (
            "--topology",
            "torus",
            "--shape",
            "2x2x2",
            "--router",
            "dor",
            "--collective",
            "ring-all-reduce",
            "--fault",
            "none",
        ),
    ],
    ids=["rail-only", "torus"],
)
def test_every_link_carries_what_the_table_says(guest: Machine, fabric: tuple[str, ...]) -> None:
    document = json.loads(railweave(guest, "verify", *fabric, *SLOW, "--json").check())
    assert document["rows"] and all(row["sound"] for row in document["rows"]), document["rows"]


def test_a_declared_latency_is_the_time_on_the_way(guest: Machine) -> None:
    """50 ms a link, four links on the longest way of a neighbour: its one packet of 4 KiB arrives after 200
    ms, for an idle link's token bucket lets it go at once. A slow machine makes that longer, never shorter:
    the quickest tells."""
    declared_us = 0.05 * 3e-6 * 1e6
    found = run(
        guest,
        "--domains",
        "2",
        "--rails",
        "2",
        "--collective",
        "send-recv",
        "--size",
        "4096",
        "--iterations",
        "8",
        "--domain-latency",
        f"{declared_us}us",
        "--rail-latency",
        f"{declared_us}us",
        "--fault",
        "none",
        *SLOW,
    )
    quickest_s = min(row["time_us"] for row in found["rows"] if row["iteration"] is not None) / 1e6
    assert quickest_s == pytest.approx(4 * 0.05, rel=0.1)


def test_what_a_link_with_a_latency_loses_is_measured_and_sent_again(guest: Machine) -> None:
    """5 % on each of a rail's links, on ways of two: about one packet in ten that took that rail."""
    words = ("--domains", "2", "--rails", "2", "--router", "shortest", "--size", "512K", "--iterations", "4",
             "--rail-latency", "0.03us", "--fault", "at=iter:0 loss rail:1 rate=5%", *SLOW)  # fmt: skip
    found = run(guest, *words)
    sent, again = (sum(row[key] for row in found["rows"]) for key in ("packets", "retransmitted"))
    assert 0.005 < again / sent < 0.1
    loss = {row["name"]: row["loss"] for row in found["links"]}
    lossy = {name for name in loss if "r1" in name.split("->")}
    assert 0.01 < sum(loss[name] for name in lossy) / len(lossy) < 0.15
    assert all(loss[name] == 0 for name in loss.keys() - lossy)


def test_red_marks_a_queue_that_stays_by_its_law(guest: Machine) -> None:
    """Distances between marks are spread evenly from 1 to 1 / p, so that more than j packets lie between two
    with the probability 1 - j p: the mean, and five standard deviations of a renewal process. The queue has
    no memory: a single packet after a full one is not marked."""
    kmin, kmax, pmax, packets = 10, 50, 0.6, 2000
    scene = f"inside('red_marks', [5, 20, 30, 49, 60], {pmax}, {packets})"
    words = f"import json; from tests.framework.lab.inside import inside; print(json.dumps({scene}))"
    found = json.loads(guest.run(f'cd railweave && .venv/bin/python -c "{words}"', timeout_s=600).check())
    assert (found["counted_later"], found["marked_later"]) == (0, 0)
    for length, marked, queue_bytes in found["rows"]:
        assert length - 1 <= queue_bytes / 1000 <= length
        if not kmin < length < kmax:
            assert marked == packets * (length >= kmax)
            continue
        p = probability_of(pmax) * (length - kmin) / (kmax - kmin)
        beyond = [1 - j * p for j in range(math.floor(1 / p) + 1)]
        mean = sum(beyond)
        variance = sum((2 * j + 1) * share for j, share in enumerate(beyond)) - mean**2
        assert abs(marked - packets / mean) <= 1 + 5 * math.sqrt(packets * variance / mean**3), found


def test_what_red_marks_arrives_marked_and_is_counted_at_the_link(guest: Machine) -> None:
    """An incast: all its marks are made where the rail meets the receiver. What a busy machine sends twice
    may be marked twice."""
    found = run(guest, "--domains", "4", "--rails", "1", "--collective", "incast", "--size", "256K",
                "--iterations", "2", "--marks", "on", "--kmin", "8K", "--kmax", "40K", "--fault", "none",
                "--no-feedback", *SLOW)  # fmt: skip
    assert found["versions"]["marks"] == "red"
    marked = {link["name"]: link["marked"] for link in found["links"]}
    assert {name for name, count in marked.items() if count is None} == {
        name for name in marked if name.startswith("g")
    }
    assert {name for name, count in marked.items() if count} == {"r0->g0.0"}
    rows = [row for row in found["rows"] if row["iteration"] is not None]
    arrived, again = (sum(row[key] for row in rows) for key in ("marked", "retransmitted"))
    assert arrived > 20 and 0 <= marked["r0->g0.0"] - arrived <= 2 * again, (marked, rows)


def test_the_same_fault_ends_in_the_same_choice_of_rail(guest: Machine, tmp_path: Path) -> None:
    """The busiest rail is the one that took over traffic of rail 1: in the guest, and in the host's lab."""
    words = (
        "run",
        "--domains",
        "2",
        "--rails",
        "4",
        "--size",
        "256K",
        "--iterations",
        "6",
        "--rate-scale",
        "1.5e-6",
        "--fault",
        "at=iter:1 degrade rail:1 to=20%",
        "--json",
        "-",
    )
    here = subprocess.run(
        [
            Path(sys.executable).with_name("railweave"),
            *words,
            "--datapath",
            "userspace",
            "--out",
            str(tmp_path / "run"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    there = railweave(guest, *words).check()
    for datapath, text in (("userspace", here.stdout), ("kernel", there)):
        found = json.loads(text)
        assert found["versions"]["datapath"] == datapath
        carried = dict.fromkeys(("r0", "r1", "r2", "r3"), 0.0)
        for link in found["links"]:
            rail = link["name"].partition("->")[2]
            if rail in carried:
                carried[rail] += link["bytes"]
        order = sorted(carried, key=carried.__getitem__)
        # the lowest of the healthy rails: best fit takes the first of equals
        assert (order[0], order[-1]) == ("r1", "r0"), (datapath, carried, found["reroutes"])


def test_a_killed_switch_loses_its_traffic_until_it_is_back(guest: Machine) -> None:
    """The kernel would go on with the flows it knows; a killed switch forwards nothing on either datapath."""
    found = run(guest, "--domains", "2", "--rails", "2", "--size", "256K", "--iterations", "4", "--fault",
                "at=iter:1 kill switch:r0 back=2s", *SLOW)  # fmt: skip
    seconds = [row["time_us"] / 1e6 for row in found["rows"] if row["iteration"] is not None]
    assert seconds[1] - max(seconds[0], *seconds[2:4]) > 1.5


def test_a_user_without_sudo_has_the_same_lab(guest: Machine) -> None:
    assert "not allowed to run sudo" in guest.run(f"sudo -l -U {STRANGER}").stdout
    result = run(guest, "--domains", "2", "--rails", "2", "--iterations", "2", "--fault", "none", *SLOW,
                 user=STRANGER)  # fmt: skip
    assert result["versions"]["datapath"] == "kernel"


def test_without_the_module_doctor_says_so_and_the_lab_runs_in_userspace(guest: Machine) -> None:
    forbid = "/etc/modprobe.d/forbid.conf"
    guest.run(f"echo 'install openvswitch /bin/false' > {forbid} && rmmod openvswitch", user="root").check()
    try:
        found = findings(guest, STRANGER)
        assert found["namespaces"] == (
            True,
            "network, mount and process namespaces can be made, as this user",
        )
        ok, detail = found["datapath"]
        assert ok is None and "no module openvswitch" in detail
        refused = railweave(guest, "run", "--datapath", "kernel", "--fault", "none")
        assert refused.code == 2 and "modprobe openvswitch" in refused.stderr
    finally:
        guest.run(f"rm {forbid} && modprobe openvswitch", user="root").check()


def test_where_namespaces_are_refused_doctor_says_so_and_sudo_runs_the_lab(guest: Machine) -> None:
    knob = "user.max_user_namespaces"
    before = guest.run(f"sysctl -n {knob}", user="root").check().strip()
    guest.run(f"sysctl -w {knob}=0", user="root").check()
    try:
        small = ("run", "--domains", "2", "--rails", "2", "--iterations", "1", "--fault", "none", *SLOW)
        refused = railweave(guest, *small)
        assert refused.code == 2 and knob in refused.stderr and "With sudo a lab runs" in refused.stderr
        run(guest, *small[1:], user="root")
    finally:
        guest.run(f"sysctl -w {knob}={before}", user="root").check()


RESTRICT = """
set -e
grep -q userns_create /sys/kernel/security/apparmor/features/namespaces/mask || exit 77
profile=/etc/apparmor.d/no-userns
printf '%s\\n' 'abi <abi/4.0>,' 'profile no-userns /usr/bin/unshare flags=(attach_disconnected) {' \
    '  allow all,' '  deny userns,' '}' >$profile
apparmor_parser -r $profile
# Ubuntu's kernel says that it restricts; this one cannot be made to, so a copy of its folder says so
cp -r /proc/sys/kernel /run/kernel 2>/dev/null || true
echo 1 >/run/kernel/apparmor_restrict_unprivileged_userns
mount --bind /run/kernel /proc/sys/kernel
"""
SAY_NO_MORE = "umount /proc/sys/kernel"
"""With something mounted in it a /proc is no pattern for a namespace's own: the kernel would refuse that."""
RELEASE = f"""
{SAY_NO_MORE}
for profile in /etc/apparmor.d/no-userns /etc/apparmor.d/railweave-*; do
    apparmor_parser -R $profile; rm $profile
done
rm -r /run/kernel ~vagrant/railweave/.venv/bin/railweave-unshare
"""

KILLED = """
cd /tmp
railweave run >/dev/null 2>&1 &
until switches=$(pgrep -u vagrant -x ovs-vswitchd); do kill -0 $! || exit 1; sleep 0.2; done
kill -KILL $!
for pid in $switches; do timeout 20 tail -s 0.2 --pid=$pid -f /dev/null || exit 1; done
pgrep -u vagrant -x 'ovs-vswitchd|ovsdb-server|unshare|railweave-unsha' || echo nothing is left
"""


def test_apparmor_restricts_namespaces_and_a_profile_opens_them(guest: Machine) -> None:
    """As Ubuntu 24.04 does, by a profile that denies user namespaces to `unshare`: AppArmor's own refusal,
    and the profile that `provision.sh` brings against it. Debian 12's kernel is too old for it."""
    restricted = guest.run(RESTRICT, user="root")
    if restricted.code == 77:
        pytest.skip(
            "this kernel's AppArmor knows no user namespaces; RAILWEAVE_VM_SUITE=trixie has one that does"
        )
    restricted.check()
    small = ("--domains", "2", "--rails", "2", "--iterations", "1", "--fault", "none", *SLOW)
    try:
        said = railweave(guest, "doctor", user=STRANGER)
        assert said.code == 2 and "AppArmor restricts user namespaces" in said.stdout, said
        assert "make setup" in said.stdout and "apparmor_restrict_unprivileged_userns=0" in said.stdout
        refused = railweave(guest, "run", *small, user=STRANGER)
        assert refused.code == 2 and "AppArmor restricts user namespaces" in refused.stderr, refused
        run(guest, *small, user="root")

        guest.run("railweave/.ci/provision.sh run").check()
        guest.run(SAY_NO_MORE, user="root").check()
        ok, detail = findings(guest, STRANGER)["namespaces"]
        assert ok and "as this user" in detail
        result = run(guest, *small, user=STRANGER)
        assert result["versions"]["datapath"] == "kernel"
        assert guest.run(KILLED, timeout_s=RUN_WITHIN_S).check().splitlines()[-1] == "nothing is left"
        assert guest.run("unshare --user true").code == 1  # AppArmor still refuses it to others
    finally:
        guest.run(RELEASE, user="root")
