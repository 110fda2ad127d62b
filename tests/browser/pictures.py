"""Take the documents' pictures: ``python -m tests.browser.pictures [FOLDER]``.

They show the demo as ``make run`` serves it, just started: with an hour of history.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.browser.machinery import LIST, ROOT, launched, log_in
from tests.live.demo import Demo

SIZE = {"width": 1280, "height": 860}


def main() -> None:
    """Take them all, light and dark."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as files,
        Demo(_environment(Path(files))) as demo,
        launched() as browser,
    ):
        for scheme in ("light", "dark"):
            page = browser.new_context(viewport=SIZE, color_scheme=scheme).new_page()
            log_in(page, demo.address)
            page.evaluate("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")
            take(page, demo.address, folder, scheme)


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


if __name__ == "__main__":
    main()
