"""The claims of lesson 11 about made sentences with gold links, and about heads that work against something.

Samples of made sentences are seeds of the templates: other people in other schemas, other halves to choose heads on, but the same
word lists. Samples of review sentences are disjoint.
"""

from functools import cache

import pandas as pd

from course_utils.analysis import links, suppression
from course_utils.data import load, templates
from course_utils.data.examples import Example
from course_utils.models import load_encoder
from course_utils.models.finetuned import load_finetuned
from course_utils.models.untrained import untrained
from course_utils.reproduce.study import SAMPLES, Study, Values, drawn, rows

RECIPE, FINETUNED = "minilm", "rotten_tomatoes-minilm"
SENTENCES = 100


def conditions(seed: int) -> dict[str, dict[str, list[templates.Link]]]:
    """For each role the sentences that a head is chosen on, first, and the controls it is then put under."""
    gender, subjects = templates.reference(seed=seed), templates.agreement(seed=seed)
    return {
        "reference": {
            "gender": gender,
            "gender, shuffled": templates.shuffle_words(gender, seed),
            "gender, three words": templates.bare_words(gender),
            "meaning": templates.reference("meaning", seed),
        },
        "subject": {
            "number": subjects,
            "number, shuffled": templates.shuffle_words(subjects, seed),
            "same number": templates.agreement(same_number=True, seed=seed),
        },
        "synonym": {relation: templates.word_pairs(relation, seed) for relation in ("synonyms", "antonyms")},
    }


def linked(seed: int) -> Values:
    """`ROLE_head`: accuracy of the head chosen for the role, under each condition; `ROLE_untrained`, `ROLE_embedding`: of the best
    head of an untrained encoder, and of the rule "like embedding", on the first condition. All on the half that did not choose."""
    encoder, blank, found = load_encoder(), untrained(load_encoder(), seed=seed), {}
    for role, sentences in conditions(seed).items():
        frames = {name: links.choose(encoder, made) for name, made in sentences.items()}
        first, made = next(iter(sentences.items()))
        best = links.held_out(frames[first], n_resamples=1)
        table = links.controlled(frames, best.layer, best.head, seed=seed)
        found |= {(f"{role}_head", row.condition): row.accuracy for row in table.itertuples()}
        found[f"{role}_untrained", first] = links.held_out(links.choose(blank, made), n_resamples=1).accuracy
        rule = links.by_rule(encoder, [link for link in made if link.half])
        found[f"{role}_embedding", first] = rule[rule["rule"] == "like embedding"]["right"].mean()
    return found


@cache
def _slopes() -> tuple[list[list[Example]], pd.DataFrame]:
    """Five disjoint samples of test sentences, and what removing each head should do in each of them."""
    samples = [drawn(load("rotten_tomatoes").test, sample)[:SENTENCES] for sample in range(SAMPLES)]
    classifier, everything = load_finetuned(FINETUNED), [example for some in samples for example in some]
    found = suppression.expected_removal(classifier, *_columns(everything))
    return samples, found.assign(sample=found["input"] // SENTENCES)


def suppressed(sample: int) -> Values:
    """`removal`: by how much the margin of the right (predicted) class rises without the head that the other samples chose for it.
    `copying`: of the head that is most negative on half of the sample, on the other half; of an untrained encoder's likewise."""
    samples, slopes = _slopes()
    classifier, found = load_finetuned(FINETUNED), {}
    texts, labels = _columns(samples[sample])
    for column, group in (("toward_right", "right class"), ("toward_predicted", "predicted class")):
        others = slopes[slopes["sample"] != sample].groupby(["layer", "head"])[column].mean()
        found["removal", group] = suppression.removal(classifier, texts, labels, [others.idxmax()])[column].mean()
    for group, encoder in (("most negative", load_encoder()), ("untrained", untrained(load_encoder(), seed=sample))):
        halves = [
            suppression.copying(encoder, some).groupby(["layer", "head"])["copying"].mean() for some in (texts[::2], texts[1::2])
        ]
        found["copying", group] = halves[1][halves[0].idxmin()]
    return found


def _columns(examples: list[Example]) -> tuple[list[str], list[int]]:
    return [example.text for example in examples], [example.label for example in examples]


def _sample(sample: int) -> pd.DataFrame:
    parts = ((RECIPE, linked(sample), 96), (FINETUNED, suppressed(sample), SENTENCES))
    return pd.concat([rows(recipe, sample, values, n) for recipe, values, n in parts], ignore_index=True)


STUDY = Study("roles", _sample)
