"""Ollama's API in tuffet serve."""
import json
import os

from program import Case, main
from test_serve import HELLO, ZEPHYR, Server
from test_tools import HERMES

SCHEMA = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}},
          "required": ["city"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
SHORT = {"temperature": 0, "num_predict": 12}


def lines(text):
    """The objects of a stream. If it has one line, that is JSON already."""
    return [text] if isinstance(text, dict) else [json.loads(line) for line in text.splitlines()]


class Ollama(Case):
    def serve(self, template=ZEPHYR, **settings):
        return Server(self.toy(**{"template": template, "endless": 1, "ctx": 2000, **settings}))

    def test_models(self):
        with self.serve() as s:
            self.assertRegex(s.ask("/api/version")[2]["version"], r"^\d+\.\d+\.\d+$")
            (model,) = s.ask("/api/tags")[2]["models"]
            self.assertEqual(model["name"], s.ask("/v1/models")[2]["data"][0]["id"])
            self.assertEqual(model["details"]["family"], "llama")
            self.assertRegex(model["digest"], "^[0-9a-f]{64}$")
            self.assertEqual(model["size"], os.path.getsize(self.toy(template=ZEPHYR, endless=1,
                                                                     ctx=2000)))
            (loaded,) = s.ask("/api/ps")[2]["models"]
            for name in "name", "model", "size", "digest", "details":
                self.assertEqual(loaded[name], model[name])
            self.assertEqual((loaded["size_vram"], loaded["context_length"]), (0, 2000))
            self.assertRegex(loaded["expires_at"], r"^2\d{3}-\d\d-\d\dT[\d:]{8}Z$")
            shown = s.answer("/api/show", model=model["name"])
            self.assertEqual(shown["template"], ZEPHYR)
            self.assertEqual(shown["model_info"]["llama.context_length"], 2000)
            self.assertEqual(shown["capabilities"], ["completion", "tools"])

    def test_quantization_level(self):
        """general.file_type, or the type of most bytes: also of models that are not open."""
        mixed = self.path("mixed.gguf")
        toy = self.toy(wide=1, template=ZEPHYR)
        self.tuffet("quantize", toy, "--gguf", "q4_k_m", "-o", mixed, "--rounding", "nearest",
                    "--calib", self.write("text", b"hello world. " * 400), "-t1",
                    "--calib-tokens", "64", "--calib-window", "64", "--json")
        packed = self.path("packed.gguf")
        self.tuffet("pack", self.toy(type="q8_0"), "-o", packed)
        levels = {self.toy(): "F32", self.toy(type="q8_0"): "Q8_0", mixed: "Q4_K_M",
                  packed: "Q8_0", self.w8a8(): "I8"}
        with Server(*(f"m{i}={path}" for i, path in enumerate(levels))) as s:
            found = {m["name"]: m["details"]["quantization_level"]
                     for m in s.ask("/api/tags")[2]["models"]}
        self.assertEqual(list(found.values()), list(levels.values()))
        with Server(mixed) as s:
            self.assertEqual(s.answer("/api/show")["details"]["quantization_level"], "Q4_K_M")

    def test_digests_tell_files_apart(self):
        seen = set()
        for settings in {}, {}, {"ctx": 1000}, {"template": ZEPHYR + " "}:
            with self.serve(**settings) as s:
                seen.add(s.ask("/api/tags")[2]["models"][0]["digest"][:12])
        self.assertEqual(len(seen), 3)

    def test_a_name_that_is_not_utf_8(self):
        name = self.path("toy").encode() + b"\xff.gguf"
        os.symlink(self.toy(template=ZEPHYR), name)
        with Server(name) as s:
            (model,) = s.ask("/api/tags")[2]["models"]
            self.assertEqual(model["name"], "toy\ufffd")
            self.assertEqual(s.ask("/v1/models/toy%EF%BF%BD")[2]["id"], "toy\ufffd")
            got = s.answer("/api/chat", messages=HELLO, options=SHORT, stream=False)
            self.assertEqual(got["model"], "toy\ufffd")

    def test_a_chat_is_that_of_openai(self):
        with self.serve() as s:
            want = s.chat(temperature=0, max_tokens=12)
            got = s.answer("/api/chat", messages=HELLO, options=SHORT, stream=False)
            self.assertEqual(got["message"], want["choices"][0]["message"])
            self.assertEqual((got["done"], got["done_reason"]), (True, "length"))
            self.assertEqual((got["prompt_eval_count"], got["eval_count"]),
                             (want["usage"]["prompt_tokens"], 12))
            seeded = [s.answer("/api/chat", messages=HELLO, stream=False,
                               options={"seed": 5, "temperature": 1.5, "num_predict": n})
                      for n in (9, 9, -1)]
            self.assertEqual(seeded[0]["message"], seeded[1]["message"])
            self.assertTrue(seeded[2]["message"]["content"].startswith(
                seeded[0]["message"]["content"].rstrip("\ufffd")),
                "-1: as many as there is room for")

    def test_options(self):
        with self.serve() as s:
            plain = s.answer("/api/chat", messages=HELLO, options=SHORT, stream=False)
            text = plain["message"]["content"]
            self.assertEqual(plain["total_duration"],
                             plain["prompt_eval_duration"] + plain["eval_duration"])
            self.assertIsInstance(plain["eval_duration"], int)
            stop = next(c for c in text[2:] if c.isalnum())
            cut = s.answer("/api/chat", messages=HELLO, options={**SHORT, "stop": [stop]},
                           stream=False)
            self.assertEqual((cut["message"]["content"], cut["done_reason"]),
                             (text[:text.index(stop)], "stop"))
            draw, seen = {"temperature": 1.5, "seed": 5, "repeat_penalty": 1.5}, []
            for more in [{}, {"temperature": 2}, {"seed": 6}, {"repeat_penalty": 3},
                         {"repeat_last_n": 1}, {"top_k": 3}, {"top_p": 0.3}, {"min_p": 0.3}]:
                want = s.chat(**{**draw, **more}, max_tokens=40)["choices"][0]["message"]
                got = s.answer("/api/chat", messages=HELLO, stream=False,
                               options={**draw, **more, "num_predict": 40})
                self.assertEqual(got["message"], want, more)
                self.assertNotIn(want, seen, more)
                seen.append(want)

    def test_thoughts_are_apart(self):
        form = 'root ::= "<think>so</think>\\n\\nyes"'
        thinks = ZEPHYR + "{% if enable_thinking %}think of it{% endif %}"
        with self.serve(thinks) as s:
            body = {"messages": HELLO, "grammar": form}
            message = s.answer("/api/chat", **body, stream=False)["message"]
            self.assertEqual((message["thinking"], message["content"]), ("so", "yes"))
            parts = lines(s.ask("/api/chat", body)[2])
            for name, want in [("thinking", "so"), ("content", "yes")]:
                self.assertEqual("".join(p["message"].get(name, "") for p in parts), want)
            n = [s.answer("/api/chat", messages=HELLO, think=think, options=SHORT,
                          stream=False)["prompt_eval_count"] for think in (False, True)]
            self.assertLess(*n)
            self.assertIn("thinking", s.answer("/api/show")["capabilities"])

    def test_think_by_a_word(self):
        thinks = ZEPHYR + "{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}" \
                          "{{ reasoning_effort }}"
        with self.serve(thinks) as s:
            def count(path="/api/chat", **more):
                return s.answer(path, messages=HELLO, options=SHORT, stream=False,
                                **more)["prompt_eval_count"]
            self.assertEqual(len({count(), count(think=True), count(think="extremely high")}), 3)
            self.assertEqual(count(think="extremely high"),
                             count(reasoning_effort="extremely high"))
            self.assertEqual(count(think=""), count())
            self.assertEqual(s.ask("/api/chat", {"messages": HELLO, "think": 1})[0], 400)

    def test_thoughts_of_earlier_answers(self):
        shows = "{% for m in messages %}{{ m.role }}{{ m.reasoning_content }}{{ m.content }}\n" \
                "{% endfor %}"
        with self.serve(shows) as s:
            def count(path, more, **options):
                said = [*HELLO, {"role": "assistant", "content": "hi", **more}, *HELLO]
                got = s.answer(path, messages=said, **options)
                return got.get("prompt_eval_count") or got["usage"]["prompt_tokens"]
            ollama = {"stream": False, "options": SHORT}
            want = count("/v1/chat/completions", {"reasoning_content": "R1 R2 R3"}, max_tokens=1)
            plain = count("/v1/chat/completions", {}, max_tokens=1)
            self.assertEqual(count("/api/chat", {"thinking": "R1 R2 R3"}, **ollama), want)
            for empty in {"thinking": ""}, {"thinking": None}:
                self.assertEqual(count("/api/chat", empty, **ollama), plain)

    def test_a_request_without_a_prompt_loads(self):
        with self.serve() as s:
            for more in {}, {"stream": False}, {"keep_alive": -1}, {"keep_alive": "5m"}, \
                    {"keep_alive": 0}:
                for none in {}, {"messages": []}, {"messages": None}:
                    (got,) = lines(s.ask("/api/chat", {"model": "x", **none, **more})[2])
                    self.assertEqual((got["done"], got["done_reason"], got["message"]),
                                     (True, "load", {"role": "assistant", "content": ""}))
                for none in {}, {"prompt": ""}, {"prompt": None}, {"prompt": "", "raw": True}:
                    (got,) = lines(s.ask("/api/generate", {"model": "x", **none, **more})[2])
                    self.assertEqual((got["done"], got["done_reason"], got["response"]),
                                     (True, "load", ""))
            for wrong in {"messages": "x"}, {"messages": {}}, {"options": 3}:
                self.assertEqual(s.ask("/api/chat", wrong)[0], 400, wrong)
            for wrong in {"prompt": 3}, {"options": {"temperature": "hot"}}:
                self.assertEqual(s.ask("/api/generate", wrong)[0], 400, wrong)
            self.assertEqual(s.ask("/api/generate", {"suffix": "x"})[0], 501)
            self.assertEqual(s.metrics()["n_decode_total"], 0)

    def test_the_model_and_its_caches_stay(self):
        """Whatever keep_alive says: other clients have them too."""
        with self.serve() as s:
            for keep in [0, "0s"]:
                s.answer("/api/generate", prompt="hello hello hello", keep_alive=keep, stream=False,
                         options=SHORT)
            self.assertGreater(s.metrics()["prompt_tokens_cached_total"], 0)
            self.assertEqual(len(s.ask("/api/ps")[2]["models"]), 1)

    def test_empty_members(self):
        """Clients that know no parameters send all of them."""
        with self.serve() as s:
            body = {"options": SHORT, "stream": False}
            chat = s.answer("/api/chat", messages=HELLO, **body)["message"]
            message = {**HELLO[0], "images": [], "tool_calls": [], "tool_name": "", "thinking": ""}
            for empty in [{"think": None, "format": None, "tools": None, "keep_alive": None},
                          {"think": "", "format": "", "tools": [], "keep_alive": ""}]:
                self.assertEqual(s.answer("/api/chat", messages=[message], **body, **empty)
                                 ["message"], chat)
            want = s.answer("/api/generate", prompt="hello", **body)["response"]
            self.assertEqual(s.answer("/api/generate", prompt="hello", system="", suffix="",
                                      template="", context=[], images=[], format="", think=None,
                                      raw=False, keep_alive="", **body)["response"], want)
            plain = [*HELLO, {"role": "assistant", "content": ""}, *HELLO]
            bare = [*HELLO, {"role": "assistant"}, {"role": "user", "content": "hello"}]
            self.assertEqual(*(s.answer("/api/chat", messages=m, **body)["message"]
                               for m in (plain, bare)))

    def test_penalties(self):
        with self.serve() as s:
            text = lambda **more: s.answer(
                "/api/generate", prompt="a a a a a a", raw=True, stream=False,
                options={"temperature": 0, "num_predict": 60, **more})["response"]
            of_openai = lambda **more: s.answer(
                "/v1/completions", prompt="a a a a a a", temperature=0, max_tokens=60,
                **more)["choices"][0]["text"]
            plain = text()
            for more in [{"frequency_penalty": 2}, {"presence_penalty": 2},
                         {"logit_bias": {"7": 1000}}]:
                self.assertEqual(text(**more), of_openai(**more), more)
            self.assertNotEqual(text(logit_bias={"7": 1000}), plain)
            self.assertEqual(text(num_predict=0), "")
            hard = {"repeat_penalty": 3}
            self.assertEqual(text(**hard, repeat_last_n=0), plain)
            self.assertEqual(text(**hard, repeat_last_n=-1), text(**hard, repeat_last_n=9999))

    def test_a_stream_of_lines_unless_told(self):
        with self.serve() as s:
            whole = s.answer("/api/chat", messages=HELLO, options=SHORT, stream=False)
            status, headers, text = s.ask("/api/chat", {"messages": HELLO, "options": SHORT})
            self.assertEqual((status, headers["Content-Type"]), (200, "application/x-ndjson"))
            *parts, last = lines(text)
            self.assertEqual("".join(p["message"]["content"] for p in parts),
                             whole["message"]["content"])
            self.assertEqual({p["done"] for p in parts}, {False})
            self.assertEqual((last["done"], last["eval_count"], last["message"]["content"]),
                             (True, 12, ""))

    def test_generate(self):
        with self.serve() as s:
            body = {"options": SHORT, "stream": False}
            chat = s.answer("/api/chat", messages=[{"role": "system", "content": "Be brief."},
                                                   *HELLO], **body)
            got = s.answer("/api/generate", prompt="hello", system="Be brief.", **body)
            self.assertEqual(got["response"], chat["message"]["content"])
            raw = s.answer("/api/generate", prompt="hello", raw=True, **body)
            want = s.answer("/v1/completions", prompt="hello", temperature=0, max_tokens=12)
            self.assertEqual(raw["response"], want["choices"][0]["text"])
            *parts, last = lines(s.ask("/api/generate", {"prompt": "hello", "raw": True,
                                                         "options": SHORT})[2])
            self.assertEqual("".join(p["response"] for p in parts), raw["response"])
            self.assertEqual(last["done_reason"], "length")

    def test_forms(self):
        with self.serve() as s:
            for form, right in [(SCHEMA, lambda v: v["city"] in ("Oslo", "Rome")),
                                ({"enum": [[1, 2]]}, lambda v: v == [1, 2])]:
                got = s.answer("/api/chat", messages=HELLO, format=form, stream=False)
                self.assertTrue(right(json.loads(got["message"]["content"])), got)
                self.assertEqual(got["done_reason"], "stop")
            got = s.answer("/api/generate", prompt="x", format="json", stream=False,
                           options={"num_predict": 1})
            self.assertEqual(got["response"], "{")
            self.assertEqual(s.ask("/api/chat", {"messages": HELLO, "format": "xml"})[0], 400)

    def test_calls_and_their_results(self):
        with self.serve(HERMES.replace("in tools", "in tools or []")) as s:
            body = {"messages": HELLO, "tools": TOOLS, "tool_choice": "required",
                    "parallel_tool_calls": False,
                    "options": {"temperature": 0}}
            parts = [s.answer("/api/chat", **body, stream=False),
                     *lines(s.ask("/api/chat", body)[2])]
            made = [c["function"] for p in parts for c in p["message"].get("tool_calls", [])]
            self.assertEqual([c["name"] for c in made], ["weather"] * 2)
            for c in made:
                self.assertIn(c["arguments"], [{"city": "Oslo"}, {"city": "Rome"}])
            tool = {"type": "function", "function": {"name": "f", "parameters": {
                "type": "object", "properties": {"x": {"enum": ["a\0b"]}}, "required": ["x"],
                "additionalProperties": False}}}
            got = s.answer("/api/chat", **{**body, "tools": [tool]}, stream=False)
            self.assertEqual(got["message"]["tool_calls"][0]["function"]["arguments"],
                             {"x": "a\0b"})
            call = {"function": {"name": "weather", "arguments": {"city": "Rome"}}}
            history = [*HELLO, {"role": "assistant", "content": "", "tool_calls": [call]},
                       {"role": "tool", "tool_name": "weather", "content": "rain"}]
            got = s.answer("/api/chat", messages=history, tools=TOOLS, options=SHORT, stream=False)
            text = s.answer("/apply-template", messages=[
                HELLO[0],
                {"role": "assistant", "content": "", "tool_calls": [
                    {"id": "call00100", "type": "function", "function": {
                        "name": "weather", "arguments": '{"city":"Rome"}'}}]},
                {"role": "tool", "name": "weather", "content": "rain"}], tools=TOOLS)["prompt"]
            self.assertIn('<tool_call>weather {"city": "Rome"} call00100', text)
            count = len(s.answer("/tokenize", content=text, add_special=True)["tokens"])
            self.assertEqual(got["prompt_eval_count"], count)

    def test_results_without_names(self):
        """Home Assistant's are in the order of the calls; Mistral's template wants their ids. A
        result's content is here what the template must see."""
        checks = "{% for t in tools or [] %}{{ t.function.name }}{% endfor %}" \
                 "{% for m in messages %}{{ m.role ~ m.content }}" \
                 "{% for c in m.tool_calls or [] %}<tool_call>{{ c.id }}{% endfor %}" \
                 "{% if m.role == 'tool' and " \
                 "m.tool_call_id != m.content %}{{ raise_exception('other call') }}" \
                 "{% endif %}{% endfor %}"
        called = {"role": "assistant", "tool_calls": [
            {"function": {"name": name, "arguments": {}}} for name in ("on", "off", "on")]}
        with self.serve(checks) as s:
            def status(*results):
                said = [*HELLO, called, *({"role": "tool", **r} for r in results)]
                return s.ask("/api/chat", {"messages": said, "options": SHORT})[0]
            on, off, last = ({"content": c} for c in ("call00100", "call00101", "call00102"))
            self.assertEqual(status(on, off, last), 200)
            self.assertEqual(status(on, last), 400)
            self.assertEqual(status({"tool_name": "off", **off}, on, last), 200)
            self.assertEqual(status({"tool_name": "on", **on}, {"tool_name": "on", **last}), 200)
            self.assertEqual(status({"tool_call_id": "a", "name": "b", "content": "a"}), 200)
            self.assertEqual(status(on, off, last, {"content": "more than calls"}), 400)

    def test_what_is_not_there(self):
        with self.serve() as s:
            for path, body in [("/api/pull", {"model": "x"}),
                               ("/api/generate", {"prompt": "x", "images": ["x"]}),
                               ("/api/chat", {"messages": [{**HELLO[0], "images": ["x"]}]})]:
                status, _, answer = s.ask(path, body)
                self.assertEqual(status, 501, path)
                self.assertEqual(list(answer), ["error"])
                self.assertIsInstance(answer["error"], str)
            status, _, answer = s.ask("/api/chat", {"messages": [
                {"role": "user", "content": "hello " * 3000}]})
            self.assertEqual(status, 400)
            self.assertIn("the context holds only 2000", answer["error"])


if __name__ == "__main__":
    main()
