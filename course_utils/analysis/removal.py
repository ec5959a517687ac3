"""Every text without each of its tokens in turn, at the cost of what really changes.

Attention and decoder see a text through two tables: a score and a contribution (logits) for each token. For each encoder this
module says how the tables change when a token is deleted and the text is encoded again, without encoding it again.
"""

from dataclasses import dataclass

import torch

from course_utils.analysis.lstm import Cells, mirror_of, mirrored
from course_utils.errors import AnalysisError
from course_utils.models import AttentionClassifier
from course_utils.models.encoders import BiLSTMEncoder


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
    """Continue each direction from the state before the gap, for all gaps at once.

    Deleting token t changes the forward states after it and the backward states before it, nothing else. The projection of a
    token's word vector is the same in all versions; projection and contribution of a state are sums of a forward and a backward
    half, one of which is always that of the whole text. Of the versions only the tables are kept, never the T^2 states.
    """
    lengths = mask.sum(1)
    cells, mirror = Cells.of(model.encoder), mirror_of(mask)
    inputs = cells.project(embedded, mirror)
    hidden, cell = cells.read(inputs)

    weight, bias = model.attention.linear()
    to_tables = _halves(torch.cat([weight, model.decoder.weight]))  # one product gives projection and contribution
    halves = hidden @ to_tables[:, None]
    other_halves = torch.stack([mirrored(side, mirror) for side in halves.flip(0)]) + torch.cat([bias, model.decoder.bias])

    def tables(sums: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        projected, contributions = sums.tensor_split([len(bias)], dim=-1)
        return model.attention.score_of(projected), contributions

    longest, count = mask.shape[1], len(mask)
    scores = hidden.new_zeros(2, longest, longest, count)  # direction, step, deleted token, text
    logits = hidden.new_zeros(2, longest, longest, count, model.decoder.out_features)
    longer = (lengths > torch.arange(longest, device=mask.device)[:, None]).sum(1).tolist()  # texts that have this step
    now_hidden, now_cell = torch.zeros_like(hidden), torch.zeros_like(cell)
    for step in range(1, longest):
        active = longer[step]
        if active < now_hidden.shape[2]:
            now_hidden, now_cell = now_hidden[:, :, :active].contiguous(), now_cell[:, :, :active].contiguous()
        if step > 1:  # the version without token step - 1 starts here, from the state before that token
            now_hidden[:, step - 1], now_cell[:, step - 1] = hidden[:, step - 2, :active], cell[:, step - 2, :active]
        rows = now_hidden[:, :step].flatten(1, 2)
        cells.advance(rows, now_cell[:, :step].flatten(1, 2), inputs[:, step, :active])
        sums = (rows @ to_tables).unflatten(1, (step, active)).add_(other_halves[:, step, None, :active])
        scores[:, step, :step, :active], logits[:, step, :step, :active] = tables(sums)

    whole_scores, whole_logits = tables((halves[0] + other_halves[0]).transpose(0, 1))
    return Runs(
        torch.cat([_both_sides(scores, mirror), whole_scores[:, None]], dim=1),
        torch.cat([_both_sides(logits, mirror), whole_logits[:, None]], dim=1),
    )


def _halves(weight: torch.Tensor) -> torch.Tensor:
    """(N, 2H) applied to a state that is [forward, backward] to (2, H, N), one for each half."""
    return torch.stack(weight.chunk(2, dim=1)).transpose(1, 2).contiguous()


def _both_sides(values: torch.Tensor, mirror: torch.Tensor) -> torch.Tensor:
    """(2, step, deleted, B, ...) to (B, deleted, position, ...): forward values behind the gap, backward ones before it."""
    forward, backward = values.transpose(1, 3)  # text, deleted, step, in place of step, deleted, text
    turned = mirror.T
    backward = backward[torch.arange(len(turned), device=turned.device)[:, None, None], turned[:, :, None], turned[:, None, :]]
    places = torch.arange(turned.shape[1], device=turned.device)
    behind = (places > places[:, None]).view(1, *[len(places)] * 2, *[1] * (forward.dim() - 3))
    return torch.where(behind, forward, backward)
