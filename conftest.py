"""For every pytest run, nbval's over the lessons included: the environment that lessons are built in."""

import os

from tools.lessons import ENVIRONMENT

os.environ.update(ENVIRONMENT)
