"""Where the course's own files live."""

from pathlib import Path

from course_utils.errors import DataError

ROOT = Path(__file__).resolve().parent.parent


def data_file(*parts: str) -> Path:
    """Path of a file or folder below the course's `data/`.

    Raises:
        DataError: it does not exist, for instance because the package was installed without its repository.
    """
    path = ROOT.joinpath("data", *parts)
    if not path.exists():
        raise DataError(f"{path} is missing; install the course from a clone of its repository with 'pip install -e .'")
    return path
