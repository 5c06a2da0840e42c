"""A mistake on the command line ends with one message and a hint, and costs nothing."""

import shlex

import pytest

import dfprivacy as dfp
from tests.command_line import command

BOUNDS = "--bounds -60 240"
ACCOUNT = "--ledger budget.db --dataset flights"
MISTAKES = {
    "count flight.csv": ("no file 'flight.csv'", "check the path"),
    "count flights.csv --by carrier": ("secret", "--delta 1e-6, or list keys"),
    "median flights.csv delay --by carrier": ("secret", "--delta 1e-6, or list keys"),
    "mean nowhere.csv delay --by carrier --explain": ("secret", "--delta 1e-6"),
    "count flights.parquet --by month --keys AA": ("'month', which is declared int64", "--keys"),
    "count flights.parquet --by month --keys=1.5": ("'month', which is declared int64", "--keys"),
    "count flights.parquet --by month --keys=": ("'month', which is declared int64", "--keys"),
    f"count flights.parquet --by month --keys={10**20 - 1}": ("'month'", "--keys"),
    "count flights.csv --by a --by b --keys AA --explain": ("2 parts, for a, b", ""),
    "sql 'SELECT count(*) FROM t JOIN s USING (a)' --table t=flights.csv --table s=flights.csv": (
        "whose rows",
        "--schema FILE, a YAML file of unit, links and public tables",
    ),
    "count flights.csv --keys AA": ("--keys need a column", "add --by COLUMN"),
    "cov flights.csv delay month --x-bounds 0 9 --y-bounds 0 9 --within 2%": ("'cov'", "--within"),
    "bounds flights.csv delay --within 2": ("'delay' has no half-width", "or --epsilon"),
    "shifted_mean flights.csv delay": ("bounds of column 'delay'", "--bounds 0 100"),
    "mean flights.csv delay --method subset": ("--method", "subset_mean"),
    "median flights.csv delay --method inverse": ("--method", "inverse_quantile"),
    f"sum flights.csv delays {BOUNDS}": ("no column 'delays'", "did you mean 'delay'?"),
    "bounds flights.csv delays": ("no column 'delays'", "did you mean 'delay'?"),
    f"sum flights.parquet carrier {BOUNDS}": ("'carrier' is declared String", "convert it"),
    "median flights.parquet carrier": ("'carrier' is declared String", ""),
    "mean flights.csv delay --bounds 240 -60": ("240.0 is not below -60.0", "--bounds 0 100"),
    f"mean flights.csv delay {BOUNDS} --output delays.xlsx": ("'.xlsx'", ".csv, .parquet or .json"),
    f"std flights.csv delay {BOUNDS} --output flights.csv": ("the file that is read", "another"),
    "count flights.csv --output none/x.csv": ("no directory 'none'", "create it first"),
    "count flights.parquet --encoding latin-1": ("encoding is for CSV", "name a text file"),
    "sql 'SELECT dp_count(*) FROM t' --table t=flights.parquet --encoding latin-1": ("CSV", "text"),
    "count flights.csv --timezone Nowhere/Land": ("there is no time zone 'Nowhere/Land'", ""),
    "count flights.csv --timezone Nowhere/Land --explain": ("there is no time zone", ""),
    "sql 'SELECT dp_count(*) FROM t' --table t=flights.csv --timezone Nowhere/Land": ("zone", ""),
    "sql 'SELECT * FROM t' --table t=flights.csv": (
        "rows as they are",
        "name what is to be released",
    ),
    "sql 'SELECT dp_count(*) FROM t' --table t": ("--table names", "--table flights="),
    "sql 'SELECT dp_count(*) FROM t' --table t=flights.csv --table t=flights.tsv": (
        "own",
        "--table",
    ),
    "sql 'SELECT dp_count(*) FROM t' --table t=flights.csv --database flights.duckdb": (
        "or one",
        "or --",
    ),
    "sql 'SELECT month, dp_count() FROM t GROUP BY month' --table t=flights.csv --keys 1,2": (
        "does not fit the group column",
        "list keys",
    ),
    "sql 'SELECT dp_count(*) FROM t'": ("--table names", "--table flights="),
    "crosstab no.csv carrier month --values delay --aggregate median --margins --delta 1e-6": (
        "totals can't be read off",
        "",
    ),
    "var flights.csv delay --epsilon 1 --rho 1": ("epsilon and rho", "--rho 0.5"),
    "var flights.csv delay --epsilon 0": ("epsilon must be a positive", "--epsilon 1.0"),
    "var flights.xlsx delay": ("'.xlsx'", "or a folder"),
    "std broken.parquet delay": ("'broken.parquet' can't be opened", "whole"),
    "std flights.csv delay --interval 95": ("between 0 and 1, not 95.0", "--interval 0.95"),
    "mean delay flights.csv": ("no folder 'delay'", "pass a .csv"),
    "agg flights.csv": ("no question", "--count --mean delay"),
    "share flights.csv carrier": ("True is no value", "--value JFK"),
    "quantile flights.csv delay --q 1.5": ("from 0 to 1, not 1.5", "--q 0.5"),
    "quantiles flights.csv delay --q 0.5 --q -1": ("from 0 to 1, not -1.0", "--q 0.5"),
    "quantiles flights.csv delay --q 0.5 --q 0.5": ("twice", "once"),
    "center flights.csv delay --p 1": ("above 1, up to 64, not 1.0", "--p 2 for the mean"),
    "bounds flights.csv delay --rank 0": ("from 1 on, not 0", "--rank 100"),
    "histogram flights.csv delay": ("either bins or edges", "--bins 10, or --edge 0"),
    "histogram flights.csv delay --bins 3 --edge 1": (
        "either bins or edges",
        "--bins 10, or --edge",
    ),
    "histogram flights.csv delay --edge 1 --edge 2 --bounds 0 9": (
        "takes no bounds",
        "leave --bounds out",
    ),
    "histogram flights.csv delay --edge 1": ("two edges or more", "--edge 0 --edge 10"),
    "histogram flights.csv delay --edge 9 --edge 1": ("must ascend", "--edge 0 --edge 10"),
    "histogram flights.csv delay --bins 0": ("from 1 to 10,000", "or --bins 10"),
    "count flights.csv --max-rows 3": ("no unit was named", "--unit user_id"),
    "count flights.csv --unit visitor --max-rows 3": ("no column 'visitor'", "its columns"),
    "describe flights.csv --unit carrier": ("how many rows of a unit", "pass --max-rows 5"),
    "count flights.parquet --memory much": ("memory", ""),
    "count flights.parquet --threads 0": ("threads", ""),
    "count flights.parquet --temporary no/such/place": ("temporary", ""),
    "count flights.csv --ledger budget.db": ("no dataset was named", ACCOUNT),
    "count flights.csv --dataset flights": ("no ledger", ACCOUNT),
    "count flights.csv --ledger no.db --dataset flights": ("/no.db' does not exist", "create FILE"),
    f"count flights.csv --rho 1 {ACCOUNT}": ("in rho", "--epsilon 0.5"),
    "count flights.csv --ledger flights.csv --dataset f": ("is not a ledger", "ledger create"),
    "ledger create budget.db --epsilon 10": ("a file 'budget.db' already", "ledger show budget.db"),
    "ledger create new.db --delta 1e-6": ("needs a budget", "add --epsilon 10 --delta 1e-6"),
    "ledger create new.db --epsilon 0": ("epsilon must be a positive", "--epsilon 1.0"),
    "ledger show no.db": ("/no.db' does not exist", "ledger create FILE --epsilon 10"),
    "avg f.csv": ("No such command 'avg'", "write dfprivacy mean"),
    "meen f.csv": ("No such command 'meen'", "write dfprivacy mean"),
    "xyzzy": ("No such command 'xyzzy'", "dfprivacy --help lists its options"),
    "ledger creat": ("No such command 'creat'", "write dfprivacy ledger create, or"),
    "pivot f.csv": ("'pivot'", "write dfprivacy crosstab"),
    "mean f.csv": ("Missing argument 'COLUMN'", "dfprivacy mean --help lists"),
    "quantile f.csv x": ("Missing option '--q'", "dfprivacy quantile --help"),
    "center f.csv x --p 2 --interval 0.9": ("--interval", "dfprivacy center --help"),
    "count f.csv --epsilom 1": ("--epsilom", "dfprivacy count --help"),
    "count f.csv --epsilon x": ("'--epsilon': this is not a valid number.", "count --help"),
    "mean f.csv x --bounds 0": ("'--bounds' requires 2 arguments", "two numbers with a space"),
}
"""A call, the words that its message holds, and those that its hint holds."""


