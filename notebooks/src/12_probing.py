# %% [markdown]
# # Probing
#
# What can be read from a model's states, and does the model read it too?
#
# **Time** 50 minutes. **Builds on** lesson 02: layers and heads of an encoder. Lesson 11 names the parser's labels.
#
# Afterwards you will be able to
#
# - train a probe, and give it the baselines and the control task without which its accuracy means nothing;
# - measure in bits how easy a property is to read, and in edges how much of a tree;
# - take a property out of the states, and tell "can be read" from "is used".

# %%
import numpy as np
import pandas as pd
import torch
from course_utils import exercises
from course_utils.analysis import amnesic, codes, probing, structural
from course_utils.data import load
from course_utils.data.parsing import parse
from course_utils.models import load_encoder
from course_utils.models.finetuned import load_finetuned, logits_of
from course_utils.models.untrained import untrained
from course_utils.reproduce import everything
from course_utils.reproduce.claims import verdicts
from course_utils.show import layers, show
from course_utils.show import probing as figures
from course_utils.show.claims import claims

ex = exercises.load("12")

# %% [markdown]
# ## Predict first
#
# A **probe** is a small classifier that looks at the state of a word, after some layer, and says something about the word: here its part of
# speech. It never sees the text. The encoder has 6 layers; layer 0 means its embeddings, before any attention. After which layer
# will the probe be right most often?

# %%
my_guess = 6  # 0 to 6

# %% [markdown]
# ## The idea
#
# A probe that is right in 90 % of cases can have three reasons. The label is easy anyway. The probe has *learned* the words by heart. Or
# the state really says it. The accuracy alone does not tell which.
#
# The **control task** of Hewitt & Liang (2019) tells the second from the third. It gives each word type a random label, drawn once, with
# the frequencies of the real ones. There is nothing to find out about language in it; a probe can only memorise. Then
#
# $$\text{selectivity} = \text{accuracy on the task} - \text{accuracy on its control task}.$$
#
# The smallest case: states that say nothing but which word it is, one axis a word.

# %%
sentence = ["the", "film", "the", "plot", "loves", "the", "film", "loves"]
words = np.array(sentence * 6, dtype=object)
labels = np.array(list("DNDNVDNV") * 6, dtype=object)
control = probing.control_labels(words, labels, seed=3)
only_the_word = pd.get_dummies(words).to_numpy(float)
part = np.repeat(["train", "test"], 24)

print("control:", dict(zip(words[:5], control[:5], strict=True)))
for name, task in (("real", labels), ("control", control)):
    predicted = probing.probe(only_the_word, task, part, strength=1)
    print(f"{name:8} accuracy {(predicted == task[24:]).mean():.2f}")

# %% [markdown]
# Both are perfect, so the selectivity is 0: this probe learned four words by heart, and its perfect score says nothing about parts
# of speech in the states.
#
# ### The same in bits
#
# Voita & Titov (2020) ask another question: how many bits does it take to *send* the labels to somebody who has the states? Labels are sent
# one after the other, a probe is trained on those already sent, and a label to which it gives the probability $p$ costs $-\log_2 p$ bits. A
# probe that needs many examples pays for it at the start. Without states, one of $K$ labels costs $\log_2 K$ bits (the **uniform code**).

# %%
given = np.array([0.33, 0.5, 0.9, 0.98])  # to the label that then came, K = 3
bits = -np.log2(given)
print("bits:", bits.round(2), " sum", bits.sum().round(2))
print(f"uniform code: {4 * np.log2(3):.2f} bits, compression", end=" ")
print((4 * np.log2(3) / bits.sum()).round(2))

# %% [markdown]
# ## On real text
#
# 300 review sentences, drawn at random, and labels by a parser. They are **silver** labels: made by another model, right in most cases, checked
# by nobody. A word's state is the mean over its word pieces.
#
# The sentences, not the words, are divided into train, dev and test: neighbours in a sentence share context, and a probe could
# recognise it.

