"""How different can attention be with the same prediction? Three answers: exact, searched, and as published.

Jain & Wallace (2019, section 4.2.2) ask for the attention of largest Jensen-Shannon divergence from the model's own that changes
the output by at most eps. For two classes the answer is exact (see `slab`): where it is low, it proves that the prediction depends
on where the model attends.
"""

import math

import numpy as np
import pandas as pd
import torch

from course_utils.analysis.distances import jsd, tvd
from course_utils.analysis.reading import Reading, describe, generators, read
from course_utils.analysis.slab import Adversary, check_eps, exact_attention, logit_bounds
from course_utils.analysis.supports import search_attention
from course_utils.data import Batch
from course_utils.errors import AnalysisError, NotLinearError
from course_utils.models import AttentionClassifier

__all__ = ["Adversary", "exact", "exact_attention", "logit_bounds", "published", "search", "search_attention"]

MARGIN = 0.01
PENALTY = 500


def exact(model: AttentionClassifier, batch: Batch, eps: float = 0.01) -> pd.DataFrame:
    """The largest divergence that any attention with the same prediction has: the global maximum, for two classes.

    Args:
        batch: B inputs.
        eps: in [0, 1], the allowed change of the probability.
    Returns:
        one row an input: `input`, `n_tokens`, `max_attention`, `predicted_class`, `max_jsd` in [0, log 2], `change` of the
        probability, and the one or two tokens attended to: `position_1`, `token_1`, `weight_1`, `position_2`, `token_2`,
        `weight_2`. With one token the second position and token are missing and its weight is 0.
    Raises:
        NotLinearError: the decoder is not linear in the context vector, or there are more than two classes.
        AnalysisError: eps is not in [0, 1].
    """
    reading = read(model, batch)
    n_classes = reading.contributions.shape[-1]
    if n_classes != 2:
        raise NotLinearError(f"the exact adversary is for 2 classes, this model has {n_classes}; use adversary.search")
    token_logits = reading.contributions[..., 1] - reading.contributions[..., 0]
    return _table(reading, batch, exact_attention(reading.attention, token_logits, batch.mask, eps), n_tokens=2)


def search(model: AttentionClassifier, batch: Batch, eps: float = 0.01, *, seed: int = 0) -> pd.DataFrame:
    """The largest divergence found by a search over attention on few tokens, for any number of classes, beside its bound.

    Args:
        batch: B inputs.
        eps: in [0, 1], the allowed total variation distance between the outputs.
        seed: decides which groups of tokens are tried, where there are too many for all.
    Returns:
        as `exact`, without positions and tokens, and with `bound`, which no adversary exceeds: how much is still open.
    Raises:
        NotLinearError: the decoder is not linear in the context vector.
        AnalysisError: eps is not in [0, 1].
    """
    reading = read(model, batch)
    found, bound = search_attention(reading.attention, reading.contributions, batch.mask, eps, seed=seed)
    return _table(reading, batch, found, n_tokens=0).assign(bound=bound.cpu().numpy())


def published(
    model: AttentionClassifier,
    batch: Batch,
    eps: float = 0.01,
    *,
    n_starts: int = 5,
    n_steps: int = 500,
    lr: float = 0.01,
    seed: int = 0,
) -> pd.DataFrame:
    """The adversary by gradient ascent, as Jain & Wallace (2019) run it: what it finds is a lower bound of `exact`.

    K attentions an input start at random and follow Adam (amsgrad). Each step decodes their context vectors, from the hidden states
    of the one encoder pass, and lowers `-JSD + 500 relu(change - 0.01)`, summed over the K, minus the divergences between them.
    Of the K attentions after the last step the furthest whose change is at most eps is kept.

    Args:
        batch: B inputs; any decoder from context vector to logits will do.
        eps: in [0, 1], the change that is accepted at the end; the penalty starts at 0.01 whatever it is.
        n_starts: K.
        n_steps: Adam steps.
        lr: Adam's step size.
        seed: with the input's own tokens, decides its starts.
    Returns:
        one row an input: `input`, `n_tokens`, `max_attention`, `predicted_class`, `max_jsd`, `change`, and `n_kept`: how many of
        the K were accepted. Where none was, the model's own attention stands in: 0, 0, 0.
    Raises:
        AnalysisError: eps is not in [0, 1], or there is no start.
    """
    check_eps(eps)
    if n_starts < 1:
        raise AnalysisError(f"at least 1 start is needed, not {n_starts}")
    batch = batch.to(model.device)
    with torch.no_grad():
        output, query = model(batch), model.encode_query(batch)
        hidden, original, attention = output.hidden, output.probabilities[:, None], output.attention[:, None]
    padding = ~batch.mask[:, None]
    scores = _random_scores(batch, n_starts, seed).to(hidden).requires_grad_()
    optimiser = torch.optim.Adam([scores], lr=lr, amsgrad=True)

    def outcome() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        weights = scores.masked_fill(padding, -math.inf).softmax(-1)
        change = tvd(model.decoder(weights @ hidden, query).softmax(-1), original)
        return weights, jsd(weights, attention), change

    with torch.enable_grad():
        for _ in range(n_steps):
            weights, divergence, change = outcome()
            between = jsd(weights[:, :, None], weights[:, None]).sum((1, 2)) / 2
            loss = (PENALTY * (change - MARGIN).relu() - divergence).sum(1) - between
            (scores.grad,) = torch.autograd.grad(loss.sum(), scores)
            optimiser.step()
    with torch.no_grad():
        _, divergence, change = outcome()
    kept = change <= eps
    best = divergence.masked_fill(~kept, -1).argmax(1, keepdim=True)
    kept_best = kept.gather(1, best)
    columns = {
        name: values.gather(1, best).where(kept_best, 0).squeeze(1).cpu().double().numpy()
        for name, values in (("max_jsd", divergence), ("change", change))
    }
    return pd.DataFrame(describe(batch, output) | columns | {"n_kept": kept.sum(1).cpu().numpy()})


def _random_scores(batch: Batch, n_starts: int, seed: int) -> torch.Tensor:
    """(B, K, T) standard normal, 0 at padding."""
    scores = np.zeros((len(batch), n_starts, batch.ids.shape[1]))
    for row, (generator, length) in enumerate(zip(generators(batch, seed), batch.lengths.tolist(), strict=True)):
        scores[row, :, :length] = generator.standard_normal((n_starts, length))
    return torch.from_numpy(scores)


def _table(reading: Reading, batch: Batch, found: Adversary, n_tokens: int) -> pd.DataFrame:
    """One row an input, with the `n_tokens` most attended tokens of the adversary."""
    columns = reading.columns | {"max_jsd": found.jsd.cpu().numpy(), "change": found.change.cpu().numpy()}
    remaining = found.attention.cpu().numpy().copy()
    rows = np.arange(len(batch))
    for rank in range(1, n_tokens + 1):
        position = remaining.argmax(1)
        weight = remaining[rows, position]
        remaining[rows, position] = 0
        tokens = [words[p] if w > 0 else None for words, p, w in zip(batch.tokens, position.tolist(), weight, strict=True)]
        columns[f"position_{rank}"] = pd.arrays.IntegerArray(position, mask=weight == 0)
        columns[f"token_{rank}"] = pd.array(tokens, dtype="string")
        columns[f"weight_{rank}"] = weight
    return pd.DataFrame(columns)
