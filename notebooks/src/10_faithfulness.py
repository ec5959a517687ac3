# %% [markdown]
# # Faithfulness
#
# What does a good explanation have to do, and does attention do it?
#
# **Time** 50 minutes. **Builds on** lessons 06 to 08: other measures of importance, shuffled and adversarial attention.
#
# Afterwards you will be able to
#
# - test an explanation by removing what it names: deletion curves, decision flips, comprehensiveness and sufficiency;
# - see when such a test favours one kind of measure for a reason of its own;
# - say what can be claimed today about attention as explanation, and for which task.

# %%
import math

import pandas as pd
from course_utils import exercises
from course_utils.analysis import faithfulness, flips, over
from course_utils.analysis.rankings import combine, rankings
from course_utils.data import load, make_batch, make_batches
from course_utils.models import load_checkpoint
from course_utils.reproduce import everything
from course_utils.reproduce.claims import verdicts
from course_utils.reproduce.measures import sample
from course_utils.show import show
from course_utils.show.claims import claims
from course_utils.show.faithfulness import by_task, curves, points

ex = exercises.load("10")

# %% [markdown]
# ## Predict first
#
# In a review sentence the most attended word is deleted, and the rest is read again. In what share of sentences does the model change
# its mind?

# %%
my_guess = 0.5  # between 0 and 1

# %% [markdown]
# ## The idea
#
# An explanation can be *plausible*, that is, convince a reader, or *faithful*, that is, tell what the model did (Jacovi & Goldberg
# 2020). One does not follow from the other. Plausibility takes readers to measure; faithfulness can be tested on the model: if these words
# were why, then without them the prediction must fall, and with them alone it must stand.
#
# Let $r$ be a rationale, some words of a text $x$, and $y$ the class predicted for $x$. DeYoung et al. (2020) measure
#
# $$\text{comprehensiveness} = p_y(x) - p_y(x \setminus r), \qquad \text{sufficiency} = p_y(x) - p_y(r).$$
#
# The first takes the rationale out and is good when **high**. The second keeps nothing else and is good when **low**: nothing is lost.

# %% [markdown]
# ### Five words by hand
#
# Here is a reader whose reasons we know, because we made it: *superb* decides, *dull* speaks against it, nothing else counts.

# %%
words = ["a", "superb", "but", "dull", "film"]
weight = {"superb": 3.0, "dull": -1.0}


def probability(tokens):
    return 1 / (1 + math.exp(-sum(weight.get(word, 0.0) for word in tokens)))


def erased_by_hand(probability, tokens, rationale):
    """Comprehensiveness and sufficiency; the rationale is a set of positions."""
    inside = [word for place, word in enumerate(tokens) if place in rationale]
    outside = [word for place, word in enumerate(tokens) if place not in rationale]
    whole = probability(tokens)
    return whole - probability(outside), whole - probability(inside)


print(f"the whole text: {probability(words):.2f}")
for place in (1, 3, 4):
    values = erased_by_hand(probability, words, {place})
    named = zip(("comprehensiveness", "sufficiency"), values, strict=True)
    print(f"{words[place]:7}", *(f"{name} {value:5.2f}" for name, value in named))

# %% [markdown]
# For *superb*, comprehensiveness is high, and sufficiency is low, even below zero: alone, without *dull* beside it, the word makes the
# reader surer than the whole text does. For *dull* it is the other way round, and *film* changes nothing when it goes and says nothing
# when it is alone (probability one half). Whoever swaps the two measures would find that *dull* is why the reader liked the film.

# %% [markdown]
# ## On real text
#
# The model is a BiLSTM with additive attention on review sentences. `rankings` computes every measure of importance of this course.
# Two of them, attention x gradient and integrated gradients, have a *sign*: they put words that speak against the prediction last. We
# add their sizes, which do not. `combine` averages the ranks of several measures; the two combinations are for later.


