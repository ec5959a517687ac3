'''Exercises that check themselves.

In a lesson (the cell with the stub has the tag `exercise`; the student's name is always `my_` + key, and nothing else binds it):

    from course_utils import exercises
    ex = exercises.load("08")

    ex.bound                                    # title, minutes, difficulty and task

    my_bound = ...                              # tag: exercise

    bound = ex.bound.check(my_bound).value      # right, wrong and why, or not tried yet
    # ex.bound.hint()      ex.bound.solution()

    ex.progress()                               # 0 of 3 exercises solved

`.value` is the student's answer when it is right and otherwise the reference, so an unsolved notebook runs from top to bottom and
the lesson goes on with `bound`.

A lesson's exercises are a module `course_utils/exercises/lesson_NN.py`:

    import math
    from course_utils.exercises import Exercise, Function, Mistake, Number

    def my_entropy(weights):
        """Entropy of weights that sum to 1, in nats."""
        return -sum(w * math.log(w) for w in weights if w > 0)

    EXERCISES = (
        Exercise(
            key="bound", title="The ceiling", minutes=3, difficulty=1,
            prompt="What is the largest Jensen-Shannon divergence, in nats?",
            answer=Number(math.log(2), tolerance=0.005, unit="nats"),
            mistakes=(Mistake(1.0, "That is the ceiling in bits; the lesson uses natural logarithms."),),
            hints=("Take two distributions that share no token.",), solution="my_bound = math.log(2)",
        ),
        Exercise(
            key="entropy", title="How spread?", prompt="Write the entropy of attention weights.", minutes=10, difficulty=2,
            answer=Function(my_entropy, cases=(([0.5, 0.5],), ([1.0, 0.0],))),
            mistakes=(Mistake(lambda weights: -my_entropy(weights), "The sign is the other way round."),),
            hints=("0 log 0 counts as 0.", "Leave out the weights that are 0."),
        ),
    )

Stub and solution of a function exercise come from the reference: its signature and docstring, and its source. References that need
a model are given as functions without arguments, so that loading a lesson costs nothing. `tests/test_exercises_lessons.py` proves
for each exercise of each such module that the reference is right, the stub not tried yet, and every mistake refused with its own
message.

`solve` puts the solutions into a notebook, `problems` lists what does not fit; `exercises.grading` marks a folder of notebooks.
'''

from course_utils.exercises.answers import Choice, Function, Number, Value
from course_utils.exercises.exercise import Exercise, Mistake, Outcome, Result
from course_utils.exercises.lesson import Lesson, Task, available, load
from course_utils.exercises.notebooks import problems, solve

__all__ = [
    "Choice",
    "Exercise",
    "Function",
    "Lesson",
    "Mistake",
    "Number",
    "Outcome",
    "Result",
    "Task",
    "Value",
    "available",
    "load",
    "problems",
    "solve",
]
