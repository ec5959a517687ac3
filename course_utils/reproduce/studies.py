"""The studies, in the order of the lessons."""

from course_utils.errors import CourseError
from course_utils.reproduce import development, encoder, heads, moving, probing, pruning, roles
from course_utils.reproduce.study import Study

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (encoder.STUDY, heads.STUDY, roles.STUDY, probing.STUDY, pruning.STUDY, moving.STUDY, development.STUDY)
}


def study_of(name: str) -> Study:
    """The study of this name.

    Raises:
        CourseError: there is none.
    """
    if name not in STUDIES:
        raise CourseError(f"there is no study {name!r}; choose one of {', '.join(STUDIES)}")
    return STUDIES[name]
