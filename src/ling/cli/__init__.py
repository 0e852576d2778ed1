"""The `ling` command: thin, and loaded only when it is called."""

import sys


def main() -> None:
    """Run the command, or say how to install what it needs."""
    try:
        from ling.cli.app import app
        from ling.errors import LingError
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        sys.exit(f"The ling command needs {missing.name}: pip install 'ling[cli]'")
    try:
        app()
    except LingError as error:
        sys.exit(f"Error: {error}")