# %%
def prepared(name, n_texts=150):
    """A checkpoint, test texts in batches, and every measure of importance."""
    dataset = load(name.rsplit("-", 2)[0])
    model, vocabulary = load_checkpoint(name)
    texts = sample(dataset.test, n_texts)
    batches = make_batches(texts, vocabulary, token_budget=4096)
    scores = over(rankings, model, batches).drop(columns="convergence_delta")
    signed = ["attention_gradient", "integrated_gradients"]
    for measure in signed:
        scores[f"{measure} (size)"] = scores[measure].abs()
    unsigned = ["attention", "gradient", "leave_one_out"]
    scores = combine(scores, unsigned, "combined, unsigned")
    return model, batches, combine(scores, signed, "combined, signed")


model, batches, scores = prepared("rotten_tomatoes-bilstm-additive")
first = scores[scores["input"] == 0].set_index("token")
shown = ["attention", "gradient", "leave_one_out", "integrated_gradients"]
first[shown].round(3).head(8)

# %% [markdown]
# First the definition, by hand, on this sentence: the rationale is the most attended tenth of its words. The package must agree.

# %%
_, vocabulary = load_checkpoint("rotten_tomatoes-bilstm-additive")
tokens, predicted = list(first.index), int(first["predicted_class"].iloc[0])


def by_model(tokens):
    batch = make_batch([" ".join(tokens)], vocabulary)
    return float(model(batch).probabilities[0, predicted].detach())


tenth = math.ceil(len(tokens) / 10)
order = sorted(range(len(tokens)), key=lambda place: -first["attention"].iloc[place])
by_hand = erased_by_hand(by_model, tokens, set(order[:tenth]))
table = over(
    faithfulness.eraser,
    model,
    batches,
    scores=scores,
    shares=[0.1],
    methods=["attention"],
)
by_package = table.loc[0, ["comprehensiveness", "sufficiency"]]
print("rationale:", [tokens[place] for place in order[:tenth]])
print("by hand", [round(value, 3) for value in by_hand])
assert all(abs(a - b) < 1e-4 for a, b in zip(by_hand, by_package, strict=True))

# %% [markdown]
# ### Removing the top words
#
# Take out the one, two, three or five most important words by each measure, encode what is left anew, and see how far the probability
# of the predicted class falls.

# %%
removed = over(
    faithfulness.removal,
    model,
    batches,
    scores=scores,
    amounts=(1, 2, 3, 5),
    methods=["attention", "gradient", "leave_one_out", "random"],
)
one = removed[removed["amount"] == 1].groupby("method")["flipped"].mean()
print("share of decisions that flip without one word")
print(one.rename_axis(None).round(2).to_string())
print(f"your guess for attention: {my_guess}")
assert 0.15 < one["attention"] < 0.35 and one["random"] < 0.08

# %% tags=["nbval-ignore-output"]
by_amount = faithfulness.intervals(removed, "change", by="amount")
show(
    curves(by_amount),
    alt="Fall of the predicted probability when one to five words are removed. Leave-one-out falls most, gradient and "
    "attention lie close together below it, and random removal stays far below all three.",
)

# %% [markdown]
# All three measures name words that matter: far above random. Leave-one-out is best at one word almost *by construction*, since it ranks
# words by the size of this very change. Attention and gradient can hardly be told apart here.

# %% [markdown]
# ### Comprehensiveness and sufficiency
#
# The rationale is now the most important 1, 5, 10, 20 and 50 % of the words, and the table shows the mean over these five (the area over
# the perturbation curve, AOPC), with 95 % intervals over texts.


# %%
def erase(model, batches, scores):
    """Both measures, by method: means over the texts with their intervals."""
    means = faithfulness.aopc(over(faithfulness.eraser, model, batches, scores=scores))
    measures = ("comprehensiveness", "sufficiency")
    tables = [
        faithfulness.intervals(means, name, baseline="gradient") for name in measures
    ]
    return pd.concat(tables)


def means(table, *columns):
    wide = table.pivot(index="method", columns="measure", values=["mean", *columns])
    return wide.swaplevel(axis=1).sort_index(axis=1, level=0, sort_remaining=False)


erased = erase(model, batches, scores)
single = erased[~erased["method"].str.startswith("combined")]
both = means(single, "low", "high")
both.sort_values(("comprehensiveness", "mean"), ascending=False).round(2)

