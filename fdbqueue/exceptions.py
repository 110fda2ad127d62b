"""Every error this package raises, in one tree.

    FdbQueueError
    ├── ConfigurationError          configuration_error
    ├── QueueNotFound               queue_not_found
    ├── InvalidInput                invalid_input
    │   ├── InvalidPriority         invalid_priority
    │   ├── InvalidValue            invalid_value
    │   ├── ValueTooLarge           value_too_large
    │   ├── BatchTooLarge           batch_too_large
    │   └── KeyTooLarge             key_too_large
    ├── ItemNotFound                item_not_found
    │   └── ItemNotReady            item_not_ready
    ├── QueueOwned                  queue_owned
    ├── LeaseLost                   lease_lost
    ├── IdempotencyKeyReused        idempotency_key_reused
    ├── CorruptItem                 corrupt_item
    ├── FormatMismatch              format_mismatch
    │   └── LayoutMismatch          layout_mismatch
    ├── PushInterrupted             push_interrupted
    ├── OutcomeUnknown              outcome_unknown
    └── EngineError                 engine_error
        ├── EngineUnavailable       engine_unavailable     retryable
        ├── DeadlineExceeded        deadline_exceeded      retryable
        ├── ClientLibraryMissing    client_library_missing
        ├── ClientLibraryTooOld     client_library_too_old
        ├── ApiVersionTooOld        api_version_too_old
        └── ForkedEngine            forked_engine

An error of FoundationDB itself (a conflict that outlived its retries, a timeout) is not
wrapped: it is the engine's own ``FDBError``, with FoundationDB's code.

:func:`text_of_error`, :func:`message_of`, :func:`type_name`, :func:`path_of` and
:func:`traceback_of` put any error into words, those of other programs too, and :func:`is_a` tells
its class. They never raise, whatever the methods of the error, or of its class, do.
"""

from __future__ import annotations

import traceback
from typing import Any, ClassVar, TypeGuard, TypeVar

E = TypeVar("E", bound=BaseException)

_MAX_TEXT = 1_000
# What Python itself knows of a class: a class of classes may have other attributes of these names.
_NAME, _QUALIFIED_NAME, _MODULE = (
    vars(type)[name].__get__ for name in ("__name__", "__qualname__", "__module__")
)


def text_of_error(error: BaseException) -> str:
    """Return an error's type and message, as :func:`message_of` has it."""
    name, text = type_name(error), _message(error)
    return f"{name}: {text}"[:_MAX_TEXT] if text else name


def message_of(error: BaseException) -> str:
    """Return an error's message; its type if it has none, or none that can be had.

    Returns:
        At most 1,000 characters, all of which UTF-8 can encode: others are escaped.
    """
    return _message(error) or type_name(error)


def is_a(error: BaseException | None, *kinds: type[E]) -> TypeGuard[E]:
    """Tell whether an error is of one of these classes, whatever its ``__class__`` says."""
    return issubclass(type(error), kinds)


def class_name(kind: type) -> str:
    """Return the name of a class."""
    return str(_NAME(kind))


def type_name(error: BaseException) -> str:
    """Return the name of an error's class."""
    return class_name(type(error))


def path_of(kind: type) -> str:
    """Return the dotted path of a class; its name alone if it says no module."""
    try:
        module = _MODULE(kind)
    except AttributeError:  # a class need not have one
        module = None
    name = str(_QUALIFIED_NAME(kind))
    return f"{module}.{name}" if isinstance(module, str) else name


def traceback_of(error: BaseException) -> str:
    """Return an error with its traceback as Python prints it, or what can be had of that."""
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001  # what the error's own attributes raise
        last = f"{path_of(type(error))}: {message_of(error)}\n"
    try:
        frames = "".join(traceback.format_tb(error.__traceback__))
        return f"Traceback (most recent call last):\n{frames}{last}"
    except BaseException:  # noqa: BLE001  # the same
        return last


def _message(error: BaseException) -> str:
    try:
        return str(error)[:_MAX_TEXT].encode(errors="backslashreplace").decode()[:_MAX_TEXT]
    except BaseException:  # noqa: BLE001  # what another program's __str__ raises ends nothing here
        return ""


def _shown(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  # a caller's own value may raise anything
        return f"<{type(value).__name__}>"


class FdbQueueError(Exception):
    """Something fdbqueue could not do.

    The first line of a class's docstring is the text of its message; the context given to
    the constructor follows it, and is kept in :attr:`context`.
    """

    #: A permanent name for programs, shown by the REST API and the commands.
    code: ClassVar[str] = "error"
    #: Whether the very same call may succeed a moment later.
    retryable: ClassVar[bool] = False

    def __init__(self, **context: Any) -> None:
        super().__init__(context)
        self.context = context

    def __str__(self) -> str:
        text = (type(self).__doc__ or "").partition("\n")[0].rstrip(".")
        details = ", ".join(f"{name}={_shown(value)}" for name, value in self.context.items())
        return f"{text}: {details}" if details else text

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.context), vars(self)  # outcome_known, and notes


def _with_install(error: FdbQueueError) -> str:
    """Return the message of an error whose context says what to install, as sentences."""
    if not error.context.keys() >= {"reason", "install"}:
        return FdbQueueError.__str__(error)
    text = (type(error).__doc__ or "").partition("\n")[0].rstrip(".")
    install = str(error.context["install"])
    return f"{text} ({error.context['reason']}). {install[:1].upper()}{install[1:]}"


