"""dfprivacy on a polars frame."""

import polars as pl
from ours import copies, list_asks
from protocol import serve

import dfprivacy  # noqa: F401  # registers .dp


def read(question):
    return pl.read_parquet(question.file)


def mean_by_group(frame, q):
    # region: private mean by group
    grouped = frame.dp.group_by(q.key)
    return grouped.mean("x", bounds=(q.lower, q.upper), epsilon=q.epsilon, delta=q.delta)
    # endregion


if __name__ == "__main__":
    asks = list_asks(lambda frame: frame.dp, lambda frame: frame, mean_by_group)
    serve(read, asks, copies, ["dfprivacy", "polars"])
