"""The commands and their options; what they do lives beside them, one file each."""

from __future__ import annotations

from typing import Annotated

import typer

import ling

app = typer.Typer(
    name="ling",
    help="Ridge regression on data of any size, and the LING paper as printed.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ling {ling.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Ridge regression on data of any size, and the LING paper as printed."""


@app.command()
def demo(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data and of all draws.")] = 0,
    rows: Annotated[int, typer.Option(min=15, help="Rows of X.")] = 2000,
    columns: Annotated[int, typer.Option(min=15, help="Columns of X.")] = 1500,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Fit ridge, PCR, GD, SVRG and LING to the paper's Model 3 and compare cost and risk."""
    from ling.cli.demo import run

    run(seed, rows, columns, as_json=json)
