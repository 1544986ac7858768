"""Prepared statements: SQL that Django compiles once.

Django takes ten times as long to compile a query as SQLite takes to run it. The queries of
allocations, tickets and reports are therefore compiled at their first use, with placeholder values.
Later calls only bind their values.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar, cast

import orjson
from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Field, Model, QuerySet, sql
from django.db.models.expressions import Col

M = TypeVar("M", bound=Model)
Values = dict[str, Any]
Shape = tuple[object, ...]


class Parameter(NamedTuple):
    """Name of a value, and its position if the value is an element of a list."""

    name: str
    position: int | None


JSON_SAFE_FIELDS = (
    models.UUIDField,
    models.CharField,
    models.TextField,
    models.IntegerField,
    models.BooleanField,
    models.DateTimeField,
    models.JSONField,
)
"""Fields that SQLite's JSON preserves exactly. Floats lose their last digits."""


def aggregate_rows(text: str, columns: int) -> str:
    """Return SQL that selects all rows as one JSON text.

    Python releases the GIL for every row that it fetches and then waits for it again.
    """
    names = ", ".join(f"c{i}" for i in range(columns))
    return (
        f"WITH found({names}) AS ({text}) "  # noqa: S608 - compiled by Django, generated names
        f"SELECT json_group_array(json_array({names})) FROM found"
    )


class Statement:
    """SQL with a constant or a `Parameter` for each of its placeholders."""

    aggregated = False

    def __init__(
        self, compiled: tuple[str, Sequence[object]], placeholders: dict[object, Parameter]
    ) -> None:
        self.text, parameters = compiled
        self.raw = self.text.replace("%s", "?").replace("%%", "%")
        """SQL in the parameter style of the sqlite3 module."""
        self.slots = [placeholders.get(comparable(p), p) for p in parameters]
        if missing := set(placeholders.values()) - {
            s for s in self.slots if isinstance(s, Parameter)
        }:
            raise TypeError(
                f"{', '.join(p.name for p in missing)}: value became part of the SQL: {self.text}"
            )

    def aggregate(self, columns: Sequence[Any]) -> None:
        """Fetch all rows as one JSON text on SQLite, if the fields permit it."""
        if all(isinstance(c.output_field, JSON_SAFE_FIELDS) for c in columns):
            self.raw, self.aggregated = aggregate_rows(self.raw, len(columns)), True

    def bind(self, values: Values, connection: BaseDatabaseWrapper) -> list[Any]:
        bound = [
            (values[s.name] if s.position is None else values[s.name][s.position])
            if isinstance(s, Parameter)
            else s
            for s in self.slots
        ]
        return [v if type(v) in NATIVE_TYPES else database_value(v, connection) for v in bound]


NATIVE_TYPES = frozenset({str, int, bool, type(None)})


@contextmanager
def execute(
    connection: BaseDatabaseWrapper, text: str, raw: str, values: list[Any]
) -> Iterator[Any]:
    """Execute a statement and yield its cursor.

    On SQLite this bypasses Django's cursor, which rewrites the statement at each call, unless
    queries are logged.
    """
    if bypasses_django(connection):
        if connection.connection is None:
            connection.ensure_connection()
        with connection.wrap_database_errors:
            yield connection.connection.execute(raw, values)
        return
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        yield cursor


def bypasses_django(connection: BaseDatabaseWrapper) -> bool:
    return connection.vendor == "sqlite" and not connection.queries_logged


def thread_connection() -> BaseDatabaseWrapper:
    """Return this thread's connection. Call once per statement: it costs as much as a small one."""
    return connections[DEFAULT_DB_ALIAS]


def database_value(value: object, connection: BaseDatabaseWrapper) -> object:
    """Return the value in the representation of the database."""
    if isinstance(value, uuid.UUID):
        return value if connection.features.has_native_uuid_field else value.hex
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return value


def comparable(parameter: object) -> object:
    return (
        database_value(parameter, thread_connection())
        if isinstance(parameter, uuid.UUID | datetime)
        else parameter
    )


