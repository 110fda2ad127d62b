"""The mutants of a module: each is one piece of its text, and what takes its place.

What changes no behaviour is left out: annotations, docstrings, assertions (``strict`` of ``zip``,
too), texts of errors and logs, ``__all__``, ``__repr__``, code for type checkers. Small numbers
alone are changed, because a larger one is a size that somebody has chosen. An attribute that
``__init__`` does not set, and a name that is not bound, are errors of any caller: they are not
made.
"""

from __future__ import annotations

import ast
import copy
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

_Function = (ast.FunctionDef, ast.AsyncFunctionDef)
_BOUNDS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_OPPOSITES = {ast.Eq: ast.NotEq, ast.Is: ast.IsNot, ast.In: ast.NotIn, ast.Lt: ast.GtE}
_OPPOSITES |= {ast.Gt: ast.LtE}
_OPPOSITES |= {value: key for key, value in _OPPOSITES.items()}
_LARGEST = 2
_TEXTS = {"__all__", "__slots__"}
#: Calls whose arguments may be in any order, or must be in theirs for any caller.
_ASSERTS = "strict"  # of zip, which raises if the package is wrong
_SYMMETRIC = {"min", "max", "isinstance"}
_READS = {"get", "get_range", "get_key"}


class Mutant(NamedTuple):
    """One change of a module.

    Attributes:
        operator: What kind of change it is.
        begin, end: The bytes of the source that are replaced.
        text: What takes their place.
        first, last: The lines of the statement, without those of what is in its blocks.
    """

    operator: str
    begin: int
    end: int
    text: str
    first: int
    last: int

    def applied(self, source: bytes) -> bytes:
        """Return the module with the change."""
        return source[: self.begin] + self.text.encode() + source[self.end :]


def mutants(source: bytes) -> list[Mutant]:
    """Return all mutants of a module; the code of some is no other than the module's."""
    return [*dict.fromkeys(_Mutator(source).of_block(ast.parse(source), "body"))]


def is_change(source: bytes, mutant: Mutant) -> bool:
    """Tell whether a mutant is code, and other code than the module's."""
    try:
        changed = compile(mutant.applied(source), "", "exec")
    except SyntaxError:
        return False
    return _facts(changed) != _facts(compile(source, "", "exec"))


def _facts(code: Any) -> tuple[Any, ...]:
    """Return what a code does, without its lines."""
    inner = [_facts(one) if hasattr(one, "co_code") else repr(one) for one in code.co_consts]
    return code.co_code, inner, code.co_names, code.co_varnames, code.co_exceptiontable


