"""The commands and their options; what they do lives beside them, one file each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import ling
from ling.cli.console import CommandOutput
from ling.cli.exit_codes import EXIT_CODES, EXIT_NOT_CERTIFIED, Command, CommandGroup
from ling.cli.options import (
    check_one_of,
    parse_alphas,
    parse_data_options,
    split_names,
)

DATA_PANEL, PAPER_PANEL = "Your data", "The paper and the project"
APP_HELP = "Ridge regression on data of any size: a file in, a model with a proof out."


COLUMNS_PANEL, PENALTY_PANEL, FITTING_PANEL, OUTPUT_PANEL = (
    "Columns",
    "Penalty",
    "Fitting",
    "Output",
)


def _examples(*commands: str) -> str:
    # The empty line keeps typer from taking the indentation away.
    lines = ["", "[bold]Examples[/bold]", *(f"  [cyan]{line}[/cyan]" for line in commands)]
    return "\n".join(lines)


SkipMissingTarget = Annotated[
    bool,
    typer.Option(
        "--skip-missing-target", metavar="", help="Leave out rows without a target.",
        rich_help_panel=COLUMNS_PANEL,
    ),
]  # fmt: skip


def _flag(*names: str, help: str, panel: str | None = None) -> Any:  # noqa: A002  (as typer's)
    return typer.Option(*names, metavar="", help=help, rich_help_panel=panel)


app = typer.Typer(
    name="ling",
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\n".join(
        [
            "[bold]Start here[/bold]",
            "  [cyan]ling demo[/cyan]                                       see it work",
            "  [cyan]ling fit sales.csv --target price[/cyan]               a model of your file",
            "  [cyan]ling predict model.ling new.csv --out out.csv[/cyan]   predictions with it",
            "",
            "[bold]Exit codes[/bold]",
            *(f"  {code:>3}  {meaning}" for code, meaning in EXIT_CODES.items()),
        ]
    ),
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ling {ling.__version__}")
        raise typer.Exit


@app.callback(help=APP_HELP)
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            metavar="",
            help="Show the version.",
        ),
    ] = False,
) -> None:
    """What comes before a command."""


DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A .parquet, .csv, .tsv or .feather file, a folder or a 'pattern*' of them, or X.npy.",
        show_default=False,
    ),
]
ModelArgument = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="What ling fit has written.", show_default=False),
]
TargetOption = Annotated[
    str,
    typer.Option(
        "--target", "-t", metavar="COLUMN", show_default=False,
        help="The column to predict; for X.npy, the file y.npy.",
    ),
]  # fmt: skip
FeaturesOption = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...", help="Predict from these; all but the target, if not given.",
        rich_help_panel=COLUMNS_PANEL,
    ),
]  # fmt: skip
DropOption = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="Or from all but these.", rich_help_panel=COLUMNS_PANEL),
]
WeightsOption = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="Weights of the rows.", rich_help_panel=COLUMNS_PANEL),
]
MissingOption = Annotated[
    str,
    typer.Option(
        metavar="error|mean", rich_help_panel=COLUMNS_PANEL,
        help="At missing values, stop, or put the mean there (for text: no category).",
    ),
]  # fmt: skip
MemoryBudgetOption = Annotated[
    str | None,
    typer.Option(
        metavar="1GB", help="Memory to stay within; a quarter of all, if not given.",
        rich_help_panel=FITTING_PANEL,
    ),
]  # fmt: skip
TolOption = Annotated[
    float,
    typer.Option(
        min=0, metavar="N", rich_help_panel=FITTING_PANEL,
        help="Accuracy to prove: of predictions, in units of the target's spread.",
    ),
]  # fmt: skip
SeedOption = Annotated[
    int,
    typer.Option(min=0, metavar="N", help="Of all random draws.", rich_help_panel=FITTING_PANEL),
]
JsonOption = Annotated[
    bool, _flag("--json", help="Print JSON on stdout, and nothing else there.", panel=OUTPUT_PANEL)
]
QuietOption = Annotated[
    bool, _flag("--quiet", "-q", help="Print nothing but errors.", panel=OUTPUT_PANEL)
]


@app.command(
    cls=Command,
    rich_help_panel=DATA_PANEL,
    epilog=_examples(
        "ling fit sales.parquet --target price",
        "ling fit sales.csv -t price --drop id,address --missing mean --out price.ling",
        "ling fit 'parts/*.parquet' -t churned --classify --report report.html",
        "ling fit X.npy --target y.npy --alphas 0.1,1,10,100",
    ),
)
def fit(
    data: DataArgument,
    target: TargetOption,
    classify: Annotated[
        bool, _flag("--classify", help="Predict a class rather than a number.")
    ] = False,
    drop: DropOption = None,
    features: FeaturesOption = None,
    weights: WeightsOption = None,
    missing: MissingOption = "error",
    skip_missing_target: SkipMissingTarget = False,
    alphas: Annotated[
        str,
        typer.Option(
            metavar="auto|A,B,...",
            help="What to choose from; auto: what suits the data.",
            rich_help_panel=PENALTY_PANEL,
        ),
    ] = "auto",
    alpha: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="N",
            help="This one: nothing is chosen, and nothing scored.",
            rich_help_panel=PENALTY_PANEL,
        ),
    ] = None,
    cv: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="Folds of the cross-validation; 5, if not given (fewer of very few rows).",
            rich_help_panel=PENALTY_PANEL,
        ),
    ] = None,
    shuffle: Annotated[
        bool,
        _flag(
            "--shuffle",
            help="Folds of random rows, not of rows that lie together.",
            panel=PENALTY_PANEL,
        ),
    ] = False,
    memory_budget: MemoryBudgetOption = None,
    tol: TolOption = 1e-4,
    seed: SeedOption = 0,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write the model there.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = Path("model.ling"),
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write an HTML report there.", rich_help_panel=OUTPUT_PANEL
        ),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Fit a model to a file.

    Looks at every column, chooses the penalty by cross-validation, fits with
    a proven accuracy and writes the model. Text becomes a column of 0 and 1
    for each value.
    """
    from ling.cli.fit import FitCommandOptions, run

    if alpha is not None and alphas != "auto":
        raise typer.BadParameter("--alpha and --alphas are both given; pass one of them.")
    if alpha is not None and (cv is not None or shuffle):
        option = "--shuffle" if shuffle else "--cv"
        raise typer.BadParameter(f"--alpha is given, so there are no folds; leave out {option}.")
    wanted = parse_data_options(
        data, target, features, drop, missing, skip_missing_target, weights, classify
    )
    options = FitCommandOptions(parse_alphas(alphas), alpha, cv, shuffle, memory_budget, tol, seed)
    if not run(wanted, options, out, report, CommandOutput(json, quiet)).certified:
        raise typer.Exit(EXIT_NOT_CERTIFIED)


