"""The settings of Aumueller et al. 2023: Gaussian A, B and C, and Binary."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.vector_methods import DATA, HUANG, Gaussian, plan, plan_items
from benchmarks.vector_report import draw, find_value, report

# Medians of the authors' published runs: PLAN, then instance-optimal mean estimation.
PLAN_A = {(0.5, 128): (0.205, 0.200), (0.5, 512): (0.510, 0.475), (0.125, 128): (0.263, 0.241)}
PLAN_B = {
    0: (0.472, 0.422),
    0.5: (0.633, 0.588),
    1: (1.05, 1.23),
    1.5: (2.41, 4.04),
    2: (7.37, 16.9),
}
PLAN_C = {
    16: (0.167, 0.180),
    64: (0.655, 0.817),
    256: (3.13, 5.11),
    512: (6.14, 12.9),
    1024: (13.0, 34.3),
}
PLAN_BINARY = {
    0: (3.32, 3.63),
    0.25: (7.90, 10.3),
    0.5: (11.9, 14.0),
    0.75: (16.0, 17.0),
    1: (20.3, 19.5),
}


def compare(data: Gaussian, radius: float, rho: Fraction, trials: int, *, to_sample: bool) -> dict:
    figures: dict[str, list[float]] = {"non-private": []}
    for _ in range(trials):
        x = data.draw()
        mean = x.mean(axis=0)
        figures["non-private"].append(float(np.linalg.norm(mean - data.mu)))
        for neighbors in ("replace", "add-remove"):
            for name in ("plan", "shifted", "recentered"):
                key = f"{name}, {neighbors}"
                if name == "plan":
                    result = plan(neighbors)(x, radius, rho)
                    value, noise = result.value(), np.linalg.norm(result.standard_error())
                    figures.setdefault(f"plan's own noise, {neighbors}", []).append(float(noise))
                else:
                    value = HUANG[key](x, radius, rho)
                figures.setdefault(key, []).append(float(np.linalg.norm(value - data.mu)))
                if to_sample:
                    figures.setdefault(f"{key}, to sample", []).append(
                        float(np.linalg.norm(value - mean))
                    )
    medians = {key: float(np.median(values)) for key, values in figures.items()}
    for key in ("plan, replace", "recentered, replace", "recentered, add-remove"):
        medians[f"{key}: ran off"] = float(np.sum(np.array(figures[key]) > 10 * medians[key]))
    return medians


def add_published(values: dict[str, float], published: tuple[float, float]) -> dict[str, float]:
    return {**values, "authors' PLAN": published[0], "authors' IOME": published[1]}


def plan_paper(trials: int, output: Path) -> bool:
    a = [
        (
            f"rho={rho}, d={d}",
            add_published(
                compare(
                    Gaussian(4000, 0, np.ones(d)),
                    25 * d**0.5,
                    Fraction(rho),
                    trials,
                    to_sample=False,
                ),
                published,
            ),
        )
        for (rho, d), published in PLAN_A.items()
    ]
    b = []
    for skew, published in PLAN_B.items():
        sigma = (512 / np.arange(1, 513)) ** (skew / 2)
        data = Gaussian(10000, 10, sigma)
        values = compare(
            data, 50 * 512 * sigma.max() ** 0.5, Fraction(1, 16), trials, to_sample=False
        )
        b.append((f"a={skew}", add_published(values, published)))
    c = []
    for d, published in PLAN_C.items():
        sigma = d / np.arange(1, d + 1)
        data = Gaussian(10000, 10, sigma)
        values = compare(data, 50 * d * sigma.max() ** 0.5, Fraction(1, 8), trials, to_sample=True)
        c.append((f"d={d}", add_published(values, published)))
    binary = []
    for part, published in PLAN_BINARY.items():
        p = np.where(np.arange(2048) < part * 2048, 0.5, 0.01)
        values: dict[str, float] = {"non-private": 0.0}
        for _ in range(trials):
            x = DATA.random((4096, 2048)) < p
            values["non-private"] += float(np.abs(x.mean(axis=0) - p).sum()) / 2 / trials
            for neighbors in ("replace", "add-remove"):
                value = plan_items(x, Fraction(1, 4), neighbors).value()
                key = f"plan, {neighbors}"
                values[key] = values.get(key, 0) + float(np.abs(value - p).sum()) / 2 / trials
        binary.append((f"r={part}", add_published(values, published)))
    measure = f"Medians of {trials} trials; l2 error; Binary: means, half of l1."
    title = f"# Aumueller et al. 2023\n\n{measure}\n\n"
    texts = [
        report("Gaussian A: no skew, n = 4000", a),
        report("Gaussian B: n = 10000, d = 512, rho = 1/16", b),
        report("Gaussian C: n = 10000, a = 2, rho = 1/8", c),
        report("Binary: n = 4096, d = 2048, rho = 1/4", binary),
    ]
    draw(
        output / "vectors_plan.png",
        {"Gaussian B": b, "Gaussian C": c, "Binary": binary},
        find_value,
        xlabel="skew a; d; part r",
        log2=False,
        leave_out=("own noise", "to sample", "ran off"),
    )
    good, notes = True, []
    for name, rows in (("A", a), ("B", b), ("C", c), ("Binary", binary)):
        for label, values in rows:
            ratio = values["plan, replace"] / values["authors' PLAN"]
            notes.append(f"{name}, {label}: plan {ratio:.2f} times the authors' error")
            for key in (key for key in values if key.endswith(": ran off") and values[key]):
                runs = f"{values[key]:.0f} of {trials} runs"
                notes.append(f"{name}, {label}: {key} in {runs}: over ten times the median error")
                good &= not key.startswith("recentered")
            if "plan, replace, to sample" in values:
                excess = values["plan, replace, to sample"] / values["plan's own noise, replace"]
                good &= excess <= 1.2
                notes.append(
                    f"{name}, {label}: error to the sample {excess:.2f} times the prediction"
                )
    skewed = dict(b)["a=2"]
    gain = (
        skewed["shifted, replace"] / skewed["plan, replace"],
        skewed["authors' IOME"] / skewed["authors' PLAN"],
    )
    good &= gain[0] >= gain[1]
    notes.append(f"B, a = 2: shifted over plan {gain[0]:.2f}, in the authors' runs {gain[1]:.2f}")
    body = "\n".join(texts) + "\n## Targets\n\n" + "\n".join(f"- {n}" for n in notes) + "\n"
    (output / "vectors_plan.md").write_text(title + body)
    print("\n".join(notes))
    return good