def placeholder_for(value: object) -> object:
    """Return a random value of the same type that differs from all constants of a query."""
    if isinstance(value, uuid.UUID):
        return uuid.uuid4()
    if isinstance(value, datetime):
        offset = timedelta(microseconds=random.randrange(1 << 40))  # noqa: S311 - no secret
        return datetime(2999, 1, 1, tzinfo=UTC) + offset
    if isinstance(value, int) and not isinstance(value, bool):
        return random.randrange(1 << 14, 1 << 15)  # noqa: S311 - fits the smallest column type
    if isinstance(value, str):
        return uuid.uuid4().hex
    raise TypeError(f"no placeholder for {value!r}")


def with_placeholders(values: Values) -> tuple[Values, dict[object, Parameter]]:
    placeholders: dict[object, Parameter] = {}

    def replace(value: object, parameter: Parameter) -> object:
        while comparable(placeholder := placeholder_for(value)) in placeholders:
            pass
        placeholders[comparable(placeholder)] = parameter
        return placeholder

    chosen = {
        name: value
        if isinstance(value, bool)
        else [replace(v, Parameter(name, i)) for i, v in enumerate(value)]
        if isinstance(value, list | tuple)
        else replace(value, Parameter(name, None))
        for name, value in values.items()
    }
    return chosen, placeholders


def shape_of(values: Values, connection: BaseDatabaseWrapper) -> Shape:
    return (
        connection.vendor,
        *(
            (name, v if isinstance(v, bool) else len(v) if isinstance(v, list | tuple) else None)
            for name, v in values.items()
        ),
    )


Conversion = Callable[[Any], Any]


@lru_cache(1 << 16)
def cached_uuid(text: str) -> uuid.UUID:
    """Return the UUID. The cache is faster than parsing, as the same ids recur."""
    return uuid.UUID(text)


