"""When a cron fires: its rule, its zone, and the hours that a change of clocks skips or repeats.

Everything here is a function of its arguments and of the pinned `tzdata` and `holidays`: every node computes the same
instants, and so the same ids of children. Instants are Unix milliseconds; spans are half-open, (after, until].

**A rule** is stored as one canonical text:

    Expression   five fields as below; also special days, both day fields at once, years (`canonical`, `special_days`)
    Interval     every 90 minutes, from an anchor (`interval`)
    Compound     several of these; without excluded minutes; with days off skipped or moved (`compound`, `calendars`)

`dialects` reads what other schedulers call an expression, and answers such a rule. A canonical text that a program does
not know is refused as a whole (InvalidRule): it neither places nor withdraws fires of that cron, and a node that knows
the text does.

**The expression** has five fields as cronie reads them:

    minute 0-59   hour 0-23   day of month 1-31   month 1-12 or jan-dec   day of week 0-7 or sun-sat, 0 and 7 are Sunday

A field is a list of `*`, `*/step`, `value`, `first-last` and `first-last/step`. A step counts from the first value; one
that is longer than the field leaves just that. Where cronie is lax or ambiguous, these rules apply:

- Names are the first three letters in any case, also in lists and ranges; `sun` at the end of a range is 7 (`fri-sun`).
- `5/10` is refused, as by cronie (others read it as 5, or as `5-59/10`).
- `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly` and `@annually` expand to five fields, in any case.
  `@reboot`, seconds, years and `L W # ? ~ %` are refused by name; so are dates that no year has (30 February).
- If the text of either day field begins with `*`, both day of month AND day of week must match, otherwise one of them.
  So `0 0 */2 * 1` is Mondays with an odd date, and `0 0 1 * 1` the first and every Monday.
- `Expression.text` is a canonical form: numbers only, stars kept where they have an effect. What other dialects can say
  beyond these fields has a form of its own there (`canonical`, `interval`, `compound`).

**Local clock and real time.** A zone's clock is divided into stretches of one offset from UTC. Between two of them it
jumps forward (a gap: local minutes that don't exist) or back (a fold: local minutes that come twice). The rules are the
same for every length and cause of a jump: an hour for summer, half an hour on Lord Howe, 15 minutes when Kathmandu
changed its zone, Apia's whole 30 December 2011. A local minute begins at its second 0: if that second is in the gap, so
is the minute.

- Expressions whose minute or hour field begins with `*` *follow real time*: they fire whenever a matching minute begins
  on the local clock. Nothing fires in a gap; in a fold both readings fire, as real time passes twice.
- All others are of *fixed time*: a matching local minute is due when the clock first reaches it or, in a gap, passes
  it. So in a gap they fire at the first instant after it (`gap="shift"`), all of one gap once, and together with a fire
  due at that very instant; `gap="skip"` omits fires that are only due in the gap. In a fold they fire at the first
  reading (`fold="first"`) or at both (`fold="both"`).

cronie does the same for jumps of up to three hours; for longer ones it omits the fires in the gap.

**Zones** are the IANA names of the pinned package, never files of the machine. Fires are computed from 1970 to the end
of the year 9998.

The calendar walk is not a library's: croniter 7.0, given expanded lists, takes 80 to 380 µs to parse an expression and
find one fire, and would need the rules above built around it; this takes about a tenth of that.
"""

from scheduler_service.domain.crons.calendars import Calendar, calendar_faults, holidays_version
from scheduler_service.domain.crons.canonical import parse_recurrence
from scheduler_service.domain.crons.compound import Compound, Member, Recurrence, anchored, compose
from scheduler_service.domain.crons.dialects import (
    DEFAULT_DIALECT,
    Dialect,
    Written,
    read_in_dialect,
    written_of_canonical,
)
from scheduler_service.domain.crons.dst import Dst
from scheduler_service.domain.crons.expression import Expression, parse_expression
from scheduler_service.domain.crons.occurrences import SEARCHED_MS, fires, first_fire, next_fires
from scheduler_service.domain.crons.rule import Rule, spread_offset_ms
from scheduler_service.domain.crons.words import in_words
from scheduler_service.domain.crons.zones import load_zone, tzdata_version
from scheduler_service.domain.errors import InvalidRule

__all__ = [
    "DEFAULT_DIALECT",
    "SEARCHED_MS",
    "Calendar",
    "Compound",
    "Dialect",
    "Dst",
    "Expression",
    "InvalidRule",
    "Member",
    "Recurrence",
    "Rule",
    "Written",
    "anchored",
    "calendar_faults",
    "compose",
    "fires",
    "first_fire",
    "holidays_version",
    "in_words",
    "load_zone",
    "next_fires",
    "parse_expression",
    "parse_recurrence",
    "read_in_dialect",
    "spread_offset_ms",
    "tzdata_version",
    "written_of_canonical",
]
