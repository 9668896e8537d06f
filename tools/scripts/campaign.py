#!/usr/bin/env python3
"""Tries to break the program, and prints one table of what happened.

    tools/scripts/campaign.py [--build build/test] [--fuzz build/fuzz] [--minutes 60] [--runs N]

Each part runs commands on small models and does something to them:

    files     some bytes of a model are changed, or its end is missing
    memory    one allocation of the program fails
    in/out    one call fails that opens, maps, reads, writes or keeps a file
    limits    the process may have few addresses, or write short files only
    kills     quantize and pack are killed under way
    GPU       calls of a played GPU fail, where the build has one
    fuzz      fuzz targets of a build with -Dfuzz=true, each on a copy of its corpus

What must hold: the program ends by itself, with status 0, 1 or 2; an error is one line; a file that
was to be written is whole or not there, and nothing else is left. Whatever does not hold is printed
with the command that shows it, and the exit status is 1. docs/reliability.md has results.
"""
import argparse
import hashlib
import os
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PATIENCE = 120  # seconds for a command that takes less than two
OLDER = b"an older file"
TEXT = ("Once upon a time there was a little girl who lived in a house near the sea. "
        "Every morning she went down to the water, and looked for what the night had left. "
        "One day she found a small green bottle, and in it was a letter.\n") * 12


def arguments():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default="build/test", help="a build with tests (build/test)")
    p.add_argument("--fuzz", help="a build with -Dfuzz=true")
    p.add_argument("--minutes", type=float, default=60, help="for all parts together (60)")
    p.add_argument("--runs", type=int, help="runs of each part, in place of --minutes")
    p.add_argument("--only", default="", help="the parts with this in their names")
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


