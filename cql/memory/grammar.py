"""Parses the part of CQL that the stores use. Everything else is an error, so that nothing is misread silently."""

import re
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

_TOKEN = re.compile(
    r"\s*(?:(?P<uuid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})|(?P<blob>0x[0-9a-f]*)|(?P<number>-?\d+)"
    r"|(?P<text>'(?:[^']|'')*')|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>!=|<=|>=|[=<>?(),;+*{}:.]))"
)

TOKEN = "token"


@dataclass(frozen=True, slots=True)
class Parameter:
    index: int


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any


Term: TypeAlias = Parameter | Literal


@dataclass(frozen=True, slots=True)
class Relation:
    """`columns op terms`; one of each unless the relation is on a tuple. IN has one term: the list. A relation of
    tokens has TOKEN before its columns.
    """

    columns: tuple[str, ...]
    operator: str
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Select:
    """`descending` is the clustering column whose order is reversed; of rows with the same `grouped` columns the first
    is answered."""

    table: str
    distinct: bool
    columns: tuple[str, ...]
    where: tuple[Relation, ...]
    limit: Term | None
    descending: str | None = None
    grouped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Write:
    """An INSERT or an UPDATE. `increments`: counter columns. `conditions` and `if_not_exists` exclude each other."""

    table: str
    insert: bool
    values: dict[str, Term]
    increments: dict[str, Term]
    where: tuple[Relation, ...]
    conditions: tuple[Relation, ...]
    if_not_exists: bool
    timestamp: Term | None


@dataclass(frozen=True, slots=True)
class Delete:
    table: str
    where: tuple[Relation, ...]
    conditions: tuple[Relation, ...] = ()


Parsed: TypeAlias = Select | Write | Delete


@dataclass(frozen=True, slots=True)
class TableDefinition:
    name: str
    types: dict[str, str]
    statics: frozenset[str]
    partition_key: tuple[str, ...]
    clustering: tuple[str, ...]


