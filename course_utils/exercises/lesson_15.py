"""Exercises of lesson 15, how heads develop."""

from course_utils.exercises import Choice, Exercise, Function, Mistake


def my_induction_score(attention, tokens):
    """Mean weight on the tokens that came right after an earlier copy of the present one.

    attention: (T, T) tensor, row i looks at columns up to i; tokens: list of T words.
    A position counts if its token stood earlier; the weights on all its targets add up.
    """
    scores = []
    for i, token in enumerate(tokens):
        targets = [j + 1 for j in range(i) if tokens[j] == token]
        if targets:
            scores.append(sum(float(attention[i, j]) for j in targets))
    return sum(scores) / len(scores)


def my_half_way(steps, values):
    """The step at which a growing curve has gone half of the way from its first to its last value.

    steps, values: lists of the same length; between two points the curve is a straight line.
    """
    half = (values[0] + values[-1]) / 2
    after = next(i for i, value in enumerate(values) if value >= half)
    share = (half - values[after - 1]) / (values[after] - values[after - 1])
    return steps[after - 1] + share * (steps[after] - steps[after - 1])


def _at_the_copy(attention, tokens):
    scores = []
    for i, token in enumerate(tokens):
        copies = [j for j in range(i) if tokens[j] == token]
        if copies:
            scores.append(sum(float(attention[i, j]) for j in copies))
    return sum(scores) / len(scores)


def _over_all_positions(attention, tokens):
    total = 0.0
    for i, token in enumerate(tokens):
        total += sum(float(attention[i, j + 1]) for j in range(i) if tokens[j] == token)
    return total / len(tokens)


def _last_copy_only(attention, tokens):
    scores = []
    for i, token in enumerate(tokens):
        copies = [j for j in range(i) if tokens[j] == token]
        if copies:
            scores.append(float(attention[i, copies[-1] + 1]))
    return sum(scores) / len(scores)


def _half_of_the_last(steps, values):
    return my_half_way(steps, [0.0, *values[1:]])


def _next_checkpoint(steps, values):
    half = (values[0] + values[-1]) / 2
    return next(step for step, value in zip(steps, values, strict=True) if value >= half)


def _middle_of_training(steps, values):
    return (steps[0] + steps[-1]) / 2


def _score_cases():
    import torch

    def rows(size, seed):
        weights = torch.rand(size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).tril()
        return weights / weights.sum(-1, keepdim=True)

    return (
        (rows(8, 0), list("abcdabcd")),
        (rows(9, 1), list("abcabcabc")),
        (rows(6, 2), list("aabbab")),
    )


EXERCISES = (
    Exercise(
        key="induction_score",
        title="Score an induction head",
        prompt=(
            "In the lesson a position was scored where its whole block had been said before. Write the score for any text: for "
            "every position whose token stood earlier, add the weights on the tokens that came right after those earlier copies; "
            "then average over these positions."
        ),
        minutes=10,
        difficulty=2,
        answer=Function(my_induction_score, cases=_score_cases),
        mistakes=(
            Mistake(_at_the_copy, "You look at the earlier copy itself. An induction head looks at what came after it."),
            Mistake(_over_all_positions, "Positions whose token is new have no target; leave them out of the mean."),
            Mistake(_last_copy_only, "A token may have several earlier copies. The weights after all of them count."),
        ),
        hints=(
            "For position `i`, the earlier copies are the `j < i` with the same token, and the targets are `j + 1`.",
            "Collect one number a position that has a target, and average these numbers.",
        ),
    ),
    Exercise(
        key="half_way",
        title="When did it happen?",
        prompt=(
            "The middle of a transition is the step at which the curve has gone half of the way from where it started to where it "
            "ended. Checkpoints are 20 steps apart, so read it off the straight line between the two around it."
        ),
        minutes=8,
        difficulty=2,
        answer=Function(
            my_half_way,
            cases=(
                ([0, 20, 40, 60], [0.06, 0.1, 0.7, 0.9]),
                ([0, 100, 200], [1.0, 2.0, 5.0]),
                ([0, 10, 20, 30], [0.5, 0.6, 0.65, 1.5]),
            ),
        ),
        mistakes=(
            Mistake(_half_of_the_last, "That is half of the last value. The curve did not start at 0: take half of the way."),
            Mistake(_next_checkpoint, "That is the first checkpoint after it. Go along the straight line between the two."),
            Mistake(_middle_of_training, "That is the middle of the training, whatever the curve does."),
        ),
        hints=(
            "First the height: the mean of the first and the last value.",
            "Find the two checkpoints around this height, and the share of the way between them.",
        ),
    ),
    Exercise(
        key="look_alike",
        title="Two heads that look back",
        prompt=(
            "Two heads of layer 0 look at the previous token, with scores .55 and .44. Taking the first out of the keys of layer 1 "
            "ends induction; taking out the second changes nothing. Which sentence is supported? Answer with its letter.\n\n"
            "- **a** The second head is a weaker copy of the first, and would step in if the first were missing.\n"
            "- **b** A head that looks at the previous token is part of the induction circuit.\n"
            "- **c** What a head looks at does not say who reads it: layer 1 finds its place by what the first one wrote.\n"
            "- **d** The second head is of no use to the model."
        ),
        minutes=4,
        difficulty=1,
        answer=Choice("c", options=("a", "b", "c", "d")),
        mistakes=(
            Mistake("a", "When the first was missing, induction ended: nobody stepped in."),
            Mistake("b", "The second one looks there too, and induction does not need it."),
            Mistake("d", "Induction does not need it. Whether something else does was not tested."),
        ),
        hints=("Both heads *look* alike. What did the cut change for each?",),
        solution='my_look_alike = "c"',
    ),
)
