"""Log lines in JSON, with the facts that records carry beside their constant texts."""

from __future__ import annotations

import json
import logging

#: Not facts: the attributes of every record, and Django's request, which may be a socket.
_LEFT_OUT = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "request"}


class FactsFormatter(logging.Formatter):
    """Format a record as one JSON object: time, level, logger, text, and its facts."""

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
