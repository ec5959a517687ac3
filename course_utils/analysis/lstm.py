"""One direction of an LSTM step by step: its reading of a text can be continued from anywhere."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.nn.functional import linear

from course_utils.models.encoders import BiLSTMEncoder

_LOOK_EVERY = 16  # steps between two looks at which versions still differ
_ROUNDING = 8  # units of machine precision below which a difference is none


class Continued(NamedTuple):
    """Where N shortened texts stand after one step.

    Attributes:
        step: the position just read, in reading order.
        text: (N,), which of the texts each is a version of.
        deleted: (N,), the position, in reading order, that it lacks.
        hidden: (N, H); the next step overwrites it.
    """

    step: int
    text: torch.Tensor
    deleted: torch.Tensor
    hidden: torch.Tensor


@dataclass(frozen=True)
class Direction:
    """The weights of one direction. The candidate gate is doubled: tanh(a) = 2 sigmoid(2a) - 1 is a cheaper tanh.

    Attributes:
        from_input: (4H, E).
        from_state: (H, 4H).
        bias: (4H,).
    """

    from_input: torch.Tensor
    from_state: torch.Tensor
    bias: torch.Tensor

    @classmethod
    @torch.no_grad()
    def of(cls, encoder: BiLSTMEncoder) -> tuple["Direction", "Direction"]:
        """Forward and backward."""
        lstm = encoder.lstm
        double = lstm.bias_ih_l0.new_tensor([1, 1, 2, 1])  # gates stand in the order input, forget, candidate, output
        double = double.repeat_interleave(lstm.hidden_size)[:, None]
        forward = lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0 + lstm.bias_hh_l0
        backward = lstm.weight_ih_l0_reverse, lstm.weight_hh_l0_reverse, lstm.bias_ih_l0_reverse + lstm.bias_hh_l0_reverse
        return tuple(
            cls(double * from_input, (double * from_state).T.contiguous(), double.squeeze(1) * bias)
            for from_input, from_state, bias in (forward, backward)
        )

    def project(self, embedded: torch.Tensor) -> torch.Tensor:
        """(B, T, E), in reading order, to gate inputs (T, B, 4H)."""
        return linear(embedded.transpose(0, 1), self.from_input, self.bias)

    def read(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Gate inputs of whole texts to hidden and cell states, both (T, B, H)."""
        longest, count, size = inputs.shape
        hidden, cell = inputs.new_empty(2, longest, count, size // 4)
        now_hidden, now_cell = inputs.new_zeros(2, count, size // 4)
        for step in range(longest):
            self._advance(now_hidden, now_cell, inputs[step].clone())
            hidden[step], cell[step] = now_hidden, now_cell
        return hidden, cell

    def without_each(
        self, inputs: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, lengths: torch.Tensor
    ) -> Iterator[Continued]:
        """Go on from the state before each token as if the token were not there, for as long as that makes a difference.

        An LSTM forgets: some dozens of words after the gap, most shortened texts are in the state of the whole one, to the last
        digits of the precision. They are followed no further, so that the cost of a long text grows with its length, not with the
        square.

        Args:
            inputs: (T, B, 4H), from `project`; texts in order of falling length.
            hidden, cell: (T, B, H) both, from `read`.
            lengths: (B,).
        Yields:
            for each step from the second on, the versions that differ from their whole text there. All others are in its state.
        """
        longest, count, size = hidden.shape
        least = _ROUNDING * torch.finfo(hidden.dtype).eps
        longer = (lengths > torch.arange(longest, device=lengths.device)[:, None]).sum(1).tolist()  # texts that have a step
        now_hidden, now_cell = hidden.new_zeros(2, longest * count, size)
        text, deleted = torch.zeros(2, longest * count, dtype=torch.int64, device=hidden.device)
        rows = 0

        def keep(chosen: torch.Tensor) -> int:
            places = chosen.nonzero().squeeze(1)
            for values in (now_hidden, now_cell, text, deleted):
                values[: len(places)] = values[places]
            return len(places)

        for step in range(1, longest):
            active = longer[step]
            if active < longer[step - 1]:
                rows = keep(text[:rows] < active)
            new = slice(rows, rows + active)  # the versions without token step - 1 start here, from the state before that token
            text[new], deleted[new] = torch.arange(active, device=text.device), step - 1
            now_hidden[new], now_cell[new] = (hidden[step - 2, :active], cell[step - 2, :active]) if step > 1 else (0, 0)
            rows += active
            self._advance(now_hidden[:rows], now_cell[:rows], inputs[step].index_select(0, text[:rows]))
            if step % _LOOK_EVERY == 0:
                whole_hidden, whole_cell = (states[step].index_select(0, text[:rows]) for states in (hidden, cell))
                apart = torch.maximum((now_hidden[:rows] - whole_hidden).abs(), (now_cell[:rows] - whole_cell).abs())
                rows = keep(~(apart.amax(1) <= least))
            yield Continued(step, text[:rows], deleted[:rows], now_hidden[:rows])

    def _advance(self, hidden: torch.Tensor, cell: torch.Tensor, inputs: torch.Tensor) -> None:
        """One step of N texts: states (N, H), changed in place, and gate inputs (N, 4H), overwritten."""
        gates = inputs.addmm_(hidden, self.from_state)
        enter, keep, candidate, leave = gates.sigmoid_().chunk(4, dim=-1)
        cell.mul_(keep).addcmul_(enter, candidate, value=2).sub_(enter)
        torch.mul(leave, _tanh(cell), out=hidden)


def _tanh(values: torch.Tensor) -> torch.Tensor:
    return (2 * values).sigmoid_().mul_(2).sub_(1)
