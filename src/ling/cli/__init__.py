"""The `ling` command: thin, and loaded only when it is called."""

import sys


def main() -> None:
    """Run the command, or say how to install what it needs."""
    try:
        from ling.cli.app import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("typer", "rich"):
            raise
        sys.exit(f"The ling command needs {missing.name}: pip install 'ling[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)
    app()
