"""Weight is not contribution: what a head reads from a token is attention times the value vector, and that vector can be short.

After Kobayashi et al. (2020, section 3): a layer adds to token i the sum over heads and tokens j of alpha_ij f(x_j), with
f(x) = (x W_V + b_V) W_O. The norm of alpha_ij f(x_j) says how much of the sum comes from j. A head can "attend" to [CLS] and read
almost nothing there: a no-op.
"""

from collections.abc import Iterator, Sequence

import pandas as pd
import torch

from course_utils.errors import AnalysisError
from course_utils.models.heads import output_weights
from course_utils.models.maps import AttentionMaps
from course_utils.models.transformer import Encoder

TOKEN_CLASSES = ("first", "separator", "punctuation", "word")


def transformed_norms(encoder: Encoder, maps: AttentionMaps) -> torch.Tensor:
    """(B, L, N, T), the norm of f(x_j), each head's transformed value of each token; 0 at padding.

    Args:
        maps: made with `states=True`.
    Raises:
        AnalysisError: the maps have no value vectors.
    """
    norms = torch.stack([written.norm(dim=-1) for written in written_values(encoder, maps)], 1)
    return norms * maps.mask[:, None, None]


def head_norms(encoder: Encoder, maps: AttentionMaps) -> torch.Tensor:
    """(B, L, N, T, T), the norm of alpha_ij f(x_j) in each head [query x key]. Arguments as in `transformed_norms`."""
    return maps.attention * transformed_norms(encoder, maps)[..., None, :]


def layer_norms(encoder: Encoder, maps: AttentionMaps) -> torch.Tensor:
    """(B, L, T, T), the norm of the sum over heads of alpha_ij f(x_j) [query x key]. Arguments as in `transformed_norms`.

    Heads can write in opposite directions, so it is at most the sum of `head_norms` over heads. The sums themselves, T x T vectors
    of the model's width, are never built: their squared norms follow from the products of the heads' vectors with one another.
    """
    layers = []
    for layer, written in enumerate(written_values(encoder, maps)):
        products = torch.einsum("bnth,bmth->btnm", written, written)
        weights = maps.attention[:, layer].permute(0, 3, 2, 1)  # (B, key, query, N)
        layers.append(((weights @ products) * weights).sum(-1).clamp(min=0).sqrt().transpose(1, 2))
    return torch.stack(layers, 1)


def written_values(encoder: Encoder, maps: AttentionMaps) -> Iterator[torch.Tensor]:
    """Layer by layer, (B, N, T, H): f(x_j), what each head writes from each token before attention scales it.

    Arguments and errors as in `transformed_norms`.
    """
    if maps.values is None:
        raise AnalysisError("these maps have no value vectors; make them with encoder.attend(texts, states=True)")
    for layer, weight in enumerate(output_weights(encoder.model)):
        yield maps.values[:, layer] @ weight


def contributions(encoder: Encoder, texts: Sequence[str], *, token_budget: int = 2048, progress: bool = False) -> pd.DataFrame:
    """How much each layer attends to [CLS], [SEP], punctuation and words, and how much it reads there.

    Queries are the tokens of the text; shares are of each query's sum over all keys, averaged over queries, then over heads.

    Returns:
        one row a text, layer and token class: `input`, `layer`, `token_class` ("first", the first token, [CLS] where there is one,
        "separator", "punctuation", "word"), `attention` the share of attention weight and `norm` the share of the norms of
        alpha f(x), both in [0, 1], each summing to 1 over the classes; `value_norm`, the mean norm of f(x) of a token of this
        class, divided by that of a word's in the same text and layer. A class that a text does not have: 0, 0 and nan.
    """
    parts = []
    for maps in encoder.stream(texts, token_budget=token_budget, states=True, progress=progress):
        classes = _classes(maps)  # (B, T, classes)
        queries = (maps.mask & ~maps.special).to(maps.attention)
        queries = queries / queries.sum(-1, keepdim=True)
        value_norms = transformed_norms(encoder, maps)
        norms = maps.attention * value_norms[..., None, :]
        norms = norms / norms.sum(-1, keepdim=True).clamp(min=torch.finfo(norms.dtype).tiny)
        sizes = (value_norms.mean(2) @ classes) / classes.sum(1)[:, None]  # (B, L, classes)
        columns = {
            "attention": _share(maps.attention, queries, classes),
            "norm": _share(norms, queries, classes),
            "value_norm": sizes / sizes[..., -1:],
        }
        n_layers = maps.n_layers
        index = pd.MultiIndex.from_product(
            [maps.index.tolist(), range(n_layers), TOKEN_CLASSES], names=["input", "layer", "token_class"]
        )
        parts.append(pd.DataFrame({name: values.flatten().cpu().numpy() for name, values in columns.items()}, index=index))
    return pd.concat(parts).sort_index(level="input", sort_remaining=False, kind="stable").reset_index()


def _classes(maps: AttentionMaps) -> torch.Tensor:
    """(B, T, 4), which class each real token belongs to: exactly one of TOKEN_CLASSES."""
    first = torch.zeros_like(maps.mask)
    first[:, 0] = True
    separator = maps.separator & ~first
    punctuation = maps.punctuation & ~first
    word = maps.mask & ~first & ~separator & ~punctuation
    return torch.stack([first, separator, punctuation, word], -1).to(maps.attention)


def _share(weights: torch.Tensor, queries: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    """(B, L, N, T, T) to (B, L, classes): the sum over keys of a class, averaged over queries and heads."""
    by_key = torch.einsum("blnqk,bq->blk", weights, queries) / weights.shape[2]
    return by_key @ classes
