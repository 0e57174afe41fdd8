#!/bin/sh
# Set up a Debian or Ubuntu machine for railweave. Idempotent and non-interactive.
#
#   provision.sh run    system packages, and a .venv that can run labs           (`make run`)
#   provision.sh dev    the same, plus the packages of the tests and checks      (`make test`)
#   provision.sh vm     `run` on a dedicated machine: kernel modules at boot, `railweave` on every user's PATH
#                       (Vagrantfile, `make test-vm`)
#
# Only system packages and kernel modules need root, through sudo. PYTHON=/path/to/python selects the
# interpreter of a new .venv.
set -eu
what=${1:-run}
cd "$(dirname "$0")/.."
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
venv=$PWD/.venv
constraints=$PWD/.ci/build-constraints.txt # Ryu is a source distribution that only an old setuptools can build
# ping and iperf3 are what the prompt of `railweave shell` runs on hosts
packages="openvswitch-switch mininet iproute2 nftables util-linux python3-venv iputils-ping iperf3"
programs="ovs-vswitchd ovs-vsctl ovs-ofctl ovs-dpctl ovsdb-server mnexec ip tc nft unshare setpriv ping iperf3"

case $what in
    run) extras=emu,ilp,live stamp=$venv/.emu ;;
    dev)
        extras=emu,ilp,live,os-ken,c65of,fluid,dev stamp=$venv/.dev
        # what tests run on hosts; MPI for Python belongs to the system's interpreter
        packages="$packages openmpi-bin python3-mpi4py" programs="$programs mpirun"
        # what the Vagrantfile copies is compared with what git has
        packages="$packages git rsync" programs="$programs git rsync"
        # the browser that opens reports in tests; Ubuntu has it as a snap alone, which needs more than apt
        if ! command -v chromium >/dev/null && grep -q '^ID=debian' /etc/os-release; then
            packages="$packages chromium-headless-shell fonts-dejavu-core" programs="$programs chromium-headless-shell"
        fi
        ;;
    vm) extras=emu,ilp,live stamp=$venv/.emu packages="$packages make" programs="$programs make" ;;
    *) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo "$@"
    else
        echo "This needs root, and sudo is not installed. Run it as root: $*" >&2
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

# -- the environment ----------------------------------------------------------------------------------
.ci/links.sh

if [ ! -x "$venv/bin/python" ]; then
    for python in ${PYTHON:-/usr/bin/python3 python3.13 python3.12 python3.11 python3}; do
        if good_python "$python"; then break; fi
        python=""
    done
    if [ -z "$python" ]; then
        echo "No Python 3.11, 3.12 or 3.13 with ensurepip was found. Install one, or set PYTHON=/path/to/python" >&2
        exit 2
    fi
    "$python" -m venv "$venv"
fi

install_with_uv() {
    # Three times as fast as pip. In the dedicated VM the `doctor` below compiles what a run imports; elsewhere
    # everything is compiled now, for users who may not write to .venv.
    [ "$what" = vm ] && compile="" || compile=--compile-bytecode
    uv=$(command -v uv || echo "$venv/bin/uv")
    [ -x "$uv" ] || "$venv/bin/pip" install --quiet --no-compile uv || return
    UV_NATIVE_TLS=1 "$uv" pip install --quiet $compile --python "$venv/bin/python" \
        --build-constraints "$constraints" --editable ".[$extras]"
}

install_with_pip() {
    # pip before 25.3 applies PIP_CONSTRAINT to builds, but to installed packages too, so Ryu's wheel is built first
    ryu=$(sed -n 's/^ *"\(ryu==.*\)",$/\1/p' pyproject.toml)
    PIP_CONSTRAINT=$constraints PIP_BUILD_CONSTRAINT=$constraints \
        "$venv/bin/pip" wheel --quiet --no-deps --use-pep517 --wheel-dir "$venv/wheels" "$ryu"
    "$venv/bin/pip" install --quiet --find-links "$venv/wheels" --editable ".[$extras]"
}

if [ ! -f "$stamp" ] || [ pyproject.toml -nt "$stamp" ]; then
    export PIP_DISABLE_PIP_VERSION_CHECK=1
    install_with_uv || install_with_pip
    touch "$venv/.emu" "$stamp"
fi

# -- user namespaces ----------------------------------------------------------------------------------
# Ubuntu 24.04 reserves them for programs with an AppArmor profile: this checkout's copy of unshare gets one.
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

# -- a dedicated machine -------------------------------------------------------------------------------
if [ "$what" = vm ]; then
    printf 'openvswitch\nsch_netem\n' | as_root tee /etc/modules-load.d/railweave.conf >/dev/null
    as_root modprobe -a openvswitch sch_netem
    # the userspace datapath sends through one packet socket; the kernel's queues upcalls on a few netlink sockets
    printf 'net.core.wmem_max = 8388608\nnet.core.rmem_max = 8388608\n' |
        as_root tee /etc/sysctl.d/railweave.conf >/dev/null
    as_root sysctl --quiet --load /etc/sysctl.d/railweave.conf
    as_root ln -sf "$venv/bin/railweave" /usr/local/bin/railweave
    # other users of the machine run labs too, so they must be able to reach .venv
    [ "$(id -u)" = 0 ] || chmod o+x "$HOME"
    railweave doctor
fi
