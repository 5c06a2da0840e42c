"""dfprivacy on a pandas frame."""

import pandas as pd
from ours import copies, list_asks
from protocol import serve

import dfprivacy  # noqa: F401  # registers .dp


def read(question):
    return pd.read_parquet(question.file)


def mean_by_group(frame, q):
    # region: private mean by group
    grouped = frame.dp.group_by(q.key)
    return grouped.mean("x", bounds=(q.lower, q.upper), epsilon=q.epsilon, delta=q.delta)
    # endregion


if __name__ == "__main__":
    asks = list_asks(lambda frame: frame.dp, lambda frame: frame, mean_by_group)
    serve(read, asks, copies, ["dfprivacy", "pandas", "duckdb"])
