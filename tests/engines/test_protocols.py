"""The types that the engines share: each engine's objects have all that they name."""

from __future__ import annotations

import ast
import inspect
from importlib.util import find_spec
from pathlib import Path

import pytest
from fdb import fdboptions

from fdbqueue.deadlines import TimedDatabase
from fdbqueue.engines import protocols
from tests.cases import cases
from tests.faulty_database import FaultyDatabase

_CLASSES_OF_THE_BINDING = {
    protocols.Database: "Database",
    protocols.FutureBytes: "FutureString",
    protocols.KeySelector: "KeySelector",
    protocols.KeyValue: "KeyValue",
    protocols.RangeResult: "FDBRange",
    protocols.SnapshotTransaction: "TransactionRead",
    protocols.Transaction: "Transaction",
    protocols.Value: "Value",
}


def members(protocol):
    """Return the methods and attributes of a protocol, by name."""
    found = {}
    for kind in protocol.__mro__:
        if kind.__module__ == protocols.__name__:
            found = {**vars(kind), **found}
    special = {"__bytes__", "__delitem__", "__eq__", "__getitem__", "__iter__", "__len__"}
    special |= {"__setitem__"}
    return {
        name: member
        for name, member in found.items()
        if name in special or not name.startswith("_")
    }


def assert_satisfies(thing, protocol):
    """Fail unless an object has each member, and its methods take what the member's do."""
    for name, member in members(protocol).items():
        assert hasattr(thing, name), name
        if inspect.isfunction(member) and not name.startswith("__"):
            wanted = list(inspect.signature(member).parameters.values())[1:]
            given = inspect.signature(getattr(thing, name)).parameters.values()
            for one, other in zip(wanted, given, strict=False):
                if one.kind is one.POSITIONAL_OR_KEYWORD and other.kind is not other.VAR_POSITIONAL:
                    assert one.name == other.name, name
                    assert (one.default is one.empty) == (other.default is other.empty), name
            assert len(wanted) <= len(given), name


def wrapped_by_a_test(database):
    """Return a database that a test can make fail."""
    return FaultyDatabase(database)


def limited_in_time(database):
    """Return a database whose transactions time out."""
    return TimedDatabase(FaultyDatabase(database), lambda: 5.0)


@pytest.mark.parametrize("around", [lambda database: database, wrapped_by_a_test, limited_in_time])
def test_an_engines_objects_have_what_the_types_name(engine, subspace, around):
    """A database, its transactions and all that these return, and databases around another."""
    database = around(engine.database)
    assert_satisfies(database, protocols.Database)
    tr = database.create_transaction()
    key, prefix = subspace.pack((1,)), subspace.key()
    for reads in (tr, tr.snapshot):
        assert_satisfies(reads, protocols.SnapshotTransaction)
        assert_satisfies(reads[key], protocols.Value)
        assert_satisfies(reads.get(key), protocols.Value)
        selector = engine.key_selector.first_greater_than(key)
        assert_satisfies(selector, protocols.KeySelector)
        assert_satisfies(reads.get_key(selector), protocols.FutureBytes)
        assert_satisfies(reads.get_range(selector, prefix + b"\xff"), protocols.RangeResult)
        assert_satisfies(reads.get_read_version(), protocols.Future)
    assert_satisfies(tr, protocols.Transaction)
    assert_satisfies(tr.options, protocols.TransactionOptions)
    tr[key] = b"v"
    assert_satisfies(tr[prefix : prefix + b"\xff"].to_list()[0], protocols.KeyValue)
    stamp = tr.get_versionstamp()
    watch = tr.watch(key)
    assert_satisfies(watch, protocols.Future)
    commit = tr.commit()
    assert_satisfies(commit, protocols.Future)
    commit.wait()
    watch.cancel()
    assert len(bytes(stamp.wait())) == 10
    assert_satisfies(stamp, protocols.FutureBytes)
    assert_satisfies(tr.on_error(1020), protocols.Future)


@cases("protocol", _CLASSES_OF_THE_BINDING)
def test_the_bindings_classes_have_what_the_types_name(protocol):
    """Its source tells, also where its library is missing."""
    methods = methods_of_the_binding()[_CLASSES_OF_THE_BINDING[protocol]]
    for name, member in members(protocol).items():
        assert name in methods
        if inspect.isfunction(member) and not name.startswith("__"):
            parameters = inspect.signature(member).parameters.values()
            named = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
            assert named == methods[name][: len(named)]


def methods_of_the_binding():
    """Return the parameters of each method of the binding, by class and name."""
    source = Path(find_spec("fdb").submodule_search_locations[0], "impl.py").read_text("utf-8")
    classes = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            methods = classes[node.name] = {}
            for base in node.bases:
                methods.update(classes.get(getattr(base, "id", ""), {}))
            for part in ast.walk(node):
                if isinstance(part, ast.FunctionDef):
                    methods[part.name] = [argument.arg for argument in part.args.args]
                if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                    methods.setdefault(part.attr, [])
    # the binding adds these when it is imported
    operations = (name.lower() for name in fdboptions.MutationType)
    classes["Transaction"].update((name, ["self"]) for name in operations)
    for name in ("FutureString", "Value"):
        classes[name]["__len__"] = ["self"]
    return classes
