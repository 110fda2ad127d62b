"""Run a server of the demo project, and Debian's Chromium."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import queue
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
STARTS_WITHIN_SECONDS = 60
#: Names the Python that serves, if it is another than the tests' own: that of another Django.
SERVER = "FDBQUEUE_BROWSER_PYTHON"
#: The user that the demo makes.
NAME = "demo"
LIST = "/admin/fdbqueue/queuename/"


def chromium() -> str | None:
    """Return the path of Debian's Chromium, None where it is not installed.

    The one that draws no window, if it is there: the tests take a third less processor time.
    """
    return shutil.which("chromium-headless-shell") or shutil.which("chromium")


@contextlib.contextmanager
def served(folder: Path, *arguments: str, prefix: str = "browser") -> Iterator[str]:
    """Run the demo project in a process of its own, and give its address."""
    environment = {
        **os.environ,
        "FDBQUEUE_BROWSER_FOLDER": str(folder),
        "FDBQUEUE_BROWSER_PREFIX": prefix,
    }
    with subprocess.Popen(
        [os.environ.get(SERVER, sys.executable), "-m", "tests.browser.serve", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield f"http://127.0.0.1:{_first_line(process)}"
        finally:
            process.kill()


def _first_line(process: subprocess.Popen[str]) -> int:
    lines: queue.Queue[str] = queue.Queue()
    assert process.stdout is not None
    threading.Thread(target=lambda: lines.put(process.stdout.readline()), daemon=True).start()
    return int(lines.get(timeout=STARTS_WITHIN_SECONDS))


def named_fonts(folder: Path) -> Path:
    """Write a configuration of fonts that has DejaVu alone, whatever the machine has.

    These are wider and higher than most, and come with matplotlib.
    """
    package = importlib.util.find_spec("matplotlib")
    assert package is not None
    assert package.origin is not None
    fonts = Path(package.origin).with_name("mpl-data") / "fonts/ttf"
    path = folder / "fonts.conf"
    path.write_text(_FONTS.format(fonts=fonts, cache=folder / "fonts"), encoding="utf-8")
    return path


_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{fonts}</dir>
  <cachedir>{cache}</cachedir>
  <selectfont>
    <acceptfont><glob>*/DejaVuSans*</glob></acceptfont>
    <rejectfont><glob>*</glob></rejectfont>
  </selectfont>
  <alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>system-ui</family><prefer><family>DejaVu Sans</family></prefer></alias>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
</fontconfig>
"""


@contextlib.contextmanager
def launched(fonts: Path | None = None) -> Iterator[Any]:
    """Run Chromium, headless and with a fresh profile, with these fonts or the machine's."""
    from playwright.sync_api import sync_playwright

    environment = {**os.environ, **({"FONTCONFIG_FILE": str(fonts)} if fonts else {})}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=ARGUMENTS, env=environment
        )
        yield browser
        browser.close()


def log_in(page: Any, address: str, name: str = NAME) -> None:
    """Log a user in whose password is the name, the demo's or another, by the admin's form."""
    page.goto(f"{address}/admin/login/?next={LIST}")
    page.locator("[name=username]").fill(name)
    page.locator("[name=password]").fill(name)
    page.locator("[name=password]").press("Enter")
    page.wait_for_url(f"**{LIST}")


def pushed_out(page: Any) -> list[str]:
    """Return which tables of a page are wider than where they are."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll(".fdbqueue-scroll")]
            .filter((place) => place.scrollWidth > place.clientWidth)
            .map((place) => `${place.id}: ${place.scrollWidth - place.clientWidth}`)"""
    )
    return found


def long_ages(page: Any) -> None:
    """Give all ages of a page the longest text that one has, however soon a test is there."""
    page.evaluate(
        """() => {
            const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
            while (texts.nextNode()) {
                const text = texts.currentNode;
                text.data = text.data.replace(/\\b\\d+ s ago/g, "59 min ago");
            }
        }"""
    )


def rows_in_view(page: Any) -> int:
    """Return how many rows of the last table of a page are in view, as it was opened."""
    count: int = page.evaluate(
        """() => {
            const tables = [...document.querySelectorAll(".fdbqueue-cards")];
            return [...tables.at(-1).querySelectorAll("tbody tr")].filter(
                (row) => row.getBoundingClientRect().bottom <= innerHeight
            ).length;
        }"""
    )
    return count