class Campaign:
    def __init__(self, a, folder):
        self.tuffet = os.path.abspath(f"{a.build}/tools/tuffet")
        self.toy = os.path.abspath(f"{a.build}/tests/toy")
        self.fail = os.path.abspath(f"{a.build}/tests/libfail.so")
        self.player = os.path.abspath(f"{a.build}/tests/cuda")
        self.folder = folder
        self.random = random.Random(a.seed)
        self.bad = []
        self.calls = {}
        self.make_models()
        self.mine = {*os.listdir(folder), "damaged"}

    def path(self, name):
        return os.path.join(self.folder, name)

    def make_models(self):
        with open(self.path("text"), "w", encoding="utf-8") as f:
            f.write(TEXT)
        for name, setting in (("f32", "endless=1"), ("q8_0", "type=q8_0")):
            subprocess.run([self.toy, "write", self.path(name), setting], check=True)
        self.run_plainly(*self.quantize("w8a8"))
        self.run_plainly("pack", self.path("q8_0"), "-o", self.path("packed"))

    def run_plainly(self, *args):
        subprocess.run([self.tuffet, *args], check=True, capture_output=True)

    def quantize(self, out, *more):
        return ["quantize", self.path("f32"), "-o", self.path(out), "--calib", self.path("text"),
                "--calib-tokens=400", "--calib-window=64", "-t2", *more]

    def commands(self, model):
        """What users do with a model, as small as it can be. None writes a file."""
        text = self.path("text")
        return [["run", model, "-pOnce", "-n4", "-t2"],
                ["run", model, "-pOnce", "-n4", "--json", "-t1", "--kv", "kivi:group=16"],
                ["chat", model, "-n4", "-t1", "--template=chatml"],
                ["ppl", model, "-f", text, "-n100", "--ctx=50", "-t2"],
                ["tokenize", model, "-p", "Once upon a time"],
                ["inspect", model],
                ["inspect", model, "--verify"],
                ["bench", model, "-r1", "-p8", "-n2", "-t1", "--json"]]

    def writers(self):
        """Commands that write the file `out`."""
        return [self.quantize("out"),
                self.quantize("out", "--bits=4", "--group=32", "--tune", "--tune-epochs=1"),
                self.quantize("out", "--cushion=auto", "--kv=skvq:group=16"),
                ["pack", self.path("q8_0"), "-o", self.path("out")]]

    def any_command(self):
        model = self.path(self.random.choice(["f32", "q8_0", "w8a8", "packed"]))
        return self.random.choice(self.commands(model) + self.writers())

    # ---- one run

    def report(self, what, command, how):
        self.bad.append(f"{what}: {shlex.join(command)} ({how})")
        print(self.bad[-1], file=sys.stderr, flush=True)

    def attempt(self, command, how, env=None, limits=()):
        """Runs a command; reports what must not happen."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            for which, value in limits:
                resource.setrlimit(which, (value, value))

        self.put_older_file()
        try:
            done = subprocess.run([self.tuffet, *command], input=b"hello\n", capture_output=True,
                                  timeout=PATIENCE, env={**os.environ, **(env or {})},
                                  preexec_fn=limit, check=False)
        except subprocess.TimeoutExpired:
            self.report("does not end", command, how)
            return
        error = done.stderr.decode(errors="replace")
        if done.returncode not in (0, 1, 2):
            self.report(f"ends with {done.returncode}", command, f"{how}: {error[-300:]}")
        elif done.returncode and (error.count("\n") != 1 or not error.endswith("\n")):
            self.report("an error is not one line", command, f"{how}: {error!r}")
        self.check_folder(command, how, done.returncode == 0)

    def put_older_file(self):
        """What a command is to replace, half of the time."""
        if self.random.random() < 0.5:
            with open(self.path("out"), "wb") as f:
                f.write(OLDER)

    def is_older(self):
        with open(self.path("out"), "rb") as f:
            return f.read(len(OLDER) + 1) == OLDER

    def check_folder(self, command, how, done, may_stay=("out.cushion",)):
        """A file that a command writes is whole, or it is not there, or it is the older one; and
        nothing else is left, but for what a search goes on from. done: the command succeeded."""
        for name in set(os.listdir(self.folder)) - self.mine:
            path = self.path(name)
            if name == "out" and self.is_older():
                if done and path in command:
                    self.report("the file was not written", command, how)
            elif name == "out":
                self.check_file(command, how)
            elif name not in may_stay:
                self.report(f"{name} is left", command, how)
            os.remove(path)

    def check_file(self, command, how):
        """Also after an error: quantize checks what a file loses when it has been written."""
        if subprocess.run([self.tuffet, "inspect", "--verify", self.path("out")], check=False,
                          capture_output=True).returncode:
            self.report("the file is damaged", command, how)

    # ---- parts: each does one run

    def files(self):
        source = self.random.choice(["f32", "q8_0", "w8a8", "packed"])
        with open(self.path(source), "rb") as f:
            data = bytearray(f.read())
        reach = self.random.choice([200, 4000, len(data)])
        for _ in range(self.random.choice([1, 1, 2, 8])):
            at = self.random.randrange(min(reach, len(data)))
            data[at] = self.random.choice([0, 1, 0x7f, 0x80, 0xff, self.random.randrange(256)])
        if self.random.random() < 0.2:
            del data[self.random.randrange(len(data)):]
        damaged = self.path("damaged")
        with open(damaged, "wb") as f:
            f.write(data)
        more = [[*self.quantize("out")[:1], damaged, *self.quantize("out")[2:]],
                ["pack", damaged, "-o", self.path("out")]]
        command = self.random.choice(self.commands(damaged) + more)
        self.attempt(command, f"{source}, {hashlib.sha1(data).hexdigest()[:8]}")
        os.remove(damaged)

    def fail_a_call(self, kind):
        command = self.any_command()
        env = {"LD_PRELOAD": self.fail, "FAIL_KIND": kind, "FAIL_AT": "0",
               "FAIL_LOG": self.path("calls")}
        key = (kind, *command)
        if key not in self.calls:
            subprocess.run([self.tuffet, *command], env={**os.environ, **env}, check=False,
                           input=b"hello\n", capture_output=True)
            with open(self.path("calls"), encoding="ascii") as f:
                self.calls[key] = int(f.read())
            for name in ("calls", "out"):
                if os.path.exists(self.path(name)):
                    os.remove(self.path(name))
        n = self.calls[key]
        if not n:
            sys.exit(f"no call of the kind {kind} was seen: {shlex.join(command)}")
        env = {**env, "FAIL_AT": str(self.random.randint(1, n)), "FAIL_LOG": os.devnull}
        self.attempt(command, f"{kind} call {env['FAIL_AT']} of {n} fails", env)

    def memory(self):
        self.fail_a_call("alloc")

    def in_out(self):
        self.fail_a_call("io")

    def limits(self):
        command = self.any_command()
        if self.random.random() < 0.5:
            room = self.random.randrange(12, 400) << 20
            self.attempt(command, f"{room >> 20} MB of addresses",
                         limits=[(resource.RLIMIT_AS, room)])
        else:
            room = self.random.randrange(200000)
            self.attempt(self.random.choice(self.writers()), f"files of {room} bytes",
                         limits=[(resource.RLIMIT_FSIZE, room)])

    def kills(self):
        command = self.random.choice(self.writers())
        self.put_older_file()
        process = subprocess.Popen([self.tuffet, *command], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(self.random.random() * 0.5)
        process.kill()
        process.wait()
        # It may have been done already: then the new file is there.
        done = os.path.exists(self.path("out")) and not self.is_older()
        # --tune has a model of its own between writing it and opening it, for a moment.
        self.check_folder(command, "killed", done, ("out.cushion", "out.untuned"))

    def gpu(self):
        at = self.random.randrange(1, 60)
        command = self.random.choice(self.commands(self.path("w8a8"))[:4])
        self.attempt([*command, "--device=cuda"], f"GPU call {at} fails",
                     {"LD_LIBRARY_PATH": self.player, "PLAYER_FAILS": str(at)})


def fuzz(a, campaign, seconds):
    """Runs each fuzz target; returns how many inputs they tried."""
    folder = f"{a.fuzz}/tests/fuzz"
    targets = sorted(t for t in os.listdir(folder)
                     if t.startswith("fuzz_") and os.access(f"{folder}/{t}", os.X_OK)
                     and os.path.isfile(f"{folder}/{t}"))
    tried = 0
    for target in targets:
        found = campaign.path("found")
        os.mkdir(found)
        corpus = f"tests/fuzz/corpus/{target.removeprefix('fuzz_')}"
        limit = f"-max_total_time={max(1, int(seconds / len(targets)))}"
        done = subprocess.run([f"{folder}/{target}", limit, "-print_final_stats=1", found, corpus],
                              capture_output=True, check=False)
        text = done.stderr.decode(errors="replace")
        if done.returncode:
            campaign.report("a fuzz target fails", [target], text[-2000:])
        for line in text.splitlines():
            if "number_of_executed_units" in line:
                tried += int(line.split()[-1])
        shutil.rmtree(found)
    return tried


def main():
    a = arguments()
    with tempfile.TemporaryDirectory() as folder:
        c = Campaign(a, folder)
        parts = {"files": c.files, "memory": c.memory, "in/out": c.in_out, "limits": c.limits,
                 "kills": c.kills}
        if not os.path.exists(c.fail):
            del parts["memory"], parts["in/out"]
        if os.path.isdir(c.player):
            parts["GPU"] = c.gpu
        names = [n for n in [*parts, *(["fuzz"] if a.fuzz else [])] if a.only in n]
        share = 60 * a.minutes / max(1, len(names))
        print("| part | runs | minutes | broken promises |\n|---|---:|---:|---:|", flush=True)
        for name in names:
            begun, runs, bad = time.monotonic(), 0, len(c.bad)
            if name == "fuzz":
                runs = fuzz(a, c, share)
            while name != "fuzz" and (runs < a.runs if a.runs else
                                      time.monotonic() - begun < share):
                parts[name]()
                runs += 1
            took = (time.monotonic() - begun) / 60
            print(f"| {name} | {runs:,} | {took:.1f} | {len(c.bad) - bad} |", flush=True)
    sys.exit(1 if c.bad else 0)


main()
