# %% [markdown]
# # What attention computes
#
# What exactly does an attention weight weigh?
#
# **Time** 45 minutes. **Builds on** lesson 00, vectors and matrix products. The rest of the course builds on this lesson.
#
# Afterwards you will be able to
#
# - compute additive, dot-product and self-attention by hand, from scores to the context vector;
# - say why padding must get a weight of exactly 0, and find the bug when it does not;
# - tell what a heat map says about states from what it says about words, and measure the difference.

# %%
import math

import pandas as pd
import torch
from course_utils import exercises
from course_utils.analysis import over, replacement
from course_utils.analysis.distances import xlogx
from course_utils.data import load, make_batch, make_batches
from course_utils.models import load_checkpoint, load_encoder, new_classifier
from course_utils.models.attention import AdditiveAttention, DotAttention
from course_utils.models.queries import neurons
from course_utils.show import curves, heads, heatmap, neuron_view, show

torch.set_grad_enabled(False)
ex = exercises.load("01")

# %% [markdown]
# ## Predict first
#
# A classifier reads a film review and attends most to one of its words. Now you replace *another* word, five or more places away, by
# some word drawn at random. The attended word stays where it is.
#
# Look at the vector that the large weight multiplies. How much does it change, compared with how much it changes when the attended
# word itself is replaced? Write down your guess: 0 for "not at all", 1 for "just as much".

# %%
my_guess = 0.0

# %% [markdown]
# ## The idea
#
# A model has turned $T$ words into $T$ vectors $h_1 \dots h_T$, the *states*. It needs one vector for the whole sentence, whatever
# its length. Attention makes it in three steps:
#
# 1. give each state a **score** $e_t$, a single number;
# 2. turn the scores into **weights** by a softmax, $\alpha_t = e^{e_t} / \sum_s e^{e_s}$, so that they are positive and sum to 1;
# 3. average the states with these weights: the **context vector** $c = \sum_t \alpha_t h_t$.
#
# Two ways to score are in use. **Additive** attention (Bahdanau et al. 2015) sends the state through a small network,
# $e_t = v \cdot \tanh(W h_t + b)$. **Dot-product** attention multiplies it with a vector $q$, the *query*: $e_t = q \cdot h_t /
# \sqrt{H}$, where $H$ is the size of a state (Vaswani et al. 2017; why the root is there comes later). $W$, $b$, $v$ and $q$ are
# learned.

# %% [markdown]
# ### Four words by hand
#
# Four states of four made-up numbers each, and made-up parameters.

# %%
words = ["the", "acting", "is", "superb"]
h = torch.tensor(
    [
        [0.1, 0.0, 0.2, -0.1],
        [0.5, 0.8, -0.3, 0.0],
        [0.0, -0.1, 0.1, 0.2],
        [1.0, -0.6, 0.9, 0.7],
    ]
)
W = torch.tensor([[1.0, -0.5, 0.8, 0.0], [0.0, 1.0, 0.0, 0.5]])
b = torch.tensor([0.0, -0.2])
v = torch.tensor([2.0, 0.5])
q = torch.tensor([1.2, -0.6, 0.8, 0.4])

additive = torch.tanh(h @ W.T + b) @ v
dot = h @ q / math.sqrt(4)
table = pd.DataFrame({"additive score": additive, "dot score": dot}, index=words)
table["additive weight"] = table["additive score"].map(math.exp)
table["dot weight"] = table["dot score"].map(math.exp)
for kind in ("additive weight", "dot weight"):
    table[kind] /= table[kind].sum()
table.round(2)

# %% [markdown]
# Both find *superb*, the additive one more sharply. The context vector is the average of the rows of `h` with these weights, and
# the package's modules, given the same parameters, must agree.

# %%
alpha = torch.softmax(additive, 0)
print("context by hand:", *(f"{number:.2f}" for number in alpha @ h))

module, mask = AdditiveAttention(4), torch.ones(4, dtype=torch.bool)
module.load_state_dict(
    {"project.weight": W, "project.bias": b, "score.weight": v[None]}
)
query = DotAttention(4)
query.load_state_dict({"query": q})
difference = max(
    (module(h, mask) - alpha).abs().max(),
    (query(h, mask) - torch.softmax(dot, 0)).abs().max(),
)
print("the package agrees to 1e-6:", bool(difference < 1e-6))
assert difference < 1e-6

