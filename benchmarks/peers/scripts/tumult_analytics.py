"""Tumult Analytics on a local Spark: keys secret by its automatic selection of groups."""

import pandas as pd
from protocol import serve
from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddOneRow,
    ApproxDPBudget,
    KeySet,
    PureDPBudget,
    QueryBuilder,
    Session,
)
from tmlt.analytics.config import config

config.features.auto_partition_selection.enable()


def spark():
    builder = SparkSession.builder.config("spark.sql.shuffle.partitions", "2")
    return builder.config("spark.driver.memory", "4g").getOrCreate()


def read(question):
    frame = spark().read.parquet(question.file)
    frame = frame.select(*([question.key] if question.key else []), "x").cache()
    frame.count()
    return frame


def write_query(work, question, keys=None):
    query = QueryBuilder("t").groupby(keys) if keys is not None else QueryBuilder("t")
    if work == "count":
        return query.count()
    method = {"sum": query.sum, "mean": query.average, "median": query.median}[work]
    return method("x", low=question.lower, high=question.upper)


def evaluate(frame, query, budget):
    session = Session.from_dataframe(
        privacy_budget=budget, source_id="t", dataframe=frame, protected_change=AddOneRow()
    )
    return session.evaluate(query, privacy_budget=budget).toPandas()


def answer(work):
    def ask(frame, question):
        if not question.key:
            query = write_query(work, question)
            return evaluate(frame, query, PureDPBudget(question.epsilon)).iloc[0, 0]
        if work == "mean":
            return mean_by_group(frame, question)
        query = write_query(work, question, [question.key])
        return evaluate(frame, query, ApproxDPBudget(question.epsilon, question.delta))

    return ask


def mean_by_group(frame, q):
    # region: private mean by group
    # also: the feature flag auto_partition_selection, enabled before
    budget = ApproxDPBudget(q.epsilon, q.delta)
    session = Session.from_dataframe(
        privacy_budget=budget, source_id="t", dataframe=frame, protected_change=AddOneRow()
    )
    query = QueryBuilder("t").groupby([q.key]).average("x", low=q.lower, high=q.upper)
    return session.evaluate(query, privacy_budget=budget).toPandas()
    # endregion


ASKS = {work: answer(work) for work in ("count", "sum", "mean", "median")}


def releases(points, question, left):
    """Release copies with public keys: the same noise as one release of each alone."""
    copies = min(left, max(1, 500_000 // len(points)))
    session = spark()
    frame = session.createDataFrame(pd.DataFrame({"x": points}))
    frame = frame.crossJoin(session.range(copies).withColumnRenamed("id", "copy"))
    keys = KeySet.from_dict({"copy": list(range(copies))})
    query = write_query(question.work, question, keys)
    return evaluate(frame, query, PureDPBudget(question.epsilon)).iloc[:, -1].tolist()


if __name__ == "__main__":
    serve(read, ASKS, releases, ["tmlt.analytics", "pyspark", "pandas"])
