"""Polars without privacy: what an answer costs at least."""

import polars as pl
from protocol import serve

CALLS = {
    "count": pl.len(),
    "sum": pl.col("x").sum(),
    "mean": pl.col("x").mean(),
    "median": pl.col("x").median(),
}


def read(question):
    return pl.read_parquet(question.file)


def answer(work):
    def ask(frame, question):
        lazy = frame.lazy()
        if question.key:
            lazy = lazy.group_by(question.key).agg(CALLS[work])
        else:
            lazy = lazy.select(CALLS[work])
        return lazy.collect(engine="streaming")

    return ask


if __name__ == "__main__":
    serve(read, {work: answer(work) for work in CALLS}, None, ["polars"])
