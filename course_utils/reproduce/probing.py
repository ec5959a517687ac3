"""Lesson 12's claims on the pretrained encoder: the same probes on disjoint samples of sentences, one sample a seed.

The sample also decides the division into train and test, the control task's random labels and the probe's first weights, so the
intervals hold all of these.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from course_utils.analysis import amnesic, codes, probing, structural
from course_utils.data import load
from course_utils.data.parsing import parse
from course_utils.models import load_encoder
from course_utils.models.finetuned import load_finetuned, logits_of
from course_utils.reproduce.study import Study, drawn, rows

RECIPE = "minilm"
SENTENCES = 200
LAYERS = (0, 2, 6)  # the embeddings, where most is readable, the last
TREE_LAYER = 3
LAYER, DIRECTIONS = 4, 8  # of the removal: after layer 5 the number of a noun can hardly be read


def _sample(sample: int) -> pd.DataFrame:
    """All measures on one of the disjoint samples of review sentences."""
    reviews = load("rotten_tomatoes")
    examples = [*reviews.dev, *reviews.test]  # none that the classifier was trained on
    examples = drawn(examples, sample)
    examples, others = examples[:SENTENCES], examples[SENTENCES:]
    texts = [example.text for example in examples]
    parses = parse(texts)
    states = probing.word_states(load_encoder(), texts, parses)
    part = probing.split_sentences(states.sentence, seed=sample)
    values = _readable(states, states.silver(parses, "pos"), states.silver(parses, "labels"), part, sample)
    values |= _trees(states, structural.trees(states, parses), part, sample)
    values |= removal(texts, [example.label for example in examples], parses, others, seed=sample)
    table = rows(RECIPE, sample, values, len(texts))
    table.loc[table["measure"].isin(["removal_accuracy", "removal_change"]), "n"] = len(others)
    return table


def _readable(states, pos, dep, part, seed):
    """Accuracy, selectivity and compression of part of speech, its control and the dependency label."""
    control = probing.control_labels(states.words, pos, seed)
    frame = probing.probe_layers(states, {"pos": pos, "control": control, "dependency": dep}, part, layers=LAYERS)
    found = {}
    for (task, layer), share in frame.groupby(["task", "layer"])["correct"].mean().items():
        found[f"probe_{task}", f"layer {layer}"] = share
    for layer in LAYERS:
        found["selectivity", f"layer {layer}"] = found["probe_pos", f"layer {layer}"] - found["probe_control", f"layer {layer}"]
        for task, labels in (("pos", pos), ("control", control)):
            code = codes.online_code(states.layer(layer), labels, states.sentence, seed=seed)
            found[f"compression_{task}", f"layer {layer}"] = codes.compression(code)
    test = part == "test"
    for task, labels in (("pos", pos), ("dependency", dep)):
        found[f"probe_{task}", "word type"] = (probing.majority(states.words, labels, part) == labels[test]).mean()
    return found


def _trees(states, trees, part, seed):
    """Share of tree edges found by the structural probe and by the chain of neighbours."""
    of_part = {name: [tree for tree in trees if part[tree.rows[0]] == name] for name in probing.PARTS}
    test, found = of_part["test"], {}
    for layer in (0, TREE_LAYER):
        probe = structural.train(states.layer(layer), of_part["train"], of_part["dev"], seed=seed)
        predicted = [probe.distances(states.layer(layer)[tree.rows]) for tree in test]
        scores = structural.summary(structural.evaluate(predicted, test), n_resamples=1)
        found |= {(score.lower(), f"layer {layer}"): mean for score, mean in zip(scores["score"], scores["mean"], strict=True)}
    scores = structural.summary(structural.evaluate(structural.chain(test), test), n_resamples=1)
    return found | {(score.lower(), "chain"): mean for score, mean in zip(scores["score"], scores["mean"], strict=True)}


def removal(texts: Sequence[str], labels: Sequence[int], parses, others, *, seed: int = 0) -> dict[tuple[str, str], float]:
    """What the fine-tuned classifier does without the number of nouns, without its class, and without random directions.

    "control" takes out what a probe reads of random labels, one for each noun: directions found in the same way, about nothing.
    The directions come from `texts`, those of the number from the training part; the effects are measured on `others`.
    """
    classifier = load_finetuned()
    states = probing.word_states(classifier.encoder, texts, parses)
    both = amnesic.sentence_states(classifier.encoder, texts, LAYER)
    centre = both.mean(0)
    tags = states.silver(parses, "tags")
    nouns = np.isin(tags, ["NN", "NNS"])
    read, tags = states.layer(LAYER)[nouns], tags[nouns]
    part = probing.split_sentences(states.sentence, seed=seed)[nouns]
    control = probing.control_labels(states.words[nouns], tags, seed)
    train = part == "train"
    sets = {
        "number": amnesic.readable_directions(read[train], tags[train], DIRECTIONS),
        "control": amnesic.readable_directions(read[train], control[train], DIRECTIONS),
        "class": amnesic.readable_directions(np.concatenate(list((both - centre).swapaxes(0, 1))), [*labels, *labels], DIRECTIONS),
        "random": amnesic.random_directions(read.shape[1], DIRECTIONS, seed),
    }
    chosen, right = [example.text for example in others], np.array([example.label for example in others])
    before = logits_of(classifier, chosen)
    truth = tags[part == "test"]
    found = {
        ("removal_accuracy", "nothing"): (before.argmax(1).numpy() == right).mean(),
        ("number_read", "nothing removed"): (probing.probe(read, tags, part) == truth).mean(),
        ("number_read", "majority"): (truth == "NN").mean(),
    }
    for name, directions in sets.items():
        after = amnesic.logits_without(classifier, chosen, LAYER, directions, centre)
        change = (after - before)[:, 1] - (after - before)[:, 0]
        found["removal_accuracy", name] = (after.argmax(1).numpy() == right).mean()
        found["removal_change", name] = change.abs().mean().item()
        found["number_read", f"without {name}"] = (
            probing.probe(amnesic.without(read, directions, centre[1]), tags, part) == truth
        ).mean()
    return found


STUDY = Study("probing", _sample)
