"""Everything that produces attention."""

from course_utils.models.checkpoints import load_checkpoint, read_card
from course_utils.models.classifier import AttentionClassifier, ClassifierConfig
from course_utils.models.finetuned import EncoderClassifier, load_finetuned, logits_of
from course_utils.models.heads import gate_heads
from course_utils.models.maps import AttentionMaps
from course_utils.models.output import AttentionOutput
from course_utils.models.recipes import new_classifier
from course_utils.models.transformer import Encoder, load_encoder

__all__ = [
    "AttentionClassifier",
    "AttentionMaps",
    "AttentionOutput",
    "ClassifierConfig",
    "Encoder",
    "EncoderClassifier",
    "gate_heads",
    "load_checkpoint",
    "load_encoder",
    "load_finetuned",
    "logits_of",
    "new_classifier",
    "read_card",
]
