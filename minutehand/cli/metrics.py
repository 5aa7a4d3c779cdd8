"""`minutehand metrics`: the documented list of metrics."""

import typer

from minutehand.cli.options import AsJson
from minutehand.cli.output import print_json, print_table

app = typer.Typer()


@app.command(epilog="Example: minutehand metrics --json")
def metrics(as_json: AsJson = False) -> None:
    """Print every metric that the programs show to Prometheus: name, type, labels, who shows it, what it means."""
    from minutehand.reference_pages import documented

    if as_json:
        print_json([one._asdict() for one in documented()])
        return
    rows = [
        (one.name, one.kind.value, ", ".join(one.labels), ", ".join(one.programs), one.meaning) for one in documented()
    ]
    print_table(("metric", "type", "labels", "of", "meaning"), rows, yielding={"labels", "of", "meaning"})
