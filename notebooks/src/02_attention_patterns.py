# %% [markdown]
# # Attention patterns
#
# Which shapes do attention heads have, and what does a shape tell you?
#
# **Time** 50 minutes. **Builds on** lesson 01: a head gives every token a row of weights over all tokens, and the rows of one
# sentence are a square map, `A[i, j]`, how much token i attends to token j.
#
# Afterwards you will be able to
#
# - score a map for diagonals, vertical stripes, sparsity and evenness, by hand and over a corpus;
# - test a sentence of the kind "heads in high layers are sparse", with an interval, and look for what else could explain it;
# - say why weight on a token is not the same as reading from it.

# %%
import math
from itertools import product

import pandas as pd
import torch
from course_utils import exercises
from course_utils.analysis.contribution import (
    contributions,
    layer_norms,
    transformed_norms,
)
from course_utils.analysis.patterns import by_head, by_layer, claims, patterns, score
from course_utils.analysis.reordering import follow
from course_utils.data import load
from course_utils.models import AttentionMaps, load_encoder
from course_utils.show import explore_heads, head_view, heads, layers, show

ex = exercises.load("02")

# %% [markdown]
# ## Predict first
#
# Popular summaries of Transformer attention say three things. Which of them will hold for the 72 heads of the encoder in this
# course? Write down `True` or `False` before you go on.

# %%
my_guess = {
    "diagonal in low layers": True,
    "stripes on [CLS] and on [SEP]": True,
    "sparse in high layers": True,
}

# %% [markdown]
# ## The idea
#
# Look at a map as a picture. Three kinds of pictures have a name.
#
# - **Diagonal**: every token looks at the token before it, at the next one, or at itself.
# - **Vertical stripe**: every token looks at the same token, often [CLS], [SEP] or a full stop.
# - **Sparse** or **uniform**: the weight of a row is on few tokens, or spread evenly over all.
#
# A picture is an impression; a score is a number. The first two kinds are scored by the weight that lies on the right place,
# averaged over the tokens that look. For the third, let $H_i = -\sum_j A_{ij} \log A_{ij}$ be the entropy of row $i$. It is 0
# when all weight is on one token and $\log T$ when it is even over $T$, so
#
# $$\text{sparse} = 1 - \frac{1}{T}\sum_i \frac{H_i}{\log T}$$
#
# lies between 0 and 1. All means are over the tokens of the text: [CLS] and [SEP] can be looked at, but what they look at
# themselves is not counted.

# %% [markdown]
# ### One map by hand
#
# Six tokens, made-up weights: mostly the token before, and something on [CLS].

# %%
words = ["[CLS]", "a", "dull", "film", ".", "[SEP]"]
A = torch.tensor(
    [
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.8, 0.1, 0.1, 0.0, 0.0, 0.0],
        [0.3, 0.6, 0.1, 0.0, 0.0, 0.0],
        [0.3, 0.0, 0.6, 0.1, 0.0, 0.0],
        [0.3, 0.0, 0.0, 0.6, 0.0, 0.1],
        [0.5, 0.0, 0.0, 0.0, 0.5, 0.0],
    ],
    dtype=torch.float64,
)
text = slice(1, 5)  # a dull film .

previous = (A[1, 0] + A[2, 1] + A[3, 2] + A[4, 3]) / 4
first = A[text, 0].mean()
entropy = torch.special.entr(A[text]).sum(1)
sparse = (1 - entropy / math.log(6)).mean()
print(f"previous {previous:.3f}   first {first:.3f}   sparse {sparse:.3f}")

# %% [markdown]
# `previous` and `first` add up to more than 1. That is no mistake: the token before *a* **is** [CLS], so one weight counts for
# both. Shapes are not exclusive, and scores need not sum to 1.
#
# The package computes the same for every head of a batch at once, and must agree.

# %%
by_package = score(AttentionMaps.from_matrix(A, words))
for name, value in (("previous", previous), ("first", first), ("sparse", sparse)):
    assert abs(by_package[name].item() - value) < 1e-9
print("the package agrees")

# %% [markdown]
# ### Seven pure shapes
#
# Now one map for each shape, and every score of it. A good score is 1 on its own shape and low on the others.

