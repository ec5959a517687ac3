"""Where information comes from after several layers: attention rollout and attention flow (Abnar & Zuidema 2020).

Both read attention as the weights of a network whose nodes are (layer, token), with half of each token's weight on itself for the
residual connection. Rollout follows random walks down the network, flow asks how much could pass through it at most.
Layers are numbered from 0; the weights of layer l lead from the states after it to the states before it.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow
from scipy.stats import spearmanr

from course_utils.analysis.contribution import layer_norms
from course_utils.errors import AnalysisError
from course_utils.models.maps import AttentionMaps
from course_utils.models.pieces import Pieces
from course_utils.models.transformer import Encoder

QUERIES = ("mean", "first", "last")
_UNIT = 2**26


def mean_heads(maps: AttentionMaps) -> torch.Tensor:
    """(B, L, T, T), the mean over heads: what Abnar & Zuidema call raw attention."""
    return maps.attention.mean(2)


def norm_weights(encoder: Encoder, maps: AttentionMaps) -> torch.Tensor:
    """(B, L, T, T), the norms of what each query reads from each key (Kobayashi et al. 2020), rows divided by their sums.

    Args:
        maps: made with `states=True`.
    """
    norms = layer_norms(encoder, maps)
    return norms / norms.sum(-1, keepdim=True).clamp(min=torch.finfo(norms.dtype).tiny)


def with_residual(weights: torch.Tensor, residual: float = 0.5) -> torch.Tensor:
    """`residual` of each row on the token itself, the rest as it was; rows sum to 1 (Abnar & Zuidema 2020, section 3).

    Args:
        weights: (..., T, T) not negative [query x key]; rows are divided by their sums, rows of padding (all 0) stay 0.
    """
    sums = weights.sum(-1, keepdim=True)
    real = sums > 0
    identity = torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    return (1 - residual) * weights / sums.where(real, torch.ones_like(sums)) + residual * identity * real


def rollout(weights: torch.Tensor, residual: float = 0.5) -> torch.Tensor:
    """Attention rollout: the product of the layers' weights, from each layer down to the input.

    Args:
        weights: (..., L, T, T), as from `mean_heads` or `norm_weights`.
        residual: share of each token's weight on itself, in [0, 1].
    Returns:
        (..., L, T, T): entry l, i, j says how much of token i after layer l comes from input token j; rows sum to 1.
    """
    layers = with_residual(weights, residual).unbind(-3)
    rolled = [layers[0]]
    for layer in layers[1:]:
        rolled.append(layer @ rolled[-1])
    return torch.stack(rolled, -3)


def max_flow(weights: torch.Tensor, query: torch.Tensor, *, layer: int = -1, residual: float = 0.5) -> torch.Tensor:
    """Attention flow: the largest flow that the network lets pass from each input token to the query.

    Each input token is asked for by itself, with the whole network free for it. Capacities are rounded to 1.5e-8, for scipy's
    solver works on integers; networkx's gives the same, a hundred times slower.

    Args:
        weights: (L, T, T) of one text without padding, as from `mean_heads(maps.one(row))[0]`.
        query: (T,), sums to 1, how much each token after `layer` may receive: 1 at one token, or 1 / T at all for their mean.
        layer: 0..L - 1, or -1 for the last.
    Returns:
        (T,), in [0, 1]. They do not sum to 1.
    Raises:
        AnalysisError: the weights are not those of one text.
    """
    if weights.dim() != 3:
        raise AnalysisError(f"flow needs the weights of one text, (L, T, T), not {tuple(weights.shape)}")
    capacities = with_residual(weights, residual).double().cpu().numpy()[: layer + 1 or None]
    n_layers, size = capacities.shape[:2]
    source = (n_layers + 1) * size  # node of token t after layer l: l x T + t, l = 0 the input
    depth, token, key = np.nonzero(capacities)
    start = np.concatenate([np.full(size, source), (depth + 1) * size + token]).astype(np.int32)
    end = np.concatenate([n_layers * size + np.arange(size), depth * size + key]).astype(np.int32)
    amount = np.concatenate([query.double().cpu().numpy(), capacities[depth, token, key]])
    network = csr_array(((amount * _UNIT).round().astype(np.int32), (start, end)), shape=(source + 1, source + 1))
    flows = [maximum_flow(network, source, token).flow_value / _UNIT for token in range(size)]
    return torch.tensor(flows, dtype=weights.dtype)


def query_weights(pieces: Pieces, query: str = "mean") -> torch.Tensor:
    """(B, T), where an output is read: "mean" over real tokens, the "first" ([CLS]) or the "last" token. Rows sum to 1."""
    if query not in QUERIES:
        raise AnalysisError(f"query {query!r} is unknown; choose one of {', '.join(QUERIES)}")
    position = torch.arange(pieces.mask.shape[1], device=pieces.mask.device)
    chosen = {"mean": pieces.mask, "first": position == 0, "last": position == pieces.lengths[:, None] - 1}[query]
    chosen = chosen.expand(pieces.mask.shape).float()
    return chosen / chosen.sum(-1, keepdim=True)


Readout = Callable[[torch.Tensor, Pieces], torch.Tensor]


def blank_out(
    encoder: Encoder,
    pieces: Pieces,
    *,
    query: str = "mean",
    readout: Readout | None = None,
    blank: int | None = None,
    token_budget: int = 8192,
) -> torch.Tensor:
    """How far the output moves when a token is replaced by [MASK] (or the unknown token, for a model without a mask).

    Args:
        query: where the output state is read, as in `query_weights`.
        readout: from last states (B, T, H) and pieces to (B, R), in place of `query`: a classifier's probabilities, for instance.
        blank: the number of another token to put in each token's place.
        token_budget: most tokens in one forward pass.
    Returns:
        (B, T), the Euclidean distance between the two outputs; nan at special tokens and padding.
    Raises:
        AnalysisError: the tokenizer has neither a mask nor an unknown token.
    """
    known = (blank, encoder.tokenizer.mask_token_id, encoder.tokenizer.unk_token_id)
    blank = next((number for number in known if number is not None), None)
    if blank is None:
        raise AnalysisError("the tokenizer has neither a mask token nor an unknown token to put in a token's place")
    rows, columns = (pieces.mask & ~pieces.special).nonzero(as_tuple=True)
    everything = torch.arange(len(pieces), device=rows.device)
    whole = _outputs(encoder, pieces, pieces.ids, everything, query, readout)
    importance = torch.full(pieces.mask.shape, torch.nan, dtype=whole.dtype, device=whole.device)
    size = max(1, token_budget // pieces.mask.shape[1])
    for some_rows, some_columns in zip(rows.split(size), columns.split(size), strict=True):
        ids = pieces.ids[some_rows]
        ids[torch.arange(len(ids), device=ids.device), some_columns] = blank
        changed = _outputs(encoder, pieces, ids, some_rows, query, readout)
        importance[some_rows, some_columns] = (changed - whole[some_rows]).norm(dim=-1)
    return importance


def _outputs(
    encoder: Encoder, pieces: Pieces, ids: torch.Tensor, rows: torch.Tensor, query: str, readout: Readout | None
) -> torch.Tensor:
    """(R, ...) outputs for `ids`, variants of the texts `rows`."""
    variants = pieces.take(rows, ids)
    with torch.no_grad():
        states = encoder.model.base_model(input_ids=ids, attention_mask=variants.mask.long()).last_hidden_state
        if readout is not None:
            return readout(states, variants)
    return (query_weights(variants, query).to(states)[..., None] * states).sum(1)


def agreement_with_blank_out(
    encoder: Encoder,
    texts: Sequence[str],
    *,
    query: str = "mean",
    readout: Readout | None = None,
    special: bool = True,
    flow: bool = True,
    progress: bool = False,
) -> pd.DataFrame:
    """Do raw attention, rollout and flow rank tokens as blanking them out does (Abnar & Zuidema 2020, table 1)? Layer by layer.

    Blank-out importance is one ranking a text; each method has one a layer, read from that layer down to the input ("raw" and
    "norm": from that layer only). Special tokens are left out of the rankings.

    Args:
        query: where the output is read, as in `query_weights`. A causal model's output is its "last" token's.
        readout: what blanking out is measured by, as in `blank_out`; attention is still read at `query`.
        special: whether [CLS] and [SEP] are part of the networks. Without them each row is divided by what is left of its sum.
        flow: whether to compute flows, one maximum flow a token and layer.
    Returns:
        one row a text, layer and method: `input`, `layer`, `method` ("raw", "norm" for the weights of `norm_weights`, "rollout",
        "norm rollout", "flow"), `spearman` in [-1, 1], nan where a text has fewer than 3 tokens or a ranking is constant.
    Raises:
        AnalysisError: the output is read at a token that sees nothing else, or that is left out.
    """
    if not special and query != "mean":
        raise AnalysisError(f"without special tokens the output cannot be read at the {query!r} token; use query='mean'")
    rows = []
    for maps in encoder.stream(texts, states=True, progress=progress):
        if maps.causal and query == "first":
            raise AnalysisError("the first token of a causal model sees only itself; use query='last'")
        importance = blank_out(encoder, maps, query=query, readout=readout).cpu().numpy()
        kept = maps.mask if special else maps.mask & ~maps.special
        targets = query_weights(maps, query).to(maps.attention) * kept
        raw, norm = mean_heads(maps), norm_weights(encoder, maps)
        for row, position in enumerate(maps.index.tolist()):
            nodes = kept[row].nonzero()[:, 0]
            known = importance[row, nodes.cpu().numpy()]
            words = ~np.isnan(known)
            target = targets[row, nodes] / targets[row, nodes].sum()
            ours, theirs = (with_residual(weights[row][:, nodes][:, :, nodes], 0) for weights in (raw, norm))
            networks = {"raw": ours, "norm": theirs, "rollout": rollout(ours), "norm rollout": rollout(theirs)}
            read = {name: (target @ weights).cpu().numpy() for name, weights in networks.items()}
            if flow:
                read["flow"] = np.stack([max_flow(ours, target, layer=layer).numpy() for layer in range(len(ours))])
            for name, weights in read.items():
                for layer, values in enumerate(weights):
                    rows.append((position, layer, name, _spearman(values[words], known[words])))
    frame = pd.DataFrame(rows, columns=["input", "layer", "method", "spearman"])
    return frame.sort_values(["input", "layer"], kind="stable", ignore_index=True)


def _spearman(one: np.ndarray, other: np.ndarray) -> float:
    if len(one) < 3 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return np.nan
    return float(spearmanr(one, other).statistic)
