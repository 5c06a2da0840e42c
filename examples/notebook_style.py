"""A first look at survey data in a notebook, with pandas and with polars.

Run it with `python examples/notebook_style.py`. The people in it are made up.
"""

import numpy as np
import pandas as pd
import polars as pl

import dfprivacy as dfp


def made_up_survey(people: int = 50_000) -> pd.DataFrame:
    """Return one row a person: city, age and yearly income."""
    dice = np.random.default_rng(2026)
    cities = ["Aarhus", "Bergen", "Turku", "Visby"]
    survey = pd.DataFrame(
        {
            "city": dice.choice(cities, people, p=[0.5, 0.3, 0.195, 0.005]),
            "age": dice.integers(18, 90, people),
            "income": dice.lognormal(10.4, 0.5, people).round(2),
        }
    )
    hermit = pd.DataFrame({"city": ["Tiny Island"], "age": [71], "income": [9e6]})
    return pd.concat([survey, hermit], ignore_index=True)


survey = made_up_survey()

# One number. The bounds are what you know before you look: incomes are not negative, and whatever
# lies above 200,000 counts as 200,000. Never take them from the data (no .min(), no .max()).
INCOME = (0, 200_000)
mean = survey.dp.mean("income", bounds=INCOME, epsilon=0.5)
print("1. The mean income, as an object that shows itself:")
print(f"   {mean!r}")

# It is a float, and it knows how wrong it may be: the noise moves it out of this interval one time
# in twenty. The interval is public too; it was computed from the noisy answer.
low, high = mean.interval(0.95)
print(f"   between {low:,.0f} and {high:,.0f} without the noise, at 95%")
print(f"   as a plain number: {mean:,.0f}; it has cost epsilon {mean.epsilon}")

# Without bounds they are found privately first: powers of two that hold nearly all incomes. That
# costs a part of epsilon; it is for columns of which you know nothing.
unbounded = survey.dp.mean("income", epsilon=0.5)
print("\n2. The same without bounds, and two quantiles:")
print(f"   {unbounded!r}")
print(f"   values were clipped to {unbounded.bounds}")

# The median and other quantiles need no bounds, and a hermit with 9 million moves them no further
# than anybody else. They are chosen, not computed with noise: they have no interval.
median, rich = survey.dp.quantiles("income", [0.5, 0.9], epsilon=0.5)
print(f"   median {median:,.0f}, nine in ten have at most {rich:,.0f}, at epsilon {median.epsilon}")

# A histogram is a frame with one row a bin. One row of data is in one bin, so that all bins
# together cost what one would.
print("\n3. How the incomes are spread:")
print(survey.dp.histogram("income", [0, 20_000, 40_000, 80_000, 200_000], epsilon=0.5))

# By group. Which cities are in the data is secret as well: a city with one inhabitant would give
# that person away. So a delta is needed, and only cities with enough people come out.
print("\n4. By city, with secret keys: Tiny Island has one inhabitant and stays out")
print(survey.dp.group_by("city").mean("income", bounds=INCOME, epsilon=1, delta=1e-6))

# If the list of groups is public (all cities of the survey's plan), name it: no delta is needed,
# exactly these groups come out, and one that nobody answered from comes out with noise alone: its
# interval then is as wide as the bounds.
print("\n5. By city, with public keys: Narvik was in the plan, but nobody answered")
plan = ["Aarhus", "Bergen", "Narvik"]
print(survey.dp.group_by("city", keys=plan).mean("income", bounds=INCOME, epsilon=1))

# Several questions under one epsilon. Questions about one column share their noise: the variance
# brings the mean with it for nothing.
print("\n6. Mean and standard deviation of age, and a count, under one epsilon:")
answers = survey.dp.agg(
    mean_age=dfp.mean("age", (18, 100)),
    spread=dfp.std("age", (18, 100)),
    people=dfp.count(),
    epsilon=1,
)
for name, answer in answers.items():
    print(f"   {name:<8} {answer:10.2f}  in [{answer.low:.2f}, {answer.high:.2f}]")

# A single Series works too, and so does rho (zero-concentrated privacy, Gaussian noise): many
# releases add up more cheaply in rho than in epsilon.
print("\n7. A Series, with rho in place of epsilon:")
print(f"   {survey['age'].dp.mean(bounds=(18, 100), rho=0.1)!r}")
print(f"   {survey['age'].dp.median(rho=0.1)!r}")

# polars: the same words; the answer is a polars frame. A LazyFrame streams.
print("\n8. polars, on a lazy frame:")
lazy = pl.from_pandas(survey).lazy()
by_city = lazy.dp.group_by("city").mean("income", bounds=INCOME, epsilon=1, delta=1e-6).collect()
for city, income, city_low, city_high, _, count in by_city.iter_rows():
    print(
        f"   {city:<7} {income:10,.0f}  in [{city_low:8,.0f}, {city_high:8,.0f}]  {count:6,} people"
    )
