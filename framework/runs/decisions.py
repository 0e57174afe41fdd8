"""Asking for changed routes without holding up what measures: routers may solve problems, and forecasts
simulate iterations."""

from threading import Thread

from railweave.framework.errors import PLUGIN_FAILURES
from railweave.framework.health.outlook import Outlook
from railweave.framework.routing.route_control import Reroute, RouteControl


class Decisions:
    """Asks `control` for changes, in a thread of its own if `concurrent`: the clock of a model waits for the
    answer, that of a lab does not. One question is under way at a time, about the latest scores; its answer
    comes whole, and late if it takes long. While one is under way `control` belongs to the thread.
    """

    def __init__(self, control: RouteControl, *, concurrent: bool) -> None:
        self._control, self._concurrent = control, concurrent
        self._thread: Thread | None = None
        self._answer: Reroute | None = None
        self._error: BaseException | None = None

    @property
    def under_way(self) -> bool:
        return self._thread is not None

    def change(self, outlook: Outlook, now_s: float) -> Reroute | None:
        """The change that is wanted, as far as is known: of `outlook`, or of an earlier one whose answer has
        come since. Raises what the router or its checks raise."""
        if self._thread is not None:
            return None if self._thread.is_alive() else self.finish()
        if not self._control.asks(outlook.health, now_s):
            return None
        if not self._concurrent:
            return self._control.react(outlook.health, now_s, outlook.prospects, outlook.outage)
        self._thread = Thread(target=self._ask, args=(outlook, now_s), name="routes", daemon=True)
        self._thread.start()
        return None

    def finish(self) -> Reroute | None:
        """Wait for the answer to a question that is under way."""
        if self._thread is None:
            return None
        self._thread.join()
        self._thread, answer, error = None, self._answer, self._error
        self._answer = self._error = None
        if error is not None:
            raise error
        return answer

    def _ask(self, outlook: Outlook, now_s: float) -> None:
        try:
            self._answer = self._control.react(outlook.health, now_s, outlook.prospects, outlook.outage)
        except PLUGIN_FAILURES as error:  # raised where the answer is taken
            self._error = error
