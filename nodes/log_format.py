"""Format of log lines of all Python processes: text, or JSON with BUSBAR_LOG_FORMAT=json.

One event is one line. Text from tenants and clients may contain control characters; they are
escaped: no text makes a second line. C++ programs have the same formats (remoting/control/log.h).
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import datetime, timezone

VARIABLE = "BUSBAR_LOG_FORMAT"
FORMATS = ("text", "json")


def escape(text: str) -> str:
    """Return the text on one line without control characters."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def time_of(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, timezone.utc)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class TextFormatter(logging.Formatter):
    """TIME LEVEL LOGGER: message. Lines of a traceback follow, indented."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{time_of(record)} {record.levelname} {record.name}: {escape(record.getMessage())}"
        if not record.exc_info:
            return line
        trace = self.formatException(record.exc_info).splitlines()
        return "\n    ".join([line, *map(escape, trace)])


class JsonFormatter(logging.Formatter):
    """An object with time, level, logger, message and, after an exception, its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": time_of(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def formatter() -> logging.Formatter:
    return JsonFormatter() if os.environ.get(VARIABLE) == "json" else TextFormatter()


def log_to_stderr() -> None:
    """Configure the logging of a process."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def choose(log_format: str | None) -> None:
    """Set the format of this process and of those that it starts, if an option names one."""
    if log_format:
        os.environ[VARIABLE] = log_format
