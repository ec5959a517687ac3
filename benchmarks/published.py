"""The algorithms of Jain & Wallace (2019) as plainly as the paper and its authors' program describe them, in batches of 32.

Each takes the model and a batch and returns one value a token, (B, T), or an input, (B,). They use the same model, the same
encoder and the same tensors as the package; what they do not use is what the package knows about the problem. The published
adversary, 500 Adam steps from 5 starts, is `course_utils.analysis.adversary.published`: lesson 08 shows it too.
"""

from dataclasses import replace

import numpy as np
import torch

from course_utils.data import Batch
from course_utils.models import AttentionClassifier, AttentionOutput

BATCH_SIZE = 32


def gradient(model: AttentionClassifier, batch: Batch) -> torch.Tensor:
    """Backpropagate the probability through everything, attention held fixed, and read the word vectors' gradient. (B, T)."""
    embedded = model.embedding(batch.ids).detach().requires_grad_()
    hidden = model.encoder(embedded, batch.mask)
    attention = model.attention(hidden, batch.mask).detach()
    context = (attention[..., None] * hidden).sum(1)
    model.decoder(context).softmax(-1)[:, 1].sum().backward()
    importance = (embedded.grad * embedded.detach()).sum(-1).abs()
    model.zero_grad()
    return importance


@torch.no_grad()
def leave_one_out(model: AttentionClassifier, batch: Batch) -> torch.Tensor:
    """Delete each token in turn from all texts of the batch that have it, and encode them again. (B, T)."""
    whole = model(batch).probabilities
    change = torch.zeros(batch.ids.shape)
    for position in range(batch.ids.shape[1]):
        have_it = (batch.lengths > position) & (batch.lengths > 1)
        shortened = without(batch, position, have_it)
        change[have_it, position] = (model(shortened).probabilities - whole[have_it])[:, 1].abs()
    return change


def without(batch: Batch, position: int, rows: torch.Tensor) -> Batch:
    """The chosen texts, each without its token at `position`."""
    keep = torch.arange(batch.ids.shape[1]) != position
    ids, mask = batch.ids[rows][:, keep], batch.mask[rows][:, keep]
    return replace(batch, ids=ids, mask=mask, lengths=batch.lengths[rows] - 1)


@torch.no_grad()
def permute(
    model: AttentionClassifier, batch: Batch, output: AttentionOutput, generator: np.random.Generator, n_permutations: int = 100
) -> torch.Tensor:
    """Run attention and decoder over the hidden states once for each permutation: median change of the probability, (B,)."""
    changes = []
    for _ in range(n_permutations):
        attention = model.attention(output.hidden, batch.mask)
        order = np.tile(np.arange(attention.shape[1]), (len(batch), 1))
        for row, length in enumerate(batch.lengths.tolist()):
            order[row, :length] = generator.permutation(length)
        context = (attention.gather(1, torch.from_numpy(order))[..., None] * output.hidden).sum(1)
        changes.append((model.decoder(context).softmax(-1) - output.probabilities)[:, 1].abs())
    return torch.stack(changes).median(0).values
