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
from course_utils.reproduce.study import Study

RECIPE = "minilm"
SAMPLES, SENTENCES = 5, 200
LAYERS = (0, 2, 6)  # the embeddings, where most is readable, the last
TREE_LAYER = 3
LAYER, DIRECTIONS = 4, 4  # of the removal


def _sample(sample: int) -> pd.DataFrame:
    """All measures on one of the disjoint samples of review sentences."""
    reviews = load("rotten_tomatoes")
    examples = [*reviews.dev, *reviews.test]  # none that the classifier was trained on
    order = np.random.default_rng(0).permutation(len(examples))[sample::SAMPLES][:SENTENCES]
    texts = [examples[place].text for place in order]
    parses = parse(texts)
    states = probing.word_states(load_encoder(), texts, parses)
    part = probing.split_sentences(states.sentence, seed=sample)
    values = _readable(states, states.silver(parses, "pos"), states.silver(parses, "labels"), part, sample)
    values |= _trees(states, structural.trees(states, parses), part, sample)
    values |= removal(texts, [examples[place].label for place in order], parses, seed=sample)
    rows = [(RECIPE, sample, *key, value, len(texts)) for key, value in values.items()]
    return pd.DataFrame(rows, columns=["recipe", "seed", "measure", "group", "value", "n"])


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


def removal(texts: Sequence[str], labels: Sequence[int], parses, *, seed: int = 0) -> dict[tuple[str, str], float]:
    """What the fine-tuned classifier does without the number of nouns, without its class, and without random directions."""
    classifier = load_finetuned()
    states = probing.word_states(classifier.encoder, texts, parses)
    sides = probing.split_sentences(np.arange(len(texts)), seed=seed)
    part, features = sides[states.sentence], states.layer(LAYER)
    train = part == "train"
    tags = states.silver(parses, "tags")
    nouns = np.isin(tags, ["NN", "NNS"])
    sets = {
        "number": amnesic.readable_directions(features[train & nouns], tags[train & nouns], DIRECTIONS),
        "class": amnesic.readable_directions(features[train], np.array(labels)[states.sentence[train]], DIRECTIONS),
        "random": amnesic.random_directions(features.shape[1], DIRECTIONS, seed),
    }
    centre = features[train].mean(0)
    test = np.flatnonzero(sides == "test")
    chosen = [texts[place] for place in test]
    before = logits_of(classifier, chosen)
    right = np.array(labels)[test]
    found = {("removal_accuracy", "nothing"): float((before.argmax(1).numpy() == right).mean())}
    read = features[nouns]
    for name, directions in sets.items():
        after = amnesic.logits_without(classifier, chosen, LAYER, directions, centre)
        change = (after[:, 1] - after[:, 0] - before[:, 1] + before[:, 0]).abs().mean()
        found["removal_accuracy", name] = float((after.argmax(1).numpy() == right).mean())
        found["removal_change", name] = float(change)
        predicted = probing.probe(amnesic.without(read, directions, centre), tags[nouns], part[nouns])
        found["number_read", f"without {name}"] = float((predicted == tags[nouns & (part == "test")]).mean())
    predicted = probing.probe(read, tags[nouns], part[nouns])
    found["number_read", "nothing removed"] = float((predicted == tags[nouns & (part == "test")]).mean())
    found["number_read", "majority"] = float((tags[nouns & (part == "test")] == "NN").mean())
    return found


STUDY = Study("probing", _sample, SAMPLES)
