"""tuffet serve beside clients that misbehave: a small run of tools/scripts/serve_load.py"""
import pathlib
import subprocess
import sys
import unittest

from program import TOY, TUFFET, WRAPPER, Case, main

SCRIPT = pathlib.Path(__file__).parents[2] / "tools/scripts/serve_load.py"


@unittest.skipIf(WRAPPER, "the script runs the program itself")
class ServeLoad(Case):
    def test_others_get_the_right_answers(self):
        done = subprocess.run([sys.executable, SCRIPT, *TUFFET, *TOY, "--connections=80",
                               "--rounds=1", "--sent=20000000"], capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (0, b""), done.stdout.decode())
        lines = done.stdout.decode().splitlines()
        self.assertRegex(lines[0], r"^round 1: [1-9][0-9]* right, 0 wrong")
        self.assertEqual(lines[1], "without descriptors: the server sleeps")
        self.assertEqual(set(lines[2:]), {"tuffet: new connections wait: Too many open files"})


if __name__ == "__main__":
    main()
