"""Settings that change while the appliance runs: typed sections with their values in memory.

`appliance.configuration` stores them in the database and loads them. A read is one lookup in a
dict, so that event loops and the scheduler read settings where they need them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field

S = TypeVar("S", bound="Section")
MULTILINE: dict[str, Any] = {"multiline": True}
"""Mark of texts with several lines, as `json_schema_extra` of their field."""


class Section(BaseModel):
    """Settings of one subject. Subclasses are sections of `/api/v1/settings`.

    Fields have one of the types that `appliance.configuration.fields` knows, a default, and a
    docstring, which the API shows. A `SecretStr` is stored encrypted and never shown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
    section: ClassVar[str]
    """Name of the section in the API."""
    receivers: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Secrets, each with the settings that say who gets it. A change of these needs it again."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        SECTIONS[cls.section] = cls

    @classmethod
    def require_usable(cls, changes: Mapping[str, Any]) -> None:
        """Raise ValueError for changed values, by name, that this machine does not permit.

        Blocks for seconds at most: it may run on the writer thread.
        """


SECTIONS: dict[str, type[Section]] = {}
_current: dict[type[Section], Section] = {}


def current(section: type[S]) -> S:
    """Return the values in force. Does not read the database."""
    found = _current.get(section)
    return found if isinstance(found, section) else section()


def replace(sections: Mapping[type[Section], Section]) -> None:
    """Put values in force. Sections that are not named get their defaults."""
    global _current
    _current = dict(sections)


def from_environment(name: str, **limits: Any) -> Any:
    """Declare a field whose default is the environment variable BUSBAR_`name`."""
    read: Callable[[], Any] = lambda: getattr(settings.ENVIRONMENT, name)  # noqa: E731
    return Field(default_factory=read, **limits)
