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

    command = commands.add_parser(
        "reproduce", help="every claim of the lessons beside our own figures; writes docs/reproduction.md"
    )
    command.add_argument(
        "--dataset", action="append", metavar="NAME", help="only runs of this data set; may be given several times"
    )
    command.add_argument("--seeds", type=int, default=3, help="runs of each recipe (default: %(default)s)")
    command.add_argument("--device", default="cpu", help="cpu, cuda or mps")
    command.add_argument("--texts", type=int, default=200, help="test texts to measure on (default: %(default)s)")
    command.add_argument("--jobs", type=int, help="runs at the same time (default: one a core)")
    command.add_argument("--defence", action="store_true", help="run lesson 09's study too: other seeds and trained adversaries")
    command.add_argument("--study", action="append", metavar="NAME", help="run this study and nothing else; may be repeated")
    command.add_argument("--page-only", action="store_true", help="write the page from the kept results, run nothing")
    command.set_defaults(run=_reproduce)

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
    from course_utils.models.finetuning import FINETUNED, train_finetuned
    from course_utils.models.recipes import RECIPES, checkpoint_name, train_checkpoint

    if options.name == "list":
        print("\n".join([*RECIPES, *FINETUNED]))
        return 0
    for name in [*RECIPES, *FINETUNED] if options.name == "all" else [options.name]:
        train = train_finetuned if name in FINETUNED else train_checkpoint
        history = train(name, seed=options.seed, device=options.device)
        if history.attrs["interrupted"]:
            print("make the same call again to go on")
            return 130
        print(f"{name}\n{history.round(4).to_string(index=False)}\n{read_card(checkpoint_name(name, options.seed))['metrics']}")
    return 0


def _reproduce(options: argparse.Namespace) -> int:
    from course_utils.reproduce import defence, report, runs
    from course_utils.reproduce.studies import STUDIES, study_of

    studies = [study_of(name) for name in options.study or ([] if options.page_only or options.dataset else STUDIES)]
    if not options.page_only and not options.study:
        planned = runs.plan(options.dataset, options.seeds)
        print(f"{len(planned)} runs; stop at any time, the same call goes on")
        runs.merge(runs.complete_all(planned, device=options.device, n_texts=options.texts, n_jobs=options.jobs))
    for study in studies:
        study.write(study.complete())
    if options.defence:
        defence.write(defence.study(device=options.device, n_texts=options.texts))
    found = report.write(report.everything())
    print(found[["lesson", "claim", "left", "right", "seeds", "verdict"]].round(3).to_string(index=False))
    print(f"written: {report.PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
