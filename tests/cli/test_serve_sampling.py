"""The sampler's fields, the budget of thoughts and loops in tuffet serve."""
from program import Case, main
from test_sampling import PLAIN, SHIPPED
from test_serve import HELLO, ZEPHYR, Server
from test_serve_ollama import TOOLS
from test_tools import HERMES

STORIES = [SHIPPED, "--template=chatml"]
STEPS = [{"dry_multiplier": 1, "dry_allowed_length": 1}, {"xtc_probability": 1},
         {"typical_p": 0.2}, {"typ_p": 0.2}, {"top_n_sigma": 0.3},
         {"mirostat": 2, "mirostat_tau": 1}, {"dynatemp_range": 0.8}]
OFF = {"dry_multiplier": 0, "dry_base": 2, "dry_sequence_breakers": ["e"], "xtc_probability": 0,
       "xtc_threshold": 0.3, "typical_p": 1, "top_n_sigma": -1, "mirostat": 0, "mirostat_tau": 5,
       "mirostat_eta": 0.1, "dynatemp_range": 0, "dynatemp_exponent": 2, "min_tokens": 0,
       "ignore_eos": False, "reasoning_budget": -1, "stop_loops": False}
WRONG = [{"dry_multiplier": -1}, {"dry_base": 0.5}, {"dry_allowed_length": 0},
         {"dry_penalty_last_n": -2}, {"dry_sequence_breakers": "x"},
         {"dry_sequence_breakers": [""]}, {"dry_sequence_breakers": [1]},
         {"dry_sequence_breakers": ["a\0b"]}, {"dry_sequence_breakers": ["x" * 65]},
         {"dry_sequence_breakers": ["x"] * 17}, {"xtc_probability": 2}, {"xtc_threshold": "x"},
         {"typical_p": 1.1}, {"typical_p": 0.5, "typ_p": 0.6}, {"top_n_sigma": "1"},
         {"mirostat": 3}, {"mirostat": 2, "mirostat_tau": -1}, {"mirostat_eta": []},
         {"dynatemp_range": -1}, {"min_tokens": -1}, {"ignore_eos": 1}, {"reasoning_budget": -2},
         {"reasoning_budget": 1, "thinking_budget_tokens": 2}, {"stop_loops": 1}]
TENS = 'root ::= "0123456789"{60}'