# %% tags=["nbval-ignore-output"]
show(
    points(single[single["measure"] == "comprehensiveness"]),
    alt="Mean comprehensiveness by measure with intervals. Signed integrated gradients and signed attention x gradient "
    "lead at about 0.38; the sizes of the same two measures fall back to the group of attention, gradient and "
    "leave-one-out between 0.22 and 0.27; random is at 0.06.",
)

# %% [markdown]
# Read the same measure with and without its sign. With it, integrated gradients lead clearly. Without it they are back among the
# others. A measure that may put the opposing words last is rewarded by a test that looks for a *falling* probability: taking out *dull*
# would raise it. The lead belongs to the pair of measure and test. It shows that the sign is informative, not that integrated
# gradients know better *which* words matter.

# %%
fall = both["comprehensiveness"]["mean"]
gain = fall["integrated_gradients"] - fall["integrated_gradients (size)"]
print(f"what the sign adds: {gain:.2f}")
assert gain > 0.08 and fall["attention"] > 0.15
assert abs(fall["attention"] - fall["gradient"]) < 0.05

# %% [markdown]
# ### Decision flips
#
# Serrano & Smith (2019) leave the text and its states alone and set weights to zero. Does the decision flip without the most attended
# item? Without a random other one?

# %%
flipped = flips.outcomes(over(flips.decision_flips, model, batches))
flipped.set_index("method")[["mean", "low", "high"]].round(3)

# %%
needed = over(flips.items_to_flip, model, batches, scores=scores)
share = needed.groupby("method", sort=False)["fraction"].mean()
share = share.drop(["combined, unsigned", "combined, signed"])
assert share.idxmin() == "attention_gradient"
share.sort_values().round(2).to_frame("share of items until the decision flips")

# %% [markdown]
# The second table is the share of items that must lose their weight until the decision flips; fewer is better. Attention x gradient
# needs the fewest, and *must*: with two classes and a linear decoder it sorts the very terms of the sum that decides. It is the floor,
# not a discovery. By attention it takes about two thirds of the items.

# %% [markdown]
# ### Three tasks side by side
#
# Now the same on stories with a question and on pairs of premise and hypothesis, where lesson 07 found that the weights are needed. Words
# are removed from the story or the premise; the question or the hypothesis stays.

# %%
tasks = {
    "sentiment": (model, batches, scores),
    "question about a story": prepared("stories-1-bilstm-additive"),
    "premise and hypothesis": prepared("entailment-bilstm-additive"),
}
tables = {"sentiment": erased}
for name, task in tasks.items():
    if name not in tables:
        tables[name] = erase(*task)
tables = pd.concat([table.assign(task=name) for name, table in tables.items()])

# %% tags=["nbval-ignore-output"]
ranked = list(both.sort_values(("comprehensiveness", "mean")).index[::-1])
single = tables[~tables["method"].str.startswith("combined")]
single = single.sort_values("method", key=lambda m: m.map(ranked.index), kind="stable")
show(
    by_task(
        single[single["measure"] == "comprehensiveness"],
        title="Comprehensiveness differs more between tasks than between measures",
    ),
    alt="Comprehensiveness of seven measures and random on three tasks. Sentiment: 0.22 to 0.39, random 0.06. Question about "
    "a story: 0.83 to 0.97, random 0.30. Premise and hypothesis: 0.53 to 0.76, random 0.26; there the gradient is "
    "below attention.",
)

# %%
wide = tables.pivot(index="method", columns=["measure", "task"], values="mean")
wide = wide[[(measure, task) for measure in wide.columns.levels[0] for task in tasks]]
fall, loss = wide["comprehensiveness"], wide["sufficiency"]
assert fall.loc["attention", "question about a story"] > 0.75
attention = wide.loc["attention"]
random = wide.loc["random"]
assert (attention["comprehensiveness"] > random["comprehensiveness"]).all()
assert (attention["sufficiency"] < random["sufficiency"]).all()
wide.round(2)

