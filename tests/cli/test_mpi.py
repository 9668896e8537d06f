"""The program under mpirun. MPI_PLUGIN is the folder of the plug-in.

Exit status 77 where mpirun does not start processes."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

from program import PATIENCE, TUFFET, Case, main, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "backend/mpi"))
import mpi  # pylint: disable=wrong-import-position

THOROUGH = "TUFFET_THOROUGH" in os.environ


def parent(pid):
    """The parent of a process; None if it is gone or has ended."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text("utf-8")
        state, its = re.search(r"\) (\S) (\d+)", stat).groups()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state == "Z" else int(its)


def programs_of(pid):
    """What mpirun has started. MPICH has a process between."""
    children = [int(p) for p in os.listdir("/proc") if p.isdigit() and parent(p) == pid]
    return [one for child in children for one in programs_of(child)] or [pid]


def untimed(answer):
    """What of a JSON object depends neither on the clock nor on what MPI has not: guesses, and
    counts of numbers at the ends of ranges."""
    return {name: value for name, value in answer.items()
            if name not in ("seconds", "guessed_tokens", "ends")
            and not name.endswith(("_s", "_ms"))}


class Mpi(Case):
    def setUp(self):
        self.env = {**mpi.env, "LD_LIBRARY_PATH": os.environ["MPI_PLUGIN"]}
        self.model = self.path("w8a8.gguf")
        if not os.path.exists(self.model):  # else it is the first test's
            self.write("text", b"hello world, once upon a time. " * 90)
            self.quantize(self.model)

    def quantize(self, to, **settings):
        subprocess.run([*TUFFET, "quantize", self.toy(endless=1, kv=4, **settings), "-o", to,
                        "--calib", self.path("text"), "--calib-tokens=200", "--calib-window=64",
                        "-t1"], check=True, capture_output=True)

    def start(self, n, *args):
        return subprocess.Popen([mpi.mpirun, "-n", str(n), *TUFFET, *args], env=self.env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def run_in(self, n, *args):
        """Exit status, stdout (bytes) and the program's lines of stderr; not those of mpirun."""
        done = self.start(n, *args)
        out, lines = done.communicate(timeout=PATIENCE)
        return done.returncode, out, [line for line in lines.decode().splitlines()
                                      if line.startswith("tuffet:")]

    def test_same_results_in_any_number_of_processes(self):
        """In JSON: mpirun gives the program a terminal, where it replaces control characters. All
        commands but the first take turns at the numbers, unless TUFFET_THOROUGH is set."""
        run = ["run", self.model, "-phello", "-s1"]
        for numbers, args in [([2, 3, 4], [*run, "-n30", "-t1"]),
                              ([3], [*run, "-n40", "-t2", "--kv=kivi:window=16"]),
                              ([4], [*run, "-n30", "-t1", "--top-k=5"]),
                              ([2], ["ppl", self.model, "-f", self.path("text"), "--ctx=64"]),
                              ([3], ["chat", self.model, "-phello", "-s1", "-n9",
                                     "--template=chatml"])]:
            want = untimed(self.json(*args))
            for n in [2, 3, 4] if THOROUGH else numbers:
                status, out, lines = self.run_in(n, *args, "--json")
                self.assertEqual((status, untimed(json.loads(out)), lines), (0, want, []))

    def test_one_process_without_mpirun(self):
        args = [*TUFFET, "run", self.model, "-phello", "-s1", "-n9"]
        got = subprocess.run([*args, "--device=mpi"], env=self.env, capture_output=True,
                             check=True, timeout=PATIENCE)
        want = subprocess.run(args, capture_output=True, check=True, timeout=PATIENCE)
        self.assertEqual((got.stdout, got.stderr), (want.stdout, b""))

    def test_the_plug_in_is_found(self):
        """In the build, without a variable that says where, and beside a copy of the program."""
        env = {k: v for k, v in self.env.items() if k != "LD_LIBRARY_PATH"}
        args = ["run", self.model, "-phello", "-s1", "-n9", "--device=mpi"]
        want = self.tuffet(*args[:-1])
        folder = self.path("elsewhere")
        os.makedirs(folder)
        copy = shutil.copy(TUFFET[-1], folder)
        for name in os.listdir(os.environ["MPI_PLUGIN"]):
            if name == "libtuffet-mpi.so":
                os.symlink(os.path.join(os.environ["MPI_PLUGIN"], name),
                           os.path.join(folder, name))
        for program in [TUFFET, [*TUFFET[:-1], copy]]:
            done = subprocess.run([*program, *args], env=env, capture_output=True, timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, want, b""))

    def test_one_line_says_what_is_refused(self):
        status, out, lines = self.run_in(5, "run", self.model, "-phello", "-n9")
        self.assertEqual((status, out, len(lines)), (1, b"", 1), lines)
        self.assertIn("5 processes, but 4 KV heads", lines[0])

    def test_what_fails_before_the_processes_meet(self):
        """Each may say so before mpirun ends it, in the midst of a line too."""
        for model, line in [(self.toy(endless=1), "mpi computes W8A8 files"),
                            (self.path("absent"), "No such file")]:
            status, out, lines = self.run_in(2, "run", model, "-phello", "-n9")
            self.assertEqual((status, out), (1, b""))
            self.assertTrue(any(line in said for said in lines), lines)

    def test_another_file_in_one_process(self):
        other = self.path("other.gguf")
        self.quantize(other, seed=3)
        of = [*TUFFET, "run", self.model, "-phello"]
        done = subprocess.run([mpi.mpirun, "-n", "1", *of, ":", "-n", "1", *TUFFET, "run", other,
                               "-phello"], env=self.env, capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertEqual(done.stderr.decode().count("tuffet:"), 1, done.stderr)
        self.assertIn(b"in process 1 of 2 it is not the model that process 0 has", done.stderr)

    @unittest.skipUnless(sys.platform == "linux", "looks into /proc")
    def test_the_death_of_a_process_ends_the_others(self):
        for victim in 0, 2:
            run = self.start(3, "run", self.model, "-phello", "--slide")
            self.assertTrue(run.stdout.read(20))
            started = programs_of(run.pid)
            self.assertEqual(len(started), 3)
            os.kill(sorted(started)[victim], signal.SIGKILL)
            run.stdout.read()
            self.assertNotEqual(run.wait(PATIENCE), 0)
            run.stdout.close()
            run.stderr.close()
            wait_until(lambda: not any(map(parent, started)))


if not mpi.starts():
    sys.exit(77)
main()
