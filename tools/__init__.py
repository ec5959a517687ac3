"""How the course is installed, built, run and checked. Not part of what a student imports."""
