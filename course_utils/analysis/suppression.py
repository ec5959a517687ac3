"""Heads that work against something: against the word they look at, or against the model's answer.

`copying` looks at what a head writes. A head that looks at a word and writes the opposite of it suppresses it; in GPT-2 one such
head holds down words that the model is about to repeat (copy suppression; McDougall et al. 2023). An encoder without a language
model's output has no word to hold down, so the score is defined on its own vectors, and names a head without proving an effect.

`removal` is the test by effect: what happens to the margin of the right class when the head is gone. `expected_removal` estimates
it for all heads at once from one gradient, to choose with (the gates of Michel et al. 2019, section 4.1, with their sign).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from course_utils.analysis.contribution import written_values
from course_utils.analysis.resampling import draws, interval
from course_utils.errors import AnalysisError
from course_utils.models.finetuned import EncoderClassifier
from course_utils.models.heads import gate_heads
from course_utils.models.pieces import Pieces
from course_utils.models.transformer import Encoder

HEAD = ("layer", "head")


def copying(encoder: Encoder, texts: Sequence[str], *, token_budget: int = 2048) -> pd.DataFrame:
    """Whether heads write towards the words they look at, or against them.

    From word piece j a head writes f(x_j) = (x_j W_V + b_V) W_O, scaled by the attention. Its direction is compared with the
    piece's input embedding e_j by the cosine, after the mean over the text's pieces is taken from both: what all words of the text
    share counts for nothing. The score is the mean of these cosines weighted by attention, over queries and keys that are
    different pieces of the text; attention to [CLS] and [SEP] does not count.

    Returns:
        one row a text and head: `input`, `layer`, `head`, `copying` in [-1, 1]: 1 copies, 0 writes something unrelated, below 0
        writes against the word. Texts of one piece have no row.
    Raises:
        AnalysisError: no text has two pieces.
    """
    table, parts = encoder.model.get_input_embeddings().weight.detach(), []
    for maps in encoder.stream(texts, token_budget=token_budget, states=True):
        inside = maps.mask & ~maps.special
        embedded = _direction(table[maps.ids], inside)
        others = inside[:, :, None] & inside[:, None, :] & ~torch.eye(inside.shape[1], dtype=torch.bool, device=inside.device)
        layers = []
        for layer, written in enumerate(written_values(encoder, maps)):  # (B, N, T, H)
            cosine = (_direction(written, inside[:, None]) * embedded[:, None]).sum(-1)
            attention = maps.attention[:, layer] * others[:, None]
            layers.append((attention @ cosine[..., None])[..., 0].sum(-1) / attention.sum((-2, -1)).clamp(min=1e-12))
        scores = torch.stack(layers, 1)[inside.sum(1) > 1].cpu()
        inputs, at_layer, head = np.indices(scores.shape).reshape(3, -1)
        kept = maps.index[inside.sum(1) > 1].cpu().numpy()
        parts.append(pd.DataFrame({"input": kept[inputs], "layer": at_layer, "head": head, "copying": scores.flatten().numpy()}))
    frame = pd.concat(parts)
    if frame.empty:
        raise AnalysisError("no text has two word pieces, so no head can look at another word; give longer texts")
    return frame.sort_values(["input", *HEAD], ignore_index=True)


def removal(
    classifier: EncoderClassifier,
    texts: Sequence[str],
    labels: Sequence[int],
    heads: Sequence[tuple[int, int]],
    *,
    token_budget: int = 2048,
) -> pd.DataFrame:
    """What the classifier says when a head is gone (its output set to 0), one head at a time.

    Args:
        labels: the right class of each text.
        heads: layers and heads, from 0.
    Returns:
        one row a text and head: `input`, `layer`, `head`, `toward_right`, by how much the margin of the right class rises without
        the head, and `toward_predicted`, that of the class that the whole model predicts. A margin is a class's logit minus the log
        of the summed exponentials of the others'; with two classes, the difference of the logits. Above 0 the head works against
        the class.
    Raises:
        AnalysisError: no head, an unknown one, or labels that do not fit.
    """
    labels = _labels(texts, labels, classifier.head.out_features)
    shape = (classifier.encoder.n_layers, classifier.encoder.n_heads)
    wrong = [tuple(head) for head in heads if not (0 <= head[0] < shape[0] and 0 <= head[1] < shape[1])]
    if wrong or not heads:
        raise AnalysisError(f"heads are {wrong[:1] or 'none'}; give pairs of a layer below {shape[0]} and a head below {shape[1]}")
    parts = []
    for pieces in classifier.encoder.batches(texts, token_budget=token_budget):
        with torch.no_grad():
            whole = classifier(pieces)
            for layer, head in heads:
                gates = torch.ones(shape, device=whole.device)
                gates[layer, head] = 0
                with gate_heads(classifier.body, gates):
                    without = classifier(pieces)
                changes = _changes(without, whole, labels, pieces)
                parts.append(pd.DataFrame({"input": pieces.index.cpu().numpy(), "layer": layer, "head": head} | changes))
    return pd.concat(parts).sort_values(["input", *HEAD], ignore_index=True)


def expected_removal(
    classifier: EncoderClassifier, texts: Sequence[str], labels: Sequence[int], *, token_budget: int = 2048
) -> pd.DataFrame:
    """A first-order estimate of `removal` for every head, from one gradient: minus the margin's slope in the head's gate.

    Returns:
        as `removal`.
    Raises:
        AnalysisError: labels that do not fit.
    """
    labels = _labels(texts, labels, classifier.head.out_features)
    shape, parts = (classifier.encoder.n_layers, classifier.encoder.n_heads), []
    for pieces in classifier.encoder.batches(texts, token_budget=token_budget):
        gates = torch.ones(len(pieces), *shape, device=classifier.device, requires_grad=True)
        with gate_heads(classifier.body, gates):
            logits = classifier(pieces)
        right = labels.to(logits.device)[pieces.index]
        (slope,) = torch.autograd.grad(_margin(logits, right).sum(), gates, retain_graph=True)
        (of_predicted,) = torch.autograd.grad(_margin(logits, logits.argmax(1)).sum(), gates)
        inputs, layer, head = np.indices(slope.shape).reshape(3, -1)
        changes = {"toward_right": -slope, "toward_predicted": -of_predicted}
        columns = {"input": pieces.index.cpu().numpy()[inputs], "layer": layer, "head": head}
        parts.append(pd.DataFrame(columns | {name: value.flatten().cpu().numpy() for name, value in changes.items()}))
    return pd.concat(parts).sort_values(["input", *HEAD], ignore_index=True)


def by_head(frame: pd.DataFrame, column: str, *, n_resamples: int = 1000, seed: int = 0) -> pd.DataFrame:
    """The mean over texts of one column, with a 95 % bootstrap interval over texts.

    Returns:
        one row a head: `layer`, `head`, `mean`, `low`, `high`.
    """
    values = frame.pivot(index=list(HEAD), columns="input", values=column)
    drawn = draws(values.shape[1], n_resamples, seed) @ values.to_numpy(dtype=float).T / values.shape[1]
    low, high = interval(drawn)
    return pd.DataFrame({"mean": values.mean(axis=1), "low": low, "high": high}).reset_index()


def _direction(vectors: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
    """Vectors (..., T, H) minus their mean over the pieces that are `inside` (..., T), at length 1."""
    weights = inside.to(vectors)[..., None]
    mean = (vectors * weights).sum(-2, keepdim=True) / weights.sum(-2, keepdim=True).clamp(min=1)
    return torch.nn.functional.normalize(vectors - mean, dim=-1)


def _margin(logits: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """(B,), the logit of each one's class against all the others'."""
    chosen = torch.nn.functional.one_hot(classes, logits.shape[1]).bool()
    return logits[chosen] - logits.masked_fill(chosen, -torch.inf).logsumexp(1)


def _changes(without: torch.Tensor, whole: torch.Tensor, labels: torch.Tensor, pieces: Pieces) -> dict[str, np.ndarray]:
    classes = {"toward_right": labels.to(whole.device)[pieces.index], "toward_predicted": whole.argmax(1)}
    return {name: (_margin(without, kind) - _margin(whole, kind)).cpu().numpy() for name, kind in classes.items()}


def _labels(texts: Sequence[str], labels: Sequence[int], n_classes: int) -> torch.Tensor:
    labels = list(labels)
    if len(labels) != len(texts) or not all(label in range(n_classes) for label in labels):
        raise AnalysisError(
            f"{len(texts)} texts need as many labels from 0 to {n_classes - 1}; got {len(labels)}: {labels[:3]} ..."
        )
    return torch.tensor(labels)
