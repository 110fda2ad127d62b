"""Replay a recorded transaction history, step by step, and compare each answer; or record one.

The format is described in ``recorded/README.md``.
"""

from __future__ import annotations

from typing import Any

_ATOMIC = frozenset(
    {
        "add",
        "bit_and",
        "bit_or",
        "bit_xor",
        "max",
        "min",
        "byte_max",
        "byte_min",
        "append_if_fits",
        "compare_and_clear",
    }
)
#: A selector's offset is less in all histories.
_FENCE_KEYS = 10
_STAMP_AT_START = (0).to_bytes(4, "little")


class Replay:
    """Run one history under a prefix of a database.

    A selector may lead out of the prefix. Keys on both sides of it are a fence, so that it reads
    nothing that other clients of the database write, and conflicts with none of them.

    Args:
        database: The database.
        prefix: The prefix; it ends with a slash, and its neighbours are free.
        selector: The class of key selectors.
    """

    def __init__(self, database: Any, prefix: bytes, selector: Any) -> None:
        self._database = database
        self._prefix = prefix
        self._selector = selector
        self._transactions: dict[int, Any] = {}
        self._stamps: list[bytes] = []
        self._stamping: set[int] = set()  # transactions whose commit is numbered

    def differences(self, history: dict[str, Any]) -> list[str]:
        """Return a line for each answer that was not the recorded one."""
        self._set_up(history)
        found = []
        for number, step in enumerate(history["steps"]):
            answer = self._answer(step)
            if answer != step["answer"]:
                found.append(f"{history['seed']}:{number} {step} gave {answer}")
        final = self._rows()
        if final != history["final"]:
            found.append(f"{history['seed']} final {final} not {history['final']}")
        return found

    def recorded(self, history: dict[str, Any]) -> dict[str, Any]:
        """Return a history with the answers of this database."""
        self._set_up(history)
        steps = [{**step, "answer": self._answer(step)} for step in history["steps"]]
        return {**history, "steps": steps, "final": self._rows()}

    def _set_up(self, history: dict[str, Any]) -> None:
        setup = self._database.create_transaction()
        for key, value in history["setup"]:
            setup[self._key(key)] = bytes.fromhex(value)
        for side in (b".", b"0"):  # before the slash and behind it
            for number in range(_FENCE_KEYS):
                setup[self._prefix[:-1] + side + bytes([number])] = b""
        setup.commit().wait()

    def _rows(self) -> list[list[str]]:
        reads = self._database.create_transaction()
        rows = reads.get_range(self._prefix, self._prefix + b"\xff")
        return [[self._hex(row.key[len(self._prefix) :]), self._hex(row.value)] for row in rows]

    def _hex(self, data: bytes) -> str:
        text = data.hex()
        for number, stamp in enumerate(self._stamps):
            text = text.replace(stamp.hex(), f"<vs{number}>")
        return text

    def _key(self, text: str) -> bytes:
        return self._prefix + bytes.fromhex(text)

    def _answer(self, step: dict[str, Any]) -> dict[str, Any]:
        try:
            return getattr(self, f"_do_{step['op']}", self._do_write)(step) or {}
        except Exception as error:
            code = getattr(error, "code", None)
            if not isinstance(code, int):
                raise
            return {"error": code}

    def _do_begin(self, step: dict[str, Any]) -> None:
        self._transactions[step["t"]] = self._database.create_transaction()

    def _do_grv(self, step: dict[str, Any]) -> None:
        self._transactions[step["t"]].get_read_version().wait()

    def _do_reset(self, step: dict[str, Any]) -> None:
        self._transactions[step["t"]].reset()
        self._stamping.discard(step["t"])

    def _do_cancel(self, step: dict[str, Any]) -> None:
        self._transactions[step["t"]].cancel()

    def _do_on_error(self, step: dict[str, Any]) -> dict[str, Any]:
        self._transactions[step["t"]].on_error(step["code"]).wait()
        self._stamping.discard(step["t"])
        return {"ok": True}

    def _do_option(self, step: dict[str, Any]) -> None:
        getattr(self._transactions[step["t"]].options, f"set_{step['name']}")()

    def _reads(self, step: dict[str, Any]) -> Any:
        transaction = self._transactions[step["t"]]
        return transaction.snapshot if step["snapshot"] else transaction

    def _do_get(self, step: dict[str, Any]) -> dict[str, Any]:
        value = self._reads(step).get(self._key(step["key"]))
        return {"value": self._hex(bytes(value)) if value.present() else None}

    def _do_get_key(self, step: dict[str, Any]) -> dict[str, Any]:
        selector = self._selector(self._key(step["key"]), step["or_equal"], step["offset"])
        found = bytes(self._reads(step).get_key(selector))
        if found.startswith(self._prefix):
            return {"key_found": self._hex(found[len(self._prefix) :])}
        return {"key_found": "<before>" if found < self._prefix else "<after>"}

    def _do_get_range(self, step: dict[str, Any]) -> dict[str, Any]:
        rows = self._reads(step).get_range(
            self._place(step["begin"]), self._place(step["end"]), step["limit"], step["reverse"]
        )
        start = len(self._prefix)
        return {"rows": [[self._hex(row.key[start:]), self._hex(row.value)] for row in rows]}

    def _place(self, given: str | list[Any]) -> Any:
        """Return where a range begins or ends: a key, or a selector."""
        if isinstance(given, str):
            return self._key(given)
        key, or_equal, offset = given
        return self._selector(self._key(key), or_equal, offset)

    def _do_commit(self, step: dict[str, Any]) -> dict[str, Any]:
        transaction = self._transactions[step["t"]]
        stamp = transaction.get_versionstamp()
        transaction.commit().wait()
        if step["t"] in self._stamping:
            self._stamps.append(bytes(stamp))
        return {"ok": True}

    def _do_write(self, step: dict[str, Any]) -> None:
        transaction, op = self._transactions[step["t"]], step["op"]
        if op.startswith("set_versionstamped"):
            self._stamping.add(step["t"])
        if op == "set":
            transaction[self._key(step["key"])] = bytes.fromhex(step["value"])
        elif op == "clear":
            del transaction[self._key(step["key"])]
        elif op == "clear_range":
            transaction.clear_range(self._key(step["begin"]), self._key(step["end"]))
        elif op == "set_versionstamped_key":
            key = self._key(step["key"])
            place = len(key).to_bytes(4, "little")
            transaction.set_versionstamped_key(
                key + bytes(10) + place, bytes.fromhex(step["value"])
            )
        elif op == "set_versionstamped_value":
            value = bytes(10) + bytes.fromhex(step["value"]) + _STAMP_AT_START
            transaction.set_versionstamped_value(self._key(step["key"]), value)
        elif op in _ATOMIC:
            getattr(transaction, op)(self._key(step["key"]), bytes.fromhex(step["param"]))
        elif op.endswith("_key"):
            getattr(transaction, f"add_{op}")(self._key(step["key"]))
        else:
            getattr(transaction, f"add_{op}")(self._key(step["begin"]), self._key(step["end"]))