# %%
reviews = load("rotten_tomatoes")
generator = torch.Generator().manual_seed(0)
order = torch.randperm(len(reviews.test), generator=generator).tolist()
drawn, others = order[:300], order[300:620]  # the others are for the end
texts = [reviews.test[place].text for place in drawn]
parses = parse(texts)
encoder = load_encoder()
states = probing.word_states(encoder, texts, parses, heads=True)
part = probing.split_sentences(states.sentence)
pos, relation = states.silver(parses, "pos"), states.silver(parses, "labels")
counts = pd.Series(part).value_counts()
print(f"{len(states):,} words:", *(f"{name} {counts[name]:,}" for name in counts.index))
print(f"{len(set(pos))} parts of speech, {len(set(relation))} dependency labels")

# %% [markdown]
# Four tasks: the part of speech, the word's dependency label (*subject of its head*, *determiner of its head*), and a control
# task for each. One probe for each task and layer, 28 in all, each a logistic regression.

# %%
tasks = {
    "part of speech": pos,
    "control, part of speech": probing.control_labels(states.words, pos),
    "dependency label": relation,
    "control, dependency": probing.control_labels(states.words, relation),
}
answers = probing.probe_layers(states, tasks, part)
measured = probing.accuracy(answers, ["task", "layer"])

baselines = []
for task in ("part of speech", "dependency label"):
    for name, by_type in (("most frequent label", False), ("word type", True)):
        said = probing.majority(states.words, tasks[task], part, by_type=by_type)
        rows = probing.answers(states, tasks[task], said, part)
        baselines.append(rows.assign(task=f"{name}, {task}"))
baselines = probing.accuracy(pd.concat(baselines), ["task"])
table = measured.pivot(index="task", columns="layer", values="accuracy").loc[
    list(tasks)
]
table.round(2)

# %%
baselines.round(2).set_index("task")

# %% tags=["nbval-ignore-output"]
flat = baselines[baselines["task"].str.startswith("word type")]
flat = pd.concat([flat.assign(layer=layer) for layer in range(7)])
lines = pd.concat([measured, flat]).rename(
    columns={"task": "score", "accuracy": "mean"}
)
best = int(table.loc["part of speech"].idxmax())
figure = layers.by_layer(
    lines,
    label="accuracy on test sentences",
    title="The middle layers say most, and what can be learned by heart falls all the way",
)
show(
    figure,
    alt="Lines over layers 0 to 6. Part of speech starts near .87, is highest in layers 1 to 4 and falls in the last. The "
    "dependency label starts lower, rises to its top around layer 3 and falls. Both control tasks fall from the embeddings to the "
    "last layer. Flat lines show the word-type baselines.",
)

# %% [markdown]
# Read the part of speech against its baseline, not against 0. The word alone (*word type*) already gives most of it. The embeddings give
# more, since they also know words that the training sentences did not have. What the layers add on top is the context, and it is
# a few points, at its largest in the middle. The dependency label depends more on the other words, and there the layers add much more.
#
# Now the difference between task and control, drawn for the same sentences.

# %%
pairs = {
    "part of speech": "control, part of speech",
    "dependency label": "control, dependency",
}
gaps = []
for task, its_control in pairs.items():
    gap = probing.difference(answers, "task", task, its_control, ["layer"])
    gaps.append(gap.assign(score=task))
gaps = pd.concat(gaps).rename(columns={"difference": "mean"})
selectivity = gaps.pivot(index="score", columns="layer", values="mean")
rises = selectivity[6] - selectivity[0]
assert rises["part of speech"] > 0.08 and selectivity[0]["dependency label"] < 0
assert selectivity.loc["dependency label"].idxmax() in (2, 3, 4)
assert table.loc["part of speech", [1, 2, 3, 4]].min() > table.loc["part of speech", 0]
assert table.loc["part of speech", 6] < table.loc["part of speech", 3] - 0.02
print("highest accuracy after layer", best, "- you guessed", my_guess)
selectivity.round(2)

