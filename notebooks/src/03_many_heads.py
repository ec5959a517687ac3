# %% [markdown]
# # Many heads
#
# How do you look at 72 heads, or 144, or 1,000, at once?
#
# **Time** 45 minutes. **Builds on** lesson 02: the map of a head, and the shapes that maps have. The Jensen-Shannon divergence (JSD)
# is explained here.
#
# Afterwards you will be able to
#
# - say what an average over heads hides, and measure it;
# - draw a tree of heads, and tell how good a picture of the distances it is, and on which choices it depends;
# - work out what the maps of a large model would cost, and analyse them without ever storing them.

# %%
import numpy as np
import pandas as pd
import psutil
import torch
from course_utils import exercises
from course_utils.analysis import clustering, context, patterns
from course_utils.analysis.distances import jsd
from course_utils.data import load
from course_utils.models import load_encoder
from course_utils.show import explore_heads, heads, layers, model_view, show
from sklearn.metrics import adjusted_rand_score

ex = exercises.load("03")

# %% [markdown]
# ## Predict first
#
# The encoder of this lesson, MiniLM, has 6 layers of 12 heads: 72 maps for every sentence. Suppose you sort the heads into groups
# that look at the same places, so that the groups stand clearly apart. How many groups will you find? Write down a number from 2
# to 20.

# %%
my_guess = 8

# %% [markdown]
# ## The idea
#
# Nobody reads 72 maps. Something has to be done with them first, and there are three usual ways:
#
# - **average** them: one map for all heads;
# - **compare** them: put heads that look at the same places side by side;
# - **summarise** each by a few numbers, as in lesson 02.
#
# The first throws away the most. Take one word that may look at four tokens, and three heads: one looks left, one looks right, one
# does not care.

# %%
left = torch.tensor([0.5, 0.5, 0.0, 0.0], dtype=torch.float64)
right = torch.tensor([0.0, 0.0, 0.5, 0.5], dtype=torch.float64)
even = torch.full((4,), 0.25, dtype=torch.float64)

print("left and right averaged:", ((left + right) / 2).tolist())
print("even averaged with even:", even.tolist())

# %% [markdown]
# The average of two opposite heads is the head that does not care. From the average alone you cannot tell which of the two you have.
#
# To compare, we need a distance. The JSD of two rows $p, q$ with the mean $m = (p + q)/2$ is an entropy of the mean minus a mean of
# entropies,
#
# $$\mathrm{JSD}(p, q) = H(m) - \tfrac12 \big(H(p) + H(q)\big),$$
#
# so it is exactly what averaging the two hides. It is 0 for equal rows and $\ln 2 = 0.69$ for rows that share no token. For two heads
# we average it over the words of a sentence, then over sentences.

# %%
leftish = torch.tensor([0.45, 0.45, 0.05, 0.05], dtype=torch.float64)
rows = {"left": left, "leftish": leftish, "even": even, "right": right}
square = pd.DataFrame(
    [[float(jsd(p, q)) for q in rows.values()] for p in rows.values()], rows, rows
)
square.round(2)

# %% [markdown]
# ### A tree by hand
#
# Hierarchical clustering joins the two nearest heads, then the next two heads or groups, until all are one. With *average linkage* the
# distance between two groups is the mean over their pairs. Here:
#
# 1. *left* and *leftish* join first;
# 2. *even* is nearer to that group, on average, than to *right*, so it joins the group;
# 3. *right* joins last, at the mean of its distances to the three.

# %%
second = (square.loc["even", "left"] + square.loc["even", "leftish"]) / 2
last = square.loc["right", ["left", "leftish", "even"]].mean()
print(f"joined at {square.loc['left', 'leftish']:.3f}, {second:.3f} and {last:.3f}")

corners = square.to_numpy()[np.triu_indices(4, 1)]
by_hand = clustering.HeadDistances(corners[None], tuple((0, n) for n in range(4)))
small = clustering.cluster(by_hand, 2)
print("by scipy     ", *(f"{height:.3f}" for height in small.linkage[:, 2]))
print(f"cophenetic correlation {small.cophenetic:.2f}")
assert np.allclose(small.linkage[:, 2], [square.loc["left", "leftish"], second, last])

