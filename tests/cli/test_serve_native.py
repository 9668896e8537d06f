"""llama.cpp's own API in tuffet serve."""
import json
import re

from program import Case, main
from test_serve import HELLO, ZEPHYR, Server


class Native(Case):
    def serve(self, *args, **settings):
        toy = self.toy(**{"template": ZEPHYR, "endless": 1, "ctx": 2000, **settings})
        return Server(toy, *args)

    def test_tokens_and_back(self):
        with self.serve() as s:
            text = "Once upon a time, hello"
            ids = s.answer("/tokenize", content=text)["tokens"]
            self.assertEqual(s.answer("/detokenize", tokens=ids)["content"].strip(), text)
            more = s.answer("/tokenize", content=text, add_special=True)["tokens"]
            self.assertEqual(more[1:], ids, "BOS comes first")
            pieces = s.answer("/tokenize", content=text, with_pieces=True)["tokens"]
            self.assertEqual([p["id"] for p in pieces], ids)
            self.assertEqual("".join(p["piece"] for p in pieces).strip(), text)
            half = s.answer("/tokenize", content="\u00e9", with_pieces=True)["tokens"]
            self.assertEqual([p["piece"] for p in half if isinstance(p["piece"], list)],
                             [[0xc3], [0xa9]], "what is no text alone is bytes")
            self.assertEqual(s.answer("/tokenize", content="")["tokens"], [])
            cut = [p["id"] for p in half if isinstance(p["piece"], list)][:1]
            self.assertEqual(s.answer("/detokenize", tokens=cut)["content"], "\ufffd")
            for wrong in ({"tokens": [-1]}, {"tokens": [2 ** 32 + ids[0]]}, {"tokens": ["1"]}, {}):
                self.assertEqual(s.ask("/detokenize", wrong)[0], 400, wrong)
            self.assertEqual(s.ask("/tokenize", {"content": 7})[0], 400)
            many = s.answer("/tokenize", content="x" * 2**20)["tokens"]
            self.assertGreaterEqual(len(many), 2**20)
            self.assertEqual(s.ask("/tokenize", {"content": "x" * (2**20 + 1)})[0], 400)

    def test_special_names_are_text_if_told(self):
        with Server(self.toy(template=ZEPHYR)) as s:
            name = s.ask("/props")[2]["eos_token"]
            special = s.answer("/tokenize", content=name)["tokens"]
            self.assertEqual(len(special), 1)
            plain = s.answer("/tokenize", content=name, parse_special=False)["tokens"]
            self.assertNotEqual(plain, special)

    def test_the_template(self):
        with self.serve() as s:
            got = s.answer("/apply-template", messages=HELLO)["prompt"]
            self.assertRegex(got, r"^<\|user\|>\nhello\S*\n<\|assistant\|>\n$")
            self.assertEqual(s.ask("/apply-template", {"messages": []})[0], 400)

    def test_a_text_with_a_gap(self):
        body = {"temperature": 0, "n_predict": 9}
        with self.serve(fim=1) as s:
            def ids(text):
                return s.answer("/tokenize", content=text)["tokens"]
            prefix, suffix, middle = (ids(f"<fim_{part}>")
                                      for part in ("prefix", "suffix", "middle"))
            self.assertEqual([len(prefix), len(suffix), len(middle)], [1, 1, 1])
            bos = s.answer("/tokenize", content="", add_special=True)["tokens"]
            # no space comes before the first word after the gap, which follows another text
            after = ids("hello time")[1:]
            self.assertEqual(s.answer("/detokenize", tokens=after)["content"], " time")
            prompt = bos + prefix + ids("once upon a") + suffix + after + middle
            want = s.answer("/completion", prompt=prompt, return_tokens=True, **body)
            got = s.answer("/infill", input_prefix="once upon", prompt=" a", input_suffix=" time",
                           return_tokens=True, **body)
            for name in "content", "tokens", "tokens_evaluated":
                self.assertEqual(got[name], want[name])
            got = s.answer("/v1/completions", prompt="once upon a", suffix=" time", temperature=0,
                           max_tokens=9)
            self.assertEqual((got["choices"][0]["text"], got["usage"]["prompt_tokens"]),
                             (want["content"], len(prompt)))
            plain = s.answer("/v1/completions", prompt="once", suffix="", max_tokens=1)
            self.assertEqual(plain["usage"]["prompt_tokens"], len(bos + ids("once")))
            for path, more, status, says in [
                    ("/infill", {"input_extra": [{"text": "x"}]}, 501, "input_extra"),
                    ("/infill", {"input_prefix": 7}, 400, "input_prefix must be a string"),
                    ("/infill", {"input_prefix": 7, "prompt": "a" * (1 << 22)}, 400,
                     "input_prefix must be a string"),
                    ("/infill", {"n_probs": 1, "prompt": "a" * (1 << 22)}, 501, "n_probs"),
                    ("/v1/completions", {"prompt": [1], "suffix": "x"}, 400, "beside suffix"),
                    ("/v1/completions", {"prompt": "a", "suffix": 7}, 400, "suffix must be"),
                    ("/v1/completions", {"prompt": "a", "suffix": "x", "echo": True}, 400,
                     "echo and suffix")]:
                got, _, answer = s.ask(path, more)
                self.assertEqual(got, status, more)
                self.assertIn(says, answer["error"]["message"])
        with self.serve() as s:
            for path, more in [("/infill", {}), ("/v1/completions", {"suffix": "x"})]:
                status, _, answer = s.ask(path, more)
                self.assertEqual(status, 400)
                self.assertIn("fill-in-the-middle", answer["error"]["message"])

    def test_a_completion(self):
        with self.serve() as s:
            body = {"prompt": "hello", "temperature": 0, "n_predict": 20}
            want = s.answer("/v1/completions", max_tokens=20, **body)["choices"][0]["text"]
            got = s.answer("/completion", return_tokens=True, **body)
            self.assertEqual(got["content"], want)
            self.assertEqual((got["stop"], got["stop_type"], got["tokens_predicted"]),
                             (True, "limit", 20))
            self.assertEqual(len(got["tokens"]), 20)
            self.assertEqual(got["timings"]["predicted_n"], 20)
            again = s.answer("/completion", **body)
            self.assertEqual((again["content"], again["tokens_cached"]),
                             (want, got["tokens_evaluated"] - 1))
            for x in (got, again):
                self.assertEqual(x["timings"]["prompt_n"],
                                 x["tokens_evaluated"] - x["timings"]["cache_n"])
            ids = s.answer("/tokenize", content="hello", add_special=True)["tokens"]
            self.assertEqual(s.answer("/completion", **{**body, "prompt": ids})["content"], want)
            stop = next(c for c in want[2:] if c.isalnum())
            cut = s.answer("/completion", stop=[stop], **body)
            self.assertEqual(cut["content"], want[:want.index(stop)])
            self.assertEqual((cut["stop_type"], cut["stopping_word"]), ("word", stop))
            self.assertEqual(s.ask("/completion", {"n_predict": 1})[0], 400)

    def test_a_stream(self):
        with self.serve() as s:
            body = {"prompt": "hello", "temperature": 0, "n_predict": 20}
            want = s.answer("/completion", return_tokens=True, **body)
            _, headers, text = s.ask("/completion", {**body, "stream": True, "return_tokens": True})
            self.assertEqual(headers["Content-Type"], "text/event-stream")
            parts = self.parts(text.decode())
            self.assertEqual("".join(p["content"] for p in parts), want["content"])
            self.assertEqual(sum((p["tokens"] for p in parts), []), want["tokens"])
            self.assertEqual([p["stop"] for p in parts], [False] * (len(parts) - 1) + [True])

    @staticmethod
    def parts(text):
        return [json.loads(part.removeprefix("data: ")) for part in text.split("\n\n") if part]

    def test_props(self):
        with self.serve("--temp=0.25", "--slots=3", "--ctx=500") as s:
            got = s.ask("/props")[2]
            each = got["default_generation_settings"]
            self.assertEqual((each["n_ctx"], each["params"]["temperature"], got["total_slots"]),
                             (500, 0.25, 3))
            self.assertEqual(got["chat_template"], ZEPHYR)

    def test_metrics(self):
        with self.serve() as s:
            s.answer("/completion", prompt="hello", n_predict=7)
            status, headers, text = s.ask("/metrics")
            self.assertEqual(status, 200)
            self.assertTrue(headers["Content-Type"].startswith("text/plain; version=0.0.4"))
            text = text.decode()
            line = r"# HELP tuffet:(\w+) .+\n# TYPE tuffet:\1 (counter|gauge)\ntuffet:\1 (\S+)\n"
            self.assertEqual(re.sub(line, "", text), "", "nothing else is in it")
            values = {name: float(value) for name, _, value in re.findall(line, text)}
            self.assertEqual(values["tokens_predicted_total"], 7)
            self.assertEqual(values["requests_processing"], 0)
            self.assertGreater(values["prompt_tokens_total"], 0)
            self.assertEqual(values["inputs_total"], 0, "its inputs are floats")
            self.assertNotIn("inputs_at_ends_calibration", values)

    def test_numbers_at_the_ends_of_ranges(self):
        with Server(self.w8a8(template=ZEPHYR)) as s:
            before = s.metrics()
            s.answer("/completion", prompt="hello", n_predict=7)
            after = s.metrics()
            self.assertEqual(before["inputs_total"], 0)
            self.assertGreater(after["inputs_total"], after["inputs_at_ends_total"])
            self.assertTrue(0 <= after["inputs_at_ends_calibration"] < 0.1, after)

    def test_keys_hold_here_too(self):
        with self.serve("--api-key=secret") as s:
            for path in ("/props", "/metrics"):
                self.assertEqual(s.ask(path)[0], 401, path)
                self.assertEqual(s.ask(path, Authorization="Bearer secret")[0], 200, path)


if __name__ == "__main__":
    main()