# %% tags=["nbval-ignore-output"]
one_hot = torch.eye(6, dtype=torch.float64)
shapes = {
    "previous": one_hot[[0, 0, 1, 2, 3, 4]],
    "next": one_hot[[1, 2, 3, 4, 5, 5]],
    "self": one_hot,
    "stripe on [CLS]": one_hot[[0] * 6],
    "stripe on [SEP]": one_hot[[5] * 6],
    "sparse": one_hot[[3, 3, 4, 1, 2, 2]],
    "uniform": torch.full((6, 6), 1 / 6, dtype=torch.float64),
}
pure = AttentionMaps.from_matrix(torch.stack(list(shapes.values())), words)
show(
    heads.head_grid(
        pure,
        title="Seven pure shapes, from previous (0) to uniform (6)",
    ),
    alt="Seven small maps: a line below the diagonal, a line above it, the diagonal itself, a full left column, a full right "
    "column, single cells in no order, and a map of one even colour.",
)

# %%
columns = ["previous", "next", "self", "first", "separator", "sparse", "uniform"]
scores = {name: values[0, 0].numpy() for name, values in score(pure).items()}
pd.DataFrame(scores, index=pd.Index(shapes, name="shape"))[columns].round(2)

# %% [markdown]
# Each row has its 1. But read the column `sparse`: it is 1 for *all* maps that put each row's weight on one token, diagonals and
# stripes included. A head that looks at nothing but [CLS] is perfectly sparse. Remember it; it will matter.

# %% [markdown]
# ## On real text
#
# The encoder is MiniLM: six layers of twelve heads, trained to give sentences with the same meaning the same vector. First one
# sentence, all heads.

# %% tags=["nbval-ignore-output"]
encoder = load_encoder()
sentence = "the film often achieves a mesmerizing poetry ."
maps = encoder.attend([sentence], states=True)
show(
    heads.head_grid(
        maps,
        title="One sentence, 72 heads: a few diagonals low down, stripes at the left edge almost everywhere",
    ),
    alt="Six rows of twelve small maps. Head 2 of layer 0 is a clean line below the diagonal, head 8 of layer 1 one above it. "
    "From layer 1 on, most maps have a dark left column: the weight is on [CLS].",
)

# %% [markdown]
# Name the two clean ones: layer 0, head 2 (we write 0-2) looks at the previous token, 1-8 at the next. The view below shows both as
# lines; change the layer in its menu.

# %% tags=["nbval-ignore-output"]
head_view(
    maps,
    layers=[0, 1],
    heads=[2, 8],
    title="Layer 0: head 2 looks at the token before. Layer 1: head 8 looks at the next",
)

# %% [markdown]
# ### A corpus
#
# One sentence is an anecdote. We score every head on 300 sentences, drawn at random from the reviews, and keep only the scores.

# %%
reviews = load("rotten_tomatoes").test
generator = torch.Generator().manual_seed(0)
drawn = torch.randperm(len(reviews), generator=generator)[:300].tolist()
texts = [reviews[i].text for i in drawn]

frame = patterns(encoder, texts)
table = by_head(frame)
print(f"{len(frame):,} maps scored, {len(table)} heads")

# %% [markdown]
# A rule gives each head a name: `previous`, `next` or `self` if more than half of its weight lies there; else `first`, `separator`
# or `punctuation`, or `vertical` if only these three together have more than half; else `uniform` or `sparse` if its entropy is
# above 90 % or below 50 % of the largest possible; else `mixed`. The limits are ours, and any others would be as arbitrary.

# %%
print(pd.crosstab(table["layer"], table["pattern"]))
named = table[table["pattern"].isin(["previous", "next"])]
print(named[["layer", "head", "previous", "next", "first"]].round(2).to_string())
assert named[["layer", "head"]].to_numpy().tolist() == [[0, 2], [1, 8]]

# %% [markdown]
# Two heads out of 72 are diagonals. Four are uniform, all in layer 0. Thirty-two are stripes of some kind. And 29, more than of
# any single name, are mixed: a list of "typical patterns" would leave them out.

