"""PipelineDP on its local backend: a list of tuples (user, group, value)."""

import pandas as pd
import pipeline_dp as pdp
from protocol import one_by_one, serve

METRICS = {
    "count": pdp.Metrics.COUNT,
    "sum": pdp.Metrics.SUM,
    "mean": pdp.Metrics.MEAN,
    "median": pdp.Metrics.PERCENTILE(50),
}


def read(question):
    frame = pd.read_parquet(question.file)
    frame["group"] = frame[question.key] if question.key else 0
    return list(frame[["user", "group", "x"]].itertuples(index=False, name=None))


def answer(work):
    def ask(rows, question):
        if work == "mean" and question.key:
            return mean_by_group(rows, question)
        result = aggregate(rows, question, METRICS[work])
        return result if question.key else result[0][1][0]

    return ask


def aggregate(rows, question, metric):
    delta = question.delta if question.key else 0
    accountant = pdp.NaiveBudgetAccountant(total_epsilon=question.epsilon, total_delta=delta)
    params = pdp.AggregateParams(
        noise_kind=pdp.NoiseKind.LAPLACE,
        metrics=[metric],
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=question.lower,
        max_value=question.upper,
    )
    extractors = pdp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    engine = pdp.DPEngine(accountant, pdp.LocalBackend())
    public = None if question.key else [0]
    result = engine.aggregate(rows, params, extractors, public)
    accountant.compute_budgets()
    return list(result)


def mean_by_group(rows, q):
    # region: private mean by group
    accountant = pdp.NaiveBudgetAccountant(total_epsilon=q.epsilon, total_delta=q.delta)
    engine = pdp.DPEngine(accountant, pdp.LocalBackend())
    params = pdp.AggregateParams(
        noise_kind=pdp.NoiseKind.LAPLACE,
        metrics=[pdp.Metrics.MEAN],
        max_partitions_contributed=1,
        max_contributions_per_partition=1,
        min_value=q.lower,
        max_value=q.upper,
    )
    extractors = pdp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    result = engine.aggregate(rows, params, extractors)
    accountant.compute_budgets()
    return list(result)
    # endregion


ASKS = {work: answer(work) for work in METRICS}


def read_rows(points):
    return [(user, 0, x) for user, x in enumerate(points)]


if __name__ == "__main__":
    serve(read, ASKS, one_by_one(read_rows, ASKS), ["pipeline-dp", "python-dp"])
