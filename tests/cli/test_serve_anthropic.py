"""Anthropic's API in tuffet serve."""
import json

from program import Case, main
from test_serve import HELLO, ZEPHYR, Server
from test_tools import HERMES

SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}},
          "required": ["city"], "additionalProperties": False}
TOOL = {"name": "weather", "description": "The weather", "input_schema": SCHEMA}
SAME_TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather",
                                              "parameters": SCHEMA}}
THINKS = 'root ::= "<think>so</think>\\n\\nyes"'
PATH = "/v1/messages"


def message(events):
    """The message that a stream's events make, as Anthropic's clients put it together."""
    kinds = [e["type"] for e in events]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"], kinds
    made, texts = events[0]["message"], []
    for e in events[1:-2]:
        if e["type"] == "content_block_start":
            assert e["index"] == len(made["content"]) == len(texts), e
            made["content"].append(e["content_block"])
            texts.append("")
        elif e["type"] == "content_block_delta":
            assert e["index"] == len(texts) - 1, e
            block, delta = made["content"][-1], e["delta"]
            kind, = delta.keys() - {"type"}
            assert delta["type"] == {"text": "text_delta", "thinking": "thinking_delta",
                                     "signature": "signature_delta",
                                     "partial_json": "input_json_delta"}[kind], e
            if kind == "partial_json":
                texts[-1] += delta[kind]
            else:
                block[kind] += delta[kind]
        elif e["type"] == "content_block_stop":
            assert e["index"] == len(texts) - 1, e
            if made["content"][-1]["type"] == "tool_use":
                made["content"][-1]["input"] = json.loads(texts[-1])
        else:
            assert e["type"] == "ping", e
    assert kinds.count("content_block_start") == kinds.count("content_block_stop"), kinds
    made.update(events[-2]["delta"])
    made["usage"] = events[-2]["usage"]
    return made