# %% tags=["nbval-ignore-output"]
show(
    layers.layer_head(
        table,
        "diagonal",
        title="Two heads live on the diagonal, a few more lean to it",
        label="weight on previous, self and next",
    ),
    alt="Grid of 6 layers and 12 heads. Head 0-2 has 1.00 and head 1-8 0.76 of its weight on the diagonal; seven "
    "others have between 0.3 and 0.5, and layers 3 and 5 have none above 0.3.",
)

# %% tags=["nbval-ignore-output"]
show(
    layers.layer_head(
        table,
        "first",
        title="From layer 1 on, most heads put a third or more of their weight on [CLS]",
        label="weight on [CLS]",
    ),
    alt="Grid of 6 layers and 12 heads. In layer 0 weights on [CLS] are at most about 0.2; in layers 1 to 4 most are "
    "between 0.3 and 0.8; layer 5 lies between.",
)

# %% [markdown]
# ### By layer, with intervals
#
# The claims are about layers, so we average over the heads of a layer. Other sentences would give other numbers; the interval says
# how far: sentences are drawn anew, with replacement, 1,000 times, and the interval holds the middle 95 % of the means.

# %%
by_layers = by_layer(frame)


def with_intervals(summary, names):
    """One row a measure, one column a layer: mean [low, high]."""
    rows = summary[summary["score"].isin(names)]
    cells = [f"{r.mean:.2f} [{r.low:.2f}, {r.high:.2f}]" for r in rows.itertuples()]
    return rows.assign(cell=cells).pivot(index="score", columns="layer", values="cell")


shown = ["diagonal", "first", "separator", "punctuation", "sparse"]
with_intervals(by_layers, shown).loc[shown]

# %% tags=["nbval-ignore-output"]
show(
    layers.by_layer(
        by_layers,
        shown,
        title="Sparsity is highest in layers 1 and 2, where weight goes to [CLS]; [SEP] gets hardly any",
        label="score, mean over heads",
    ),
    alt="Five lines over layers 0 to 5. Sparsity rises from 0.22 to 0.54 in layer 1 and falls to 0.31; weight on [CLS] rises "
    "from 0.14 to between 0.43 and 0.49 and falls to 0.33; diagonal falls from 0.25 to 0.13; weight on [SEP] stays below 0.05.",
)

# %% tags=["nbval-ignore-output"]
show(
    layers.by_layer(
        by_layers,
        ["entropy"],
        title="Entropy is lowest in layers 1 and 2",
        label="entropy in nats, mean over heads",
    ),
    alt="Entropy by layer: 2.5 nats in layer 0, 1.5 in layers 1 and 2, then between 1.8 and 2.2.",
)

# %% tags=["nbval-ignore-output"]
show(
    layers.by_layer(
        by_layers,
        ["mean_distance"],
        title="Weight goes further in higher layers: from 7 tokens to 10",
        label="mean distance in tokens",
    ),
    alt="Mean distance between the token that looks and the token looked at: 7.5 tokens in layer 0, rising to 9.9 in layers "
    "3 to 5.",
)

# %% [markdown]
# Distances grow with sentence length, so their interval is wide: much of it is that some sentences are longer. A head that spreads its
# weight evenly over all tokens would have this distance:

# %%
uniform = [
    AttentionMaps.from_matrix(
        torch.full((n, n), 1 / n), ["[CLS]", *["word"] * (n - 2), "[SEP]"]
    )
    for n in encoder.pieces(texts).lengths.tolist()
]


def mean_distance(maps_of_texts):
    found = [score(one)["mean_distance"].item() for one in maps_of_texts]
    return sum(found) / len(found)


even = mean_distance(uniform)
print(f"even attention: {even:.1f} tokens")

# %% [markdown]
# Layers 3 to 5 look *further* than even attention. Tokens at the far end must attract weight, and there is a candidate: [CLS] is
# at position 0. Keep the suspicion for a moment.

# %% [markdown]
# ## The claim: diagonals below, stripes on [CLS] and [SEP], sparse above
#
# "Diagonal in low layers" and "sparse in high layers" become a comparison of the lower three layers with the upper three. A claim
# holds if the interval of the difference lies on its side of zero. The stripes can be read off the table above.

