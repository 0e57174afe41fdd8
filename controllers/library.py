"""The OpenFlow library of this process, Ryu or os-ken, under one set of names. Nothing else imports either.

Which of the two is asked for by the environment variable RAILWEAVE_OPENFLOW_LIBRARY, which the launcher sets
before this module is first imported: applications derive from the library's classes, so the choice must stand
when they are defined.
"""

from __future__ import annotations

import functools
import importlib
import os
import traceback
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

VARIABLE = "RAILWEAVE_OPENFLOW_LIBRARY"
PACKAGES = {"ryu": "ryu", "os-ken": "os_ken"}
NAME = os.environ.get(VARIABLE, "ryu")

Handler = TypeVar("Handler", bound=Callable[..., None])


class _AlreadyHandled:
    """What eventlet.wsgi.ALREADY_HANDLED was before eventlet 0.30.3 took it away: an empty answer."""

    def __iter__(self) -> Iterator[bytes]:
        import eventlet.wsgi

        eventlet.wsgi.WSGI_LOCAL.already_handled = True
        return iter(())


def _prepare_eventlet() -> None:
    """Make eventlet fit for Ryu; must come before Ryu's first import.

    Ryu's app_manager imports its web server, which wants a name that eventlet has dropped. Threads stay
    real: nothing here starts any, and greening them costs a warning per lock made before.
    """
    import eventlet

    eventlet.monkey_patch(thread=False)
    import eventlet.wsgi

    eventlet.wsgi.ALREADY_HANDLED = _AlreadyHandled()


def _module(path: str) -> Any:
    return importlib.import_module(f"{PACKAGES[NAME]}.{path}")


if NAME == "ryu":
    _prepare_eventlet()

# The order matters to both libraries: app_manager and controller import each other.
app_manager = _module("base.app_manager")
ofp_event = _module("controller.ofp_event")
event = _module("controller.event")
ofp_handler = _module("controller.ofp_handler")
controller = _module("controller.controller")
hub = _module("lib.hub")
ofproto = _module("ofproto.ofproto_v1_3")
parser = _module("ofproto.ofproto_v1_3_parser")
CONF = _module("cfg").CONF

App = app_manager.RyuApp if NAME == "ryu" else app_manager.OSKenApp
MAIN: str = _module("controller.handler").MAIN_DISPATCHER
DEAD: str = _module("controller.handler").DEAD_DISPATCHER


def handles(event_class: Any, *states: str) -> Callable[[Handler], Handler]:
    """Decorate an application's method as the handler of an event, in these states of a connection (all, if
    none is named).

    A handler that raises ends the process. The libraries would log and go on with half an update done;
    whoever started the process restarts it and hands over the whole intent, which is always right.
    """

    def decorate(handler: Handler) -> Handler:
        @functools.wraps(handler)
        def handle(*args: Any) -> None:
            try:
                handler(*args)
            except Exception:  # noqa: BLE001 - printed, and the process ends
                traceback.print_exc()
                os._exit(1)

        marked: Handler = _module("controller.handler").set_ev_cls(event_class, list(states))(handle)
        return marked

    return decorate
