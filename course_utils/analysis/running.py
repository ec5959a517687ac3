"""Running an experiment over many batches."""

from collections.abc import Callable, Sequence

import pandas as pd
from tqdm.auto import tqdm

from course_utils.data import Batch
from course_utils.errors import AnalysisError
from course_utils.models import AttentionClassifier

BAR_FROM = 4


def over(
    function: Callable[..., pd.DataFrame], model: AttentionClassifier, batches: Sequence[Batch], **arguments: object
) -> pd.DataFrame:
    """One experiment on all batches, as one table in the order of the inputs.

    A progress bar appears from 4 batches on.

    Args:
        function: an experiment of this room, `(model, batch, **arguments) -> DataFrame` with a column `input`.
        batches: as from `make_batches`.
    Returns:
        the rows of all batches, sorted by `input`; rows of the same input keep their order.
    Raises:
        AnalysisError: there is no batch.
    """
    batches = list(batches)
    if not batches:
        raise AnalysisError("there is no batch to run the experiment on; make some with make_batches(texts, vocabulary)")
    if len(batches) >= BAR_FROM:
        batches = tqdm(batches, desc=getattr(function, "__name__", "experiment"), unit="batch", leave=False)
    frames = [function(model, batch, **arguments) for batch in batches]
    return pd.concat(frames).sort_values("input", kind="stable", ignore_index=True)
