"""Export of spans by OTLP, where it is configured. Only this package imports the OpenTelemetry SDK, which is an extra.

API, node --Span--> SpanExport (bounded, counts what it drops) --thread--> OtlpExporter --HTTP--> collector
"""
