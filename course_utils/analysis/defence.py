"""The tests of Wiegreffe & Pinter (2019): is another attention with the same predictions one that a *model* could have?"""

import math
from collections.abc import Sequence
from itertools import combinations

import pandas as pd
import torch
from tqdm.auto import tqdm

from course_utils.analysis.distances import jsd, tvd, xlogx
from course_utils.analysis.reading import normalised
from course_utils.data import Batch, Example, Vocabulary, make_batches
from course_utils.errors import AnalysisError
from course_utils.models import AttentionClassifier


@torch.no_grad()
def between(models: Sequence[AttentionClassifier], batch: Batch) -> pd.DataFrame:
    """How far apart the attentions of several models lie on the same texts, pair by pair.

    Args:
        models: N of them, at least 2, that read the same vocabulary, such as one recipe trained from N seeds.
        batch: B inputs.
    Returns:
        one row an input and pair: `input`, `n_tokens`, `first`, `second` (places in `models`), `jsd` in [0, log 2] between their
        attentions, and `change` in [0, 1], the total variation distance between their predictions.
    Raises:
        AnalysisError: fewer than 2 models.
    """
    if len(models) < 2:
        raise AnalysisError(f"distances need at least 2 models, not {len(models)}")
    outputs = [model(batch.to(model.device)) for model in models]
    attentions = [normalised(output.attention).cpu() for output in outputs]
    frames = []
    for first, second in combinations(range(len(models)), 2):
        change = tvd(outputs[first].probabilities.cpu(), outputs[second].probabilities.cpu())
        columns = {"input": batch.index, "n_tokens": batch.lengths, "first": first, "second": second}
        columns |= {"jsd": jsd(attentions[first], attentions[second]), "change": change}
        frames.append(
            pd.DataFrame({name: value.cpu().numpy() if torch.is_tensor(value) else value for name, value in columns.items()})
        )
    return pd.concat(frames, ignore_index=True)


def kl(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """`KL(p || q)` in nats along the last dimension, finite and with a finite gradient also where a weight is 0.

    A weight of q below the smallest positive number of its type counts as that number: where p looks and q does not, the divergence
    is large instead of infinite.

    Args:
        p, q: (..., N), each row not negative with sum 1.
    """
    floor = torch.finfo(q.dtype).tiny
    return (xlogx(p) - p * q.clamp_min(floor).log()).sum(-1)


def train_adversary(
    model: AttentionClassifier,
    base: AttentionClassifier,
    vocabulary: Vocabulary,
    texts: Sequence[Example],
    strength: float,
    *,
    epochs: int = 4,
    batch_tokens: int = 1536,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> pd.DataFrame:
    """Train a model to predict as `base` does while attending to something else (Wiegreffe & Pinter 2019, section 4).

    The loss is their `TVD(y, y_base) - lambda KL(a || a_base)`, averaged over the texts. Unlike the adversary of lesson 08 the
    result is a whole model: its states and its weights belong together.

    Args:
        model: a new classifier, trained in place and left in evaluation mode.
        base: the model to imitate; it stays as it is.
        texts: training texts; their labels are not used.
        strength: lambda, 0 or more; 0 only imitates.
        epochs: passes over the texts.
        seed: decides the order of the batches.
    Returns:
        one row an epoch: `epoch`, mean `change` (total variation distance of the predictions) and `divergence` (KL, nats).
    Raises:
        AnalysisError: lambda is negative or not finite, or there is no text.
    """
    if not 0 <= strength < math.inf or not texts:
        raise AnalysisError(f"lambda is 0 or more, not {strength}" if texts else "there is no text to train on")
    optimiser = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=learning_rate, amsgrad=True)
    rows = []
    for epoch in range(epochs):
        generator = torch.Generator().manual_seed(1000 * seed + epoch)
        batches = make_batches(texts, vocabulary, token_budget=batch_tokens, generator=generator)
        model.train()
        sums = torch.zeros(2, dtype=torch.float64)
        for batch in tqdm(batches, desc=f"lambda {strength:g}, epoch {epoch + 1}/{epochs}", leave=False):
            batch = batch.to(model.device)
            with torch.no_grad():
                target = base(batch)
            output = model(batch)
            change = tvd(output.probabilities, target.probabilities)
            divergence = kl(output.attention, target.attention)
            optimiser.zero_grad()
            (change - strength * divergence).mean().backward()
            optimiser.step()
            sums += torch.stack([change.sum(), divergence.sum()]).detach().double().cpu()
        rows.append([epoch + 1, *(sums / len(texts)).tolist()])
    model.eval()
    return pd.DataFrame(rows, columns=["epoch", "change", "divergence"])