# %%
tested = claims(frame)
print(tested.round(3).to_string(index=False))
others = table[~table["pattern"].isin(["previous", "next"])]
low, high = (
    others.loc[part, "diagonal"].mean()
    for part in (others["layer"] < 3, others["layer"] > 2)
)
print(f"\ndiagonal without 0-2 and 1-8: {low:.2f} against {high:.2f}")
stripes = by_layers[by_layers["score"].isin(["first", "separator"])]
print()
print(stripes.groupby("score")["mean"].agg(["min", "max"]).round(2))

# %%
measured = {
    "diagonal in low layers": "yes",
    "stripes on [CLS] and on [SEP]": "on [CLS]; hardly on [SEP]",
    "sparse in high layers": "no, the other way round",
}
print(
    pd.DataFrame({"your guess": my_guess, "this encoder": measured}).to_string(
        justify="left"
    )
)
assert tested["holds"].tolist() == ["yes", "no"]
assert 0.08 < tested["difference"][0] < 0.12 and 0.02 < tested["difference"][1] < 0.06
assert stripes.loc[stripes["score"] == "separator", "mean"].max() < 0.07

# %% [markdown]
# The first claim holds, with a modest difference: 0.23 against 0.13, and more than a third of it is due to two heads, 0-2 and 1-8. The second holds by half.
# Clark et al. (2019) describe heads of BERT-base that put most of their weight on [SEP] (from memory, not checked); this encoder uses
# [CLS]. Which token is chosen differs from model to model. The third is wrong here. The difference of the halves is small, and the
# figure shows why: the order of layers is 1 and 2, then 4, 3, 5, and last 0. "Low against high" is a poor description of that.
#
# The intervals are narrow. They say that 300 other sentences of this kind would agree, not that another model would.
#
# ### What else could explain it: is it all [CLS]?
#
# A stripe counts as sparse, and the layers with the most weight on [CLS] are 1, 2 and 4. So perhaps "sparse in layers 1 and 2" only says
# "[CLS] in layers 1 and 2", and the words are attended to evenly. Drop [CLS] and [SEP], make the rest of each row sum to 1 again, and
# measure once more.

# %%
alone = patterns(encoder, texts, leave_out_special=True)
alone_by_layers = by_layer(alone)
print(claims(alone).round(3).to_string(index=False))
with_intervals(alone_by_layers, ["sparse", "diagonal", "mean_distance"])

# %% tags=["nbval-ignore-output"]
compared = pd.concat(
    [
        by_layers[by_layers["score"] == "sparse"].assign(score="all tokens"),
        alone_by_layers[alone_by_layers["score"] == "sparse"].assign(
            score="without [CLS] and [SEP]"
        ),
    ]
)
show(
    layers.by_layer(
        compared,
        title="Layers 1 and 2 stay the sparsest without [CLS]; most of what layers 3 to 5 had was [CLS]",
        label="sparsity, mean over heads",
    ),
    alt="Two lines of sparsity by layer. With all tokens: 0.22, 0.54, 0.52, 0.40, 0.45, 0.31. Without [CLS] and [SEP]: "
    "0.20, 0.40, 0.35, and 0.21 or 0.22 in layers 3 to 5, almost as even as layer 0.",
)

# %% [markdown]
# Both at once. Without [CLS] layers 3 to 5 are almost as even as layer 0: most of *their* sparsity was the stripe. Layers 1 and 2 keep
# most of theirs. So the claim fails more clearly than before, and the difference between the halves more than doubles.
#
# The suspicion about distance was right too. Without [CLS], no layer looks further than even attention, and layer 1 is the most local.
# "Upper layers look further" survives, from layer 1 on, at lower numbers; "further than even" does not.
#
# One caution: a head with 95 % on [CLS] is judged here by its remaining 5 %, with the same voice as any other head.

# %%
sparse_alone = alone_by_layers.query("score == 'sparse'").set_index("layer")["mean"]
distance_alone = alone_by_layers.query("score == 'mean_distance'")["mean"].tolist()
even_alone = mean_distance([one.without_special() for one in uniform])
print(f"even attention over the words: {even_alone:.1f} tokens")
assert sparse_alone[[1, 2]].min() > 0.3 and sparse_alone[[0, 3, 4, 5]].max() < 0.25
assert max(distance_alone) < even_alone and min(distance_alone) == distance_alone[1]

