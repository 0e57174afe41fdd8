"""What a user reads where private namespaces are refused, and that a lab finds its programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from railweave.framework.errors import LabError, MachineError
from railweave.framework.lab import sandbox


def test_an_apparmor_restriction_is_named_with_its_two_fixes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ubuntu 24.04 has this file, holding 1 (Ubuntu's release notes, "Unprivileged user namespace
    restrictions")."""
    restriction = tmp_path / "apparmor_restrict_unprivileged_userns"
    monkeypatch.setattr(sandbox, "APPARMOR_RESTRICTION", restriction)
    restriction.write_text("1\n")
    fix = sandbox.namespaces_fix("unshare: unshare failed: Permission denied")
    assert "AppArmor" in fix and "sudo" in fix
    assert "`make setup`" in fix and "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" in fix
    for unrestricted in ("0\n", None):
        restriction.write_text(unrestricted) if unrestricted else restriction.unlink()
        fix = sandbox.namespaces_fix("unshare: unshare failed: Permission denied")
        assert "AppArmor" not in fix and "user.max_user_namespaces" in fix and "sudo" in fix


def test_a_killed_lab_was_not_refused_its_namespaces() -> None:
    """The words are those of util-linux 2.38 where its child was killed, and where it may not unshare."""
    words = "the lab ended with status 1; the last lines of its log:\nunshare: {}"
    killed = sandbox.why_it_ended(words.format("sigprocmask unblock failed: Invalid argument"))
    assert isinstance(killed, LabError)
    refused = sandbox.why_it_ended(words.format("unshare failed: Operation not permitted"))
    assert isinstance(refused, MachineError)


@pytest.mark.lab
@pytest.mark.untimed
def test_a_lab_comes_up_for_a_user_whose_path_lacks_the_sbin_folders() -> None:
    """Debian's ordinary users: the folders of ip, tc and the ifconfig that Mininet looks for are not in
    PATH."""
    command = Path(sys.executable).with_name("railweave")
    done = subprocess.run(
        [command, "doctor", "--json"],
        env={**os.environ, "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert {row["name"]: row["ok"] for row in json.loads(done.stdout)["findings"]}["lab"] is True
