"""A framed message in a notebook: an icon, a word and a colour that say the same; plain text where HTML is not shown."""

import html
from dataclasses import dataclass

_STYLES = {"right": ("✔", "#0b6e4f"), "wrong": ("✘", "#b3261e"), "not tried yet": ("○", "#5f6368"), "info": ("ℹ", "#1f5fa8")}
_FRAME = "background:#fff;color:#1b1b1b;padding:.5em .8em;margin:.3em 0"


@dataclass(frozen=True, repr=False)
class Panel:
    """Displays as HTML with its own background, readable in a light and a dark theme.

    Args:
        style: "right", "wrong", "not tried yet" or "info".
        heading: plain text; it is escaped.
        body: HTML, escaped by the caller.
        text: the same for readers without HTML; it depends on nothing but the content, so nbval can compare it.
    """

    style: str
    heading: str
    body: str
    text: str

    def _repr_html_(self) -> str:
        icon, colour = _STYLES[self.style]
        body = f'<div style="overflow-wrap:anywhere">{self.body}</div>' if self.body else ""
        return (
            f'<div role="status" style="border-left:6px solid {colour};{_FRAME}">'
            f'<strong style="color:{colour}"><span aria-hidden="true">{icon}</span> {html.escape(self.heading)}</strong>'
            f"{body}</div>"
        )

    def __repr__(self) -> str:
        return self.text
