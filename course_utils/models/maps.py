"""Where each head of an encoder looks."""

from dataclasses import dataclass

import torch

from course_utils.models.pieces import Pieces


@dataclass(frozen=True, kw_only=True)
class AttentionMaps(Pieces):
    """The attention of L layers x N heads over B texts of at most T tokens.

    Attributes:
        attention: (B, L, N, T, T) [layer x head x query x key], how much the query attends to the key. Rows of real queries
            sum to 1; rows and columns of padding are exactly 0.
        hidden: (B, L + 1, T, H), the states before the first layer and after each, or None unless asked for.
        values: (B, L, N, T, D), each head's value vectors (bias included, before the output projection), or None unless asked for.
    """

    attention: torch.Tensor
    hidden: torch.Tensor | None = None
    values: torch.Tensor | None = None

    @property
    def n_layers(self) -> int:
        return self.attention.shape[1]

    @property
    def n_heads(self) -> int:
        return self.attention.shape[2]

    def one(self, row: int) -> "AttentionMaps":
        """The maps of one text, without padding: B = 1 and T = its own length."""
        length = int(self.lengths[row])
        keep = slice(row, row + 1)
        cut = {name: getattr(self, name)[keep, :length] for name in ("ids", "mask", "special", "separator", "word_ids")}
        return AttentionMaps(
            **cut,
            word_texts=self.word_texts[keep],
            tokens=self.tokens[keep],
            index=self.index[keep],
            attention=self.attention[keep, ..., :length, :length],
            hidden=None if self.hidden is None else self.hidden[keep, :, :length],
            values=None if self.values is None else self.values[keep, :, :, :length],
        )

    def words(self) -> "AttentionMaps":
        """Word-level maps (Clark et al. 2019, section 4.1).

        Attention to a word is the sum over its pieces, attention from it the mean. Special tokens stay as they are, each a unit
        of its own. Rows still sum to 1. `tokens` become the words, `ids` the first piece's number; `hidden` and `values`, which
        belong to pieces, are left out.
        """
        first = self.mask & (self.special | (self.word_ids != self.word_ids.roll(1, 1)))
        first[:, 0] = True
        unit = first.cumsum(1) - 1  # (B, T): which unit a piece belongs to
        size = int(unit.max()) + 1
        member = (unit[:, None] == torch.arange(size, device=unit.device)[:, None]) & self.mask[:, None]  # (B, W, T)
        member = member.to(self.attention.dtype)
        mean = member / member.sum(-1, keepdim=True).clamp(min=1)
        attention = mean[:, None, None] @ self.attention @ member.transpose(1, 2)[:, None, None]

        mask = member.any(-1)
        start = member.argmax(-1)  # (B, W): the first piece of each unit
        gathered = {name: getattr(self, name).gather(1, start) for name in ("ids", "special", "separator", "word_ids")}
        word_ids = gathered["word_ids"].masked_fill(~mask, -1)
        return AttentionMaps(
            ids=gathered["ids"].masked_fill(~mask, 0),
            mask=mask,
            special=gathered["special"] | ~mask,
            separator=gathered["separator"] & mask,
            word_ids=word_ids,
            word_texts=self.word_texts,
            tokens=tuple(
                tuple(
                    words[number] if number >= 0 else pieces[at]
                    for number, at, real in zip(numbers, starts, reals, strict=True)
                    if real
                )
                for words, pieces, numbers, starts, reals in zip(
                    self.word_texts, self.tokens, word_ids.tolist(), start.tolist(), mask.tolist(), strict=True
                )
            ),
            index=self.index,
            attention=attention,
        )