def _rebuild(kind: type[FdbQueueError], context: dict[str, Any]) -> FdbQueueError:
    return kind(**context)


class ConfigurationError(FdbQueueError):
    """The FDBQUEUE setting is wrong."""

    code = "configuration_error"


class QueueNotFound(FdbQueueError):
    """No queue has this name.

    ``context["did_you_mean"]``, if it is there, is the name in the setting that is most like
    it. The REST API never shows that: who asks need not be allowed to know it.
    """

    code = "queue_not_found"

    def __str__(self) -> str:
        given = dict(self.context)
        hint = given.pop("did_you_mean", None)
        return (
            super().__str__()
            if hint is None
            else f"{QueueNotFound(**given)}; did you mean {hint!r}?"
        )


class InvalidInput(FdbQueueError):
    """An argument is not acceptable; nothing was written."""

    code = "invalid_input"


class InvalidPriority(InvalidInput):
    """The priority does not fit the queue's priority type; nothing was written."""

    code = "invalid_priority"


class InvalidValue(InvalidInput):
    """The value cannot be stored by the queue's codec; nothing was written."""

    code = "invalid_value"


class ValueTooLarge(InvalidInput):
    """The encoded value is over the limit; nothing was written. Store a file, and push its name."""

    code = "value_too_large"


class BatchTooLarge(InvalidInput):
    """They are too many, or too large, for one transaction; nothing was written."""

    code = "batch_too_large"


class KeyTooLarge(InvalidInput):
    """The key would be over the limit; nothing was written."""

    code = "key_too_large"


class ItemNotFound(FdbQueueError):
    """The queue holds no such item."""

    code = "item_not_found"


class ItemNotReady(ItemNotFound):
    """The item is not ready.

    ``context["state"]`` is its state, ``context["until"]`` when its lease or delay ends, None for a
    dead letter, and ``context["worker"]`` who holds it, None if unnamed or not leased.
    """

    code = "item_not_ready"


class QueueOwned(FdbQueueError):
    """Only the app that owns the queue ends its items (tasks: manage.py tasks_abort).

    Nothing was changed. Dead letters can be requeued and removed. ``context["owner"]`` is the app.
    """

    code = "queue_owned"


class LeaseLost(FdbQueueError):
    """The lease is not held any more: acknowledged, given up, or expired and requeued."""

    code = "lease_lost"


class IdempotencyKeyReused(FdbQueueError):
    """Another call was made under this idempotency key; nothing was changed."""

    code = "idempotency_key_reused"


class CorruptItem(FdbQueueError):
    """A stored item cannot be decoded; it was left where it is."""

    code = "corrupt_item"


class FormatMismatch(FdbQueueError):
    """The queue was written under other settings; nothing was changed.

    ``context["written"]`` says which settings its items are written under, and
    ``context["here"]`` which this process has; each names what differs. Correct the setting of
    this process; if it was changed on purpose, ``manage.py queue_doctor QUEUE --adopt-settings``.
    """

    code = "format_mismatch"


class LayoutMismatch(FormatMismatch):
    """The queue is of another version of fdbqueue: drain it with the version that wrote it.

    Its keys are laid out in another way, so no setting helps; nothing was changed.
    """

    code = "layout_mismatch"


class PushInterrupted(FdbQueueError):
    """A push of many items stopped part way; pushed says how many are in the queue.

    ``context["pushed"]`` of them are, from the first on. ``context["unknown"]``, if it
    is there, is how many after these may be or not: a commit's outcome is not known.
    """

    code = "push_interrupted"


class OutcomeUnknown(FdbQueueError):
    """The commit may or may not have taken effect."""

    code = "outcome_unknown"
    outcome_known: ClassVar[bool] = False


class EngineError(FdbQueueError):
    """The engine cannot be used."""

    code = "engine_error"


class EngineUnavailable(EngineError):
    """The engine does not answer.

    If ``context["path"]`` is there, the message says that the engine cannot use this file.
    """

    code = "engine_unavailable"
    retryable = True

    def __str__(self) -> str:
        text = super().__str__()
        if "path" not in self.context:
            return text
        return text.replace("The engine does not answer", "The engine cannot use its file", 1)


class DeadlineExceeded(EngineError):
    """The engine did not answer in time; nothing was changed."""

    code = "deadline_exceeded"
    retryable = True


class ClientLibraryMissing(EngineError):
    """Install FoundationDB's client library, libfdb_c: it cannot be loaded.

    ``context["install"]`` says which package has it for this system.
    """

    code = "client_library_missing"

    def __str__(self) -> str:
        return _with_install(self)


class ClientLibraryTooOld(EngineError):
    """Install a newer client library, or an older package foundationdb: the library is too old.

    ``context["binding"]`` is the version of the Python package ``foundationdb``. A library that is
    newer than the package serves it, an older one does not.
    """

    code = "client_library_too_old"

    def __str__(self) -> str:
        return _with_install(self)


class ApiVersionTooOld(EngineError):
    """The project has selected an API version of FoundationDB that is too old for fdbqueue."""

    code = "api_version_too_old"


class ForkedEngine(EngineError):
    """This process was forked from one that had opened the cluster; open it after the fork."""

    code = "forked_engine"