# %% tags=["nbval-ignore-output"]
figure = layers.by_layer(
    gaps,
    label="selectivity (task less control)",
    title="Selectivity: for word classes the last layer is as good as layer 3",
)
show(
    figure,
    alt="Selectivity over layers 0 to 6. Part of speech rises from about .19 at the embeddings to a plateau near .34 from "
    "layer 3 on. The dependency label starts below 0, is highest at layer 3 and falls a little after it.",
)

# %% [markdown]
# Accuracy and selectivity name different layers. For word classes the last layer is the least accurate, and as selective as any: what could
# be learned by heart falls as fast as what is right. This encoder was trained for the meaning of whole sentences, and the identity of
# single words fades in its last layers.
#
# The dependency label begins **below 0**. In the embeddings, arbitrary labels of words are easier than real ones, since an embedding
# names the word and hardly says what the word does in its sentence.
#
# ### In bits
#
# The compression asks for a low price instead of a high score, and needs no test sentences: all 300 are sent.

# %%
compressed = []
for task in ("part of speech", "control, part of speech"):
    for layer in range(states.n_layers + 1):
        code = codes.online_code(states.layer(layer), tasks[task], states.sentence)
        kbits = code["bits"].sum() / 1000
        compressed.append([task, layer, kbits, codes.compression(code)])
columns = ["task", "layer", "kbit", "compression"]
compressed = pd.DataFrame(compressed, columns=columns)
uniform = code["uniform_bits"].sum() / 1000
print(f"uniform code: {uniform:.1f} kbit")
price = compressed.pivot(index="task", columns="layer", values="compression")
assert 1 <= price.loc["part of speech"].idxmax() <= 4
assert price.loc["control, part of speech"].max() < price.loc["part of speech"].min()
price.round(1)

# %% [markdown]
# The code keeps task and control further apart than the accuracy did: learning words by heart takes many examples, and a code pays for each.
#
# About the layers it sides with accuracy, and against selectivity: the last is the dearest. The two questions differ. Selectivity takes off what a probe
# could have memorised; a code counts what all the labels cost, however the probe comes by them.
#
# ### Head by head
#
# A head reads 32 numbers for each word: its attention times the values. A probe on these alone:

# %%
by_head = probing.accuracy(probing.probe_heads(states, pos, part), ["layer", "head"])
most = by_head.nlargest(3, "accuracy")
assert by_head["accuracy"].max() < table.loc["part of speech"].max() - 0.1
most.round(2)

# %% tags=["nbval-ignore-output"]
top = most.iloc[0]
figure = layers.layer_head(
    by_head,
    "accuracy",
    label="accuracy, part of speech",
    title=f"No head alone knows the word classes; the best, {top['layer']:.0f}-"
    f"{top['head']:.0f}, is right for {top['accuracy']:.0%}",
)
show(
    figure,
    alt="Table of colours, 6 layers by 12 heads: accuracy of a part-of-speech probe on what each head reads. Values differ from "
    "head to head; none comes near the accuracy of a whole layer.",
)

# %% [markdown]
# A high number here does not make a "part-of-speech head". What a head reads for a word is mostly about the words it looks *at*: a head that looks
# at the word itself hands on its class, and one that looks at the previous word tells it from there. In the last layer most heads say little more
# than the most frequent label does.
#
# ### A tree in the distances?
#
# Parts of speech are labels of words. Is the *structure* of the sentence in the states too? Hewitt & Manning (2019) train a linear map $B$ so
# that the squared distance of two mapped states is the number of edges between the two words in the parser's tree:
#
# $$\lVert B h_i - B h_j \rVert^2 \approx d_{\text{tree}}(i, j).$$
#
# By hand: *actors* $\leftarrow$ *are* $\rightarrow$ *wonderful*. If each edge is a direction of its own, the squared distances are right.

