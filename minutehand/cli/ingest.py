"""`minutehand ingest`: schedules from the records of Kafka's topics."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from minutehand.cli.options import AsJson, ConfigFile, environment
from minutehand.cli.output import fail, print_fields, print_json, say

app = typer.Typer(help="Make schedules of records in Kafka.")

Brokers = Annotated[
    str | None,
    typer.Option(
        "--brokers", metavar="HOST:PORT", help="Brokers of Kafka, over the configuration's.", show_default=False
    ),
]


@app.command(
    epilog="Example: minutehand ingest kafka --config minutehand.toml --brokers kafka:9092 --topic orders --client shop"
)
def kafka(
    config: ConfigFile = None,
    brokers: Brokers = None,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="TOPIC", help="A topic to read; may be repeated.", show_default=False),
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Consumer group that keeps the offsets.", show_default=False)
    ] = None,
    dead_letter_topic: Annotated[
        str | None,
        typer.Option("--dead-letter-topic", metavar="TOPIC", help="Where refused records go.", show_default=False),
    ] = None,
    client: Annotated[
        str | None, typer.Option("--client", help="The client whose schedules are made.", show_default=False)
    ] = None,
    url: Annotated[
        str | None,
        typer.Option("--url", envvar="MINUTEHAND_URL", help="Address of the API.", show_default=False),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=0, max=65_535, help="Port of health and metrics; 0 takes a free one.", show_default=False
        ),
    ] = None,
) -> None:
    """Make schedules of the records of topics.

    Runs until it is told to stop (SIGTERM, Ctrl-C).

    Needs brokers, topics, the client and a key of it: ingest.key, MINUTEHAND_KEY, or --profile. Nothing is made twice
    or lost, whatever stops or dies; `minutehand ingest schema` says what a record holds.
    """
    from minutehand.config import FOR_INGEST, load_settings
    from minutehand.running import run_process
    from scheduler_service.runtime.logging import configure_logging

    try:
        from minutehand.wiring_ingest import serve_ingest
    except ImportError:
        fail("Kafka's client is not installed: pip install 'minutehand-server[kafka]'")
    given = {
        "BROKERS": brokers,
        "TOPICS": ",".join(topics) if topics else None,
        "GROUP": group,
        "DEAD_LETTER_TOPIC": dead_letter_topic,
        "CLIENT": client,
        "URL": url,
        "PORT": None if port is None else str(port),
    }
    variables = environment()
    if "MINUTEHAND_KEY" in variables and not {"MINUTEHAND_INGEST_KEY", "MINUTEHAND_INGEST_KEY_FILE"} & variables.keys():
        given["KEY"] = variables["MINUTEHAND_KEY"]
    over = {f"MINUTEHAND_INGEST_{name}": value for name, value in given.items() if value is not None}
    settings = load_settings(environment={**variables, **over}, file=config, required=FOR_INGEST)
    configure_logging(settings.logging, identity={"program": "ingest"})
    run_process(lambda stop: serve_ingest(settings.ingest, stop))


@app.command(epilog="Example: minutehand ingest schema > record.schema.json")
def schema(as_json: AsJson = False) -> None:
    """Print the JSON Schema of records."""
    from minutehand.ingest.schema import record_schema

    print_json(record_schema())


@app.command(epilog="Example: minutehand ingest send --brokers kafka:9092 --topic orders records.ndjson")
def send(
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="The topic to write to.")],
    brokers: Brokers = None,
    key: Annotated[str | None, typer.Option("--key", help="The key of all these records.", show_default=False)] = None,
    config: ConfigFile = None,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="A record a line. Left out: standard input.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write records to a topic, one for each line.

    It ends once all of them are durable.
    """
    from minutehand.config import load_settings

    try:
        from minutehand.ingest.sending import send_lines
    except ImportError:
        fail("Kafka's client is not installed: pip install 'minutehand-server[kafka]'")
    over = {} if brokers is None else {"MINUTEHAND_INGEST_BROKERS": brokers}
    settings = load_settings(environment={**environment(), **over}, file=config, required=("ingest.brokers",))
    lines = sys.stdin.buffer.read() if file is None else file.read_bytes()
    count = send_lines(settings.ingest, topic, lines.splitlines(), key=None if key is None else key.encode())
    if as_json:
        print_json({"topic": topic, "records": count})
    else:
        say(f"Put into {topic}: {count} record{'s' * (count != 1)}.")


@app.command(epilog="Example: minutehand ingest read --brokers kafka:9092 --topic orders-dead-letters --limit 5")
def read(
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="The topic to read.")],
    brokers: Brokers = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000, help="At most so many records.")] = 20,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the last records of a topic: dead letters, or calls.

    It belongs to no consumer group, so those who read the topic notice nothing.
    """
    from minutehand.config import load_settings

    try:
        from minutehand.ingest.reading import read_last
    except ImportError:
        fail("Kafka's client is not installed: pip install 'minutehand-server[kafka]'")
    over = {} if brokers is None else {"MINUTEHAND_INGEST_BROKERS": brokers}
    settings = load_settings(environment={**environment(), **over}, file=config, required=("ingest.brokers",))
    found = read_last(settings.ingest, topic, limit)
    if as_json:
        print_json(found)
        return
    if not found:
        say(f"{topic} holds no records.")
    for number, one in enumerate(found):
        if number:
            say("")
        print_fields(
            [
                ("partition", one.partition),
                ("offset", one.offset),
                ("timestamp", one.timestamp),
                ("key", one.key),
                ("headers", [f"{name}: {'' if value is None else value}" for name, value in one.headers] or None),
                ("value", one.value),
            ]
        )
