"""tuffet --device: without a plug-in, and with the one of a CPU that plays a GPU, in the folder TUFFET_PLAYER, if that is built."""
import json
import os
import subprocess

from program import PATIENCE, TUFFET, Case, main

PLAYER = os.environ.get("TUFFET_PLAYER")


class Device(Case):
    def setUp(self):
        self.model = self.path("w8a8.gguf")
        text = self.write("text", b"hello world, once upon a time. " * 30)
        subprocess.run([*TUFFET, "quantize", self.toy(endless=1), "-o", self.model, "--calib", text, "--calib-tokens=200",
                        "--calib-window=64"], check=True, capture_output=True)

    def run_on(self, folder, *args):
        """What it writes, and what it complains of, where libraries are found in that folder."""
        env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        if folder:
            env["LD_LIBRARY_PATH"] = folder
        done = subprocess.run([*TUFFET, *args], capture_output=True, timeout=PATIENCE, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, done.stderr.decode()

    def test_without_a_plug_in_it_is_the_cpu(self):
        args = ["run", self.model, "-phello", "-s1", "-n9"]
        want = self.tuffet(*args)
        self.assertEqual(self.tuffet(*args, "--device=cpu"), want)
        got, line = self.run_on(None, *args, "--device=nope")
        self.assertEqual(got, want)
        self.assertRegex(line, r"^tuffet: nope: .*\bno.*: using the CPU\n$")

    def test_what_is_no_device(self):
        self.assertIn('"../x" is no device', self.fails("run", self.model, "-phello", "--device=../x"))

    def test_a_device_for_a_model_of_floats(self):
        self.assertIn("is for files that tuffet quantize has made", self.fails("run", self.toy(endless=1), "-phello", "--device=cuda"))

    def test_the_same_text_from_a_gpu(self):
        if not PLAYER:
            self.skipTest("nothing plays a GPU here")
        for kv in ["f16", "kivi:residual=16"]:
            args = ["run", self.model, "-phello", "-s1", "-n30", "--kv", kv]
            want = self.tuffet(*args)
            for more in [[], ["--gpu-layers=1"]]:
                self.assertEqual(self.run_on(PLAYER, *args, "--device=cuda", *more), (want, ""))

    def bench(self, *args):
        text, line = self.run_on(PLAYER, "bench", self.model, "-p4", "-n2", "-r1", "--json", "--device=cuda", *args)
        self.assertEqual(line, "")
        return json.loads(text)

    def test_speed_on_a_gpu_is_held_against_its_clocks(self):
        if not PLAYER:
            self.skipTest("nothing plays a GPU here")
        answer = self.bench()
        limits = answer["limits"]  # of two multiprocessors of sm_90 at 1 GHz, and 64 bits at 2 GHz
        self.assertEqual(limits, {"read_gbps": 32, "int8_gops": 16384, "fma_gflops": 512})
        self.assertEqual(len(answer["rows"]), 2)
        for row in answer["rows"]:
            self.assertGreaterEqual(row["share"] * 1.001, row["gbps"] / limits["read_gbps"])
        self.assertIn(b"cuda by its clocks: memory read 32.0 GB/s", self.run_on(PLAYER, "bench", self.model, "-p4", "-n2", "-r1",
                                                                                 "--device=cuda")[0])

    def test_speed_that_is_the_cpus_too_has_no_share(self):
        if not PLAYER:
            self.skipTest("nothing plays a GPU here")
        answer = self.bench("-t1", "--gpu-layers=1")
        self.assertEqual((answer["limits"], [row["share"] for row in answer["rows"]]), (None, [None, None]))


main()
