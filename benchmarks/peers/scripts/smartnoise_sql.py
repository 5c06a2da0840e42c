"""SmartNoise SQL on a pandas frame: what a statement costs is asked first, so that it spends 1.

`Privacy(epsilon=e)` is an epsilon for each column of noise: a grouped AVG draws three of them.
`get_privacy_cost` says what a statement would spend; epsilon is divided by that at epsilon 1.
"""

import pandas as pd
from protocol import serve
from snsql import Privacy, from_df

CALLS = {"count": "COUNT(*)", "sum": "SUM(x)", "mean": "AVG(x)"}


def read(question):
    frame = pd.read_parquet(question.file)
    return frame[[question.key, "x"]] if question.key else frame[["x"]]


def metadata(question, key, *, censor):
    table = {
        "row_privacy": True,
        "censor_dims": censor,
        "rows": question.rows,
        "x": {"type": "float", "lower": question.lower, "upper": question.upper},
    }
    return {"": {"": {"t": {**table, key: {"type": "int"}} if key else table}}}


def private_reader(frame, statement, question, described):
    def reader(epsilon):
        privacy = Privacy(epsilon=epsilon, delta=question.delta)
        return from_df(frame, metadata=described, privacy=privacy)

    cost, _ = reader(1.0).get_privacy_cost(statement)
    return reader(question.epsilon / float(cost))


def answer(work):
    def ask(frame, question):
        if work == "mean" and question.key:
            return mean_by_group(frame, question)
        key = question.key
        statement = f"SELECT {CALLS[work]} AS answer FROM t"
        if key:
            statement = f"SELECT {key}, {CALLS[work]} AS answer FROM t GROUP BY {key}"
        described = metadata(question, key, censor=bool(key))
        rows = private_reader(frame, statement, question, described).execute(statement)[1:]
        return rows if key else rows[0][0]

    return ask


def mean_by_group(frame, q):
    # region: private mean by group
    metadata = {
        "": {
            "": {
                "t": {
                    "row_privacy": True,
                    "rows": q.rows,
                    "x": {"type": "float", "lower": q.lower, "upper": q.upper},
                    q.key: {"type": "int"},
                }
            }
        }
    }
    statement = f"SELECT {q.key}, AVG(x) AS mean FROM t GROUP BY {q.key}"
    planned = from_df(frame, metadata=metadata, privacy=Privacy(epsilon=1.0, delta=q.delta))
    cost, _ = planned.get_privacy_cost(statement)
    privacy = Privacy(epsilon=q.epsilon / float(cost), delta=q.delta)
    reader = from_df(frame, metadata=metadata, privacy=privacy)
    return reader.execute(statement)[1:]
    # endregion


ASKS = {work: answer(work) for work in CALLS}


def releases(points, question, left):
    """Release copies with public keys: the same noise as one release of each alone."""
    copies = min(left, max(1, 200_000 // len(points)))
    series = pd.Series(points * copies)
    frame = pd.DataFrame({"copy": series.index // len(points), "x": series})
    statement = f"SELECT copy, {CALLS[question.work]} AS answer FROM t GROUP BY copy"
    described = metadata(question, "copy", censor=False)
    rows = private_reader(frame, statement, question, described).execute(statement)[1:]
    return [row[1] for row in rows]


if __name__ == "__main__":
    serve(read, ASKS, releases, ["smartnoise-sql", "opendp", "pandas"])
