"""Histories that have broken a promise, by what they broke; each was found from a random seed."""

from __future__ import annotations

HISTORIES: dict[str, str] = {}
