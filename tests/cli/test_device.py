"""tuffet --device. Tests of a GPU need TUFFET_PLAYER, the folder with the plug-in of a CPU that
plays one, and are skipped without it."""
import json
import os
import shutil
import subprocess
import sys
import unittest

from program import PATIENCE, TUFFET, Case, main

PLAYER = os.environ.get("TUFFET_PLAYER")
needs_player = unittest.skipUnless(PLAYER, "no plug-in of a CPU that plays a GPU here")


class Device(Case):
    def setUp(self):
        self.model = self.path("w8a8.gguf")
        if os.path.exists(self.model):  # of the first test
            return
        text = self.write("text", b"hello world, once upon a time. " * 90)
        subprocess.run([*TUFFET, "quantize", self.toy(endless=1), "-o", self.model,
                        "--calib", text, "--calib-tokens=200", "--calib-window=64", "-t1"],
                       check=True, capture_output=True)

    def run_with(self, folder, *args):
        """The program's stdout (bytes) and stderr (text), with plug-ins searched in `folder`."""
        env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        if folder:
            env["LD_LIBRARY_PATH"] = folder
        done = subprocess.run([*TUFFET, *args], capture_output=True, timeout=PATIENCE, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr.decode()

    def assert_falls_back(self, folder, device, reason):
        """One line says why, and the text is the CPU's."""
        args = ["run", self.model, "-phello", "-s1", "-n9"]
        got, line = self.run_with(folder, *args, "--device=" + device)
        self.assertEqual(got, self.tuffet(*args, "--device=cpu"))
        self.assertRegex(line, f"^tuffet: {reason}: using the CPU\n$")

    def test_cpu_is_the_default(self):
        args = ["run", self.model, "-phello", "-s1", "-n9"]
        self.assertEqual(self.tuffet(*args, "--device=cpu"), self.tuffet(*args))

    def test_falls_back_without_a_plug_in(self):
        self.assert_falls_back(None, "nope", r"nope: .*\bno.*")

    @unittest.skipUnless(sys.platform == "linux", "the message is that of Linux")
    def test_says_how_to_have_a_plug_in(self):
        """A copy of the program finds none, unless one is installed in the system."""
        folder = self.path("far/away/from/plug-ins")
        os.makedirs(folder)
        program = [*TUFFET[:-1], shutil.copy(TUFFET[-1], folder)]
        for device, how in [("cuda", b"build with nvcc"), ("mpi", b"Debian's libopenmpi-dev")]:
            done = subprocess.run([*program, "run", self.model, "-phello", "-n9",
                                   "--device=" + device], capture_output=True, timeout=PATIENCE,
                                  env={k: v for k, v in os.environ.items()
                                       if k != "LD_LIBRARY_PATH"})
            if b"cannot open shared object" in done.stderr:
                self.assertIn(how, done.stderr)

    @needs_player
    def test_falls_back_if_the_plug_in_is_of_another_build(self):
        self.assert_falls_back(PLAYER, "otherbuild",
                               r"tuffet-otherbuild: the plug-in is of version \S+ \(build 0\), "
                               r"the library of version \S+ \(build [0-9a-f]{16}\): "
                               r"install both from one build")

    def test_device_name_that_is_invalid(self):
        self.assertIn('"../x" is no device',
                      self.fails("run", self.model, "-phello", "--device=../x"))

    def test_model_of_floats(self):
        self.assertIn("computes W8A8 files: make one with tuffet quantize",
                      self.fails("run", self.toy(endless=1), "-phello", "--device=cuda"))

    @needs_player
    def test_same_text_from_a_gpu(self):
        for kv, more in [([], []), ([], ["--gpu-layers=1"]), (["--kv=f16"], []),
                         (["--kv=kivi:window=16"], [])]:
            args = ["run", self.model, "-phello", "-s1", "-n30", *kv]
            got = self.run_with(PLAYER, *args, "--device=cuda", *more)
            self.assertEqual(got, (self.tuffet(*args), ""))

    def bench(self, *args):
        """What bench prints; nothing goes to stderr. It measures the machine first, once for each
        number of threads."""
        text, line = self.run_with(PLAYER, "bench", self.model, "-p4", "-n2", "-r1", "-t1",
                                   "--device=cuda", *args)
        self.assertEqual(line, "")
        return text

    def assert_gpu_fails(self, waits, command, *args):
        """The GPU fails when it is waited for the waits-th time: one line, and no result."""
        env = {**os.environ, "LD_LIBRARY_PATH": PLAYER, "PLAYER_FAILS": str(waits)}
        done = subprocess.run([*TUFFET, command, self.model, *args, "--device=cuda", "--json"],
                              env=env, capture_output=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (1, b"", b"tuffet: cuda: computing tokens: failed\n"), command)

    @needs_player
    def test_a_gpu_that_fails_is_an_error(self):
        """Also once the text has begun: the context is not full."""
        for waits in 4, 12:
            self.assert_gpu_fails(waits, "run", "-phello", "-n30")
            self.assert_gpu_fails(waits, "chat", "-phello", "-n30", "--template=chatml")
        self.assert_gpu_fails(4, "ppl", "-f", self.path("text"), "--ctx=16")
        self.assert_gpu_fails(9, "bench", "-p4", "-n9", "-r1", "-t1")

    @needs_player
    @unittest.skipUnless(b"\n  eval " in subprocess.run([*TUFFET, "--help"], check=True,
                                                        capture_output=True).stdout,
                         "tuffet eval is not built in")
    def test_eval_on_a_gpu_that_fails(self):
        questions = self.write("questions", b'{"text": "once upon"}\n')
        self.assert_gpu_fails(3, "eval", "--task=lambada", "-f", questions)

    @needs_player
    def test_bench_compares_with_the_limits_of_the_gpu(self):
        answer = json.loads(self.bench("--json"))
        limits = answer["limits"]
        # The player has two multiprocessors of sm_90 at 1 GHz and memory of 64 bits at 2 GHz.
        self.assertEqual(limits, {"read_gbps": 32, "int8_gops": 16384, "fma_gflops": 512})
        self.assertEqual(len(answer["rows"]), 2)
        for row in answer["rows"]:
            self.assertGreaterEqual(row["share"] * 1.001, row["gbps"] / limits["read_gbps"])
        self.assertIn(b"cuda by its clocks: memory read 32.0 GB/s", self.bench())

    @needs_player
    def test_bench_has_no_limits_if_the_cpu_computes_layers_too(self):
        answer = json.loads(self.bench("--json", "--gpu-layers=1"))
        self.assertIsNone(answer["limits"])
        self.assertEqual([row["share"] for row in answer["rows"]], [None, None])


main()
