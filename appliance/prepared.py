"""Statements whose SQL is made once.

Putting a query together takes Django ten times as long as SQLite takes to answer it. So what runs for every allocation, ticket and report is put together at
its first use, with stand-ins where the values go; later calls only bind theirs.
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


class Bound(NamedTuple):
    """Where a value goes: the name it is given by, and its place if it is one of several."""

    name: str
    position: int | None


EXACT_IN_JSON = (
    models.UUIDField,
    models.CharField,
    models.TextField,
    models.IntegerField,
    models.BooleanField,
    models.DateTimeField,
    models.JSONField,
)
"""Columns that come out of SQLite's JSON as they went in; numbers with a fraction lose their last digits."""


def in_one_row(text: str, columns: int) -> str:
    """All rows as one text of JSON: Python gives way to its other threads at every row that it fetches, and waits for each of them to come back."""
    names = ", ".join(f"c{i}" for i in range(columns))
    return (
        f"WITH found({names}) AS ({text}) SELECT json_group_array(json_array({names})) FROM found"  # noqa: S608 - Django's own text, and names made here
    )


class Statement:
    """SQL and, for each of its parameters, a constant or where its value comes from."""

    in_one_row = False

    def __init__(
        self, compiled: tuple[str, Sequence[object]], stand_ins: dict[object, Bound]
    ) -> None:
        self.text, parameters = compiled
        self.raw = self.text.replace("%s", "?").replace("%%", "%")
        """As SQLite's own module wants it."""
        self.slots = [stand_ins.get(key_of(p), p) for p in parameters]
        if missing := set(stand_ins.values()) - {s for s in self.slots if isinstance(s, Bound)}:
            raise TypeError(
                f"{', '.join(b.name for b in missing)} went into the SQL itself; {self.text}"
            )

    def gather(self, columns: Sequence[Any]) -> None:
        """On SQLite its rows come as one."""
        if all(isinstance(c.output_field, EXACT_IN_JSON) for c in columns):
            self.raw, self.in_one_row = in_one_row(self.raw, len(columns)), True

    def bind(self, values: Values, connection: BaseDatabaseWrapper) -> list[Any]:
        given = [
            (values[s.name] if s.position is None else values[s.name][s.position])
            if isinstance(s, Bound)
            else s
            for s in self.slots
        ]
        return [v if type(v) in AS_IT_IS else prepared_value(v, connection) for v in given]


AS_IT_IS = frozenset({str, int, bool, type(None)})


@contextmanager
def executed(
    connection: BaseDatabaseWrapper, text: str, raw: str, values: list[Any]
) -> Iterator[Any]:
    """The cursor afterwards. On SQLite without Django's own, which would make the statement over each time; unless somebody counts the queries."""
    if unobserved_sqlite(connection):
        if connection.connection is None:
            connection.ensure_connection()
        with connection.wrap_database_errors:
            yield connection.connection.execute(raw, values)
        return
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        yield cursor


def unobserved_sqlite(connection: BaseDatabaseWrapper) -> bool:
    return connection.vendor == "sqlite" and not connection.queries_logged


def ours() -> BaseDatabaseWrapper:
    """This thread's connection. Asked once for each statement: it takes as long as a small one."""
    return connections[DEFAULT_DB_ALIAS]


def prepared_value(value: object, connection: BaseDatabaseWrapper) -> object:
    """As the database takes it."""
    if isinstance(value, uuid.UUID):
        return value if connection.features.has_native_uuid_field else value.hex
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    return value


def key_of(parameter: object) -> object:
    return (
        prepared_value(parameter, ours())
        if isinstance(parameter, uuid.UUID | datetime)
        else parameter
    )


def stand_in(value: object) -> object:
    """Of the same type, and equal to no constant."""
    if isinstance(value, uuid.UUID):
        return uuid.uuid4()
    if isinstance(value, datetime):
        return datetime(2999, 1, 1, tzinfo=UTC) + timedelta(microseconds=random.randrange(1 << 40))  # noqa: S311 - no secret
    if isinstance(value, int) and not isinstance(value, bool):
        return random.randrange(1 << 14, 1 << 15)  # noqa: S311 - fits the smallest of our columns
    if isinstance(value, str):
        return uuid.uuid4().hex
    raise TypeError(f"no stand-in for {value!r}")


def with_stand_ins(values: Values) -> tuple[Values, dict[object, Bound]]:
    stand_ins: dict[object, Bound] = {}

    def one(value: object, bound: Bound) -> object:
        while key_of(made := stand_in(value)) in stand_ins:
            pass
        stand_ins[key_of(made)] = bound
        return made

    chosen = {
        name: value
        if isinstance(value, bool)
        else [one(v, Bound(name, i)) for i, v in enumerate(value)]
        if isinstance(value, list | tuple)
        else one(value, Bound(name, None))
        for name, value in values.items()
    }
    return chosen, stand_ins


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
def known_uuid(text: str) -> uuid.UUID:
    """The same ids come again and again, and making one takes longer than finding it."""
    return uuid.UUID(text)


