"""A Transformer of attention alone, small enough to train while you wait, and to keep at every stage of its training.

No feed-forward layers, no biases, no normalisation: the simplified model of Elhage et al. (2021). What a head writes is added to
what the next layer reads, so it can be taken away again, from everything or from one reader only. Positions enter queries and keys
only, much as in the models of Olsson et al. (2022): a head can look by position, but what it carries are tokens.
"""

import copy
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional
from tqdm.auto import tqdm

from course_utils.data.repeats import Repeats, make_repeats
from course_utils.errors import ModelError
from course_utils.models.maps import AttentionMaps

PARTS = ("query", "key", "value")


@dataclass(frozen=True)
class AttentionOnlyConfig:
    """The size of a model.

    Attributes:
        vocabulary: tokens, 2 or more. length: most tokens a sequence. width: of the states, a multiple of `heads`.
        heads: a layer. layers: 1 or more.
    Raises:
        ModelError: a value outside these ranges.
    """

    vocabulary: int = 64
    length: int = 64
    width: int = 64
    heads: int = 4
    layers: int = 2

    def __post_init__(self):
        if self.vocabulary < 2:
            raise ModelError(f"a vocabulary of {self.vocabulary} leaves nothing to predict; give at least 2 tokens")
        if min(self.length, self.width, self.heads, self.layers) < 1:
            raise ModelError(f"length, width, heads and layers are 1 or more, not {asdict(self)}")
        if self.width % self.heads:
            raise ModelError(f"{self.heads} heads do not divide a width of {self.width}; choose a width that is a multiple of them")


class Cut(NamedTuple):
    """What later layers may not see: the output of `head` of `layer`, in the inputs of their queries, keys or values (`part`)."""

    layer: int
    head: int
    part: str