# %%
mapped = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])  # actors, are, wonderful
squared = ((mapped[:, None] - mapped[None]) ** 2).sum(-1)
print(
    squared,
    "\nedges of the cheapest tree:",
    structural.spanning_edges(squared).tolist(),
)

# %% [markdown]
# From the predicted distances we take the cheapest tree that joins all words, and count how many of the parser's edges it has
# (UUAS). Two baselines: the **chain**, which links each word to the next, and an **untrained** encoder of the same shape, where the
# map has as much room to learn but nothing to find.

# %%
gold = structural.trees(states, parses)
divided = {
    name: [tree for tree in gold if part[tree.rows[0]] == name]
    for name in probing.PARTS
}
test = divided["test"]


def tree_scores(features):
    """A map trained on the training sentences, scored on the test sentences."""
    probe = structural.train(features, divided["train"], divided["dev"])
    predicted = [probe.distances(features[tree.rows]) for tree in test]
    return structural.evaluate(predicted, test), predicted


scored, trees_of = [], {}
for layer in range(states.n_layers + 1):
    found, trees_of[layer] = tree_scores(states.layer(layer))
    scored.append(found.assign(states="encoder", layer=layer))
blank = probing.word_states(untrained(encoder, seed=0), texts, parses)
scored.append(tree_scores(blank.layer(3))[0].assign(states="untrained", layer=3))
del blank  # 90 MB
chained = structural.evaluate(structural.chain(test), test)
scored.append(chained.assign(states="chain", layer=-1))
scored = structural.summary(pd.concat(scored), ["states", "layer"])
tree_table = scored.pivot(index=["states", "layer"], columns="score", values="mean")
uuas = tree_table["UUAS"]
assert uuas["encoder"].idxmax() in (2, 3, 4)
assert uuas["encoder", 0] < uuas["chain", -1] < uuas["encoder"].max()
tree_table.round(2)

# %% tags=["nbval-ignore-output"]
rows = scored[scored["score"] == "UUAS"]
flat = [
    rows[rows["states"] == name].assign(score=name, layer=layer)
    for name in ("chain", "untrained")
    for layer in range(7)
]
drawn_rows = [rows[rows["states"] == "encoder"].assign(score="encoder"), *flat]
figure = layers.by_layer(
    pd.concat(drawn_rows),
    label="share of the parser's edges (UUAS)",
    title="At its best, after layer 3, the map is hardly better than a chain",
)
show(
    figure,
    alt="Share of tree edges found, over layers 0 to 6, with 95 % bands. The encoder rises from about .44 to a top near .57 in the "
    "middle layers and falls far below in the last. A flat line shows the chain of neighbours at about .54, another the untrained "
    "encoder, well below it.",
)

# %% [markdown]
# Layers 2 and 3 are above the chain by a few points, and the intervals overlap. In a language where most words hang on a neighbour, a chain
# is a strong rival; without it, "the probe finds more than half of the edges" would have sounded like a discovery.
#
# The map also depends on how much it was shown: it has 384 x 64 numbers, and 180 sentences to learn them from. The paper had a whole treebank.
# With fewer sentences it falls below the chain, as the claims at the end of this lesson show. Here is one sentence.

# %% tags=["nbval-ignore-output"]
layer = int(uuas["encoder"].idxmax())
short = [at for at, tree in enumerate(test) if 7 <= len(tree) <= 10]
chosen = test[short[1]]
guessed = structural.spanning_edges(trees_of[layer][short[1]])
shared = len({tuple(edge) for edge in guessed} & {tuple(edge) for edge in chosen.edges})
figure = figures.trees(
    states.words[chosen.rows],
    chosen.edges,
    guessed,
    title=f"{shared} of {len(chosen.edges)} edges of this sentence are found, layer {layer}",
)
show(
    figure,
    alt="The words of a sentence with arcs above (the parser's tree) and below (the probe's). Edges that both have are solid, "
    "the others dashed; most shared edges join neighbours.",
)