# %% [markdown]
# Look at what the tree had to do. *even* is exactly as far from *left* as from *right*; in the tree it belongs to the left, and *right*
# is at the same height above all three. A tree has no way to say "halfway between". The **cophenetic correlation** tells how much of
# the distances survives in the tree: the correlation between the real distance of two heads and the height at which they meet. At 1
# the tree says it all.

# %% [markdown]
# ## On real text
#
# The encoder, and 200 review sentences drawn at random.

# %%
encoder = load_encoder()
reviews = load("rotten_tomatoes")
generator = torch.Generator().manual_seed(0)
drawn = torch.randperm(len(reviews.test), generator=generator)[:200]
texts = [reviews.test[i].text for i in drawn]

text = "the plot is thin but the actors are wonderful ."
maps = encoder.attend([text])
print(f"{encoder.n_layers} layers x {encoder.n_heads} heads, {len(texts)} sentences")

# %% [markdown]
# ### All at once: the model view
#
# The most direct answer to the question is to draw them all, small. Here are three layers of one short sentence. Each thumbnail is a
# head: words on the left look at words on the right. Click one to enlarge it.

# %% tags=["nbval-ignore-output"]
model_view(maps, layers=[0, 2, 5], title="Layers 0, 2 and 5 over one short sentence")

# %% [markdown]
# The same sentence as a grid of heat maps, all 72 of them. Rows look at columns.

# %% tags=["nbval-ignore-output"]
figure = heads.head_grid(
    maps, title="Stripes on the first token from layer 1 on; a clean diagonal at 0-2"
)
show(
    figure,
    alt="Grid of 72 small heat maps, 6 layers by 12 heads, for one sentence. Head 2 of layer 0 is a clean diagonal below "
    "the main one; many maps of layers 1 to 5 have a vertical stripe at the first column, the token [CLS]; some maps of "
    "layer 0 are pale and even.",
)

# %% [markdown]
# This works for one sentence and 72 heads. It is a way to get ideas, not a measurement: the eye is drawn to stripes and diagonals,
# and the next sentence may look different. Both points are taken up below.

# %% [markdown]
# ### The average, and how far it is from everyone
#
# The next cell takes the average of all 72 heads, and measures each head's JSD to it, over all sentences. Note the shape of the
# loop: a batch of maps comes, adds to a sum of 72 numbers, and is dropped. It comes back at the end of this section. Beside it stand the
# scores of lesson 02 for the weight on the previous and the next token.

# %%
distance_to_mean = torch.zeros(encoder.n_layers, encoder.n_heads)
for some in encoder.stream(texts, token_budget=512):
    mean = some.attention.mean((1, 2), keepdim=True)
    queries = (some.mask & ~some.special).float()
    queries = queries / queries.sum(1, keepdim=True)
    distances = jsd(some.attention, mean) * queries[:, None, None]
    distance_to_mean += distances.sum((0, 3)) / len(texts)

scores = patterns.by_head(patterns.patterns(encoder, texts))
from_mean = scores[["layer", "head", "previous", "next"]].assign(
    distance=distance_to_mean.flatten().numpy()
)
print(f"median distance {from_mean['distance'].median():.2f}, of at most 0.69")
farthest = from_mean.nlargest(5, "distance")
assert farthest["previous"].iloc[0] > 0.95 and farthest["next"].iloc[1] > 0.5
farthest.round(2)

# %% tags=["nbval-ignore-output"]
figure = layers.layer_head(
    from_mean,
    "distance",
    label="JSD to the average of all heads (nats)",
    title="The head with the plainest job, 0-2, is the one the average knows least about",
)
show(
    figure,
    alt="Table of colours, 6 layers by 12 heads: each head's Jensen-Shannon distance to the average of all heads. "
    "Head 2 of layer 0, the previous-token head, has by far the largest distance.",
)

# %% [markdown]
# The two heads that are easiest to describe are the farthest from the average: 0-2 looks at the previous token and at nothing else, 1-8
# mostly at the next. One head in 72 cannot move an average; that is what an average is for. An "attention heat map" of a Transformer that does not say
# which head, or that it is a mean over heads, has this problem.

# %% [markdown]
# ### Side by side: a tree of heads
#
# Now compare all pairs of heads. We do it twice. The second time, attention to [CLS] and [SEP] is left out and the rest of each
# row made to sum to 1 again, since a head that rests on [CLS] most of the time may still differ in what else it looks at.

# %%
everything = clustering.head_distances(encoder, texts)
words_only = clustering.head_distances(encoder, texts, leave_out_special=True)

