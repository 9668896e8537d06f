"""tuffet bench: that the figures are consistent; not how large they are. Each run measures the
machine for half a second before the model, so that one run serves several checks."""
import os
import pathlib
import re
import shutil
import tempfile
import unittest

from program import TUFFET, WRAPPER, Case, main

THOROUGH = "TUFFET_THOROUGH" in os.environ


class Bench(Case):
    def check_shares(self, found):
        """The share is that of the limit that binds. The limits are those of the most threads."""
        limits = found["limits"]
        self.assertEqual(set(limits), {"read_gbps", "int8_gops", "fma_gflops"})
        for value in limits.values():
            self.assertGreater(value, 0)
        threads = [row["threads"] for row in found["rows"]]
        at = threads.index(max(threads))  # without threads, the first measurement of one
        for row in found["rows"][at:at + 2]:
            shares = [row["gbps"] / limits["read_gbps"], row["gflops"] / limits["fma_gflops"]]
            self.assertAlmostEqual(row["share"], max(shares), delta=1e-4 * max(shares))

    def check_ranges(self, found, most):
        """The medians lie in their ranges. Limits were measured before the model, and perhaps
        between its runs: at most `most` times."""
        times = found["limits_range"].pop("times")
        self.assertGreaterEqual(times, 1)
        self.assertLessEqual(times, most)
        self.assertEqual(set(found["limits_range"]), set(found["limits"]))
        for name, (least, greatest) in found["limits_range"].items():
            self.assertTrue(0 < least <= found["limits"][name] <= greatest, (name, found))
        for row in found["rows"]:
            self.assertTrue(0 < row["tok_s_min"] <= row["tok_s"] <= row["tok_s_max"], row)
            self.assertGreaterEqual(row["cpu_tok_s"], 0.5 * row["tok_s_min"])

    def check_operations_and_bytes(self, row, m):
        """They are what follows from the model's shape, with a cache of f32. m: what inspect says
        of it"""
        q, kv = m["heads"] * m["head"], m["kv_heads"] * m["head"]
        width, vocab = m["width"], m["tokenizer"]["tokens"]
        layer = 2 * width * q + 2 * width * kv + 3 * width * m["feed_forward"]
        n = row["tokens"]
        depth = row["depth"] + (n + 1) / 2
        attention = 2 * q * depth
        macs = n * (m["layers"] * (layer + attention) + vocab * width)
        # only the last token goes past the last layer's keys and values
        if row["what"] == "prefill":
            macs -= (n - 1) * (layer + attention - 2 * width * kv + vocab * width)
        self.assertAlmostEqual(row["gflops"] * n / row["tok_s"], 2 * macs / 1e9,
                               delta=1e-4 * macs / 1e9)
        norms = (2 * m["layers"] + 1) * width
        # a row of the embedding
        weights = 4 * (m["layers"] * layer + vocab * width + norms + width)
        read = weights + 2 * m["layers"] * kv * 4 * depth
        read *= n if row["what"] == "decode" else 1  # a prompt reads them once
        self.assertAlmostEqual(row["gbps"] * n / row["tok_s"], read / 1e9, delta=1e-3 * read / 1e9)

    def test_json(self):
        model = self.toy()
        found = self.json("bench", model, "-p20", "-n10", "-d3", "-r2", "-t1,2", "--kv", "f32")
        self.assertEqual(set(found), {"limits", "limits_range", "rows", "sample_us", "exchanged",
                                      "clock_mhz", "clock_most_mhz"})
        more = found["rows"][-1]["threads"]
        self.assertIn(more, [1, 2])  # 1 where the build has no threads
        keys = ["what", "tokens", "depth", "threads", "kv"]
        self.assertEqual([tuple(r[key] for key in keys) for r in found["rows"]],
                         [("prefill", 20, 3, 1, "f32"), ("decode", 10, 3, 1, "f32"),
                          ("prefill", 20, 3, more, "f32"), ("decode", 10, 3, more, "f32")])
        for row in found["rows"]:
            self.assertGreater(row["tok_s"], 0)
            self.check_operations_and_bytes(row, self.json("inspect", model))
        self.check_shares(found)
        self.check_ranges(found, 1 + 2 * 2)
        self.assertGreater(found["sample_us"], 0)
        self.assertEqual(found["exchanged"], 0)

    def test_windows(self):
        """Behind more tokens than a window, only the layer without one reads more. With a cache of
        i8, here that of the file, the integers' share gains that layer's attention; in a prompt
        only the last token computes it, since it is the last layer."""
        model = self.path("windows.gguf")
        text = self.write("text", b"hello world, once upon a time. " * 90)
        self.tuffet("quantize", self.toy(arch="gemma2", ctx=2048), "-o", model, "--calib", text,
                    "--calib-tokens=200", "--calib-window=64", "--kv=i8", "-t1", "--json")
        m = self.json("inspect", model, "--kv=f16")
        self.assertEqual((m["layers"], m["memory"]["windows"]), (2, 1))
        read, done, session, integers = [], [], [], []
        for kv, *args in [["f16", "-d100", "--kv=f16"], ["f16", "-d200", "--kv=f16"],
                          ["i8", "-d100"]]:
            found = self.json("bench", model, *args, "-p1500", "-n9", "-r1", "-t1")
            prompt, row = found["rows"]
            self.assertEqual((prompt["kv"], row["kv"]), (kv, kv))
            read.append(row["gbps"] * 9 / row["tok_s"])
            done.append(row["gflops"] * 9 / row["tok_s"])
            session.append(row["session"])
            self.assertGreater(prompt["share"], 2 * prompt["gbps"] / found["limits"]["read_gbps"])
            integers.append(prompt["share"] * found["limits"]["int8_gops"] * 1500 / prompt["tok_s"])
        more = 100 * m["memory"]["kv_per_token"]
        self.assertAlmostEqual(read[1] - read[0], 9 * more / 1e9, delta=1e-2 * 9 * more / 1e9)
        self.assertAlmostEqual(session[1] - session[0], more, delta=0.1 * more)
        more = 9 * 100 * 2 * 2 * m["heads"] * m["head"] / 1e9
        self.assertAlmostEqual(done[1] - done[0], more, delta=1e-2 * more)
        attention = 2 * 2 * m["heads"] * m["head"] * (100 + 1500 / 2) / 1e9
        self.assertAlmostEqual(integers[2] - integers[0], attention, delta=0.1 * attention)

    def test_experts(self):
        """A long prompt reads all experts, a token those of its choice. The prompt has what fits
        in the context."""
        model = self.toy(arch="olmoe")
        m = self.json("inspect", model)
        one, all_but_ff = 4 * 3 * m["width"] * m["feed_forward"] * m["layers"], []
        rows = self.json("bench", model, "-d56", "-n1", "-r1", "-t1", "--kv=f16")["rows"]
        self.assertEqual([row["tokens"] for row in rows], [200, 1])
        for row, experts in zip(rows, [19, 4]):
            n = row["tokens"]
            cache = 2 * 2 * m["layers"] * m["kv_heads"] * m["head"] * (56 + (n + 1) / 2)
            all_but_ff.append(row["gbps"] * 1e9 * n / row["tok_s"] - experts * one - cache)
        self.assertAlmostEqual(*all_but_ff, delta=1e-2 * one)

    @unittest.skipIf(shutil.disk_usage(tempfile.gettempdir()).free < 1 << 29,
                     "135 MB of weights want a larger disk")
    def test_shape(self):
        """Every weight is read once: one byte. The importance that a mixed cache needs is there."""
        before = set(os.listdir(tempfile.gettempdir()))
        rows = self.json("bench", "--shape=smollm2-135m", "-p4", "-n2", "-r1", "-t1", "-c512",
                         "--kv=tuffet")["rows"]
        self.assertEqual([(row["what"], row["tokens"], row["kv"]) for row in rows],
                         [("prefill", 4, "tuffet"), ("decode", 2, "tuffet")])
        for row in rows:
            passes = 1 if row["what"] == "prefill" else row["tokens"]
            self.assertAlmostEqual(row["gbps"] * row["tokens"] / row["tok_s"] / passes, 0.136,
                                   delta=0.003)
        self.assertEqual([name for name in set(os.listdir(tempfile.gettempdir())) - before
                          if re.fullmatch("tuffet-.{6}", name)], [])

    def test_bits_of_a_shape(self):
        """A token reads 4 bits and 1/8 of each of smollm2's weights, and 64 of each row."""
        rows = self.json("bench", "--shape", "smollm2-135m", "--bits=4", "-p1", "-n1", "-r1", "-t1",
                         "-c64")["rows"]
        self.assertEqual([r["what"] for r in rows], ["prefill", "decode"])
        matrices = 30 * [(576, 576), (192, 576), (192, 576), (576, 576), (1536, 576), (1536, 576),
                         (576, 1536)] + [(49152, 576)]
        bits = sum(rows * (columns * 4.125 + 64) for rows, columns in matrices)
        self.assertAlmostEqual(rows[1]["gbps"] / rows[1]["tok_s"], bits / 8e9, delta=bits / 8e11)

    def test_sessions(self):
        one, three = self.json("bench", self.toy(), "--sessions", "1,3", "-n6", "-d5", "-r2",
                               "-t2")["rows"]
        for row, sessions in [(one, 1), (three, 3)]:
            self.assertEqual([row[key] for key in ["what", "sessions", "tokens", "depth"]],
                             ["decode", sessions, 6, 5])
            self.assertGreater(row["tok_s"], 0)
        # the weights once for all, a cache for each, and as many operations for each
        passes = [row["tok_s"] / row["sessions"] for row in [one, three]]
        bytes = [row["gbps"] / n for row, n in zip([one, three], passes)]
        self.assertGreater(bytes[1], bytes[0])
        self.assertLess(bytes[1], 1.5 * bytes[0])
        self.assertAlmostEqual(one["gflops"] / one["tok_s"], three["gflops"] / three["tok_s"],
                               delta=1e-4 * one["gflops"] / one["tok_s"])
        self.assertGreater(three["session"], one["session"])

    def test_text(self):
        """The sessions have as many tokens as fit in the context."""
        self.assertRegex(self.tuffet("bench", self.toy(), "--sessions=1,3", "-d250", "-r1", "-t1"),
                         rb"\nbatch 1 +6 +250 .*\nbatch 3 +6 +250 .*\nsample  +\d+\.\d\n"
                         rb"\n\w+, 1 thread: memory read [\d.]+ GB/s, int8 \d+ GOP/s, "
                         rb"fma [\d.]+ GFLOP/s( \(of \d+: [\d., ]+\))?\n$")

    def test_limits_between_runs(self):
        """They take at most a fifth of the time: longer runs have more of them between them. With
        the C reference, runs are long on every machine."""
        model = pathlib.Path(__file__).parents[2] / "models/demo/stories2M.gguf"
        for runs in [4, 16, 64]:
            times = self.json("bench", model, "-p40", "-n40", "-t1", "--cpu=c",
                              f"-r{runs}")["limits_range"]["times"]
            if times > 1:
                return
        self.fail("not measured between the runs")

    def test_range(self):
        """The range, in which the median lies, stands after it."""
        text = self.tuffet("bench", self.toy(), "-p9", "-n5", "-r3", "-t1").decode()
        rows = re.findall(r"^\w+ +\d+ +0 +1 +\w+ +([\d.]+) +([\d.]+)\.\.([\d.]+) ", text, re.M)
        self.assertEqual(len(rows), 2, text)
        for row in rows:
            median, least, most = map(float, row)
            self.assertTrue(least <= median <= most, text)

    def other(self, prefill, decode, more="", kv="i8"):
        """A program whose bench --json prints these tokens/s. It keeps its arguments in the file
        `arguments`, a line for each run."""
        rows = ",".join(f'{{"what":"{what}","sessions":1,"tokens":{n},"depth":0,"threads":1,'
                        f'"kv":"{kv}","session":1,"tok_s":{speed}{more},"share":null}}'
                        for what, n, speed in [("prefill", 4, prefill), ("decode", 2, decode)])
        path = self.write("other", f"""#!/bin/sh
echo "$@" >>'{self.path("arguments")}'
echo '{{"limits":null,"rows":[{rows}],"sample_us":1,"exchanged":0}}'
""".encode())
        os.chmod(path, 0o755)
        return path

    compares = unittest.skipIf(WRAPPER, "the program does not start itself under emulation")

    @compares
    def test_compare(self):
        """Faster than a program in all of 5 pairs, slower, and no verdict after 2. Both get the
        same options; the programs change places."""
        other, model = self.other(1e-3, 1e12), self.toy()
        args = ["bench", model, "-p4", "-n2", "-t1", "--kv=i8", "-c64", "--weights=f32",
                "--compare", other]
        found = self.json(*args)
        self.assertEqual(found["pairs"], 5)
        self.assertEqual([(row["what"], row["tokens"], row["verdict"]) for row in found["rows"]],
                         [("prefill", 4, "faster"), ("decode", 2, "slower")])
        for row, speed in zip(found["rows"], [1e-3, 1e12]):
            r = row["ratio"]
            self.assertEqual(row["other_tok_s"], speed)
            self.assertAlmostEqual(r["median"] * speed / row["tok_s"], 1, delta=1e-4)
            self.assertTrue(r["least"] <= r["median"] <= r["most"], row)
            self.assertIsNone(row["cpu_ratio"])
        self.assertEqual(self.read(self.path("arguments")).decode().splitlines(), 5 * [
            f"bench {model} --prefill=4 --decode=2 --threads=1 --ctx=64 --kv=i8 --weights=f32 "
            "--runs=1 --json"])
        self.assertEqual([row["verdict"] for row in self.json(*args, "-r2")["rows"]],
                         2 * ["too few pairs"])

    @compares
    def test_compare_with_itself(self):
        """Both programs measure; the CPU time is compared too. Equal programs may be taken for
        different ones now and then: the verdict is not checked."""
        text = self.tuffet("bench", self.toy(), "-p4", "-n2", "-t1", "-r2", "--compare",
                           TUFFET[0]).decode()
        number, span = r" +[\d.]+", r" +[\d.]+\.\.[\d.]+"
        for what in ["prefill +4", "decode +2"]:
            self.assertRegex(text, rf"\n{what} +0 +1 +i8{3 * number}{span}{number}{span}"
                                   r"  too few pairs\n")

    @compares
    def test_compare_by_cpu_time(self):
        found = self.json("bench", self.toy(), "-p4", "-n2", "-t1", "-r1", "--compare",
                          self.other(5, 5, ',"cpu_tok_s":1e-3'))
        for row in found["rows"]:
            self.assertGreater(row["cpu_ratio"]["least"], 1000 * row["ratio"]["least"])

    @compares
    def test_compare_with_something_else(self):
        args = ["bench", self.toy(), "-p4", "-n2", "-t1", "-r1", "--compare"]
        self.assertIn("its rows differ", self.fails(*args, self.other(1, 1, kv="f16")))
        self.assertIn("prints no rows", self.fails(*args, self.other("null", 1)))
        self.assertIn("prints no rows", self.fails(*args, "true"))
        self.assertIn("ended with status 1", self.fails(*args, "false"))
        self.assertIn("No such file", self.fails(*args, "./no-such-program"))
        self.assertIn("leave out --sessions",
                      self.fails("bench", self.toy(), "--sessions=2", "--compare=true", status=2))
        self.assertIn("leave out --sessions and --hash",
                      self.fails("bench", self.toy(), "--hash", "--compare=true", status=2))

    def test_hash(self):
        """All kernels and numbers of threads have the same; another cache and model have others."""
        def hashes(*args):
            found = self.json("bench", *args, "--hash")["hashes"]
            self.assertEqual(len({row["hash"] for row in found}), 1, found)
            self.assertRegex(found[0]["hash"], r"^0x[0-9a-f]{16}$")
            return found[0]["kv"], found[0]["hash"], [row["cpu"] for row in found]
        toy = self.toy(endless=1)
        kv, hash, kernels = hashes(toy)
        self.assertEqual((kv, kernels[0]), ("i8", "c"))
        self.assertEqual(hashes(toy, "-t1"), (kv, hash, kernels))
        self.assertEqual(hashes(toy, "--cpu=c"), (kv, hash, ["c"]))
        self.assertEqual(len({hash, hashes(toy, "--kv=f16")[1], hashes(self.w8a8())[1]}), 3)
        text = self.tuffet("bench", toy, "--hash").decode().splitlines()
        self.assertEqual([line.split() for line in text], [[name, kv, hash] for name in kernels])

    def test_wrong_use(self):
        model = self.toy()
        for list in ["0", "1,x", "2000"]:
            self.assertIn("--sessions", self.fails("bench", model, "--sessions", list, status=2))
        self.assertIn("leave out -p", self.fails("bench", model, "--sessions=2", "-p4", status=2))
        for bits in ["0", "1", "5", "7", "16"]:
            self.assertIn("--bits", self.fails("bench", "--shape", "smollm2-135m", "--bits", bits,
                                               status=2))
        self.assertIn("with --shape", self.fails("bench", model, "--bits=4", status=2))
        self.assertIn("goes with --shape", self.fails("bench", model, "--dynamic=token", status=2))
        self.assertIn("goes with --shape", self.fails("bench", model, "--layers=2", status=2))
        self.assertIn("at least 6", self.fails("bench", "--shape=granite-4-h-1b", "--layers=5",
                                              status=2))
        self.assertIn("--dynamic", self.fails("bench", "--shape=smollm2-135m", "--dynamic=row",
                                              status=2))
        self.assertIn("give either MODEL or --shape",
                      self.fails("bench", model, "--shape=smollm2-135m", status=2))
        self.assertIn("give either MODEL or --shape", self.fails("bench", status=2))
        for list in ["", "0", "1,x", "1;2", "2000", "1," * 17]:
            self.assertIn("--threads", self.fails("bench", model, "-t", list, status=2))
        self.assertIn("at least 1", self.fails("bench", model, "-r", "0", status=2))

    def test_names_of_shapes(self):
        for name in ["../../qwen2.5-0.5b" + "x" * 5000, "gpt-5", ""]:
            self.assertIn("--shape must be one of smollm2-135m, ",
                          self.fails("bench", "--shape", name, "--bits=4", "-t1", status=2))

    def test_wrong_use_that_is_found_late(self):
        """After the machine has been measured."""
        too_much = {"no room for 300 tokens after 5": ["-d5", "-p300"],
                    "no room for 1 tokens after 100000": ["-d100000"]}
        for why in [*too_much] if THOROUGH else [*too_much][:1]:
            self.assertIn(why, self.fails("bench", self.toy(), "-t1", *too_much[why]))


main()