# %% [markdown]
# ### Readable, and used?
#
# Everything so far asks what *we* can read. To ask what the *model* reads, take it away. **Amnesic probing** (Elazar et al. 2021) trains a probe,
# removes the direction it reads from every state of a layer, trains the next probe on what is left, and so on (Ravfogel et al. 2020). Then
# the layers above run on the changed states.
#
# The model is the encoder fine-tuned to tell good reviews from bad. It decides at [CLS], after layer 6. The states are changed after layer 4: one
# layer on, the property chosen here can hardly be read any more.
#
# The property is the **number** of a noun: *film* or *films*. Nobody would expect a review's verdict to depend on it. Three other removals
# of as many directions are the yardsticks:
#
# - random directions, as in the paper;
# - the directions of a **control task**, a random label for each noun: found in the same way, and about nothing;
# - those that tell the *verdict*, from [CLS] and from the mean of the other tokens.

# %%
classifier = load_finetuned()
after, n_directions = 4, 8
inside = probing.word_states(classifier.encoder, texts, parses)
nouns = np.isin(inside.silver(parses, "tags"), ["NN", "NNS"])
features, part_of = inside.layer(after)[nouns], part[nouns]
number, noun_words = inside.silver(parses, "tags")[nouns], inside.words[nouns]
del inside  # 90 MB

both = amnesic.sentence_states(classifier.encoder, texts, after)  # [CLS], others
centre = both.mean(0)
verdict = np.array([reviews.test[place].label for place in drawn])
train = part_of == "train"
no_number = probing.control_labels(noun_words, number)
directions = {
    "number of nouns": amnesic.readable_directions(
        features[train], number[train], n_directions
    ),
    "random directions": amnesic.random_directions(384, n_directions, seed=0),
    "control task": amnesic.readable_directions(
        features[train], no_number[train], n_directions
    ),
    "verdict": amnesic.readable_directions(
        np.concatenate([both[:, 0] - centre[0], both[:, 1] - centre[1]]),
        np.concatenate([verdict, verdict]),
        n_directions,
    ),
}

# %% [markdown]
# First, is it gone? A new probe for the number, before and after.

# %%
truth = number[part_of == "test"]


def number_read(of):
    """Accuracy of a probe for the number of nouns."""
    return (probing.probe(of, number, part_of) == truth).mean()


read = {"nothing": number_read(features)}
for name, taken in directions.items():
    read[name] = number_read(amnesic.without(features, taken, centre[1]))
read = pd.Series(read, name="number can be read")
singular = (truth == "NN").mean()
print(f"{len(truth)} nouns; always saying singular is right for {singular:.2f}")
assert min(read["nothing"], read["random directions"]) > singular + 0.04
assert read["number of nouns"] < singular + 0.02
read.round(2).to_frame()

# %% [markdown]
# The number of a noun can be read, clearly better than by always saying "singular". Without eight directions a new probe is no better than that;
# the other three removals leave the number where it was.
#
# Now the model, on 320 sentences that no direction was learned from.

# %%
test_texts = [reviews.test[place].text for place in others]
right = np.array([reviews.test[place].label for place in others])
before = logits_of(classifier, test_texts)
resampled = np.random.default_rng(0).integers(0, len(right), (1000, len(right)))


def interval(values):
    """The mean and its 95 % interval over sentences."""
    return values.mean(), *np.percentile(values[resampled].mean(1), [2.5, 97.5])


old = before.argmax(1).numpy()
accuracies, changes = [["nothing", *interval(old == right), 0.0]], []
for name, taken in directions.items():
    logits = amnesic.logits_without(classifier, test_texts, after, taken, centre)
    new = logits.argmax(1).numpy()
    log_odds = (logits - before)[:, 1] - (logits - before)[:, 0]
    accuracies.append([name, *interval(new == right), (new != old).mean()])
    changes.append([name, *interval(log_odds.abs().numpy())])
