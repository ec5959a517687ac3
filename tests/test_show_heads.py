"""Figures of heads: what stands where, and what is refused."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import tiny
import torch

from course_utils.analysis import clustering, contribution, patterns
from course_utils.errors import ShowError
from course_utils.models import load_encoder
from course_utils.show.heads import dendrogram, flow_graph, head_grid, head_map
from course_utils.show.layers import by_layer, layer_head, lines_by_layer, place_or_words, weight_and_contribution

TITLE = "What it shows"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return load_encoder(tiny.save_bert(tmp_path_factory.mktemp("models") / "bert"))


@pytest.fixture(scope="module")
def maps(encoder):
    return encoder.attend(["the film was good ."])


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def table(values: list[list[float]]) -> pd.DataFrame:
    return pd.DataFrame(
        [(row, at, value) for row, line in enumerate(values) for at, value in enumerate(line)], columns=["layer", "head", "x"]
    )


def pictures(axes) -> list[np.ndarray]:
    return [np.asarray(image.get_array()) for image in axes.get_images()]


def test_the_grid_has_every_head_in_its_place(maps):
    fig = head_grid(maps, title=TITLE, layers=[1, 0])
    axes = fig.axes[0]
    found = {(image.get_extent()[3] // 1, image.get_extent()[0] // 1): np.asarray(image.get_array()) for image in axes.get_images()}
    for row, layer in enumerate([1, 0]):
        for head in range(maps.n_heads):
            np.testing.assert_allclose(found[row, head], maps.attention[0, layer, head])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "0"]
    assert axes.get_title(loc="left") == TITLE and axes.get_ylabel() == "layer" and axes.get_xlabel() == "head"


def test_one_head_is_drawn_with_the_looking_token_in_the_row(maps):
    axes = head_map(maps, 1, 2, title=TITLE).axes[0]
    np.testing.assert_allclose(pictures(axes)[0], maps.attention[0, 1, 2])
    assert [label.get_text() for label in axes.get_yticklabels()] == list(maps.tokens[0])
    assert "layer 1, head 2" in axes.get_xlabel() and axes.get_ylabel() == "looking"


def test_scores_stand_in_their_cells_and_signed_ones_are_centred():
    axes = layer_head(table([[0.2, 0.9], [0.5, np.nan]]), "x", title=TITLE).axes[0]
    image = axes.get_images()[0]
    assert np.isnan(pictures(axes)[0][1, 1]) or np.ma.getmaskarray(image.get_array())[1, 1]
    assert {(text.get_position(), text.get_text()) for text in axes.texts} == {((0, 0), "0.20"), ((1, 0), "0.90"), ((0, 1), "0.50")}
    assert image.get_clim() == (0, 0.9)
    assert layer_head(table([[-0.2, 0.1]]), "x", signed=True, title=TITLE).axes[0].get_images()[0].get_clim() == (-0.2, 0.2)


def test_tables_that_cannot_be_drawn_are_refused_with_the_reason():
    good = table([[0.2, 0.9]])
    for frame, column, message in (
        (good, "y", "no column y; it has the columns layer, head, x"),
        (table([[-0.2, 0.1]]), "x", "goes down to -0.2; use signed=True"),
        (pd.concat([good, good]), "x", "head 0-0 has several rows"),
        (table([[np.nan]]), "x", "no finite number"),
        (good[:0], "x", "has no rows"),
    ):
        with pytest.raises(ShowError, match=message):
            layer_head(frame, column, title=TITLE)


def test_lines_are_the_means_and_their_bands_the_intervals(encoder):
    frame = patterns.by_layer(patterns.patterns(encoder, tiny.TEXTS), n_resamples=50)
    axes = by_layer(frame, ["sparse", "relative_distance"], title=TITLE).axes[0]
    rows = frame[frame["score"] == "sparse"]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), rows["mean"])
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(rows["low"].min()) and band.max() == pytest.approx(rows["high"].max())
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["sparse", "relative distance"]
    assert axes.lines[0].get_marker() != axes.lines[1].get_marker()
    with pytest.raises(ShowError, match="no measure 'blur'; choose from previous"):
        by_layer(frame, ["blur"], title=TITLE)
    with pytest.raises(ShowError, match="1 to 8 fit"):
        by_layer(frame, title=TITLE)


def test_lines_by_layer_are_means_over_texts():
    frame = pd.DataFrame({"layer": [0, 0, 1, 1] * 2, "x": [1, 3, 2, 2, 5, 7, 0, np.nan], "kind": ["a"] * 4 + ["b"] * 4})
    axes = lines_by_layer(frame, "x", group="kind", title=TITLE).axes[0]
    drawn = [line.get_ydata().tolist() for line in axes.lines if len(line.get_ydata()) == 2]
    assert drawn[:2] == [[2, 2], [6, 0]]
    with pytest.raises(ShowError, match="9 values of kind are too many"):
        lines_by_layer(pd.DataFrame({"layer": 0, "x": 1, "kind": range(9)}), "x", group="kind", title=TITLE)


def test_weight_and_contribution_have_a_panel_each(encoder):
    frame = contribution.contributions(encoder, tiny.TEXTS)
    fig = weight_and_contribution(frame, title=TITLE)
    weights = frame[frame["token_class"] == "first"].groupby("layer")["attention"].mean()
    np.testing.assert_allclose(fig.axes[0].lines[0].get_ydata(), weights, rtol=1e-6)
    assert [axes.get_title(loc="left") for axes in fig.axes] == [
        "attention weight",
        "norm of what is read",
        "length of a value (word = 1)",
    ]
    assert fig.get_suptitle() == TITLE


def test_a_point_is_a_head_and_those_that_follow_places_are_named():
    rows = [(0, 0, 1.0, 0.25), (0, 0, 0.5, 0.25), (0, 1, 0.5, 1.0), (1, 0, 0.5, 0.4), (1, 1, 0.4, 0.9)]
    frame = pd.DataFrame(rows, columns=["layer", "head", "same_place", "same_words"])
    axes = place_or_words(frame, named=2, title=TITLE).axes[0]
    points = np.asarray(axes.collections[0].get_offsets())
    np.testing.assert_allclose(points, [[0.75, 0.25], [0.5, 1.0], [0.5, 0.4], [0.4, 0.9]])
    assert [text.get_text() for text in axes.texts][:2] == ["0-0", "1-0"] and axes.get_title(loc="left") == TITLE
    with pytest.raises(ShowError, match="same_words"):
        place_or_words(frame.drop(columns="same_words"), title=TITLE)
    with pytest.raises(ShowError, match="9 layers"):
        place_or_words(pd.DataFrame({"layer": range(9), "head": 0, "same_place": 1.0, "same_words": 1.0}), title=TITLE)


def test_the_maps_stand_in_the_trees_order(encoder, maps):
    tree = clustering.cluster(clustering.head_distances(encoder, tiny.TEXTS), 3)
    top, bottom = dendrogram(tree, maps, title=TITLE).axes
    names = [f"{leaf // maps.n_heads}-{leaf % maps.n_heads}" for leaf in tree.order]
    assert [label.get_text() for label in top.get_xticklabels()] == names == [text.get_text() for text in bottom.texts]
    for image, leaf in zip(pictures(bottom), tree.order, strict=True):
        np.testing.assert_allclose(image, maps.attention[0].flatten(0, 1)[leaf])
    with pytest.raises(ShowError, match="the tree has 6 heads, the maps have 2"):
        other = type(maps)(**{**vars(maps), "attention": maps.attention[:, :1, :2]})
        dendrogram(tree, other, title=TITLE)


def test_a_link_leads_from_the_token_read_up_to_the_token_reading():
    weights = torch.zeros(2, 3, 3)
    weights[0, 2, 0], weights[1, 1, 2], weights[1, 0, 0] = 0.5, 1.0, 0.01
    lines = flow_graph(weights, ["a", "b", "c"], title=TITLE).axes[0].collections[0]
    found = {
        tuple(map(tuple, link)): weight for link, weight in zip(np.array(lines.get_segments()), lines.get_array(), strict=True)
    }
    assert found == {((0, 0), (2, 1)): 0.5, ((2, 1), (1, 2)): 1.0}
    widths = dict(zip(map(str, lines.get_array()), lines.get_linewidths(), strict=True))
    assert widths["1.0"] > widths["0.5"]


def test_flow_and_grids_refuse_what_they_cannot_show(encoder, maps):
    with pytest.raises(ShowError, match=r"shape \(2, 3, 3\); 2 tokens need"):
        flow_graph(torch.ones(2, 3, 3), ["a", "b"], title=TITLE)
    for weights in (torch.zeros(1, 1, 1), -torch.ones(1, 1, 1), torch.full((1, 1, 1), torch.nan)):
        with pytest.raises(ShowError, match="must not be negative, nor all 0"):
            flow_graph(weights, ["a"], title=TITLE)
    with pytest.raises(ShowError, match="hold 2 texts"):
        head_grid(encoder.attend(["good", "the film"]), title=TITLE)
    with pytest.raises(ShowError, match="head 3 does not exist; there are heads 0 to 2"):
        head_map(maps, 0, 3, title=TITLE)
