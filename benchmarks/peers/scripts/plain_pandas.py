"""Pandas without privacy: what an answer costs at least."""

import pandas as pd
from protocol import serve


def read(question):
    return pd.read_parquet(question.file)


def answer(work):
    def ask(frame, question):
        selected = frame.groupby(question.key)["x"] if question.key else frame["x"]
        return getattr(selected, work)()

    return ask


if __name__ == "__main__":
    works = ("count", "sum", "mean", "median")
    serve(read, {work: answer(work) for work in works}, None, ["pandas"])
