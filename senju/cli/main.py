"""The `senju` command.

Ctrl-C ends it with code 130 at any moment. A command that runs sees KeyboardInterrupt and can clean up.
While modules load, and while Python ends, the process ends at once: foreign code might swallow the exception
or show its traceback.
"""

import _signal as signal  # type: ignore[import-not-found]  # quick to load: until then Ctrl-C is a traceback
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    import typer

INTERRUPTED = 128 + signal.SIGINT  # the code that shells expect


def main() -> None:
    """Run the command line; a user's own modules are found in the current folder."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a background job ignores Ctrl-C
        signal.signal(signal.SIGINT, _on_interrupt)
    from senju.cli.streams import error_line, lacks_files, prepare_streams, require_files
    from senju.errors import SenjuError
    from senju.trust import look_in_current_folder

    prepare_streams()
    try:
        os.getcwd()
    except FileNotFoundError:  # modules of others cannot even be imported
        sys.exit("error: the current folder was removed; change to one that exists")
    look_in_current_folder()
    try:
        require_files()
        try:
            _run(_load_commands())
        finally:
            sys.stdout.flush()  # while an error can still be reported
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except (SenjuError, OSError) as error:  # SenjuError: of standard output, once the commands have ended
        if isinstance(error, OSError) and not lacks_files(error):
            raise
        sys.exit(error_line(error))


def _run(app: "typer.Typer") -> None:
    app()


def _on_interrupt(number: int, frame: "FrameType | None") -> None:
    while frame is not None:
        if frame.f_code is _run.__code__:
            raise KeyboardInterrupt
        frame = frame.f_back
    os._exit(INTERRUPTED)


def _load_commands() -> "typer.Typer":
    """All commands; or `usi` alone: a Shogi program waits for its answer, and the others load much more."""
    if sys.argv[1:2] != ["usi"]:
        from senju.cli.app import app

        return app
    from senju.cli.console import new_app
    from senju.cli.usi import usi

    return new_app(lambda: None, usi)
