"""Exercises of lesson 03, many heads."""

from course_utils.exercises import Choice, Exercise, Function, Mistake


def my_hidden(weights):
    """What the average over heads hides, in nats.

    weights: (N, ..., T) tensor, heads first, the weights of a row last.
    Returns a (...) tensor: entropy of the average row - average entropy of the rows.
    """

    def entropy(rows):
        return -(rows * rows.clamp(min=1e-30).log()).sum(-1)

    return entropy(weights.mean(0)) - entropy(weights).mean(0)


def my_corpus_bytes(n_layers, n_heads, lengths, bytes_per_weight=4):
    """Bytes of all maps of a corpus, each text stored at its own length.

    lengths: number of tokens of each text.
    """
    return n_layers * n_heads * bytes_per_weight * sum(length**2 for length in lengths)


def my_separation(distances, groups):
    """Mean distance between heads of different groups - mean distance within.

    distances: (K, K) array, symmetric; groups: K labels. A pair counts once,
    a head with itself does not count.
    """
    within, between = [], []
    for one in range(len(groups)):
        for other in range(one):
            side = within if groups[one] == groups[other] else between
            side.append(distances[one][other])
    return sum(between) / len(between) - sum(within) / len(within)


def _entropy(rows):
    return -(rows * rows.clamp(min=1e-30).log()).sum(-1)


def _average_entropy(weights):
    return _entropy(weights).mean(0)


def _entropy_of_average(weights):
    return _entropy(weights.mean(0))


def _mean_length(n_layers, n_heads, lengths, bytes_per_weight=4):
    return n_layers * n_heads * bytes_per_weight * len(lengths) * (sum(lengths) / len(lengths)) ** 2


def _padded(n_layers, n_heads, lengths, bytes_per_weight=4):
    return n_layers * n_heads * bytes_per_weight * len(lengths) * max(lengths) ** 2


def _not_squared(n_layers, n_heads, lengths, bytes_per_weight=4):
    return n_layers * n_heads * bytes_per_weight * sum(lengths)


def _with_diagonal(distances, groups):
    within, between = [], []
    for one in range(len(groups)):
        for other in range(len(groups)):
            (within if groups[one] == groups[other] else between).append(distances[one][other])
    return sum(between) / len(between) - sum(within) / len(within)


def _reversed(distances, groups):
    return -my_separation(distances, groups)


def _weights_cases():
    import torch

    opposite = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]], dtype=torch.float64)
    three = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]], dtype=torch.float64)
    return (opposite,), (three,), (torch.stack([three, three.flip(-1)], 1),)


def _distance_cases():
    import numpy as np

    square = np.array([[0, 0.1, 0.5, 0.4], [0.1, 0, 0.6, 0.3], [0.5, 0.6, 0, 0.2], [0.4, 0.3, 0.2, 0]])
    return (square, [0, 0, 1, 1]), (square, ["first", "mixed", "mixed", "mixed"]), (square, [0, 1, 1, 0])


EXERCISES = (
    Exercise(
        key="hidden",
        title="What does an average hide?",
        prompt=(
            "The entropy of an averaged row is never smaller than the average of the rows' entropies. The difference is what the "
            "averaging itself added: 0 if all heads look at the same places, log N if the N heads share none. Write it for any "
            "number of heads."
        ),
        minutes=8,
        difficulty=2,
        answer=Function(my_hidden, cases=_weights_cases),
        mistakes=(
            Mistake(_average_entropy, "That is how spread the heads are themselves; take it from the entropy of their average."),
            Mistake(_entropy_of_average, "That is how spread the average is; the heads' own spread has to be taken off."),
            Mistake(lambda weights: -my_hidden(weights), "It came out negative: the entropy of the average comes first."),
        ),
        hints=(
            "The entropy of a row is the sum of -w log w, and 0 log 0 counts as 0: clamp the weight inside the logarithm.",
            "Average over the first dimension once before the entropy is taken, and once after.",
        ),
    ),
    Exercise(
        key="corpus_bytes",
        title="How large are all the maps?",
        prompt=(
            "The lesson's table takes all texts for equally long. Real corpora are not. Write the number of bytes of all maps of a "
            "corpus from the lengths of its texts, without padding."
        ),
        minutes=5,
        difficulty=1,
        answer=Function(my_corpus_bytes, cases=((6, 12, [10, 20, 30]), (32, 32, [512, 8]), (1, 1, [7]), (12, 12, [5, 50], 2))),
        mistakes=(
            Mistake(_mean_length, "The mean of the squares is larger than the square of the mean: long texts weigh more."),
            Mistake(_padded, "You pad every text to the longest; here each is stored at its own length."),
            Mistake(_not_squared, "A map has a weight for every pair of tokens, not for every token."),
        ),
        hints=("How many weights has the map of one head over one text of T tokens?", "Sum T * T over the texts."),
    ),
    Exercise(
        key="stable",
        title="Stable, so real?",
        prompt=(
            "Someone cuts a tree of 72 heads into 8 and reports: resampling the sentences gives the same 8 clusters (adjusted Rand "
            "index .95), the silhouette is .21, and another linkage of the same distances agrees with the cut at .58. Which "
            "sentence may stand in the paper? Answer with its letter.\n\n"
            "- **a** The encoder has eight kinds of heads.\n"
            "- **b** More sentences would not change this division much, but the distances do not call for it: another reasonable "
            "method divides them otherwise.\n"
            "- **c** An index of .95 shows that the clusters are well separated.\n"
            "- **d** The two linkages disagree, so the distances themselves are noise."
        ),
        minutes=3,
        difficulty=1,
        answer=Choice("b", options=("a", "b", "c", "d")),
        mistakes=(
            Mistake("a", "Eight was put in by hand; any tree of 72 heads can be cut into eight."),
            Mistake("c", "Stability is about other sentences. Separation is what the silhouette measures, and it is low."),
            Mistake("d", "Resampling changes the distances hardly; it is the rule for dividing them that differs."),
        ),
        hints=("Each of the three numbers answers one question: other sentences? clear gaps? another method?",),
        solution='my_stable = "b"',
    ),
    Exercise(
        key="separation",
        title="By layer, or by what?",
        prompt=(
            "The claim compares heads of the same layer with heads of different layers. Write the same comparison for any grouping "
            "of the heads: the mean distance of pairs from different groups minus the mean distance of pairs from the same group."
        ),
        minutes=10,
        difficulty=2,
        answer=Function(my_separation, cases=_distance_cases),
        mistakes=(
            Mistake(
                _with_diagonal, "A head with itself is at distance 0 and makes the groups look tighter; leave the diagonal out."
            ),
            Mistake(_reversed, "The sign is the other way round: between minus within."),
        ),
        hints=(
            "Go through the pairs below the diagonal, so that each counts once.",
            "Keep two lists, one for pairs with equal labels and one for the others, and compare their means.",
        ),
    ),
)