@app.command(
    cls=Command,
    rich_help_panel=DATA_PANEL,
    epilog=_examples(
        "ling predict model.ling new.parquet --out predictions.parquet",
        "ling predict model.ling new.csv --out predictions.csv --keep id,date",
        "ling predict model.ling X.npy --out predictions.npy",
    ),
)
def predict(
    model: ModelArgument,
    data: DataArgument,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            show_default=False,
            help="Write there: .parquet, .csv, .feather or .npy.",
        ),
    ],
    keep: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Copy these columns beside the predictions."),
    ] = None,
    unknown: Annotated[
        str,
        typer.Option(
            metavar="error|ignore",
            help="At texts that the fit has not seen, stop, or treat them as no category.",
        ),
    ] = "error",
    strict: Annotated[
        bool, _flag("--strict", help="Stop at columns that the model does not know.")
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Predict new data with a model file.

    Columns are matched by name, in any order, and read a block of rows at a
    time. If the target is there too, the score is told.
    """
    from ling.cli.predict import PredictCommandOptions, run

    options = PredictCommandOptions(
        split_names(keep) or (), strict, check_one_of(unknown, "unknown", ("error", "ignore"))
    )
    run(model, data, out, options, CommandOutput(json, quiet))


@app.command(cls=Command, rich_help_panel=DATA_PANEL, epilog=_examples("ling inspect model.ling"))
def inspect(
    model: ModelArgument,
    json: JsonOption = False,
) -> None:
    """Show what is in a model file.

    The data that it was fitted to, penalty, scores, proof and strongest
    columns. Model files hold numbers and text only: opening one runs nothing,
    whoever it is from.
    """
    from ling.cli.inspect import run

    run(model, CommandOutput(json))


@app.command(
    cls=Command,
    rich_help_panel=DATA_PANEL,
    epilog=_examples(
        "ling verify model.ling sales.parquet",
        "ling verify coef.csv sales.parquet --alpha 1.0 --target price",
    ),
)
def verify(
    solution: Annotated[
        Path,
        typer.Argument(
            metavar="SOLUTION",
            help="What ling fit has written, or a .csv file of names and coefficients.",
            show_default=False,
        ),
    ],
    data: DataArgument,
    alpha: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="N",
            help="The penalty, for a .csv file; a model has its own.",
            rich_help_panel=PENALTY_PANEL,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            "-t",
            metavar="COLUMN",
            help="The column that is predicted; for X.npy, the file y.npy.",
            rich_help_panel=COLUMNS_PANEL,
        ),
    ] = None,
    weights: WeightsOption = None,
    missing: MissingOption = "error",
    skip_missing_target: SkipMissingTarget = False,
    memory_budget: MemoryBudgetOption = None,
    tol: TolOption = 1e-4,
    seed: SeedOption = 0,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Prove how far a solution is from the exact one.

    A solution is a model file, or the coefficients of another program in a
    CSV file: a name and a number in each line, and a line named intercept
    if there is one. The data are those that it was fitted to.
    """
    from ling.cli.verify import VerifyCommandOptions, run

    options = VerifyCommandOptions(
        data, alpha, target, weights, check_one_of(missing, "missing", ("error", "mean")),
        skip_missing_target, memory_budget, tol, seed,
    )  # fmt: skip
    if not run(solution, options, CommandOutput(json, quiet)):
        raise typer.Exit(EXIT_NOT_CERTIFIED)


@app.command(
    cls=Command,
    rich_help_panel=DATA_PANEL,
    epilog=_examples(
        "ling plan big.parquet --target price",
        "ling plan 'parts/*.parquet' -t price --memory-budget 2GB",
    ),
)
def plan(
    data: DataArgument,
    target: TargetOption,
    drop: DropOption = None,
    features: FeaturesOption = None,
    missing: MissingOption = "error",
    skip_missing_target: SkipMissingTarget = False,
    memory_budget: MemoryBudgetOption = None,
    tol: TolOption = 1e-4,
    json: JsonOption = False,
) -> None:
    """Tell what a fit would cost, before any of it is done."""
    from ling.cli.plan import run

    wanted = parse_data_options(data, target, features, drop, missing, skip_missing_target)
    run(wanted, memory_budget, tol, CommandOutput(json))


@app.command(
    cls=Command,
    rich_help_panel=PAPER_PANEL,
    epilog=_examples("ling demo", "ling demo --rows 20000 --out /tmp/demo"),
)
def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder to write to.")
    ] = Path("ling-demo"),
    rows: Annotated[int, typer.Option(min=200, metavar="N", help="Houses to fit to.")] = 100_000,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """See it work, beside scikit-learn.

    Makes up a file of houses, fits, predicts and writes a report. Then
    times RidgeCV of both on made-up data. Under a minute.
    """
    from ling.cli.demo import run

    run(out, rows, seed, CommandOutput(json))


