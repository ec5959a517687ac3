"""What a person sees: figures with a text alternative, token heat maps, views of heads, widgets."""

from course_utils.show import faithfulness, heads, layers, plots
from course_utils.show.bertviz import head_view, model_view, neuron_view
from course_utils.show.counterfactual import counterfactual
from course_utils.show.curves import curves
from course_utils.show.display import show, theme
from course_utils.show.explorer import explore_heads
from course_utils.show.geometry import slab
from course_utils.show.heatmap import attention_pair, heatmap
from course_utils.show.widgets import move_attention

__all__ = [
    "attention_pair",
    "counterfactual",
    "curves",
    "explore_heads",
    "faithfulness",
    "head_view",
    "heads",
    "heatmap",
    "layers",
    "model_view",
    "move_attention",
    "neuron_view",
    "plots",
    "show",
    "slab",
    "theme",
]
