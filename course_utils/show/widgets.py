"""Things to touch: move the attention of a sentence by hand and watch what the prediction does.

What happens is in `MovedAttention`, a plain class; `AttentionMover` shows it and hands it what the reader does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

import ipywidgets as widgets
import torch
from IPython.display import display

from course_utils.analysis.adversary import exact_attention
from course_utils.analysis.distances import jsd
from course_utils.data import Batch
from course_utils.errors import ShowError
from course_utils.models import AttentionClassifier
from course_utils.show.heatmap import attention_pair, heatmap

_MOST_SLIDERS = 40


@dataclass
class MovedAttention:
    """One sentence whose attention can be moved. With a linear decoder these 2T numbers are all that the prediction needs.

    Attributes:
        tokens: T words.
        attention: (T,) float64, the model's own weights; they sum to 1.
        token_logits: (T,) float64, the log odds of class 1 if the model attended to that token alone.
        eps: between 0 and 1, how far the probability may move and still count as the same prediction.
        weights: (T,) float64, the weights now; the model's own at first.
    Raises:
        ShowError: lengths differ, a number is missing, the attention is no distribution, or eps no probability.
    """

    tokens: Sequence[str]
    attention: torch.Tensor
    token_logits: torch.Tensor
    eps: float = 0.01
    weights: torch.Tensor = field(init=False)

    def __post_init__(self):
        self.attention = torch.as_tensor(self.attention, dtype=torch.float64, device="cpu").detach()
        self.token_logits = torch.as_tensor(self.token_logits, dtype=torch.float64, device="cpu").detach()
        if not (len(self.tokens),) == self.attention.shape == self.token_logits.shape:
            sizes = (
                f"{len(self.tokens)} tokens, weights {tuple(self.attention.shape)}, token logits {tuple(self.token_logits.shape)}"
            )
            raise ShowError(f"{sizes}: there must be one of each for every token, without padding")
        if not (self.attention.isfinite() & self.token_logits.isfinite()).all():
            raise ShowError("a weight or a token logit is not a finite number")
        if self.attention.min() < 0 or abs(float(self.attention.sum()) - 1) > 1e-3:
            raise ShowError(f"attention is not negative and sums to 1; this one has sum {float(self.attention.sum()):.4f}")
        if not 0 < self.eps < 1:
            raise ShowError(f"eps is {self.eps}; it is a change of a probability, between 0 and 1")
        self.attention = self.attention / self.attention.sum()
        self.reset()

    @classmethod
    @torch.no_grad()
    def of(cls, model: AttentionClassifier, batch: Batch, row: int = 0, *, eps: float = 0.01) -> "MovedAttention":
        """The sentence in `row` of a batch, as a two-class model reads it.

        Raises:
            NotLinearError: more than two classes, or the decoder is not linear in the context vector.
            ShowError: there is no such row.
        """
        if not 0 <= row < len(batch):
            raise ShowError(f"row {row} does not exist; the batch has rows 0 to {len(batch) - 1}")
        output, tokens = model(batch), batch.tokens[row]
        return cls(tokens, output.attention[row, : len(tokens)], output.token_logits[row, : len(tokens)], eps)

    @property
    def original_probability(self) -> float:
        """Of class 1, under the model's own attention."""
        return float((self.attention @ self.token_logits).sigmoid())

    @property
    def probability(self) -> float:
        """Of class 1, under the weights now."""
        return float((self.weights @ self.token_logits).sigmoid())

    @property
    def change(self) -> float:
        """In [-1, 1]: the probability now less the original one."""
        return self.probability - self.original_probability

    @property
    def same_prediction(self) -> bool:
        """Whether the probability is within eps of the original one."""
        return abs(self.change) <= self.eps + 1e-9

    @property
    def jsd(self) -> float:
        """Jensen-Shannon divergence of the weights now from the model's own, in nats, in [0, ln 2]."""
        return float(jsd(self.attention, self.weights))

    def move(self, position: int, weight: float) -> None:
        """Give one token a weight in [0, 1]; the others share the rest in the proportions they have, equally if they have none."""
        if not 0 <= weight <= 1:
            raise ShowError(f"a weight lies between 0 and 1, not {weight}")
        others = torch.arange(len(self.tokens)) != position
        if not others.any():
            return
        shares = torch.where(others, self.weights, 0)
        shares = shares if shares.sum() > 1e-12 else others.double()
        self.weights = torch.where(others, shares * ((1 - weight) / shares.sum()), weight)

    def reset(self) -> None:
        """Back to the model's own attention."""
        self.weights = self.attention.clone()

    def spread(self) -> None:
        """The same weight for every token."""
        self.weights = torch.full_like(self.attention, 1 / len(self.tokens))

    def worst(self) -> None:
        """The exact adversary: the furthest attention that keeps the prediction within eps."""
        everywhere = torch.ones(1, len(self.tokens), dtype=torch.bool)
        self.weights = exact_attention(self.attention[None], self.token_logits[None], everywhere, self.eps).attention[0]


