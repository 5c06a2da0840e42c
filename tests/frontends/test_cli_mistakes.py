"""A mistake ends with one message and a hint, and leaves old files as they were."""

import pytest

BOUNDS = ["--bounds", "-60", "240"]
COV_BOUNDS = ["--x-bounds", "0", "9", "--y-bounds", "0", "9"]


@pytest.fixture
def run(ask):
    """Run the command line in the folder of the flights, at 80 columns."""
    return ask


@pytest.mark.parametrize(
    "wrong", [["--delta", "2"], ["--interval", "7"], ["--by", "nothing"], ["--epsilon", "0"]]
)
def test_error_writes_nothing(run, tmp_path, wrong):
    """A call that fails leaves an old output file as it was."""
    target = tmp_path / "old.csv"
    target.write_text("old")
    result = run(
        "count", "flights.csv", "--by", "carrier", "--delta", "1e-6", *wrong,
        "--output", str(target),
    )  # fmt: skip
    assert result.exit_code == 2
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


MISTAKES = [
    (
        ["count", "flight.csv"],
        "there is no file 'flight.csv'",
        "check the path",
    ),
    (
        ["count", "flights.csv", "--by", "carrier"],
        "group keys are secret, and showing them needs a delta",
        "add --delta 1e-6, or list keys that are public anyway: --keys AA --keys UA",
    ),
    (
        ["count", "flights.parquet", "--by", "month", "--keys", "AA"],
        "a key does not fit column 'month', which is declared int64",
        "give --keys that can be read as int64",
    ),
    (
        ["cov", "flights.csv", "delay", "month", *COV_BOUNDS, "--within", "2%"],
        "'cov' has nothing that a half-width could be a percentage of",
        "name it in units of 'delay' times units of 'month': --within 0.1",
    ),
    (
        ["bounds", "flights.csv", "delay", "--within", "2"],
        "'delay' has no half-width before there is data: none can be a target",
        "name one that matters, --within NAME=2%, or --epsilon",
    ),
    (
        ["count", "flights.csv", "--keys", "AA"],
        "--keys need a column to group by",
        "add --by COLUMN",
    ),
    (
        ["mean", "flights.csv", "delay", "--method", "shifted"],
        "mean needs the bounds of column 'delay'",
        (
            "add bounds that you know without looking at the data, e.g. --bounds 0 100, "
            "of two columns --x-bounds 0 100 --y-bounds 0 100; a mean has methods that find "
            "them: transformed, subset, dick, inverse"
        ),
    ),
    (
        ["mean", "flights.csv", "delay", *BOUNDS, "--method", "subset"],
        "the method 'subset' finds its own bounds",
        "leave --bounds out",
    ),
    (
        ["sum", "flights.csv", "delays", "--bounds", "0", "1"],
        "the frame has no column 'delays'",
        "did you mean 'delay'? its columns are 'carrier', 'month', 'day', 'delay'",
    ),
    (
        ["sum", "flights.parquet", "carrier", "--bounds", "0", "1"],
        "column 'carrier' is declared String, which holds no numbers",
        "convert it to an integer, float, decimal or boolean column first",
    ),
    (
        ["mean", "flights.csv", "delay", "--bounds", "240", "-60"],
        "bounds must be ordered: 240.0 is not below -60.0",
        (
            "pass (lower, upper): two numbers that you know without looking at the data, "
            "e.g. --bounds 0 100"
        ),
    ),
    (
        ["mean", "flights.csv", "delay", *BOUNDS, "--method", "best"],
        "mean has no such method",
        "choose one of 'transformed', 'shifted', 'independent', 'subset', 'dick', 'inverse'",
    ),
    (
        ["mean", "flights.csv", "delay", *BOUNDS, "--output", "delays.xlsx"],
        "the output file can't end in '.xlsx'",
        "name a file that ends in .csv, .parquet or .json",
    ),
    (
        ["var", "flights.csv", "delay", *BOUNDS, "--epsilon", "1", "--rho", "1"],
        "epsilon and rho were both given",
        "name one: --epsilon 1.0 for pure privacy, --rho 0.5 for zero-concentrated privacy",
    ),
    (
        ["var", "flights.csv", "delay", *BOUNDS, "--epsilon", "0"],
        "epsilon must be a positive, finite number, not 0.0",
        "pass a number such as --epsilon 1.0",
    ),
    (
        ["var", "flights.xlsx", "delay", *BOUNDS],
        "the file name ends in '.xlsx'",
        "pass a .csv, .tsv or .parquet file, or a folder of such files",
    ),
    (
        ["std", "flights.csv", "delay", *BOUNDS, "--interval", "95"],
        "an interval's level must lie between 0 and 1, not 95.0",
        "pass --interval 0.95",
    ),
    (
        ["std", "flights.csv", "delay", *BOUNDS, "--output", "flights.csv"],
        "the output is the file that is read",
        "write to another file",
    ),
    (
        ["std", "broken.parquet", "delay", *BOUNDS],
        "'broken.parquet' can't be opened as what its name says",
        "check the path, that you may read it, and that it is whole",
    ),
    (
        ["mean", "delay", "flights.csv"],
        "there is no folder 'delay'",
        "pass a .csv, .tsv or .parquet file, or a folder of such files",
    ),
    (
        ["agg", "flights.csv"],
        "no question was asked",
        "ask at least one, e.g. --count --mean delay",
    ),
    (
        ["share", "flights.csv", "carrier"],
        "column 'carrier' is declared string, and True is no value of it",
        "name a constant of the column's own type: --value JFK, --value 3",
    ),
]


@pytest.mark.parametrize(("args", "error", "hint"), MISTAKES)
def test_beginners_mistakes(run, args, error, hint):
    """A mistake gives exit code 2 and one message with a hint on stderr, nothing on stdout."""
    result = run(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: {error}\nHint: {hint}\n"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["mean", "flights.csv"], "Missing argument 'COLUMN'"),
        (["mean", "flights.csv", "delay", "--bounds", "0"], "'--bounds' requires 2 arguments"),
        (["modus", "flights.csv"], "No such command 'modus'"),
    ],
)
def test_usage_mistakes(run, args, words):
    """A call that can't be parsed says so, with exit code 2."""
    result = run(*args)
    assert result.exit_code == 2
    assert words in result.stderr