# %%
tree = clustering.cluster(words_only, n_clusters=8)
print(f"{len(words_only.condensed):,} pairs of {len(words_only.heads)} heads")
print(f"cophenetic correlation {tree.cophenetic:.2f}")

# %% tags=["nbval-ignore-output"]
largest = np.bincount(tree.labels).max()
figure = heads.dendrogram(
    tree,
    maps,
    title=f"Cut into 8, the tree has one cluster of {largest} heads and 7 small ones",
)
show(
    figure,
    alt="Dendrogram of 72 heads with their maps below in the tree's order. One colour covers more than half of the heads; "
    "the other clusters are small and joined high up. Within the large cluster heads join one after the other at "
    "slowly growing heights, without a gap that would suggest where to cut.",
)

# %% [markdown]
# Read it from below. Neighbours do look alike: that is what a tree is good for. Then read it from above, and look for the long
# vertical lines that mark a group of its own. There are a few small ones. The large cluster is a slope: heads join one by one, and there
# is no height at which a cut is called for.
#
# The **silhouette** puts a number on this. For each head it compares the mean distance to its own cluster with that to the nearest other one: 1 where
# clusters are tight and far apart, 0 where a head might as well be in the next. A common rule of thumb sees no substantial structure below .25.

# %%
quality = tree.silhouettes.set_index("n_clusters")["silhouette"]
print(quality.loc[2:12].round(2).to_string())
print(f"\nat your guess of {my_guess}: {quality.get(my_guess, float('nan')):.2f}")

three = np.bincount(clustering.cluster(words_only, 3).labels)
print("cut into 3, the clusters have", *sorted(three, reverse=True), "heads")
assert quality.idxmax() <= 3 and quality.loc[6:].max() < 0.4 and max(three) > 55

# %% [markdown]
# The best cuts are the coarsest: a few outlying heads, and all the rest. From there the silhouette falls, without a
# number of clusters that stands out. Whatever you wrote down, these heads are a cloud with a few outlying groups.

# %% [markdown]
# ### How much of the tree is the heads, and how much is us?
#
# Three choices went in: which sentences, which keys, which linkage (*complete* linkage takes the largest distance between two groups in place of the
# mean). For each, ask how similar the eight clusters would be otherwise. The adjusted Rand index (ARI) is 1 for the
# same clusters and 0 for the agreement of chance.

# %%
choices, labels = [], {}
for keys, found in (("all", everything), ("words only", words_only)):
    for method in ("average", "complete"):
        one = clustering.cluster(found, 8, method=method)
        again = clustering.stability(found, 8, n_resamples=100, method=method)
        labels[keys, method] = one.labels
        eight = one.silhouettes.set_index("n_clusters")["silhouette"][8]
        sizes = sorted(np.bincount(one.labels), reverse=True)
        choices.append(
            [keys, method, one.cophenetic, eight, again["ari"].mean(), sizes]
        )
columns = ["keys", "linkage", "cophenetic", "silhouette", "other sentences, ARI"]
choices = pd.DataFrame(choices, columns=[*columns, "sizes"])
choices.round(2)


# %%
pairs = {
    "average or complete linkage, all keys": [("all", "average"), ("all", "complete")],
    "average or complete linkage, words only": [
        ("words only", "average"),
        ("words only", "complete"),
    ],
    "all keys or words only, average": [("all", "average"), ("words only", "average")],
    "all keys or words only, complete": [
        ("all", "complete"),
        ("words only", "complete"),
    ],
}
agreement = {
    choice: adjusted_rand_score(labels[one], labels[other])
    for choice, (one, other) in pairs.items()
}
print(pd.Series(agreement).round(2).to_string())

stable = choices.set_index(["keys", "linkage"])["other sentences, ARI"]
assert stable["words only", "average"] > stable["all", "average"] + 0.05
assert stable["all", "complete"] > stable["words only", "complete"] + 0.05
assert max(agreement.values()) < stable.min()

# %% [markdown]
# Someone who tried only average linkage would report that leaving out [CLS] and [SEP] makes the clusters stable. Someone who tried
# only complete linkage would report the opposite. Both are right about their tree.
#
# And each of the four agrees better with itself *on other sentences* than with any neighbour *under another choice*. A high stability
# under resampling says that you have enough sentences. It does not say that the clusters are there.
#
# So use the tree **as a map**: to put like maps next to each other, to find twins and outliers, to pick one head of each region to look at. Do not
# use its cuts as a list of kinds.