@app.command(
    cls=Command,
    rich_help_panel=PAPER_PANEL,
    epilog=_examples("ling reproduce model3 --quick", "ling reproduce all"),
)
def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            help="model1, model2, model3, gisette, gisette-surrogate, buzz, or all.",
            show_default=False,
        ),
    ],
    quick: Annotated[
        bool, _flag("--quick", help="Smaller data, 2 repeats: a sketch in seconds each.")
    ] = False,
    repeats: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="As many as the paper, if not given.")
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder to write to.", file_okay=False)
    ] = Path("reproduction"),
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Seed of the data and of all draws.")
    ] = 0,
    choice: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="What the paper leaves open, such as lam_factor=10."
        ),
    ] = None,
    flops: Annotated[
        str,
        typer.Option(
            metavar="measured|printed|order",
            help="Count FLOPs as our code works, as the paper prints its algorithms, or by order.",
        ),
    ] = "measured",
    json: JsonOption = False,
) -> None:
    """Redo the paper's experiments.

    Points, figures, and every claim checked. Interrupted, the same command
    continues from the finished repeats.
    """
    from ling.cli.reproduce import parse_choices, run
    from ling.reproduction.flop_conventions import FLOP_CONVENTIONS
    from ling.reproduction.runner import ReproductionSettings

    counted = check_one_of(flops, "flops", FLOP_CONVENTIONS)
    choices = parse_choices(choice or [])
    run(
        experiment,
        ReproductionSettings(out, seed, quick, repeats, choices, counted),
        as_json=json,
    )