class AttentionOnly(nn.Module):
    """A causal language model of L layers x N heads; attention is nearly even before training.

    Args:
        config: its size.
        seed: of the initial weights.
    """

    def __init__(self, config: AttentionOnlyConfig = AttentionOnlyConfig(), *, seed: int = 0):
        super().__init__()
        self.config = config
        generator = torch.Generator().manual_seed(seed)
        width = config.width

        def weights(*shape: int, scale: float) -> nn.Parameter:
            return nn.Parameter(torch.randn(*shape, generator=generator) * scale)

        self.token = weights(config.vocabulary, width, scale=0.5)
        self.position = weights(config.length, width, scale=0.5)
        square = (config.layers, width, width)
        self.query, self.key, self.value, self.output = (weights(*square, scale=width**-0.5) for _ in range(4))
        self.unembed = weights(width, config.vocabulary, scale=width**-0.5)
        self.register_buffer("heads", torch.tensor(config.heads))  # no shape tells how the width is divided

    def forward(
        self, ids: torch.Tensor, *, gates: torch.Tensor | None = None, cut: Cut | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The next token's logits, and every head's attention.

        Args:
            ids: (B, T) int64, T at most the model's length.
            gates: (L, N), each head's output is multiplied by its gate; 0 removes the head.
            cut: leaves one head's output out of one input of all later layers; everything else still reads it.
        Returns:
            logits (B, T, V); attention (B, L, N, T, T), 0 above the diagonal.
        Raises:
            ModelError: sequences too long, gates of another shape, or a cut that names no head or part.
        """
        self._check(ids, gates, cut)
        size, heads = ids.shape[1], self.config.heads
        future = torch.ones(size, size, dtype=torch.bool, device=ids.device).triu(1)
        state, unseen, maps = self.token[ids], 0, []
        for layer in range(self.config.layers):
            reads = {part: state - unseen if cut is not None and part == cut.part else state for part in PARTS}
            reads |= {part: reads[part] + self.position[:size] for part in ("query", "key")}
            query, key, value = (
                (reads[part] @ getattr(self, part)[layer]).unflatten(-1, (heads, -1)).transpose(1, 2) for part in PARTS
            )
            scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5  # (B, N, T, T)
            attention = scores.masked_fill(future, float("-inf")).softmax(-1)
            mixed = attention @ value
            if gates is not None:
                mixed = mixed * gates[layer].to(mixed)[:, None, None]
            if cut is not None and cut.layer == layer:
                unseen = mixed[:, cut.head] @ self.output[layer].unflatten(0, (heads, -1))[cut.head]
            state = state + mixed.transpose(1, 2).flatten(2) @ self.output[layer]
            maps.append(attention)
        return state @ self.unembed, torch.stack(maps, 1)

    @torch.no_grad()
    def attend(self, repeats: Repeats, **removed: object) -> AttentionMaps:
        """Every head's attention over the sequences, as for any other model; tokens are named by their numbers.

        Args:
            removed: `gates` or `cut`, as in `forward`.
        """
        ids = repeats.ids.to(self.token.device)
        nothing = torch.zeros_like(ids, dtype=torch.bool)
        names = tuple(tuple(str(number) for number in row) for row in ids.tolist())
        return AttentionMaps(
            ids=ids,
            mask=~nothing,
            special=nothing,
            separator=nothing,
            word_ids=torch.arange(ids.shape[1], device=ids.device).expand_as(ids),
            word_texts=names,
            tokens=names,
            index=torch.arange(len(ids), device=ids.device),
            attention=self(ids, **removed)[1],
            causal=True,
        )

    def load(self, state: dict[str, torch.Tensor]) -> "AttentionOnly":
        """Take over the weights of a checkpoint, and return the model.

        Raises:
            ModelError: the checkpoint is of another architecture.
        """

        def parts(some: dict[str, torch.Tensor]) -> dict[str, object]:
            return {name: int(one) if name == "heads" else tuple(one.shape) for name, one in some.items()}

        own, given = parts(self.state_dict()), parts(state)
        if own != given:
            wrong = sorted(name for name in own | given if own.get(name) != given.get(name))
            found = ", ".join(f"{name} {given.get(name, 'missing')} instead of {own.get(name, 'none')}" for name in wrong)
            raise ModelError(f"the checkpoint is of another architecture: {found}; build the model with its own configuration")
        self.load_state_dict(state)
        return self

    def _check(self, ids: torch.Tensor, gates: torch.Tensor | None, cut: Cut | None) -> None:
        config, size = self.config, (self.config.layers, self.config.heads)
        if ids.shape[1] > config.length:
            raise ModelError(f"sequences of {ids.shape[1]} tokens; this model takes at most {config.length}")
        if gates is not None and tuple(gates.shape) != size:
            raise ModelError(f"gates have shape {tuple(gates.shape)}; this model needs (layers, heads) = {size}")
        if cut is not None and not (cut.part in PARTS and 0 <= cut.layer < size[0] and 0 <= cut.head < size[1]):
            raise ModelError(f"{cut} names no head or part; layers are 0 to {size[0] - 1}, heads 0 to {size[1] - 1}, parts {PARTS}")


def next_token_loss(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """(B, T - 1), how badly each position predicts the token after it: cross-entropy in nats."""
    return functional.cross_entropy(logits[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none")


@dataclass
class Training:
    """A training that keeps what it has, and can go on.

    Attributes:
        config: of the model. seed: of its first weights and of the data. periods: shortest and longest block of the sequences.
        every: steps between two checkpoints. batch: sequences a step. learning_rate: of AdamW, otherwise as torch sets it.
        checkpoints: steps done to the weights then; 0 is the untrained model.
        losses: mean loss (nats a token) of each step up to the last checkpoint.
        interrupted: whether the last call of `run` was stopped before its end.
    """

    config: AttentionOnlyConfig = AttentionOnlyConfig()
    seed: int = 0
    periods: tuple[int, int] = (8, 32)
    every: int = 20
    batch: int = 32
    learning_rate: float = 3e-3
    checkpoints: dict[int, dict[str, torch.Tensor]] = field(default_factory=dict, repr=False)
    losses: list[float] = field(default_factory=list, repr=False)
    interrupted: bool = False
    _optimiser: dict | None = field(default=None, repr=False)

    def __post_init__(self):
        if min(self.every, self.batch) < 1 or not 0 < self.learning_rate < float("inf"):
            raise ModelError(
                f"every={self.every} and batch={self.batch} are 1 or more, learning_rate={self.learning_rate} is positive"
            )
        if not self.checkpoints:
            self.checkpoints[0] = copy.deepcopy(AttentionOnly(self.config, seed=self.seed).state_dict())

    @property
    def steps(self) -> int:
        """Steps done, up to the last checkpoint."""
        return max(self.checkpoints)

    def model(self, step: int | None = None) -> AttentionOnly:
        """The model as it was after `step` steps; as it is now unless told.

        Raises:
            ModelError: there is no checkpoint of this step.
        """
        step = self.steps if step is None else step
        if step not in self.checkpoints:
            raise ModelError(f"there is no checkpoint of step {step}; there are {', '.join(map(str, self.checkpoints))}")
        return AttentionOnly(self.config).load(self.checkpoints[step])

    def run(self, until: int, *, progress: bool = True) -> "Training":
        """Train on fresh sequences up to step `until`, and return the training.

        An interrupt (Ctrl-C, or the stop button of a notebook) goes back to the last checkpoint and ends the call; the next call
        goes on from there. A training in several calls gives the same weights as one in a single call.

        Args:
            until: steps in all, a multiple of `every`; steps that are done are not done again.
            progress: whether to show a bar.
        Raises:
            ModelError: `until` is no multiple of `every`, 0 or more. DataError: the periods do not fit the sequences.
        """
        if until < 0 or until % self.every:
            raise ModelError(f"until={until} is no multiple of every={self.every}; checkpoints are kept there only")
        model = self.model().train()
        optimiser = torch.optim.AdamW(model.parameters(), lr=self.learning_rate)
        if self._optimiser is not None:
            optimiser.load_state_dict(copy.deepcopy(self._optimiser))
        self.interrupted, fresh = False, []
        hidden = {} if progress else {"disable": True}  # nothing said, so that COURSE_QUIET can hide it
        try:
            for step in tqdm(range(self.steps, until), desc="training", unit="step", leave=False, **hidden):
                fresh.append(self._step(model, optimiser, step))
                if (step + 1) % self.every == 0:
                    self._optimiser = copy.deepcopy(optimiser.state_dict())
                    self.losses, fresh = self.losses + fresh, []
                    self.checkpoints[step + 1] = copy.deepcopy(model.state_dict())
        except KeyboardInterrupt:
            self.interrupted = True
            print(f"interrupted; kept {len(self.checkpoints)} checkpoints, the last after {self.steps} steps")
        return self

    def _step(self, model: AttentionOnly, optimiser: torch.optim.Optimizer, step: int) -> float:
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + step)
        config = self.config
        ids = make_repeats(self.batch, config.length, config.vocabulary, periods=self.periods, generator=generator).ids
        loss = next_token_loss(model(ids)[0], ids).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss.item()
