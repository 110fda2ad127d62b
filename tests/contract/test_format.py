"""One queue, two settings: whoever has others than its items are written under is told so."""

from __future__ import annotations

import json
import os
import threading

import pytest

from fdbqueue.exceptions import FormatMismatch, InvalidInput, LayoutMismatch
from fdbqueue.service import FifoQueue, PriorityQueue, Push, SeveralQueues, ends_of, run
from fdbqueue.service.catalog import Catalog, QueueSpec
from fdbqueue.service.storage.format import LAYOUT
from tests.cases import cases
from tests.concurrency.clients import another
from tests.contract.recipes import PythonQueue

#: What one process says, and what another says of the same queue.
SETTINGS = {
    "priority_type": (
        (PriorityQueue, {"priority_type": "float"}),
        (PriorityQueue, {"priority_type": "int"}),
    ),
    "codec": ((FifoQueue, {"codec": "json"}), (FifoQueue, {"codec": "bytes"})),
    "kind": ((FifoQueue, {}), (PriorityQueue, {})),
    "order": ((FifoQueue, {"order": "commit"}), (FifoQueue, {"order": "count"})),
}


def opened(settings, database, subspace):
    """Return a queue with settings."""
    kind, options = settings
    return kind(database, subspace, name="q", **options)


def value(queue, text="a"):
    """Return a value that the queue takes."""
    return text.encode() if queue.codec.name == "bytes" else text


@pytest.fixture(params=sorted(SETTINGS))
def differs(request):
    """Each setting that decides how the bytes are read."""
    return request.param


@pytest.fixture
def right(differs, database, subspace):
    """A queue with two items, one of them leased."""
    queue = opened(SETTINGS[differs][0], database, subspace)
    queue.push(value(queue))
    queue.push(value(queue))
    return queue


@pytest.fixture
def wrong(differs, right, database, subspace):
    """The same queue, as another process with other settings has it."""
    return opened(SETTINGS[differs][1], another(database), subspace)


VERBS = {
    "push": lambda queue: queue.push(value(queue)),
    "push_many": lambda queue: (
        queue.push_many([] if queue.kind == "fifo" else [("a", 1)])
        or queue.push_many([value(queue)])
    ),
    "push_batch": lambda queue: queue.push_batch([Push(value(queue))]),
    "push_once": lambda queue: queue.push(value(queue), once="key"),
    "push_unique": lambda queue: queue.push(value(queue), unique="key"),
    "push_delayed": lambda queue: queue.push(value(queue), delay=5),
    "push_in": lambda queue: run(queue.database, lambda tr: queue.push(value(queue), tr=tr)),
    "pop": lambda queue: queue.pop(),
    "pop_max": lambda queue: queue.pop_max(),
    "pop_once": lambda queue: queue.pop_many(1, once="key"),
    "pop_waiting": lambda queue: queue.pop(wait=30),
    "pop_in": lambda queue: run(queue.database, lambda tr: queue.pop(tr=tr)),
    "lease": lambda queue: queue.lease(),
    "peek": lambda queue: queue.peek(),
    "page": lambda queue: queue.page(),
    "page of leased": lambda queue: queue.page(state="leased"),
    "move": lambda queue: queue.move_many(
        PriorityQueue(queue.database, queue.subspace["other"], codec=queue.codec.name),
        1,
        priority=1,
    ),
    "recount": lambda queue: queue.recount(),
    "redrive": lambda queue: queue.redrive(),
    "give_back": lambda queue: queue.give_back(),
    "run_now": lambda queue: queue.run_now(),
    "clear_state": lambda queue: queue.clear_state("ready"),
}


@cases("verb", VERBS)
def test_other_settings_are_refused(right, wrong, differs, verb, rows):
    """Whatever is called, the error names both settings, and nothing is changed."""
    if not right.counts().leased:
        right.lease()
    if verb == "redrive":
        right.bury(right.peek().id)
    if verb == "run_now":
        right.push(value(right), delay=60)
    before = rows()
    with pytest.raises(FormatMismatch) as caught:
        VERBS[verb](wrong)
    assert caught.value.outcome_known
    assert rows() == before
    context = caught.value.context
    assert context["queue"] == "q"
    for side, queue in (("written", right), ("here", wrong)):
        given = queue.kind if differs == "kind" else queue.options.shown(queue.kind)[differs]
        assert f"{differs} {given}" in context[side]


