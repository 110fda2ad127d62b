"""Writes docs/rest-reference.md from docs/openapi.yaml: ``make reference``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

from tests.docs.blocks import ROOT

TARGET = ROOT / "docs" / "rest-reference.md"
_SOURCE = ROOT / "docs" / "openapi.yaml"
_HEAD = """# REST reference

Every address, its parameters, bodies and answers, as [openapi.yaml](openapi.yaml) has them: this
page is written from it by `make reference`. What all of it means is in
[the REST API](rest-api.md). Addresses are below where the project has mounted them, as `/api/`.
"""
_JSON = "application/json"
#: Those of every operation, said once.
_EVERYWHERE = ("401", "403", "406", "429", "503")


class Reference:
    """The page of a schema.

    Args:
        schema: The OpenAPI document.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._paths = schema["paths"]
        self._shapes = schema["components"]["schemas"]

    def page(self) -> str:
        """Return it as Markdown."""
        operations = [
            line
            for path, verbs in sorted(self._paths.items())
            for verb, operation in verbs.items()
            for line in self._operation(path, verb, operation)
        ]
        shapes = [line for name in sorted(self._shapes) for line in self._shape(name)]
        lines = [_HEAD, *self._common(), "## Addresses", "", *operations, "## Shapes", "", *shapes]
        return "\n".join(lines).rstrip() + "\n"

    def _common(self) -> Iterator[str]:
        """Yield the statuses that every operation has."""
        responses = next(iter(next(iter(self._paths.values())).values()))["responses"]
        yield "Beside what is listed, every address may answer:"
        yield ""
        yield "| status | |"
        yield "|---|---|"
        for status in _EVERYWHERE:
            yield f"| {status} | {responses[status]['description']} |"
        yield ""

    def _operation(self, path: str, verb: str, operation: dict[str, Any]) -> Iterator[str]:
        yield f"### {verb.upper()} {path.removeprefix('/api/')}"
        yield ""
        yield operation["description"]
        yield ""
        if parameters := operation.get("parameters"):
            yield "| parameter | in | type | |"
            yield "|---|---|---|---|"
            for each in parameters:
                text = _cell(each.get("description", ""))
                where = f"{each['in']}, needed" if each.get("required") else each["in"]
                yield f"| `{each['name']}` | {where} | {self._type(each['schema'])} | {text} |"
            yield ""
        if body := operation.get("requestBody"):
            content = body["content"][_JSON]
            yield f"Body: {self._type(content['schema'])}."
            yield ""
            for example in content.get("examples", {}).values():
                yield from _example(f"{example['summary']}:", example["value"])
        yield from self._answers(operation["responses"])

    def _answers(self, responses: dict[str, Any]) -> Iterator[str]:
        for status, response in responses.items():
            if status.startswith("2"):
                content = response["content"][_JSON]
                headers = "".join(f", with `{name}`" for name in response.get("headers", {}))
                yield f"Answer: {status} {self._type(content['schema'])}{headers}."
                yield ""
                for example in content.get("examples", {}).values():
                    yield from _example("", example["value"])
        own = [status for status in responses if status[0] != "2" and status not in _EVERYWHERE]
        if own:
            yield "| status | |"
            yield "|---|---|"
            for status in own:
                yield f"| {status} | {_cell(responses[status]['description'])} |"
            yield ""

    def _shape(self, name: str) -> Iterator[str]:
        shape = self._shapes[name]
        yield f"### {name}"
        yield ""
        if "enum" in shape or "oneOf" in shape:
            yield f"{self._type(shape)}."
            yield ""
            return
        yield _cell(shape.get("description", ""))
        yield ""
        if properties := shape.get("properties"):
            needed = shape.get("required", [])
            yield "| key | type | there | |"
            yield "|---|---|---|---|"
            for key, each in properties.items():
                there = "always" if key in needed else "may be left out"
                text = _cell(each.get("description", ""))
                yield f"| `{key}` | {self._type(each)} | {there} | {text} |"
            yield ""

    def _type(self, schema: dict[str, Any]) -> str:
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        if "enum" in schema:
            return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
        for several in ("oneOf", "anyOf", "allOf"):
            if several in schema:
                text = " or ".join(self._type(one) for one in schema[several])
                return text + self._null(schema)
        if schema.get("type") == "array":
            return f"list of {self._type(schema['items'])}{_bounds(schema)}"
        text = schema.get("format") or schema.get("type") or "any JSON"
        default = f", {json.dumps(schema['default'])} unless given" if "default" in schema else ""
        return f"{text}{_bounds(schema)}{default}{self._null(schema)}"

    @staticmethod
    def _null(schema: dict[str, Any]) -> str:
        return ", or null" if schema.get("nullable") and "type" in schema else ""


def _bounds(schema: dict[str, Any]) -> str:
    """Say how large a number, or how long a text or list, may be."""
    for least, most, what in (
        ("minimum", "maximum", ""),
        ("minLength", "maxLength", " characters"),
        ("minItems", "maxItems", ""),
    ):
        low, high = schema.get(least), schema.get(most)
        if low is not None and high is not None:
            return f", {low:,} to {high:,}{what}"
        if high is not None:
            return f", up to {high:,}{what}"
        if low is not None:
            return f", {low:,} or more{what}"
    return ""


def _example(text: str, value: Any) -> Iterator[str]:
    if text:
        yield text
        yield ""
    yield "```json"
    yield json.dumps(value, indent=2, ensure_ascii=False)
    yield "```"
    yield ""


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def written() -> str:
    """Return the page as it should be."""
    return Reference(yaml.safe_load(_SOURCE.read_text(encoding="utf-8"))).page()


if __name__ == "__main__":
    TARGET.write_text(written(), encoding="utf-8")
