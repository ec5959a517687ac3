"""Exercises of lesson 05, the attention classifier."""

from course_utils.exercises import Choice, Exercise, Function, Mistake


def my_attend(states, scores):
    """The context vector: the average of the states, weighted by the softmax of the scores.

    states: (T, H) tensor; scores: (T,) tensor.
    """
    return scores.softmax(0) @ states


def my_token_logits(states, weight, bias):
    """Log odds that a linear decoder gives each state when it is attended to alone.

    states: (T, H) tensor; weight: (H,) tensor; bias: a number.
    """
    return states @ weight + bias


def _not_normalised(states, scores):
    return scores @ states


def _plain_mean(states, scores):
    return states.mean(0)


def _without_bias(states, weight, bias):
    return states @ weight


def _bias_divided(states, weight, bias):
    return states @ weight + bias / len(states)


def _attend_cases():
    import torch

    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return ((draw(4, 3), draw(4)), (draw(2, 5), 3 * draw(2)), (draw(6, 2), draw(6)))


def _decoder_cases():
    import torch

    generator = torch.Generator().manual_seed(1)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return ((draw(4, 3), draw(3), 0.7), (draw(2, 5), draw(5), -1.2))


EXERCISES = (
    Exercise(
        key="attend",
        title="Attention in one line",
        prompt="Turn the scores into weights by a softmax and average the states with them.",
        minutes=5,
        difficulty=1,
        answer=Function(my_attend, cases=_attend_cases, tolerance=1e-9),
        mistakes=(
            Mistake(_not_normalised, "You weigh by the scores themselves. Weights are not negative and sum to 1: softmax first."),
            Mistake(_plain_mean, "That is the plain mean: the scores play no part in it."),
        ),
        hints=(
            "`scores.softmax(0)` gives the weights.",
            "A vector times a matrix, `weights @ states`, is the weighted sum of the rows.",
        ),
    ),
    Exercise(
        key="token_logits",
        title="What would one word say alone?",
        prompt=(
            "The decoder is linear, and attention sums to 1, so the log odds are the average of what each state would give alone. "
            "Compute these."
        ),
        minutes=5,
        difficulty=1,
        answer=Function(my_token_logits, cases=_decoder_cases, tolerance=1e-9),
        mistakes=(
            Mistake(_without_bias, "The bias is missing. Each word gets all of it: the weights sum to 1."),
            Mistake(_bias_divided, "Do not divide the bias: averaging with weights that sum to 1 already gives it back once."),
        ),
        hints=("What does the decoder give for a context vector that equals one state?",),
    ),
    Exercise(
        key="plateau",
        title="What happened on the plateau?",
        prompt=(
            "For four epochs the story model stayed at 45 % and then rose to 99 % within two. A bag of words reaches 43 %. Which "
            "reading fits best? Answer with its letter.\n\n"
            "- **a** The learning rate was too small at first.\n"
            "- **b** Up to then the model read the story as a bag of words; then attention learnt to select by the question.\n"
            "- **c** The development set is too small to tell 45 % from 99 %.\n"
            "- **d** It memorised the training stories."
        ),
        minutes=3,
        difficulty=1,
        answer=Choice("b", options=("a", "b", "c", "d")),
        mistakes=(
            Mistake("a", "The learning rate is constant; and the level of the plateau is that of the bag of words."),
            Mistake("c", "With a thousand stories the standard error is under two points."),
            Mistake("d", "The accuracy is that on development stories, none of which is in training."),
        ),
        hints=("Compare the height of the plateau with the table of readers without order.",),
        solution='my_plateau = "b"',
    ),
)
