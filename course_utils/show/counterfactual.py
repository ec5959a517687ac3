"""What a model predicts under another attention, seen."""

from collections.abc import Sequence

import torch
from IPython.display import HTML

from course_utils.analysis.distances import jsd
from course_utils.data import Batch
from course_utils.errors import ShowError
from course_utils.models import AttentionClassifier
from course_utils.show.heatmap import attention_pair


def counterfactual(
    model: AttentionClassifier,
    batch: Batch,
    attention: torch.Tensor,
    *,
    classes: Sequence[str] = ("class 0", "class 1"),
    name: str = "another attention",
) -> HTML:
    """The model's attention above another one, each with the probability the model itself gives under it.

    Args:
        batch: one text.
        attention: (1, T), in place of the model's own.
        classes: names of the classes; the probability is that of class 1.
        name: what the second row is called.
    Raises:
        ShowError: the batch holds several texts, or the attention is of another shape.
    """
    if len(batch) != 1 or attention.shape != batch.ids.shape:
        raise ShowError(
            f"one text and attention of its shape {tuple(batch.ids.shape)}, not {len(batch)} and {tuple(attention.shape)}"
        )
    with torch.no_grad():
        own = model(batch)
        other = model(batch, attention=attention.to(own.attention))
    return attention_pair(
        batch.tokens[0],
        own.attention[0],
        attention[0],
        probabilities=(own.probabilities[0, 1].item(), other.probabilities[0, 1].item()),
        jsd=jsd(own.attention.double(), attention.to(own.attention.device).double()).item(),
        class_name=classes[1],
        name=name,
    )
