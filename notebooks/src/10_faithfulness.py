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
from course_utils.reproduce import results
from course_utils.reproduce.claims import verdicts
from course_utils.reproduce.measures import sample
from course_utils.show import show
from course_utils.show.faithfulness import curves, points

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
# 2020). The two are independent. A faithful one can be tested without any reader: if these words were why, then without them the
# prediction must fall, and with them alone it must stand.

# %% [markdown]
# ### Five words by hand
#
# Here is a reader whose reasons we know, because we made it: *superb* decides, *dull* speaks against it, nothing else counts.

# %%
words = ["a", "superb", "but", "dull", "film"]
weight = {"superb": 3.0, "dull": -1.0}


def probability(tokens):
    return 1 / (1 + math.exp(-sum(weight.get(word, 0.0) for word in tokens)))


whole = probability(words)
print(f"the whole text: {whole:.2f}")
for rationale in (["superb"], ["dull"], ["film"]):
    without = [word for word in words if word not in rationale]
    comprehensiveness = whole - probability(without)
    sufficiency = whole - probability(rationale)
    print(f"{rationale[0]:7} comprehensiveness {comprehensiveness:5.2f}", end="")
    print(f"   sufficiency {sufficiency:5.2f}")

# %% [markdown]
# DeYoung et al. (2020) call the fall without the rationale **comprehensiveness** (high is good) and the fall with the rationale alone
# **sufficiency** (low is good). For *superb* they are high and below zero, as they must be for the word that decides. *dull* has a
# negative comprehensiveness: without it the model is surer.

# %% [markdown]
# ## On real text
#
# The model is a BiLSTM with additive attention on review sentences. `rankings` computes every measure of importance of this course.
# Two of them, attention x gradient and integrated gradients, have a *sign*: they put words that speak against the prediction last. We
# add their sizes, which do not.


# %%
def prepared(name, n_texts=150):
    """A checkpoint, its test texts in batches, and every measure of importance."""
    dataset = load(name.rsplit("-", 2)[0])
    model, vocabulary = load_checkpoint(name)
    texts = sample(dataset.test, n_texts)
    batches = make_batches(texts, vocabulary, token_budget=4096)
    scores = over(rankings, model, batches).drop(columns="convergence_delta")
    for signed in ("attention_gradient", "integrated_gradients"):
        scores[f"{signed} (size)"] = scores[signed].abs()
    return model, batches, scores


model, batches, scores = prepared("rotten_tomatoes-bilstm-additive")
first = scores[scores["input"] == 0].set_index("token")
first[["attention", "gradient", "leave_one_out", "integrated_gradients"]].round(3)

# %% [markdown]
# ### Removing the top words
#
# Take out the one, two, three or five most important words by each measure, encode what is left anew, and see how far the probability
# of the predicted class falls.

# %%
unsigned = ["attention", "gradient", "leave_one_out", "random"]
removed = over(
    faithfulness.removal,
    model,
    batches,
    scores=scores,
    amounts=(1, 2, 3, 5),
    methods=unsigned,
)
one = removed[removed["amount"] == 1].groupby("method")["flipped"].mean()
print(one.round(2).to_string())
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
# All three measures name words that matter: far above random. Leave-one-out is best at one word *by construction*, since it is this
# very test. Attention and gradient cannot be told apart here.

# %% [markdown]
# ### Comprehensiveness and sufficiency

# %%
erased = faithfulness.aopc(over(faithfulness.eraser, model, batches, scores=scores))
parts = {
    name: faithfulness.intervals(erased, name).set_index("method")[
        ["mean", "low", "high"]
    ]
    for name in ("comprehensiveness", "sufficiency")
}
table = pd.concat(parts, axis=1).round(2)
table.sort_values(("comprehensiveness", "mean"), ascending=False)

# %% tags=["nbval-ignore-output"]
show(
    points(faithfulness.intervals(erased, "comprehensiveness")),
    alt="Mean comprehensiveness by measure with intervals. Signed integrated gradients and signed attention x gradient "
    "lead at about 0.38; the sizes of the same two measures fall back to the group of attention, gradient and "
    "leave-one-out between 0.22 and 0.27; random is at 0.06.",
)

# %% [markdown]
# Read the same measure with and without its sign. With it, integrated gradients lead clearly. Without it they are back among the
# others. A measure that may put the opposing words last is rewarded by a test that looks for a *falling* probability. That is a
# property of the test, not better knowledge of what matters.

# %%
with_sign, size = (
    parts["comprehensiveness"].loc[name, "mean"]
    for name in ("integrated_gradients", "integrated_gradients (size)")
)
assert with_sign - size > 0.08
assert parts["comprehensiveness"].loc["attention", "mean"] > 0.15

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
share.sort_values().round(2)

# %% [markdown]
# The second table is the share of items that must lose their weight until the decision flips; fewer is better. Attention x gradient
# needs the fewest, and *must*: with a linear decoder it sorts the very terms of the sum that decides. It is the floor, not a discovery.
# Attention needs about two thirds of the items.

# %% [markdown]
# ### Three tasks side by side
#
# Now the same on stories with a question and on pairs of premise and hypothesis.