class Parser:
    """Recursive descent over one statement."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise ValueError(f"can't read CQL at: {text[position : position + 40]}")
            kind = match.lastgroup or ""
            self._tokens.append((kind, match[kind]))
            position = match.end()
        self._next = 0
        self._parameters = 0
        self.text = text

    def statement(self) -> Parsed:
        verb = self._word()
        parsed: Parsed
        match verb:
            case "SELECT":
                parsed = self._select()
            case "INSERT":
                parsed = self._insert()
            case "UPDATE":
                parsed = self._update()
            case "DELETE":
                self._expect("FROM")
                parsed = Delete(self._name(), self._where(), self._conditions())
            case _:
                raise self._error(f"unknown verb {verb}")
        if self._next != len(self._tokens):
            raise self._error("more than one statement")
        return parsed

    def create_table(self) -> TableDefinition:
        for word in ("CREATE", "TABLE", "IF", "NOT", "EXISTS"):
            self._expect(word)
        name = self._name()
        types: dict[str, str] = {}
        statics: set[str] = set()
        keys: list[tuple[str, ...]] = []
        self._expect("(")
        while not self._take(")"):
            if self._take("PRIMARY"):
                self._expect("KEY")
                self._expect("(")
                keys.append(self._names() if self._take("(") else (self._name(),))
                while self._take(","):
                    keys.append((self._name(),))
                self._expect(")")
            else:
                column = self._name()
                types[column] = self._type()
                if self._take("static"):
                    statics.add(column)
                if self._take("PRIMARY"):
                    self._expect("KEY")
                    keys.append((column,))
            self._take(",")
        return TableDefinition(name, types, frozenset(statics), keys[0], tuple(name for (name,) in keys[1:]))

    def _select(self) -> Select:
        distinct = self._take("DISTINCT")
        columns = [self._selected()]
        while self._take(","):
            columns.append(self._selected())
        self._expect("FROM")
        table = self._name()
        if self._take("."):
            table = f"{table}.{self._name()}"
        where = self._where() if self._peek() == "WHERE" else ()
        grouped: list[str] = []
        if self._take("GROUP"):
            self._expect("BY")
            grouped.append(self._name())
            while self._take(","):
                grouped.append(self._name())
        descending = None
        if self._take("ORDER"):
            self._expect("BY")
            descending = self._name()
            self._expect("DESC")
        limit = self._term() if self._take("LIMIT") else None
        return Select(table, distinct, tuple(columns), where, limit, descending, tuple(grouped))

    def _selected(self) -> str:
        name = self._name()
        if not self._take("("):
            return name
        if name != "toUnixTimestamp":
            self._expect(")")
            return f"{name}()"
        name = self._selected()
        self._expect(")")
        return name

    def _insert(self) -> Write:
        self._expect("INTO")
        table = self._name()
        self._expect("(")
        columns = self._names()
        self._expect("VALUES")
        self._expect("(")
        terms = self._terms()
        if len(terms) != len(columns):
            raise self._error("as many values as columns")
        if_not_exists = self._take("IF")
        if if_not_exists:
            self._expect("NOT")
            self._expect("EXISTS")
        values = dict(zip(columns, terms, strict=True))
        return Write(table, True, values, {}, (), (), if_not_exists, self._timestamp())

    def _update(self) -> Write:
        table = self._name()
        timestamp = self._timestamp()
        self._expect("SET")
        values: dict[str, Term] = {}
        increments: dict[str, Term] = {}
        while True:
            column = self._name()
            self._expect("=")
            if self._take(column):
                self._expect("+")
                increments[column] = self._term()
            else:
                values[column] = self._term()
            if not self._take(","):
                break
        return Write(table, False, values, increments, self._where(), self._conditions(), False, timestamp)

    def _conditions(self) -> tuple[Relation, ...]:
        return tuple(self._relations()) if self._take("IF") else ()

    def _timestamp(self) -> Term | None:
        if not self._take("USING"):
            return None
        if self._take("TTL"):
            self._term()  # Tables in memory have no TTL.
            if not self._take("AND"):
                return None
        self._expect("TIMESTAMP")
        return self._term()

    def _where(self) -> tuple[Relation, ...]:
        self._expect("WHERE")
        return tuple(self._relations())

    def _relations(self) -> list[Relation]:
        relations = [self._relation()]
        while self._take("AND"):
            relations.append(self._relation())
        return relations

    def _relation(self) -> Relation:
        if self._take(TOKEN):
            return self._token_relation()
        columns = self._names() if self._take("(") else (self._name(),)
        operator = self._advance()[1]
        if operator not in ("=", "!=", "<", "<=", ">", ">=", "IN"):
            raise self._error(f"unknown operator {operator}")
        if len(columns) == 1 or operator == "IN":
            return Relation(columns, operator, (self._term(),))
        self._expect("(")
        return Relation(columns, operator, self._terms())

    def _token_relation(self) -> Relation:
        """`token(column) > token(?)`, or with <=."""
        self._expect("(")
        names = self._names()
        operator = self._advance()[1]
        if operator not in (">", "<="):
            raise self._error(f"unknown operator {operator} of tokens")
        self._expect(TOKEN)
        self._expect("(")
        return Relation((TOKEN, *names), operator, self._terms())

    def _terms(self) -> tuple[Term, ...]:
        """The terms up to and including the closing parenthesis."""
        terms = [self._term()]
        while self._take(","):
            terms.append(self._term())
        self._expect(")")
        return tuple(terms)

    def _term(self) -> Term:
        kind, text = self._advance()
        match kind, text:
            case "sign", "?":
                self._parameters += 1
                return Parameter(self._parameters - 1)
            case "number", _:
                return Literal(int(text))
            case "text", _:
                return Literal(text[1:-1].replace("''", "'"))
            case "blob", _:
                return Literal(bytes.fromhex(text[2:]))
            case "uuid", _:
                return Literal(UUID(text))
            case "word", "true" | "false" | "null":
                return Literal({"true": True, "false": False, "null": None}[text])
            case _:
                raise self._error(f"unknown term {text}")

    def _type(self) -> str:
        name = self._name()
        if not self._take("<"):
            return name
        inner = self._type()
        self._expect(">")
        return f"{name}<{inner}>"

    def _names(self) -> tuple[str, ...]:
        """The names up to and including the closing parenthesis."""
        names = [self._name()]
        while self._take(","):
            names.append(self._name())
        self._expect(")")
        return tuple(names)

    def _name(self) -> str:
        kind, text = self._advance()
        if kind != "word":
            raise self._error(f"a name, not {text}")
        return text

    def _word(self) -> str:
        return self._name().upper()

    def _peek(self) -> str:
        return self._tokens[self._next][1] if self._next < len(self._tokens) else ""

    def _advance(self) -> tuple[str, str]:
        if self._next == len(self._tokens):
            raise self._error("more to come")
        self._next += 1
        return self._tokens[self._next - 1]

    def _take(self, text: str) -> bool:
        if self._peek() != text:
            return False
        self._next += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._take(text):
            raise self._error(f"{text}, not {self._peek()}")

    def _error(self, expected: str) -> ValueError:
        return ValueError(f"expected {expected}: {self.text}")
