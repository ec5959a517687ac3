"""Can head B do its work with head A's attention, and the model predict the same? Refitted values, and attention that is learned.

Within a layer two heads read the same states, so that B attends like A once it has A's query and key. What B then reads is the
matter of its values, which are fitted by least squares: `A_source (x V' + v) = A_target (x V + v)` over the tokens of some texts.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch.func import functional_call

from course_utils.analysis.distances import tvd
from course_utils.errors import AnalysisError
from course_utils.models.finetuned import EncoderClassifier, logits_of
from course_utils.models.heads import attention_modules
from course_utils.models.moving import Head, HeadWeights, read_head, replaced, use_heads
from course_utils.models.pieces import Pieces
from course_utils.models.transformer import Encoder

WAYS = ("removed", "values kept", "values refitted", "even, values refitted")
MASKED = -1e9
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
    new = (old + _least_squares(x, torch.cat(wanted).double() - x @ old, ridge)).float()
    found = {}
    for target, taker, fit in zip(targets, takers, new.chunk(len(takers), 1), strict=True):
        weights = taker.attending_evenly() if even else taker.attending_like(giver)
        found[layer, target] = replace(weights, value=fit[:-1].T.contiguous(), value_bias=fit[-1])
    return found


def _least_squares(x: torch.Tensor, y: torch.Tensor, ridge: float) -> torch.Tensor:
    """The least-norm solution of `x w = y`; with `ridge`, of the penalised problem."""
    if ridge > 0:
        size = (ridge * x.square().sum() / x.shape[1]).sqrt() * torch.eye(x.shape[1]).to(x)
        x, y = torch.cat([x, size]), torch.cat([y, y.new_zeros(len(size), y.shape[1])])
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
    before = logits_of(classifier, texts).double().softmax(-1)
    with use_heads(classifier.encoder.model, changes):
        after = logits_of(classifier, texts).double().softmax(-1)
    predicted = before.argmax(-1)
    probabilities = {
        name: values.gather(1, predicted[:, None]).squeeze(1).numpy() for name, values in (("before", before), ("after", after))
    }
    flipped = (after.argmax(-1) != predicted).numpy()
    return pd.DataFrame(
        {"input": np.arange(len(texts))} | probabilities | {"change": tvd(before, after).numpy(), "flipped": flipped}
    )


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
        one row a way and held-out text: the columns of `prediction_change`, and `way`.
    """
    encoder = classifier.encoder
    giver = read_head(encoder.model, layer, source)
    takers = {(layer, target): read_head(encoder.model, layer, target) for target in targets}
    changes = {
        WAYS[0]: {head: replace(taker, output=torch.zeros_like(taker.output)) for head, taker in takers.items()},
        WAYS[1]: {head: taker.attending_like(giver) for head, taker in takers.items()},
        WAYS[2]: refitted(encoder, texts, layer, source, targets, ridge=ridge),
        WAYS[3]: refitted(encoder, texts, layer, source, targets, even=True, ridge=ridge),
    }
    return pd.concat([prediction_change(classifier, held_out, changes[way]).assign(way=way) for way in WAYS], ignore_index=True)


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


def learn_map(
    classifier: EncoderClassifier,
    texts: Sequence[str],
    source: Head,
    target: Head,
    *,
    release: bool = True,
    n_steps: int = 120,
    batch_size: int = 8,
    lr: float = 0.01,
    bound: float = 0.01,
    penalty: float = 10.0,
    seed: int = 0,
) -> tuple[dict[Head, HeadWeights], pd.DataFrame]:
    """Teach head `target`, in any layer, the attention of head `source`, with the predictions held.

    The loss is KL(source's map before || target's map now), averaged over the words' rows, plus `penalty` times what the mean
    KL(prediction before || now) exceeds `bound`. Target's query and key learn the map, its values and output make up for what it
    no longer does. With `release` source's map becomes even, and its values and output are trained to make up for that. All
    other weights stay.

    Args:
        texts: what is learned from; batches are drawn from them without regard to length.
        source, target: (layer, head) of two heads.
        bound: in nats.
        seed: decides the batches.
    Returns:
        the new weights, for `use_heads` and `prediction_change`; and one row a step: `step`, `map_kl` and `prediction_kl` of the
        batch.
    Raises:
        AnalysisError: source and target are the same head.
        ModelError: there is no such head.
    """
    source, target = tuple(source), tuple(target)
    if source == target:
        raise AnalysisError(f"head {source[0]}-{source[1]} attends like itself already; choose two heads")
    model, body = classifier.encoder.model, classifier.body
    heads = {target: vars(read_head(model, *target))}
    if release:
        heads[source] = vars(read_head(model, *source).attending_evenly())
    trained = [(target, name) for name in heads[target]]
    if release:
        trained += [(source, name) for name in ("value", "value_bias", "output")]
    for head, name in trained:
        heads[head][name] = heads[head][name].clone().requires_grad_()
    optimiser = torch.optim.Adam([heads[head][name] for head, name in trained], lr=lr)
    generator = np.random.default_rng(seed)
    history = []
    for step in range(n_steps):
        chosen = generator.choice(len(texts), min(batch_size, len(texts)), replace=False)
        pieces = classifier.encoder.pieces([texts[place] for place in chosen])
        with torch.no_grad():
            wanted, before = _map_and_prediction(classifier, pieces, source, {})
        changes = {head: HeadWeights(**values) for head, values in heads.items()}
        parameters = {f"body.{name}": value for name, value in replaced(body, changes).items()}
        now, after = _map_and_prediction(classifier, pieces, target, parameters)
        rows = pieces.mask & ~pieces.special
        map_kl = _kl(wanted, now)[rows].mean()
        prediction_kl = _kl(before, after).mean()
        optimiser.zero_grad()
        (map_kl + penalty * (prediction_kl - bound).relu()).backward()
        optimiser.step()
        history.append((step, map_kl.item(), prediction_kl.item()))
    weights = {head: HeadWeights(**{name: value.detach() for name, value in values.items()}) for head, values in heads.items()}
    return weights, pd.DataFrame(history, columns=["step", "map_kl", "prediction_kl"])


def _map_and_prediction(
    classifier: EncoderClassifier, pieces: Pieces, head: Head, parameters: dict[str, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, T, T) and (B, C): logarithms of a head's attention, made from its queries and keys, and of the output's probabilities."""
    layer, number = head
    kept, handles = {}, []
    try:
        for part in ("query", "key"):
            module = attention_modules(classifier.body, part)[layer]
            handles.append(module.register_forward_hook(lambda module, inputs, output, part=part: kept.update({part: output})))
        logits = functional_call(classifier, parameters, (pieces,))
    finally:
        for handle in handles:
            handle.remove()
    query, key = (kept[part].unflatten(-1, (classifier.encoder.n_heads, -1))[:, :, number] for part in ("query", "key"))
    scores = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1])
    return scores.masked_fill(~pieces.mask[:, None], MASKED).log_softmax(-1), logits.log_softmax(-1)


def _kl(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """KL(before || after) along the last dimension, from logarithms."""
    return (before.exp() * (before - after)).sum(-1)
