#!/usr/bin/env python3
"""Tries to break the program, and prints one table of what happened.

    tools/scripts/campaign.py [--build build/test] [--fuzz build/fuzz] [--minutes 60] [--runs N]

Each part runs commands on small models and does something to them:

    files     some bytes of a model are changed, or its end is missing
    memory    allocations of the program fail, one after the other
    in/out    calls that open, map, read, write or keep a file fail, likewise
    addresses the process may have few addresses, in steps from what loading it takes up to what it
              needs
    room      files may only grow to so many bytes, in steps likewise
    kills     commands that write a file are killed under way (kill -9)
    folders   import of folders with other members, tensors, tokens or bytes than they should have:
              the file runs, or a line names what is wrong
    GPU       calls of a played GPU fail, one after the other, where the build has one
    requests  each allocation of 20 requests to a server fails, one after the other: an answer with
              the status 200 is the right one, and the server goes on
    hostile   requests to a server, with other bytes than they should have
    templates, grammars  likewise, of run and chat
    server    servers that compute and write sessions are killed (kill -9), and the next is right
    fuzz      fuzz targets of a build with -Dfuzz=true, each on a copy of its corpus

The commands of a part take turns. The calls that fail, and the steps, are spread over the whole
course of a command: first its halves, then its quarters, and so on, until all had their turn. The
same --seed and --runs do the same again, but for the moments of kills. The suite's few --runs leave
out bench, which measures the machine for half a second; where TUFFET_THOROUGH is set, they have it
and are four times as many.

What must hold: the program ends by itself, with status 0, 1 or 2; an error is one line; a file that
was to be written is whole or not there, and nothing else is left (but that a kill may leave
out.tmpN or out.cushion.tmpN, empty or whole: port/port.h says when). Whatever does not hold is
printed with the command that shows it, and the exit status is 1. docs/reliability.md has results.
"""
import argparse
import hashlib
import itertools
import json
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

import campaign_folders
import campaign_server

