"""What the scripts that write tables of accuracy share."""
import json
import subprocess
import sys


class Tuffet:
    """The program. A call returns the JSON object that the command prints."""

    def __init__(self, path):
        self.path = path

    def __call__(self, *args, refusable=False):
        """Ends the script if the command fails; None if it is refusable and exits with 1."""
        run = subprocess.run([self.path, *args, "--json"], stdout=subprocess.PIPE, check=False)
        if run.returncode == 1 and refusable:
            return None
        if run.returncode:
            sys.exit(f"tuffet {' '.join(args)}: exit status {run.returncode}")
        return json.loads(run.stdout)


def percent(share):
    return f"{100 * share:.1f}"
