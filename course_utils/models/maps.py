"""Where each head of an encoder looks."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from course_utils.errors import ModelError
from course_utils.models.pieces import Pieces


@dataclass(frozen=True, kw_only=True)
class AttentionMaps(Pieces):
    """The attention of L layers x N heads over B texts of at most T tokens.

    Attributes:
        attention: (B, L, N, T, T) [layer x head x query x key], how much the query attends to the key. Rows of real queries
            sum to 1; rows and columns of padding are exactly 0.
        causal: whether the model lets no query attend to a later key.
        hidden: (B, L + 1, T, H), the states before the first layer and after each, or None unless asked for.
        values: (B, L, N, T, D), each head's value vectors (bias included, before the output projection), or None unless asked for.
    """

    attention: torch.Tensor
    causal: bool = False
    hidden: torch.Tensor | None = None
    values: torch.Tensor | None = None

    @property
    def n_layers(self) -> int:
        return self.attention.shape[1]

    @property
    def n_heads(self) -> int:
        return self.attention.shape[2]

    @property
    def visible(self) -> torch.Tensor:
        """(B, T, T) bool, whether the query can attend to the key: both are real and, in a causal model, the key is not later."""
        pairs = self.mask[:, :, None] & self.mask[:, None, :]
        return pairs.tril() if self.causal else pairs

    @classmethod
    def from_matrix(cls, attention: torch.Tensor, tokens: Sequence[str], *, causal: bool = False) -> "AttentionMaps":
        """One text's maps made by hand, for small examples.

        Args:
            attention: (T, T), (N, T, T) or (L, N, T, T), rows sum to 1.
            tokens: T words; "[CLS]" and "[SEP]" are special tokens.
        Raises:
            ModelError: the shape does not fit the tokens, or a row does not sum to 1.
        """
        size = len(tokens)
        if attention.dim() not in (2, 3, 4) or attention.shape[-2:] != (size, size):
            raise ModelError(f"{size} tokens need attention of shape (..., {size}, {size}), not {tuple(attention.shape)}")
        sums = attention.sum(-1)
        if (attention < 0).any() or not torch.allclose(sums, torch.ones_like(sums), atol=1e-4):
            raise ModelError("attention weights are not negative and each row (query) sums to 1; divide each row by its sum")
        special = torch.tensor([[token in ("[CLS]", "[SEP]") for token in tokens]])
        word_ids = ((~special).cumsum(1) - 1).masked_fill(special, -1)
        return cls(
            ids=torch.arange(size)[None],
            mask=torch.ones(1, size, dtype=torch.bool),
            special=special,
            separator=torch.tensor([[token == "[SEP]" for token in tokens]]),
            word_ids=word_ids,
            word_texts=(tuple(token for token, flag in zip(tokens, special[0], strict=True) if not flag),),
            tokens=(tuple(tokens),),
            index=torch.zeros(1, dtype=torch.int64),
            attention=attention[(None,) * (5 - attention.dim())],
            causal=causal,
        )

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
            causal=self.causal,
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
            causal=self.causal,
        )

    def without_special(self) -> "AttentionMaps":
        """The tokens of the text alone: [CLS] and [SEP] go as queries and as keys, and the rest of each row sums to 1 again.

        A row with no weight on the text is spread evenly over what it can see. `hidden` and `values` are left out.
        """
        keep = self.mask & ~self.special
        order = (~keep).int().argsort(dim=1, stable=True)[:, : int(keep.sum(1).max())]  # kept tokens first, in their order
        mask, word_ids = keep.gather(1, order), self.word_ids.gather(1, order)
        rows = order[:, None, None, :, None].expand(-1, self.n_layers, self.n_heads, -1, self.attention.shape[-1])
        attention = self.attention.gather(3, rows)
        attention = attention.gather(4, order[:, None, None, None].expand(*attention.shape[:4], -1))
        visible = mask[:, :, None] & mask[:, None, :]
        visible = (visible.tril() if self.causal else visible)[:, None, None]
        tiny = torch.finfo(attention.dtype).tiny
        attention = (attention + tiny) * visible
        return AttentionMaps(
            ids=self.ids.gather(1, order).masked_fill(~mask, 0),
            mask=mask,
            special=~mask,
            separator=torch.zeros_like(mask),
            word_ids=word_ids.masked_fill(~mask, -1),
            word_texts=self.word_texts,
            tokens=tuple(
                tuple(token for token, flag in zip(tokens, flags, strict=False) if not flag)
                for tokens, flags in zip(self.tokens, self.special.tolist(), strict=True)
            ),
            index=self.index,
            attention=attention / attention.sum(-1, keepdim=True).clamp(min=tiny),
            causal=self.causal,
        )
