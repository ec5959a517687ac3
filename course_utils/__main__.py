"""The command line: python -m course_utils COMMAND."""

import argparse
import sys

from course_utils.errors import CourseError


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m course_utils", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train a checkpoint of the course; goes on where an interrupted call stopped")
    train.add_argument("name", help="a recipe's name, 'all', or 'list'")
    train.add_argument("--device", default="cpu", help="cpu, cuda or mps")
    options = parser.parse_args(arguments)
    try:
        return _train(options)
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _train(options) -> int:
    from course_utils.models.checkpoints import read_card
    from course_utils.models.recipes import RECIPES, train_checkpoint

    if options.name == "list":
        print("\n".join(RECIPES))
        return 0
    for name in RECIPES if options.name == "all" else [options.name]:
        history = train_checkpoint(name, device=options.device)
        if history.attrs["interrupted"]:
            print("make the same call again to go on")
            return 130
        print(f"{name}\n{history.round(4).to_string(index=False)}\n{read_card(name)['metrics']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
