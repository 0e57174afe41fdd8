"""The controller process: `python -m railweave.controllers.launcher`, started by `ControllerProcess`.

Takes its channel and its listening sockets as inherited descriptors, opens nothing itself, and ends with its
starter: by signal when that dies, else when the channel closes.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import gc
import logging
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
ECHO_INTERVAL_S = 5.0
ECHO_UNANSWERED = 2
"""A switch that answers nothing for about 15 s is given up, or an update would wait for it for ever."""


def main() -> None:
    options = _options()
    _die_with(options.parent)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    gc.disable()  # importing makes much that stays and nothing that goes: a tenth of the start-up
    _run(options.library, options.channel, options.listeners)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Serve switches on inherited sockets.", allow_abbrev=False)
    parser.add_argument("--library", required=True, choices=("ryu", "os-ken"))
    parser.add_argument("--channel", required=True, type=int, help="descriptor of our end of the channel")
    parser.add_argument("--listeners", required=True, type=int, nargs="*", help="listening descriptors")
    parser.add_argument("--parent", required=True, type=int, help="process id of our starter")
    return parser.parse_args()


def _die_with(parent: int) -> None:
    """Ask for SIGKILL when the starter dies, and see that it has not died before we asked."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        sys.exit(0)


def _run(name: str, channel_fd: int, listener_fds: list[int]) -> None:
    os.environ["RAILWEAVE_OPENFLOW_LIBRARY"] = name
    from railweave.controllers import library
    from railweave.controllers.listeners import InheritedListeners
    from railweave.framework.channel import Channel

    library.CONF([], project="railweave", default_config_files=[], default_config_dirs=[])
    library.CONF.set_override("echo_request_interval", ECHO_INTERVAL_S)
    library.CONF.set_override("maximum_unreplied_echo_requests", ECHO_UNANSWERED)
    library.ofp_handler.OpenFlowController = functools.partial(InheritedListeners, listener_fds)
    manager = library.app_manager.AppManager.get_instance()
    manager.load_apps(["railweave.controllers.app"])
    gc.freeze()
    gc.enable()
    library.hub.joinall(manager.instantiate_apps(channel=Channel.from_fd(channel_fd)))


if __name__ == "__main__":
    main()
