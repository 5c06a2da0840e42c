"""OpenDP's polars front end: keys secret by delta, lengths of margins given as public limits."""

import warnings

import opendp.prelude as dp
import polars as pl
from protocol import serve

warnings.filterwarnings("ignore", category=FutureWarning)  # counts will be signed one day
dp.enable_features("contrib")


def read(question):
    return pl.read_parquet(question.file)


def margin(question, by):
    """Limits an analyst could name: twice the true numbers."""
    return dp.polars.Margin(
        by=by, max_length=2 * question.rows, max_groups=2 * question.groups if by else None
    )


def query(frame, question):
    by = [question.key] if question.key else []
    context = dp.Context.compositor(
        data=frame.lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=question.epsilon, delta=question.delta if by else 0.0),
        split_evenly_over=1,
        margins=[margin(question, by)],
    )
    return context.query()


def expressions(question):
    bounds = (question.lower, question.upper)
    step = (question.upper - question.lower) / 300
    candidates = [question.lower + step * i for i in range(301)]
    return {
        "count": dp.len().alias("x"),
        "sum": pl.col("x").dp.sum(bounds),  # type: ignore[attr-defined]
        "mean": pl.col("x").dp.mean(bounds),  # type: ignore[attr-defined]
        "median": pl.col("x").dp.median(candidates),  # type: ignore[attr-defined]
    }


def answer(work):
    def ask(frame, question):
        expression = expressions(question)[work]
        if not question.key:
            return query(frame, question).select(expression).release().collect()
        if work == "mean":
            return mean_by_group(frame, question)
        chosen = [expression] if work == "count" else [dp.len(), expression]
        grouped = query(frame, question).group_by(question.key)
        return grouped.agg(*chosen).release().collect()

    return ask


def mean_by_group(frame, q):
    # region: private mean by group
    # also: the feature flag "contrib", by enable_features before
    margin = dp.polars.Margin(by=[q.key], max_length=2 * q.rows, max_groups=2 * q.groups)
    context = dp.Context.compositor(
        data=frame.lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=q.epsilon, delta=q.delta),
        split_evenly_over=1,
        margins=[margin],
    )
    mean = pl.col("x").dp.mean((q.lower, q.upper))  # type: ignore[attr-defined]
    query = context.query().group_by(q.key).agg(dp.len(), mean)
    return query.release().collect()
    # endregion


ASKS = {work: answer(work) for work in ("count", "sum", "mean", "median")}


def releases(points, question, left):
    """Release copies with public keys: the same noise as one release of each alone."""
    copies = min(left, max(1, 2_000_000 // len(points)))
    frame = pl.DataFrame({"x": points}).join(pl.DataFrame({"copy": range(copies)}), how="cross")
    margin = dp.polars.Margin(
        by=["copy"], max_length=2 * len(points), max_groups=2 * copies, invariant="keys"
    )
    context = dp.Context.compositor(
        data=frame.lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=question.epsilon, delta=0.0),
        split_evenly_over=1,
        margins=[margin],
    )
    query = context.query().group_by("copy").agg(expressions(question)[question.work])
    return query.release().collect()["x"].to_list()


if __name__ == "__main__":
    serve(read, ASKS, releases, ["opendp", "polars"])
