"""Exercises of lesson 12, probing."""

from course_utils.exercises import Choice, Exercise, Function, Mistake


def my_type_majority(train_words, train_labels, test_words):
    """The best that can be said without any state.

    train_words, train_labels: lists of the same length; test_words: a list.
    Returns a list: each test word's most frequent label in training, or, for a
    word that was not seen, the most frequent label of all. No ties occur.
    """
    from collections import Counter

    overall = Counter(train_labels).most_common(1)[0][0]
    by_word = {}
    for word, label in zip(train_words, train_labels, strict=True):
        by_word.setdefault(word, Counter())[label] += 1
    return [by_word[word].most_common(1)[0][0] if word in by_word else overall for word in test_words]


def my_compression(probabilities, n_classes):
    """Uniform code over online code.

    probabilities: for each label that was sent, what the probe gave to it
    before it was seen; n_classes: how many labels there are.
    """
    import math

    uniform = len(probabilities) * math.log2(n_classes)
    return uniform / -sum(math.log2(probability) for probability in probabilities)


def my_uuas(gold, predicted):
    """Share of the gold edges that the predicted tree has, in [0, 1].

    gold, predicted: lists of pairs of words' places; (0, 3) is the same edge
    as (3, 0).
    """
    found = {frozenset(edge) for edge in predicted}
    return sum(frozenset(edge) in found for edge in gold) / len(gold)


def _overall_only(train_words, train_labels, test_words):
    most = max(set(train_labels), key=list(train_labels).count)
    return [most for _ in test_words]


def _first_label(train_words, train_labels, test_words):
    most = max(set(train_labels), key=list(train_labels).count)
    first = {}
    for word, label in zip(train_words, train_labels, strict=True):
        first.setdefault(word, label)
    return [first.get(word, most) for word in test_words]


def _none_for_new(train_words, train_labels, test_words):
    found = my_type_majority(train_words, train_labels, test_words)
    return [label if word in train_words else None for word, label in zip(test_words, found, strict=True)]


def _upside_down(probabilities, n_classes):
    return 1 / my_compression(probabilities, n_classes)


def _mean_first(probabilities, n_classes):
    import math

    mean = sum(probabilities) / len(probabilities)
    return math.log2(n_classes) / -math.log2(mean)


def _natural_below(probabilities, n_classes):
    import math

    return len(probabilities) * math.log2(n_classes) / -sum(math.log(probability) for probability in probabilities)


def _directed(gold, predicted):
    found = {tuple(edge) for edge in predicted}
    return sum(tuple(edge) in found for edge in gold) / len(gold)


def _of_predicted(gold, predicted):
    return my_uuas(predicted, gold)


_WORDS = ["the", "watch", "watch", "watch", "film", "the", "film", "good"]
_LABELS = ["DET", "NOUN", "VERB", "VERB", "NOUN", "DET", "NOUN", "ADJ"]

EXERCISES = (
    Exercise(
        key="type_majority",
        title="Without any state",
        prompt=(
            "Before a probe's accuracy means anything, you need to know how far the word alone gets you. Write the baseline "
            "of word types: remember each word's most frequent label, and say the most frequent label of all for a "
            "word you never saw."
        ),
        minutes=8,
        difficulty=2,
        answer=Function(
            my_type_majority,
            cases=(
                (_WORDS, _LABELS, ["watch", "the", "new"]),
                (["a", "b", "b", "b"], ["X", "X", "Y", "Y"], ["a", "b"]),
                (["a", "b", "b", "b", "c"], ["X", "Y", "Z", "Z", "Z"], ["d", "a", "b"]),
            ),
        ),
        mistakes=(
            Mistake(_overall_only, "You say the same label for every word; look up each word's own most frequent label first."),
            Mistake(_first_label, "You keep the first label you saw of a word; count all of them."),
            Mistake(_none_for_new, "A word that was not in training needs an answer as well: the most frequent label of all."),
        ),
        hints=(
            "`collections.Counter` counts; `most_common(1)[0][0]` is the winner.",
            "One Counter for all labels, and a dictionary with one Counter for each word.",
        ),
    ),
    Exercise(
        key="compression",
        title="The length of a code",
        prompt=(
            "A label to which the receiver gives the probability p costs -log2 p bits. Write the compression: the bits of the "
            "uniform code over the bits of this one."
        ),
        minutes=6,
        difficulty=2,
        answer=Function(
            my_compression, cases=(([0.5, 0.25], 4), ([0.9, 0.8, 0.99, 0.1], 17), ([1 / 3] * 5, 3), ([0.2, 0.05, 0.1], 8))
        ),
        mistakes=(
            Mistake(_upside_down, "It is upside down: a shorter code compresses more, so uniform comes above."),
            Mistake(
                _mean_first,
                "You average the probabilities before the logarithm; each label is sent by itself and costs its own bits.",
            ),
            Mistake(_natural_below, "One of the two codes is in nats; take the logarithm to base 2 in both."),
        ),
        hints=("The uniform code costs log2 K for each label.", "Sum the bits of all labels, then divide."),
    ),
    Exercise(
        key="uuas",
        title="How much of the tree?",
        prompt=(
            "UUAS is the *undirected unlabelled attachment score*: of the gold edges, the share that the predicted tree has. An "
            "edge has no direction here."
        ),
        minutes=5,
        difficulty=1,
        answer=Function(
            my_uuas,
            cases=(
                ([(0, 1), (1, 2), (1, 3)], [(1, 0), (1, 2), (2, 3)]),
                ([(0, 1)], [(1, 2), (2, 0), (0, 1)]),
                ([(0, 1), (2, 3)], [(3, 2), (1, 2), (0, 3)]),
            ),
        ),
        mistakes=(
            Mistake(_directed, "You lose edges that were written the other way round: (0, 3) and (3, 0) are one edge."),
            Mistake(_of_predicted, "You divide by the predicted edges; the score is a share of the gold ones."),
        ),
        hints=("`frozenset((0, 3)) == frozenset((3, 0))`.",),
    ),
    Exercise(
        key="readable",
        title="Readable, so used?",
        prompt=(
            "A probe reads from layer 4 of a sentiment classifier whether a review is written in the first person: accuracy .92, "
            "majority .70, control task .71. After the directions it reads are removed a new probe gets .70, and the classifier's "
            "predictions change as little as after removing as many random directions. Which sentence may stand in the paper? "
            "Answer with its letter.\n\n"
            "- **a** The classifier relies on the person of the review.\n"
            "- **b** Layer 4 does not represent the person of the review.\n"
            "- **c** The person can be read linearly from layer 4; what a linear probe reads there is not needed for these "
            "predictions.\n"
            "- **d** The person of the review has no influence on the predictions."
        ),
        minutes=4,
        difficulty=2,
        answer=Choice("c", options=("a", "b", "c", "d")),
        mistakes=(
            Mistake(
                "a", "The probe shows that it can be read. Whether it is used is what the removal tested, and it changed nothing."
            ),
            Mistake("b", "Before the removal a probe read it far above majority and control."),
            Mistake(
                "d",
                "Only what a linear probe reads, and only in this layer, was removed: an earlier layer, or a form that is not "
                "linear, may still have had influence.",
            ),
        ),
        hints=("Which states did the removal touch, and which form of the property?",),
        solution='my_readable = "c"',
    ),
)
