"""Debian's Chromium without a window, driven by playwright, and everything that a page says or asks for."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

PROGRAM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium"))), None)
MISSING = "needs Chromium: apt-get install chromium-headless-shell"
WIDE = {"width": 1280, "height": 900}


@dataclass
class Opened:
    """A page in a context of its own, and what it did since. `messages`: of its console, and uncaught errors;
    `requests`: the addresses that it asked for, its own document first; `refused`: those of them that its
    policy refused, so that they were never sent."""

    page: Page
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; one serves many pages."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Browser, address: str, *, offline: bool = True, ready: str = "[data-ready]", **options: Any
) -> Iterator[Opened]:
    """The page at `address`, once it has `ready`. `options`: of playwright's `new_context`."""
    context = browser.new_context(offline=offline, viewport=options.pop("viewport", WIDE), **options)
    context.set_default_timeout(20_000)
    seen = Opened(context.new_page())
    try:
        seen.page.on("console", lambda message: seen.messages.append(f"{message.type}: {message.text}"))
        seen.page.on("pageerror", lambda error: seen.messages.append(f"error: {error}"))
        seen.page.on("request", lambda request: seen.requests.append(request.url))
        seen.page.on(
            "requestfailed", lambda request: seen.refused.update([request.url] * (request.failure == "csp"))
        )
        seen.page.goto(address)
        seen.page.wait_for_selector(ready)
        yield seen
    finally:
        context.close()


def until(page: Page, condition: str, argument: object = None) -> None:
    """Waits until the expression or function `condition` is true in the page. (The page's policy forbids what
    playwright's `wait_for_function` does.)"""
    end = time.monotonic() + 20
    while not page.evaluate(condition, argument):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)
