"""Models: the file, its tokens, its chat template, and grammars for what it writes."""
from __future__ import annotations

import ctypes
import json
import os
import threading
import time
import warnings
from ctypes import byref, c_bool, c_int32, c_size_t, c_uint8, c_void_p
from dataclasses import dataclass
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence,
                    Set, Tuple, Union)

from . import _c
from .errors import ArgumentError, Error, check

if TYPE_CHECKING:
    from .session import Batch, Session

_WEIGHTS = ("stored", "f32", "f16", "bf16", "i8", "packed")
_POOLING = ("none", "mean", "last", "other", "cls", "rank")


class Cell:
    """A pointer of the library and the function that frees it. Its parent has it too: what was made
    of an object is freed before the object, in whatever order Python collects them."""

    def __init__(self, p: Optional[int], free: Callable[[int], None],
                 parent: Optional["Cell"] = None):
        self.p, self.free, self.parent = p, free, parent
        self.children: Set[Cell] = set()
        if parent is not None:
            parent.children.add(self)

    def close(self) -> None:
        p, self.p = self.p, None
        if p is None:
            return
        for child in list(self.children):
            child.close()
        if self.parent is not None:
            self.parent.children.discard(self)
        self.free(p)


class Handle:
    """An object of the library, closed by close(), at the end of a `with`, or when it is collected.
    What was made of it is closed with it."""
    _cell: Optional[Cell] = None

    @property
    def _open(self) -> int:
        if self._cell is None or self._cell.p is None:
            raise ValueError(f"this {type(self).__name__} is closed")
        return self._cell.p

    def close(self) -> None:
        if self._cell is not None:
            self._cell.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def ids_of(tokens: Sequence[int]) -> Any:
    """Tokens as the library takes them: int32 [n]."""
    return (c_int32 * len(tokens))(*tokens)


def encoded(text: Optional[str]) -> Optional[bytes]:
    return None if text is None else text.encode("utf-8")


@dataclass(frozen=True)
class Info:
    """struct tft_model_info of tuffet.h."""
    arch: str
    name: str
    n_params: int
    weight_bytes: int
    matmul_macs: int
    kv_width: int
    n_vocab: int
    n_ctx: int
    n_embd: int
    n_layer: int
    n_head: int
    n_head_kv: int
    head_dim: int
    n_ff: int
    weights: str
    n_prefix: int
    prefix_bos: bool
    state_bytes: int
    n_expert: int
    n_expert_used: int
    n_device: int
    pooling: str  # "none", "mean", "last", "cls", "rank" or "other"
    add_eos: bool
    encoder: bool
    kv: str  # the cache of a session without another
    file_type: str  # number type of the file, "Q4_K_M"


@dataclass(frozen=True)
class Prefix:
    """A named prefix of the file: struct tft_prefix_info."""
    name: str
    system: Optional[str]
    tokens: List[int]
    positions: int


@dataclass(frozen=True)
class Prompt:
    """A conversation as the model was trained to read it."""
    text: str
    tokens: List[int]
    text_goes_on: bool  # the last token is text: an answer may begin with a space


class Grammar(Handle):
    """What a text may be; made by Model.grammar, .regex and .schema. Any number of sessions may use
    it."""

    def __init__(self, model: "Model", kind: int, text: bytes):
        lexicon = model._lexicon()
        p, err = c_void_p(), _c.tft_error()
        check(_c.lib.tft_grammar_open(byref(p), lexicon.p, kind, text, len(text), byref(err)), err)
        self._cell = Cell(p.value, _c.lib.tft_grammar_close, lexicon)
        self._model = model  # keeps it open


class GrammarState(Handle):
    """A place in a grammar, for one text."""

    def __init__(self, grammar: Grammar):
        p, err = c_void_p(), _c.tft_error()
        check(_c.lib.tft_grammar_begin(byref(p), grammar._open, byref(err)), err)
        self._cell = Cell(p.value, _c.lib.tft_grammar_end, grammar._cell)
        self._grammar = grammar  # keeps it open

    @property
    def _open(self) -> int:
        self._grammar._open  # a closed grammar has closed its states: the error names the grammar
        return super()._open