class Anthropic(Case):
    def serve(self, template=ZEPHYR, *args, **settings):
        return Server(self.toy(**{"template": template, "endless": 1, "ctx": 2000, **settings}),
                      *args)

    def both(self, s, **body):
        """The message, whole and as a stream: they must be the same but for names."""
        body = {"messages": HELLO, "max_tokens": 12, "temperature": 0, **body}
        whole, streamed = s.answer(PATH, **body), message(s.events(PATH, **body))
        for made in whole, streamed:
            self.assertRegex(made.pop("id"), "^msg_[0-9a-f]{16}$")
            made["usage"] = sum(n for name, n in made["usage"].items() if "input" in name), \
                made["usage"]["output_tokens"]
            for block in made["content"]:
                block.pop("id", None)
        self.assertEqual(streamed, whole)
        return whole

    def test_an_answer_is_that_of_openai(self):
        with self.serve() as s:
            got, want = self.both(s), s.chat(temperature=0, max_tokens=12)
            text = want["choices"][0]["message"]["content"]
            self.assertEqual(got["content"], [{"type": "text", "text": text}])
            self.assertEqual((got["type"], got["role"], got["stop_reason"], got["stop_sequence"]),
                             ("message", "assistant", "max_tokens", None))
            self.assertEqual(got["usage"], (want["usage"]["prompt_tokens"], 12))
            stop = next(c for i, c in enumerate(text) if i and c.isalnum() and text.index(c) == i)
            cut = self.both(s, stop_sequences=["never ", stop])
            self.assertEqual((cut["content"][0]["text"], cut["stop_reason"], cut["stop_sequence"]),
                             (text[:text.index(stop)], "stop_sequence", stop))
            end = self.both(s, grammar='root ::= "yes"')
            self.assertEqual((end["content"], end["stop_reason"]),
                             ([{"type": "text", "text": "yes"}], "end_turn"))

    def test_cached_tokens(self):
        with self.serve() as s:
            body = {"messages": [{"role": "user", "content": "hello " * 50}], "max_tokens": 1}
            first, second = [s.answer(PATH, **body)["usage"] for _ in range(2)]
            self.assertEqual(first["cache_read_input_tokens"], 0)
            self.assertGreater(second["cache_read_input_tokens"], 40)
            self.assertEqual(second["input_tokens"] + second["cache_read_input_tokens"],
                             first["input_tokens"])
            start = s.events(PATH, **body)[0]["message"]["usage"]
            self.assertEqual({**start, "output_tokens": 1}, second)

    def test_thoughts(self):
        with self.serve(ZEPHYR + "{% if enable_thinking %}think of it{% endif %}") as s:
            got = self.both(s, grammar=THINKS, max_tokens=100)
            thought, text = got["content"]
            self.assertEqual((thought["type"], thought["thinking"]), ("thinking", "so"))
            self.assertTrue(thought["signature"])
            self.assertEqual(text, {"type": "text", "text": "yes"})
            n = [s.answer(PATH + "/count_tokens", messages=HELLO, thinking=thinking)["input_tokens"]
                 for thinking in ({"type": "disabled"}, {"type": "adaptive"},
                                  {"type": "enabled", "budget_tokens": 1024})]
            self.assertTrue(n[0] == n[1] < n[2], n)

    def test_calls(self):
        asked = {"tools": [TOOL], "max_tokens": 300}
        only = {"disable_parallel_tool_use": True}
        for template in ZEPHYR, HERMES:
            with self.serve(template) as s:
                for choice in {"type": "any", **only}, {"type": "tool", "name": "weather", **only}:
                    got = self.both(s, **asked, tool_choice=choice)
                    call = got["content"][-1]
                    self.assertEqual((call["type"], call["name"], got["stop_reason"]),
                                     ("tool_use", "weather", "tool_use"))
                    self.assertIn(call["input"], [{"city": "Oslo"}, {"city": "Rome"}])
                want = s.chat(tools=[SAME_TOOL], tool_choice="required", temperature=0,
                              parallel_tool_calls=False, max_tokens=300)["choices"][0]["message"]
                self.assertEqual(json.loads(want["tool_calls"][0]["function"]["arguments"]),
                                 call["input"])
                got = self.both(s, **asked, tool_choice={"type": "none"})
                self.assertEqual([b["type"] for b in got["content"]], ["text"])

    def test_arguments_arrive_as_written(self):
        """All digits of a number, and a NUL in a text."""
        for x in 59.91273845123, "a\0b":
            tool = {"name": "f", "input_schema": {"type": "object", "properties": {
                "x": {"enum": [x]}}, "required": ["x"], "additionalProperties": False}}
            with self.serve() as s:
                got = self.both(s, tools=[tool], max_tokens=300, tool_choice={
                    "type": "any", "disable_parallel_tool_use": True})
                self.assertEqual(got["content"][-1]["input"], {"x": x})

    def test_a_conversation_is_that_of_openai(self):
        """Blocks become the same prompt as OpenAI's messages."""
        call = {"type": "tool_use", "id": "abcdefghi", "name": "weather", "input": {"city": "Rome"}}
        result = {"type": "tool_result", "tool_use_id": "abcdefghi", "content": "SUNNY"}
        text = lambda s: {"type": "text", "text": s, "cache_control": {"type": "ephemeral"}}
        same_call = {"id": "abcdefghi", "type": "function", "function": {
            "name": "weather", "arguments": '{"city": "Rome"}'}}
        answer = {"role": "assistant", "content": "I ask", "tool_calls": [same_call]}
        said = {"role": "tool", "tool_call_id": "abcdefghi", "content": "SUNNY"}
        thought = {"type": "thinking", "thinking": "hm", "signature": "opaque"}
        user = lambda *content: {"role": "user", "content": list(content)}
        rows = [([text("be "), text("good")], [user(text("he"), text("llo"))],
                 [{"role": "system", "content": "be good"}, *HELLO]),
                ([], [*HELLO, {"role": "assistant", "content": [thought, text("I ask"), call]},
                      user(result, text("and?"))],
                 [*HELLO, {**answer, "reasoning_content": "hm"}, said,
                  {"role": "user", "content": "and?"}]),
                ("be", [*HELLO, {"role": "assistant", "content": [text("I ask"), call]},
                        user({**result, "content": [text("SUN"), text("NY")],
                              "is_error": True})],
                 [{"role": "system", "content": "be"}, *HELLO, answer,
                  {**said, "content": "Error: SUNNY"}]),
                ([], [*HELLO, {"role": "assistant", "content": "Roses are"}],
                 [*HELLO, {"role": "assistant", "content": "Roses are"}])]
        for template in ZEPHYR, HERMES:
            with self.serve(template) as s:
                for system, messages, same in rows:
                    body = {"temperature": 1.5, "seed": 3, "max_tokens": 20,
                            "parallel_tool_calls": False}
                    got = s.answer(PATH, system=system, messages=messages, tools=[TOOL], **body)
                    want = s.chat(messages=same, tools=[SAME_TOOL], **body)
                    n = s.answer(PATH + "/count_tokens", system=system, messages=messages,
                                 tools=[TOOL])["input_tokens"]
                    self.assertEqual(n, want["usage"]["prompt_tokens"])
                    self.assertEqual(got["usage"]["output_tokens"],
                                     want["usage"]["completion_tokens"])
                    self.assertEqual("".join(b["text"] for b in got["content"]
                                             if b["type"] == "text"),
                                     want["choices"][0]["message"]["content"] or "")

    def test_a_form(self):
        with self.serve() as s:
            got = self.both(s, output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
                            max_tokens=200)
            self.assertIn(json.loads(got["content"][0]["text"]),
                          [{"city": "Oslo"}, {"city": "Rome"}])

    def test_errors(self):
        with self.serve(ZEPHYR, "--api-key=secret", ctx=200) as s:
            def fails(status, kind, **body):
                headers = {"x_api_key": "secret", **body.pop("headers", {})}
                got, _, answer = s.ask(body.pop("path", PATH), {"messages": HELLO, **body},
                                       **headers)
                self.assertEqual((got, answer["type"], answer["error"]["type"]),
                                 (status, "error", kind), body)
                return answer["error"]["message"]
            bad = "invalid_request_error"
            fails(401, "authentication_error", headers={"x_api_key": "wrong"})
            for version in "2023-06-01", "2026-10-21":
                self.assertEqual(s.ask(PATH + "/count_tokens", {"messages": HELLO},
                                       x_api_key="secret", anthropic_version=version)[0], 200)
            self.assertIn("2023-06-01", fails(400, bad,
                                              headers={"anthropic_version": "2023-01-01"}))
            self.assertIn("container is not supported", fails(501, bad, container="x"))
            self.assertIn("web_search_20250305", fails(501, bad, tools=[
                {"type": "web_search_20250305", "name": "web_search"}]))
            keep = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
            drop = {"edits": [*keep["edits"], {"type": "clear_tool_uses_20250919"}]}
            self.assertEqual(s.ask(PATH, {"messages": HELLO, "max_tokens": 1,
                                          "context_management": keep}, x_api_key="secret")[0], 200)
            self.assertIn("context_management.edits[1]", fails(501, bad, context_management=drop))
            self.assertIn("prompt is too long", fails(
                400, bad, messages=[{"role": "user", "content": "x" * 300}]))
            image = {"type": "image", "source": {"type": "url", "url": "http://x"}}
            for more, says in [
                    ({"messages": []}, "messages must be a list"),
                    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
                    ({"messages": [{"role": "user", "content": [image]}]},
                     "messages[0].content[0]: only blocks of text and tool_result"),
                    ({"messages": [{"role": "user", "content": [{
                        "type": "tool_result", "tool_use_id": "a", "content": [image]}]}]},
                     "messages[0].content[0].content[0]: only blocks of text"),
                    ({"messages": [*HELLO, {"role": "assistant", "content": [
                        {"type": "tool_use", "id": "a", "name": "b", "input": "c"}]}]},
                     "messages[1].content[0]: tool_use"),
                    ({"system": 7}, "system must be a string"),
                    ({"tool_choice": {"type": "any"}}, "there are no tools"),
                    ({"tool_choice": {"type": "x"}}, "tool_choice.type"),
                    ({"tool_choice": {"name": "x"}}, "tool_choice.type"),
                    ({"tool_choice": "auto"}, "tool_choice.type"),
                    ({"thinking": {"type": "x"}}, "thinking.type"),
                    ({"context_management": {"edits": 5}}, "context_management.edits"),
                    ({"stop_sequences": ["a"], "stop": "b"}, "stop_sequences and stop"),
                    ({"max_tokens": -5}, "max_tokens must be"),
                    # the members that the client sent
                    ({"stop_sequences": [5]}, "stop_sequences must be"),
                    ({"stop": [5]}, "stop must be"),
                    ({"thinking": {"type": "enabled", "budget_tokens": "x"}},
                     "thinking.budget_tokens must be"),
                    ({"output_config": {"effort": 5}}, "output_config.effort must be"),
                    ({"output_config": {"format": {"type": "x"}}}, "output_config.format.type"),
                    ({"output_config": {"format": {"type": "json_schema"}}},
                     "output_config.format.schema is missing"),
                    ({"output_config": {"format": {"type": "json_schema", "schema": 5}}},
                     "output_config.format.schema: "),
                    ({"tools": [{"name": 5}]}, "#/0/name: "),
                    ({"tools": [{}]}, "#/0: has no name"),
                    ({"tools": [{"name": "a", "input_schema": {"type": "object", "properties": {
                        "function": {"type": "y"}}}}]},
                     "#/0/input_schema/properties/function/type"),
                    ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "tool_choice.name must"),
                    ({"messages": [*HELLO, {"role": "assistant", "content": [
                        {"type": "thinking", "signature": "x"}]}]},
                     "messages[1].content[0].thinking must be a string"),
                    ({"stream": 1}, "stream must be")]:
                self.assertIn(says, fails(400, bad, **more), more)

    def test_messages_that_a_template_drops(self):
        """By their places in the request: results and the system message are messages of their
        own in the new form."""
        call = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
        results = [{"type": "tool_result", "tool_use_id": "a", "content": "sunny"},
                   {"type": "text", "text": "and"}]
        said = [*HELLO, {"role": "assistant", "content": [call]},
                {"role": "user", "content": results}]
        with self.serve("{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}"
                        "{% endif %}{% endfor %}") as s:
            for body, place in [({"system": "beware"}, "system: "),
                                ({"messages": [*said, {"role": "system", "content": "beware"}]},
                                 "messages[3]: ")]:
                status, _, got = s.ask(PATH, {"messages": HELLO, **body})
                self.assertEqual(status, 400)
                self.assertTrue(got["error"]["message"].startswith(place), got)
            _, headers, got = s.ask("/v1/responses", {"input": "hi", "instructions": "beware"})
            self.assertTrue(got["error"]["message"].startswith("instructions: "), got)
            _, headers, got = s.ask("/v1/responses", {"input": [
                {"role": "user", "content": "hi"}, {"role": "system", "content": "beware"}]})
            self.assertTrue(got["error"]["message"].startswith("input[1]: "), got)

    def test_thoughts_without_text(self):
        """An author that does not show its thoughts sends a signature alone."""
        with self.serve() as s:
            answer = {"role": "assistant", "content": [{"type": "text", "text": "ok"}]}
            hidden = {"type": "thinking", "thinking": "", "signature": "x"}
            n = [s.answer(PATH + "/count_tokens", messages=[*HELLO, message, *HELLO])
                 for message in (answer, {**answer, "content": [hidden, *answer["content"]]})]
            self.assertEqual(n[0], n[1])


if __name__ == "__main__":
    main()