# %% [markdown]
# As a map it answers the question for 1,000 heads. Take the head in the middle of each region (the *medoid*, with the smallest mean
# distance to the rest of its cluster), and look at those few first.

# %%
inner = words_only.matrix.to_numpy()
guide = []
for cluster in range(8):
    members = np.flatnonzero(tree.labels == cluster)
    middle = members[inner[np.ix_(members, members)].sum(1).argmin()]
    name = "{}-{}".format(*words_only.heads[middle])
    span = sorted({words_only.heads[member][0] for member in members})
    jobs = scores.loc[members, ["previous", "next", "self"]].mean()
    guide.append([len(members), name, ", ".join(map(str, span)), *jobs])
columns = ["heads", "look at", "layers", "previous", "next", "self"]
guide = pd.DataFrame(guide, columns=columns)
guide = guide.sort_values("heads", ascending=False, ignore_index=True)
assert guide["previous"].max() > 0.3 and guide["next"].max() > 0.3
guide.round(2)

# %% [markdown]
# The last three columns are scores of lesson 02, averaged over each region. Two of the small regions have a job you can name: one looks back,
# one looks ahead. They are the two ends of the figure above. The large one has no such name.

# %% [markdown]
# ### Does a pattern move with the input?
#
# A map of one sentence can be a habit of the head or an answer to the words. To tell, compare two *different* sentences with the same
# number of tokens, position by position. All they share is position. A head that goes by position alone stays at 0; one that goes by
# the words moves.

# %%
moves = context.movement(encoder, texts)
by_head = moves.groupby(["layer", "head"], as_index=False)["movement"].mean()
by_head = by_head.merge(scores, on=["layer", "head"])
print(f"{moves['input'].nunique()} pairs of sentences")

columns = ["layer", "head", "movement", "previous", "first", "uniform"]
by_head.nsmallest(6, "movement")[columns].round(2)

# %%
by_head.nlargest(6, "movement")[columns].round(2)

# %% tags=["nbval-ignore-output"]
figure = layers.layer_head(
    by_head,
    "movement",
    label="JSD between two sentences (nats)",
    title="The previous-token head 0-2 does not move with the words; head 3-1 moves most",
)
show(
    figure,
    alt="Table of colours, 6 layers by 12 heads: how far a head's attention moves between two sentences of the same length. "
    "Head 0-2 is at 0.00, head 3-1 highest at about a third of a nat; the last layer is higher than the first.",
)

# %%
movement = by_head.set_index(["layer", "head"])["movement"]
per_layer = movement.groupby("layer").mean()
print("mean movement by layer:", *per_layer.round(2).tolist())
assert movement[0, 2] < 0.01 and movement.idxmax() == (3, 1)
assert per_layer[5] > per_layer[0] + 0.04

# %% [markdown]
# Head 0-2 sees two different sentences and does the same thing in both. The later layers move more than the first, perhaps
# because their inputs have mixed more words.
#
# Look at the table of the stillest heads before you call them all positional. Only 0-2 is. The others stay still for another reason:
# they spread their weight evenly, or they rest on the first token, [CLS], which is there in every sentence. **Still is not the same as
# positional**, and a head that is even everywhere has nothing to move. So a low number needs the scores of lesson 02 beside it; a high number
# stands by itself.

# %% [markdown]
# ### What would a larger model cost?
#
# One head's map of a text of $T$ tokens holds $T^2$ weights of 4 bytes. A layer of width $H$ needs about $24 T H^2$ operations for its
# matrices and $4 T^2 H$ for attention itself. Comparing all pairs of $K$ heads touches $\tfrac12 K(K-1)\,T^2$ pairs of weights. For 1,000
# texts:

# %%
models = {
    "MiniLM, 72 heads": (6, 12, 384),
    "BERT-base, 144 heads": (12, 12, 768),
    "32 layers x 32, 1,024 heads": (32, 32, 4096),
}
cost = []
for model, (n_layers, n_heads, width) in models.items():
    for length in (32, 512):
        n = n_layers * n_heads
        maps_bytes = 1000 * n * length**2 * 4
        attention = 1000 * n_layers * 4 * length**2 * width
        forward = 1000 * n_layers * 24 * length * width**2 + attention
        compared = 1000 * n * (n - 1) // 2 * length**2
        flop = forward / 1e12, attention / 1e12
        cost.append([model, length, maps_bytes / 1e9, *flop, compared / 1e12])
