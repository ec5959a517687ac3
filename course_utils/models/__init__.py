"""Everything that produces attention."""

from course_utils.models.classifier import AttentionClassifier, ClassifierConfig
from course_utils.models.output import AttentionOutput

__all__ = ["AttentionClassifier", "AttentionOutput", "ClassifierConfig"]
