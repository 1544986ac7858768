"""Request fields whose rules the OpenAPI document states completely."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.core.validators import RegexValidator
from drf_spectacular.utils import extend_schema_field
from rest_framework.serializers import (
    BooleanField,
    CharField,
    ChoiceField,
    DateTimeField,
    DictField,
    FloatField,
    IntegerField,
    ValidationError,
)

CONTROL = r"\x00-\x1f\x7f-\x9f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
"""Characters that control terminals, or that change the direction of the text around them."""
NAME = rf"^[^\s{CONTROL}]+( [^\s{CONTROL}]+)*(?!\n)$"
LINE = rf"^[^{CONTROL}]*(?!\n)$"
MAX_LABELS, MAX_LABEL_KEY, MAX_LABEL = 64, 60, 200


class TextField(CharField):
    """A text. Other types are refused, which CharField would convert: 0 to "0"."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


class NamedChoiceField(ChoiceField):
    """A choice whose refusal names the choices."""

    def __init__(self, choices: Sequence[str], **kwargs: Any) -> None:
        super().__init__(choices, **kwargs)
        self.error_messages["invalid_choice"] = f'"{{input}}" is none of {", ".join(choices)}.'


class NameField(TextField):
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


class LineField(TextField):
    """A line of text given by users, without control characters."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.validators.append(
            RegexValidator(LINE, message="A line of text has no control characters.")
        )


@extend_schema_field(
    {
        "type": "object",
        "maxProperties": MAX_LABELS,
        "additionalProperties": {"type": "string", "pattern": LINE, "maxLength": MAX_LABEL},
    }
)
class LabelsField(DictField):
    """Labels given by users. They are in memory and in each page of a list, so they are few."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(child=LineField(max_length=MAX_LABEL, allow_blank=True), **kwargs)

    def to_internal_value(self, data: Any) -> dict[str, str]:
        if isinstance(data, dict) and len(data) > MAX_LABELS:
            raise ValidationError(f"There are {len(data)} labels, at most {MAX_LABELS}.")
        labels: dict[str, str] = super().to_internal_value(data)
        key_field = NameField(max_length=MAX_LABEL_KEY)
        for key in labels:
            key_field.run_validation(key)
            if "=" in key:  # KEY=VALUE in forms, commands and selectors would mean another label
                raise ValidationError(f"The label key {key} has a =, which ends a key.")
        return labels


class ZonedTimeField(DateTimeField):
    """A time with its zone. A time without one would mean different moments to different people."""

    def enforce_timezone(self, value: datetime) -> datetime:
        if value.tzinfo is None:
            raise ValidationError(
                "The time needs a zone, such as Z or +01:00.", code="time_without_zone"
            )
        return super().enforce_timezone(value)


class StrictBooleanField(BooleanField):
    """A boolean that accepts only true and false, neither 0 nor "yes"."""

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=data)
        return data


class WholeNumberField(IntegerField):
    """A whole number, not a text with one."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return super().to_internal_value(data)


class NumberField(FloatField):
    """A number, neither a text nor NaN, which no limit refuses."""

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float) or math.isnan(data):
            self.fail("invalid")
        return super().to_internal_value(data)
