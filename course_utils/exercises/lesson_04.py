"""Exercises of lesson 04, attention flow."""

from course_utils.exercises import Choice, Exercise, Function, Mistake


def my_rollout(attention, residual=0.5):
    """What each token after the last layer takes from each input token, by rollout.

    attention: (L, T, T) tensor, [layer x query x key], rows sum to 1; layer 0 is next to the input.
    residual: the share of each token's weight that stays on itself.
    Returns a (T, T) tensor, [token after the last layer x input token].
    """
    import torch

    identity = torch.eye(attention.shape[-1], dtype=attention.dtype)
    rolled = identity
    for layer in attention:
        rolled = ((1 - residual) * layer + residual * identity) @ rolled
    return rolled


def my_flow(upper, lower):
    """Most that can flow through two layers, from each input token to each token on top.

    upper, lower: (T, T) tensors, [query x key], the weights of the second and the first layer, residual included.
    Returns a (T, T) tensor, [token on top x input token].
    """
    import torch

    return torch.minimum(upper[:, :, None], lower[None]).sum(1)


def _no_residual(attention, residual=0.5):
    import torch

    rolled = torch.eye(attention.shape[-1], dtype=attention.dtype)
    for layer in attention:
        rolled = layer @ rolled
    return rolled


def _wrong_order(attention, residual=0.5):
    import torch

    identity = torch.eye(attention.shape[-1], dtype=attention.dtype)
    rolled = identity
    for layer in attention:
        rolled = rolled @ ((1 - residual) * layer + residual * identity)
    return rolled


def _not_normalised(attention, residual=0.5):
    import torch

    identity = torch.eye(attention.shape[-1], dtype=attention.dtype)
    rolled = identity
    for layer in attention:
        rolled = (layer + identity) @ rolled
    return rolled


def _product(upper, lower):
    return upper @ lower


def _widest_path(upper, lower):
    import torch

    return torch.minimum(upper[:, :, None], lower[None]).amax(1)


def _random_weights(*shape, seed):
    import torch

    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(*shape, generator=generator, dtype=torch.float64)).softmax(-1)


def _rollout_cases():
    return (
        (_random_weights(2, 3, 3, seed=0), 0.5),
        (_random_weights(4, 5, 5, seed=1), 0.5),
        (_random_weights(3, 2, 2, seed=2), 0.8),
        (_random_weights(1, 4, 4, seed=3), 0.0),
    )


def _flow_cases():
    return tuple((_random_weights(size, size, seed=size), _random_weights(size, size, seed=9 + size)) for size in (2, 3, 5))


EXERCISES = (
    Exercise(
        key="rollout",
        title="Attention rollout",
        prompt=(
            "Write rollout for any number of layers: mix each layer's attention with the identity, `residual` of it, and "
            "multiply from the input upwards."
        ),
        minutes=8,
        difficulty=2,
        answer=Function(my_rollout, cases=_rollout_cases),
        mistakes=(
            Mistake(_no_residual, "This is rollout without the residual connection: a token keeps nothing of itself."),
            Mistake(
                _wrong_order,
                "The layers are multiplied in the wrong order. A row on top is a mixture of rows below, so the later layer "
                "stands on the left.",
            ),
            Mistake(
                _not_normalised,
                "Rows sum to 2 to the power of the number of layers. Weigh attention with 1 - residual and the identity with "
                "residual, so that rows still sum to 1.",
            ),
        ),
        hints=(
            "Start with the identity: before the first layer each token comes from itself.",
            "One layer changes `rolled` into `mixed @ rolled`, with `mixed` the layer's attention mixed with the identity.",
        ),
    ),
    Exercise(
        key="flow",
        title="Flow through two layers",
        prompt=(
            "In two layers, paths from one token on top to one input token share no link, so the most that can flow is the sum "
            "over paths of the narrower of their two links. Write it for all pairs of tokens."
        ),
        minutes=8,
        difficulty=2,
        answer=Function(my_flow, cases=_flow_cases),
        mistakes=(
            Mistake(_product, "Products along paths, summed: that is rollout. A path carries what its narrower link lets through."),
            Mistake(_widest_path, "This is the widest single path. Flow uses all paths at once."),
        ),
        hints=(
            "A path is: token i on top, token m between, input token j. Its width is the smaller of `upper[i, m]` and "
            "`lower[m, j]`.",
            "`upper[:, :, None]` has the shape (T, T, 1) and `lower[None]` has (1, T, T); `torch.minimum` makes (i, m, j) of both.",
        ),
    ),
    Exercise(
        key="same_order",
        title="Why does depth change nothing?",
        prompt=(
            "Flow into [CLS] ranks the words in the same order at every layer. Which explanation fits what the cut above shows? "
            "Answer with its letter.\n\n"
            "- **a** MiniLM's attention is the same in all layers.\n"
            "- **b** The narrowest cut goes around [CLS]'s own column of states: it takes every link that leaves the column in the "
            "layers above the first, the same for all words, and in the first layer the one link from [CLS] to the word.\n"
            "- **c** In flow each word has the whole network to itself, so all words get the same amount.\n"
            "- **d** Capacities are rounded before the flow is computed."
        ),
        minutes=5,
        difficulty=2,
        answer=Choice("b", options=("a", "b", "c", "d")),
        mistakes=(
            Mistake("a", "Raw attention read at [CLS] changes its order from layer to layer: look at its row in the table."),
            Mistake("c", "The amounts differ between words, by what [CLS] gives them in the first layer."),
            Mistake("d", "Rounding is to 1.5e-8, far below the differences between words."),
        ),
        hints=(
            "The largest flow is the capacity of the narrowest cut. What of the cut depends on the word?",
            "Compare `difference` in the cell above for two layers.",
        ),
        solution='my_same_order = "b"',
    ),
)