def test_counts_and_pauses_need_no_settings(right, wrong):
    """So that a page or a command can show a queue that it cannot read."""
    assert wrong.size() == wrong.counts().ready == 2
    assert wrong.history(1)[0].pushes == 2
    wrong.pause(reason="settings")
    assert right.paused().reason == "settings"
    (ends,) = run(wrong.database, lambda tr: ends_of(tr, [wrong]))
    assert ends.mismatch.context["queue"] == "q"
    assert ends.undecodable == ("min", "max")


def test_several_queues_are_refused_for_one(database, subspace):
    """Before anything is taken from the others."""
    prefix = subspace.key()
    mail = QueueSpec("mail", "fifo", subspace=(prefix, "mail"))
    here, there = (
        Catalog(base, (prefix,), [mail, QueueSpec("news", "fifo", codec=codec)])
        for base, codec in ((database, "json"), (another(database), "bytes"))
    )
    here.queue("news").push("a")
    several = there.several(["news", "mail"])
    assert isinstance(several, SeveralQueues)
    for take in (several.pop, several.lease):
        with pytest.raises(FormatMismatch):
            take()
    assert here.queue("news").pop().value == "a"


def test_a_push_reads_the_row_along_with_its_tail(observed, subspace):
    """The first finds none, and the second finds which there is; then it is one known key."""
    tail, look, known = ["get", "get_range"], "get_range", "get"
    queue = FifoQueue(observed, subspace)
    queue.push("a")
    for reads in ([*tail, look], [*tail, known], [*tail, known]):
        observed.reads.clear()
        queue.push("a")
        assert observed.reads == reads
    observed.reads.clear()
    FifoQueue(observed, subspace).push("b")  # another object of the queue, in the same process
    assert observed.reads == [*tail, known]


def test_first_pushes_at_once_conflict_only_if_their_settings_differ(engine, database, subspace):
    """Two of the same settings both commit; of two that differ one runs again, and fails."""
    for name, codecs, ends in (("same", ("json", "json"), 2), ("other", ("json", "bytes"), 1)):
        queues = [
            FifoQueue(base, subspace[name], codec=codec)
            for base, codec in zip((database, another(database)), codecs, strict=True)
        ]
        transactions = [queue.database.create_transaction() for queue in queues]
        for queue, transaction in zip(queues, transactions, strict=True):
            queue.push(value(queue), tr=transaction)
        codes = []
        for transaction in transactions:
            try:
                transaction.commit().wait()
            except engine.error as error:
                codes.append(error.code)
        assert codes == [1020] * (2 - ends)
        assert len(list(queues[0])) == ends


def test_a_first_push_is_no_conflict_for_those_that_have_seen_another(database, subspace):
    """Both wrote the same row, and only the second push that reads it depends on it."""
    slow, quick, behind = (FifoQueue(another(database), subspace) for _ in range(3))
    first = slow.database.create_transaction()
    slow.push("slow", tr=first)
    quick.push("quick")
    second = behind.database.create_transaction()
    behind.push("behind", tr=second)
    first.commit().wait()
    second.commit().wait()
    assert len(slow.pop_many(5)) == 3


def test_a_push_that_never_commits_adopts_nothing(database, subspace):
    """What a transaction has read of its own writing counts only once it is committed."""
    queue = FifoQueue(database, subspace)
    transaction = database.create_transaction()
    for text in "ab":
        queue.push(text, tr=transaction)
    assert queue.peek(tr=transaction).value == "a"
    assert queue.pop(tr=transaction).value == "a"
    transaction.cancel()
    other = FifoQueue(another(database), subspace, codec="bytes")
    other.push(b"first")
    with pytest.raises(FormatMismatch):
        queue.push("second")
    assert [item.value for item in other] == [b"first"]


def test_a_queue_of_the_recipe_is_adopted_by_the_first_push(database, subspace, rows):
    """Until then it has no settings, and pops read it as theirs say."""
    PythonQueue(database, subspace).enqueue(b"one")
    queue, other = (
        FifoQueue(base, subspace, codec="bytes") for base in (database, another(database))
    )
    assert queue.peek().value == b"one"
    with pytest.raises(FormatMismatch, match="a key of another kind"):
        PriorityQueue(another(database), subspace, codec="bytes").push(b"two")
    assert len(rows()) == 1
    queue.push(b"two")
    assert [item.value for item in other.pop_many(5)] == [b"one", b"two"]
    with pytest.raises(FormatMismatch):
        FifoQueue(database, subspace).pop()


