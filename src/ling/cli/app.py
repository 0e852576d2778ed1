"""The commands and their options; what they do lives beside them, one file each."""

from __future__ import annotations

from pathlib import Path
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


@app.command()
def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(help="model1, model2, model3, gisette, gisette-surrogate, buzz, or all."),
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller data, 2 repeats: a sketch in seconds each.")
    ] = False,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Repeats; default: as many as the paper.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder to write to.", file_okay=False)] = Path(
        "reproduction"
    ),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data and of all draws.")] = 0,
    choice: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE for what the paper leaves open, such as lam_factor=10."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Redo the paper's experiments: points, figures, and every claim checked.

    Interrupted, the same command continues from the finished repeats.
    """
    from ling.cli.reproduce import parse_choices, run
    from ling.paper.reproduction import Run

    run(experiment, Run(out, seed, quick, repeats, parse_choices(choice or [])), as_json=json)