# %% [markdown]
# Is attention better than the gradient? Here is the difference, attention minus gradient, text by text, with its 95 % interval. An
# interval that holds zero leaves the question open.

# %%
versus = tables[tables["method"] == "attention"].set_index(["measure", "task"])
versus = versus[["difference", "difference_low", "difference_high"]]
versus.round(2) + 0.0

# %% [markdown]
# On reviews and stories predictions fall alike without the words that either names. Sufficiency, where low is good, is worse for
# attention: a little on reviews, clearly on stories, where what it names is *not enough*. The likely reason is what lesson 06 saw: it
# names the place where the answer stands and leaves out the person whom the question is about. On pairs predictions fall further without
# the words that attention names. Two tests, two answers: they ask for different things, and so do people who ask whether attention is
# faithful.
#
# And when weights are set to zero?

# %%
rows = {}
for name, (task_model, task_batches, task_scores) in tasks.items():
    outcome = flips.outcomes(over(flips.decision_flips, task_model, task_batches))
    outcome = outcome.set_index("method")["mean"]
    items = over(flips.items_to_flip, task_model, task_batches, scores=task_scores)
    items = items.groupby("method")["fraction"].mean()
    rows[name] = {
        "flips without the top item": outcome["top"],
        "without a random other": outcome["random"],
        "items to flip, attention": items["attention"],
        "attention x gradient": items["attention_gradient"],
    }
by_weight = pd.DataFrame(rows).T
assert by_weight["flips without the top item"].iloc[0] < 0.3
assert (by_weight["flips without the top item"].iloc[1:] > 0.5).all()
by_weight.round(3)

# %% [markdown]
# The top item alone decides one review in six, and more than half of the questions and pairs. In the last two columns attention
# comes close to attention x gradient on the tasks with two texts and stays far behind it on reviews. The task decides more than anything
# else in this lesson.

# %% [markdown]
# ### Combining several measures
#
# The mean rank of attention, gradient and leave-one-out is `combined, unsigned` in the table above; that of attention x gradient and
# integrated gradients is `combined, signed`. Is a committee better than its members?

# %%
unsigned = ["attention", "gradient", "leave_one_out"]
signed = ["attention_gradient", "integrated_gradients"]
rows = {}
for name, members in (("combined, unsigned", unsigned), ("combined, signed", signed)):
    rows[name, "comprehensiveness"] = fall.loc[name] - fall.loc[members].max()
    rows[name, "sufficiency"] = loss.loc[members].min() - loss.loc[name]
committee = pd.DataFrame(rows).T.round(2)
assert (committee.loc["combined, unsigned"] < 0).all(axis=None)
committee

# %% [markdown]
# Each number is the committee's lead over its best member; below zero, the best member alone does better. The first committee never
# leads: it holds leave-one-out, which nearly *is* the test, and two measures that dilute it. The second names rationales that are
# somewhat more sufficient than those of its members, and hardly more comprehensive. Combining protects against the worst
# member and can add a little. It does not turn hints into reasons.

# %% [markdown]
# ### What else deletion does
#
# A text with holes is a text the model was never trained on. How much does that disturb by itself? Take the half of the words with the
# *least* attention. Delete them and encode anew, or leave the text alone and set their weights to zero.

# %%
rows = {}
for name, (task_model, task_batches, task_scores) in tasks.items():
    table = task_scores.assign(least=-task_scores["attention"])
    kept = {"scores": table, "methods": ["least", "random"]}
    gone = over(faithfulness.removal, task_model, task_batches, amounts=(0.5,), **kept)
    items = over(flips.items_to_flip, task_model, task_batches, **kept)
    items = items[items["method"] == "least"]
    half = items["n_tokens"] / 2 + 0.6  # rounded up, as by removal
    gone = gone.groupby("method")["flipped"].mean()
    rows[name] = {
        "weights set to zero": (items["fraction"] * items["n_tokens"] < half).mean(),
        "words deleted": gone["least"],
        "a random half deleted": gone["random"],
    }
least = pd.DataFrame(rows).T.rename_axis("flips without the least attended half")
assert least["weights set to zero"].max() < 0.02
assert least.loc["question about a story", "words deleted"] > 0.2
least.round(2)

