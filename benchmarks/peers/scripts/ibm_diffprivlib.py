"""diffprivlib on numpy arrays; by group through pandas, which shows keys and group sizes."""

import diffprivlib as dpl
import numpy as np
import pandas as pd
from protocol import one_by_one, serve


def read(question):
    frame = pd.read_parquet(question.file)
    return frame if question.key else frame["x"].to_numpy()


TOOLS = {
    "count": lambda x, q: dpl.tools.count_nonzero(np.ones(len(x)), epsilon=q.epsilon),
    "sum": lambda x, q: dpl.tools.sum(x, epsilon=q.epsilon, bounds=(q.lower, q.upper)),
    "mean": lambda x, q: dpl.tools.mean(x, epsilon=q.epsilon, bounds=(q.lower, q.upper)),
    "median": lambda x, q: dpl.tools.median(x, epsilon=q.epsilon, bounds=(q.lower, q.upper)),
}


def answer(work):
    def ask(data, question):
        if not question.key:
            return TOOLS[work](data, question)
        if work == "mean":
            return mean_by_group(data, question)
        return data.groupby(question.key)["x"].apply(lambda x: TOOLS[work](x.to_numpy(), question))

    return ask


def mean_by_group(frame, q):
    # region: private mean by group
    def mean(x):
        return dpl.tools.mean(x.to_numpy(), epsilon=q.epsilon, bounds=(q.lower, q.upper))

    return frame.groupby(q.key)["x"].apply(mean)
    # endregion


ASKS = {work: answer(work) for work in TOOLS}

if __name__ == "__main__":
    serve(read, ASKS, one_by_one(np.array, ASKS), ["diffprivlib", "pandas"])
