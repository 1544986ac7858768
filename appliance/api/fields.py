"""Request fields whose rules the OpenAPI document states completely."""

from __future__ import annotations

from typing import Any

from django.core.validators import RegexValidator
from rest_framework.serializers import BooleanField, CharField

NAME = r"^[^\s\x00-\x1f\x7f-\x9f]+( [^\s\x00-\x1f\x7f-\x9f]+)*(?!\n)$"


class NameField(CharField):
    """A name given by users. Terminals show it, so it has no control characters."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(trim_whitespace=False, **kwargs)
        self.validators.append(
            RegexValidator(
                NAME,
                message="A name consists of words separated by single spaces, "
                "without control characters.",
            )
        )


class StrictBooleanField(BooleanField):
    """A boolean that accepts only true and false, neither 0 nor "yes"."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data