@pytest.mark.parametrize("there", ["int", "float"])
def test_priorities_of_another_type_are_not_adopted(database, subspace, there):
    """A queue without a row, whose priorities the tuple layer would sort apart from ours."""
    here = {"int": "float", "float": "int"}[there]
    queue = PriorityQueue(database, subspace, priority_type=there)
    queue.push("a", 1)
    run(database, lambda tr: tr.clear(queue.parts.store.format.key))
    other = PriorityQueue(another(database), subspace, priority_type=here)
    with pytest.raises(FormatMismatch, match=f"priority_type {here}"):
        other.push("b", 2)
    PriorityQueue(another(database), subspace, priority_type=there).push("b", 2)
    assert [item.value for item in queue] == ["a", "b"]


def test_settings_stay_while_a_queue_is_cleared(right, wrong):
    """Nothing but adopt_settings() replaces them."""
    right.clear()
    with pytest.raises(FormatMismatch):
        wrong.push(value(wrong))
    right.push(value(right))
    assert right.size() == 1


def test_settings_are_replaced_where_that_is_asked_for(right, wrong, differs):
    """Then those who have the former ones are told so, whatever they do next."""
    right.clear()
    wrong.adopt_settings()
    wrong.push(value(wrong))
    assert wrong.peek().value == value(wrong)
    for call in (right.pop, right.lease, right.peek, lambda: right.push(value(right))):
        with pytest.raises(FormatMismatch):
            call()
    assert wrong.size() == 1


def test_a_row_that_cannot_be_read_is_another(right, database):
    """Of a later version, or written by hand: nothing is done that it may not mean."""
    key = right.parts.store.tables.format

    def write(tr, text):
        tr.clear_range(*right.parts.store.tables.formats)
        tr[key + text] = b""

    for text in (b"\xff\xfe", b"[]", b'{"layout":2}', b'{"kind":"fifo","shards":16}'):
        run(database, lambda tr, text=text: write(tr, text))
        with pytest.raises(FormatMismatch):
            right.pop()
    right.adopt_settings()
    assert right.pop() is not None


@pytest.mark.parametrize("layout", [1, LAYOUT + 1])
def test_a_queue_of_another_version_is_refused(right, database, layout):
    """In one sentence, which says what to do; its settings cannot be adopted."""

    def write(tr):
        facts = {**right.parts.store.format._facts, "layout": layout}
        tr.clear_range(*right.parts.store.tables.formats)
        tr[right.parts.store.tables.format + json.dumps(facts, separators=(",", ":")).encode()] = (
            b""
        )

    run(database, write)
    for call in (
        right.pop,
        right.peek,
        right.lease,
        right.adopt_settings,
        lambda: right.push(value(right)),
    ):
        with pytest.raises(LayoutMismatch, match="drain it with the version that wrote it"):
            call()


def test_threads_that_push_first_at_once(database, subspace):
    """Those of the first settings push all they have, the others nothing."""
    queues = [
        FifoQueue(another(database), subspace, codec=("json", "bytes")[number % 2])
        for number in range(8)
    ]
    start = threading.Barrier(8)
    refused = []

    def work(queue):
        start.wait(60)
        for _ in range(5):
            try:
                queue.push(value(queue))
            except FormatMismatch:
                refused.append(queue.codec.name)

    threads = [threading.Thread(target=work, args=[queue]) for queue in queues]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(refused) == 20
    assert len(set(refused)) == 1
    kept = next(queue for queue in queues if queue.codec.name != refused[0])
    assert len(kept.pop_many(100)) == 20


def test_a_forked_child_knows_what_its_parent_has_seen(engine, subspace):
    """It does not read the row again, and is refused what the parent is refused."""
    if engine.name == "foundationdb":
        pytest.skip("a cluster cannot be used in a forked child")
    queue = FifoQueue(engine.database, subspace)
    queue.push("a")
    queue.push("b")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            known = FifoQueue(engine.database, subspace).parts.store.format.known_key
            code = 0 if known and queue.pop().value == "a" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert queue.pop().value == "b"


def test_bad_input_comes_first(wrong):
    """An argument that no settings take is still that error."""
    with pytest.raises(InvalidInput):
        wrong.pop_many(0)
