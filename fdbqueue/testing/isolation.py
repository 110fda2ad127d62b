"""Empty queues for a test, removed at its end."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import fdb.tuple
from django.conf import settings
from django.test.utils import TestContextDecorator, override_settings

from fdbqueue import conf
from fdbqueue.service import Catalog, error_code, transactions

#: The keys of tests start with this and a random text.
PREFIX = "fdbqueue-test"


class empty_queues(TestContextDecorator):  # noqa: N801  # as override_settings
    """Give a test empty queues of its own, in place of the queues of the setting.

    With the embedded engine they are in a file in a temporary folder; with any other engine they
    are in the project's database, under a random prefix that is cleared at the end. A queue with a
    ``subspace`` of its own is moved under that prefix, too. The setting ``FDBQUEUE`` is overridden,
    so call ``fdbqueue.queue()`` inside: a queue object made before is one of the project's.

    Args:
        queues: The setting's ``QUEUES`` for the test; None for the project's.

    Raises:
        ConfigurationError: The setting is wrong.
    """

    def __init__(self, queues: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self._queues = queues

    def __enter__(self) -> Catalog:  # type: ignore[override]  # Django says: apps
        return self.enable()

    def enable(self) -> Catalog:
        """Begin, and return the catalog of the queues."""
        self._prefix = (PREFIX, secrets.token_hex(8))
        self._folder: Path | None = None
        setting = getattr(settings, conf.SETTING, {})
        self._set(self._moved(setting))
        try:
            # a database object has one place for its receipts, which the catalog changes
            database = conf.open_database()
            self._receipts = transactions.receipts_of(database)
            self._catalog = conf.catalog()
        except BaseException:
            self._restore()
            raise
        return self._catalog

    def disable(self) -> None:
        """Remove the queues, and restore the setting."""
        try:
            database = self._catalog.database
            if self._folder is None:
                with contextlib.suppress(TypeError):  # of a class without weak references
                    transactions.keep_receipts_at(database, self._receipts)
                _clear(database, fdb.tuple.pack(self._prefix))
            else:
                database.close()  # type: ignore[attr-defined]  # the embedded engine's
        finally:
            self._restore()

    def _set(self, setting: dict[str, Any]) -> None:
        self._override = override_settings(**{conf.SETTING: setting})
        self._override.enable()

    def _reset(self) -> None:
        self._override.disable()

    def _restore(self) -> None:
        self._reset()
        if self._folder is not None:
            ended = self._folder.with_name(f"{self._folder.name}-ended")
            self._folder.rename(ended)  # so that a thread that still runs makes no file in it
            shutil.rmtree(ended)

    def _moved(self, setting: Any) -> dict[str, Any]:
        moved = {**setting, "PREFIX": self._prefix, "QUEUES": self._moved_queues(setting)}
        if setting.get("ENGINE", conf.EMBEDDED) == conf.EMBEDDED:
            self._folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}-"))
            moved["OPTIONS"] = {"path": self._folder / "queues.sqlite3", "durability": "normal"}
        return moved

    def _moved_queues(self, setting: Any) -> dict[str, Any]:
        queues = setting.get("QUEUES", {}) if self._queues is None else self._queues
        moved = {}
        for name, options in queues.items():
            moved[name] = dict(options)
            if options.get("subspace") is not None:
                moved[name]["subspace"] = (*self._prefix, "subspace", *options["subspace"])
        return moved


class EmptyQueuesMixin(unittest.TestCase):
    """Give each test of a test case empty queues.

        class SignUpTests(EmptyQueuesMixin, TestCase):
            ...

    They exist from before ``setUp`` until the test is torn down. ``setUpClass`` and
    ``setUpTestData`` have other empty queues, which no test sees. ``@override_settings`` of
    ``FDBQUEUE`` on the class is honoured: the queues are then as it says.

    Attributes:
        fdbqueue_queues: The setting's ``QUEUES`` for the tests; None for the project's.
    """

    fdbqueue_queues: ClassVar[Mapping[str, Any] | None] = None

    @classmethod
    def setUpClass(cls) -> None:
        """Keep the set-up of the class away from the project's queues."""
        of_class = getattr(cls, "_overridden_settings", None) or {}
        if conf.SETTING not in of_class:
            cls._isolate()
            super().setUpClass()
            return
        override = override_settings(**{conf.SETTING: of_class[conf.SETTING]})
        override.enable()
        cls.addClassCleanup(override.disable)
        cls._isolate()
        # Django applies @override_settings of the class next: let it set these queues
        moved = {**of_class, conf.SETTING: getattr(settings, conf.SETTING)}
        is_own = "_overridden_settings" in vars(cls)
        setattr(cls, "_overridden_settings", moved)  # noqa: B010  # Django's attribute, unknown to the stubs
        try:
            super().setUpClass()
        finally:
            if is_own:
                setattr(cls, "_overridden_settings", of_class)  # noqa: B010  # as above
            else:
                delattr(cls, "_overridden_settings")

    @classmethod
    def _isolate(cls) -> None:
        isolation = empty_queues(cls.fdbqueue_queues)
        isolation.enable()
        cls.addClassCleanup(isolation.disable)

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Run the test with empty queues."""
        with empty_queues(self.fdbqueue_queues):
            return super().run(result)

    def debug(self) -> None:
        """Run the test with empty queues, collecting no errors."""
        with empty_queues(self.fdbqueue_queues):
            super().debug()


def _clear(database: Any, prefix: bytes) -> None:
    """Clear all keys with a prefix, with the receipts; an ordinary operation would leave one."""
    transaction = database.create_transaction()
    while True:
        try:
            transaction.clear_range(prefix, prefix + b"\xff\xff")
            transaction.commit().wait()
            return
        except Exception as error:
            code = error_code(error)
            if code is None:
                raise
            transaction.on_error(code).wait()
