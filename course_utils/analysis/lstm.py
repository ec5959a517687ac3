"""A bidirectional LSTM step by step: its states can be continued from anywhere.

Both directions are one computation, on a text and on its mirror image. A "step" is a position in reading direction: step s of the
forward direction is position s, of the backward direction position L - 1 - s of a text of L tokens.
"""

from dataclasses import dataclass

import torch
from torch.nn.functional import linear

from course_utils.models.encoders import BiLSTMEncoder


@dataclass(frozen=True)
class Cells:
    """The weights of both directions, stacked. The candidate gate is doubled: tanh(a) = 2 sigmoid(2a) - 1 is a cheaper tanh.

    Attributes:
        from_input: (2 x 4H, E).
        from_state: (2, H, 4H).
        bias: (2 x 4H,).
    """

    from_input: torch.Tensor
    from_state: torch.Tensor
    bias: torch.Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, encoder: BiLSTMEncoder) -> "Cells":
        lstm = encoder.lstm
        double = lstm.bias_ih_l0.new_tensor([1, 1, 2, 1])  # gates stand in the order input, forget, candidate, output
        double = double.repeat_interleave(lstm.hidden_size)[:, None]
        from_input = torch.cat([double * lstm.weight_ih_l0, double * lstm.weight_ih_l0_reverse])
        from_state = torch.stack([double * lstm.weight_hh_l0, double * lstm.weight_hh_l0_reverse])
        bias = torch.cat([lstm.bias_ih_l0 + lstm.bias_hh_l0, lstm.bias_ih_l0_reverse + lstm.bias_hh_l0_reverse])
        return cls(from_input, from_state.transpose(1, 2).contiguous(), double.squeeze(1).repeat(2) * bias)

    def project(self, embedded: torch.Tensor, mirror: torch.Tensor) -> torch.Tensor:
        """(B, T, E) to gate inputs (2, T, B, 4H), each direction in its own reading order."""
        forward, backward = linear(embedded.transpose(0, 1), self.from_input, self.bias).chunk(2, dim=-1)
        return torch.stack([forward, mirrored(backward, mirror)])

    def advance(self, hidden: torch.Tensor, cell: torch.Tensor, inputs: torch.Tensor) -> None:
        """One step, of one or several versions of each text.

        Args:
            hidden, cell: (2, versions x B, H), changed in place.
            inputs: (2, B, 4H), the same for all versions.
        """
        gates = hidden @ self.from_state
        gates.unflatten(1, (-1, inputs.shape[1])).add_(inputs[:, None])
        enter, keep, candidate, leave = gates.sigmoid_().chunk(4, dim=-1)
        cell.mul_(keep).addcmul_(enter, candidate, value=2).sub_(enter)
        torch.mul(leave, _tanh(cell), out=hidden)

    def read(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gate inputs of whole texts to hidden and cell states, both (2, T, B, H)."""
        directions, longest, count, size = inputs.shape
        hidden, cell = inputs.new_empty(2, directions, longest, count, size // 4)
        now_hidden, now_cell = inputs.new_zeros(2, directions, count, size // 4)
        for step in range(longest):
            self.advance(now_hidden, now_cell, inputs[:, step])
            hidden[:, step], cell[:, step] = now_hidden, now_cell
        return hidden, cell


def mirror_of(mask: torch.Tensor) -> torch.Tensor:
    """(B, T) to (T, B): where each token goes when the text is turned round; padding stays."""
    places = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - places, places).T


def mirrored(values: torch.Tensor, mirror: torch.Tensor) -> torch.Tensor:
    """(T, B, N) with the real tokens of each text turned round."""
    return values[mirror, torch.arange(mirror.shape[1], device=mirror.device)]


def _tanh(values: torch.Tensor) -> torch.Tensor:
    return (2 * values).sigmoid_().mul_(2).sub_(1)