columns = ["model", "tokens", "maps (GB)", "Tflop", "of it attention"]
columns.append("compared (10^12)")
print(f"distances of 1,024 heads: {1024 * 1023 // 2:,} numbers of 4 bytes")
pd.DataFrame(cost, columns=columns).round(3).set_index(["model", "tokens"])

# %% [markdown]
# Short sentences are harmless. At 512 tokens, 1,000 texts of a 144-head model make 151 GB of maps, and of a 1,024-head model more than
# a terabyte. Yet the result we want from them, a distance for each pair of heads, has 523,776 numbers for the largest model, or 2 MB.
#
# To make the maps is a small part of a large model's arithmetic (*of it attention* against *Tflop*): they cost memory, not time.
#
# So do not keep them. **Stream**: run a batch, add what it says to the statistics, drop it. Every experiment of this lesson did.
# The next cell measures the difference on eight long texts, fourteen of the sentences in each.

# %% tags=["nbval-ignore-output"]
long = [" ".join(texts[start : start + 14]) for start in range(0, 112, 14)]
process = psutil.Process()


def added_memory(keep):
    """Most memory that the process holds beyond its start, in MB."""
    before, peak, kept = process.memory_info().rss, 0, []
    for some in encoder.stream(long):
        kept = [*kept, some.attention] if keep else []
        peak = max(peak, process.memory_info().rss - before)
    return peak / 1e6


streamed = added_memory(keep=False)
print(f"streaming          {streamed:4.0f} MB")
print(f"keeping all maps   {added_memory(keep=True):4.0f} MB")

# %% [markdown]
# Streaming costs one batch of maps, whatever the number of texts; keeping grows with every one of them.

# %% [markdown]
# For many heads the last column takes over: the comparisons grow with the *square* of the number of heads. Then compare on fewer
# sentences, and let resampling say whether they are enough, or compare a few scores per head, whose number grows only with the heads.

# %% [markdown]
# ## The claim: heads of the same layer look alike
#
# Clark et al. (2019, section 6) compare the heads of BERT-base by the same distance, place them in the plane, and report that heads
# of one layer often lie close together. (Second-hand: we give the gist from memory and have not checked the wording.) On our encoder: is a pair from one layer nearer
# than a pair from two?
#
# A difference alone is not enough, since any grouping of 72 heads gives some difference. So we also deal the layer labels out at random,
# 2,000 times, and count how often chance does as well.

# %%
layer = np.array([head_layer for head_layer, _ in everything.heads])
first, second = np.triu_indices(len(layer), 1)
generator = np.random.default_rng(0)
shuffles = generator.permuted(np.tile(layer, (2000, 1)), axis=1)
chance = shuffles[:, first] == shuffles[:, second]
same = layer[first] == layer[second]

rows = []
for keys, found in (("all", everything), ("words only", words_only)):
    pairs = found.condensed
    within, between = pairs[same].mean(), pairs[~same].mean()
    by_chance = (chance @ pairs) / same.sum()
    p = (1 + (by_chance <= within).sum()) / (1 + len(shuffles))
    rows.append([keys, within, between, between - within, p])
columns = ["keys", "same layer", "different layers", "difference", "p, permutation"]
claim = pd.DataFrame(rows, columns=columns).round(4)
assert 0.5 < claim["difference"][1] / claim["difference"][0] < 0.8
assert (claim["p, permutation"] < 0.01).all()
claim.round({"same layer": 2, "different layers": 2, "difference": 3})

# %% [markdown]
# The claim holds on average, and chance does not explain it. It is also small: compare the difference with the distances
# themselves. About a third of it is gone without [CLS] and [SEP], so part of the likeness is in how much the heads of a layer
# put on these two.
#
# ### What else could explain it?
#
# An average over layers hides, too. Here is each layer by itself: the mean distance among its own heads, beside that from its heads
# to all others, with 95 % intervals over sentences.


