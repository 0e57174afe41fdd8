"""A disk image to boot: Debian with a stock kernel and little else, as a fresh box has it. Kept by what it is
made of.

Built by mmdebstrap and `mke2fs -d`: no loop device, no mount, no partition table. Whatever the project needs
beyond this, its own `provision.sh` has to bring.
"""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HOME = Path(os.environ.get("RAILWEAVE_VM_DIR", "/var/tmp/railweave-vm"))
"""Where images and boxes are kept; safe to delete."""

SUITE = os.environ.get("RAILWEAVE_VM_SUITE", "bookworm")
"""The Debian in the machine: bookworm (12) as in the Vagrantfile, or trixie (13), whose kernel restricts user
namespaces by AppArmor where it is told to, as Ubuntu's does."""

DISK_BYTES = 8 << 30
PACKAGES = (
    "systemd",
    "systemd-sysv",
    "systemd-resolved",
    "udev",
    "dbus",
    "kmod",
    "linux-image-cloud-amd64",
    "initramfs-tools",
    "openssh-server",
    "sudo",
    "rsync",
    "ca-certificates",
    "iproute2",
    "procps",
    "python3",
    "apparmor",
)
"""A bare box; no make, no pip, no Open vSwitch."""

CERTIFICATES = Path("/usr/local/share/ca-certificates")
SOURCES = Path("/etc/apt/sources.list.d/debian.sources")

CUSTOMISE = """
root=$1; files=$2
echo railweave-vm > "$root/etc/hostname"
printf '127.0.0.1 localhost railweave-vm\\n' > "$root/etc/hosts"
printf '/dev/vda / ext4 rw,noatime 0 0\\n' > "$root/etc/fstab"
chroot "$root" useradd -m -s /bin/bash vagrant
echo 'vagrant ALL=(ALL) NOPASSWD: ALL' > "$root/etc/sudoers.d/vagrant"
chmod 440 "$root/etc/sudoers.d/vagrant"
install -d -m 700 "$root/root/.ssh" "$root/home/vagrant/.ssh"
for home in root home/vagrant; do cp "$files/authorized_keys" "$root/$home/.ssh/authorized_keys"; done
chroot "$root" chown -R vagrant:vagrant /home/vagrant
printf '%s\\n' '[Match]' 'Name=en* eth*' '[Network]' DHCP=ipv4 LinkLocalAddressing=no \
    > "$root/etc/systemd/network/10.network"
ln -sf /run/systemd/resolve/resolv.conf "$root/etc/resolv.conf"
echo 'UseDNS no' >> "$root/etc/ssh/sshd_config"
# a machine behind a proxy of its own has a certificate for it; pip in the guest needs it as well
cp "$files"/ca/*.crt "$root/usr/local/share/ca-certificates/" 2>/dev/null &&
    chroot "$root" update-ca-certificates
chroot "$root" systemctl -q enable systemd-networkd systemd-resolved ssh
chroot "$root" systemctl -q mask systemd-networkd-wait-online.service apt-daily.timer \
    apt-daily-upgrade.timer fstrim.timer e2scrub_all.timer dpkg-db-backup.timer getty@tty1.service
cp "$root/vmlinuz" "$root/initrd.img" "$files/"
"""


@dataclass(frozen=True, slots=True)
class Image:
    """A folder with `disk.raw`, `vmlinuz`, `initrd.img` and the key `id` that opens root and vagrant by
    ssh."""

    folder: Path

    @property
    def disk(self) -> Path:
        return self.folder / "disk.raw"

    @property
    def key(self) -> Path:
        return self.folder / "id"

    @property
    def root(self) -> Path:
        """The file system as a folder, to pack other formats from."""
        return self.folder / "root"


def digest(*parts: str | bytes) -> str:
    """A short name for contents."""
    joined = b"\0".join(part.encode() if isinstance(part, str) else part for part in parts)
    return hashlib.sha256(joined).hexdigest()[:12]


def build() -> Image:
    """The image, made now or earlier. Raises CalledProcessError with mmdebstrap's last words on stderr."""
    recipe = digest(SUITE, inspect.getsource(sys.modules[__name__]), *_certificates().values())
    image = Image(HOME / f"image-{SUITE}-{recipe}")
    if not image.disk.exists():
        making = image.folder.with_suffix(".making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        _make(Image(making))
        making.rename(image.folder)
    return image


@contextmanager
def in_use() -> Iterator[None]:
    """To be held while images and machines are used. Whoever comes when nobody else does clears up: what a
    killed run left, and of everything that is kept by its contents all but the newest."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "in-use").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # somebody else is at work, and cleared up when he came
            pass
        else:
            _clear_up()
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


def _clear_up() -> None:
    newest: dict[tuple[Path, str], Path] = {}
    for path in sorted([*HOME.glob("*"), *HOME.glob("image-*/*")], key=lambda path: path.stat().st_mtime):
        kind, dash, _ = path.name.rpartition("-")
        if path.name.startswith("running-") or path.suffix == ".making":
            _remove(path)
        elif dash and kind.startswith(("image", "provisioned", "vagrant")):
            if (older := newest.get((path.parent, kind))) is not None:
                _remove(older)
            newest[path.parent, kind] = path


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _certificates() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(CERTIFICATES.glob("*.crt"))}


def _make(image: Image) -> None:
    folder = image.folder
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(image.key), "-C", "vm"], check=True
    )
    shutil.copy(f"{image.key}.pub", folder / "authorized_keys")
    (folder / "ca").mkdir()
    for name, content in _certificates().items():
        (folder / "ca" / name).write_bytes(content)
    hook = folder / "customise.sh"
    hook.write_text(f"#!/bin/sh\nset -u\n{CUSTOMISE}")
    hook.chmod(0o755)
    words = [
        "mmdebstrap",
        "--variant=minbase",
        "--mode=root",
        "--format=directory",
        f"--include={','.join(PACKAGES)}",
        "--aptopt=APT::Install-Recommends false",
        "--aptopt=Acquire::Languages none",
        "--aptopt=Acquire::Check-Valid-Until false",
        "--aptopt=Acquire::Retries 3",
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        f'--customize-hook={hook} "$1" {folder}',
        SUITE,
        str(image.root),
        *_sources(folder),
    ]
    with (folder / "mmdebstrap.log").open("w") as log:
        done = subprocess.run(words, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        print("\n".join((folder / "mmdebstrap.log").read_text().splitlines()[-20:]), file=sys.stderr)
        done.check_returncode()
    pack(image.root, image.disk)


def _sources(folder: Path) -> list[str]:
    """Where this machine has its own packages from, for the suite that is asked for."""
    if not SOURCES.exists():
        return []
    here = platform.freedesktop_os_release()["VERSION_CODENAME"]
    ours = folder / SOURCES.name
    ours.write_text(SOURCES.read_text().replace(here, SUITE))
    return [str(ours)]


def pack(root: Path, disk: Path) -> None:
    """Write a folder into a sparse ext4 disk; whole or not at all."""
    making = disk.with_suffix(".making")
    with making.open("wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run(
        ["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-F", "-d", str(root), str(making)], check=True
    )
    making.rename(disk)
