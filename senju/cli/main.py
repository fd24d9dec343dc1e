"""The `senju` command."""

import sys

import typer


def main() -> None:
    """Run the command line; a user's own modules are found in the current folder."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    if sys.argv[1:2] == ["usi"]:
        _engine()()
    else:
        from senju.cli.app import app

        app()


def _engine() -> typer.Typer:
    """The command `usi` alone: a Shogi program waits for its answer, and the others load much more."""
    from senju.cli.usi import usi

    app = typer.Typer(add_completion=False, rich_markup_mode="rich", pretty_exceptions_show_locals=False)
    app.callback()(lambda: None)  # so that `usi` stays a command by its name
    app.command()(usi)
    return app
