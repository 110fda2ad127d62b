"""Take pictures of the pages of the demo, as ``make run`` serves it, with an hour of history.

``python -m tests.browser.pictures [FOLDER]`` takes those of the documents, with the demo just
started. ``python -m tests.browser.pictures --all FOLDER`` takes each kind of page at five widths,
light and dark, to be looked at: run it before a release with each Django, that of the Python which
``FDBQUEUE_BROWSER_PYTHON`` names. Pages that are named after ``FOLDER`` are taken alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.browser.machinery import LIST, ROOT, SERVER, launched, log_in
from tests.live.demo import Demo

SIZE = {"width": 1280, "height": 860}
WIDTHS = (390, 768, 1024, 1280, 1440)
SCHEMES = ("light", "dark")
HEIGHT = 900
#: Where pages are that need no look at another to be found, below the list.
PLAIN = "/queues/"
PAGES = {
    "list": "",
    "list-sorted": "?sort=-oldest",
    "family": "?name=user-*",
    "queue": "quakes/",
    "queue-search": "quakes/?q=alaska",
    "queue-dead": "alerts/?state=dead",
    "queue-leased": "alerts/?state=leased",
    "queue-delayed": "alerts/?state=delayed",
    "queue-blocked": "imports/",
    "queue-bytes": "legacy/",
    "queue-invalid": "quakes/?end=nothing",
    "tasks": "tasks-default/",
    **{
        f"tasks-{state}": f"tasks-default/?state={state}"
        for state in ("leased", "delayed", "dead", "aborted", "done")
    },
    "workers": "-/workers/",
    "failures": "-/failures/",
    "functions": "-/functions/",
    "schedules": "-/schedules/",
    "outbox": "-/outbox/",
    "find-nothing": "-/find/?id=nothing",
    "no-queue": "quaks/",
}
#: Pages with something unfolded: of which page, and what is clicked.
UNFOLDED = {
    "queue-charts": ("quakes/", "#fold-charts > summary"),
    "queue-settings": ("quakes/", "#fold-settings > summary"),
    "queue-find": ("quakes/", ".fdbqueue-byid > summary"),
    "workers-find": ("-/workers/", ".fdbqueue-byid > summary"),
}
#: Pages of one item or task: on which page, and the first link of which is followed.
FOLLOWED = {
    "item": ("quakes/", "#scroll-items tbody th a"),
    "item-dead": ("alerts/?state=dead", "#scroll-items tbody th a"),
    "task-failed": ("tasks-default/?state=dead", "#scroll-items tbody th a"),
    "task-done": ("tasks-default/?state=done", "#scroll-items tbody th a"),
    "task-group": ("tasks-default/?state=done&function=compare", "#scroll-items tbody th a"),
    "task-chain": ("tasks-default/?state=done&function=listen", "#scroll-items tbody th a"),
    "task-running": ("tasks-default/?state=leased", "#scroll-items tbody th a"),
}
#: Pages outside the frame, which have addresses of their own.
OTHERS = {
    "plain-list": PLAIN,
    "plain-queue": f"{PLAIN}quakes/",
    "plain-workers": f"{PLAIN}-/workers/",
    "admin": "/admin/",
    "swagger": "/api/docs/",
    "redoc": "/api/redoc/",
}


def main() -> None:
    """Take those that the command asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="each kind of page, at each width")
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "images")
    parser.add_argument("pages", nargs="*", help="with --all: only these kinds")
    options = parser.parse_args()
    is_inside = options.folder.resolve().is_relative_to(ROOT)
    if options.all and is_inside:
        parser.error("FOLDER is to be outside of the repository, for these pictures are not kept")
    options.folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as files,
        Demo(_environment(Path(files)), python=os.environ.get(SERVER, sys.executable)) as demo,
        launched() as browser,
    ):
        for scheme in SCHEMES:
            page = browser.new_context(viewport=SIZE, color_scheme=scheme).new_page()
            log_in(page, demo.address)
            if options.all:
                take_all(page, demo.address, options.folder, scheme, options.pages)
                continue
            page.evaluate("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")
            take(page, demo.address, options.folder, scheme)


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of a demo on the embedded engine, with its files in a folder."""
    return {
        **{name: value for name, value in os.environ.items() if name != "FDB_CLUSTER_FILE"},
        "DJANGO_SETTINGS_MODULE": "tests.browser.picture_settings",
        "FDBQUEUE_PATH": str(folder / "queues.sqlite3"),
        "PYTHONUNBUFFERED": "1",
    }


def take(page: Any, address: str, folder: Path, scheme: str) -> None:
    """Take the list, a queue and an item in one scheme."""
    page.goto(f"{address}{LIST}?sort=-ready")
    page.screenshot(path=folder / f"list-{scheme}.png")
    page.goto(f"{address}{LIST}quakes/?end=max&limit=25")
    page.screenshot(path=folder / f"queue-{scheme}.png")
    page.locator("#scroll-items tbody th a").first.click()
    page.wait_for_load_state()
    page.screenshot(path=folder / f"item-{scheme}.png")


def take_all(page: Any, address: str, folder: Path, scheme: str, wanted: list[str]) -> None:
    """Take each kind of page, or those that are wanted, at each width in one scheme."""
    for name in _open_each(page, address, wanted):
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": HEIGHT})
            page.wait_for_timeout(150)  # whatever moves when the width changes
            page.screenshot(path=folder / f"{name}-{width}-{scheme}.png")


def _open_each(page: Any, address: str, wanted: list[str]) -> Iterator[str]:
    """Open each kind of page that is wanted; yield its name while it is open."""
    paths = {name: LIST + path for name, path in PAGES.items()} | OTHERS
    clicks = {name: (LIST + path, selector) for name, (path, selector) in UNFOLDED.items()}
    links = {name: (LIST + path, selector) for name, (path, selector) in FOLLOWED.items()}
    for name in [*paths, *clicks, *links]:
        if wanted and name not in wanted:
            continue
        page.set_viewport_size({"width": WIDTHS[-1], "height": HEIGHT})
        path, selector = (clicks | links).get(name) or (paths[name], "")
        page.goto(address + path, wait_until="load" if name in OTHERS else "domcontentloaded")
        if selector:
            page.locator(selector).first.click()
            page.wait_for_load_state()
        yield name
        if name in clicks:  # what is unfolded stays so on the next page
            page.evaluate("localStorage.clear(); sessionStorage.clear()")


if __name__ == "__main__":
    main()
