"""tuffet serve: answers that end by -n and --time-limit, --power and --nice."""
import os
import pathlib
import time
import unittest

from program import WRAPPER, Case, main
from test_serve import ENDLESS, HELLO, ZEPHYR, Server


class Bounds(Case):
    def ends(self, s, **asked):
        """How an answer ends, in each API: the reason, tuffet_stop, and the number of tokens."""
        bare = {"temperature": 0, **asked}
        asked = {"messages": HELLO, **bare}
        ends = []
        got = s.answer("/v1/chat/completions", **asked)
        choice = got["choices"][0]
        ends.append((choice["finish_reason"], choice.get("tuffet_stop"),
                     got["usage"]["completion_tokens"]))
        parts = s.stream(**asked, stream_options={"include_usage": True})
        choice = parts[-2]["choices"][0]
        ends.append((choice["finish_reason"], choice.get("tuffet_stop"),
                     parts[-1]["usage"]["completion_tokens"]))
        got = s.answer("/v1/messages", **asked)
        self.assertEqual(got["stop_reason"], "max_tokens")
        ends.append(("length", got.get("tuffet_stop"), got["usage"]["output_tokens"]))
        got = s.answer("/v1/responses", **bare, input="hello")
        self.assertEqual(got["status"], "incomplete")
        ends.append(("length", got.get("tuffet_stop"), got["usage"]["output_tokens"]))
        got = s.answer("/api/chat", **asked, stream=False)
        ends.append((got["done_reason"], got.get("tuffet_stop"), got["eval_count"]))
        got = s.answer("/completion", prompt="hello", **bare)
        self.assertEqual(got["stop_type"], "limit")
        ends.append(("length", got.get("tuffet_stop"), got["tokens_predicted"]))
        return ends

    def serve(self, *args, **settings):
        return Server(self.toy(template=ZEPHYR, endless=1, **{"ctx": 400, **settings}), *args)

    def test_tokens(self):
        with self.serve("-n", "5") as s:
            for asked in {}, {"max_tokens": 6}, {"max_tokens": -1}:
                self.assertEqual(self.ends(s, **asked), [("length", "limit", 5)] * 6, asked)
            for n in 5, 3:
                self.assertEqual(self.ends(s, max_tokens=n), [("length", None, n)] * 6)
            props = s.ask("/props")[2]["default_generation_settings"]["params"]
            self.assertEqual((props["n_predict"], props["max_tokens"]), (5, 5))
        with self.serve() as s:
            self.assertEqual(self.ends(s, max_tokens=5), [("length", None, 5)] * 6)
            self.assertEqual(s.chat(max_tokens=-1)["choices"][0].get("tuffet_stop"), None)

    def test_an_answer_that_ends_by_itself(self):
        with self.serve("-n", "50") as s:
            choice = s.chat(grammar='root ::= "yes"', max_tokens=None)["choices"][0]
            self.assertEqual((choice["finish_reason"], choice.get("tuffet_stop")), ("stop", None))

    def test_time(self):
        with self.serve("--time-limit", "0.3", ctx=ENDLESS) as s:
            start = time.monotonic()
            for reason, stop, n in self.ends(s):
                self.assertEqual((reason, stop), ("length", "time"))
                self.assertLess(n, ENDLESS)
            self.assertGreater(time.monotonic() - start, 6 * 0.3)
        with self.serve("--time-limit", "1000") as s:
            self.assertEqual(self.ends(s, max_tokens=2), [("length", None, 2)] * 6)

    def test_time_within_a_prompt(self):
        with self.serve("--time-limit", "0.001", ctx=ENDLESS) as s:
            got = s.answer("/completion", prompt="hello world " * 20000)
            self.assertEqual((got["tuffet_stop"], got["content"], got["tokens_predicted"]),
                             ("time", "", 0))

    def test_options_that_are_wrong(self):
        for args, says in [(["-n", "x"], "--tokens needs"), (["--time-limit", "-1"],
                                                              "--time-limit needs")]:
            self.assertIn(says, self.fails("serve", self.toy(), *args, status=2))

    @unittest.skipUnless(os.path.exists("/proc/self/task") and not WRAPPER, "no /proc")
    def test_power_and_priority(self):
        def nice(pid):
            tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
            return {int((t / "stat").read_text().rpartition(")")[2].split()[16]) for t in tasks}
        body = {"prompt": "hello", "max_tokens": 100, "temperature": 0}
        args = self.toy(template=ZEPHYR, endless=1), "-t1", "--lookup=0"
        with Server(*args) as s:
            whole = s.answer("/v1/completions", **body)
        with Server(*args, "--power=1%", "--nice=2") as s:
            part = s.answer("/v1/completions", **body)
            self.assertEqual(nice(s.process.pid), {min(n + 2, 19) for n in nice(os.getpid())})
        self.assertEqual(part["choices"], whole["choices"])
        self.assertLess(part["timings"]["predicted_per_second"], 2000)  # alone, more than 10000


if __name__ == "__main__":
    main()
