"""`minutehand config`: the documented default file."""

import typer

from minutehand.cli.options import AsJson
from minutehand.cli.output import print_json

app = typer.Typer()


@app.command(epilog="Example: minutehand config > minutehand.toml")
def config(as_json: AsJson = False) -> None:
    """Print every setting with its default, as the TOML file that --config takes."""
    from minutehand.config import TABLES
    from minutehand.reference_pages import defaults, field_docs, render_page

    if not as_json:
        typer.echo(render_page(TABLES), nl=False)
        return
    document = {}
    for table in TABLES:
        docs = field_docs(table.type)
        document[table.name] = {name: {"default": value, "doc": docs[name]} for name, value in defaults(table).items()}
    print_json(document)