def _check_dropped(text: _c.tft_chat_text, opts: _c.tft_chat_input) -> None:
    """Raises if the text lacks a message of the system or a user, and warns of other messages."""
    said, result, err = c_size_t(), c_size_t(), _c.tft_error()
    check(_c.chat().tft_chat_dropped(byref(said), byref(result), byref(text), byref(opts),
                                     byref(err)), err)
    none = c_size_t(-1).value
    if said.value != none:
        raise ArgumentError(f"messages[{said.value}]: the chat template drops this message")
    if result.value != none:
        warnings.warn(f"messages[{result.value}]: the chat template drops this result of a tool",
                      stacklevel=3)


class Model(Handle):
    """A model file: GGUF, or a llama2.c checkpoint with its `tokenizer`.

    It never changes once it is open: any number of threads and sessions may share it.

    weights: "stored", or "f32", "f16", "bf16" to expand quantized weights. device: "cuda".
    experts_bytes: the most bytes of experts that stay in memory; 0: by the size of the file.
    predictor: open the block that predicts a further token, too: draft tokens for sessions with a
    lookup.
    progress: called with 0..1 while quantized weights are laid out.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"], *, tokenizer: Optional[str] = None,
                 weights: str = "stored", vocab_only: bool = False, threads: int = 0,
                 device: Optional[str] = None, gpu_layers: int = 0, experts_bytes: int = 0,
                 predictor: bool = False, progress: Optional[Callable[[float], None]] = None):
        if weights not in _WEIGHTS[:4]:
            raise ValueError(f"weights: {weights!r} is none of {', '.join(_WEIGHTS[:4])}")
        opts = _c.tft_model_opts(size=ctypes.sizeof(_c.tft_model_opts),
                                 tokenizer=None if tokenizer is None else os.fsencode(tokenizer),
                                 weights=_WEIGHTS.index(weights), vocab_only=vocab_only,
                                 n_threads=threads, device=encoded(device), gpu_layers=gpu_layers,
                                 experts_bytes=experts_bytes, predictor=predictor)
        if progress is not None:
            call = progress
            opts.progress = _c.PROGRESS(lambda user, done: call(done))
        p, err = c_void_p(), _c.tft_error()
        check(_c.lib.tft_model_open(byref(p), os.fsencode(path), byref(opts), byref(err)), err)
        self._cell = Cell(p.value, _c.lib.tft_model_close)
        self._lx: Optional[Cell] = None
        self._templates: Dict[bytes, Cell] = {}
        self._lock = threading.Lock()  # of the two above, which are made when they are needed

    @property
    def info(self) -> Info:
        raw = _c.tft_model_info(size=ctypes.sizeof(_c.tft_model_info))
        _c.lib.tft_model_describe(self._open, byref(raw))
        fields = {name: getattr(raw, name) for name, *_ in raw._fields_ if name != "size"}
        fields.update(arch=raw.arch.decode(), name=raw.name.decode("utf-8", "replace"),
                      weights=_WEIGHTS[raw.weights], pooling=_POOLING[raw.pooling],
                      kv=raw.kv.decode(), file_type=raw.file_type.decode())
        return Info(**fields)

    @property
    def chat_template(self) -> Optional[str]:
        """Jinja source, or None."""
        source = _c.lib.tft_model_chat_template(self._open)
        return None if source is None else source.decode("utf-8", "replace")

    def text_prompt(self, name: str) -> Optional[str]:
        """The text that goes before a text to embed, such as "query" or "document", or None."""
        n = c_size_t()
        p = _c.lib.tft_model_prompt(self._open, name.encode("utf-8"), byref(n))
        return None if p is None else ctypes.string_at(p, n.value).decode("utf-8", "replace")

    @property
    def prefixes(self) -> List[Prefix]:
        """The named prefixes of the file, for session(prefix=...)."""
        found: List[Prefix] = []
        raw = _c.tft_prefix_info(size=ctypes.sizeof(_c.tft_prefix_info))
        while _c.lib.tft_prefix_describe(self._open, len(found), byref(raw)) == _c.OK:
            found.append(Prefix(raw.name.decode(), raw.system and raw.system.decode(),
                                raw.tokens[:raw.n_tokens], raw.positions))
        return found

    # -- tokens

    def tokenize(self, text: str, *, bos: bool = True, eos: bool = False, special: bool = False,
                 goes_on: bool = False) -> List[int]:
        """bos: begin with BOS if the model was trained with it. eos: end with EOS, or BERT's [SEP],
        if the model wants it after a text to embed (info.add_eos). special: names such as
        <|im_end|> become special tokens; not for text that a user wrote. goes_on: the text
        continues another.
        """
        flags = (bos * _c.ADD_BOS | eos * _c.ADD_EOS | special * _c.PARSE_SPECIAL
                 | goes_on * _c.CONTINUE)
        data, n = text.encode("utf-8"), c_size_t()
        ids = (c_int32 * (len(data) + 8))()
        status = _c.lib.tft_tokenize(self._open, data, len(data), flags, ids, len(ids), byref(n))
        if status == _c.ERR_FULL:
            ids = (c_int32 * n.value)()
            status = _c.lib.tft_tokenize(self._open, data, len(data), flags, ids, len(ids),
                                         byref(n))
        check(status)
        return ids[:n.value]

    def tokenize_pair(self, first: str, second: str, *, special: bool = False
                      ) -> Tuple[List[int], List[int]]:
        """The tokens of two texts as one input, for a reranker, with the model's special tokens,
        and the type of each token: 1 for the second text if the model has two types, else 0."""
        a, b = first.encode("utf-8"), second.encode("utf-8")
        n, cap = c_size_t(), 0
        while True:
            ids, types = (c_int32 * cap)(), (c_uint8 * cap)()
            status = _c.lib.tft_tokenize_pair(self._open, a, len(a), b, len(b),
                                              special * _c.PARSE_SPECIAL, ids, types, cap,
                                              byref(n))
            if status != _c.ERR_FULL or n.value <= cap:
                break
            cap = n.value
        check(status)
        return ids[:n.value], types[:n.value]

    def detokenize(self, tokens: Sequence[int], *, goes_on: bool = False) -> str:
        """The text of tokens; special tokens have none. goes_on: the tokens continue a text."""
        return "".join(self.texts(tokens, goes_on=goes_on))

    def texts(self, tokens: "Sequence[int] | Iterator[int]", *, goes_on: bool = False
              ) -> Iterator[str]:
        """The text that each token completes, never a part of a character, and then what waits."""
        state, out = _c.tft_text(started=goes_on), ctypes.create_string_buffer(_c.TEXT_MAX)
        for token in tokens:
            if token < 0:
                raise ValueError(f"{token} is not a token")
            n = _c.lib.tft_text_push(byref(state), self._open, token, out)
            yield out.raw[:n].decode("utf-8")
        n = _c.lib.tft_text_push(byref(state), self._open, -1, out)
        if n:
            yield out.raw[:n].decode("utf-8")

    def token_bytes(self, token: int, *, special: bool = False) -> bytes:
        """The bytes that a token stands for, perhaps a part of a character; special: of a special
        token those of its name."""
        n = c_size_t()
        p = _c.lib.tft_token_text(self._open, token, special, byref(n))
        if p is None:
            raise ValueError(f"{token} is not a token")
        return ctypes.string_at(p, n.value)

    @property
    def bos(self) -> Optional[int]:
        token = _c.lib.tft_token_bos(self._open)
        return None if token < 0 else token

    @property
    def eos(self) -> Optional[int]:
        token = _c.lib.tft_token_eos(self._open)
        return None if token < 0 else token

    @property
    def fim(self) -> Optional[Tuple[int, int, int]]:
        """The tokens before the prefix, the suffix and the middle of a text with a gap."""
        prefix, suffix, middle = (_c.lib.tft_token_fim(self._open, part) for part in range(3))
        return None if min(prefix, suffix, middle) < 0 else (prefix, suffix, middle)

    def ends(self, token: int) -> bool:
        """Whether generation stops at this token."""
        return bool(_c.lib.tft_token_ends(self._open, token))

    # -- conversations

    def prompt(self, messages: Sequence[Mapping[str, Any]], **variables: Any) -> Prompt:
        """A conversation by the chat template of the file. messages: {"role": ..., "content": ...},
        as OpenAI's clients have them. variables: more names of the template, such as tools=[...]
        or enable_thinking=False. What messages say cannot become special tokens. A message of the
        system or a user that the template drops is an ArgumentError, another one a warning."""
        template = self._chat_template(bool(variables.get("tools")))
        data = json.dumps({**variables, "messages": list(messages)}).encode()
        opts = _c.tft_chat_input(size=ctypes.sizeof(_c.tft_chat_input), json=data,
                                 n_json=len(data), has_time=True, read_arguments=True,
                                 time=int(time.time()) + time.localtime().tm_gmtoff)
        chat, text, err = _c.chat(), _c.tft_chat_text(), _c.tft_error()
        check(chat.tft_chat_render_for(byref(text), template, self._open, byref(opts),
                                       byref(err)), err)
        try:
            _check_dropped(text, opts)
            n, goes_on = c_size_t(), c_bool()
            check(chat.tft_chat_tokenize(byref(text), self._open, None, 0, byref(n), None))
            ids = (c_int32 * n.value)()
            check(chat.tft_chat_tokenize(byref(text), self._open, ids, n.value, byref(n),
                                         byref(goes_on)))
            return Prompt(ctypes.string_at(text.p, text.n).decode("utf-8"), ids[:], goes_on.value)
        finally:
            chat.tft_chat_text_free(byref(text))

    def _chat_template(self, tools: bool) -> Optional[int]:
        find = _c.lib.tft_model_tool_template if tools else _c.lib.tft_model_chat_template
        source = find(self._open)
        if source is None:
            raise Error("the model has no chat template")
        with self._lock:
            if source not in self._templates:
                p, err = c_void_p(), _c.tft_error()
                check(_c.chat().tft_chat_open(byref(p), source, len(source), byref(err)), err)
                self._templates[source] = Cell(p.value, _c.chat().tft_chat_close, self._cell)
            return self._templates[source].p

    # -- grammars

    def _lexicon(self) -> Cell:
        with self._lock:
            if self._lx is None:
                p, err = c_void_p(), _c.tft_error()
                check(_c.lib.tft_lexicon_open(byref(p), self._open, byref(err)), err)
                self._lx = Cell(p.value, _c.lib.tft_lexicon_close, self._cell)
            return self._lx

    def grammar(self, gbnf: str) -> Grammar:
        """Texts that the rule `root` of a GBNF grammar matches."""
        return Grammar(self, _c.GBNF, gbnf.encode("utf-8"))

    def regex(self, expression: str) -> Grammar:
        """Texts that a regular expression matches as a whole."""
        return Grammar(self, _c.REGEX, expression.encode("utf-8"))

    def schema(self, schema: Any) -> Grammar:
        """JSON that is valid by a JSON Schema: a dict, or True for any JSON."""
        data, text, err = json.dumps(schema).encode(), _c.tft_chat_text(), _c.tft_error()
        check(_c.chat().tft_chat_schema(byref(text), data, len(data), 0, byref(err)), err)
        try:
            return Grammar(self, _c.GBNF, ctypes.string_at(text.p, text.n))
        finally:
            _c.chat().tft_chat_text_free(byref(text))

    # -- sessions

    def session(self, **options: Any) -> "Session":
        """Opens a session; Session has the options."""
        from .session import Session
        return Session(self, **options)

    def batch(self, **options: Any) -> "Batch":
        """Opens a batch, which feeds several sessions at once."""
        from .session import Batch
        return Batch(self, **options)