class AttentionMover:
    """What `move_attention` returns: displays a picture that needs no kernel, then the sliders.

    Attributes:
        state: the `MovedAttention` behind the sliders.
        fallback: the model's attention above the exact adversary, as HTML that every renderer shows.
        sliders: one a token, in whole percent: the page answers any other value with its own rounding of it, which would look like
            a move of the reader's.
        buttons: "exact", "uniform" and "own".
        status, picture: HTML widgets that follow the weights.
        box: all of them together.
    """

    def __init__(self, state: MovedAttention, classes: Sequence[str]):
        if len(state.tokens) > _MOST_SLIDERS:
            raise ShowError(f"{len(state.tokens)} tokens are too many to move by hand; choose a text of at most {_MOST_SLIDERS}")
        if len(classes) != 2:
            raise ShowError(f"moving attention is for 2 classes, not {len(classes)}: {classes}")
        self.state, self._class_name, self._mirroring = state, classes[1], False
        state.worst()
        self.fallback = attention_pair(
            state.tokens,
            state.attention,
            state.weights,
            probabilities=(state.original_probability, state.probability),
            jsd=state.jsd,
            class_name=self._class_name,
            name="the exact adversary",
        )
        state.reset()
        self.sliders = [self._slider(position, token) for position, token in enumerate(state.tokens)]
        self.buttons = {
            "exact": self._button("Exact adversary", "The furthest attention with the same prediction", state.worst),
            "uniform": self._button("Uniform", "The same weight for every token", state.spread),
            "own": self._button("The model's own", "Back to the attention of the model", state.reset),
        }
        self.status, self.picture = widgets.HTML(), widgets.HTML()
        grid = widgets.Layout(grid_template_columns="repeat(auto-fill, minmax(300px, 1fr))", max_width="100%")
        unit = widgets.Label("Weights in percent; the others make room for the one you move.")
        sliders = widgets.GridBox(self.sliders, layout=grid)
        self.box = widgets.VBox([widgets.HBox(list(self.buttons.values())), self.status, self.picture, unit, sliders])
        self._refresh()

    def _ipython_display_(self) -> None:
        display(self.fallback)
        display(self.box)

    def _slider(self, position: int, token: str) -> widgets.FloatSlider:
        slider = widgets.IntSlider(min=0, max=100, description=token, layout={"width": "98%"})
        slider.observe(lambda change: self._moved(position, change["new"] / 100), "value")
        return slider

    def _button(self, label: str, tooltip: str, act) -> widgets.Button:
        button = widgets.Button(description=label, tooltip=tooltip, layout={"width": "auto"})
        button.on_click(lambda _: (act(), self._refresh()))
        return button

    def _moved(self, position: int, weight: float) -> None:
        if not self._mirroring:
            self.state.move(position, weight)
            self._refresh()

    def _refresh(self) -> None:
        self._mirroring = True
        for slider, weight in zip(self.sliders, self.state.weights.tolist(), strict=True):
            slider.value = round(100 * weight)
        self._mirroring = False
        self.status.value = self._status_html()
        self.picture.value = heatmap(
            self.state.tokens,
            torch.stack([self.state.attention, self.state.weights]),
            captions=("the model's attention", "your attention"),
            limit=1,
        ).data

    def _status_html(self) -> str:
        state = self.state
        verdict = "the same prediction" if state.same_prediction else "another prediction"
        within = "within" if state.same_prediction else "outside"
        return (
            '<div role="status" style="background:#fff;color:#000;padding:4px 8px;font-size:15px">'
            f"p({escape(self._class_name)}) = <b>{state.probability:.3f}</b>, "
            f"{state.change:+.3f} from the model's {state.original_probability:.3f}: "
            f"<b>{verdict}</b> ({within} {state.eps:g}). The attention moved by {state.jsd:.3f} of at most 0.693 (JSD).</div>"
        )


def move_attention(
    model: AttentionClassifier, batch: Batch, row: int = 0, *, eps: float = 0.01, classes: Sequence[str] = ("class 0", "class 1")
) -> AttentionMover:
    """Move the attention of one sentence yourself: a slider a token, and the prediction that follows.

    Moving a slider (by mouse, or with Tab and the arrow keys) rescales the other weights, so that they still sum to 1. Put the
    call on the last line of a cell. Without a kernel the model's attention and the exact adversary stay visible.

    Args:
        model: of two classes, with a linear decoder.
        batch: on the model's device.
        row: which text of the batch; of at most 40 tokens.
        eps: between 0 and 1, how far the probability may move and still count as the same prediction.
        classes: the names of class 0 and class 1.
    Raises:
        NotLinearError: more than two classes, or the decoder is not linear in the context vector.
        ShowError: no such row, too many tokens, or eps that is no probability.
    """
    return AttentionMover(MovedAttention.of(model, batch, row, eps=eps), classes)
