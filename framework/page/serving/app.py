"""What a page may ask of the server: everything below /TOKEN/, with GET, from this machine."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache
from importlib.resources import files

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from railweave.framework.page.exports.prometheus import CONTENT_TYPE
from railweave.framework.page.serving.feed import Feed

MOST_STREAMS, SEND_S, RETRY_MS = 32, 5.0, 500
"""Pages that follow at once; seconds after which one that reads nothing is cut off; when it tries again."""
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
TYPES = {"css": "text/css", "html": "text/html", "js": "text/javascript"}


class _Guard:
    """Refuses requests with another method than GET, or without the token; adds HEADERS to every answer."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        token = scope["path"].split("/")[1] if scope["path"].startswith("/") else ""
        app = self._app
        if scope["method"] not in ("GET", "HEAD"):
            app = PlainTextResponse("Only GET is answered.", 405, {"allow": "GET, HEAD"})
        elif token == "favicon.ico":  # which browsers ask for unasked, and report on the console
            app = Response(status_code=204)
        elif not secrets.compare_digest(token.encode(), self._token.encode()):
            app = PlainTextResponse("Wrong token. Open the address that the command printed.", 403)
        await app(scope, receive, with_headers)


def application(token: str, routes: Sequence[BaseRoute]) -> Starlette:
    """`routes` below /TOKEN for requests to 127.0.0.1 or localhost; 400, 403 and 405 for others."""
    guards = [
        Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"], www_redirect=False),
        Middleware(_Guard, token=token),
    ]
    return Starlette(routes=[Mount("/{token}", routes=list(routes))], middleware=guards)


def page_routes(prefix: str, data: Callable[[Request], str]) -> list[BaseRoute]:
    """The page, its modules, and the JSON that `data` makes for it (in a thread of its own), below
    `prefix`."""

    def data_json(request: Request) -> Response:
        return Response(data(request), media_type="application/json")

    def static(request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        content = _static().get(name)
        if content is None:
            return PlainTextResponse(f"There is no {name} here.", 404)
        return Response(content, media_type=TYPES[name.rpartition(".")[2]])

    return [
        Route(f"{prefix}/", static),
        Route(f"{prefix}/data.json", data_json),
        Route(f"{prefix}/{{name}}", static),
    ]


def metrics_route(text: Callable[[], str]) -> Route:
    """What Prometheus scrapes; `text` is asked in a thread of its own."""

    def metrics(_: Request) -> Response:
        return Response(text(), media_type=CONTENT_TYPE)

    return Route("/metrics", metrics)


@cache
def _static() -> dict[str, bytes]:
    """The files of the page by name."""
    folder = files("railweave.framework.page") / "static"
    return {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if file.is_file() and file.name.rpartition(".")[2] in TYPES
    }


def events_route(feed: Feed) -> Route:
    """The messages of `feed` as server-sent events, from behind `?after=` or Last-Event-ID on."""
    streams: set[object] = set()

    async def messages(number: int) -> AsyncIterator[ServerSentEvent]:
        mark = object()
        streams.add(mark)
        try:
            while True:
                closed, following = feed.closed, feed.after(number)
                if following is None:
                    yield ServerSentEvent('{"kind":"reset"}')
                    return
                for message in following:
                    number = message.number
                    yield ServerSentEvent(message.data, id=str(number), retry=RETRY_MS)
                if not following and closed:
                    return
                if not following:
                    await feed.news()
        finally:
            streams.discard(mark)

    async def events(request: Request) -> Response:
        if len(streams) >= MOST_STREAMS:
            text = f"{MOST_STREAMS} pages follow this run already. Close one and load this page again."
            return PlainTextResponse(text, 503, {"retry-after": "5"})
        after = request.headers.get("last-event-id") or request.query_params.get("after", "0")
        if not after.isascii() or not after.isdecimal() or len(after) > 18:
            return PlainTextResponse(f"after={after[:40]!r} is no number of a message.", 400)
        feed.serve_on(asyncio.get_running_loop())
        return EventSourceResponse(messages(int(after)), send_timeout=SEND_S)

    return Route("/events", events)
