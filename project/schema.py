"""The REST API's schema, which is made once: that takes a quarter of a second."""

from __future__ import annotations

from typing import Any

from django.utils.translation import get_language
from drf_spectacular.generators import SchemaGenerator

#: By language.
_kept: dict[str | None, Any] = {}
#: A request may name any language.
_MAX_LANGUAGES = 10


class KeptSchemas(SchemaGenerator):
    """Keep the schema of all that there is, which is the same for each user."""

    def get_schema(self, request: Any = None, public: bool = False) -> Any:
        """Return the schema, which is not changed by who gets it."""
        language = get_language()
        if not public or self.api_version is not None:
            return super().get_schema(request, public)  # type: ignore[no-untyped-call]  # no types
        if language not in _kept:
            made = super().get_schema(request, public)  # type: ignore[no-untyped-call]
            if len(_kept) == _MAX_LANGUAGES:
                return made
            _kept[language] = made
        return _kept[language]
