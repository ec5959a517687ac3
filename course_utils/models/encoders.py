"""Encoders: word vectors in, one state a token out. The three of Jain & Wallace (2019, section 3).

`summary` turns the states of a text, 0 at padding, into one state for all of it: how a second text asks about the first.
"""

import torch
from torch import nn

from course_utils.errors import ModelError


class BiLSTMEncoder(nn.Module):
    """A bidirectional LSTM. State of a token: forward then backward hidden state, 2 x hidden.

    On a CPU each direction reads the padded batch, the backward one with each text turned round, so that padding comes last in
    both. A packed sequence, which is what cuDNN is made for, gives the same states; on a CPU its gradient takes 3 to 6 times as
    long for texts of 200 words.
    """

    def __init__(self, input_size: int, hidden: int = 128):
        super().__init__()
        self.lstm = nn.LSTM(input_size, hidden, batch_first=True, bidirectional=True)
        self.output_size = 2 * hidden

    def forward(self, embedded: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(B, T, E) and (B, T) to (B, T, 2 x hidden), 0 at padding."""
        if embedded.is_cuda:
            packed = nn.utils.rnn.pack_padded_sequence(embedded, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
            return nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=mask.shape[1])[0]
        order = turned(mask)[..., None]
        forward = self._read(embedded, "")
        backward = self._read(embedded.gather(1, order.expand_as(embedded)), "_reverse")
        states = torch.cat([forward, backward.gather(1, order.expand_as(backward))], dim=-1)
        return states.masked_fill(~mask[..., None], 0)

    def _read(self, embedded: torch.Tensor, direction: str) -> torch.Tensor:
        """(B, T, E) to (B, T, hidden): one direction's states, in the order in which they are read."""
        weights = [getattr(self.lstm, f"{name}_l0{direction}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        start = embedded.new_zeros(1, len(embedded), self.lstm.hidden_size)
        states, *_ = torch.lstm(embedded, (start, start), weights, True, 1, 0.0, self.training, False, True)
        return states

    @staticmethod
    def summary(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(B, T, H) and (B, T) to (B, H): where each direction ends, forward at the last token, backward at the first."""
        forward, backward = states.chunk(2, dim=-1)
        last = mask.sum(1) - 1
        return torch.cat([forward[torch.arange(len(last), device=last.device), last], backward[:, 0]], dim=-1)


class CNNEncoder(nn.Module):
    """Convolutions of width 1, 3, 5 and 7 over the words, ReLU. State of a token: the filters centred on it."""

    widths = (1, 3, 5, 7)
    reach = 3  # a state depends on its token and this many neighbours on either side

    def __init__(self, input_size: int, hidden: int = 128):
        super().__init__()
        if hidden % len(self.widths):
            raise ModelError(f"the CNN encoder divides its {hidden} filters over {len(self.widths)} widths; choose a multiple")
        filters = hidden // len(self.widths)
        self.convolutions = nn.ModuleList(nn.Conv1d(input_size, filters, width, padding=width // 2) for width in self.widths)
        self.output_size = hidden

    def forward(self, embedded: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(B, T, E) and (B, T) to (B, T, hidden), 0 at padding; padding counts as zero vectors, as beyond the ends."""
        channels = embedded.masked_fill(~mask[..., None], 0).transpose(1, 2)
        states = torch.cat([convolution(channels) for convolution in self.convolutions], dim=1).relu().transpose(1, 2)
        return states.masked_fill(~mask[..., None], 0)

    @staticmethod
    def summary(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(B, T, H) and (B, T) to (B, H): each filter's largest answer; none is below 0."""
        return states.amax(1)


class AverageEncoder(nn.Module):
    """Each word by itself: tanh of a projection of its vector. The control in which a token's state is only its own."""

    reach = 0

    def __init__(self, input_size: int, hidden: int = 128):
        super().__init__()
        self.projection = nn.Linear(input_size, hidden)
        self.output_size = hidden

    def forward(self, embedded: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(B, T, E) and (B, T) to (B, T, hidden), 0 at padding."""
        return self.projection(embedded).tanh().masked_fill(~mask[..., None], 0)

    @staticmethod
    def summary(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(B, T, H) and (B, T) to (B, H): the mean over the tokens."""
        return states.sum(1) / mask.sum(1, keepdim=True)


ENCODERS = {"bilstm": BiLSTMEncoder, "cnn": CNNEncoder, "average": AverageEncoder}


def turned(mask: torch.Tensor) -> torch.Tensor:
    """(B, T): where each place of a text goes when the text is turned round; padding stays. Turning twice changes nothing."""
    places = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - places, places)
