"""Teaching a smaller classifier what a larger one says: the loss is the distance of their predictions (Hinton et al. 2015)."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch.nn import functional
from tqdm.auto import tqdm

from course_utils.errors import ModelError
from course_utils.models.finetuned import EncoderClassifier, logits_of
from course_utils.models.finetuning import batches_by_length


def distil(
    student: EncoderClassifier,
    teacher: EncoderClassifier,
    texts: Sequence[str],
    *,
    epochs: int = 1,
    batch_size: int = 32,
    learning_rate: float = 1e-4,
    temperature: float = 2.0,
    seed: int = 0,
    progress: bool = False,
) -> pd.DataFrame:
    """Train `student` in place towards the teacher's probabilities; no label is used. It ends in evaluation mode.

    No dropout: the teacher's answer is the same every time, and the student is to give it. The learning rate falls to 0 in a line.

    Args:
        student: as from `remove_heads`; its embeddings stay.
        texts: at least one; read once an epoch, in an order drawn from `seed`, batches of nearly equal length.
        temperature: both distributions are flattened by it, above 0.
    Returns:
        one row an epoch: `epoch`, `divergence`, the mean Kullback-Leibler divergence to the teacher (nats, at the temperature).
    Raises:
        ModelError: no text, other classes than the teacher's, or a setting out of range.
    """
    if not texts or epochs < 0 or batch_size < 1 or learning_rate <= 0 or temperature <= 0:
        raise ModelError(
            "distillation needs a text, epochs of 0 or more, and a batch size, learning rate and temperature above 0; these are "
            f"{len(texts)} texts, {epochs} epochs, {batch_size}, {learning_rate} and {temperature}"
        )
    if student.head.out_features != teacher.head.out_features:
        raise ModelError(f"the teacher has {teacher.head.out_features} classes and the student {student.head.out_features}")
    targets = functional.log_softmax(logits_of(teacher.eval(), texts) / temperature, -1)
    weights = list(student.trained().values())
    for weight in weights:
        weight.requires_grad_(True)
    optimiser = torch.optim.AdamW(weights, lr=learning_rate, weight_decay=0.0)
    lengths = [len(text) for text in texts]
    generator = np.random.default_rng(seed)
    student.eval()
    n_batches = math.ceil(len(texts) / batch_size)
    steps, rows = epochs * n_batches, []
    with tqdm(total=steps, desc="distilling", unit="step", disable=not progress, leave=False) as bar:
        for epoch in range(epochs):
            total = 0.0
            for done, chosen in enumerate(batches_by_length(lengths, batch_size, generator), epoch * n_batches):
                optimiser.param_groups[0]["lr"] = learning_rate * (1 - done / steps)
                said = functional.log_softmax(student(student.encoder.pieces([texts[i] for i in chosen])) / temperature, -1)
                wanted = targets[chosen].to(said.device)
                divergence = functional.kl_div(said, wanted, reduction="batchmean", log_target=True)
                optimiser.zero_grad()
                divergence.backward()
                optimiser.step()
                total += divergence.item() * len(chosen)
                bar.update()
            rows.append((epoch + 1, total / len(texts)))
    student.requires_grad_(False)
    return pd.DataFrame(rows, columns=["epoch", "divergence"])