# %% [markdown]
# ### What else could explain it: places or words?
#
# Shapes are often taken as a sign of what a head knows about language. Shuffle the words of every sentence, and score again. If
# the shapes have to do with the order of words, they should break.

# %%
generator = torch.Generator().manual_seed(1)


def shuffled(line):
    parts = line.split()
    order = torch.randperm(len(parts), generator=generator).tolist()
    return " ".join(parts[place] for place in order)


print(shuffled(sentence))
nonsense = by_head(patterns(encoder, [shuffled(line) for line in texts]))
for name in ("previous", "next", "first", "sparse"):
    both = table[name].corr(nonsense[name])
    print(f"{name:9} correlation over heads, sentences with shuffled: {both:.2f}")
    assert both > 0.97

# %% [markdown]
# Nothing breaks: a head's scores on nonsense are nearly those on sentences. **These shapes hardly depend on the order of the words**, so none of
# them is by itself a sign that a head reads grammar.
#
# That leaves two ways to get a shape. A head may follow *places*, and would not notice other words there; or it may follow *words*, and go with
# them wherever they stand. The scores cannot tell, since they are averages over places. The maps can: compare the map after the shuffle with the one
# before, once place by place and once word by word. (Agreement is 1 minus the total variation distance of two rows. [CLS] and [SEP] stay where they
# are and would agree either way, so they are left out.)

# %% tags=["nbval-ignore-output"]
followed = follow(encoder, texts, generator=torch.Generator().manual_seed(0))
show(
    layers.place_or_words(
        followed,
        named=6,
        title="The diagonals follow places; most heads follow words",
    ),
    alt="Scatter of 72 heads, agreement at the same places against agreement of the same words. Head 0-2 is alone at 0.98 against "
    "0.14, followed by 1-8, 2-11, 1-9, 1-4 and 2-8 below the diagonal line. All heads of layer 5 and most of layers 0, 3 and 4 lie above it.",
)

# %%
lean = followed.groupby(["layer", "head"])[["same_place", "same_words"]].mean()
difference = lean["same_words"] - lean["same_place"]
print(lean.loc[[(0, 2), (1, 8), (0, 1), (5, 4)]].round(2))
print(difference.groupby("layer").mean().round(2).rename("words - places").to_string())
sparse_words = by_head(alone).set_index(["layer", "head"])["sparse"]
both = sparse_words.corr(-difference)
print(f"correlation of following places with sparsity over words: {both:.2f}")
assert lean.loc[(0, 2), "same_place"] > 0.95 and difference.loc[5].min() > 0
assert 15 < (difference < 0).sum() < 25
assert 0.65 < both < 0.9

# %% [markdown]
# 0-2 attends to "one before", whatever stands there. The heads of layer 5 all go with the words. Layers 1 and 2, the sparsest, hold
# most of the heads that follow places; and over all 72, the heads that follow places are the sparse ones. So "sparse" in this encoder is
# to a good part "positional", and not, as the claim suggests, a sign of a head that has made up its mind about words.

# %% [markdown]
# ## Weight is not contribution
#
# In layers 1 to 4 nearly half of all weight goes to [CLS]. Do these layers read half of their information there?
#
# A head does not read weights. It adds up transformed values, $\sum_j A_{ij} f(x_j)$, where $f(x_j) = (x_j W_V + b_V) W_O$ is what it would copy
# from token $j$. If $f(x_j)$ is short, much weight on $j$ brings little. Kobayashi et al. (2020) measure the length $\|A_{ij} f(x_j)\|$ instead
# of $A_{ij}$. By hand, for three tokens whose first is short:

# %%
weights = torch.tensor([0.50, 0.30, 0.20])
lengths = torch.tensor([0.05, 1.00, 1.00])
read = weights * lengths
by_hand = {"share of weight": weights, "share of what is read": read / read.sum()}
pd.DataFrame(by_hand, index=["short", "long", "long"]).round(2).T

