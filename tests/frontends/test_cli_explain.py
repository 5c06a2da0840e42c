"""`--explain` on the command line."""

from __future__ import annotations

import pytest

import dfprivacy as dfp

CALLS = [
    ("count",),
    ("sum", "delay", "--bounds", "-60", "240"),
    ("mean", "delay", "--by", "carrier", "--delta", "1e-6"),
    ("mean", "delay", "--by", "carrier", "--by", "month", "--keys", "AA,1", "--bounds", "0", "9"),
    ("var", "delay", "--bounds", "-60", "240"),
    ("std", "delay", "--epsilon", "2"),
    ("median", "delay"),
    ("quantile", "delay", "--q", "0.9", "--by", "carrier", "--delta", "1e-6"),
    ("quantiles", "delay", "--q", "0.1", "--q", "0.9"),
    ("center", "delay", "--p", "1.5"),
    ("bounds", "delay"),
    ("histogram", "delay", "--bins", "5"),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call[0])
def test_every_release_is_explained(call, ask, folder):
    """Every command explains itself, of a file that is not there too, and charges no ledger."""
    ledger = dfp.Ledger(folder / "explained.db", epsilon=5, delta=1e-3)
    account = ("--ledger", "explained.db", "--dataset", "d")
    result = ask(call[0], "nowhere.csv", *call[1:], *account, "--explain")
    assert result.exit_code == 0, result.output
    assert "costs     epsilon" in result.output
    assert ledger.datasets() == []


def test_mistakes_are_told(ask):
    """What the call would be refused for, its explanation is refused for."""
    result = ask("mean", "nowhere.csv", "delay", "--by", "carrier", "--explain")
    assert result.exit_code == 2
    assert "--delta" in result.output
    result = ask("mean", "nowhere.csv", "delay", "--keys", "AA", "--explain")
    assert "--by COLUMN" in result.output
    result = ask("count", "nowhere.csv", "--by", "a", "--by", "b", "--keys", "AA", "--explain")
    assert "each of --keys must have 2 parts, for a, b" in result.output


def test_a_target_in_place_of_epsilon(ask, folder):
    """--within explains, and spends, the least epsilon that reaches a half-width at a size."""
    call = ("mean", "flights.csv", "delay", "--bounds", "-60", "240", "--within", "2%")
    plan = dfp.frame(folder / "flights.csv").explain(
        dfp.mean("delay", (-60, 240)), within="2%", size=2000
    )
    told = ask(*call, "--size", "2000", "--explain").output
    assert f"costs     epsilon {plan.epsilon:g}" in told
    assert "delay within 2%" in told
    assert f"Spent epsilon {plan.epsilon:g};" in ask(*call, "--size", "2000").output
    for wrong, hint in ((("--epsilon", "1"), "leave --epsilon"), (("--rho", "1"), "leave --eps")):
        result = ask(*call, *wrong)
        assert (result.exit_code, hint in result.stderr) == (2, True)
    result = ask("count", "flights.csv", "--size", "10")
    assert "add --within 2%" in result.stderr


def test_a_description_reaches_half_widths_of_columns_by_name(ask, folder):
    """--within names answers of describe, and explains the loss that they take together."""
    call = ("describe", "flights.csv", "delay", "--bounds", "delay=-60,240")
    told = ask(*call, "--within", "delay mean=2,delay std=4", "--explain").stdout
    private = dfp.frame(folder / "flights.csv")(bounds={"delay": (-60, 240)})
    within = {"delay mean": 2, "delay std": 4}
    plan = private.explain.within(within, size=1000).describe(["delay"])
    assert f"costs     epsilon {plan.epsilon:g}\n" in told
    assert "delay mean within 2" in told
    released = ask(*call, "--within", "delay mean=2,delay std=4", "--output", "described.csv")
    assert f"Spent epsilon {plan.epsilon:g}" in released.stdout
    assert ask(*call, "--within", "delay mean=2", "--epsilon", "1").exit_code == 2