class Sampling(Case):
    def story(self, s, **fields):
        return s.answer("/completion", prompt="Once", n_predict=120, seed=1, **fields)["content"]

    def test_each_step_has_an_effect_in_all_apis(self):
        with Server(*STORIES) as s:
            plain = self.story(s)
            self.assertEqual(self.story(s, **OFF), plain)
            for step in STEPS:
                text = self.story(s, **step)
                self.assertNotEqual(text, plain, step)
                choice = s.answer("/v1/completions", prompt="Once", max_tokens=120, seed=1, **step)
                self.assertEqual(choice["choices"][0]["text"], text)
                said = s.answer("/api/generate", prompt="Once", raw=True, stream=False,
                                options={"num_predict": 120, "seed": 1, **step})
                self.assertEqual(said["response"], text)

    def test_defaults_are_the_options(self):
        options = ["--dry-multiplier=1", "--dry-allowed-length=1", "--dry-sequence-breaker=e",
                   "--xtc-probability=0.5", "--min-tokens=3"]
        fields = {"dry_multiplier": 1, "dry_allowed_length": 1, "dry_sequence_breakers": ["e"],
                  "xtc_probability": 0.5, "min_tokens": 3}
        with Server(*STORIES, *options) as t, Server(*STORIES) as s:
            self.assertEqual(self.story(t), self.story(s, **fields))
            self.assertEqual(self.story(t, **OFF), self.story(s))
            params = t.ask("/props")[2]["default_generation_settings"]["params"]
            self.assertEqual((params["dry_multiplier"], params["xtc_probability"],
                              params["min_tokens"], params["mirostat"]), (1, 0.5, 3, 0))

    def test_answers_that_run_together_do_not_mix(self):
        with Server(*STORIES, "--slots=3") as s:
            step = {"mirostat": 2, "mirostat_tau": 3, "dry_multiplier": 1}
            many = s.answer("/v1/completions", prompt="Once", max_tokens=60, seed=4, n=3, **step)
            for i, choice in enumerate(many["choices"]):
                alone = s.answer("/v1/completions", prompt="Once", max_tokens=60, seed=4 + i,
                                 **step)
                self.assertEqual(choice["text"], alone["choices"][0]["text"])

    def test_errors(self):
        with Server(self.toy(template=ZEPHYR)) as s:
            for wrong in WRONG:
                status, _, answer = s.ask("/v1/chat/completions", {"messages": HELLO, **wrong})
                self.assertEqual((status, wrong), (400, wrong), answer)
            for path, body in [("/v1/chat/completions", {"messages": HELLO, "mirostat": 1}),
                               ("/api/chat", {"messages": HELLO, "options": {"mirostat": 1}})]:
                status, _, answer = s.ask(path, body)
                self.assertEqual(status, 501)
                self.assertIn("mirostat 1", str(answer))

    def test_the_answer_does_not_end_early(self):
        with Server(*STORIES) as s:
            ask = {"path": "/v1/completions", "prompt": "Once", "temperature": 0,
                   "max_tokens": -1}
            usual = s.answer(**ask)
            self.assertEqual(usual["choices"][0]["finish_reason"], "stop")
            n = usual["usage"]["completion_tokens"]
            longer = s.answer(**ask, min_tokens=n + 5)
            self.assertGreaterEqual(longer["usage"]["completion_tokens"], n + 5)
            self.assertTrue(longer["choices"][0]["text"].startswith(usual["choices"][0]["text"]))
            endless = s.answer(**{**ask, "max_tokens": 300}, ignore_eos=True)
            self.assertEqual(endless["usage"]["completion_tokens"], 300)

    def test_thoughts_end(self):
        template = ZEPHYR.replace("<|assistant|>\n", "<|assistant|>\n<think>\n")
        with Server(self.toy(template=template, endless=1)) as s:
            ask = {"reasoning_budget": 4, "max_tokens": 20, "temperature": 0}
            long = s.chat(**{**ask, "reasoning_budget": -1})["choices"][0]["message"]
            self.assertEqual(long["content"], "")
            message = s.chat(**ask)["choices"][0]["message"]
            self.assertTrue(long["reasoning_content"].startswith(message["reasoning_content"]))
            self.assertTrue(message["reasoning_content"] and message["content"])
            self.assertEqual(s.chat(**{**ask, "reasoning_budget": None},
                                    thinking_budget_tokens=4)["choices"][0]["message"], message)
            for name in "reasoning_content", "content":
                deltas = [p["choices"][0]["delta"].get(name) or ""
                          for p in s.stream(messages=HELLO, seed=1, **ask)]
                self.assertEqual("".join(deltas), message[name])
            form = s.chat(**ask, grammar="root ::= [0-9]{3}")["choices"][0]["message"]
            self.assertRegex(form["content"], r"\A\d{3}\Z")
            self.assertTrue(form["reasoning_content"])
            said = s.answer("/v1/messages", messages=HELLO, max_tokens=40, temperature=0, seed=1,
                            thinking={"type": "enabled", "budget_tokens": 4})["content"]
            self.assertEqual([block["type"] for block in said], ["thinking", "text"])
            self.assertEqual(said[0]["thinking"], message["reasoning_content"])

    def test_thoughts_before_a_call_end(self):
        template = HERMES + "{{ '<think>\n' }}"
        with Server(self.toy(template=template, endless=1, ctx=1000)) as s:
            ask = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False,
                   "max_tokens": 200, "temperature": 0}
            message = s.chat(**ask, reasoning_budget=4)["choices"][0]["message"]
            (call,) = message["tool_calls"]
            self.assertEqual(call["function"]["name"], "weather")
            self.assertTrue(message["reasoning_content"])
            parts = s.stream(messages=HELLO, seed=1, **ask, reasoning_budget=4)
            self.assertEqual(parts[-1]["choices"][0]["finish_reason"], "tool_calls")

    def test_no_thoughts(self):
        thinks = ZEPHYR + "{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}"
        with Server(self.toy(template=thinks, endless=1)) as s:
            def count(**fields):
                return s.chat(**fields)["usage"]["prompt_tokens"]
            self.assertEqual(count(reasoning_budget=0), count(enable_thinking=False))
            self.assertNotEqual(count(reasoning_budget=0), count(reasoning_budget=9))
            self.assertEqual(count(reasoning_budget=0, enable_thinking=True),
                             count(enable_thinking=True))

    def test_loops(self):
        with Server(self.toy(template=PLAIN, ctx=900)) as s:
            ask = {"grammar": TENS, "stop_loops": True}
            (choice,) = s.chat(**ask, max_tokens=-1)["choices"]
            self.assertEqual((choice["finish_reason"], choice["tuffet_stop"]), ("length", "loop"))
            self.assertEqual(choice["message"]["content"], "0123456789" * 4)
            last = s.stream(messages=HELLO, **ask)[-1]["choices"][0]
            self.assertEqual((last["finish_reason"], last["tuffet_stop"]), ("length", "loop"))
            native = s.answer("/completion", prompt="a", **ask)
            self.assertEqual((native["stop_type"], native["tuffet_stop"]), ("limit", "loop"))
            ollama = s.answer("/api/chat", messages=HELLO, stream=False, **ask)
            self.assertEqual((ollama["done_reason"], ollama["tuffet_stop"]), ("length", "loop"))
            message = s.answer("/v1/messages", messages=HELLO, max_tokens=800, **ask)
            self.assertEqual((message["stop_reason"], message["tuffet_stop"]),
                             ("max_tokens", "loop"))
            response = s.answer("/v1/responses", input="hello", **ask)
            self.assertEqual((response["status"], response["tuffet_stop"]), ("incomplete", "loop"))
            (choice,) = s.chat(grammar=TENS, max_tokens=-1)["choices"]
            self.assertEqual(choice["finish_reason"], "stop")
            self.assertNotIn("tuffet_stop", choice)


main()