class _Mutator:
    """Makes the mutants of one module.

    Args:
        source: Its text.
    """

    def __init__(self, source: bytes) -> None:
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = (0, 0)
        #: Whether this is code of a module or a class, where tables are; the function's name.
        self._function = ""

    def _replace(self, operator: str, node: Any, new: Any) -> Mutant:
        begin = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        text = new if isinstance(new, str) else ast.unparse(new)
        return Mutant(operator, begin, end, text, *self._lines)

    # Statements

    def of_block(self, node: Any, *blocks: str) -> Iterator[Mutant]:
        """Yield the mutants of the statements in blocks."""
        for block in blocks:
            for one in getattr(node, block, ()):
                inner = [each[0].lineno for each in _blocks_of(one) if each]
                last = min([*inner, one.end_lineno + 1]) - 1
                self._lines = one.lineno, max(last, one.lineno)
                yield from self._of_statement(one)

    def _of_statement(self, node: Any) -> Iterator[Mutant]:
        dropped = self._dropped(node)
        if dropped:
            yield self._replace(dropped, node, "pass")
        if isinstance(node, (*_Function, ast.ClassDef)):
            yield from self._of_definition(node)
            return
        is_text = isinstance(node, (ast.Assert, ast.Raise, ast.Import, ast.ImportFrom))
        if is_text or _is_for_types(node) or _is_text(node):
            return
        if isinstance(node, ast.Return):
            yield from self._shifted(node.value, "constant argument")
        if isinstance(node, ast.If) and not _binds(node.test):
            yield self._replace("dropped if", node.test, "True")
            yield self._replace("dropped if", node.test, "False")
        for name, value in ast.iter_fields(node):
            if name not in ("body", "orelse", "finalbody", "handlers", "annotation", "cases"):
                for one in value if isinstance(value, list) else [value]:
                    yield from self._of(one, is_condition=name == "test")
        yield from self.of_block(node, "body", "orelse", "finalbody")
        for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            yield from self.of_block(handler, "body")

    def _of_definition(self, node: Any) -> Iterator[Mutant]:
        before = self._function
        if isinstance(node, ast.ClassDef):
            yield from self._of_rows([one for one in node.body if isinstance(one, ast.Assign)])
        elif node.name == "__repr__" or any(
            "overload" in ast.dump(one) for one in node.decorator_list
        ):
            return
        else:
            for default in (*node.args.defaults, *node.args.kw_defaults):
                yield from self._shifted(default, "constant argument")
            self._function = node.name
        yield from self.of_block(node, "body")
        self._function = before

    def _dropped(self, node: Any) -> str:
        """Return by which operator a statement is dropped, if it has an effect of its own."""
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Await):
            call = call.value
        if isinstance(call, ast.Call):
            if "_conflict_" in getattr(call.func, "attr", ""):
                return "dropped conflict range"
            return "" if _is_text(node) else "dropped statement"
        targets = node.targets if isinstance(node, ast.Assign) else []
        is_stored = self._function not in ("", "__init__") and any(
            isinstance(one, (ast.Attribute, ast.Subscript)) for one in targets
        )
        others = (ast.AugAssign, ast.Delete, ast.Continue, ast.Break, ast.Raise)
        return "dropped statement" if is_stored or isinstance(node, others) else ""

    # Expressions

    def _of(self, node: Any, *, is_condition: bool = False) -> Iterator[Mutant]:
        """Yield the mutants of an expression and of its parts."""
        if not isinstance(node, ast.AST) or isinstance(node, (ast.JoinedStr, ast.expr_context)):
            return
        if is_condition:
            is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
            if not _binds(node):
                positive = node.operand if is_not else ast.UnaryOp(ast.Not(), node)
                yield self._replace("negated condition", node, f"({ast.unparse(positive)})")
        kind = type(node).__name__.lower()
        yield from getattr(self, f"_of_{kind}", lambda *_: ())(node, is_condition)
        for name, value in ast.iter_fields(node):
            for one in value if isinstance(value, list) else [value]:
                yield from self._of(one, is_condition=name in ("test", "ifs"))

    def _of_compare(self, node: ast.Compare, is_condition: bool) -> Iterator[Mutant]:
        for at, op in enumerate(node.ops):
            for operator, others in {"boundary": _BOUNDS, "comparison": _OPPOSITES}.items():
                if type(op) in others and not (is_condition and operator == "comparison"):
                    new = copy.deepcopy(node)
                    new.ops[at] = others[type(op)]()
                    yield self._replace(operator, node, f"({ast.unparse(new)})")
        for side in (node.left, *node.comparators):
            yield from self._shifted(side, "boundary")

    def _of_boolop(self, node: ast.BoolOp, _: bool) -> Iterator[Mutant]:
        other = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
        if not _binds(node):
            new = f"({ast.unparse(ast.BoolOp(other, node.values))})"
            yield self._replace("negated condition", node, new)

    def _of_unaryop(self, node: ast.UnaryOp, is_condition: bool) -> Iterator[Mutant]:
        if isinstance(node.op, ast.Not) and not is_condition:
            yield self._replace("negated condition", node, f"bool({ast.unparse(node.operand)})")

    def _of_ifexp(self, node: ast.IfExp, _: bool) -> Iterator[Mutant]:
        if not _binds(node.test):
            yield self._replace("dropped if", node, f"({ast.unparse(node.body)})")
            yield self._replace("dropped if", node, f"({ast.unparse(node.orelse)})")

    def _of_comprehension(self, node: ast.comprehension, _: bool) -> Iterator[Mutant]:
        for one in node.ifs:
            if not _binds(one):
                yield self._replace("dropped if", one, "True")

    def _of_binop(self, node: ast.BinOp, _: bool) -> Iterator[Mutant]:
        for side in (node.left, node.right):
            yield from self._shifted(side, "boundary")

    def _of_slice(self, node: ast.Slice, _: bool) -> Iterator[Mutant]:
        for side in (node.lower, node.upper):
            yield from self._shifted(side, "boundary")

    def _of_subscript(self, node: ast.Subscript, _: bool) -> Iterator[Mutant]:
        yield from self._shifted(node.slice, "boundary")
        if isinstance(node.ctx, ast.Load) and _is_transaction(node.value):
            new = ast.Subscript(_snapshot(node.value), node.slice, ast.Load())
            yield self._replace("dropped conflict range", node, new)

    def _of_call(self, node: ast.Call, _: bool) -> Iterator[Mutant]:
        function, args = node.func, node.args
        if getattr(function, "attr", "") in _READS and _is_transaction(function.value):  # type: ignore[attr-defined]
            yield self._replace("dropped conflict range", function.value, _snapshot(function.value))  # type: ignore[attr-defined]
        is_symmetric = getattr(function, "id", "") in _SYMMETRIC
        for at in range(0 if is_symmetric else len(args) - 1):
            pair = args[at : at + 2]
            if not any(isinstance(one, ast.Starred) for one in pair):
                new = copy.copy(node)
                new.args = [*args[:at], *reversed(pair), *args[at + 2 :]]
                yield self._replace("swapped argument", node, new)
        for at, keyword in enumerate(node.keywords):
            if keyword.arg not in (None, _ASSERTS):
                new = copy.copy(node)
                new.keywords = node.keywords[:at] + node.keywords[at + 1 :]
                yield self._replace("constant argument", node, new)
        for one in (*args, *(one.value for one in node.keywords if one.arg != _ASSERTS)):
            yield from self._shifted(one, "constant argument")

    def _of_dict(self, node: ast.Dict, _: bool) -> Iterator[Mutant]:
        for at in range(len(node.keys) - 1):
            if None not in node.keys[at : at + 2]:
                new = copy.copy(node)
                new.values = [*node.values]
                new.values[at : at + 2] = reversed(node.values[at : at + 2])
                yield self._replace("wrong row", node, new)

    def _of_tuple(self, node: Any, _: bool) -> Iterator[Mutant]:
        """Yield the mutants of a table of a module; elsewhere a tuple is no table."""
        rows = [*node.elts]
        if self._function or not all(isinstance(one, ast.Tuple) for one in rows):
            return
        for at in range(len(rows) - 1):
            new = copy.copy(node)
            new.elts = [*rows[:at], *reversed(rows[at : at + 2]), *rows[at + 2 :]]
            yield self._replace("wrong row", node, f"({ast.unparse(new)})")

    def _of_rows(self, rows: list[ast.Assign]) -> Iterator[Mutant]:
        """Yield a class with the value of a constant in the place of the one before it."""
        for one, other in itertools.pairwise(rows):
            if isinstance(one.value, ast.Constant) and isinstance(other.value, ast.Constant):
                self._lines = one.lineno, one.end_lineno or one.lineno
                yield self._replace("wrong row", one.value, other.value)

    def _shifted(self, node: Any, operator: str) -> Iterator[Mutant]:
        """Yield another constant in the place of one: the other truth value, the next number."""
        value = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
        if isinstance(value, bool):
            yield self._replace("constant argument", node, repr(not value))
        elif isinstance(value, int) and value <= _LARGEST:
            yield self._replace(operator, node, repr(value + 1))


def _blocks_of(node: Any) -> list[Any]:
    parts = [getattr(node, name, None) for name in ("body", "orelse", "finalbody", "handlers")]
    return [one for one in parts if isinstance(one, list)]


def _is_for_types(node: Any) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _is_text(node: Any) -> bool:
    """Tell whether a statement is a docstring, a log, or a list of names."""
    if isinstance(node, ast.Expr):
        function = getattr(node.value, "func", None)
        owner = getattr(getattr(function, "value", None), "id", "")
        return owner in ("logger", "logging", "warnings") or isinstance(node.value, ast.Constant)
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(getattr(one, "id", "") in _TEXTS for one in targets)


def _binds(node: Any) -> bool:
    """Tell whether a condition binds a name, which what follows needs."""
    return any(isinstance(one, ast.NamedExpr) for one in ast.walk(node))


def _is_transaction(node: Any) -> bool:
    name = getattr(node, "id", "") or getattr(node, "attr", "")
    return name in ("tr", "_tr", "transaction")


def _snapshot(node: ast.expr) -> ast.expr:
    return ast.Attribute(node, "snapshot", ast.Load())
