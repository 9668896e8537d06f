"""--verbose of run, chat, serve and bench: which kernels, threads, cache, prefix and memory a model
runs with."""
import os
import re
import signal
import subprocess
import unittest

from program import PATIENCE, TUFFET, Case, main

MODEL, SESSION = ["file", "weights", "kernels", "model"], ["threads", "cache", "prefix", "session"]
ZEPHYR = ("{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content ~ eos_token + '\n' }}"
          "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}")
needs_affinity = unittest.skipUnless(hasattr(os, "sched_setaffinity"), "no affinity here")


def one_cpu():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class Verbose(Case):
    def said(self, *args, **how):
        """Runs a command with and without --verbose, which must print the same to standard output.
        Returns the lines of standard error: (label, text)."""
        quiet, loud = (subprocess.run([*TUFFET, *args, *more], capture_output=True,
                                      stdin=subprocess.DEVNULL, timeout=PATIENCE, **how)
                       for more in [[], ["--verbose"]])
        self.assertEqual((quiet.returncode, quiet.stderr), (0, b""), args)
        self.assertEqual((loud.returncode, loud.stdout), (0, quiet.stdout), loud.stderr)
        return self.lines(loud.stderr)

    def lines(self, text):
        found = [re.fullmatch(r"(\w+) +(\S.*)", line) for line in text.decode().splitlines()]
        self.assertNotIn(None, found, text)
        return [line.groups() for line in found]

    def labels(self, lines):
        return [label for label, _ in lines]

    def run_of(self, model, *args, **how):
        lines = self.said("run", model, "-phello", "-s1", "-n4", *args, **how)
        self.assertEqual(self.labels(lines), MODEL + SESSION)
        return dict(lines)

    @staticmethod
    def bytes_of(text):
        number, unit = text.split()
        return float(number) * {"kB": 1e3, "MB": 1e6, "GB": 1e9}[unit]

    def machine(self):
        """The kernels, and the default number of threads."""
        return re.match(r"tuffet \S+ \((\w+), (\d+) threads\)",
                        self.tuffet("--version").decode()).groups()

    def threaded(self):
        parts = self.tuffet("--version").split()
        return b"openmp" in parts or b"pthreads" in parts

    def test_a_model_of_floats(self):
        toy = self.toy(endless=1)
        found, m = self.run_of(toy, "-c100"), self.json("inspect", toy)
        self.assertEqual(found["file"], f"{toy}, {os.path.getsize(toy) / 1e3:.1f} kB")
        self.assertRegex(found["weights"], r"\Af32; a token reads \d+\.\d kB\Z")
        self.assertEqual(found["kernels"], self.machine()[0])
        self.assertEqual(found["prefix"], "none")
        self.assertEqual(found["cache"], "i8, the default of the model; "
                         f"{m['memory']['kv_per_token']} bytes a token")
        self.assertRegex(found["session"], r"\A\d+\.\d [kM]B of memory for 100 tokens\Z")
        # the vocabulary too
        held = found["model"].removesuffix(" of memory beside the file")
        self.assertGreater(self.bytes_of(held), m["memory"]["weights"])

    def test_more_context_takes_more_memory(self):
        toy = self.toy(endless=1, ctx=4096)
        short, long = (self.bytes_of(self.run_of(toy, "-c", n)["session"].split(" of ")[0])
                       for n in ["1000", "4000"])
        more = 3000 * self.json("inspect", toy)["memory"]["kv_per_token"]
        self.assertGreater(long - short, 0.9 * more)

    def test_weights_cache_and_prefix_of_a_file(self):
        toy, out = self.toy(endless=1), self.path("out")
        text = self.write("text", b"hello world, once upon a time and the end. " * 40)
        subprocess.run([*TUFFET, "quantize", toy, "-o", out, "--calib", text, "--dynamic=none",
                        "--intact-tokens=1,9", "--kv=i8", "-t1"], check=True, capture_output=True)
        found = self.run_of(out)
        self.assertTrue(found["weights"].startswith("W8A8: "), found)
        self.assertTrue(found["cache"].startswith("i8, the default of the model; "), found)
        self.assertEqual(found["prefix"], "without a name, 2 positions")
        found = self.run_of(out, "--kv=f32")
        self.assertTrue(found["cache"].startswith("f32, by --kv; "), found)

    def test_packed_weights(self):
        self.assertTrue(self.run_of(self.toy(endless=1, type="q8_0"))["weights"].startswith(
            "packed codes of 1 to 8 bits; "))
        self.assertTrue(self.run_of(self.toy(endless=1, type="q8_0"), "--weights=f32")[
            "weights"].startswith("f32; "))

    def test_a_named_prefix(self):
        toy, out = self.toy(template=ZEPHYR, ctx=640), self.path("named")
        text = self.write("text", b"hello world, once upon a time and the end. " * 60)
        subprocess.run([*TUFFET, "quantize", toy, "-o", out, "--calib", text, "-t1",
                        "--calib-tokens=504", "--calib-window=126",
                        "--intact-system=pirate=the world and the time, hello"], check=True,
                       capture_output=True)
        tokens = self.json("inspect", out)["w8a8"]["named"]["pirate"]
        found = self.run_of(out, "--prefix=pirate")["prefix"]
        self.assertRegex(found, rf"\Apirate, \d+ positions, {tokens} tokens of text\Z")
        self.assertNotIn("pirate", self.run_of(out, "--prefix=main")["prefix"])

    def test_kernels(self):
        self.assertEqual(self.run_of(self.toy(endless=1), "--cpu=c")["kernels"], "c, by --cpu")

    def test_threads(self):
        if not self.threaded():
            self.assertEqual(self.run_of(self.toy(endless=1), "-t3")["threads"],
                             "1, as this build has no others")
            return
        default = self.machine()[1]
        found = self.run_of(self.toy(endless=1))["threads"]
        self.assertRegex(found, rf"\A{default}, (one for each (CPU|core|fast core)|by the quota of "
                         r"the cgroup) \(CPUs \d+, cores \d+, fast cores \d+(, quota \d+)?\)\Z")
        cpus, cores, fast, *quota = map(int, re.findall(r"\d+", found)[1:])
        self.assertTrue(cpus >= cores >= fast >= 1, found)
        self.assertEqual(int(default), min([fast, *quota]))
        self.assertEqual(self.run_of(self.toy(endless=1), "-t1")["threads"],
                         f"1; the default is {found}")
        self.assertEqual(self.run_of(self.toy(endless=1), "-t100")["threads"],
                         f"100; a pass uses at most {cpus}, one for each CPU; the default is "
                         f"{found}" if cpus < 100 else f"100; the default is {found}")

    @needs_affinity
    def test_threads_under_an_affinity(self):
        if self.threaded():
            self.assertRegex(
                self.run_of(self.toy(endless=1), preexec_fn=one_cpu)["threads"],
                r"\A1, one for each CPU \(CPUs 1, cores 1, fast cores 1(, quota \d+)?\)\Z")

    def test_chat(self):
        lines = self.said("chat", self.toy(template=ZEPHYR), "-phello", "-s1", "-n4")
        self.assertEqual(self.labels(lines), MODEL + SESSION + ["prompt"])
        self.assertRegex(lines[-1][1], r"\A\d+ tokens, 0 of them cached\Z")

    def test_cached_tokens_of_a_chat(self):
        done = subprocess.run([*TUFFET, "chat", self.toy(template=ZEPHYR, endless=1), "-s1", "-n4",
                               "--verbose"], capture_output=True, timeout=PATIENCE,
                              input=b"/system hello\nonce\nonce\n/system world\nonce\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [text for label, text in self.lines(done.stderr) if label == "prompt"]
        n = [list(map(int, re.findall(r"\d+", line.split('"')[0]))) for line in lines]
        self.assertEqual((len(n), n[0][1]), (4, 0), lines)
        self.assertNotIn("difference", lines[0])
        self.assertGreaterEqual(n[1][1], n[0][0])  # and tokens of the answer
        # /system rewinds the session at once: the line comes before the next prompt
        self.assertRegex(lines[2], r', "world.*" and not "hello.*"\Z')
        self.assertTrue(0 < n[2][1] == n[2][2] == n[3][1] < n[0][0], lines)

    def test_cached_tokens_of_a_server(self):
        if b"server" not in self.tuffet("--version").split():
            self.skipTest("this build has no server")
        from test_serve import Server
        s = Server(self.toy(template=ZEPHYR, endless=1), "--verbose", "--cache-mem=0")
        text = " ".join(["hello world"] * 10)
        for head in text, text, "once " + text:
            s.chat(messages=[{"role": "user", "content": head}], max_tokens=1)
        s.process.send_signal(signal.SIGTERM)
        err = s.process.communicate(timeout=PATIENCE)[1]
        lines = [text for label, text in self.lines(err) if label == "prompt"]
        n = [list(map(int, re.findall(r"\d+", line))) for line in lines]
        self.assertEqual(len(n), 3)
        self.assertEqual((n[0][1], n[1][:2]), (0, [n[0][0], n[0][0] - 1]))
        self.assertRegex(lines[2], r"cached; the first difference is token \d+\Z")
        self.assertTrue(0 < n[2][2] < 10, lines)

    def test_bench(self):
        """The lines of a session come again only if they differ."""
        done = subprocess.run([*TUFFET, "bench", self.toy(), "-p4", "-n2", "-r1", "-t1,1,2",
                               "--json", "--verbose"], capture_output=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = self.lines(done.stderr)
        threads = [text[:2] for label, text in lines if label == "threads"]
        self.assertEqual(threads, ["1;", "2;"] if self.threaded() else ["1,"])
        self.assertEqual(self.labels(lines), MODEL + len(threads) * SESSION)

    def test_serve(self):
        if b"server" not in self.tuffet("--version").split():
            self.skipTest("this build has no server")
        toy = self.toy(template=ZEPHYR)
        server = subprocess.Popen([*TUFFET, "serve", toy, "--port=0", "--slots=2", "-c64",
                                   "--verbose"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            server.stdout.readline()
            server.send_signal(signal.SIGTERM)
            lines = self.lines(server.communicate(timeout=PATIENCE)[1])
        finally:
            server.kill()
        self.assertEqual(self.labels(lines), MODEL + SESSION)
        self.assertRegex(dict(lines)["session"], r"\A\d+\.\d [kM]B of memory for 64 tokens, "
                         r"beside the workspace that sessions share\Z")

    def test_control_sequences_do_not_reach_the_terminal(self):
        path = self.path("\x1b[31m.gguf")
        os.symlink(self.toy(endless=1), path)
        self.assertIn(r"\x1b[31m.gguf, ", self.run_of(path)["file"])

    def test_other_commands_do_not_have_it(self):
        self.assertIn("has no option --verbose",
                      self.fails("inspect", self.toy(), "--verbose", status=2))


main()
