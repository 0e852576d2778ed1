"""The commands and their options; what they do lives beside them, one file each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import ling
from ling.cli.answers import CODES, NOT_CERTIFIED, Command
from ling.cli.out import Out

YOURS, PAPER = "Your data", "The paper and the project"
HELP = "Ridge regression on data of any size: a file in, a model with a proof out."


def _lines(*lines: str) -> str:
    """An epilog: blank lines between paragraphs make lines of them."""
    return "\n\n".join(lines)


def _examples(*commands: str) -> str:
    return _lines("[bold]Examples[/bold]", *(f"  [cyan]{command}[/cyan]" for command in commands))


app = typer.Typer(
    name="ling",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_lines(
        "[bold]Start here[/bold]",
        "  [cyan]ling demo[/cyan]                                  see it work, in under a minute",
        "  [cyan]ling fit sales.csv --target price[/cyan]          a model of your own file",
        "  [cyan]ling predict model.ling new.csv --out out.csv[/cyan]   and predictions with it",
        "[bold]Exit codes[/bold]",
        *(f"  {code:>3}  {meaning}" for code, meaning in CODES.items()),
    ),
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ling {ling.__version__}")
        raise typer.Exit


@app.callback(help=HELP)
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """What comes before a command."""


Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A .parquet, .csv or .feather file, a folder or a 'pattern*' of them, or X.npy.",
        show_default=False,
    ),
]
Target = Annotated[
    str,
    typer.Option(
        "--target", "-t", help="The column to predict; for X.npy, the file y.npy.",
        show_default=False,
    ),
]  # fmt: skip
Names = Annotated[str | None, typer.Option(metavar="A,B,...", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all draws.")]
Features = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", help="Columns to predict from; default: all others."),
]
Drop = Annotated[str | None, typer.Option(metavar="A,B,...", help="Columns to leave out.")]
Weights = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="A column of weights for the rows.")
]
Missing = Annotated[
    str,
    typer.Option(
        metavar="error|mean",
        help="What to do about missing values: stop, or put the mean there (text: no category).",
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(metavar="1GB", help="Memory to stay within; default: a quarter of all there is."),
]
Tol = Annotated[
    float, typer.Option(min=0, help="Proven accuracy of the predictions, in spreads of the target.")
]


@app.command(
    cls=Command,
    rich_help_panel=YOURS,
    epilog=_examples(
        "ling fit sales.parquet --target price",
        "ling fit sales.csv -t price --drop id,address --missing mean --out price.ling",
        "ling fit 'parts/*.parquet' -t churned --classify --report report.html",
        "ling fit X.npy --target y.npy --alphas 0.1,1,10,100",
    ),
)
def fit(
    data: Data,
    target: Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the model.")] = Path(
        "model.ling"
    ),
    classify: Annotated[
        bool, typer.Option("--classify", help="Predict a class rather than a number.")
    ] = False,
    drop: Drop = None,
    features: Features = None,
    weights: Weights = None,
    missing: Missing = "error",
    alphas: Annotated[
        str,
        typer.Option(metavar="auto|A,B,...", help="Penalties to choose from; auto: from the data."),
    ] = "auto",
    alpha: Annotated[
        float | None, typer.Option(min=0, help="One penalty; nothing is chosen or scored then.")
    ] = None,
    cv: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    shuffle: Annotated[
        bool, typer.Option("--shuffle", help="Folds of random rows, not of rows that lie together.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML report there too.", show_default=False)
    ] = None,
    memory_budget: Budget = None,
    tol: Tol = 1e-4,
    seed: Seed = 0,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit a model to a file: understand it, choose the penalty, prove the fit, save it.

    Text columns become one column of 0 and 1 for each value. The penalty alpha is the one that
    predicts best on rows left out.
    """
    from ling.cli.fit import FitOptions, run
    from ling.cli.reading import Wanted

    if alpha is not None and alphas != "auto":
        raise typer.BadParameter("--alpha and --alphas are both given; pass one of them.")
    wanted = Wanted(
        data, target, _named(features), _named(drop) or (), weights, _one_of(missing, "missing")
    )
    options = FitOptions(
        _numbers(alphas), alpha, cv, shuffle, classify, memory_budget, tol, seed
    )
    if not run(wanted, options, out, report, Out(json, quiet)):
        raise typer.Exit(NOT_CERTIFIED)