def moment_of(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


SQLITE_CONVERSIONS: dict[type[Field[Any, Any]], Conversion] = {
    models.UUIDField: known_uuid,
    models.DateTimeField: moment_of,
    models.JSONField: orjson.loads,
}
"""What Django's own do with text, ten times as fast."""


def conversion(functions: Sequence[Callable[..., Any]], expression: Any) -> Conversion:
    """From what the database gives to what the model has."""
    vendor = ours().vendor
    quick = (
        SQLITE_CONVERSIONS.get(type(expression.output_field))
        if vendor == "sqlite" and isinstance(expression, Col)
        else None
    )

    def convert(value: Any) -> Any:
        if quick and isinstance(value, str):
            return quick(value)
        if value is None and quick:
            return None
        connection = ours()
        for function in functions:
            value = function(value, expression, connection)
        return value

    return convert


class Select(Generic[M]):
    """`build` makes the query set of its arguments: ids, numbers, texts and times, or lists of them, none empty; and flags, each a statement of its own.

    Reads the database when called.
    """

    def __init__(self, build: Callable[..., QuerySet[M, Any]]) -> None:
        self.build = build
        self.made: dict[Shape, tuple[Statement, Any, list[tuple[int, Conversion]]]] = {}

    def _run(self, values: Values) -> tuple[Any, list[Any]]:
        connection = ours()
        made = self.made.get(shape := shape_of(values, connection))
        if made is None:
            chosen, stand_ins = with_stand_ins(values)
            compiler = self.build(**chosen).query.get_compiler(connection=connection)
            statement = Statement(compiler.as_sql(), stand_ins)
            columns = [column[0] for column in compiler.select]
            statement.gather(columns)
            conversions = [
                (place, conversion(functions, expression))
                for place, (functions, expression) in compiler.get_converters(columns).items()
            ]
            made = self.made[shape] = statement, compiler, conversions
        statement, compiler, conversions = made
        with executed(
            connection, statement.text, statement.raw, statement.bind(values, connection)
        ) as cursor:
            rows = (
                orjson.loads(cursor.fetchone()[0])
                if statement.in_one_row and unobserved_sqlite(connection)
                else [list(row) for row in cursor.fetchall()]
            )
        for place, convert in conversions:
            for row in rows:
                row[place] = convert(row[place])
        return compiler, rows

    def rows(self, **values: Any) -> list[list[Any]]:
        """Of a query set with `values_list`."""
        return self._run(values)[1]

    def objects(self, **values: Any) -> list[M]:
        compiler, rows = self._run(values)
        model, places = compiler.klass_info["model"], compiler.klass_info["select_fields"]
        begin, end, alias = places[0], places[-1] + 1, DEFAULT_DB_ALIAS
        names = [column[0].target.attname for column in compiler.select[begin:end]]
        found = []
        for row in rows:
            made = model.from_db(alias, names, row[begin:end])
            for name, place in compiler.annotation_col_map.items():
                setattr(made, name, row[place])
            found.append(made)
        return found

    def first(self, **values: Any) -> M | None:
        return next(iter(self.objects(**values)), None)


class Update:
    """`build` makes the query set, and `changes` the columns' new values; both of arguments as those of Select.

    When called: how many rows changed. `rows`: the columns named in `returning`, of each row that changed, as it is now.
    """

    def __init__(
        self,
        build: Callable[..., tuple[QuerySet[Any, Any], dict[str, Any]]],
        *,
        returning: Sequence[str] = (),
    ) -> None:
        self.build = build
        self.returning = returning
        self.made: dict[Shape, tuple[Statement, list[Field[Any, Any]]]] = {}

    def _statement(
        self, values: Values, connection: BaseDatabaseWrapper
    ) -> tuple[Statement, list[Field[Any, Any]]]:
        statement = self.made.get(shape := shape_of(values, connection))
        if statement is None:
            chosen, stand_ins = with_stand_ins(values)
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
            statement = self.made[shape] = Statement((text, parameters), stand_ins), fields
        return statement

    def __call__(self, **values: Any) -> int:
        connection = ours()
        statement, _ = self._statement(values, connection)
        with executed(
            connection, statement.text, statement.raw, statement.bind(values, connection)
        ) as cursor:
            return int(cursor.rowcount)

    def rows(self, **values: Any) -> list[list[Any]]:
        connection = ours()
        statement, fields = self._statement(values, connection)
        with executed(
            connection, statement.text, statement.raw, statement.bind(values, connection)
        ) as cursor:
            return [
                [f.to_python(value) for f, value in zip(fields, row, strict=True)]
                for row in cursor.fetchall()
            ]


class Delete:
    """As Update, of rows that nothing refers to; how many went."""

    def __init__(self, build: Callable[..., QuerySet[Any, Any]]) -> None:
        self.build = build
        self.made: dict[Shape, Statement] = {}

    def __call__(self, **values: Any) -> int:
        connection = ours()
        statement = self.made.get(shape := shape_of(values, connection))
        if statement is None:
            chosen, stand_ins = with_stand_ins(values)
            query = self.build(**chosen).query.chain(sql.DeleteQuery)
            statement = self.made[shape] = Statement(
                query.get_compiler(connection=connection).as_sql(), stand_ins
            )
        with executed(
            connection, statement.text, statement.raw, statement.bind(values, connection)
        ) as cursor:
            return int(cursor.rowcount)


_inserts: dict[tuple[type[Model], str], tuple[str, str, list[Field[Any, Any]]]] = {}


def insert(row: M) -> M:
    """A new row whose key is given, as `save(force_insert=True)` would; nobody is signalled."""
    connection = ours()
    key = (type(row), connection.vendor)
    if key not in _inserts:
        fields: list[Field[Any, Any]] = list(row._meta.local_concrete_fields)
        query = sql.InsertQuery(type(row))
        query.insert_values(fields, [row], raw=False)
        made = query.get_compiler(connection=connection).as_sql()[0][0]
        _inserts[key] = made, made.replace("%s", "?"), fields
    text, raw, fields = _inserts[key]
    with executed(
        connection,
        text,
        raw,
        [f.get_db_prep_save(f.pre_save(row, add=True), connection) for f in fields],
    ):
        pass
    row._state.adding, row._state.db = False, connection.alias
    return row