# %% [markdown]
# ### Padding must get exactly 0
#
# Sentences of different lengths go through a model together, the short ones filled up with *padding*. It must not count. An obvious way
# is to multiply the scores by a mask that is 1 at words and 0 at padding. Is that enough? The exponential of 0 is 1: padding with the
# score 0 takes part in the average like any word.
#
# Padding has to get the score $-\infty$: then its exponential, and so its weight, is exactly 0. Compare the two, with more and more
# padding behind the same four words.

# %%
rows = []
for padding in (0, 2, 8, 32):
    scores = torch.cat([additive, torch.zeros(padding)])
    real = torch.arange(4 + padding) < 4
    right = scores.masked_fill(~real, float("-inf")).softmax(0)
    wrong = (scores * real).softmax(0)
    rows.append([padding, right[3], wrong[3], wrong[4:].sum()])
columns = ["padding", "superb, -inf", "superb, score 0", "padding, score 0"]
pd.DataFrame(rows, columns=columns).set_index("padding").astype(float).round(2)

# %% [markdown]
# With $-\infty$ the weight of *superb* does not know how much padding there is. With 0 it sinks as the batch gets longer: the same
# sentence gets another prediction in another batch. The bug is easy to write (`scores * mask`) and hard to see, as real models show.


# %%
def leaking(model, batch):
    """Probabilities when padding has the score 0."""
    hidden = model.encoder(model.embedding(batch.ids), batch.mask)
    weight, bias = model.attention.linear()
    scores = model.attention.score_of(hidden @ weight.T + bias)
    weights = (scores * batch.mask).softmax(-1)
    return model.decoder((weights[..., None] * hidden).sum(1)).softmax(-1)


reviews = load("rotten_tomatoes")
model, vocabulary = load_checkpoint("rotten_tomatoes-bilstm-additive")
dotted, dotted_words = load_checkpoint("rotten_tomatoes-bilstm-dot")

together = make_batch(reviews.test, vocabulary)  # all in one batch: much padding
good, bad = model(together).probabilities, leaking(model, together)
for name, p in (("-inf", good), ("score 0", bad)):
    accuracy = (p.argmax(1) == together.labels).float().mean()
    print(f"{name:8} accuracy {accuracy:.2f}, mean confidence {p.amax(1).mean():.2f}")
moved = (good - bad).abs().amax(1)
print(
    f"the probability moves by {moved.mean():.2f} on average, by {moved.max():.2f} at most"
)
assert moved.mean() > 0.04

# %% [markdown]
# The accuracy hides the bug. Padding pulls every prediction towards what the decoder says of a state of zeros, which is close to one
# half, and rarely across it. What gives the bug away is that a prediction depends on its company: encode a sentence alone and in a
# batch, and compare.

# %% [markdown]
# ## On real text: a heat map
#
# The picture of a review with its words coloured by weight is how attention is usually shown, and where figure 1 (left) of Jain &
# Wallace (2019) starts. Here is a sentence from the test set of Rotten Tomatoes, read by two models of the same make, one with additive
# and one with dot-product attention.

# %% tags=["nbval-ignore-output"]
text = "intelligent , caustic take on a great writer and dubious human being ."
one, two = make_batch([text], vocabulary), make_batch([text], dotted_words)
first, second = model(one), dotted(two)
heatmap(
    one.tokens[0],
    torch.cat([first.attention, second.attention]),
    captions=[
        f"additive: p(positive) = {first.probabilities[0, 1]:.2f}",
        f"dot product: p(positive) = {second.probabilities[0, 1]:.2f}",
    ],
    title="Both models say positive; one looks most at dubious, the other at intelligent",
)

# %% [markdown]
# Two models that learned from the same sentences and reach the same verdict draw different pictures. Is this sentence an exception?


# %%
def top_words(model, vocabulary):
    """Most attended position and predicted class of each test sentence."""
    rows = []
    for batch in make_batches(reviews.test, vocabulary):
        output = model(batch)
        top = output.attention.argmax(1)
        numbers = zip(batch.index, top, output.predicted, strict=True)
        rows += [[int(number) for number in row] for row in numbers]
    return pd.DataFrame(rows, columns=["input", "top", "class"]).set_index("input")


