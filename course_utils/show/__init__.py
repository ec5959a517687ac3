"""What a person sees: figures with a text alternative, token heat maps, widgets."""

from course_utils.show import plots
from course_utils.show.display import show, theme
from course_utils.show.geometry import slab
from course_utils.show.heatmap import attention_pair, heatmap
from course_utils.show.widgets import move_attention

__all__ = ["attention_pair", "heatmap", "move_attention", "plots", "show", "slab", "theme"]