columns = ["removed", "accuracy", "low", "high", "flipped"]
accuracies = pd.DataFrame(accuracies, columns=columns).set_index("removed")
changes = pd.DataFrame(changes, columns=["removed", "mean", "low", "high"])
by_name = changes.set_index("removed")
assert accuracies.loc["verdict", "accuracy"] < accuracies.loc["nothing", "low"]
assert accuracies.loc["number of nouns", "accuracy"] > accuracies.loc["nothing", "low"]
by_random = by_name["mean"] / by_name.loc["random directions", "mean"]
assert by_random["number of nouns"] > 10 and by_random["control task"] > 5
assert 0.05 < by_random["number of nouns"] / by_random["verdict"] < 0.2
assert by_name.loc["control task", "low"] > 3 * by_name.loc["random directions", "high"]
accuracies.round(2)

# %% tags=["nbval-ignore-output"]
figure = figures.removal(
    changes,
    label="change of the log odds of 'good', mean over sentences",
    title="Without the number of nouns the log odds move a tenth as far as without the verdict",
)
show(
    figure,
    alt="Four points with intervals: random directions near 0, the control task near .1, the number of nouns near .2, the "
    "verdict near 2.",
)

# %% [markdown]
# Without the directions of the verdict, the classifier is worse: some of what it reads was taken. Not everything, since it is still far above one
# half, and more directions hold the rest.
#
# Without the number of nouns a few predictions flip, and the accuracy stays within its interval, though a probe could read the number and no longer
# can. That is what cannot be concluded from a probe: **what is readable need not be needed**.
#
# But the log odds do move, and here the yardstick decides what you would write. Beside *random* directions, the number seems to matter more than
# ten times as much. Yet the directions of the control task, which are about nothing, also move the log odds more than five times as much. A probe, whatever
# it reads, finds directions along which the states vary, and so does the verdict; a random direction is almost surely none of those.
#
# In this sample the number moves more than the control task does. Does it in every sample?

# %% [markdown]
# ## The claim
#
# What the papers report, and what five disjoint samples of 200 sentences say here (the removal is measured on about 200 more of each). In each sample the
# division, the random labels and the probes are new.

# %%
checked = verdicts(everything())
checked = checked[checked["lesson"] == "12"]
pd.set_option("display.max_colwidth", 140)
checked.set_index("key")[["claim", "published", "certainty", "seeds", "verdict"]]

# %% tags=["nbval-ignore-output"]
show(
    claims(checked),
    alt="Margin by which each claim of this lesson holds, with its 95 % interval over samples; right of zero agrees.",
)

# %% [markdown]
# Two claims differ, and one is open. With 120 sentences to learn from instead of 180, the structural probe finds fewer edges than the chain. The
# number of nouns moves the log odds more than random directions do, in every sample.
#
# Whether it moves them more than directions about nothing is **open**: in two of the five samples these, by chance, moved the log odds more than
# twice as much as the number's. So the removal shows that what a probe reads of the number is not needed for these verdicts, and no more than that.

# %% [markdown]
# ## Try it yourself
#
# Choose a task and a layer. Watch which labels are taken for which as you go up, and where task and control part. (The figure below is what
# the menus show first at layer 2, in case they do not appear in your viewer.)

# %% tags=["nbval-ignore-output"]
here = answers.query("task == 'part of speech' and layer == 2")
figure = figures.confusion(
    here,
    n_labels=10,
    title="After layer 2 adverbs, adjectives and verbs are read worst",
)
show(
    figure,
    alt="Table of shares: real part of speech in rows, predicted in columns, layer 2. The diagonal is near 1 for frequent "
    "labels; adverbs are lowest, near .83, then adjectives and verbs.",
)

# %% tags=["nbval-ignore-output"]
figures.explore_probes(answers, pairs)

