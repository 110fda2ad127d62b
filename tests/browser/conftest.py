"""A server with 1,707 earthquakes, and browser pages that may load from it alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fdbqueue.engines import embedded
from fdbqueue.service import Catalog, QueueSpec
from tests.browser.machinery import LIST, chromium, launched, log_in, named_fonts, served

#: Set by CI: there a browser that is missing is a failure.
REQUIRED = os.environ.get("FDBQUEUE_REQUIRE_BROWSER") == "1"
PREFIX = "browser"
#: The admin's own login page has no icon, and asks for one all the same.
_NOT_OURS = "/favicon.ico"
#: How long a page may take to show what is expected: a machine that runs other tests is slow.
_PATIENCE_MILLISECONDS = 60_000


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each test the fonts that it names; the layout must hold with the machine's, too."""
    if "browser" in metafunc.fixturenames:
        is_layout = metafunc.definition.get_closest_marker("layout")
        others = [pytest.param("machine", marks=pytest.mark.nightly)] if is_layout else []
        metafunc.parametrize("browser", ["named", *others], indirect=True, scope="module")


@pytest.fixture(scope="module")
def browser(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """Debian's Chromium, headless; while it runs, this thread can run no event loop.

    It has the fonts that the tests name, so that a test finds the same everywhere.
    """
    missing = None if chromium() else "no chromium: apt-get install chromium-headless-shell"
    try:
        from playwright.sync_api import expect
    except ImportError:
        missing = "no playwright: pip install playwright"
    if missing:
        if REQUIRED:
            pytest.fail(missing)
        pytest.skip(missing)
    expect.set_options(timeout=_PATIENCE_MILLISECONDS)
    is_named = request.param == "named"
    with launched(named_fonts(tmp_path_factory.mktemp("fonts")) if is_named else None) as found:
        yield found


@pytest.fixture(scope="module")
def folder(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server's files are, which has one for each browser."""
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def address(browser: Any, folder: Path) -> Iterator[str]:
    """The address of a server of the demo project, under a strict policy."""
    with served(folder, prefix=PREFIX) as found:
        yield found


@pytest.fixture
def queues(address: str, folder: Path) -> Catalog:
    """The server's queues, from another process than the server's."""
    database = embedded.open(str(folder / "queues.sqlite3"), durability="normal")
    specs = [
        QueueSpec("quakes", "priority", priority_type="float", max_attempts=2),
        QueueSpec("mail", "fifo", max_attempts=3),
        QueueSpec("raw", "fifo", codec="bytes"),
        QueueSpec("user-*", "fifo"),
    ]
    return Catalog(database, ("fdbqueue-test", PREFIX), specs)


class Visitor:
    """A page of the browser whose user is logged in, and all that went wrong in it."""

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self.address = address
        self.complaints: list[str] = []
        self.elsewhere: list[str] = []
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._asked)

    def _heard(self, message: Any) -> None:
        place = message.location.get("url", "")
        if message.type in {"error", "warning"} and not place.endswith(_NOT_OURS):
            self.complaints.append(f"{message.text} ({place})")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:")):
            self.elsewhere.append(request.url)

    def go(self, path: str) -> Any:
        """Open a page of the server."""
        return self.page.goto(self.address + path)

    def at_widths(self, widths: Iterable[int], height: int = 900) -> Iterator[int]:
        """Give the window one width after the other, the page as it is, once that is laid out."""
        for width in widths:
            self.page.set_viewport_size({"width": width, "height": height})
            self.page.evaluate("new Promise(requestAnimationFrame)")
            yield width


@pytest.fixture(scope="module")
def cookies(browser: Any, address: str) -> Any:
    """The cookies of the demo's user, who logs in once for most tests."""
    with browser.new_context() as context:
        context.set_default_timeout(_PATIENCE_MILLISECONDS)
        log_in(context.new_page(), address)
        return context.storage_state()


@pytest.fixture
def visit(browser: Any, address: str, cookies: Any) -> Iterator[Any]:
    """Open the list of queues as a user who may view it; fail on errors of the browser."""
    opened: list[tuple[Any, Visitor]] = []

    def open_page(**options: Any) -> Visitor:
        given = {"viewport": {"width": 1280, "height": 900}, "storage_state": cookies, **options}
        context = browser.new_context(**given)
        context.set_default_timeout(_PATIENCE_MILLISECONDS)
        visitor = Visitor(context.new_page(), address)
        opened.append((context, visitor))
        visitor.go(LIST)
        return visitor

    yield open_page
    for context, visitor in opened:
        context.close()
        assert visitor.elsewhere == []
        assert visitor.complaints == []
