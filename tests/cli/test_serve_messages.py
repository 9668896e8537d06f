"""tuffet serve: what is said arrives, in each form in which clients say it."""
import json

from program import Case, main
from test_serve import HELLO, ZEPHYR, Server
from test_tools import HERMES

PARTS = ("{% for m in messages %}{{ '<|' + m.role + '|>' }}{% for p in m.content %}"
         "{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}\n{% endfor %}")
DEAF = ("{% for m in messages %}{{ '<|' + m.role + '|>' }}"
        "{{ m.content if m.role == 'user' }}{% endfor %}{# <tool_call> #}{{ '<tool_call>'[:0] }}")
CALL = {"id": "a", "type": "function", "function": {"name": "w", "arguments": '{"city": "Rome"}'}}
RESULT = {"role": "tool", "tool_call_id": "a", "content": "SUNNY11"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {
    "type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}}}
FORM = {"type": "json_schema", "json_schema": {"name": "n", "schema": {
    "type": "object", "properties": {"n": {"type": "boolean"}}, "required": ["n"]}}}


def answer(text=None, **more):
    return {"role": "assistant", "content": text, **more}


class Messages(Case):
    def serve(self, template=ZEPHYR):
        return Server(self.toy(template=template, endless=1, ctx=2000))

    def prompts(self, template, *conversations, **more):
        with self.serve(template) as s:
            return [s.answer("/apply-template", messages=c, **more)["prompt"]
                    for c in conversations]

    def test_a_template_in_a_file(self):
        path = self.write("chat_template.jinja", PARTS.encode())
        with Server(self.toy(template=ZEPHYR), "--template-file", path) as s:
            self.assertEqual(s.answer("/apply-template", messages=HELLO)["prompt"],
                             "<|user|>hello")
            self.assertEqual(s.ask("/props")[2]["chat_template"], PARTS)
            self.assertEqual(s.answer("/api/show", model="toy")["template"], PARTS)
        path = self.write("bad.jinja", b"{% morse %}")
        self.assertIn(path + ": ", self.fails("serve", self.toy(), "--port=0", "--template-file",
                                              path))

    def test_content_in_the_form_of_the_template(self):
        parts = [{"role": "user", "content": [{"type": "text", "text": "on"},
                                              {"type": "text", "text": "ce"}]}]
        self.assertEqual(self.prompts(PARTS, HELLO, parts),
                         ["<|user|>hello", "<|user|>once"])
        self.assertIn("once", self.prompts(ZEPHYR, parts)[0])

    def test_what_the_template_drops(self):
        with self.serve(DEAF) as s:
            for path in ["/v1/chat/completions", "/apply-template", "/api/chat"]:
                said = {"messages": [*HELLO, {"role": "system", "content": "once"}]}
                status, _, got = s.ask(path, said)
                self.assertEqual(status, 400, path)
                self.assertIn("messages[1]: the chat template drops this message of the role "
                              "system", json.dumps(got))
            self.assertIsNone(s.ask("/apply-template", {"messages": HELLO})[1]
                              ["X-Tuffet-Warning"])
        with self.assertRaisesRegex(AssertionError, r"messages\[2\]: the chat template drops"):
            with self.serve(DEAF) as s:
                said = {"messages": [*HELLO, answer(tool_calls=[CALL]), RESULT], "max_tokens": 1}
                for path in ["/v1/chat/completions", "/apply-template"]:
                    status, headers, _ = s.ask(path, said)
                    self.assertEqual(status, 200)
                    self.assertEqual(headers["X-Tuffet-Warning"],
                                     "messages[2]: the chat template drops this result of a tool")

    def test_results_without_tools(self):
        prompt, = self.prompts(ZEPHYR, [*HELLO, answer(tool_calls=[CALL]), RESULT])
        self.assertIn('[{"name": "w", "arguments": {"city": "Rome"}}]', prompt)
        self.assertIn("SUNNY11", prompt)

    def test_the_tool_of_a_result(self):
        """The call with the result's id names it: the latest such call, and calls of any answer."""
        template = "{% for m in messages %}[{{ m.name }}<tool_call>{{ m.content }}]{% endfor %}"
        other = {**CALL, "id": "b", "function": {"name": "v", "arguments": "{}"}}
        again = {**CALL, "function": {"name": "x", "arguments": "{}"}}
        said = [*HELLO, answer(tool_calls=[CALL, other]), {**RESULT, "tool_call_id": "b"}, RESULT,
                {**RESULT, "tool_call_id": "c"}, {**RESULT, "name": "mine"},
                answer(tool_calls=[again]), RESULT, {**RESULT, "tool_call_id": "b"}]
        names = ["", "", "v", "w", "", "mine", "", "x", "v"]
        prompt, = self.prompts(template, said)
        self.assertEqual([part.partition("<")[0] for part in prompt.split("[")[1:]], names)
        plain, = self.prompts(ZEPHYR, said)
        self.assertEqual([part.partition(":")[0] for part in plain.split("Result of ")[1:]],
                         ["v", "w", "the call", "mine", "x", "v"])

    def test_the_template_named_tool_use(self):
        """It is for requests with tools, the other one for the rest."""
        plain = "{{ raise_exception('has tools') if tools }}" + ZEPHYR
        toy = self.toy(template=plain, tool_template=HERMES, endless=1, ctx=2000)
        with Server(toy) as s, self.serve(HERMES) as hermes:
            self.assertEqual([s.answer("/apply-template", messages=HELLO, **more)["prompt"]
                              for more in [{}, {"tools": []}, {"tools": [TOOL]}]],
                             2 * ["<|user|>\nhello\n<|assistant|>\n"] +
                             ["f <|user|>\nhello\n<|assistant|>\n"])
            got, want = [[call["function"] for call in t.chat(
                tools=[TOOL], tool_choice="required", parallel_tool_calls=False,
                max_tokens=200)["choices"][0]["message"]
                ["tool_calls"]] for t in (s, hermes)]
            self.assertEqual(got, want)
            body = {"messages": HELLO, "tools": [TOOL], "options": {"num_predict": 40, "seed": 1},
                    "stream": False}
            got, want = [t.answer("/api/chat", **body)["message"] for t in (s, hermes)]
            self.assertEqual(got["content"], want["content"])
            self.assertEqual(s.ask("/props")[2]["chat_template_tool_use"], HERMES)
            self.assertNotIn("chat_template_tool_use", hermes.ask("/props")[2])
            self.assertIn("tools", s.answer("/api/show")["capabilities"])

    def test_a_call_that_is_cut(self):
        """The beginning of its mark is no content, and its arguments end anywhere."""
        asked = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False}
        flat = {"name": "f", "input_schema": TOOL["function"]["parameters"]}
        for template in ZEPHYR, HERMES:
            with self.serve(template) as s:
                (choice,) = s.chat(**asked, max_tokens=200)["choices"]
                (whole,) = choice["message"]["tool_calls"]
                seen = set()
                for n in range(1, 60):
                    (choice,) = s.chat(**asked, max_tokens=n)["choices"]
                    if choice["finish_reason"] == "tool_calls":
                        break
                    self.assertEqual((choice["finish_reason"], choice["message"]["content"]),
                                     ("length", None))
                    calls = choice["message"].get("tool_calls", [])
                    seen.add(len(calls))
                    for call in calls:
                        self.assertTrue(whole["function"]["arguments"].startswith(
                            call["function"]["arguments"]))
                self.assertEqual(seen, {0, 1})
                deltas = [p["choices"][0]["delta"] for p in
                          s.stream(messages=HELLO, seed=1, max_tokens=3, **asked)]
                self.assertFalse(any(d.get("content") for d in deltas))
                got = s.answer("/v1/messages", messages=HELLO, max_tokens=3, tools=[flat],
                               tool_choice={"type": "any"})
                self.assertEqual((got["content"], got["stop_reason"]), ([], "max_tokens"))
                got = s.answer("/api/chat", messages=HELLO, options={"num_predict": 3}, **asked,
                               stream=False)
                self.assertEqual((got["message"]["content"], got["done_reason"]), ("", "length"))

    def test_tools_that_cannot_be_read(self):
        broken = self.toy(template=ZEPHYR, tool_template="{% morse %}", endless=1)
        with self.assertRaisesRegex(AssertionError, "morse"):  # the line on stderr
            with Server(broken) as s:
                for tools, says in [([TOOL], "the model has no chat template"),
                                    ({"f": TOOL}, "tools must be a list")]:
                    status, _, got = s.ask("/v1/chat/completions",
                                           {"messages": HELLO, "tools": tools})
                    self.assertEqual((status, got["error"]["message"]), (400, says))
                self.assertEqual(s.ask("/v1/chat/completions",
                                       {"messages": HELLO, "max_tokens": 1})[0], 200)

    def test_tools_are_named_once(self):
        """In a message about them: the library says where, the server not again."""
        with Server(self.toy(template=ZEPHYR, endless=1, ctx=2000)) as s:
            for body, says in [
                    ({"tools": [{}]}, "tools: #/0: has no name"),
                    ({"tools": [TOOL], "tool_choice": {"type": "function",
                                                       "function": {"name": "later"}}},
                     "tools: no tool has the name later")]:
                status, _, got = s.ask("/v1/chat/completions", {"messages": HELLO, **body})
                self.assertEqual((status, got["error"]["message"]), (400, says))

    def test_members_that_are_void(self):
        strict = ("{% for m in messages %}{% if 'tool_calls' in m or 'name' in m %}"
                  "{{ raise_exception('no') }}{% endif %}{{ m.content }}{% endfor %}")
        for void in [None, []]:
            said = [*HELLO, answer("once", tool_calls=void, name=void, refusal=None), *HELLO]
            self.assertEqual(self.prompts(strict, said), ["helloonce" + "hello"])
        for text in ["", None]:
            call = {"id": "a", "index": None, "function": {"name": "w", "arguments": text}}
            said = [*HELLO, answer("", tool_calls=[call]), {**RESULT, "content": None}]
            self.assertIn("<tool_call>w {} a", self.prompts(HERMES, said, tools=[TOOL])[0])

    def test_members_of_messages_that_are_not_taken(self):
        """Each is an error, and not left out."""
        calls = "messages[1].tool_calls"
        rows = [({"tool_calls": {"a": 1}}, f"{calls} must be a list"),
                ({"tool_calls": [{"function": {}}]}, f"{calls}[0].function has no name"),
                ({"tool_calls": [CALL, {"type": "custom", "custom": {"name": "x"}}]},
                 f"{calls}[1].function has no name"),
                ({"tool_calls": [{"function": {"name": "w", "arguments": [7]}}]},
                 f"{calls}[0].function.arguments must be an object"),
                ({"function_call": {"name": "w", "arguments": "{}"}},
                 "messages[1].function_call is not supported, but tool_calls is"),
                ({"audio": {"id": "x"}}, "messages[1].audio is not supported"),
                ({"content": [{"type": "image_url", "text": "x", "image_url": {"url": "y"}}]},
                 "messages[1].content[0]: only parts of text are supported, not image_url")]
        with self.serve() as s:
            for members, says in rows:
                for path in ["/v1/chat/completions", "/apply-template"]:
                    status, _, got = s.ask(path, {"messages": [*HELLO, {**answer(), **members}]})
                    self.assertEqual(status, 400, members)
                    self.assertIn(says, got["error"]["message"])
            said = [*HELLO, answer(refusal="I cannot"), *HELLO]
            self.assertIn("I cannot", s.answer("/apply-template", messages=said)["prompt"])
            parts = [{"type": "output_text", "text": "on"}, {"type": "text", "text": "ce"}]
            self.assertIn("once", s.answer("/apply-template", messages=[*HELLO, answer(parts)],
                                           continue_final_message=False)["prompt"])

    def test_members_that_contradict_each_other(self):
        with self.serve() as s:
            for body, says in [
                    ({"tool_choice": "required"}, "there are no tools"),
                    ({"tool_choice": {"type": "function", "function": {"name": "f"}}, "tools": []},
                     "there are no tools"),
                    ({"response_format": FORM, "grammar": 'root ::= "a"'},
                     "response_format.json_schema.schema and grammar both name a form"),
                    ({"json_schema": {"const": 1}, "grammar": 'root ::= "a"'},
                     "json_schema and grammar both name a form"),
                    ({"max_tokens": 3, "max_completion_tokens": 4},
                     "max_completion_tokens and max_tokens differ"),
                    ({"top_logprobs": 2}, "top_logprobs needs logprobs")]:
                status, _, got = s.ask("/v1/chat/completions", {"messages": HELLO, **body})
                self.assertEqual(status, 400, body)
                self.assertIn(says, got["error"]["message"])
            self.assertEqual(s.chat(max_tokens=3, max_completion_tokens=3, n_predict=None,
                                    tool_choice="auto", grammar="", top_logprobs=0)
                             ["usage"]["completion_tokens"], 3)
            status, _, got = s.ask("/v1/completions", b'{"prompt": "a", "prompt": "b"}')
            self.assertEqual(status, 400)
            self.assertIn("duplicate object key", got["error"]["message"])
            status, _, got = s.ask("/api/generate", {"prompt": "a", "raw": True, "system": "b"})
            self.assertEqual((status, got), (400, {"error": "system has no place in a raw prompt"}))
            status, _, got = s.ask("/tokenize", {"add_special": True})
            self.assertEqual((status, got["error"]["message"]), (400, "content is missing"))
            form = {"type": "json_object", "json_schema": FORM["json_schema"]}
            got, = s.chat(response_format=form, max_tokens=100)["choices"]
            self.assertIn(json.loads(got["message"]["content"]), [{"n": True}, {"n": False}])

    def test_the_text_of_a_request(self):
        """/apply-template describes tools, and takes variables, as /v1/chat/completions."""
        thinks = ZEPHYR + "{{ enable_thinking }}"
        with self.serve(thinks) as s:
            for more in [{}, {"tools": [TOOL]}, {"enable_thinking": False},
                         {"reasoning_effort": "none"}]:
                text = s.answer("/apply-template", messages=HELLO, **more)["prompt"]
                self.assertEqual('"name": "f"' in text, "tools" in more)
                self.assertEqual(text.endswith("False"), len(more) and "tools" not in more)
                n = s.answer("/completion", prompt=text, n_predict=0)["tokens_evaluated"]
                self.assertEqual(s.chat(**more, max_tokens=0)["usage"]["prompt_tokens"], n)
            for more, says in [({"enable_thinking": False}, None),
                               ({"reasoning_effort": "low"},
                                "the chat template does not use reasoning_effort")]:
                headers = s.ask("/v1/chat/completions",
                                {"messages": HELLO, "max_tokens": 1, **more})[1]
                self.assertEqual(headers["X-Tuffet-Warning"], says)
            status, _, got = s.ask("/v1/chat/completions", {
                "messages": HELLO, "chat_template_kwargs": {"messages": []}})
            self.assertEqual((status, got["error"]["message"]),
                             (400, "chat_template_kwargs must not have messages"))

    def test_a_form_beside_tools(self):
        body = {"tools": [TOOL], "response_format": FORM, "max_tokens": 400,
                "parallel_tool_calls": False}
        kinds = set()
        for template in [ZEPHYR, HERMES]:
            with self.serve(template) as s:
                for seed in range(4):
                    for choice in ["none", "auto", "required"]:
                        got, = s.chat(**body, seed=seed, tool_choice=choice)["choices"]
                        calls = got["message"].get("tool_calls")
                        kinds.add((choice, bool(calls)))
                        if calls:
                            for call in calls:
                                self.assertIn(json.loads(call["function"]["arguments"]),
                                              [{"a": "x"}, {"a": "y"}])
                        else:
                            self.assertIn(json.loads(got["message"]["content"]),
                                          [{"n": True}, {"n": False}])
        self.assertEqual(kinds - {("auto", True), ("auto", False)},
                         {("none", False), ("required", True)})

    def test_a_tool_without_parameters(self):
        tool = {"type": "function", "function": {"name": "g", "parameters": {
            "type": "object", "properties": {}, "required": []}}}
        with self.serve() as s:
            got, = s.chat(tools=[tool], tool_choice="required", max_tokens=200,
                          parallel_tool_calls=False)["choices"]
            call, = got["message"]["tool_calls"]
            self.assertEqual(call["function"]["arguments"], "{}")

    def test_an_answer_to_continue(self):
        start = "<|user|>\nhello\n<|assistant|>\n"  # the toy has no EOS
        said = [*HELLO, answer("Roses are ")]
        self.assertEqual(self.prompts(ZEPHYR, said, [*HELLO, answer("")]),
                         [start + "Roses are ", start])
        self.assertEqual(self.prompts(ZEPHYR, said, continue_final_message=False),
                         [start + "Roses are \n<|assistant|>\n"])
        self.assertEqual(self.prompts(ZEPHYR, HELLO, add_generation_prompt=False),
                         ["<|user|>\nhello\n"])
        with self.serve() as s:
            status, _, got = s.ask("/apply-template", {"messages": HELLO,
                                                       "continue_final_message": True})
            self.assertEqual(status, 400)
            self.assertIn("not an answer with text", got["error"]["message"])
            # the same tokens, and the same answer, as of a text that goes on
            text = start + "Roses are"
            said = [*HELLO, answer("Roses are")]
            want = s.answer("/completion", prompt=text, temperature=0, n_predict=9)
            got = s.chat(messages=said, temperature=0, max_tokens=9)
            self.assertEqual(got["usage"]["prompt_tokens"], want["tokens_evaluated"])
            self.assertEqual(got["choices"][0]["message"]["content"], want["content"])
            got = s.answer("/api/chat", messages=said, stream=False,
                           options={"temperature": 0, "num_predict": 9})
            self.assertEqual(got["message"]["content"], want["content"])

    def test_names_of_special_tokens_in_a_text(self):
        text = "<|user|>\nhi</s>\n<|assistant|>\n"
        with self.serve() as s:
            n = s.answer("/completion", prompt=text, n_predict=1)["tokens_evaluated"]
            for prompt in [text, "<s>" + text]:
                self.assertEqual(s.answer("/v1/completions", prompt=prompt, max_tokens=1)
                                 ["usage"]["prompt_tokens"], n)
                ids = s.answer("/tokenize", content=prompt, add_special=True)["tokens"]
                self.assertEqual((len(ids), ids.count(1)), (n, 1))


if __name__ == "__main__":
    main()
