"""A head's attention given to a head of another layer, by least squares.

The head that takes over reads other states, so that a copy of query and key need not do what it did. What it needs is a query and a
key that come out as the giver's did; and, as its map is then another, values that read what it read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch.nn.functional import pad

from course_utils.analysis.moving import least_squares
from course_utils.errors import AnalysisError
from course_utils.models.moving import Head, HeadWeights, read_head, use_heads
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
