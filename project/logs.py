"""Log lines that show what the records carry besides their constant texts."""

from __future__ import annotations

import json
import logging

#: Django's server gives its socket, or the whole request, as a fact.
_LEFT_OUT = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "request"}


class FactsFormatter(logging.Formatter):
    """Write a record as one JSON object: when, how bad, who, what, and its facts."""

    def format(self, record: logging.LogRecord) -> str:
        said = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "text": record.getMessage(),
            **{name: value for name, value in vars(record).items() if name not in _LEFT_OUT},
        }
        if record.exc_info:
            said["trace"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)
