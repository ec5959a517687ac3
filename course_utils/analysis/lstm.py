"""A bidirectional LSTM step by step: its states can be continued from anywhere, and differentiated without gradients of weights.

Both directions are one computation, on a text and on its mirror image. A "step" is a position in reading direction: step s of the
forward direction is position s, of the backward direction position L - 1 - s of a text of L tokens.
"""

from dataclasses import dataclass

import torch
from torch import nn
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

    def advance(self, hidden: torch.Tensor, cell: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
        """One step, of one or several versions of each text.

        Args:
            hidden, cell: (2, versions x B, H), changed in place.
            inputs: (2, B, 4H), the same for all versions.
        Returns:
            the open gates (2, versions x B, 4H).
        """
        gates = hidden @ self.from_state
        gates.unflatten(1, (-1, inputs.shape[1])).add_(inputs[:, None])
        enter, keep, candidate, leave = gates.sigmoid_().chunk(4, dim=-1)
        cell.mul_(keep).addcmul_(enter, candidate, value=2).sub_(enter)
        torch.mul(leave, _tanh(cell), out=hidden)
        return gates

    def read(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
        """Gate inputs of whole texts to hidden and cell states (2, T, B, H), and the gates (2, B, 4H) of each step."""
        directions, longest, count, size = inputs.shape
        hidden, cell = inputs.new_empty(2, directions, longest, count, size // 4)
        now_hidden, now_cell = inputs.new_zeros(2, directions, count, size // 4)
        gates = []
        for step in range(longest):
            gates.append(self.advance(now_hidden, now_cell, inputs[:, step]))
            hidden[:, step], cell[:, step] = now_hidden, now_cell
        return hidden, cell, gates

    def slopes(self, hidden_slopes: torch.Tensor, cell: torch.Tensor, gates: list[torch.Tensor]) -> torch.Tensor:
        """From the slopes of hidden states (2, T, B, H) to those of the gate inputs (2, T, B, 4H): `read` backwards in time."""
        slopes = torch.stack(gates, dim=1)
        slopes = slopes.sub_(slopes.square())  # a sigmoid's own slope
        to_state = self.from_state.transpose(1, 2).contiguous()
        later_hidden, later_cell = torch.zeros_like(cell[:, 0]), torch.zeros_like(cell[:, 0])
        for step in reversed(range(len(gates))):
            enter, keep, candidate, leave = gates[step].chunk(4, dim=-1)
            squashed = _tanh(cell[:, step])
            of_hidden = hidden_slopes[:, step] + later_hidden
            of_cell = later_cell + of_hidden * leave * (1 - squashed.square())
            before = cell[:, step - 1] if step else torch.zeros_like(squashed)
            of_gates = [of_cell * (2 * candidate - 1), of_cell * before, 2 * of_cell * enter, of_hidden * squashed]
            now = slopes[:, step].mul_(torch.cat(of_gates, dim=-1))
            later_hidden, later_cell = now @ to_state, of_cell * keep
        return slopes


class _States(torch.autograd.Function):
    @staticmethod
    def forward(ctx, embedded, mask, encoder):
        ctx.cells, ctx.mirror = Cells.of(encoder), mirror_of(mask)
        hidden, cell, ctx.gates = ctx.cells.read(ctx.cells.project(embedded, ctx.mirror))
        ctx.save_for_backward(cell)
        return torch.cat([hidden[0], mirrored(hidden[1], ctx.mirror)], dim=-1).transpose(0, 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, slopes):
        forward, backward = slopes.transpose(0, 1).chunk(2, dim=-1)
        (cell,) = ctx.saved_tensors
        forward, backward = ctx.cells.slopes(torch.stack([forward, mirrored(backward, ctx.mirror)]), cell, ctx.gates)
        of_inputs = torch.cat([forward, mirrored(backward, ctx.mirror)], dim=-1)
        return (of_inputs @ ctx.cells.from_input).transpose(0, 1), None, None


def states(encoder: BiLSTMEncoder, embedded: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """`encoder(embedded, mask)`, differentiable once and with respect to the word vectors only.

    PyTorch's own backward pass of a packed LSTM clears a tensor of the size of the whole input at each step, so its cost grows with
    the square of the length, and it needs cuDNN in training mode; this one does not.
    """
    return _States.apply(embedded, mask, encoder).masked_fill(~mask[..., None], 0)


def states_of(encoder: nn.Module, embedded: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """(B, T, H), differentiable with respect to the word vectors: `states` for a BiLSTM, else what the encoder says itself."""
    return states(encoder, embedded, mask) if isinstance(encoder, BiLSTMEncoder) else encoder(embedded, mask)


def mirror_of(mask: torch.Tensor) -> torch.Tensor:
    """(B, T) to (T, B): where each token goes when the text is turned round; padding stays."""
    places = torch.arange(mask.shape[1], device=mask.device)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - places, places).T


def mirrored(values: torch.Tensor, mirror: torch.Tensor) -> torch.Tensor:
    """(T, B, N) with the real tokens of each text turned round."""
    return values[mirror, torch.arange(mirror.shape[1], device=mirror.device)]


def _tanh(values: torch.Tensor) -> torch.Tensor:
    return (2 * values).sigmoid_().mul_(2).sub_(1)
