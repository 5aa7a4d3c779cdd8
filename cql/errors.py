"""Errors of this room that aren't everyday storage trouble: somebody has to do something about them."""

from membership.errors import MinutehandError


class StoreRefused(MinutehandError):
    """Cassandra understood a request and refused it: a wrong schema, missing rights, or an error of this program."""


class SchemaOutdated(MinutehandError):
    """The keyspace is missing or older than this program needs."""


class ProgramOutdated(MinutehandError):
    """The keyspace has given up what this program uses: a newer release is needed."""


class WrongHome(MinutehandError):
    """The configured home data centre is not the one that the keyspace was created for."""


class MigrationFailed(MinutehandError):
    """A migration can't go on. What was applied stays; running it again continues."""
