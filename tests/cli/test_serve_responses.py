"""OpenAI's /v1/responses in tuffet serve, and the same request to four APIs."""
import json
import threading

from program import PATIENCE, Case, main
from test_serve import ENDLESS, HELLO, ZEPHYR, Server
from test_serve_anthropic import SAME_TOOL, SCHEMA, THINKS, TOOL
from test_tools import HERMES

PATH = "/v1/responses"
FLAT_TOOL = {"type": "function", **SAME_TOOL["function"], "strict": True}
ONE_CALL = {"tools": [FLAT_TOOL], "tool_choice": "required", "parallel_tool_calls": False,
            "max_output_tokens": 300}
ENDS = {"response.completed", "response.incomplete"}


def response(events):
    """The last event's response, which must be what the other events say."""
    kinds = [e["type"] for e in events]
    assert [e["sequence_number"] for e in events] == list(range(len(events))), events
    assert kinds[:2] == ["response.created", "response.in_progress"], kinds
    assert kinds[-1] in ENDS, kinds
    last, made = events[-1]["response"], []
    for e in events[2:-1]:
        kind = e["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert e["output_index"] == len(made) and e["item"]["status"] == "in_progress", e
            made.append(e["item"])
            continue
        item = made[e["output_index"]]
        assert e["output_index"] == len(made) - 1 and e.get("item_id", item["id"]) == item["id"], e
        part = item.get("content", [{}])[-1] if kind != "content_part.added" else None
        if kind == "content_part.added":
            assert e["content_index"] == len(item["content"]) == 0, e
            item["content"].append(e["part"])
        elif kind in ("output_text.delta", "reasoning_text.delta"):
            part["text"] += e["delta"]
        elif kind in ("output_text.done", "reasoning_text.done"):
            assert e["text"] == part["text"], e
        elif kind == "content_part.done":
            assert e["part"] == part, e
        elif kind == "function_call_arguments.delta":
            item["arguments"] += e["delta"]
        elif kind == "function_call_arguments.done":
            assert (e["arguments"], e["name"]) == (item["arguments"], item["name"]), e
        else:
            assert kind == "output_item.done", e
            assert {**item, "status": e["item"]["status"]} == e["item"], e
            made[-1] = e["item"]
    assert last["output"] == made, events
    return last


def text_of(r):
    return "".join(part["text"] for item in r["output"] if item["type"] == "message"
                   for part in item["content"])


class Responses(Case):
    def serve(self, template=ZEPHYR, *args, **settings):
        return Server(self.toy(**{"template": template, "endless": 1, "ctx": 2000, **settings}),
                      *args)

    def both(self, s, **body):
        """The response, whole and as a stream: they must be the same but for names and times."""
        body = {"input": "hello", "max_output_tokens": 12, "temperature": 0, **body}
        whole, streamed = s.answer(PATH, **body), response(s.events(PATH, **body))
        for r in whole, streamed:
            self.assertRegex(r.pop("id"), "^resp_[0-9a-f]{16}$")
            del r["created_at"], r["usage"]["input_tokens_details"]
            for item in r["output"]:
                self.assertTrue(item.pop("id"))
                item.pop("call_id", None)
        self.assertEqual(streamed, whole)
        return whole

    def fails(self, s, status, kind, **body):
        got, _, answer = s.ask(PATH, {"input": "hello", **body})
        self.assertEqual((got, answer["error"]["type"]), (status, kind), body)
        return answer["error"]["message"]

    def test_an_answer_is_that_of_a_chat(self):
        with self.serve() as s:
            got = self.both(s, instructions="once", metadata={"a": "b"})
            want = s.chat(messages=[{"role": "system", "content": "once"}, *HELLO], temperature=0,
                          max_tokens=12)
            self.assertEqual(text_of(got), want["choices"][0]["message"]["content"])
            self.assertEqual((got["object"], got["status"], got["incomplete_details"]),
                             ("response", "incomplete", {"reason": "max_output_tokens"}))
            self.assertEqual(got["output"][0]["status"], "incomplete")
            self.assertEqual((got["usage"]["input_tokens"], got["usage"]["output_tokens"]),
                             (want["usage"]["prompt_tokens"], 12))
            self.assertEqual((got["instructions"], got["metadata"], got["max_output_tokens"]),
                             ("once", {"a": "b"}, 12))
            done = self.both(s, grammar='root ::= "yes"')
            self.assertEqual((done["status"], text_of(done)), ("completed", "yes"))

    def test_thoughts_and_forms(self):
        with self.serve() as s:
            got = self.both(s, grammar=THINKS, max_output_tokens=100)
            thought, message = got["output"]
            self.assertEqual((thought["type"], thought["content"]),
                             ("reasoning", [{"type": "reasoning_text", "text": "so"}]))
            self.assertEqual(text_of(got), "yes")
            got = self.both(s, max_output_tokens=200, text={"format": {
                "type": "json_schema", "name": "n", "strict": True, "schema": SCHEMA}})
            self.assertIn(json.loads(text_of(got)), [{"city": "Oslo"}, {"city": "Rome"}])

    def test_calls(self):
        for template in ZEPHYR, HERMES:
            with self.serve(template) as s:
                want = s.chat(tools=[SAME_TOOL], tool_choice="required", temperature=0,
                              parallel_tool_calls=False, max_tokens=300)["choices"][0]["message"]
                only = {"type": "function", "name": "weather"}
                for choice in "required", only:
                    got = self.both(s, **{**ONE_CALL, "tool_choice": choice})
                    call = got["output"][-1]
                    self.assertEqual((call["type"], call["name"], got["status"]),
                                     ("function_call", "weather", "completed"))
                    self.assertEqual(call["arguments"],
                                     want["tool_calls"][0]["function"]["arguments"])

    def test_earlier_responses(self):
        """previous_response_id stands for the conversation, its calls and results included."""
        result = {"type": "function_call_output", "output": "SUNNY"}
        for template in ZEPHYR, HERMES:
            with self.serve(template) as s:
                body = {**ONE_CALL, "temperature": 0}
                first = s.answer(PATH, input="hello", instructions="once", **body)
                call = first["output"][-1]
                said = [{**result, "call_id": call["call_id"]}]
                more = {"temperature": 0, "max_output_tokens": 9, "instructions": "upon",
                        "tools": [FLAT_TOOL], "tool_choice": "none"}
                got = s.answer(PATH, input=said, previous_response_id=first["id"], **more)
                want = s.answer(PATH, input=[*HELLO, *first["output"], *said], store=False, **more)
                self.assertEqual(got["usage"]["input_tokens"], want["usage"]["input_tokens"])
                self.assertEqual(text_of(got), text_of(want))
                self.assertEqual(got["previous_response_id"], first["id"])
                third = s.answer(PATH, input="time", previous_response_id=got["id"], **more)
                want = s.answer(PATH, input=[*HELLO, *first["output"], *said, *got["output"],
                                             {"role": "user", "content": "time"}], **more)
                self.assertEqual(third["usage"]["input_tokens"], want["usage"]["input_tokens"])
                self.assertEqual(s.ask(f"{PATH}/{got['id']}")[2], got)

    def test_what_is_kept(self):
        with self.serve() as s:
            body = {"input": "hello", "max_output_tokens": 1}
            kept = s.answer(PATH, **body)["id"]
            streamed = s.events(PATH, **body)[-1]["response"]
            passing = s.answer(PATH, **body, store=False)["id"]
            self.assertEqual(s.ask(f"{PATH}/{streamed['id']}")[2], streamed)
            self.assertEqual(s.ask(f"{PATH}/{kept}", method="DELETE")[2],
                             {"id": kept, "object": "response", "deleted": True})
            for name in kept, passing, "resp_0", "":
                for method in "GET", "DELETE":
                    status, _, got = s.ask(f"{PATH}/{name}", method=method)
                    self.assertEqual((status, got["error"]["type"]), (404, "not_found_error"))
            self.fails(s, 404, "not_found_error", previous_response_id=kept)
            self.fails(s, 400, "invalid_request_error", previous_response_id=7)
            self.assertEqual(s.ask(f"{PATH}/{streamed['id']}/input_items")[0], 501)
            self.assertEqual(s.ask(f"{PATH}/{streamed['id']}?stream=true")[0], 501)

    def test_errors(self):
        with self.serve() as s:
            image = [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]
            for more, says in [({"input": []}, "input must be"), ({"input": 7}, "input must be"),
                               ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
                               ({"input": image}, "input[0].content[0]: only parts of text"),
                               ({"input": [{"type": "function_call", "name": "x"}]},
                                "input[0]: function_call"),
                               ({"instructions": 7}, "instructions must be"),
                               ({"tool_choice": "required"}, "there are no tools"),
                               ({"max_tokens": 3, "max_output_tokens": 4}, "max_output_tokens and"),
                               ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
                               ({"truncation": "all"}, "truncation must be"),
                               ({"stream": 1}, "stream must be")]:
                self.assertIn(says, self.fails(s, 400, "invalid_request_error", **more), more)
            for more, says in [({"background": True}, "background"),
                               ({"input": [{"type": "web_search_call"}]}, "web_search_call"),
                               ({"tools": [{"type": "web_search"}]}, "web_search"),
                               ({"tool_choice": {"type": "allowed_tools"}}, "allowed_tools"),
                               ({"text": {"verbosity": "low"}}, "text.verbosity"),
                               ({"include": ["message.output_text.logprobs"]}, "logprobs"),
                               ({"top_logprobs": 2}, "top_logprobs")]:
                self.assertIn(says, self.fails(s, 501, "not_supported_error", **more), more)
            n = s.answer(PATH + "/input_tokens", input="hello",
                         include=["reasoning.encrypted_content"], truncation="disabled")
            self.assertEqual(n, {"object": "response.input_tokens", "input_tokens":
                                 s.chat(max_tokens=0)["usage"]["prompt_tokens"]})

    def test_streams_that_are_cancelled(self):
        """A second signal ends the answers under way: the last event of each is an error."""
        asked = {PATH: {"input": "hello"}, "/v1/messages": {"messages": HELLO}}
        begun, last = threading.Semaphore(0), {}
        with self.serve(ZEPHYR, "--slots=2", ctx=ENDLESS) as s:
            def read(path, body):
                c = s.connect()
                c.request("POST", path, json.dumps({"stream": True, **body}))
                r = c.getresponse()
                begun.release()
                text = r.read().decode()
                c.close()
                last[path] = json.loads(text[text.rindex("data: "):].removeprefix("data: "))
            threads = [threading.Thread(target=read, args=item) for item in asked.items()]
            for t in threads:
                t.start()
                self.assertTrue(begun.acquire(timeout=PATIENCE))
            s.send_first_signal()
        for t in threads:
            t.join()
        self.assertEqual(last["/v1/messages"], {"type": "error", "error": {
            "type": "overloaded_error", "message": "the answer was cancelled"}})
        failed = last[PATH]
        self.assertEqual((failed["type"], failed["response"]["status"],
                          failed["response"]["error"]["message"]),
                         ("response.failed", "failed", "the answer was cancelled"))

    def test_four_apis_give_the_same_tokens(self):
        said = [{"role": "system", "content": "once"}, *HELLO]
        n = 30
        for template in ZEPHYR, HERMES:
            with self.serve(template) as s:
                for draw in [{"temperature": 0}, {"temperature": 1.5, "seed": 5},
                             {"temperature": 1.2, "seed": 6, "top_p": 0.8, "top_k": 30}]:
                    chat = s.chat(messages=said, tools=[SAME_TOOL], tool_choice="none",
                                  **{"seed": 0, **draw}, max_tokens=n)
                    ollama = s.answer("/api/chat", messages=said, tools=[SAME_TOOL], stream=False,
                                      tool_choice="none", options={**draw, "num_predict": n})
                    message = s.answer("/v1/messages", system="once", messages=HELLO, tools=[TOOL],
                                       tool_choice={"type": "none"}, **draw, max_tokens=n)
                    r = s.answer(PATH, instructions="once", input="hello", tools=[FLAT_TOOL],
                                 tool_choice="none", **draw, max_output_tokens=n)
                    text = chat["choices"][0]["message"]["content"]
                    self.assertEqual([ollama["message"]["content"],
                                      "".join(b["text"] for b in message["content"]), text_of(r)],
                                     3 * [text])
                    usage = message["usage"]
                    self.assertEqual([ollama["prompt_eval_count"],
                                      usage["input_tokens"] + usage["cache_read_input_tokens"],
                                      r["usage"]["input_tokens"]],
                                     3 * [chat["usage"]["prompt_tokens"]])
                    self.assertEqual([ollama["eval_count"], usage["output_tokens"],
                                      r["usage"]["output_tokens"]], 3 * [n])

    def test_a_loop_of_ten_calls_by_four_apis(self):
        """Each API sends its own form of the conversation back: the arguments stay the same."""
        schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0,
                                                         "maximum": 999}}, "required": ["n"],
                  "additionalProperties": False}
        of = {"name": "f", "description": "d", "parameters": schema}
        draw = {"temperature": 1.2, "parallel_tool_calls": False}
        with self.serve(ctx=4000) as s: # its template shows no names of calls, which are random
            chat, blocks, items, native = list(HELLO), list(HELLO), list(HELLO), list(HELLO)
            for turn in range(10):
                seed = {"seed": turn}
                got = s.answer(messages=chat, tools=[{"type": "function", "function": of}],
                               tool_choice="required", max_tokens=200, **draw, **seed)
                answer = got["choices"][0]["message"]
                call, = answer["tool_calls"]
                want = json.loads(call["function"]["arguments"])
                chat += [answer, {"role": "tool", "tool_call_id": call["id"], "content": "on"}]

                message = s.answer("/v1/messages", messages=blocks, max_tokens=200, **draw, **seed,
                                   tools=[{"name": "f", "description": "d",
                                           "input_schema": schema}],
                                   tool_choice={"type": "any"})
                block = message["content"][-1]
                blocks += [{"role": "assistant", "content": message["content"]},
                           {"role": "user", "content": [{
                               "type": "tool_result", "tool_use_id": block["id"],
                               "content": "on"}]}]

                r = s.answer(PATH, input=items, tools=[{"type": "function", **of}],
                             tool_choice="required", max_output_tokens=200, **draw, **seed)
                item = r["output"][-1]
                items += [*r["output"], {"type": "function_call_output",
                                         "call_id": item["call_id"], "output": "on"}]

                ollama = s.answer("/api/chat", messages=native, stream=False,
                                  tools=[{"type": "function", "function": of}],
                                  tool_choice="required", parallel_tool_calls=False,
                                  options={"temperature": 1.2, "num_predict": 200, **seed})
                native += [ollama["message"], {"role": "tool", "content": "on"}]
                made, = ollama["message"]["tool_calls"]
                self.assertEqual([block["input"], json.loads(item["arguments"]),
                                  made["function"]["arguments"]], 3 * [want], turn)

    def test_a_call_that_is_cut(self):
        """The beginning of its mark is no text."""
        with self.serve(HERMES) as s:
            for n in 1, 3:
                r = s.answer(PATH, input="hello", **{**ONE_CALL, "max_output_tokens": n})
                self.assertEqual((r["status"], r["incomplete_details"]["reason"]),
                                 ("incomplete", "max_output_tokens"))
                said = [part for item in r["output"] for part in item.get("content", [])]
                self.assertFalse(any(part.get("text") for part in said), r["output"])
                self.assertFalse([i for i in r["output"] if i["type"] == "function_call"])


if __name__ == "__main__":
    main()
