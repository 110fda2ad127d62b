"""Read docker-compose.yml and the Dockerfile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = ROOT / "docker-compose.yml"
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


def text(name: str) -> str:
    """Return the text of a file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def composition() -> dict[str, Any]:
    """Return docker-compose.yml, as an empty environment makes it."""
    found: dict[str, Any] = yaml.safe_load(_VARIABLE.sub(r"\2", text("docker-compose.yml")))
    return found


def services() -> dict[str, Any]:
    """Return its services."""
    found: dict[str, Any] = composition()["services"]
    return found


def seconds(duration: str) -> int:
    """Return a duration that is written in seconds, as ``30s``."""
    return int(duration.removesuffix("s"))


def instructions() -> list[tuple[str, str]]:
    """Return the Dockerfile's instructions: each its name and the rest of its line."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text("Dockerfile"), flags=re.MULTILINE))
    lines = [line for line in joined.splitlines() if line.strip()]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def stages() -> dict[str, list[tuple[str, str]]]:
    """Return the instructions of each stage of the Dockerfile, those of its base before them."""
    found: dict[str, list[tuple[str, str]]] = {}
    current: list[tuple[str, str]] = []
    for name, rest in instructions():
        if name == "FROM":
            base, _, stage = rest.partition(" AS ")
            current = found[stage] = list(found.get(base, []))
        else:
            current.append((name, rest))
    return found