agree = (top_words(model, vocabulary) == top_words(dotted, dotted_words)).mean()
print(f"the two models predict the same class in {agree['class']:.0%} of sentences")
print(f"and attend most to the same word in      {agree['top']:.0%}")
assert 0.55 < agree["top"] < 0.70

# %% [markdown]
# ### What the weight multiplies
#
# In the picture *dubious* has the largest weight of the first model, and the prediction is positive. Does a film's *dubious* human
# being speak for it? The weight cannot say. It multiplies a *state*, and what the decoder makes of that state is another number. The
# decoder is linear, so it can be taken word by word: $v_t$, the log odds if all attention were on word $t$.

# %%
parts = pd.DataFrame(
    {
        "weight": first.attention[0],
        "log odds alone": first.token_logits[0],
        "weight x log odds": first.attention[0] * first.token_logits[0],
    },
    index=one.tokens[0],
).astype(float)
print(parts.nlargest(4, "weight").round(2))
print(f"sum over all words {parts['weight x log odds'].sum():.2f}")

# %% [markdown]
# The most attended word contributes least of the four, and against the prediction. *great* carries the decision: a smaller weight on
# a state that speaks more strongly. A weight has no sign and no class. It says how much of a state is read, not what the state says.

# %% [markdown]
# ## Self-attention: the same, with a query for each token
#
# In the classifier there is one query, learned once, and it asks the same of every sentence. In a Transformer *each token* asks. Token
# $i$ has a query $q_i$, token $j$ has a key $k_j$ that is asked and a value $v_j$ that is averaged. All three are linear in the
# token's state. Then
#
# $$A_{ij} = \text{how much } i \text{ attends to } j = \operatorname{softmax}_j\big(q_i \cdot k_j / \sqrt{d}\big), \qquad
# \text{output}_i = \sum_j A_{ij}\, v_j.$$
#
# So the weights are a square: a row for each token that looks, a column for each token that is looked at.

