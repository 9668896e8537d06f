"""tuffet serve: conversations that outgrow the context, with truncation "auto"."""
import contextlib

from program import Case, main
from test_serve import ZEPHYR, Server
from test_serve_messages import DEAF, TOOL

CONTEXT = 400
SYSTEM = {"role": "system", "content": "be kind"}


def user(i):
    return {"role": "user", "content": f"hello {i} once upon a time and the end"}


def turn(i):
    return [user(i), {"role": "assistant", "content": f"hello world {i}"}]


def turns(n):
    return [message for i in range(n) for message in turn(i)]


def call(i):
    return [{"role": "assistant", "content": "", "tool_calls": [
                {"id": f"c{i}", "type": "function",
                 "function": {"name": "w", "arguments": f'{{"city": "Rome {i}"}}'}}]},
            {"role": "tool", "tool_call_id": f"c{i}", "content": f"sunny {i}"}]


class Truncation(Case):
    @contextlib.contextmanager
    def serve(self, *args, template=ZEPHYR, ctx=CONTEXT):
        """The server says on stderr that messages are dropped, once."""
        says = "its oldest messages, [0-9]+, are dropped"
        with self.assertRaisesRegex(AssertionError, says) as failed:
            with Server(self.toy(template=template, endless=1, ctx=ctx), "--slots=1", *args) as s:
                yield s
        self.assertEqual(str(failed.exception).count("tuffet: "), 1, failed.exception)

    def rest(self, s, messages, max_tokens, **more):
        """The messages that stay: they make the same prompt as those alone."""
        whole = {"messages": messages, "truncation": "auto", "max_tokens": max_tokens, **more}
        got = s.chat(**whole, temperature=0)
        dropped = got.get("tuffet_dropped", 0)
        self.assertLessEqual(got["usage"]["prompt_tokens"], CONTEXT - min(max_tokens, CONTEXT // 2))
        return dropped, s.answer("/apply-template", **whole)["prompt"], got

    def test_whole_turns_after_the_system_message(self):
        said = [SYSTEM, *turns(30), user(30)]
        with self.serve() as s:
            status, _, got = s.ask("/v1/chat/completions", {"messages": said})
            self.assertEqual(status, 400, got)
            self.assertIn("the context holds only", got["error"]["message"])
            dropped, prompt, got = self.rest(s, said, 8)
            self.assertEqual(dropped % 2, 0)
            self.assertTrue(0 < dropped < 60, dropped)
            kept = [SYSTEM, *said[1 + dropped:]]
            self.assertEqual(prompt, s.answer("/apply-template", messages=kept)["prompt"])
            alone = s.chat(messages=kept, max_tokens=8, temperature=0)
            self.assertEqual(got["choices"], alone["choices"])
            self.assertEqual(got["usage"]["prompt_tokens"], alone["usage"]["prompt_tokens"])
            self.assertNotIn("tuffet_dropped", alone)
            # most of what fits stays: a step is a quarter of the room
            self.assertGreater(got["usage"]["prompt_tokens"], CONTEXT // 2)
            more = self.rest(s, said, 150)
            self.assertGreater(more[0], dropped)

    def test_what_fits_stays(self):
        said = [SYSTEM, *turns(3), user(3)]
        with Server(self.toy(template=ZEPHYR, endless=1, ctx=CONTEXT)) as s:
            self.assertEqual(self.rest(s, said, 8)[0], 0)

    def test_later_requests_find_the_rest_in_the_cache(self):
        said, dropped, cached = [SYSTEM, *turns(20)], [], 0
        with self.serve() as s:
            for i in range(20, 32):
                said.append(user(i))
                n, _, got = self.rest(s, said, 8)
                if dropped and n == dropped[-1]:
                    cached = got["usage"]["prompt_tokens_details"]["cached_tokens"]
                    self.assertGreater(cached, got["usage"]["prompt_tokens"] // 2, (i, n))
                dropped.append(n)
                said.append({"role": "assistant", "content": f"hello world {i}"})
        self.assertEqual(dropped, sorted(dropped))
        self.assertLess(len(set(dropped)), 8, dropped)
        self.assertTrue(cached, dropped)

    def test_a_call_keeps_its_result(self):
        calls = [message for i in range(30) for message in call(i)]
        with self.serve() as s:
            for said, head in [([SYSTEM, user(0), *calls], [SYSTEM, user(0)]),
                               ([SYSTEM, *turns(2), user(2), *calls], [SYSTEM, user(2)]),
                               ([user(0), *calls], [user(0)])]:
                n = len(said) - len(calls) - len(head)  # messages of earlier turns
                dropped, prompt, _ = self.rest(s, said, 8)
                self.assertTrue(n < dropped < n + len(calls), dropped)
                self.assertEqual((dropped - n) % 2, 0)
                kept = [*head, *calls[dropped - n:]]
                self.assertEqual(kept[len(head)]["role"], "assistant")
                self.assertEqual(prompt, s.answer("/apply-template", messages=kept)["prompt"])

    def test_the_description_of_tools_stays(self):
        """For a template without tools, it is a message before all others."""
        said = [*turns(120), user(120)]
        with self.serve(ctx=2000) as s:
            body = {"tools": [TOOL], "tool_choice": "none"}
            got = s.chat(messages=said, truncation="auto", **body)
            n = got["tuffet_dropped"]
            self.assertTrue(0 < n < 240, n)
            prompt = s.answer("/apply-template", messages=said, truncation="auto", max_tokens=8,
                              **body)["prompt"]
            self.assertEqual(prompt, s.answer("/apply-template", messages=said[n:],
                                              **body)["prompt"])

    def test_errors_count_all_messages(self):
        said = [*turns(30), SYSTEM, user(30)]
        with self.serve(template=DEAF, ctx=100) as s:
            status, _, got = s.ask("/v1/chat/completions", {"messages": said,
                                                            "truncation": "auto"})
            self.assertEqual(status, 400)
            self.assertIn("messages[60]: the chat template drops", got["error"]["message"])

    def test_each_api_says_how_many(self):
        said = [*turns(30), user(30)]
        items = [{"role": m["role"], "content": m["content"]} for m in said]
        auto = {"truncation": "auto", "temperature": 0}
        with self.serve() as s:
            n = s.chat(messages=said, **auto)["tuffet_dropped"]
            asked = {"messages": said, "max_tokens": 8, **auto}
            parts = s.stream(**asked)
            self.assertEqual([p.get("tuffet_dropped") for p in parts if "timings" in p], [n])
            parts = s.stream(**asked, stream_options={"include_usage": True})
            self.assertEqual(parts[-1]["tuffet_dropped"], n)
            self.assertEqual(s.answer("/v1/messages", **asked)["tuffet_dropped"], n)
            self.assertEqual(s.events("/v1/messages", **asked)[-2]["tuffet_dropped"], n)
            asked = {"input": items, "max_output_tokens": 8, **auto}
            got = s.answer("/v1/responses", **asked)
            self.assertEqual((got["tuffet_dropped"], got["truncation"]), (n, "auto"))
            self.assertEqual(s.events("/v1/responses", **asked)[-1]["response"]["tuffet_dropped"],
                             n)
            asked = {"messages": said, "stream": False, "options": {"num_predict": 8}}
            for how in {"truncation": "auto"}, {"truncate": True}:
                self.assertEqual(s.answer("/api/chat", **asked, **how)["tuffet_dropped"], n)
            self.assertEqual(s.ask("/api/chat", {**asked, "truncate": False})[0], 400)

    def test_for_all_requests(self):
        said = [*turns(30), user(30)]
        with self.serve("--truncate") as s:
            self.assertGreater(s.chat(messages=said)["tuffet_dropped"], 0)
            got = s.answer("/v1/responses", input=said, max_output_tokens=1)
            self.assertEqual(got["truncation"], "auto")
            status, _, got = s.ask("/v1/chat/completions",
                                   {"messages": said, "truncation": "disabled"})
            self.assertEqual(status, 400, got)
            status, _, got = s.ask("/v1/chat/completions", {"messages": said, "truncation": 1})
            self.assertIn("truncation must be", got["error"]["message"])

    def test_what_is_too_long_alone(self):
        long = {"role": "user", "content": "hello world " * 300}
        with self.serve("--truncate") as s:
            status, _, got = s.ask("/v1/chat/completions", {"messages": [*turns(2), long]})
            self.assertEqual(status, 400)
            self.assertIn("the context holds only", got["error"]["message"])
            status, _, got = s.ask("/v1/completions", {"prompt": "a", "truncation": "auto"})
            self.assertEqual(status, 501, got)


if __name__ == "__main__":
    main()
