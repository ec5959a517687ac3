"""What a model that attends returns."""

from dataclasses import dataclass

import torch

from course_utils.errors import NotLinearError


@dataclass(frozen=True)
class AttentionOutput:
    """The prediction for B texts of at most T tokens and C classes, and what it was made of.

    Attributes:
        logits: (B, C).
        attention: (B, T), not negative, each row sums to 1, exactly 0 at padding.
        hidden: (B, T, H), the encoder's state at each token, 0 at padding.
        contributions: (B, T, C), the logits the model would give if it attended to that token alone, 0 at padding:
            `logits = (attention[..., None] * contributions).sum(1)`. None where the decoder is not linear.
    """

    logits: torch.Tensor
    attention: torch.Tensor
    hidden: torch.Tensor
    contributions: torch.Tensor | None

    @property
    def probabilities(self) -> torch.Tensor:
        """(B, C), each row sums to 1."""
        return self.logits.softmax(-1)

    @property
    def predicted(self) -> torch.Tensor:
        """(B,) int64, the most probable class."""
        return self.logits.argmax(-1)

    @property
    def token_logits(self) -> torch.Tensor:
        """(B, T), for two classes: the log odds of class 1 if the model attended to that token alone.

        `probabilities[:, 1] = sigmoid((attention * token_logits).sum(1))`.

        Raises:
            NotLinearError: the decoder is not linear in the context vector, or there are more than two classes.
        """
        if self.contributions is None:
            raise NotLinearError("the decoder of this model is not linear in the context, so tokens have no logit of their own")
        if self.contributions.shape[-1] != 2:
            raise NotLinearError(f"token_logits is for 2 classes, this model has {self.contributions.shape[-1]}; use contributions")
        return self.contributions[..., 1] - self.contributions[..., 0]