# %%
tasks = {
    "sentiment": (model, batches, scores),
    "question about a story": prepared("stories-1-bilstm-additive"),
    "premise and hypothesis": prepared("entailment-bilstm-additive"),
}
columns = {}
for name, (task_model, task_batches, task_scores) in tasks.items():
    table = combine(task_scores, ["attention", "gradient", "leave_one_out"])
    result = faithfulness.aopc(
        over(faithfulness.eraser, task_model, task_batches, scores=table)
    )
    columns[name] = result.groupby("method", sort=False)["comprehensiveness"].mean()
comparison = pd.DataFrame(columns)
assert comparison.loc["attention", "question about a story"] > 0.75
comparison.round(2)

# %%
tops = {}
for name, (task_model, task_batches, _) in tasks.items():
    outcome = flips.outcomes(over(flips.decision_flips, task_model, task_batches))
    tops[name] = outcome.set_index("method")["mean"][["top", "random"]]
pd.DataFrame(tops).T.round(3)

# %% [markdown]
# The most attended word decides one review in six, and about two thirds of the questions and pairs. On pairs attention is the better
# unsigned measure than the gradient; on reviews the two are alike. The task matters more than the choice between these two.
#
# The last row, `combined`, is the mean rank of three measures. It lies between its parts and is never the best.

# %% [markdown]
# ## The claim: what of the debate holds in our own data
#
# The claims of lessons 06, 07, 08 and 10, each with its verdict over seeds. A claim agrees if the whole 95 % interval
# of the difference lies on its side, and is open if the interval holds zero.

# %%
found = verdicts(results())
chosen = found[found["lesson"].isin(["06", "07", "08", "10"])]
pd.set_option("display.max_colwidth", 120)
chosen.set_index("claim")[["paper", "certainty", "seeds", "verdict"]]

# %% [markdown]
# The last rows are claims that popular summaries attach to papers. Jain & Wallace did *not* perturb the input: they keep the text and
# the encoder and change the weights (P). That weight can be moved from one head to another without effect is not in the abstract of Vig &
# Belinkov (2019), to which it is ascribed; lesson 14 runs the experiment. That removing highly attended tokens hurts more than random ones
# is ascribed to a paper of 2021 that we could not find; the deletion above is that experiment, and it does.
#
# ### Today's consensus
#
# Bibal et al. (2022) review the debate and find that its sides asked different questions, about different tasks and kinds of model.
# Bastings & Filippova (2020) argue that whoever wants to know which *inputs* matter should use a method made for that, and keep
# attention for questions about the model's inner workings. Our figures fit both, and temper the second: on two of three tasks attention
# was no worse than the gradient.

# %% [markdown]
# ## Try it yourself
#
# Delete a word and watch the prediction. Which single word does the model need? (The table of the first sentence above is the starting
# point, in case the menu does not appear in your viewer.)

# %% tags=["nbval-ignore-output"]
from ipywidgets import IntSlider, Text, interactive

_, vocabulary = load_checkpoint("rotten_tomatoes-bilstm-additive")


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
# A check says whether you are right, and if not, why. `ex.erasure.hint()` helps, `ex.erasure.solution()` shows an answer.

# %%
ex.erasure


# %% tags=["exercise"]
def my_erasure(probability, tokens, rationale):
    """Comprehensiveness and sufficiency of a rationale.

    probability: function from a list of tokens to the probability of the class predicted for all of them;
    tokens: list of words; rationale: set of positions.
    Returns a pair (comprehensiveness, sufficiency).
    """
    ...


# %%
erasure = ex.erasure.check(my_erasure).value
print([round(value, 2) for value in erasure(probability, words, {1})])

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
# - Faithfulness can be tested by removal. Attention passes the weakest form of the test, better than random, on every task.
# - How well it does depends on the task: a hint in sentiment, close to the whole story where one text asks about another.
# - A test has preferences of its own. Compare signed with signed and size with size before you rank measures.

# %% [markdown]
# ## What this does not show
#
# - A text with deleted words is not one the model was trained on. A fall of the probability mixes "this word mattered" with "this text is
#   odd". Random removal measures the second in part.
# - Comprehensiveness and sufficiency test the model's words, not its states or heads. Part 3 turns to those.
# - Our two-text tasks are made by a generator. The figures say what can happen, not what happens in every task of that kind.

# %% [markdown]
# ## Further reading
#
# - Jacovi, A. & Goldberg, Y. (2020). Towards faithfully interpretable NLP systems. *ACL*.
# - DeYoung, J. et al. (2020). ERASER: A benchmark to evaluate rationalized NLP models. *ACL*.
# - Serrano, S. & Smith, N. A. (2019). Is attention interpretable? *ACL*.
# - Bastings, J. & Filippova, K. (2020). The elephant in the interpretability room. *BlackboxNLP*.
# - Bibal, A. et al. (2022). Is attention explanation? An introduction to the debate. *ACL*.
# - Vig, J. & Belinkov, Y. (2019). Analyzing the structure of attention in a transformer language model. *BlackboxNLP*.
