"""The command line: python -m course_utils COMMAND."""

import argparse
import sys

from course_utils import doctor
from course_utils.errors import CourseError


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m course_utils", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    command = commands.add_parser("doctor", help="check this machine; a fix for each problem")
    command.add_argument("--network", action="store_true", help="look at the network too (no lesson needs it)")
    command.set_defaults(run=lambda options: doctor.main(network=options.network))

    command = commands.add_parser("train", help="train a checkpoint of the course; goes on where an interrupted call stopped")
    command.add_argument("name", help="a recipe's name, 'all', or 'list'")
    command.add_argument("--device", default="cpu", help="cpu, cuda or mps")
    command.add_argument("--seed", type=int, default=0, help="of the initial weights and the order of the texts; the lessons use 0")
    command.set_defaults(run=_train)

    command = commands.add_parser("grade", help="mark a folder of student notebooks")
    if arguments[:1] == ["grade"]:  # its packages may be what the doctor finds missing
        from course_utils.exercises import grading

        grading.add_arguments(command)
        command.set_defaults(run=grading.run_from)

    options = parser.parse_args(arguments)
    try:
        return options.run(options)
    except CourseError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _train(options: argparse.Namespace) -> int:
    from course_utils.models.checkpoints import read_card
    from course_utils.models.recipes import RECIPES, checkpoint_name, train_checkpoint

    if options.name == "list":
        print("\n".join(RECIPES))
        return 0
    for name in RECIPES if options.name == "all" else [options.name]:
        history = train_checkpoint(name, seed=options.seed, device=options.device)
        if history.attrs["interrupted"]:
            print("make the same call again to go on")
            return 130
        print(f"{name}\n{history.round(4).to_string(index=False)}\n{read_card(checkpoint_name(name, options.seed))['metrics']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