# %% [markdown]
# Half of the weight, a twentieth of the contribution. Now the encoder.

# %%
contributed = contributions(encoder, texts)
on_first = contributed[contributed["token_class"] == "first"]
measures = ["attention", "norm", "value_norm"]
on_first.groupby("layer")[measures].mean().round(2)

# %% tags=["nbval-ignore-output"]
show(
    layers.weight_and_contribution(
        contributed,
        title="Layers 1 to 4 give [CLS] nearly half of the weight and read less than a tenth there: its value is almost zero",
    ),
    alt="Three panels by layer. Attention weight: [CLS] and words share it about equally in layers 1 to 4. Norm of what is read: "
    "words 0.75 to 0.88, [CLS] below 0.09. Length of a value: [CLS] 0.03 to 0.08 of a word's from layer 1 on.",
)

# %% [markdown]
# From layer 1 on the value of [CLS] has 3 to 8 % of a word's length, so weight that goes there is hardly used. Only [CLS] is short: up to layer 4 the values of
# [SEP] and punctuation are nearly as long as a word's. One reading: rows must sum to 1, and a head that finds nothing needs a place to put its
# weight. Clark et al. (2019) proposed this "no-op" for [SEP] in BERT (from memory, not checked).

# %%
short = on_first[on_first["layer"] > 0].groupby("layer")["value_norm"].mean()
half = on_first[on_first["layer"].between(1, 4)].groupby("layer")[["attention", "norm"]]
assert short.between(0.02, 0.1).all()
assert half.mean()["attention"].between(0.4, 0.52).all()
assert half.mean()["norm"].max() < 0.1

# %% [markdown]
# What else could explain it? The shares above add up lengths head by head, and heads could cancel: if what they read from words pointed in
# opposite directions, little would be left of it, and [CLS] might matter after all. Add the vectors of all twelve heads first, and take lengths
# then.

# %%
parts = []
for batch in encoder.stream(texts[:100], states=True):
    norms = layer_norms(encoder, batch)
    query = (batch.mask & ~batch.special).float()[:, None]
    share = norms[..., 0] / norms.sum(-1).clamp(min=1e-9)
    parts.append((share * query).sum(-1) / query.sum(-1))
together = torch.cat(parts).mean(0)
print("share of [CLS], heads added up:", [round(x, 2) for x in together.tolist()])
assert together.max() < 0.08

# %% [markdown]
# The share of [CLS] is no larger. Cancelling does not explain it; the value is short.

# %% [markdown]
# ## Try it yourself
#
# Choose a text, a layer, a head and a position. Find 0-2 and 1-8 again; then find a head of layer 5 that goes with words: it should give
# a word a similar row in the sentence and in its shuffled twin. (The grid of 72 heads above shows the first text in case nothing is drawn.)

# %% tags=["nbval-ignore-output"]
twins = [sentence, "a film . poetry often the mesmerizing achieves"]
explore_heads(
    encoder.attend(twins),
    layer=0,
    head=2,
    position=3,
    title="A sentence and the same words shuffled",
)

# %% [markdown]
# ## Exercises

# %%
ex.offset


# %% tags=["exercise"]
def my_offset(attention, offset):
    """Mean weight on the token `offset` places away, over queries that have one.

    attention: (T, T) tensor, rows look at columns.
    offset: -1 is the token before, 0 the token itself, 1 the next.
    """
    ...


# %%
offset_weight = ex.offset.check(my_offset).value

# %% [markdown]
# With your function, the question can be wider than the package's three diagonals: which offset does each head prefer? Here over 30
# sentences, words only, for every head that gives one offset a fifth of its weight or more.

# %%
offsets = range(-4, 5)
long_enough = [line for line in texts if len(line.split()) > 8][:30]
rows = []
for line in long_enough:
    words_only = encoder.attend([line]).without_special().attention[0]
    for layer, head in product(range(6), range(12)):
        found = [float(offset_weight(words_only[layer, head], o)) for o in offsets]
        rows.append([f"{layer}-{head}", *found])
preferred = pd.DataFrame(rows, columns=["head", *offsets]).groupby("head").mean()
preferred[preferred.max(axis=1) > 0.2].round(2)

