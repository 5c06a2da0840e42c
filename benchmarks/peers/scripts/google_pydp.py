"""Google's library through PyDP: one algorithm a group, keys selected by its own strategy."""

import pandas as pd
from protocol import one_by_one, serve
from pydp.algorithms.laplacian import BoundedMean, BoundedSum, Count, Median
from pydp.algorithms.partition_selection import create_laplace_partition_strategy


def read(question):
    frame = pd.read_parquet(question.file)
    return frame if question.key else frame["x"].tolist()


def algorithm(work, question, epsilon):
    if work == "count":
        return Count(epsilon=epsilon, dtype="float")
    kind = {"sum": BoundedSum, "mean": BoundedMean, "median": Median}[work]
    return kind(
        epsilon=epsilon,
        lower_bound=question.lower,
        upper_bound=question.upper,
        l0_sensitivity=1,
        linf_sensitivity=1,
        dtype="float",
    )


def answer(work):
    def ask(data, question):
        if question.key:
            return by_group(data, question, work)
        return algorithm(work, question, question.epsilon).quick_result(data)

    return ask


def by_group(frame, question, work):
    if work == "mean":
        return mean_by_group(frame, question)
    strategy = create_laplace_partition_strategy(question.epsilon / 2, question.delta, 1)
    result = {}
    for key, values in frame.groupby(question.key)["x"]:
        if strategy.should_keep(len(values)):
            private = algorithm(work, question, question.epsilon / 2)
            result[key] = private.quick_result(values.tolist())
    return result


def mean_by_group(frame, q):
    # region: private mean by group
    strategy = create_laplace_partition_strategy(q.epsilon / 2, q.delta, 1)
    result = {}
    for key, values in frame.groupby(q.key)["x"]:
        if strategy.should_keep(len(values)):
            mean = BoundedMean(
                epsilon=q.epsilon / 2,
                lower_bound=q.lower,
                upper_bound=q.upper,
                l0_sensitivity=1,
                linf_sensitivity=1,
                dtype="float",
            )
            result[key] = mean.quick_result(values.tolist())
    return result
    # endregion


ASKS = {work: answer(work) for work in ("count", "sum", "mean", "median")}

if __name__ == "__main__":
    serve(read, ASKS, one_by_one(list, ASKS), ["python-dp", "pandas"])
