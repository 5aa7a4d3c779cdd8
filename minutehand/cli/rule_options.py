"""The options of commands that say when a cron fires, beside its expression and its zone."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from minutehand.cli.output import fail
from minutehand.cli.schedule_options import given


@dataclass(frozen=True, slots=True)
class RuleOptions:
    """Dialect, further expressions, and days off."""

    dialect: Annotated[
        str | None,
        typer.Option(
            "--dialect",
            help="How expressions are read: cronie (the default), minutehand, goscheduler, quartz, aws or spring.",
            show_default=False,
        ),
    ] = None
    also: Annotated[
        list[str] | None,
        typer.Option("--also", metavar="'FIELDS'", help="Fire when this does, too; repeatable.", show_default=False),
    ] = None
    excluding: Annotated[
        list[str] | None,
        typer.Option(
            "--excluding", metavar="'FIELDS'", help="Not at minutes that this matches; repeatable.", show_default=False
        ),
    ] = None
    calendar_country: Annotated[
        str | None,
        typer.Option(
            "--calendar-country", metavar="CODE", help="Its public holidays are days off: DE.", show_default=False
        ),
    ] = None
    calendar_subdivision: Annotated[
        str | None,
        typer.Option("--calendar-subdivision", metavar="CODE", help="A part of the country: BY.", show_default=False),
    ] = None
    calendar_date: Annotated[
        list[str] | None,
        typer.Option("--calendar-date", metavar="DATE", help="A day off, 2026-12-24; repeatable.", show_default=False),
    ] = None
    calendar_weekends: Annotated[bool, typer.Option("--calendar-weekends", help="Weekends are days off.")] = False
    on_day_off: Annotated[
        str | None,
        typer.Option(
            "--on-day-off",
            help="Fires on days off: skip (without this option), move-next or move-previous (to a working day).",
            show_default=False,
        ),
    ] = None

    def told(self) -> dict[str, Any]:
        """The fields of a rule that were given."""
        from minutehand.client import Calendar

        days = given(
            {
                "country": self.calendar_country,
                "subdivision": self.calendar_subdivision,
                "dates": tuple(self.calendar_date) if self.calendar_date else None,
                "weekends": self.calendar_weekends or None,
            }
        )
        if self.on_day_off is not None and not days:
            fail("--on-day-off needs days off: --calendar-country, --calendar-date or --calendar-weekends")
        calendar = Calendar(**days, **given({"on": self.on_day_off})) if days else None
        return given(
            {
                "dialect": self.dialect,
                "also": self.also or None,
                "excluding": self.excluding or None,
                "calendar": calendar,
            }
        )