# %%
tokens = ["dog", "bites", "man"]
queries = torch.tensor([[2.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
keys = torch.tensor([[0.0, 1.0], [2.0, 1.0], [1.0, 0.0]])
values = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])

A = (queries @ keys.T / math.sqrt(2)).softmax(-1)
square = pd.DataFrame(A, tokens, tokens).astype(float)
print(square.round(2))
print("output of dog:", *(f"{number:.2f}" for number in (A @ values)[0]))

# %% [markdown]
# Read it by rows. *dog* attends to *bites* with `A[0][1]`, and each row sums to 1. Columns need not: a token may be looked at by all
# or by none. Nor is the square symmetric, because looking (query) and being looked at (key) are different vectors.
#
# And each row is the attention you know: the dot-product attention of the first section, over the keys, with that token's query.

# %%
query = DotAttention(2)
for i, token in enumerate(tokens):
    query.load_state_dict({"query": queries[i]})
    row = query(keys, torch.ones(3, dtype=torch.bool))
    print(f"{token:5}", *(f"{weight:.2f}" for weight in row))
    assert torch.allclose(row, A[i])

# %% [markdown]
# ### One head of a real encoder
#
# MiniLM is a pretrained Transformer of 6 layers with 12 such squares, *heads*, in each. We take the states that enter layer 0 and
# the weights of one head, and compute its square ourselves.

# %%
encoder = load_encoder()
text = "the dog chased the cat because it was angry ."
maps = encoder.attend([text], states=True)

layer, head, size = 0, 2, 32
attention = encoder.model.encoder.layer[layer].attention.self
part = slice(head * size, (head + 1) * size)  # the rows of this head
x = maps.hidden[0, layer]
queries = x @ attention.query.weight[part].T + attention.query.bias[part]
keys = x @ attention.key.weight[part].T + attention.key.bias[part]
values = x @ attention.value.weight[part].T + attention.value.bias[part]
A = (queries @ keys.T / math.sqrt(size)).softmax(-1)

print(f"{x.shape[0]} tokens with states of {x.shape[1]} numbers, {size} of them a head")
off = (A - maps.attention[0, layer, head]).abs().max()
off_values = (values - maps.values[0, layer, head]).abs().max()
print("the same as the model's to 1e-5:", bool(off < 1e-5 and off_values < 1e-5))
assert off < 1e-5 and off_values < 1e-5

# %% tags=["nbval-ignore-output"]
figure = heads.head_map(
    maps, layer, head, title="In head 0-2 every token looks at the one before it"
)
show(
    figure,
    alt="Square heat map of the attention of head 2 of layer 0 over the sentence 'the dog chased the cat because it was angry'. "
    "All weight lies on one diagonal just below the main one: each token attends to the token before it, and the first "
    "token, [CLS], to itself.",
)

# %% [markdown]
# Not all heads are so tidy; lesson 02 goes through all 72. Here it matters only that nothing is hidden in the picture: states, three
# matrices, a softmax.

# %% [markdown]
# ### Why divide by the square root of d?
#
# Take a query and keys whose $d$ numbers are drawn independently with variance 1. Their product is a sum of $d$ terms of variance 1, so
# its standard deviation is $\sqrt d$. The larger the vectors, the further the scores lie apart, and a softmax of scores far apart is
# nearly all or nothing. Dividing by $\sqrt d$ keeps the spread at 1. We measure the *entropy* of the weights over 20 keys, divided by
# its maximum: 1 is even attention, 0 is all on one key.


# %%
def relative_entropy(weights):
    """Entropy over the last dimension, divided by that of even weights."""
    return -xlogx(weights).sum(-1) / math.log(weights.shape[-1])


generator = torch.Generator().manual_seed(0)
frames = []
for d in (2, 8, 32, 128, 512):
    drawn_queries = torch.randn(300, 1, d, generator=generator)
    drawn_keys = torch.randn(300, d, 20, generator=generator)
    scores = (drawn_queries @ drawn_keys).squeeze(1)
    for name, factor in (("divided by √d", d**-0.5), ("as they are", 1.0)):
        entropies = relative_entropy((factor * scores).softmax(-1))
        frames.append(pd.DataFrame({"d": d, "scores": name, "entropy": entropies}))
sweep = pd.concat(frames, ignore_index=True)
means = sweep.pivot_table(index="scores", columns="d", values="entropy")
assert means.loc["divided by √d"].between(0.8, 0.92).all()
assert means.loc["as they are", 512] < 0.15
means.round(2)

# %% tags=["nbval-ignore-output"]
figure = curves(
    sweep,
    "d",
    "entropy",
    group="scores",
    log=True,
    title="Without the root, attention over random keys collapses as vectors grow",
    xlabel="size d of query and key",
    ylabel="entropy of the weights (1 = even)",
)
show(
    figure,
    alt="Two lines of entropy against the size of query and key, from 2 to 512. With scores divided by the square root of d the line "
    "stays level, between 0.8 and 0.9; without it falls steadily, to a twentieth at 512.",
)

# %% [markdown]
# Why is collapse bad? The derivative of a weight with respect to its own score is $\alpha_t (1 - \alpha_t)$, which is 0 at both ends:
# where attention is all or nothing, the scores hardly learn.
#
# The trained encoder shows what the factor does there. We undo the division in all its heads, on 20 sentences.

# %%
drawn = torch.randperm(len(reviews.test), generator=generator)[:150].tolist()
sample = [reviews.test[i] for i in drawn]
rows = []
for example in sample[:20]:
    found = neurons(encoder, example.text)
    scores = found.queries @ found.keys.transpose(-1, -2)  # layer x head x query x key
    scaled, unscaled = scores / math.sqrt(size), scores
    rows.append(
        [float(relative_entropy(s.softmax(-1)).mean()) for s in (scaled, unscaled)]
    )
with_root, without = pd.DataFrame(rows).mean()
print(
    f"mean relative entropy of the 72 heads {with_root:.2f}, division undone {without:.2f}"
)
assert 0.53 < with_root < 0.63 and without < 0.12

# %% [markdown]
# What else could explain it? The queries and keys of this model were *trained* with the division, and a model trained without it could
# learn smaller ones instead. So the second number is no proof that Transformers need the root. The first figure is the argument: it
# is about the start of training, when queries and keys are random.

# %% [markdown]
# ## The claim: attention shows which words the model uses
#
# This is how a heat map is usually read. The formula says something else: attention weighs *states*, and in most models a state has
# read the whole sentence. That this matters is suggested by a control of Jain & Wallace (2019), an encoder whose states have read one
# word each. They correlate attention weights with gradients (Kendall's tau, sentences from SST, by predicted class; read in the outputs
# that the authors published):
#
# | encoder | a state has read | tau, negative | tau, positive |
# |---|---|---|---|
# | BiLSTM | the whole sentence | .34 | .36 |
# | "average" | its own word | .61 | .60 |
#
# Lesson 06 measures this again. Here we ask what goes on underneath. First a small demonstration: one word changes, *ever* to *never*,
# far from the word with the attention.

# %% tags=["nbval-ignore-output"]
before = "the emotions are raw and will strike a nerve with anyone who's {} had family trauma ."
pair = make_batch([before.format("ever"), before.format("never")], vocabulary)
output = model(pair)
tokens = ["ever / never" if token == "ever" else token for token in pair.tokens[0]]
heatmap(
    tokens,
    output.attention,
    captions=[
        f"who's {word}: p(positive) = {p:.2f}"
        for word, p in zip(["ever", "never"], output.probabilities[:, 1], strict=True)
    ],
    title="One word changes the prediction, and hardly the picture",
)

# %%
raw, changed = pair.tokens[0].index("raw"), pair.tokens[0].index("ever")
for row, word in enumerate(["ever", "never"]):
    print(
        f"{word:6} weight {output.attention[row, changed]:.2f};  "
        f"raw: weight {output.attention[row, raw]:.2f}, "
        f"log odds alone {output.token_logits[row, raw]:.1f};  "
        f"p(positive) {output.probabilities[row, 1]:.2f}"
    )
total = (output.attention * output.token_logits).sum(1).diff()
by_raw = output.attention[0, raw] * output.token_logits[:, raw].diff()
print(f"the word changed is {changed - raw} places after raw")
print(f"log odds of the prediction change by {float(total):.2f},")
print(f"of which {float(by_raw):.2f} with the state of raw, at its first weight")
assert 0.5 < by_raw / total < 0.9

# %% [markdown]
# The changed word has next to no weight in either sentence. Most of its effect on the prediction went through the *state of raw*. You
# would look for it in vain in the picture.

# %% [markdown]
# ### All positions, three encoders
#
# One example can be found for anything. So: 150 test sentences drawn at random, each word replaced in turn by one drawn from the test
# set, and each time the state at the most attended word compared with what it was. The change is relative to the state's length. The
# encoders differ in what a state can have read:
#
# - BiLSTM: the whole sentence;
# - CNN: three words on either side;
# - "average": its own word and nothing else, the control.

# %%
names = {
    "BiLSTM": "rotten_tomatoes-bilstm-additive",
    "CNN": "rotten_tomatoes-cnn-additive",
    "average": "rotten_tomatoes-average-additive",
}
models = {name: load_checkpoint(checkpoint) for name, checkpoint in names.items()}
test_words = [token for example in reviews.test for token in example.tokens]


def everywhere(experiment, model, vocabulary, texts):
    pool = torch.tensor(vocabulary.encode(test_words))
    return over(experiment, model, make_batches(texts, vocabulary), pool=pool)


frames = []
for name, (encoding, known) in models.items():
    frame = everywhere(replacement.one_word, encoding, known, sample)
    frames.append(frame.assign(encoder=name, away=frame["distance"].abs()))
replaced = pd.concat(frames, ignore_index=True)

near = replaced[replaced["away"] <= 12]
grid = near.pivot_table(index="encoder", columns="away", values="state_change")
grid[[0, 1, 2, 3, 4, 6, 8, 10, 12]].round(1)

# %% tags=["nbval-ignore-output"]
figure = curves(
    near,
    "away",
    "state_change",
    group="encoder",
    title="The state of a BiLSTM hears distant words faintly; without mixing it hears none",
    xlabel="distance of the replaced word from the most attended word (0: the word itself)",
    ylabel="relative change of its state",
)
show(
    figure,
    alt="Relative change of the most attended word's state against the distance of the replaced word, a line an encoder. All start "
    "high at distance 0. The average encoder is at 0 from distance 1 on, the CNN from distance 4 on; the BiLSTM falls "
    "steadily and is still above 0 at distance 12.",
)

# %%
lstm = replaced[replaced["encoder"] == "BiLSTM"]
own = lstm.loc[lstm["away"] == 0, "state_change"].mean()
far = lstm.loc[lstm["away"] >= 5, "state_change"].mean()
print(f"BiLSTM: own word {own:.2f}, a word 5 or more places away {far:.2f}")
print(f"share {far / own:.2f}; your guess was {my_guess}")
control = replaced[(replaced["encoder"] == "average") & (replaced["away"] > 0)]
print(f"average: largest change by any other word {control['state_change'].max():.0f}")
assert 0.04 < far / own < 0.12
assert (control["state_change"] == 0).all()

# %% [markdown]
# Both readings get something. A single distant word moves the state, but little; the attended word itself moves it most by far. Yet a
# sentence has one such word and many others. So the fair question is: keep the attended word, and replace *all* the others.

# %%
frames = [
    everywhere(replacement.own_or_others, *models[name], sample).assign(encoder=name)
    for name in models
]
sides = pd.concat(frames).pivot_table(
    index="encoder", columns="replaced", values=["state_change", "logit_change"]
)
cases = ["that word", "all other words", "all words"]
state, logit = (
    sides[c].loc[list(names), cases] for c in ("state_change", "logit_change")
)
assert 0.6 < state.loc["BiLSTM", "all other words"] < 1.0
assert (
    0.4 < logit.loc["BiLSTM", "all other words"] / logit.loc["BiLSTM", cases[0]] < 0.8
)
print("relative change of the state at the attended word", state.round(1), sep="\n")
print("\nchange of its log odds", logit.round(1), sep="\n")

# %% [markdown]
# Now the balance is another. In the BiLSTM the other words together move the state nearly as far as the attended word does, and its log
# odds about two thirds as far. (All words replaced at once gives the scale: the states of two unrelated texts.) The CNN reads six neighbours only,
# and is no different. In the "average" encoder the others count for nothing.
#
# So on average a large weight on a word is a large weight on a vector that the rest of the sentence has shaped nearly as much as that
# word has.

# %% [markdown]
# ### What else could explain it?
#
# **The state may change where the decoder does not look.** Then it would not matter. That is what the second table checks: the log odds
# that the decoder makes of this one state. They move as well.
#
# **The prediction may move because attention moved, not the states.** So we hold all weights at their original values and look at
# replaced words with a weight below 0.01. The change of the log odds is then a sum, $\sum_t \alpha_t (v'_t - v_t)$: the replaced
# word's own term, and the terms of the other words, which can change only if their states do.

# %%
light = replaced[replaced["attention"] < 0.01]
effect = light.groupby("encoder", sort=False)[["own_term", "other_terms"]].mean()
effect["p moves by 0.05, weights fixed"] = (
    (light["change_fixed"] > 0.05).groupby(light["encoder"]).mean()
)
assert effect.iloc[0, -1] > 0.1 and effect.iloc[-1, -1] == 0
effect["words"] = light["encoder"].value_counts()
effect.round(2)

# %% [markdown]
# Neither explains it away. With all weights held fixed, a word with hardly any weight in the BiLSTM moves the log odds by almost nothing
# through its own term, and by a good deal through the states of other words. For about one such word in seven the probability moves
# by more than 0.05. In the "average" encoder that second way is closed, and none of them does.
#
# So in a model that mixes, the pale words of a heat map are not the words that the model does not use.

# %% [markdown]
# **Perhaps any BiLSTM mixes, trained or not.** Then mixing would be the architecture's doing and not something the task called for. An
# untrained one, with weights drawn at random, is the test.

# %%
untrained = new_classifier(model.config, vocabulary)
by_chance = everywhere(replacement.own_or_others, untrained, vocabulary, sample)
by_chance = by_chance.groupby("replaced")["state_change"].mean()
table = pd.DataFrame({"trained": state.loc["BiLSTM"], "untrained": by_chance[cases]}).T
assert by_chance["all other words"] < state.loc["BiLSTM", "all other words"]
table.round(1)

# %% [markdown]
# It mixes as well, though less: the other words move its states about half as far as all words do. In this one model training has added to that. So mixing comes
# with the architecture, before anything is learned. Which states can have read which words is known in advance, from the model's make,
# and should be asked before a heat map is read.

# %% [markdown]
# ## Try it yourself
#
# The neuron view (Vig 2019) takes one weight apart. Point at a token on the left, then click the plus sign beside it: you see its query,
# the keys, their products number by number, and the softmax of the sums. It is the calculation that you did
# above for head 0-2, on a shorter sentence; the figure there shows the same pattern. Choose another head: which of the 32 numbers do its
# work?

# %% tags=["nbval-ignore-output"]
neuron_view(
    encoder,
    "the dog chased the cat .",
    layers=[0],
    head=2,
    title="Layer 0, head 2: every token looks at the one before it",
)

# %% [markdown]
# ## Exercises
#
# A check says whether you are right, and if not, why. `ex.leaked.hint()` helps, `ex.leaked.solution()` shows an answer.

# %%
ex.leaked

# %% tags=["exercise"]
my_leaked = ...

# %%
ex.leaked.check(my_leaked)

# %%
ex.masked_softmax


# %% tags=["exercise"]
def my_masked_softmax(scores, mask):
    """Attention weights of one text.

    scores: (T,) tensor. mask: (T,) tensor of truth values, True at real tokens.
    Returns (T,) weights that sum to 1 and are exactly 0 at padding.
    """
    ...


# %%
ex.masked_softmax.check(my_masked_softmax)

# %%
ex.head


# %% tags=["exercise"]
def my_head(queries, keys, values):
    """Output of one head of self-attention.

    queries, keys: (T, D) tensors. values: (T, M) tensor.
    Returns (T, M): row i is the average of the values, weighted by how much i attends.
    """
    ...


# %%
one_head = ex.head.check(my_head).value

# %% [markdown]
# Give your head the identity matrix as values, and what comes out is $A$ itself. So it can be compared with all 72 heads of the encoder.

# %%
found = neurons(encoder, text)
identity = torch.eye(found.queries.shape[2])
largest = max(
    float((one_head(q, k, identity) - A).abs().max())
    for layers in zip(found.queries, found.keys, maps.attention[0], strict=True)
    for q, k, A in zip(*layers, strict=True)
)
print("all 72 heads agree to 1e-5:", largest < 1e-5)
assert largest < 1e-5

# %%
ex.reading

# %% tags=["exercise"]
my_reading = ...

# %%
ex.reading.check(my_reading)

# %%
ex.progress()

# %% [markdown]
# ## What to take away
#
# - Attention is an average: scores, softmax, weighted sum. Additive, dot-product and self-attention differ in who asks and how.
# - Padding must get the score $-\infty$. With the score 0 a prediction depends on its batch, and accuracy may not tell.
# - In self-attention `A[i][j]` is how much $i$ attends to $j$: rows look, columns are looked at.
# - A weight multiplies a state. In our BiLSTM a state owes more to its own word than to any other, but all others together shape it
#   nearly as much. Words without weight reach the prediction through it, and a heat map does not show them.

# %% [markdown]
# ## What this does not show
#
# - That heat maps are useless. On average the attended word moved its state far more than another single word, and where states do not mix, weight
#   and word belong together. Lesson 06 asks how well weights agree with other measures of importance.
# - Random words make odd sentences, which a model was not trained on. A gentler change, such as a synonym, may move states less.
# - The change of a state is measured at the most attended word only, with one trained model an encoder.
# - In a Transformer mixing goes on through six layers. Lesson 04 follows it.

# %% [markdown]
# ## Further reading
#
# - Bahdanau, D., Cho, K. & Bengio, Y. (2015). Neural Machine Translation by Jointly Learning to Align and Translate. *ICLR*.
# - Vaswani, A. et al. (2017). Attention Is All You Need. *NeurIPS*. Section 3.2, with the reason for the root.
# - Jain, S. & Wallace, B. C. (2019). Attention is not Explanation. *NAACL*. Section 3 and figure 1.
# - Vig, J. (2019). A Multiscale Visualization of Attention in the Transformer Model. *ACL, system demonstrations*.