@pytest.mark.sample(99)
@pytest.mark.parametrize("call", MISTAKES)
def test_a_mistake_has_a_message_and_a_hint_and_costs_nothing(ask, tmp_path, call):
    """The message names the mistake, the hint what to type. No file and no charge is written."""
    ledger = dfp.Ledger(tmp_path / "budget.db", epsilon=10, delta=1e-6)
    words = [word.replace("budget.db", str(tmp_path / "budget.db")) for word in shlex.split(call)]
    result = ask(*(word.replace("new.db", str(tmp_path / "new.db")) for word in words))
    assert (result.exit_code, result.stdout) == (2, "")
    message, hint = result.stderr.replace(f"{tmp_path}/", "").splitlines()
    assert message.startswith("Error: ")
    assert hint.startswith("Hint: ")
    assert "dfp." not in hint
    named, advised = MISTAKES[call]
    assert named in message
    assert advised in hint
    assert ledger.datasets() == []
    assert not list(tmp_path.glob("new.db*"))


@pytest.mark.parametrize("args", [[], ["ledger"]])
def test_no_command_shows_the_help_once(args):
    """Without a command there is the help, once, and no message."""
    result = command(*args)
    assert result.exit_code == 2
    assert result.output.count("Usage:") == 1
    assert "Error" not in result.output