# %%
def layer_by_layer(found, n_resamples=500):
    n_texts = len(found.per_text)
    even_chances = np.full(n_texts, 1 / n_texts)
    draws = np.random.default_rng(0).multinomial(n_texts, even_chances, n_resamples)
    resampled = draws @ found.per_text.astype(float) / n_texts
    rows = []
    for number in range(layer.max() + 1):
        touches = (layer[first] == number) | (layer[second] == number)
        for name, chosen in (
            ("same layer", touches & same),
            ("other layers", touches & ~same),
        ):
            low, high = np.percentile(resampled[:, chosen].mean(1), [2.5, 97.5])
            rows.append([number, name, found.condensed[chosen].mean(), low, high])
    return pd.DataFrame(rows, columns=["layer", "score", "mean", "low", "high"])


each_layer = layer_by_layer(words_only)
tables = {"words only": each_layer, "all keys": layer_by_layer(everything)}
compared = pd.concat(
    {
        keys: table.pivot(index="layer", columns="score", values="mean")
        for keys, table in tables.items()
    },
    axis=1,
)
compared.round(2)

# %% tags=["nbval-ignore-output"]
figure = layers.by_layer(
    each_layer,
    label="mean JSD (nats), words only",
    title="Alike within the layer: true at both ends, false in layers 1 and 2",
)
show(
    figure,
    alt="Two lines over the six layers: the mean distance among a layer's own heads, and to the heads of other layers. In layers "
    "0, 3, 4 and 5 a layer's own heads are nearer; in layers 1 and 2 they are farther apart than from other layers' heads.",
)

# %%
for keys in tables:
    nearer = compared[keys]["same layer"] < compared[keys]["other layers"]
    print(f"{keys}: own heads are nearer in layers", *nearer.index[nearer])
    assert nearer[[3, 4, 5]].all()
on_cls = scores.groupby("layer")["first"].mean()
print("weight on [CLS] by layer:", *on_cls.round(2).tolist())

# %% [markdown]
# So "heads of a layer look alike" is true of the upper layers of this encoder and of layer 0, whichever keys are compared. It is false of
# layer 1 either way; layer 2 changes sides with the choice.
#
# Is it that so little weight is left in layers 1 and 2 once [CLS] is taken out? That cannot be all: layers 3 and 4 give [CLS] nearly as
# much, and their heads are alike.
#
# | | Clark et al. (2019), BERT-base | here, MiniLM |
# |---|---|---|
# | heads of one layer lie close | often (second-hand) | on average yes; layers 3 to 5 and 0 yes, layer 1 no, layer 2 depends on the keys |
# | heads fall into clusters | clear clusters (second-hand) | no: a few outliers, and a cloud that no cut divides well |
#
# The models differ in size, the texts in kind (paragraphs there, single sentences here), and a picture in the plane shows clusters to the
# eye that a silhouette may not confirm.

# %% [markdown]
# ## Try it yourself
#
# Two sentences with the same number of tokens. Choose head 0-2, then 3-1, and switch between the sentences: one map stays, the other
# moves. Then look for the twins that the tree put side by side. (The figure of movement above says what to expect, should the
# explorer not appear in your viewer.)

# %% tags=["nbval-ignore-output"]
mine = [text, "she gives a great performance in an awful film ."]
two = encoder.attend(mine)
print("tokens:", *two.lengths.tolist())
explore_heads(two, layer=3, head=1, position=6)

# %% [markdown]
# ## Exercises
#
# The first one completes the lesson's argument about averages.

# %%
ex.hidden


# %% tags=["exercise"]
def my_hidden(weights):
    """What the average over heads hides, in nats.

    weights: (N, ..., T) tensor, heads first, the weights of a row last.
    Returns a (...) tensor: entropy of the average row - average entropy of the rows.
    """
    ...


# %%
hidden = ex.hidden.check(my_hidden).value

# %% [markdown]
# Your function, applied to the twelve heads of each layer over the first 100 sentences. The table sets it beside the entropy of the average:
# how much of the spread you see in an averaged map is made by the averaging?

# %%
parts = []
for some in encoder.stream(texts[:100]):
    weights = some.attention.permute(2, 1, 0, 3, 4)  # heads first
    spread = torch.special.entr(weights.mean(0)).sum(-1)
    queries = (some.mask & ~some.special).float().expand_as(spread)
    parts.append(torch.stack([hidden(weights) * queries, spread * queries], -1))
sums = sum(part.sum((1, 2)) for part in parts)
count = sum(len(words) - 2 for words in encoder.pieces(texts[:100]).tokens)
made = pd.DataFrame(sums.numpy() / count, columns=["hidden", "entropy of average"])
made["share"] = made["hidden"] / made["entropy of average"]
assert made["share"].idxmax() == 1 and made["share"].between(0.05, 0.4).all()
made.rename_axis("layer").round(2)

