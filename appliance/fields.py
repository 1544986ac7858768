"""Fields of requests whose rule the OpenAPI file can say whole."""

from __future__ import annotations

from typing import Any

from django.core.validators import RegexValidator
from rest_framework.serializers import BooleanField, CharField

NAME = r"^[^\s\x00-\x1f\x7f-\x9f]+( [^\s\x00-\x1f\x7f-\x9f]+)*(?!\n)$"


class NameField(CharField):
    """A name that people give or ask for: shown in terminals, so without control characters."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trim_whitespace=False, **kwargs)
        self.validators.append(
            RegexValidator(
                NAME,
                message="A name is of words with one space between them and has no control characters.",
            )
        )


class StrictBooleanField(BooleanField):
    """true or false, as the OpenAPI file says: neither 0 nor "yes"."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data
