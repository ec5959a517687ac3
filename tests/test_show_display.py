"""Figures reach the reader as images with a text, on white, and leave nothing behind."""

import base64
import io
import re
import subprocess
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from course_utils.errors import ShowError
from course_utils.show import show, theme
from course_utils.show.display import figure_html, figure_png

mpl.use("Agg")


def line():
    figure, axes = plt.subplots(figsize=(4, 3))
    axes.plot([1, 2, 3])
    return figure


@pytest.fixture
def fig():
    yield line()
    plt.close("all")


def picture(html: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(re.search(r"base64,([^\"]+)", html).group(1))))


def test_a_figure_becomes_an_image_with_its_text_and_is_closed(fig, monkeypatch):
    shown = []
    monkeypatch.setattr("course_utils.show.display.display", lambda bundle, raw: shown.append(bundle))
    show(fig, 'Rises "steadily" <b>')
    (bundle,) = shown
    assert 'alt="Rises &quot;steadily&quot; &lt;b&gt;"' in bundle["text/html"]
    assert bundle["text/plain"] == 'Rises "steadily" <b>'
    assert fig.number not in plt.get_fignums()


@pytest.mark.parametrize("alt", ["", "  ", None])
def test_a_figure_without_a_text_is_refused(fig, alt):
    with pytest.raises(ShowError, match="alt"):
        figure_html(fig, alt)


def test_axes_are_not_a_figure(fig):
    with pytest.raises(ShowError, match="Axes"):
        show(fig.axes[0], alt="a line")


def test_the_image_is_opaque_white_small_and_no_wider_than_the_page(fig):
    fig.set_facecolor("none")
    html = figure_html(fig, "a line")
    image = picture(html)
    assert "max-width:100%" in html and 'width="' in html
    assert image.convert("RGBA").getpixel((0, 0)) == (255, 255, 255, 255) and "transparency" not in image.info
    assert len(html) < 40_000


def test_the_same_figure_gives_the_same_bytes(fig):
    assert figure_png(fig) == figure_png(line())


def test_fewer_colours_never_change_what_is_seen():
    figure, axes = plt.subplots()
    axes.imshow(np.random.default_rng(0).random((60, 60, 3)))
    assert Image.open(io.BytesIO(figure_png(figure))).mode == "RGB"
    plt.close(figure)


def test_the_theme_ends_with_its_block():
    before = dict(mpl.rcParams)
    with theme():
        assert mpl.rcParams["font.family"][0] == "DejaVu Sans"
        assert not mpl.rcParams["axes.spines.top"]
    assert dict(mpl.rcParams) == before


def test_importing_the_room_changes_no_setting():
    code = "import matplotlib as m; a = dict(m.rcParams); import course_utils.show; assert dict(m.rcParams) == a"
    subprocess.run([sys.executable, "-c", code], check=True, env={"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"})