@app.command(
    cls=Command,
    rich_help_panel=YOURS,
    epilog=_examples(
        "ling predict model.ling new.parquet --out predictions.parquet",
        "ling predict model.ling new.csv --out predictions.csv --keep id,date",
        "ling predict model.ling X.npy --out predictions.npy",
    ),
)
def predict(
    model: Annotated[Path, typer.Argument(help="A file that ling fit has written.")],
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Where to write: .parquet, .csv, .feather or .npy.",
            show_default=False,
        ),
    ],
    keep: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Columns to copy beside the predictions.")
    ] = None,
    unknown: Annotated[
        str,
        typer.Option(
            metavar="error|ignore",
            help="What to do about texts that were not there in the fit: stop, or treat as none.",
        ),
    ] = "error",
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at columns that the model does not know.")
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict with a saved model, a block of rows at a time.

    Columns are matched by name, in any order. If the target is there too, the score is told.
    """
    from ling.cli.predict import PredictOptions, run

    options = PredictOptions(
        _named(keep) or (), strict, _one_of(unknown, "unknown", ("error", "ignore"))
    )
    run(model, data, out, options, Out(json, quiet))


@app.command(
    cls=Command, rich_help_panel=YOURS, epilog=_examples("ling inspect model.ling")
)
def inspect(
    model: Annotated[Path, typer.Argument(help="A file that ling fit has written.")],
    json: Json = False,
) -> None:
    """Show what is in a model file: data, penalty, scores, proof, strongest columns.

    Model files hold numbers and text only; opening one runs nothing, whoever it is from.
    """
    from ling.cli.inspect import run

    run(model, Out(json))


@app.command(
    cls=Command,
    rich_help_panel=YOURS,
    epilog=_examples(
        "ling plan big.parquet --target price",
        "ling plan 'parts/*.parquet' -t price --memory-budget 2GB",
    ),
)
def plan(
    data: Data,
    target: Target,
    drop: Drop = None,
    features: Features = None,
    missing: Missing = "error",
    memory_budget: Budget = None,
    tol: Tol = 1e-4,
    json: Json = False,
) -> None:
    """Tell what a fit would cost, engine by engine, before any of it is done."""
    from ling.cli.plan import run
    from ling.cli.reading import Wanted

    wanted = Wanted(
        data, target, _named(features), _named(drop) or (), None, _one_of(missing, "missing")
    )
    run(wanted, memory_budget, tol, Out(json))


@app.command(
    cls=Command,
    rich_help_panel=PAPER,
    epilog=_examples("ling demo", "ling demo --rows 20000 --out /tmp/demo"),
)
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")] = Path(
        "ling-demo"
    ),
    rows: Annotated[int, typer.Option(min=200, help="Houses to fit to.")] = 200_000,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """See it work: make up a file of houses, fit, predict, and compare with scikit-learn."""
    from ling.cli.demo import run

    run(out, rows, seed, Out(json))


@app.command(
    cls=Command,
    rich_help_panel=PAPER,
    epilog=_examples("ling bench", "ling bench --data sales.parquet --target price"),
)
def bench(
    data: Annotated[
        str | None, typer.Option(help="A file instead of made-up data; read into memory.")
    ] = None,
    target: Annotated[str | None, typer.Option("--target", "-t", help="Its target.")] = None,
    drop: Drop = None,
    missing: Missing = "error",
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Time Ridge and RidgeCV beside scikit-learn's on this machine, in under a minute."""
    from ling.cli.bench import run
    from ling.cli.reading import Wanted

    if (data is None) != (target is None):
        raise typer.BadParameter("--data and --target go together; pass both or neither.")
    wanted = None
    if data is not None and target is not None:
        wanted = Wanted(
            data, target, drop=_named(drop) or (), missing=_one_of(missing, "missing")
        )
    run(wanted, seed, Out(json))


@app.command(
    cls=Command,
    rich_help_panel=PAPER,
    epilog=_examples("ling compare", "ling compare --rows 500 --columns 400"),
)
def compare(
    seed: Annotated[int, typer.Option(min=0, help="Seed of the data and of all draws.")] = 0,
    rows: Annotated[int, typer.Option(min=15, help="Rows of X.")] = 2000,
    columns: Annotated[int, typer.Option(min=15, help="Columns of X.")] = 1500,
    json: Json = False,
) -> None:
    """Compare the algorithms of the LING paper on its Model 3: ridge, PCR, GD, SVRG, LING."""
    from ling.cli.compare import run

    run(seed, rows, columns, as_json=json)


@app.command(
    cls=Command,
    rich_help_panel=PAPER,
    epilog=_examples("ling reproduce model3 --quick", "ling reproduce all"),
)
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


def _named(text: str | None) -> tuple[str, ...] | None:
    """Names of columns from a list with commas."""
    if text is None:
        return None
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _numbers(text: str) -> tuple[float, ...] | None:
    if text == "auto":
        return None
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r}: pass auto, or numbers with commas between them.", param_hint="--alphas"
        ) from None


def _one_of(text: str, name: str, choices: tuple[str, ...] = ("error", "mean")) -> str:
    if text not in choices:
        raise typer.BadParameter(
            f"{text!r} is none of {', '.join(choices)}.", param_hint=f"--{name}"
        )
    return text
