"""Every text without each of its tokens in turn, at the cost of what really changes.

Attention and decoder see a text through two tables: a score and a contribution (logits) for each token. For each encoder this
module says how the tables change when a token is deleted and the text is encoded again, without encoding it again.
"""

from dataclasses import dataclass

import torch
from torch.nn.functional import linear

from course_utils.analysis.lstm import Direction
from course_utils.errors import AnalysisError
from course_utils.models import AttentionClassifier
from course_utils.models.encoders import BiLSTMEncoder, turned


@dataclass(frozen=True)
class Runs:
    """T + 1 versions of each of B texts: in version t < T token t is deleted, version T is the whole text.

    Attributes:
        scores: (B, T + 1, T), what the softmax over tokens sees; meaningless at padding and at the deleted token.
        contributions: (B, T + 1, T, C), the logits of attention on that token alone; as meaningless there.
    """

    scores: torch.Tensor
    contributions: torch.Tensor


def runs(model: AttentionClassifier, embedded: torch.Tensor, mask: torch.Tensor) -> Runs:
    """All versions of B texts.

    Args:
        embedded: (B, T, E), the word vectors; texts in order of falling length.
        mask: (B, T), True at real tokens.
    Raises:
        AnalysisError: the encoder is neither a BiLSTM nor one whose states depend on `reach` neighbours.
    """
    if isinstance(model.encoder, BiLSTMEncoder):
        return _bilstm_runs(model, embedded, mask)
    if hasattr(model.encoder, "reach"):
        return _local_runs(model, embedded, mask)
    raise AnalysisError(
        f"how a {type(model.encoder).__name__} changes when a token is deleted is unknown; "
        "give it an attribute 'reach' if a state depends only on that many neighbours, or add its case to analysis/removal.py"
    )


def _local_runs(model: AttentionClassifier, embedded: torch.Tensor, mask: torch.Tensor) -> Runs:
    """Only the `reach` neighbours on either side of the gap get a new state: encode the closed gap with what they depend on."""
    reach, length = model.encoder.reach, mask.shape[1]
    seen = torch.tensor([*range(-2 * reach, 0), *range(1, 2 * reach + 1)], dtype=torch.int64, device=mask.device)
    around = torch.arange(length, device=mask.device)[:, None] + seen  # (T, 4 reach): a deleted token's neighbours
    padded = torch.nn.functional.pad(embedded, (0, 0, 2 * reach, 2 * reach))
    real = torch.nn.functional.pad(mask, (2 * reach, 2 * reach))
    gaps = model.encoder(padded[:, around + 2 * reach].flatten(0, 1), real[:, around + 2 * reach].flatten(0, 1))
    gaps = gaps.unflatten(0, (len(mask), length))[:, :, reach : 3 * reach]
    changed = around[:, reach : 3 * reach]
    deleted, place = torch.where((changed >= 0) & (changed < length))

    states = model.encoder(embedded, mask)

    def with_gaps(part):
        whole, local = part(states), part(gaps)
        table = whole[:, None].repeat(1, length + 1, *[1] * (whole.dim() - 1))
        table[:, deleted, changed[deleted, place]] = local[:, deleted, place]
        return table

    weight, bias = model.attention.linear()
    return Runs(with_gaps(lambda hidden: model.attention.score_of(hidden @ weight.T + bias)), with_gaps(model.decoder))


def _bilstm_runs(model: AttentionClassifier, embedded: torch.Tensor, mask: torch.Tensor) -> Runs:
    """Continue each direction from the state before the gap, for all gaps at once, until the gap is forgotten.

    Deleting token t changes the forward states after it and the backward states before it, nothing else. The projection of a
    token's word vector is the same in all versions; projection and contribution of a state are sums of a forward and a backward
    half, one of which is always that of the whole text. Of the versions only the tables are kept, never the T^2 states.
    """
    lengths, order, texts = mask.sum(1), turned(mask), torch.arange(len(mask), device=mask.device)
    directions = Direction.of(model.encoder)
    in_reading_order = embedded, embedded.gather(1, order[..., None].expand_as(embedded))
    inputs = [direction.project(part) for direction, part in zip(directions, in_reading_order, strict=True)]
    states = [direction.read(part) for direction, part in zip(directions, inputs, strict=True)]

    weight, bias = model.attention.linear()
    biases = torch.cat([bias, model.decoder.bias])
    to_tables = torch.cat([weight, model.decoder.weight]).chunk(2, dim=1)  # one product gives projection and contribution
    halves = [linear(hidden, part) for (hidden, _), part in zip(states, to_tables, strict=True)]

    def tables(sums: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        projected, contributions = sums.tensor_split([len(bias)], dim=-1)
        return model.attention.score_of(projected), contributions

    others = [half[order.T, texts] + biases for half in reversed(halves)]
    wholes = [tables(half + other) for half, other in zip(halves, others, strict=True)]

    def versions(side: int) -> list[torch.Tensor]:
        """Scores and logits, (step, deleted, text, ...): those of the whole text, and over them what a deletion changes."""
        found = [whole[:, None].repeat(1, len(whole), *[1] * (whole.dim() - 1)) for whole in wholes[side]]
        for now in directions[side].without_each(inputs[side], *states[side], lengths):
            changed = tables(others[side][now.step].index_select(0, now.text).addmm_(now.hidden, to_tables[side].T))
            for table, values in zip(found, changed, strict=True):
                table[now.step, now.deleted, now.text] = values
        return found

    parts = zip(versions(0), versions(1), wholes[0], strict=True)
    return Runs(
        *(torch.cat([_both_sides(ahead, behind, order), whole.transpose(0, 1)[:, None]], dim=1) for ahead, behind, whole in parts)
    )


def _both_sides(forward: torch.Tensor, backward: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """(step, deleted, B, ...) of each direction to (B, deleted, position, ...): forward behind the gap, backward before it."""
    forward, backward = forward.transpose(0, 2), backward.transpose(0, 2)  # text, deleted, step
    backward = backward[torch.arange(len(order), device=order.device)[:, None, None], order[:, :, None], order[:, None, :]]
    places = torch.arange(order.shape[1], device=order.device)
    behind = (places > places[:, None]).view(1, *[len(places)] * 2, *[1] * (forward.dim() - 3))
    return torch.where(behind, forward, backward)
