"""Make the same four calls of dfprivacy on every frame."""

import duckdb
import pandas as pd

import dfprivacy as dfp


def list_asks(private, finish, mean_by_group):
    """Return one function a question; `private` is `.dp`, `finish` makes a result whole."""

    def ask(work):
        def without_key(data, q):
            return CALLS[work](private(data), q, {"epsilon": q.epsilon})

        def group_frame(data, q):
            spent = {"epsilon": q.epsilon, "delta": q.delta}
            return finish(CALLS[work](private(data).group_by(q.key), q, spent))

        def by_key(data, q):
            if not q.key:
                return without_key(data, q)
            return mean_by_group(data, q) if work == "mean" else group_frame(data, q)

        return by_key

    return {work: ask(work) for work in CALLS}


CALLS = {
    "count": lambda frame, _, spent: frame.count(**spent),
    "sum": lambda frame, q, spent: frame.sum("x", bounds=(q.lower, q.upper), **spent),
    "mean": lambda frame, q, spent: frame.mean("x", bounds=(q.lower, q.upper), **spent),
    "median": lambda frame, _, spent: frame.median("x", **spent),
}


def copies(points, q, left):
    """Release copies with public keys: the same noise as one release of each alone."""
    number = min(left, max(1, 50_000_000 // len(points)))
    con = duckdb.connect()
    con.register("points", pd.DataFrame({"x": points}))
    relation = con.sql(f"SELECT copy, x FROM range({number}) AS r(copy), points")
    grouped = dfp.frame(relation).group_by("copy", keys=range(number))
    table = CALLS[q.work](grouped, q, {"epsilon": q.epsilon}).to_arrow_table()
    return table.column(1).to_pylist()
