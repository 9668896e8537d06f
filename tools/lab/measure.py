"""What the scripts that write tables of accuracy share."""
import argparse
import json
import pathlib
import subprocess
import sys


class Tuffet:
    """The program, and lab_quantize, built beside it, for its command quantize. A call returns the
    JSON object that the command prints."""

    def __init__(self, path):
        self.path = path

    def __call__(self, *args, refusable=False):
        """Ends the script if the command fails; None if it is refusable and exits with 1."""
        program = [self.path]
        if args[0] == "quantize":  # with the options of the lab
            program, args = [pathlib.Path(self.path).with_name("lab_quantize")], args[1:]
        run = subprocess.run([*program, *args, "--json"], stdout=subprocess.PIPE, check=False)
        if run.returncode == 1 and refusable:
            return None
        if run.returncode:
            sys.exit(f"{program[0]} {' '.join(args)}: exit status {run.returncode}")
        return json.loads(run.stdout)


def arguments_of(doc):
    """A parser with the arguments of every script. doc: the script's own description."""
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--tuffet", default="build/test/tools/tuffet")
    return parser


def percent(share):
    return f"{100 * share:.1f}"


def over(value, base):
    """How far a value is above another one."""
    return f"{100 * (value / base - 1):+.1f} %"


def print_row(*cells):
    print(f"| {' | '.join(str(c) for c in cells)} |", flush=True)


def print_titles(words, figures):
    """The first two lines of a table: columns of words, then of figures."""
    print_row(*words, *figures)
    print(f"|{'---|' * len(words)}{'---:|' * len(figures)}", flush=True)


def tasks(text):
    """lambada=FILE,piqa=FILE as a dictionary."""
    return dict(item.split("=", 1) for item in text.split(",")) if text else {}


class Scores:
    """Scores models: perplexity of a text, accuracy in tasks. Keeps each task's largest standard
    error. a: has tasks, items, ctx, text and tokens."""

    def __init__(self, a, tuffet):
        self.a, self.tuffet = a, tuffet
        self.error = dict.fromkeys(a.tasks, 0)

    def perplexity(self, model, *args):
        tokens = ["-n", self.a.tokens] if self.a.tokens else []
        return self.tuffet("ppl", model, "-f", self.a.text, *tokens, "--ctx", self.a.ctx,
                           "--weights", "f32", *args)["ppl"]

    def accuracy(self, task, model, *args):
        """In percent, normalized by length where that is usual."""
        items = ["-n", self.a.items] if self.a.items else []
        found = self.tuffet("eval", model, "--task", task, "-f", self.a.tasks[task], *items,
                            "--ctx", self.a.ctx, "--weights", "f32", *args)
        kind = "acc_norm" if "acc_norm" in found else "acc"
        self.error[task] = max(self.error[task], found[kind + "_stderr"] or 0)
        return 100 * found[kind]

    def accuracies(self, model, *args):
        return [self.accuracy(task, model, *args) for task in self.a.tasks]

    def add_arguments(parser):
        parser.add_argument("--text", required=True, help="the text to score")
        parser.add_argument("--tokens", help="the number of its tokens to score (all)")
        parser.add_argument("--ctx", default="1024", help="tokens of a window (1024)")
        parser.add_argument("--tasks", type=tasks, default={}, help="lambada=FILE,piqa=FILE,...")
        parser.add_argument("--items", help="questions of each task to ask (all)")
