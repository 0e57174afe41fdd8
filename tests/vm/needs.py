"""The programs that virtual machines need: `python -m tests.vm.needs qemu|vagrant` exits with 77 without."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping

SKIPPED = 77
"""The exit code by which test harnesses know a test that could not run (automake, meson)."""

QEMU = {
    "qemu-system-x86_64": "qemu-system-x86 seabios ipxe-qemu",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap debian-archive-keyring",
    "mke2fs": "e2fsprogs",
    "ssh": "openssh-client",
    "rsync": "rsync",
    "setpriv": "util-linux",
}
"""Programs, and the Debian packages that hold them."""

VAGRANT = QEMU | {
    "vagrant": "vagrant vagrant-libvirt",
    "libvirtd": "libvirt-daemon libvirt-daemon-driver-qemu",
    "virsh": "libvirt-clients",
    "dnsmasq": "dnsmasq-base",
    "iptables": "iptables",
    "slirp4netns": "slirp4netns",
    "dmidecode": "dmidecode",
}
NEEDS = {"qemu": QEMU, "vagrant": VAGRANT}


def missing(programs: Mapping[str, str]) -> str:
    """Why the tests cannot run here and what fixes it, or nothing."""
    if os.geteuid() != 0:
        return "needs root, to make the guest's file system with its owners. Run it with sudo."
    path = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
    lacking = [name for name in programs if shutil.which(name, path=path) is None]
    if not lacking:
        return ""
    packages = " ".join(dict.fromkeys(programs[name] for name in lacking))
    return f"needs {', '.join(lacking)}. Install: apt-get install --no-install-recommends {packages}"


def main() -> int:
    why = missing(NEEDS[sys.argv[1]])
    if why:
        print(f"skipped: {why}")
        return SKIPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