# %% [markdown]
# These words have next to no weight, and without their weight no decision flips. When the words themselves are deleted, many
# do: on pairs more than four in ten. There are two readings, and this test cannot tell them apart:
#
# - the words mattered *without being attended to*, through the states of their neighbours: then attention overlooked them;
# - the model never saw such a text and stumbles over it: then nothing follows about attention.
#
# So conclusions from deletion hold *relative to random deletion* (third column), which stumbles too, and differences between
# measures are safer than any measure's own figure.

# %% [markdown]
# ## The claim: what of the debate holds in our own data
#
# Serrano & Smith (2019) report how often the decision flips without *only* the most attended item or *only* a random one. Their
# figures are quoted from memory (M). Also from memory: in their hierarchical models an item of the last attention is a sentence; here it is
# a word.

# %%
theirs = pd.DataFrame(
    {
        "Yahoo (M)": (8.7, 1.3),
        "IMDB (M)": (12.2, 1.4),
        "Amazon (M)": (7.6, 2.7),
        "Yelp (M)": (8.9, 1.9),
    },
    index=["only the top item flips, %", "only a random one flips, %"],
)
ours = flipped.set_index("method")["mean"]
theirs["ours, reviews"] = [100 * ours["top_only"], 100 * ours["random_only"]]
theirs.T.round(1)

# %% [markdown]
# The same picture: the top item beats a random one many times over, and yet most decisions stay without it. Ours is a little higher
# than their highest, with items that are smaller. Their conclusion, that attention is a noisy guide to what matters, fits our reviews. It
# does not carry over to the two tasks above, which their study does not have.
#
# ### Claims checked
#
# The claims of lessons 06 to 10, each put to our own runs over seeds. A claim **agrees** if the whole 95 % interval of the difference
# lies on its side of zero, **differs** if it lies on the other side, and is **open** if the interval holds zero. One seed gives a verdict
# without an interval.

# %%
found = verdicts(everything())
checked = found[found["lesson"].between("06", "10")]
pd.set_option("display.max_colwidth", 140)
by_key = checked.set_index("key")["verdict"]
assert by_key["erasing-attended"] == by_key["flips-sentiment"] == "agrees"
checked.set_index("lesson")[["claim", "published", "certainty", "seeds", "verdict"]]

# %% tags=["nbval-ignore-output"]
show(
    claims(checked),
    alt="Margin by which each tested claim holds, with its 95 % interval over seeds. Most lie to the right of zero and agree. "
    "Among the open ones are that gradients do better than attention on reviews, and that most decisions stay in question "
    "answering; that trained adversaries get less far differs.",
)

# %% [markdown]
# Three rows need a word. They are claims that popular summaries attach to papers.
#
# - *Jain & Wallace perturbed the input a little.* They did not. They keep the text and the encoder and change the **weights** (P). Who
#   repeats the summary is talking about another experiment, of which theirs says nothing.
# - *Vig & Belinkov (2019) move weight from head A to head B.* It is not in the abstract of that paper, and we did not find it elsewhere.
#   Lesson 14 runs the experiment and ascribes it to nobody.
# - *Removing highly attended words hurts more*, ascribed to a paper by Wei and others of 2021. We could not identify it. The claim itself
#   needs no authority: the deletion above is that experiment, and here it agrees.
#
# ### Today's consensus
#
# Three texts to have read, in our words and from memory (M):
#
# - Jacovi & Goldberg (2020): whether people like an explanation says nothing of its faithfulness, so do not let them judge it. And do not
#   ask *whether* a method is faithful but *how far*, for which model, task and input.
# - Bastings & Filippova (2020): if the question is which *input words* matter, methods made for that (gradients, occlusion) are the place
#   to look. Attention weighs states, and remains a fair object of study for those who ask how a model works.
# - Bibal et al. (2022): the two sides of the debate used different tasks, models and meanings of "explanation". Much of what looked like
#   contradiction is a difference of questions.
#
# Our figures fit the first and the third closely: with one recipe for the model, the answer ran from "a weak hint" to "close to the whole
# decision" as the task changed. They temper the second. On reviews the gradient is no more comprehensive than attention (open over
# our seeds) and on pairs it is less so; only by sufficiency, and clearly only on stories, is it better.

