"""The `ling` command: thin, and loaded only when it is called."""

import sys

from ling.cli.streams import make_printable


def main() -> None:
    """Run the command, or say how to install what it needs."""
    make_printable(sys.stdout)
    make_printable(sys.stderr)
    try:
        from ling.cli.app import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        sys.exit(f"The ling command needs {missing.name}: pip install 'ling[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
    app()