# %% [markdown]
# Most is hidden in layer 1, where more than a quarter of the averaged map's spread is in no head; least in layer 5. An averaged map
# looks more spread out than the heads are.

# %%
ex.corpus_bytes


# %% tags=["exercise"]
def my_corpus_bytes(n_layers, n_heads, lengths, bytes_per_weight=4):
    """Bytes of all maps of a corpus, each text stored at its own length.

    lengths: number of tokens of each text.
    """
    ...


# %%
corpus_bytes = ex.corpus_bytes.check(my_corpus_bytes).value
lengths = encoder.pieces(texts).lengths.tolist()
print(f"these 200 sentences, 72 heads:    {corpus_bytes(6, 12, lengths) / 1e6:6.0f} MB")
print(
    f"these 200 sentences, 1,024 heads: {corpus_bytes(32, 32, lengths) / 1e6:6.0f} MB"
)

# %%
ex.stable

# %% tags=["exercise"]
my_stable = ...

# %%
ex.stable.check(my_stable)

# %%
ex.separation


# %% tags=["exercise"]
def my_separation(distances, groups):
    """Mean distance between heads of different groups - mean distance within.

    distances: (K, K) array, symmetric; groups: K labels. A pair counts once,
    a head with itself does not count.
    """
    ...


# %%
separation = ex.separation.check(my_separation).value

# %% [markdown]
# Is the layer a good way to group heads, then? Compare it with two others: the pattern that lesson 02 gives each head, and the tree's own eight
# clusters, which were chosen to separate and so show what is possible.

# %%
groups = {
    "layer": layer,
    "pattern": scores["pattern"].to_numpy(),
    "tree, 8": tree.labels,
}
table = pd.DataFrame(
    {
        keys: {name: separation(square, group) for name, group in groups.items()}
        for keys, square in (
            ("all keys", everything.matrix.to_numpy()),
            ("words only", words_only.matrix.to_numpy()),
        )
    }
)
assert (table.loc["pattern"] > table.loc["layer"]).all()
table.rename_axis("grouped by").round(2)

# %% [markdown]
# A head's pattern says more about which heads it resembles than its layer does.

# %%
ex.progress()

# %% [markdown]
# ## What to take away
#
# - An average over heads says least about the heads with the plainest jobs. What it hides can be measured, in nats.
# - A tree of heads is a map. The cophenetic correlation says how well it keeps the distances, the silhouette whether there are
#   clusters (here: hardly), resampling whether there are enough sentences.
# - Stable against other sentences is not stable against other choices. Which keys and which linkage change the clusters more than
#   the sentences do.
# - A head that does not move with the words need not be positional; it may be even, or rest on [CLS].
# - Maps grow with the square of the length, comparisons with the square of the number of heads. Stream, and keep statistics.

# %% [markdown]
# ## What this does not show
#
# - Two heads that look at the same places need not do the same thing: what they read there and what they write depend on their value
#   and output matrices. Lesson 13 removes heads and sees.
# - The distance treats all words as equally important, and a sum over sentences hides a head that acts rarely.
# - Movement compares sentences that differ in everything. It does not say *which* word a head reacts to; lesson 11 does.
# - One encoder, one kind of text.

# %% [markdown]
# ## Further reading
#
# - Clark, K., Khandelwal, U., Levy, O. & Manning, C. D. (2019). What Does BERT Look At? An Analysis of BERT's Attention. *BlackboxNLP*.
# - Guan, Y., Leng, J., Li, C., Chen, Q. & Guo, M. (2020). How Far Does BERT Look At: Distance-based Clustering and Analysis of BERT's
#   Attention. *COLING*. Clusters maps by features made from distances.
# - Vig, J. (2019). A Multiscale Visualization of Attention in the Transformer Model. *ACL, System Demonstrations*. The model view.
# - Rousseeuw, P. J. (1987). Silhouettes: a graphical aid to the interpretation and validation of cluster analysis. *Journal of
#   Computational and Applied Mathematics* 20.
# - Sokal, R. R. & Rohlf, F. J. (1962). The comparison of dendrograms by objective methods. *Taxon* 11(2). The cophenetic correlation.
# - Hubert, L. & Arabie, P. (1985). Comparing partitions. *Journal of Classification* 2. The adjusted Rand index.
