"""Begins the export of spans, if it is configured."""

from contextlib import AsyncExitStack

from membership.errors import SettingsInvalid
from minutehand.running import StopSignal
from minutehand.tracing.export import SpanExport
from minutehand.tracing.settings import TraceSettings
from minutehand.version import VERSION
from scheduler_service.runtime.clock import Clock
from scheduler_service.runtime.lifecycle import Tasks


async def open_export(
    settings: TraceSettings, *, program: str, clock: Clock, stop: StopSignal, parts: AsyncExitStack
) -> SpanExport | None:
    """The export, started, which `parts` stops; None where traces are off, and OpenTelemetry stays unloaded. Raises
    SettingsInvalid where the extra is missing."""
    if settings.endpoint is None:
        return None
    try:
        from minutehand.tracing.otlp import OtlpExporter
    except ImportError as error:
        raise SettingsInvalid(
            "trace.endpoint needs OpenTelemetry's SDK, which is not installed: pip install 'minutehand-server[trace]'"
        ) from error
    exporter = OtlpExporter(settings, program=program, version=VERSION)
    export = SpanExport(exporter, clock=clock, limit=settings.queue_spans, tasks=Tasks(stop.crashed))
    parts.push_async_callback(export.stop)
    await export.start()
    return export
