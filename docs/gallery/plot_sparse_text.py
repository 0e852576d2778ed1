"""
Sorting texts, and the words that tell
======================================

Texts as counts of words are wide and almost empty: thousands of columns, a few dozen numbers in
each row. A ridge classifier on them is hard to beat, quick to fit and easy to read. Centring,
which an intercept implies, would fill the matrix; ling does it by arithmetic and keeps the
matrix sparse.
"""

# %%
# Text collections have to be downloaded, so this one is drawn from a small topic model instead: a
# text has a main topic and a bit of others, and most of its words, by Zipf's law, belong to none.
# The words of the topics are real, the others made of syllables.
import itertools
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn import linear_model
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

import ling

TOPICS = {
    "cooking": "butter onion simmer oven garlic flour sauce recipe stir pan dough pepper slice",
    "sailing": "mast harbour anchor wind hull tide keel rope sail knot crew deck helm buoy",
    "music": "violin tempo chord melody rehearsal choir tune note pan scale bass rhythm key score",
    "gardening": "soil seed prune compost leaf root bulb hedge frost onion pepper slug rake bloom",
}
rng = np.random.default_rng(0)
syllables = ["ba", "do", "ke", "li", "mu", "na", "po", "ra", "se", "ti", "vo", "xu"]
fillers = np.array(["".join(s) for s in itertools.product(syllables, repeat=4)])
zipf = np.cumsum(1 / np.arange(1, len(fillers) + 1))
words = [topic.split() for topic in TOPICS.values()]


def text(main):
    """A text whose main topic is number `main`."""
    length = int(rng.lognormal(4, 0.5)) + 5
    mixture = rng.dirichlet(np.where(np.arange(len(words)) == main, 2.0, 0.2))
    n_topical = rng.binomial(length, 0.15)
    topical = [rng.choice(words[t]) for t in rng.choice(len(words), n_topical, p=mixture)]
    others = np.searchsorted(zipf, rng.uniform(0, zipf[-1], length - n_topical))
    return " ".join([*topical, *fillers[others]])


topic = rng.integers(0, len(TOPICS), 1800)
texts = [text(main) for main in topic]
names = np.array(list(TOPICS))
y = names[topic]
print(y[0], "-", texts[0][:90], "...")

# %%
# Words to columns. Kept as they come out of scikit-learn: a sparse matrix in CSR format.
vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2)
texts, texts_new, y, y_new = train_test_split(texts, y, test_size=800, random_state=0)
X, X_new = vectorizer.fit_transform(texts), vectorizer.transform(texts_new)
filled = X.nnz / (X.shape[0] * X.shape[1])
print(f"{X.shape[0]} texts x {X.shape[1]} words, {100 * filled:.2f} % of the entries are not 0")

# %%
# Classes may be words. Alpha is chosen by accuracy on five folds.
alphas = np.logspace(-2, 3, 21)
model = ling.RidgeClassifierCV(alphas, cv=5, scoring="accuracy").fit(X, y)
print(f"accuracy {model.score(X_new, y_new):.3f} with alpha = {model.alpha_:.3g}")
print(model.report_)

# %%
# Coefficients are in the units of the columns, and so can be put in order: these are the words
# that speak most for a topic, and most against it.
vocabulary = vectorizer.get_feature_names_out()
figure, axes = plt.subplots(1, 4, figsize=(10, 4), layout="constrained", sharex=True)
for ax, name, coef in zip(axes, model.classes_, model.coef_, strict=True):
    order = np.argsort(coef)
    shown = np.concatenate([order[:4], order[-8:]])
    colours = np.where(coef[shown] > 0, "#0072B2", "#D55E00")
    ax.barh(np.arange(12), coef[shown], color=colours)
    ax.set(yticks=np.arange(12), yticklabels=vocabulary[shown], title=name, xlabel="coefficient")
    ax.axvline(0, color="0.3", linewidth=0.8)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(left=False)
plt.show()

# %%
# scikit-learn's ``RidgeClassifierCV`` on the same folds fits once for each alpha and fold, ling
# factorises once for each fold. So it depends on the number of alphas who is faster: here with
# few and with many.
for some in (alphas[::4], alphas):
    for name, module in [("ling", ling), ("scikit-learn", linear_model)]:
        start = time.perf_counter()
        fit = module.RidgeClassifierCV(some, cv=5, scoring="accuracy").fit(X, y)
        seconds = time.perf_counter() - start
        print(f"{len(some):>2} alphas, {name:<13} alpha {fit.alpha_:.3g} in {seconds:.2f} s")