# %% [markdown]
# ## Exercises
#
# First the baseline that every probe has to beat.

# %%
ex.type_majority


# %% tags=["exercise"]
def my_type_majority(train_words, train_labels, test_words):
    """The best that can be said without any state.

    train_words, train_labels: lists of the same length; test_words: a list.
    Returns a list: each test word's most frequent label in training, or, for a
    word that was not seen, the most frequent label of all. No ties occur.
    """
    ...


# %%
type_majority = ex.type_majority.check(my_type_majority).value

# %% [markdown]
# On the words of this lesson:

# %%
seen, unseen = part == "train", part == "test"
said = type_majority(
    list(states.words[seen]), list(pos[seen]), list(states.words[unseen])
)
print(f"word type: {(np.array(said) == pos[unseen]).mean():.2f}")

# %%
ex.compression


# %% tags=["exercise"]
def my_compression(probabilities, n_classes):
    """Uniform code over online code.

    probabilities: for each label that was sent, what the probe gave to it
    before it was seen; n_classes: how many labels there are.
    """
    ...


# %%
ex.compression.check(my_compression)

# %%
ex.uuas


# %% tags=["exercise"]
def my_uuas(gold, predicted):
    """Share of the gold edges that the predicted tree has, in [0, 1].

    gold, predicted: lists of pairs of words' places; (0, 3) is the same edge
    as (3, 0).
    """
    ...


# %%
ex.uuas.check(my_uuas)

# %%
ex.readable

# %% tags=["exercise"]
my_readable = ...

# %%
ex.readable.check(my_readable)

# %%
ex.progress()

# %% [markdown]
# ## What to take away
#
# - A probe's accuracy needs three neighbours: the most frequent label, the word type, and a control task.
# - Selectivity, accuracy and code length answer different questions, and may name different layers.
# - A structure score needs the dullest structure beside it. For English trees, that is the chain.
# - Readable is not used. Only a change of the states can say what the model reads, and a change needs a control as well: random
#   directions are too easy a rival.

# %% [markdown]
# ## What this does not show
#
# - The labels are a parser's. Where the parser errs in a regular way, a probe is rewarded for erring with it.
# - A linear probe sees what is linear. Removal takes out only that; another form may remain, and may be used.
# - Removal was tested after one layer, on the predictions of one task. It does not say that the number of nouns is never used.
# - That layer and the number of directions were chosen after trials on some of the same texts, so the intervals of the removal are too
#   kind. One layer later, the directions of the verdict cost more accuracy; but there the number can hardly be read.
# - The control task tells memory of *words* from the rest. It does not control for what a probe can learn from context by itself.
# - One encoder, distilled for the meaning of sentences. In others the curves lie elsewhere.

# %% [markdown]
# ## Further reading
#
# - Hewitt, J. & Liang, P. (2019). Designing and Interpreting Probes with Control Tasks. *EMNLP*.
# - Voita, E. & Titov, I. (2020). Information-Theoretic Probing with Minimum Description Length. *EMNLP*.
# - Hewitt, J. & Manning, C. D. (2019). A Structural Probe for Finding Syntax in Word Representations. *NAACL*.
# - Elazar, Y., Ravfogel, S., Jacovi, A. & Goldberg, Y. (2021). Amnesic Probing: Behavioral Explanation with Amnesic
#   Counterfactuals. *Transactions of the ACL* 9.
# - Ravfogel, S., Elazar, Y., Gonen, H., Twiton, M. & Goldberg, Y. (2020). Null It Out: Guarding Protected Attributes by Iterative
#   Nullspace Projection. *ACL*.
# - Belinkov, Y. (2022). Probing Classifiers: Promises, Shortcomings, and Advances. *Computational Linguistics* 48(1).
# - Tenney, I., Das, D. & Pavlick, E. (2019). BERT Rediscovers the Classical NLP Pipeline. *ACL*.
