"""Tiles: figures in a row above a table, each with what it is called."""

from __future__ import annotations

from typing import NamedTuple

from django.utils.functional import Promise


class Tile(NamedTuple):
    """A figure; ``kind`` is ``bad`` or ``warning`` where it needs attention."""

    name: str
    label: str | Promise
    figure: str
    kind: str = ""
