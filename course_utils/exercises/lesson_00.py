"""The exercise of lesson 00: how a check works."""

from course_utils.exercises import Exercise, Mistake, Number

EXERCISES = (
    Exercise(
        key="average",
        title="A weighted average",
        prompt="Two words have the states 4 and -2 and the attention weights 0.75 and 0.25. What is the weighted average?",
        minutes=1,
        difficulty=1,
        answer=Number(2.5, tolerance=0.001),
        mistakes=(
            Mistake(1.0, "That is the average with equal weights; the first word has three times the weight of the second."),
            Mistake(3.5, "The second state is negative: its part is -0.5, not +0.5."),
        ),
        hints=("Multiply each state by its weight, then add.",),
        solution="my_average = 0.75 * 4 + 0.25 * (-2)",
    ),
)
