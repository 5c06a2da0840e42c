"""`--explain` on the command line."""

import dfprivacy as dfp


def test_a_target_in_place_of_epsilon(ask, folder):
    """--within explains, and spends, the least epsilon that reaches a half-width at a size."""
    call = ("mean", "flights.csv", "delay", "--bounds", "-60", "240", "--within", "2%")
    plan = dfp.frame(folder / "flights.csv").explain(
        dfp.mean("delay", (-60, 240)), within="2%", size=2000
    )
    output = ask(*call, "--size", "2000", "--explain").output
    assert f"costs     epsilon {plan.epsilon:g}" in output
    assert "delay within 2%" in output
    assert f"Spent epsilon {plan.epsilon:g};" in ask(*call, "--size", "2000").output
    for wrong, hint in ((("--epsilon", "1"), "leave --epsilon"), (("--rho", "1"), "leave --eps")):
        result = ask(*call, *wrong)
        assert (result.exit_code, hint in result.stderr) == (2, True)
    result = ask("count", "flights.csv", "--size", "10")
    assert "add --within 2%" in result.stderr


def test_a_description_reaches_half_widths_of_columns_by_name(ask, folder):
    """--within names answers of describe, and explains the loss that they take together."""
    call = ("describe", "flights.csv", "delay", "--bounds", "delay=-60,240")
    output = ask(*call, "--within", "delay mean=2,delay std=4", "--explain").stdout
    private = dfp.frame(folder / "flights.csv")(bounds={"delay": (-60, 240)})
    within = {"delay mean": 2, "delay std": 4}
    plan = private.explain.within(within, size=1000).describe(["delay"])
    assert f"costs     epsilon {plan.epsilon:g}\n" in output
    assert "delay mean within 2" in output
    released = ask(*call, "--within", "delay mean=2,delay std=4", "--output", "described.csv")
    assert f"Spent epsilon {plan.epsilon:g}" in released.stdout
    assert ask(*call, "--within", "delay mean=2", "--epsilon", "1").exit_code == 2
