"""Can head B do its work with head A's attention, and the model predict the same? Values refitted within a layer.

Within a layer two heads read the same states, so that B attends like A once it has A's query and key. What B then reads is the
matter of its values, which are fitted by least squares: `A_source (x V' + v) = A_target (x V + v)` over the tokens of some texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from course_utils.analysis.distances import tvd
from course_utils.errors import AnalysisError
from course_utils.models.finetuned import EncoderClassifier, logits_of
from course_utils.models.heads import Head, attention_modules
from course_utils.models.moving import HeadWeights, read_head, use_heads
from course_utils.models.pieces import Pieces
from course_utils.models.transformer import Encoder

WAYS = ("removed", "values kept", "values refitted", "even, values refitted")
SMALLEST = 1e-5  # singular values below this share of the largest are noise of single precision


def refitted(
    encoder: Encoder,
    texts: Sequence[str],
    layer: int,
    source: int,
    targets: Sequence[int],
    *,
    even: bool = False,
    ridge: float = 0.0,
) -> dict[Head, HeadWeights]:
    """Weights with which heads attend as head `source` does, their values fitted so that each writes what it wrote.

    Args:
        texts: what the values are fitted on. With fewer tokens than the states have dimensions the fit is exact where source's
            attention is invertible: the smallest change of the values that does it.
        layer, source, targets: heads of one layer.
        even: whether the targets attend evenly instead: the control, which owes nothing to source.
        ridge: penalty on the change of the values, a share of the features' mean square.
    Returns:
        (layer, target) to weights, for `use_heads`.
    Raises:
        AnalysisError: there is no target, or source is one.
        ModelError: there is no such head.
    """
    if not len(targets) or source in targets:
        raise AnalysisError(f"head {layer}-{source} cannot hand its attention to heads {list(targets)} of its layer; name others")
    model = encoder.model
    giver, takers = read_head(model, layer, source), [read_head(model, layer, target) for target in targets]
    features, wanted = [], []
    for maps in encoder.stream(texts, states=True):
        states = torch.nn.functional.pad(maps.hidden[:, layer], (0, 1), value=1.0)
        attention = maps.mask[:, None] / maps.lengths[:, None, None] if even else maps.attention[:, layer, source]
        read = torch.cat([maps.attention[:, layer, target] @ maps.values[:, layer, target] for target in targets], -1)
        features.append((attention.expand(-1, states.shape[1], -1) @ states)[maps.mask])
        wanted.append(read[maps.mask])
    x = torch.cat(features).double()
    old = torch.cat([torch.cat([taker.value.T, taker.value_bias[None]]) for taker in takers], 1).double()
    new = (old + least_squares(x, torch.cat(wanted).double() - x @ old, ridge)).float()
    found = {}
    for target, taker, fit in zip(targets, takers, new.chunk(len(takers), 1), strict=True):
        weights = taker.attending_evenly() if even else taker.attending_like(giver)
        found[layer, target] = replace(weights, value=fit[:-1].T.contiguous(), value_bias=fit[-1])
    return found


def least_squares(x: torch.Tensor, y: torch.Tensor, ridge: float) -> torch.Tensor:
    """The least-norm solution of `x w = y`; with `ridge`, a share of the mean square of x, of the penalised problem."""
    if ridge > 0:
        gram = x.T @ x
        size = ridge * gram.diagonal().mean()
        return torch.linalg.solve(gram + size * torch.eye(len(gram)).to(x), x.T @ y)
    return torch.linalg.lstsq(x.cpu(), y.cpu(), rcond=SMALLEST, driver="gelsd").solution.to(x)


def layer_change(encoder: Encoder, texts: Sequence[str], changes: dict[Head, HeadWeights]) -> pd.DataFrame:
    """How far a layer's attention output moves when heads of that layer get other weights.

    Returns:
        one row a text: `input`, `n_tokens`, `change`: the norm of the output's change over the norm of the output, all tokens
        together, after the output projection and before the residual sum.
    Raises:
        AnalysisError: the heads are not all of one layer.
    """
    layers = {layer for layer, _ in changes}
    if len(layers) != 1:
        raise AnalysisError(f"the heads lie in layers {sorted(layers)}; the output of one layer is compared, so choose one")
    module = attention_modules(encoder.model, "projection")[layers.pop()]
    rows = []
    for pieces in encoder.batches(texts):
        before = _output(encoder, module, pieces)
        with use_heads(encoder.model, changes):
            after = _output(encoder, module, pieces)
        moved, size = ((values * pieces.mask[..., None]).flatten(1).norm(dim=1) for values in (after - before, before))
        rows += zip(pieces.index.tolist(), pieces.lengths.tolist(), (moved / size).tolist(), strict=True)
    return pd.DataFrame(rows, columns=["input", "n_tokens", "change"]).sort_values("input", ignore_index=True)


def _output(encoder: Encoder, module: torch.nn.Module, pieces: Pieces) -> torch.Tensor:
    kept = []
    handle = module.register_forward_hook(lambda module, inputs, output: kept.append(output))
    try:
        encoder.attend(pieces)
    finally:
        handle.remove()
    return kept[0]


def prediction_change(classifier: EncoderClassifier, texts: Sequence[str], changes: dict[Head, HeadWeights]) -> pd.DataFrame:
    """What other weights for some heads do to the predictions.

    Returns:
        one row a text: `input`; `before` and `after`, the probability of the class predicted before; `change` in [0, 1], the total
        variation distance of the two outputs; `flipped`, whether another class is predicted.
    """
    return compare(classifier, texts, {"": changes}).drop(columns="way")


def compare(classifier: EncoderClassifier, texts: Sequence[str], changes: Mapping[str, Mapping[Head, HeadWeights]]) -> pd.DataFrame:
    """What several ways to change heads do to the predictions.

    Args:
        changes: name of a way to the weights that it gives to heads.
    Returns:
        one row a way and text: `way`, and the columns of `prediction_change`.
    """
    before = logits_of(classifier, texts).double().softmax(-1)
    predicted = before.argmax(-1)
    frames = []
    for way, weights in changes.items():
        with use_heads(classifier.encoder.model, weights):
            after = logits_of(classifier, texts).double().softmax(-1)
        columns = {"way": way, "input": np.arange(len(texts))}
        for name, values in (("before", before), ("after", after)):
            columns[name] = values.gather(1, predicted[:, None]).squeeze(1).numpy()
        frames.append(
            pd.DataFrame(columns | {"change": tvd(before, after).numpy(), "flipped": (after.argmax(-1) != predicted).numpy()})
        )
    return pd.concat(frames, ignore_index=True)


def ways(
    classifier: EncoderClassifier,
    texts: Sequence[str],
    held_out: Sequence[str],
    layer: int,
    source: int,
    targets: Sequence[int],
    *,
    ridge: float = 1e-3,
) -> pd.DataFrame:
    """Heads with the attention of head `source`, in four ways; only "values refitted" makes up for what they no longer see.

    "removed": the targets write nothing. "values kept": they attend like source and read by their own values. "values refitted":
    their values are fitted on `texts`. "even, values refitted": the same with even attention, the control.

    Returns:
        as from `compare`, on the held-out texts.
    """
    encoder = classifier.encoder
    giver = read_head(encoder.model, layer, source)
    takers = {(layer, target): read_head(encoder.model, layer, target) for target in targets}
    changes = {
        WAYS[0]: {head: taker.writing_nothing() for head, taker in takers.items()},
        WAYS[1]: {head: taker.attending_like(giver) for head, taker in takers.items()},
        WAYS[2]: refitted(encoder, texts, layer, source, targets, ridge=ridge),
        WAYS[3]: refitted(encoder, texts, layer, source, targets, even=True, ridge=ridge),
    }
    return compare(classifier, held_out, changes)


def by_number_of_texts(
    encoder: Encoder,
    texts: Sequence[str],
    held_out: Sequence[str],
    layer: int,
    source: int,
    targets: Sequence[int],
    *,
    numbers: Sequence[int] = (1, 4, 16, 64),
    ridge: float = 0.0,
) -> pd.DataFrame:
    """One change of the values for the first n texts at once: what the layer's output does on them, and on texts not seen.

    Returns:
        one row a number, set and text: `n_texts`, `seen` ("fitted" or "held out"), and the columns of `layer_change`.
    """
    frames = []
    for number in numbers:
        changes = refitted(encoder, texts[:number], layer, source, targets, ridge=ridge)
        for seen, which in (("fitted", texts[:number]), ("held out", held_out)):
            frames.append(layer_change(encoder, which, changes).assign(n_texts=number, seen=seen))
    return pd.concat(frames, ignore_index=True)