THOROUGH = "TUFFET_THOROUGH" in os.environ
PATIENCE = 120  # seconds for a command that takes less than two
OLDER = b"an older file"
SPREAD = 64  # steps of a limit, or moments of a kill
MOST_ADDRESSES = 400 << 20  # more than any of the commands needs
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
        self.fail = os.path.abspath(f"{a.build}/tests/campaign/libfail.so")
        self.player = os.path.abspath(f"{a.build}/tests/backend/cuda")
        self.folder = folder
        self.random = random.Random(a.seed)
        self.bad = []
        self.turns = []  # of the part: commands, and where to strike them
        self.seconds = {}
        self.has_bench = not a.runs or THOROUGH
        self.make_models()
        self.loaded = self.addresses_to_load()
        self.mine = {*os.listdir(folder), "damaged"}

    def path(self, name):
        return os.path.join(self.folder, name)

    def make_models(self):
        with open(self.path("text"), "w", encoding="utf-8") as f:
            f.write(TEXT)
        with open(self.path("questions"), "w", encoding="utf-8") as f:
            f.write((json.dumps({"text": "Once upon a time"}) + "\n") * 3)
        with open(self.path("tools"), "w", encoding="utf-8") as f:
            json.dump([{"type": "function", "command": ["true"], "function": {
                "name": "f", "description": "x" * 1022, "parameters": {"type": "object"}}}], f)
        for name, *settings in (("f32", "endless=1"), ("q8_0", "type=q8_0"),
                                ("server", "endless=1", "ctx=2048")):  # for long requests
            subprocess.run([self.toy, "write", self.path(name), *settings], check=True)
        self.run_plainly(*self.quantize("w8a8", "--intact-system=Be brief", "--template=chatml",
                                        "--kv=tuffet:group=16,window=16"))
        self.run_plainly("pack", self.path("q8_0"), "-o", self.path("packed"))
        help_text = self.run_plainly("help")
        self.has_eval, self.has_import = b"eval" in help_text, b"import" in help_text
        self.has_server = b"--api-key" in self.run_plainly("serve", "--help")

    def addresses_to_load(self):
        """With fewer, the system's loader ends the program before it begins. Some libraries that
        it loads allocate, too, so this tries. 0: the program takes terabytes, as with
        AddressSanitizer."""
        for room in range(1 << 20, MOST_ADDRESSES, 1 << 20):
            def limit(room=room):
                resource.setrlimit(resource.RLIMIT_AS, (room, room))
            if subprocess.run([self.tuffet, "help"], capture_output=True, preexec_fn=limit,
                              check=False).returncode == 0:
                return room
        return 0

    def run_plainly(self, *args):
        return subprocess.run([self.tuffet, *args], check=True, capture_output=True).stdout

    def quantize(self, out, *more):
        return ["quantize", self.path("f32"), "-o", self.path(out), "--calib", self.path("text"),
                "--calib-tokens=400", "--calib-window=64", "-t1", *more]

    def commands(self, model):
        """What users do with a model, as small as it can be. None writes a model."""
        text = self.path("text")
        reads = [["run", model, "-pOnce", "-n4", "-t2"],
                 ["run", model, "-f", text, "-n4", "--slide", "-t1", "--kv=kivi:group=16"],
                 ["run", model, "-pOnce", "-n60", "-c64", "--slide", "--temp=1", "-t1", "--echo"],
                 ["chat", model, "-n4", "-t1", "--template=chatml"],
                 ["chat", model, "-pHello", "--system=Be brief", "-n4", "-t1", "--template=chatml",
                  "--json"],
                 ["ppl", model, "-f", text, "-n100", "--ctx=50", "-t2"],
                 ["tokenize", model, "-p", "Once upon a time"],
                 ["tokenize", model, "-f", text, "--bos", "--special", "--json"],
                 ["inspect", model, "--values", "--tensors"],
                 ["inspect", model, "--verify", "--json"],
                 ["inspect", model, "--activations", text, "-n40", "-t1"]]
        if self.has_bench:
            reads.append(["bench", model, "-r1", "-p8", "-n2", "-t1", "--json"])
        if self.has_eval:
            reads.append(["chat", model, "-pHello", "-n1", "-t1", "--template=chatml", "--yes",
                          "--tools", self.path("tools")])
            reads.append(["eval", model, "--task=lambada", "-f", self.path("questions"), "-t1"])
        return reads

    def writers(self):
        """Commands that write the file `out`."""
        search = ("--cushion=auto", "--cushion-max=2", "--cushion-sample=8", "--kv=skvq:group=16")
        return [self.quantize("out"),
                self.quantize("out", "--bits=4,attn_v=8", "--group=32", "--tune",
                              "--tune-epochs=1"),
                self.quantize("out", "--bits=3", "--rounding=awq", "--calibrate",
                              "--tune-epochs=1", "--intact-text=Once"),
                self.quantize("out", *search),
                self.quantize("out", "--kv=kivi:group=16,window=16", "--kv-search=60B"),
                self.quantize("out", "--bits-search=5.5", "--group=32", "--dynamic=all"),
                self.quantize("out", "--intact-system=brief=Be brief", "--template=chatml",
                              "--smooth=0.5", "--json"),
                ["pack", self.path("q8_0"), "-o", self.path("out")]]

    def every_command(self):
        """All, each with one of the models."""
        models = itertools.cycle(self.path(m) for m in ("w8a8", "f32", "packed", "q8_0"))
        reads = len(self.commands(""))
        return [self.commands(next(models))[i] for i in range(reads)] + self.writers()

    def next_turn(self, commands, steps):
        """The command whose turn it is in this part, and where to strike it, as (i, n). n is
        steps(command)."""
        if not self.turns:
            self.random.shuffle(commands)
            self.turns = [(c, []) for c in commands]
        command, places = self.turns.pop(0)
        self.turns.append((command, places))
        if not places:
            places.append(spread(steps(command)))
        return command, next(places[0])

    # ---- one run

    def report(self, what, command, how):
        self.bad.append(f"{what}: {shlex.join(command)} ({how})")
        print(self.bad[-1], file=sys.stderr, flush=True)

    def attempt(self, command, how, env=None, limits=(), use=None):
        """Runs a command; reports what must not happen. use: called with the path of a new file
        in place of checking its checksum; then an error may follow warnings, a line each. Returns
        the end of the process; None: it did not end."""
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
            return None
        error = done.stderr.decode(errors="replace")
        if done.returncode not in (0, 1, 2):
            self.report(f"ends with {done.returncode}", command, f"{how}: {error[-300:]}")
        elif done.returncode and not (is_lines(error) if use else is_line(error)):
            self.report("an error is not one line", command, f"{how}: {error!r}")
        self.check_folder(command, how, done.returncode == 0, use=use)
        return done

    def remove_rest(self):
        for name in set(os.listdir(self.folder)) - self.mine:
            os.remove(self.path(name))

    def put_older_file(self):
        """What a command is to replace, half of the time."""
        if self.random.random() < 0.5:
            with open(self.path("out"), "wb") as f:
                f.write(OLDER)

    def is_older(self):
        with open(self.path("out"), "rb") as f:
            return f.read(len(OLDER) + 1) == OLDER

    def check_folder(self, command, how, done, may_stay=("out.cushion",), use=None):
        """A file that a command writes is whole, or not there, or the older one; and nothing else
        is left, but for what a search goes on from. done: the command succeeded."""
        for name in set(os.listdir(self.folder)) - self.mine:
            path = self.path(name)
            if name == "out" and self.is_older():
                if done and path in command:
                    self.report("the file was not written", command, how)
            elif name == "out":
                if use:
                    use(path)
                else:
                    self.check_file(name, command, how)
            elif how == "killed" and name.startswith(("out.tmp", "out.cushion.tmp")):
                if os.path.getsize(path) and name.startswith("out.tmp"):
                    self.check_file(name, command, how)
            elif name not in may_stay:
                self.report(f"{name} is left", command, how)
            os.remove(path)

    def check_file(self, name, command, how):
        if subprocess.run([self.tuffet, "inspect", "--verify", self.path(name)], check=False,
                          capture_output=True).returncode:
            self.report(f"{name} is damaged", command, how)

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

    def fail_a_call(self, kind, commands, env, fails, log):
        """fails, log: variables that say which call fails, and where the number of calls goes."""
        def count(command):
            subprocess.run([self.tuffet, *command], check=False, input=b"hello\n",
                           env={**os.environ, **env, log: self.path("calls")}, capture_output=True)
            n = 0
            if os.path.exists(self.path("calls")):
                with open(self.path("calls"), encoding="ascii") as f:
                    n = int(f.read())
            self.remove_rest()
            return n or sys.exit(f"no call of the kind {kind} was seen: {shlex.join(command)}")

        command, (at, n) = self.next_turn(commands, count)
        self.attempt(command, f"{kind} call {at + 1} of {n} fails",
                     {**env, fails: str(at + 1), log: os.devnull})

    def memory(self):
        self.fail_a_call("alloc", self.every_command(),
                         {"LD_PRELOAD": self.fail, "FAIL_KIND": "alloc"}, "FAIL_AT", "FAIL_LOG")

    def in_out(self):
        self.fail_a_call("io", self.every_command(),
                         {"LD_PRELOAD": self.fail, "FAIL_KIND": "io"}, "FAIL_AT", "FAIL_LOG")

    def addresses(self):
        command, (at, n) = self.next_turn(self.every_command(), lambda c: SPREAD)
        room = self.loaded + (at + 1) * (MOST_ADDRESSES - self.loaded) // n
        self.attempt(command, f"{room >> 20} MB of addresses",
                     limits=[(resource.RLIMIT_AS, room)])

    def room(self):
        command, (at, n) = self.next_turn(self.writers(), self.bytes_written)
        self.attempt(command, f"files of {at} bytes of {n}", limits=[(resource.RLIMIT_FSIZE, at)])

    def bytes_written(self, command):
        self.run_plainly(*command)
        n = os.path.getsize(self.path("out"))
        self.remove_rest()
        return n

    def kills(self):
        command, (at, n) = self.next_turn(self.writers(), self.moments)
        self.put_older_file()
        process = subprocess.Popen([self.tuffet, *command], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        time.sleep(at / n * self.seconds[tuple(command)])
        process.kill()
        process.wait()
        # It may have been done already: then the new file is there.
        done = os.path.exists(self.path("out")) and not self.is_older()
        self.check_folder(command, "killed", done)

    def moments(self, command):
        begun = time.monotonic()
        self.run_plainly(*command)
        self.seconds[tuple(command)] = time.monotonic() - begun
        self.remove_rest()
        return SPREAD

    def gpu(self):
        w8a8, text = self.path("w8a8"), self.path("text")
        commands = [["run", w8a8, "-pOnce", "-n2", "--kv=f16"],
                    ["chat", w8a8, "-pHello", "-n2", "--template=chatml"],
                    ["ppl", w8a8, "-f", text, "-n8", "--ctx=4", "--kv=kivi:group=16"]]
        if self.has_bench:
            commands.append(["bench", w8a8, "-r1", "-p2", "-n1"])
        commands = [[*c, "-t1", "--device=cuda"] for c in commands]
        self.fail_a_call("GPU", commands, {"LD_LIBRARY_PATH": self.player}, "PLAYER_FAILS_CALL",
                         "PLAYER_LOG")


def is_line(text):
    return text.endswith("\n") and text.count("\n") == 1


def is_lines(text):
    """Lines, each of the program."""
    return text.endswith("\n") and all(line.startswith("tuffet: ") for line in text.splitlines())


def spread(n):
    """0 .. n - 1 again and again, each as (i, n), in an order that is even at any time: 0, then the
    middle, then the quarters, ... (van der Corput's)."""
    bits = max(1, (n - 1).bit_length())
    while True:
        for i in range(1 << bits):
            at = int(f"{i:0{bits}b}"[::-1], 2)
            if at < n:
                yield at, n


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
        done = subprocess.run([f"{folder}/{target}", limit, "-print_final_stats=1",
                               f"-artifact_prefix={found}/", found, corpus],
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
        parts = {"files": c.files, "memory": c.memory, "in/out": c.in_out,
                 "addresses": c.addresses, "room": c.room, "kills": c.kills,
                 "folders": campaign_folders.FolderPart(c).folders}
        server = campaign_server.ServerParts(c) if c.has_server else None
        if server:
            parts.update({"requests": server.requests, "hostile": server.hostile,
                          "templates": server.templates, "grammars": server.grammars,
                          "server": server.server_kills})
        if not c.loaded:
            parts.pop("addresses")
        if not c.has_import:
            parts.pop("folders")
        if not os.path.exists(c.fail):
            for name in ("memory", "in/out", "requests"):
                parts.pop(name, None)
        if os.path.isdir(c.player):
            parts["GPU"] = c.gpu
        names = [n for n in [*parts, *(["fuzz"] if a.fuzz else [])] if a.only in n]
        share = 60 * a.minutes / max(1, len(names))
        most = (a.runs or 0) * (4 if THOROUGH else 1)
        print("| part | runs | minutes | broken promises |\n|---|---:|---:|---:|", flush=True)
        for name in names:
            begun, runs, bad = time.monotonic(), 0, len(c.bad)
            c.turns = []
            c.random.seed(f"{a.seed} {name}")
            if name == "fuzz":
                runs = fuzz(a, c, share)
            while name != "fuzz" and (runs < most if a.runs else
                                      time.monotonic() - begun < share):
                parts[name]()
                runs += 1
            took = (time.monotonic() - begun) / 60
            print(f"| {name} | {runs:,} | {took:.1f} | {len(c.bad) - bad} |", flush=True)
        if server:
            server.close()
    sys.exit(1 if c.bad else 0)


main()