# %% [markdown]
# Only 0-2 and 1-8 are sharp. Two heads that the scores hid behind [CLS], 1-1 and 2-9, look at the token itself once [CLS] is left out. The others
# smear over two or three places. "A previous-token head" is for them a name for "somewhere shortly before", and a few give slightly more to
# two places back than to one.

# %%
ex.half_on_first

# %% tags=["exercise"]
my_half_on_first = ...

# %%
half_on_first = ex.half_on_first.check(my_half_on_first).value
print(f"half a stripe alone makes a sparsity of {half_on_first:.2f}")
print(
    "measured in layers 1 to 5:",
    *by_layers.query("score == 'sparse'")["mean"][1:].round(2),
)

# %% [markdown]
# Half a stripe on [CLS] gives a good part of the sparsity of layers 3 to 5 for free, with no preference for any word.

# %%
ex.read_share


# %% tags=["exercise"]
def my_read_share(weights, lengths):
    """Share of each key in what a query reads, (T, T), each row summing to 1.

    weights: (T, T) tensor of attention, rows look at columns.
    lengths: (T,) tensor, the norm of each key's value.
    """
    ...


# %%
read_share = ex.read_share.check(my_read_share).value

# %% [markdown]
# Head 4-5 is among those with the most weight on [CLS]. Where does it look, and what does it read?

# %%
weight = maps.attention[0, 4, 5]
lengths = transformed_norms(encoder, maps)[0, 4, 5]
read = read_share(weight, lengths)
tokens = maps.tokens[0]
summary = pd.DataFrame(
    {
        "token": tokens,
        "looks most at": [tokens[j] for j in weight.argmax(1)],
        "weight on [CLS]": weight[:, 0].numpy(),
        "read from [CLS]": read[:, 0].numpy(),
    }
)
print(summary.round(2).to_string(index=False))
assert (
    summary["weight on [CLS]"].mean() > 0.7 and summary["read from [CLS]"].mean() < 0.25
)

# %% [markdown]
# A picture of the weights of this head shows one stripe and nothing else. Most of what it reads lies in the pale rest.

# %%
ex.progress()

# %% [markdown]
# ## What to take away
#
# - A shape is a number once you say which weight counts and over which tokens. Scores overlap; sparse includes stripes and diagonals.
# - In this encoder diagonals sit in the low layers, stripes are on [CLS] and hardly on [SEP], and the sparsest layers are 1 and 2: the
#   third popular claim is wrong here, and more wrong once [CLS] is left out.
# - Shapes are the same on shuffled words. A few heads follow places, most follow words, and a shape does not tell which.
# - Nearly half of the weight in layers 1 to 4 goes to a token whose value is almost zero. Weight is not contribution.

# %% [markdown]
# ## What this does not show
#
# - One model. Which token takes the idle weight, and in which layers heads are sparse, differs between models; the intervals are over
#   sentences only.
# - That the stripe is on [CLS] because of *what* it is. It is also always first, and this lesson did not separate the two.
# - That a short value is without effect. After attention come a residual connection, a normalisation and a feed-forward layer; whether a
#   head matters for the output is a question for interventions (lessons 13 and 18).
# - What heads do with words. A head that follows words may follow spelling, meaning or grammar; lesson 11 tests this.

# %% [markdown]
# ## Further reading
#
# - Clark, K., Khandelwal, U., Levy, O. & Manning, C. D. (2019). What Does BERT Look At? An Analysis of BERT's Attention. *BlackboxNLP*.
# - Kovaleva, O., Romanov, A., Rogers, A. & Rumshisky, A. (2019). Revealing the Dark Secrets of BERT. *EMNLP*.
# - Kobayashi, G., Kuribayashi, T., Yokoi, S. & Inui, K. (2020). Attention is Not Only a Weight: Analyzing Transformers with Vector
#   Norms. *EMNLP*.
# - Vig, J. (2019). A Multiscale Visualization of Attention in the Transformer Model. *ACL, system demonstrations*.
# - Vig, J. & Belinkov, Y. (2019). Analyzing the Structure of Attention in a Transformer Language Model. *BlackboxNLP*.
