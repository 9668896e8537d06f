"""tuffet bench: that the figures are consistent; not how large they are."""
from program import Case, main


class Bench(Case):
    def test_json(self):
        model = self.toy()
        found = self.json("bench", model, "-p", "12", "-n", "5", "-d", "7", "-r", "2", "-t", "1,2",
                          "--kv", "f32")
        self.assertEqual(set(found), {"limits", "rows", "sample_us", "exchanged"})
        self.assertEqual(set(found["limits"]), {"read_gbps", "int8_gops", "fma_gflops"})
        for value in found["limits"].values():
            self.assertGreater(value, 0)
        more = found["rows"][-1]["threads"]
        self.assertIn(more, [1, 2])  # 1 where the build has no threads
        keys = ["what", "tokens", "depth", "threads", "kv"]
        self.assertEqual([tuple(r[key] for key in keys) for r in found["rows"]],
                         [("prefill", 12, 7, 1, "f32"), ("decode", 5, 7, 1, "f32"),
                          ("prefill", 12, 7, more, "f32"), ("decode", 5, 7, more, "f32")])
        for row in found["rows"]:
            self.assertGreater(row["tok_s"], 0)
        self.assertGreater(found["sample_us"], 0)
        self.assertEqual(found["exchanged"], 0)
        self.assertRegex(self.tuffet("bench", model, "-p4", "-n2", "-r1", "-t1"),
                         rb"\nsample  +\d+\.\d\n$")

    def test_share_is_of_the_limit_that_binds(self):
        found = self.json("bench", self.toy(), "-p", "30", "-n", "30", "-r", "1", "-t", "1")
        limits = found["limits"]
        for row in found["rows"]:
            shares = [row["gbps"] / limits["read_gbps"], row["gflops"] / limits["fma_gflops"]]
            self.assertAlmostEqual(row["share"], max(shares), delta=1e-4 * max(shares))

    def test_operations_and_bytes(self):
        """The figures agree with the operations and bytes that follow from the model's shape."""
        model = self.toy()
        m = self.json("inspect", model)
        q, kv = m["heads"] * m["head"], m["kv_heads"] * m["head"]
        width, vocab = m["width"], m["tokenizer"]["tokens"]
        layer = 2 * width * q + 2 * width * kv + 3 * width * m["feed_forward"]
        rows = self.json("bench", model, "-p20", "-n10", "-d3", "-r1", "-t1")["rows"]
        for row in rows:
            n = row["tokens"]
            depth = 3 + (n + 1) / 2
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
            read = weights + 2 * m["layers"] * kv * 2 * depth
            read *= n if row["what"] == "decode" else 1  # a prompt reads them once
            self.assertAlmostEqual(row["gbps"] * n / row["tok_s"], read / 1e9,
                                   delta=1e-3 * read / 1e9)

    def test_windows(self):
        """Behind more tokens than a window only the layer without one reads more."""
        model = self.toy(arch="gemma2")
        m = self.json("inspect", model)
        self.assertEqual((m["layers"], m["memory"]["windows"]), (2, 1))
        read, done, session = [], [], []
        for depth in ["-d100", "-d200"]:
            row = self.json("bench", model, depth, "-p1", "-n9", "-r1", "-t1")["rows"][1]
            read.append(row["gbps"] * 9 / row["tok_s"])
            done.append(row["gflops"] * 9 / row["tok_s"])
            session.append(row["session"])
        more = 9 * 100 * m["memory"]["kv_per_token"] / 1e9
        self.assertAlmostEqual(read[1] - read[0], more, delta=1e-2 * more)
        more = 9 * 100 * 2 * 2 * m["heads"] * m["head"] / 1e9
        self.assertAlmostEqual(done[1] - done[0], more, delta=1e-2 * more)
        # in so short a session the ring has all slots, too
        self.assertGreater(session[1] - session[0], 100 * 2 * m["memory"]["kv_per_token"])

    def test_windows_are_no_integers(self):
        """With --kv i8 the integers' share gains the attention of the layer without a window. In a
        prompt only the last token computes it, since it is the last layer."""
        model = self.path("windows.gguf")
        text = self.write("text", b"hello world, once upon a time. " * 30)
        self.tuffet("quantize", self.toy(arch="gemma2", ctx=2048), "-o", model, "--calib", text,
                    "--calib-tokens=200", "--calib-window=64", "--json")
        m = self.json("inspect", model)
        integers = []
        for kv in "f16", "i8":
            found = self.json("bench", model, "--kv", kv, "-p2000", "-n1", "-r1", "-t1")
            row = found["rows"][0]
            self.assertGreater(row["share"], 2 * row["gbps"] / found["limits"]["read_gbps"])
            integers.append(row["share"] * found["limits"]["int8_gops"] * 2000 / row["tok_s"])
        attention = 2 * 2 * m["heads"] * m["head"] * 1000 / 1e9
        self.assertAlmostEqual(integers[1] - integers[0], attention, delta=0.1 * attention)

    def test_experts(self):
        """A long prompt reads all experts, a token those of its choice."""
        model = self.toy(arch="olmoe")
        m = self.json("inspect", model)
        one, all_but_ff = 4 * 3 * m["width"] * m["feed_forward"] * m["layers"], []
        rows = self.json("bench", model, "-p200", "-n1", "-r1", "-t1")["rows"]
        for row, experts in zip(rows, [19, 4]):
            n = row["tokens"]
            cache = 2 * 2 * m["layers"] * m["kv_heads"] * m["head"] * (n + 1) / 2
            all_but_ff.append(row["gbps"] * 1e9 * n / row["tok_s"] - experts * one - cache)
        self.assertAlmostEqual(*all_but_ff, delta=1e-2 * one)

    def test_shape(self):
        """A model of --shape has the importance that a mixed cache needs."""
        rows = self.json("bench", "--shape", "smollm2-135m", "-p1", "-n1", "-r1", "-t1", "-c512",
                         "--kv", "tuffet")["rows"]
        self.assertEqual([(r["what"], r["kv"]) for r in rows],
                         [("prefill", "tuffet"), ("decode", "tuffet")])

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
        model = self.toy()
        args = ["bench", model, "--sessions", "1,3", "-n6", "-d5", "-r2", "-t1,2"]
        one, three = self.json(*args)["rows"]
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
        self.assertRegex(self.tuffet(*args), rb"\nbatch 1 +6 +5 .*\nbatch 3 +6 +5 ")

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
        self.assertIn("--dynamic", self.fails("bench", "--shape=smollm2-135m", "--dynamic=row",
                                              status=2))
        self.assertIn("--shape must be one of",
                      self.fails("bench", "--shape=none", "--bits=4", status=2))
        for list in ["", "0", "1,x", "1;2", "2000", "1," * 17]:
            self.assertIn("--threads", self.fails("bench", model, "-t", list, status=2))
        self.assertIn("at least 1", self.fails("bench", model, "-r", "0", status=2))
        self.assertIn("no room for 1 tokens after 100000",
                      self.fails("bench", model, "-d", "100000"))
        self.assertIn("no room for 300 tokens after 5",
                      self.fails("bench", model, "-d", "5", "-p", "300"))

    def test_defaults_fit_the_context(self):
        rows = self.json("bench", self.toy(), "-d", "250", "-r", "1", "-t", "1")["rows"]
        self.assertEqual([r["tokens"] for r in rows], [6, 6])


main()
