#!/bin/sh
# Bring a Debian or Ubuntu machine from nothing to a lab. May be run again at any time; asks nothing.
#
#   provision.sh run    system packages, and .venv with what a run needs        (`make run`)
#   provision.sh dev    the same, with what tests and checks need               (`make test`)
#   provision.sh vm     `run`, on a machine that is for labs alone: modules at boot, `railweave` on everyone's PATH
#                       (Vagrantfile, `make test-vm`)
#
# Only system packages, devices and modules need root; sudo is asked for then. PYTHON=/path/to/python chooses one.
set -eu
what=${1:-run}
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
venv=$PWD/.venv
constraints=$PWD/.ci/build-constraints.txt # Ryu's source distribution builds with old setuptools only
packages="openvswitch-switch mininet iproute2 nftables util-linux python3-venv"
programs="ovs-vswitchd ovs-vsctl ovs-ofctl ovs-dpctl ovsdb-server mnexec ip tc nft unshare setpriv"

case $what in
    run) extras=emu,ilp stamp=$venv/.emu ;;
    dev) extras=emu,ilp,dev stamp=$venv/.dev ;;
    vm) extras=emu,ilp stamp=$venv/.emu packages="$packages make" programs="$programs make" ;;
    *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else
        echo "Neither root nor sudo here, and this is needed: $*" >&2
        exit 2
    fi
}

# -- system packages ----------------------------------------------------------------------------------
good_python() {
    "$1" -c 'import ensurepip, sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null
}

missing=""
for program in $programs; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
good_python "${PYTHON:-/usr/bin/python3}" || [ -n "${PYTHON:-}" ] || [ -x "$venv/bin/python" ] || missing="$missing python3-venv"

if [ -n "$missing" ]; then
    echo "Installing system packages (missing:$missing): $packages"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null
fi

if [ -c /dev/net/tun ] && ! { [ -r /dev/net/tun ] && [ -w /dev/net/tun ]; }; then
    echo "Opening /dev/net/tun to all users (the distributions' usual mode)"
    as_root chmod 666 /dev/net/tun
fi

# -- the environment ----------------------------------------------------------------------------------
if [ ! -x "$venv/bin/python" ]; then
    for python in ${PYTHON:-/usr/bin/python3 python3.13 python3.12 python3.11 python3}; do
        if good_python "$python"; then break; fi
        python=""
    done
    if [ -z "$python" ]; then
        echo "No Python 3.11, 3.12 or 3.13 with ensurepip found. Install one, or give PYTHON=/path/to/python" >&2
        exit 2
    fi
    "$python" -m venv "$venv"
fi

if [ ! -f "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
    export PIP_DISABLE_PIP_VERSION_CHECK=1
    # uv installs in a third of pip's time; where it cannot be had, pip does the same. On a machine for labs alone the
    # doctor below compiles what labs use, on others all is compiled, for those who may not write here
    [ "$what" = vm ] && compile="" || compile=--compile-bytecode
    uv=$(command -v uv || echo "$venv/bin/uv")
    [ -x "$uv" ] || "$venv/bin/pip" install --quiet --no-compile uv || true
    UV_NATIVE_TLS=1 "$uv" pip install --quiet $compile --python "$venv/bin/python" \
        --build-constraints "$constraints" --editable ".[$extras]" ||
        PIP_CONSTRAINT=$constraints PIP_BUILD_CONSTRAINT=$constraints \
            "$venv/bin/pip" install --quiet --editable ".[$extras]"
    touch "$venv/.emu" "$stamp"
fi

# -- user namespaces ----------------------------------------------------------------------------------
# Ubuntu 24.04 forbids them except to programs with a profile: give one to a launcher of this checkout.
launcher=$venv/bin/railweave-unshare
profile=/etc/apparmor.d/railweave-$(echo "$launcher" | cksum | cut -d' ' -f1)
if [ "$(cat /proc/sys/kernel/apparmor_restrict_unprivileged_userns 2>/dev/null)" = 1 ] && [ "$(id -u)" != 0 ]; then
    if [ ! -f "$profile" ]; then
        printf 'abi <abi/4.0>,\ninclude <tunables/global>\n\nprofile railweave "%s" flags=(unconfined) {\n  userns,\n}\n' \
            "$launcher" | as_root tee "$profile" >/dev/null
        as_root apparmor_parser -r "$profile"
    fi
    [ -x "$launcher" ] || cp "$(command -v unshare)" "$launcher"
fi

# -- a machine for labs alone --------------------------------------------------------------------------
if [ "$what" = vm ]; then
    printf 'openvswitch\nsch_netem\n' | as_root tee /etc/modules-load.d/railweave.conf >/dev/null
    as_root modprobe -a openvswitch sch_netem
    # a switch sends all its packets, or hears of all new flows, through few sockets
    printf 'net.core.wmem_max = 8388608\nnet.core.rmem_max = 8388608\n' |
        as_root tee /etc/sysctl.d/railweave.conf >/dev/null
    as_root sysctl --quiet --load /etc/sysctl.d/railweave.conf
    as_root ln -sf "$venv/bin/railweave" /usr/local/bin/railweave
    # other users of this machine may run labs as well: the way to .venv is open to them
    [ "$(id -u)" = 0 ] || chmod o+x "$HOME"
    railweave doctor
fi