# %% [markdown]
# ## Try it yourself
#
# Delete a word and watch the prediction. Which single word does the model need? (The table of the first sentence above is the starting
# point, in case the menu does not appear in your viewer.)

# %% tags=["nbval-ignore-output"]
from ipywidgets import IntSlider, Text, interactive


def delete(sentence, position):
    """The probability of the positive class with and without one word."""
    tokens = sentence.split()
    shorter = tokens[:position] + tokens[position + 1 :]
    for name, text in (("with", sentence), ("without", " ".join(shorter) or ".")):
        p = float(model(make_batch([text], vocabulary)).probabilities[0, 1].detach())
        print(f"{name:8} {p:.2f}  {text}")


interactive(
    delete,
    sentence=Text("a superb but dull film", layout={"width": "90%"}),
    position=IntSlider(1, min=0, max=10),
)

# %% [markdown]
# ## Exercises
#
# A check says whether you are right, and if not, why. `ex.aopc.hint()` helps, `ex.aopc.solution()` shows an answer.

# %%
ex.aopc


# %% tags=["exercise"]
def my_aopc(probability, tokens, order, shares):
    """Mean comprehensiveness over rationales of growing size.

    probability: function from a list of tokens to the probability of the class predicted for all of them;
    tokens: list of words; order: all positions, most important first;
    shares: numbers in (0, 1); a share of the text is rounded up to whole tokens, and is never all of them.
    """
    ...


# %%
aopc = ex.aopc.check(my_aopc).value
value = aopc(by_model, tokens, order, faithfulness.SHARES)
print(f"the sentence above, by attention: {value:.3f}")

# %%
ex.items_to_flip


# %% tags=["exercise"]
def my_items_to_flip(attention, token_logits, order):
    """How many items must lose their attention, in this order, until the sign of the log odds changes.

    attention, token_logits: lists of T numbers; order: all positions, first to remove first.
    The rest is renormalised; at least one item stays. None if the sign never changes.
    """
    ...


# %%
ex.items_to_flip.check(my_items_to_flip)

# %%
ex.signed

# %% tags=["exercise"]
my_signed = ...

# %%
ex.signed.check(my_signed)

# %%
ex.progress()

# %% [markdown]
# ## What to take away
#
# - Faithfulness can be tested by removal. Attention passes the weakest form of the test, better than random, on every task here.
# - How well it does depends on the task: a hint in sentiment, much more where one text asks about another. Even there the words it
#   names may not be enough by themselves.
# - A test has preferences of its own. Compare signed with signed and size with size, and name what wins by construction.
# - "Which weights decide" and "which words decide" are two questions. Setting weights to zero answers the first, deletion the second.

# %% [markdown]
# ## What this does not show
#
# - Whether a word mattered or its absence confused the model: deletion mixes the two, and random deletion measures the second only in part.
# - Anything about people. A faithful explanation may be of no use to them, and a useful one unfaithful.
# - Anything about heads or layers. Comprehensiveness and sufficiency test words; part 3 turns to the inside of the model.
# - Our tasks with two texts are made by a generator, with one trained model each. The figures say what can happen, not what happens in
#   every task of that kind.

# %% [markdown]
# ## Further reading
#
# - Jacovi, A. & Goldberg, Y. (2020). Towards faithfully interpretable NLP systems. *ACL*.
# - DeYoung, J. et al. (2020). ERASER: A benchmark to evaluate rationalized NLP models. *ACL*.
# - Serrano, S. & Smith, N. A. (2019). Is attention interpretable? *ACL*.
# - Bastings, J. & Filippova, K. (2020). The elephant in the interpretability room. *BlackboxNLP*.
# - Bibal, A. et al. (2022). Is attention explanation? An introduction to the debate. *ACL*.
# - Vig, J. & Belinkov, Y. (2019). Analyzing the structure of attention in a transformer language model. *BlackboxNLP*.
