"""FoundationDB's binding, fit for warnings as errors: imported before any part of it.

Up to 7.3 the binding has a copy of ``six``, whose finder stays in ``sys.meta_path``. It is of
Python 2's kind, so Python 3.10 and 3.11 warn whenever anybody looks for a module that is not there,
as Django's admin does (https://github.com/benjaminp/six/issues/341).
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from typing import Any


def mend_finder() -> None:
    """Let the finder of the binding's ``six`` answer in Python 3's way, too."""
    try:
        from fdb import six
    except ImportError:  # a later binding has none
        return

    def find_spec(self: Any, name: str, *_: Any) -> ModuleSpec | None:
        return spec_from_loader(name, self) if name in self.known_modules else None

    six._SixMetaPathImporter.find_spec = find_spec  # noqa: SLF001  # it has no other name


if sys.version_info < (3, 12):  # later Pythons pass over such a finder
    mend_finder()