def parse_timestamp(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


SQLITE_CONVERSIONS: dict[type[Field[Any, Any]], Conversion] = {
    models.UUIDField: cached_uuid,
    models.DateTimeField: parse_timestamp,
    models.JSONField: orjson.loads,
}
"""Replacements of Django's converters for text, ten times as fast."""


def make_conversion(functions: Sequence[Callable[..., Any]], expression: Any) -> Conversion:
    """Return a function that converts a database value to the value of the model."""
    vendor = thread_connection().vendor
    fast = (
        SQLITE_CONVERSIONS.get(type(expression.output_field))
        if vendor == "sqlite" and isinstance(expression, Col)
        else None
    )

    def convert(value: Any) -> Any:
        if fast and isinstance(value, str):
            return fast(value)
        if value is None and fast:
            return None
        connection = thread_connection()
        for function in functions:
            value = function(value, expression, connection)
        return value

    return convert


class Select(Generic[M]):
    """Prepared SELECT of the query set that `build` returns.

    Arguments are ids, integers, strings, datetimes or non-empty lists of them, and booleans. Each
    value of a boolean has its own statement. `rows`, `objects` and `first` read the database.
    """

    def __init__(self, build: Callable[..., QuerySet[M, Any]]) -> None:
        self.build = build
        self._compiled: dict[Shape, tuple[Statement, Any, list[tuple[int, Conversion]]]] = {}

    def _run(self, values: Values) -> tuple[Any, list[Any]]:
        connection = thread_connection()
        compiled = self._compiled.get(shape := shape_of(values, connection))
        if compiled is None:
            chosen, placeholders = with_placeholders(values)
            compiler = self.build(**chosen).query.get_compiler(connection=connection)
            statement = Statement(compiler.as_sql(), placeholders)
            columns = [column[0] for column in compiler.select]
            statement.aggregate(columns)
            conversions = [
                (place, make_conversion(functions, expression))
                for place, (functions, expression) in compiler.get_converters(columns).items()
            ]
            compiled = self._compiled[shape] = statement, compiler, conversions
        statement, compiler, conversions = compiled
        with execute(
            connection, statement.text, statement.raw, statement.bind(values, connection)
        ) as cursor:
            rows = (
                orjson.loads(cursor.fetchone()[0])
                if statement.aggregated and bypasses_django(connection)
                else [list(row) for row in cursor.fetchall()]
            )
        for place, convert in conversions:
            for row in rows:
                row[place] = convert(row[place])
        return compiler, rows

    def rows(self, **values: Any) -> list[list[Any]]:
        """Return the rows of a query set with `values_list`."""
        return self._run(values)[1]

    def objects(self, **values: Any) -> list[M]:
        compiler, rows = self._run(values)
        model, places = compiler.klass_info["model"], compiler.klass_info["select_fields"]
        begin, end, alias = places[0], places[-1] + 1, DEFAULT_DB_ALIAS
        names = [column[0].target.attname for column in compiler.select[begin:end]]
        found = []
        for row in rows:
            instance = model.from_db(alias, names, row[begin:end])
            for name, place in compiler.annotation_col_map.items():
                setattr(instance, name, row[place])
            found.append(instance)
        return found

    def first(self, **values: Any) -> M | None:
        return next(iter(self.objects(**values)), None)


class Update:
    """Prepared UPDATE. `build` returns the query set and the new values by column name.

    Arguments are those of `Select`. A call returns the number of changed rows. `rows` returns the
    columns named in `returning` of each changed row, after the change.
    """

    def __init__(
        self,
        build: Callable[..., tuple[QuerySet[Any, Any], dict[str, Any]]],
        *,
        returning: Sequence[str] = (),
    ) -> None:
        self.build = build
        self.returning = returning
        self._compiled: dict[Shape, tuple[Statement, list[Field[Any, Any]]]] = {}

    def _statement(
        self, values: Values, connection: BaseDatabaseWrapper
    ) -> tuple[Statement, list[Field[Any, Any]]]:
        statement = self._compiled.get(shape := shape_of(values, connection))
        if statement is None:
            chosen, placeholders = with_placeholders(values)
            rows, changes = self.build(**chosen)
            query = cast("sql.UpdateQuery", rows.query.chain(sql.UpdateQuery))
            query.add_update_values(changes)
            text, parameters = query.get_compiler(connection=connection).as_sql()
            fields = [
                cast("Field[Any, Any]", rows.model._meta.get_field(name)) for name in self.returning
            ]
            if fields:
                text += " RETURNING " + ", ".join(
                    connection.ops.quote_name(str(f.column)) for f in fields
                )
            statement = self._compiled[shape] = Statement((text, parameters), placeholders), fields
        return statement

    def __call__(self, **values: Any) -> int:
        connection = thread_connection()
        statement, _ = self._statement(values, connection)
        with execute(
            connection, statement.text, statement.raw, statement.bind(values, connection)
        ) as cursor:
            return int(cursor.rowcount)

    def rows(self, **values: Any) -> list[list[Any]]:
        connection = thread_connection()
        statement, fields = self._statement(values, connection)
        with execute(
            connection, statement.text, statement.raw, statement.bind(values, connection)
        ) as cursor:
            return [
                [f.to_python(value) for f, value in zip(fields, row, strict=True)]
                for row in cursor.fetchall()
            ]


class Delete:
    """Prepared DELETE of rows without references. A call returns the number of deleted rows."""

    def __init__(self, build: Callable[..., QuerySet[Any, Any]]) -> None:
        self.build = build
        self._compiled: dict[Shape, Statement] = {}

    def __call__(self, **values: Any) -> int:
        connection = thread_connection()
        statement = self._compiled.get(shape := shape_of(values, connection))
        if statement is None:
            chosen, placeholders = with_placeholders(values)
            query = self.build(**chosen).query.chain(sql.DeleteQuery)
            statement = self._compiled[shape] = Statement(
                query.get_compiler(connection=connection).as_sql(), placeholders
            )
        with execute(
            connection, statement.text, statement.raw, statement.bind(values, connection)
        ) as cursor:
            return int(cursor.rowcount)


_inserts: dict[tuple[type[Model], str], tuple[str, str, list[Field[Any, Any]]]] = {}


def insert(row: M) -> M:
    """Insert a row that has its key, like `save(force_insert=True)` but without signals."""
    connection = thread_connection()
    key = (type(row), connection.vendor)
    if key not in _inserts:
        fields: list[Field[Any, Any]] = list(row._meta.local_concrete_fields)
        query = sql.InsertQuery(type(row))
        query.insert_values(fields, [row], raw=False)
        sql_text = query.get_compiler(connection=connection).as_sql()[0][0]
        _inserts[key] = sql_text, sql_text.replace("%s", "?"), fields
    text, raw, fields = _inserts[key]
    with execute(
        connection,
        text,
        raw,
        [f.get_db_prep_save(f.pre_save(row, add=True), connection) for f in fields],
    ):
        pass
    row._state.adding, row._state.db = False, connection.alias
    return row
