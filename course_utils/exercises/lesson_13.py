"""Exercises of lesson 13, head pruning."""

from course_utils.exercises import Choice, Exercise, Function, Mistake


def my_importance(gradients):
    """Importance of each head, normalised within its layer.

    gradients: (S, L, N) tensor, for each text the gradient of its loss at each gate.
    Returns an (L, N) tensor whose layers have Euclidean norm 1.
    """
    size = gradients.abs().mean(0)
    return size / (size**2).sum(1, keepdim=True) ** 0.5


def my_can_go(accuracies, counts, points):
    """How many heads can go before accuracy falls by more than `points`.

    accuracies: one for each of `counts`, the numbers of heads removed, rising from 0.
    points: allowed loss, in percentage points. What comes after a fall does not count.
    """
    best = counts[0]
    for accuracy, count in zip(accuracies, counts, strict=True):
        if 100 * (accuracies[0] - accuracy) > points + 1e-9:
            break
        best = count
    return best


def _mean_first(gradients):
    size = gradients.mean(0).abs()
    return size / (size**2).sum(1, keepdim=True) ** 0.5


def _raw(gradients):
    return gradients.abs().mean(0)


def _over_all(gradients):
    size = gradients.abs().mean(0)
    return size / (size**2).sum() ** 0.5


def _last_above(accuracies, counts, points):
    return max(
        count for accuracy, count in zip(accuracies, counts, strict=True) if 100 * (accuracies[0] - accuracy) <= points + 1e-9
    )


def _first_below(accuracies, counts, points):
    for accuracy, count in zip(accuracies, counts, strict=True):
        if 100 * (accuracies[0] - accuracy) > points + 1e-9:
            return count
    return counts[-1]


def _shares(accuracies, counts, points):
    best = counts[0]
    for accuracy, count in zip(accuracies, counts, strict=True):
        if accuracies[0] - accuracy > points:
            break
        best = count
    return best


def _gradients(seed, scale=1.0):
    import torch

    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(5, 2, 3, generator=generator, dtype=torch.float64)
    return drawn * torch.tensor([1.0, scale], dtype=torch.float64)[:, None]


EXERCISES = (
    Exercise(
        key="importance",
        title="Score the heads",
        prompt=(
            "You have the gradient of every text's loss at every gate. Make of it the importance of each head: the mean size of "
            "its gradient, divided by the Euclidean norm of its layer's scores."
        ),
        minutes=8,
        difficulty=2,
        answer=Function(my_importance, cases=((_gradients(0),), (_gradients(1, 10.0),), (_gradients(2, 0.1),))),
        mistakes=(
            Mistake(
                _mean_first,
                "You average before you take the size: a head that helps half of the texts and harms the other half gets 0.",
            ),
            Mistake(_raw, "Your scores are not divided by the norm of their layer yet."),
            Mistake(_over_all, "You divide by one norm for all layers; the order of the heads stays that of the raw scores."),
        ),
        hints=(
            "The size of each gradient comes first, then the mean over the texts (the first dimension).",
            "The norm is over the heads of a layer, the last dimension; `keepdim=True` keeps the shapes fitting.",
        ),
    ),
    Exercise(
        key="can_go",
        title="How many heads can go?",
        prompt=(
            "From accuracies after removal of more and more heads, find the largest number of heads before accuracy falls by "
            "more than `points` percentage points. Once it has fallen, stop, even if it rises again by luck."
        ),
        minutes=6,
        difficulty=1,
        answer=Function(
            my_can_go,
            cases=(
                ([0.90, 0.895, 0.885, 0.893, 0.80], [0, 12, 24, 36, 48], 1.0),
                ([0.84, 0.85, 0.84, 0.80], [0, 10, 20, 30], 1.0),
                ([0.80, 0.70, 0.79], [0, 5, 10], 2.0),
                ([0.80, 0.80], [0, 6], 0.5),
            ),
        ),
        mistakes=(
            Mistake(_last_above, "You take the last count that is good enough; accuracy had fallen before, and rose by luck."),
            Mistake(_first_below, "That is the first count at which too much is lost, not the last at which it is not."),
            Mistake(_shares, "Accuracies are between 0 and 1, `points` are percentage points: 1 point is 0.01."),
        ),
        hints=("Go from left to right and remember the last count that was good enough.", "Stop the loop at the first fall."),
    ),
    Exercise(
        key="meaning",
        title="What does a small curve mean?",
        prompt=(
            "Half of the heads are removed and accuracy hardly falls. Which statement follows? Answer with its letter.\n\n"
            "- **a** The removed heads did nothing in the whole model.\n"
            "- **b** Any other half could have been removed as well.\n"
            "- **c** On these texts the heads that stayed are enough for the decision.\n"
            "- **d** The model would have learned as much if it had been trained with half of the heads."
        ),
        minutes=3,
        difficulty=1,
        answer=Choice("c", options=("a", "b", "c", "d")),
        mistakes=(
            Mistake("a", "Their removal moves the margins of single texts; others can stand in for a head that does something."),
            Mistake("b", "The reverse order removes as many heads, and loses far more."),
            Mistake("d", "Nothing was trained with fewer heads here; that takes another experiment."),
        ),
        hints=("Which statement is only about what was measured?",),
        solution='my_meaning = "c"',
    ),
)
