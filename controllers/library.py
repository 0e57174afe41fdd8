"""The OpenFlow library of this process (Ryu, os-ken or c65of); only this module imports it.

The environment variable RAILWEAVE_OPENFLOW_LIBRARY selects the library. It must be set before this module is
first imported, because the application's classes derive from the library's.
"""

import functools
import importlib
import os
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from railweave.controllers.packages import PACKAGES

VARIABLE = "RAILWEAVE_OPENFLOW_LIBRARY"
NAME = os.environ.get(VARIABLE, "ryu")
ECHO_INTERVAL_S = 5.0
"""Seconds between echo requests to a switch."""
ECHO_UNANSWERED = 2
"""Echo requests without an answer, some 15 s, after which a switch is disconnected; an update would wait for
it for ever."""

_APPLICATIONS = {"ryu": "RyuApp", "os-ken": "OSKenApp", "c65of": "OFApp"}
_C65OF = {
    "base.app_manager": "app",
    "controller.event": "app",
    "controller.handler": "app",
    "controller.controller": "controller",
    "controller.ofp_event": "ofp_event",
    "lib.hub": "hub",
    "ofproto.ofproto_v1_3": "ofproto",
    "ofproto.ofproto_v1_3_parser": "ofproto.parser",
}
"""Where c65of keeps what Ryu and os-ken have in these modules."""

Handler = TypeVar("Handler", bound=Callable[..., None])


class _AlreadyHandled:
    """Replaces eventlet.wsgi.ALREADY_HANDLED, an empty response that eventlet 0.30.3 removed."""

    def __iter__(self) -> Iterator[bytes]:
        import eventlet.wsgi

        eventlet.wsgi.WSGI_LOCAL.already_handled = True
        return iter(())


def _prepare_eventlet() -> None:
    """Patch the standard library, and eventlet for Ryu; must precede Ryu's first import.

    Ryu's app_manager imports its web server, which needs a name that eventlet has removed. Threads are left
    alone: nothing here starts one, and patching them causes a warning for every existing lock.
    """
    import eventlet

    eventlet.monkey_patch(thread=False)
    import eventlet.wsgi

    eventlet.wsgi.ALREADY_HANDLED = _AlreadyHandled()


def _module(path: str) -> Any:
    return importlib.import_module(f"{PACKAGES[NAME]}.{_C65OF[path] if NAME == 'c65of' else path}")


if NAME == "ryu":
    _prepare_eventlet()

# The order matters to Ryu and os-ken: app_manager and controller import each other.
app_manager = _module("base.app_manager")
ofp_event = _module("controller.ofp_event")
event = _module("controller.event")
controller = _module("controller.controller")
handler = _module("controller.handler")
hub = _module("lib.hub")
ofproto = _module("ofproto.ofproto_v1_3")
parser = _module("ofproto.ofproto_v1_3_parser")

App = getattr(app_manager, _APPLICATIONS[NAME])
ECHO_OPTIONS: dict[str, Any] = (
    {"echo_request_interval": ECHO_INTERVAL_S, "max_unreplied_echo_requests": ECHO_UNANSWERED}
    if NAME == "c65of"
    else {}
)
"""For every datapath of c65of; the others have them in their global configuration, where `run` sets them."""
MAIN: str = handler.MAIN_DISPATCHER
DEAD: str = handler.DEAD_DISPATCHER


def _stamp_packets() -> None:
    """Give every packet-in `arrived_s`, when it arrived at the process: a handler is called when the packets
    before it have been dealt with."""
    make = parser.OFPPacketIn.__init__

    def stamped(packet: Any, datapath: Any, *args: Any, **kwargs: Any) -> None:
        make(packet, datapath, *args, **kwargs)
        packet.arrived_s = datapath.arrived_s

    parser.OFPPacketIn.__init__ = stamped


_stamp_packets()


def handles(event_class: Any, *states: str) -> Callable[[Handler], Handler]:
    """Decorate an application's method as the handler of an event, in these states of a connection (default:
    all).

    A handler that raises ends the process. The libraries would log the exception and continue with an update
    half done; the lab restarts the process and sends it all rules again, which is always correct.
    """

    def decorate(handle_event: Handler) -> Handler:
        @functools.wraps(handle_event)
        def handle(*args: Any) -> None:
            try:
                handle_event(*args)
            except Exception:  # noqa: BLE001 - printed, and the process ends
                traceback.print_exc()
                os._exit(1)

        registered: Handler = handler.set_ev_cls(event_class, list(states))(handle)
        return registered

    return decorate


def run(application: str, listeners: Any, **arguments: Any) -> None:
    """Run the application in a module of this name, and the library's OpenFlow handshake, for ever.

    `listeners` replaces the library's own server; `arguments` go to the application's class.
    """
    manager = app_manager.AppManager.get_instance()
    if NAME == "c65of":
        manager.load_apps(["c65of.controller", application])
        arguments["controller"] = listeners
    else:
        config = _module("cfg").CONF
        config([], project="railweave", default_config_files=[], default_config_dirs=[])
        config.set_override("echo_request_interval", ECHO_INTERVAL_S)
        config.set_override("maximum_unreplied_echo_requests", ECHO_UNANSWERED)
        _module("controller.ofp_handler").OpenFlowController = lambda: listeners
        manager.load_apps([application])
    hub.joinall(manager.instantiate_apps(**arguments))
