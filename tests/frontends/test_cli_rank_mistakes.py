import pytest

PICK = "pass --q 0.5 for the median, --q 0.9 for the value that one row in ten exceeds"
EDGES = "pass --edge 0 --edge 10 --edge 100, or --bins 10 with --bounds 0 100"
MISTAKES = [
    (
        ["quantile", "flights.csv", "delay", "--q", "1.5"],
        "a quantile must be a number from 0 to 1, not 1.5",
        PICK,
    ),
    (
        ["quantiles", "flights.csv", "delay", "--q", "0.5", "--q", "-1"],
        "a quantile must be a number from 0 to 1, not -1.0",
        PICK,
    ),
    (
        ["quantiles", "flights.csv", "delay", "--q", "0.5", "--q", "0.5"],
        "a quantile is asked for twice",
        "list each number once",
    ),
    (
        ["center", "flights.csv", "delay", "--p", "1"],
        "the p of a center must be a number above 1, up to 64, not 1.0",
        (
            "pass --p 2 for the mean, --p 1.5 for a center that outliers move less; ask for the "
            "median where p would be 1"
        ),
    ),
    (
        ["bounds", "flights.csv", "delay", "--rank", "0"],
        "a rank must be a whole number of rows, from 1 on, not 0",
        "pass e.g. --rank 100, chosen without looking at the data",
    ),
    (
        ["histogram", "flights.csv", "delay"],
        "a histogram needs either a number of bins or the edges of its bins",
        "add --bins 10, or --edge 0 --edge 10 --edge 100",
    ),
    (
        ["histogram", "flights.csv", "delay", "--bins", "3", "--edge", "1"],
        "a histogram needs either a number of bins or the edges of its bins",
        "add --bins 10, or --edge 0 --edge 10 --edge 100",
    ),
    (
        ["histogram", "flights.csv", "delay", "--edge", "1", "--edge", "2", "--bounds", "0", "9"],
        "edges and bounds were both given",
        "leave --bounds out: the edges are the bounds",
    ),
    (
        ["histogram", "flights.csv", "delay", "--edge", "1"],
        "a histogram needs two edges or more, finite numbers of size up to 2**126",
        EDGES,
    ),
    (
        ["histogram", "flights.csv", "delay", "--edge", "9", "--edge", "1"],
        "the edges of a histogram must ascend",
        EDGES,
    ),
    (
        ["histogram", "flights.csv", "delay", "--bins", "0"],
        "the number of bins must be from 1 to 10,000",
        EDGES,
    ),
    (
        ["median", "flights.csv", "delay", "--method", "best"],
        "median has no such method",
        "choose one of 'selection', 'inverse'",
    ),
    (
        ["median", "flights.csv", "delay", "--by", "carrier"],
        "group keys are secret, and showing them needs a delta",
        "add --delta 1e-6, or list keys that are public anyway: --keys AA --keys UA",
    ),
    (
        ["bounds", "flights.csv", "delays"],
        "the frame has no column 'delays'",
        "did you mean 'delay'? its columns are 'carrier', 'month', 'day', 'delay'",
    ),
]


@pytest.mark.parametrize(("args", "error", "hint"), MISTAKES)
def test_beginners_mistakes(ask, args, error, hint):
    """A mistake gives exit code 2 and one message with a hint on stderr, nothing on stdout."""
    result = ask(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: {error}\nHint: {hint}\n"


@pytest.mark.parametrize("name", ["median", "bounds"])
def test_text_column(ask, name):
    """A column that is declared as text can't be ranked."""
    result = ask(name, "flights.parquet", "carrier")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: column 'carrier' is declared String")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["quantile", "flights.csv", "delay"], "Missing option '--q'"),
        (["quantiles", "flights.csv", "delay"], "Missing option '--q'"),
        (["center", "flights.csv", "delay"], "Missing option '--p'"),
        (["center", "flights.csv", "delay", "--interval", "0.9"], "No such option: --interval"),
        (["bounds", "flights.csv", "delay", "--rank", "1.5"], "Invalid value for '--rank'"),
    ],
)
def test_usage_mistakes(ask, args, words):
    """A call that can't be parsed says so, with exit code 2."""
    result = ask(*args)
    assert result.exit_code == 2
    assert words in result.stderr
