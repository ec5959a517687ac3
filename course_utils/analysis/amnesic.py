"""Is what a probe reads also used? A property is taken out of the states, and the model goes on without it.

Iterative null-space projection (Ravfogel et al. 2020) finds the directions; amnesic probing (Elazar et al. 2021) looks at what the
model then does, beside the removal of as many random directions.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from course_utils.analysis.probing import STRENGTH, train_probe
from course_utils.errors import AnalysisError
from course_utils.models import Encoder
from course_utils.models.finetuned import EncoderClassifier, logits_of


def readable_directions(features: np.ndarray, labels: Sequence, n_directions: int, *, strength: float = STRENGTH) -> np.ndarray:
    """Directions by which a linear probe reads the labels, the most readable first (Ravfogel et al. 2020, algorithm 1).

    A probe is trained, its directions are projected out of the features, and the next probe is trained on what is left. All
    features share one scale. Standardised one by one, a feature that hardly varies would give the direction, and what the model
    reads would stay.

    Args:
        features: (n, F). labels: n of them, two classes or more.
        n_directions: how many to find, at most F. With K > 2 classes a probe gives up to K of them at once.
    Returns:
        (n_directions, F), orthonormal rows.
    Raises:
        AnalysisError: as `probing.train_probe`, or a number of directions that is not from 1 to F.
    """
    size = features.shape[1]
    features = features / (features.std(0).mean() or 1)
    if not 1 <= n_directions <= size:
        raise AnalysisError(f"n_directions is {n_directions}; the states have {size} dimensions, so give 1 to {size}")
    found = np.zeros((0, size))
    while len(found) < n_directions:
        weights = train_probe(without(features, found), labels, strength=strength, standardised=False)[-1].coef_
        weights = weights - weights @ found.T @ found
        _, values, rows = np.linalg.svd(weights, full_matrices=False)
        new = rows[values > 1e-6 * values[0]][: n_directions - len(found)]
        found = np.concatenate([found, new])
    return found


def random_directions(size: int, n_directions: int, seed: int) -> np.ndarray:
    """(n_directions, size), orthonormal rows in a random direction: what removing that much costs, whatever it is."""
    drawn = np.random.default_rng(seed).normal(size=(size, n_directions))
    return np.linalg.qr(drawn)[0].T


def without(features: np.ndarray, directions: np.ndarray, centre: np.ndarray | None = None) -> np.ndarray:
    """The features with their component along the directions (orthonormal rows) set to that of `centre`, 0 unless told."""
    centred = features if centre is None else features - centre
    return features - centred @ directions.T @ directions


@torch.no_grad()
def sentence_states(encoder: Encoder, texts: Sequence[str], layer: int) -> np.ndarray:
    """(N, 2, H), after a layer: each text's first token, [CLS], and the mean over its other tokens.

    Args:
        layer: 0 are the embeddings.
    Raises:
        DataError: no text, or one without a token.
        AnalysisError: the layer does not exist.
    """
    if not 0 <= layer <= encoder.n_layers:
        raise AnalysisError(f"layer {layer} does not exist; there are 0 (the embeddings) to {encoder.n_layers}")
    found = None
    for maps in encoder.stream(texts, states=True):
        states, mask = maps.hidden[:, layer], maps.mask[:, 1:, None].to(maps.hidden.dtype)
        others = (states[:, 1:] * mask).sum(1) / mask.sum(1)
        both = torch.stack([states[:, 0], others], 1).float().cpu().numpy()
        found = np.empty((len(texts), *both.shape[1:]), np.float32) if found is None else found
        found[maps.index.cpu().numpy()] = both
    return found


@contextmanager
def removed(classifier: EncoderClassifier, layer: int, directions: np.ndarray, centre: np.ndarray) -> Iterator[None]:
    """While the context lasts, every token's state after `layer` has the component of `centre` along the directions.

    All layers above read the changed states. The hook is removed in any case, also after an exception.

    Args:
        layer: from 1, after the first layer, to the number of layers; 0 are the embeddings.
        directions: (r, H), orthonormal rows.
        centre: (2, H), for the first token and for the others, usually the means of `sentence_states`; or (H,) for all.
    Raises:
        AnalysisError: the layer does not exist, or a shape does not fit.
    """
    body = classifier.body
    layers, size = body.encoder.layer, body.config.hidden_size
    if not 0 <= layer <= len(layers):
        raise AnalysisError(f"layer {layer} does not exist; there are 0 (the embeddings) to {len(layers)}")
    if directions.shape[1:] != (size,) or centre.shape not in ((size,), (2, size)):
        shapes = f"directions of shape {directions.shape} and a centre of shape {centre.shape}"
        raise AnalysisError(f"{shapes} do not fit states of {size} numbers")
    weight = next(body.parameters())
    directions = torch.as_tensor(directions).to(weight)
    first, other = torch.as_tensor(np.broadcast_to(centre, (2, size)).copy()).to(weight)

    def remove(module, inputs, output):
        states = output[0] if isinstance(output, tuple) else output
        aim = torch.cat([first.expand(len(states), 1, -1), other.expand(len(states), states.shape[1] - 1, -1)], 1)
        states = states - (states - aim) @ directions.T @ directions
        return (states, *output[1:]) if isinstance(output, tuple) else states

    handle = (layers[layer - 1] if layer else body.embeddings).register_forward_hook(remove)
    try:
        yield
    finally:
        handle.remove()


def logits_without(
    classifier: EncoderClassifier, texts: Sequence[str], layer: int, directions: np.ndarray, centre: np.ndarray
) -> torch.Tensor:
    """(N, C) logits of the texts when the directions are removed after a layer; arguments as in `removed`."""
    with removed(classifier, layer, directions, centre):
        return logits_of(classifier, texts)
