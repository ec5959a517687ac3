"""One exception type a room; all of them are a CourseError, so that a lesson can catch what the course itself raises."""


class CourseError(ValueError):
    """Something the caller can fix. The message says what was wrong, the value, and what to do."""


class DataError(CourseError):
    """Texts, labels or files that cannot become a batch."""


class ModelError(CourseError):
    """A model that cannot be built, loaded, trained or asked this question."""


class NotLinearError(ModelError):
    """The decoder is not linear in the context vector, so per-token logit contributions do not exist."""


class AnalysisError(CourseError):
    """An experiment whose input makes no sense."""


class ShowError(CourseError):
    """A figure or view that cannot be drawn."""


class ExerciseError(CourseError):
    """An exercise that is unknown or badly defined."""
