"""A head's attention given to a head of another layer, by least squares, and then by gradients that see the predictions.

The head that takes over reads other states, so that a copy of query and key need not do what it did. What it needs is a query and a
key that come out as the giver's did; and, as its map is then another, values that read what it read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch.func import functional_call
from torch.nn.functional import pad
from tqdm.auto import tqdm

from course_utils.analysis.distances import kl
from course_utils.analysis.moving import least_squares
from course_utils.errors import AnalysisError
from course_utils.models.finetuned import EncoderClassifier
from course_utils.models.heads import Head
from course_utils.models.moving import HeadWeights, read_head, replaced, use_heads
from course_utils.models.pieces import Pieces
from course_utils.models.transformer import Encoder


def relocate(encoder: Encoder, texts: Sequence[str], source: Head, target: Head, *, ridge: float = 1e-3) -> dict[Head, HeadWeights]:
    """Give head `target` the attention of head `source`, which becomes even; everything by least squares over the tokens of texts.

    Target's query and key are fitted to source's queries and keys; then the values of the two, lower layer first, so that each
    reads what it read before. In one layer the map is exact.

    Args:
        source, target: (layer, head) of two heads.
        ridge: penalty, a share of the features' mean square.
    Returns:
        the new weights of the two, for `use_heads` and `prediction_change`.
    Raises:
        AnalysisError: source and target are the same head.
        ModelError: there is no such head.
    """
    source, target = tuple(source), tuple(target)
    if source == target:
        raise AnalysisError(f"head {source[0]}-{source[1]} attends like itself already; choose two heads")
    giver, taker = read_head(encoder.model, *source), read_head(encoder.model, *target)
    states, asked, read = [], [], {source: [], target: []}
    for maps in encoder.stream(texts, states=True):
        states.append(pad(maps.hidden[:, target[0]], (0, 1), value=1.0)[maps.mask])
        given = maps.hidden[:, source[0]][maps.mask]
        asked.append(torch.cat([given @ giver.query.T + giver.query_bias, given @ giver.key.T + giver.key_bias], -1))
        for layer, head in read:
            read[layer, head].append((maps.attention[:, layer, head] @ maps.values[:, layer, head])[maps.mask])
    query, key = least_squares(torch.cat(states).double(), torch.cat(asked).double(), ridge).float().chunk(2, 1)
    taker = replace(taker, query=query[:-1].T.contiguous(), query_bias=query[-1], key=key[:-1].T.contiguous(), key_bias=key[-1])
    weights = {source: giver.attending_evenly(), target: taker}
    for head in sorted(weights):
        weights[head] = _reading(encoder, texts, weights, head, torch.cat(read[head]), ridge)
    return weights


def _reading(
    encoder: Encoder, texts: Sequence[str], weights: Mapping[Head, HeadWeights], head: Head, wanted: torch.Tensor, ridge: float
) -> HeadWeights:
    """This head's weights with values that read what is `wanted` (N, D), the tokens of texts in the order of `Encoder.stream`."""
    layer, number = head
    features = []
    with use_heads(encoder.model, weights):
        for maps in encoder.stream(texts, states=True):
            states = pad(maps.hidden[:, layer], (0, 1), value=1.0)
            features.append((maps.attention[:, layer, number] @ states)[maps.mask])
    old = torch.cat([weights[head].value.T, weights[head].value_bias[None]]).double()
    x = torch.cat(features).double()
    new = (old + least_squares(x, wanted.double() - x @ old, ridge)).float()
    return replace(weights[head], value=new[:-1].T.contiguous(), value_bias=new[-1])


def learn(
    classifier: EncoderClassifier,
    texts: Sequence[str],
    source: Head,
    target: Head,
    start: Mapping[Head, HeadWeights],
    *,
    steps: int = 60,
    batch_size: int = 8,
    learning_rate: float = 1e-3,
    seed: int = 0,
    progress: bool = False,
) -> tuple[dict[Head, HeadWeights], pd.DataFrame]:
    """Train the two heads until target attends as source did and the classifier predicts what it predicted.

    The loss is the sum of two Kullback-Leibler divergences, of source's rows before from target's rows now (mean over tokens), and
    of the predictions before from those now (mean over texts). Trained are target's query, key, value and output and source's value
    and output, by Adam (Kingma & Ba 2015); source's query and key stay as they start.

    Args:
        texts: what is trained on, in batches drawn from `seed`.
        source, target: (layer, head) of two heads.
        start: weights of the two to begin with, as from `relocate`.
        progress: whether to show a bar over the steps.
    Returns:
        the new weights of the two, for `use_heads`; and one row a step, measured before it: `step`, `map` and `prediction`, the two
        divergences on its batch (nats).
    Raises:
        AnalysisError: `start` has not exactly these two heads, or there is no text, step or batch.
    """
    source, target = tuple(source), tuple(target)
    if set(start) != {source, target} or source == target:
        raise AnalysisError(f"start has the heads {sorted(start)}; give the weights of two, source {source} and target {target}")
    if not texts or steps < 1 or batch_size < 1:
        raise AnalysisError(
            f"learning needs a text, a step and a batch, not {len(texts)} texts, {steps} steps, batches of {batch_size}"
        )
    reading = ("value", "value_bias", "output")
    trained = {(source, part): getattr(start[source], part).clone() for part in reading}
    trained |= {(target, part): getattr(start[target], part).clone() for part in HeadWeights.__dataclass_fields__}
    optimiser = torch.optim.Adam([tensor.requires_grad_() for tensor in trained.values()], lr=learning_rate)

    def weights() -> dict[Head, HeadWeights]:
        return {
            head: replace(start[head], **{part: tensor for (owner, part), tensor in trained.items() if owner == head})
            for head in start
        }

    body, generator, rows = classifier.body, np.random.default_rng(seed), []
    for step in tqdm(range(steps), desc="learning", unit="step", disable=not progress, leave=False):
        chosen = generator.choice(len(texts), min(batch_size, len(texts)), replace=False)
        pieces = classifier.encoder.pieces([texts[number] for number in chosen])
        with torch.no_grad():
            map_before, before = _map_and_logits(classifier, pieces, {}, source)
        map_now, now = _map_and_logits(classifier, pieces, replaced(body, weights()), target)
        losses = {"map": kl(map_before, map_now)[pieces.mask].mean(), "prediction": kl(before, now).mean()}
        rows.append({"step": step} | {name: loss.item() for name, loss in losses.items()})
        optimiser.zero_grad()
        sum(losses.values()).backward()
        optimiser.step()
    trained = {name: tensor.detach() for name, tensor in trained.items()}
    return weights(), pd.DataFrame(rows)


def _map_and_logits(
    classifier: EncoderClassifier, pieces: Pieces, parameters: Mapping[str, torch.Tensor], head: Head
) -> tuple[torch.Tensor, torch.Tensor]:
    """A head's rows (B, T, T) and the classes' probabilities (B, C), of the classifier with some other parameters."""
    read = {"input_ids": pieces.ids, "attention_mask": pieces.mask.long(), "output_attentions": True}
    output = functional_call(classifier.body, dict(parameters), kwargs=read)
    return output.attentions[head[0]][:, head[1]], classifier.head(output.last_hidden_state[:, 0]).softmax(-1)
