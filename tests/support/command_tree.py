"""The commands, all of them loaded."""

from typing import Any

import typer
import typer.main

from minutehand.cli.app import app


def command_tree() -> Any:
    tree: Any = typer.main.get_command(app)
    context = typer.Context(tree, info_name="minutehand")
    for name in tree.commands:
        _, tree.commands[name], _ = tree.resolve_command(context, [name])
    return tree
