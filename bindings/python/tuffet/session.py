"""Sessions: a sequence of tokens, its KV cache, and the logits after its last tokens."""
from __future__ import annotations

import ctypes
import os
import secrets
from array import array
from ctypes import byref, c_void_p
from typing import (Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple,
                    Union)

from . import _c
from .errors import ArgumentError, Full, check
from .model import Cell, Grammar, GrammarState, Handle, Model, encoded, ids_of

try:
    import numpy
except ImportError:
    numpy = None  # type: ignore[assignment]


def floats_of(p: Any, n: int) -> Any:
    """A copy of n floats: numpy.ndarray where numpy is installed, else array.array."""
    data = ctypes.string_at(p, 4 * n)
    return array("f", data) if numpy is None else numpy.frombuffer(data, numpy.float32)


class Sampler:
    """How the next token is chosen; without arguments the most likely. The same seed gives the same
    tokens on every machine; without a seed they differ from run to run.

    min_tokens: how many tokens come before one that ends generation. dry_breakers: tokens that end
    repetitions. more: other fields of struct tft_sampler_more in tuffet.h, such as dry_multiplier
    and xtc_probability.
    """

    def __init__(self, temperature: float = 0, *, top_k: int = 0, top_p: float = 0,
                 min_p: float = 0, repeat_penalty: float = 0, repeat_last: int = 0,
                 seed: Optional[int] = None, grammar: Optional[Grammar] = None,
                 min_tokens: int = 0, dry_breakers: Sequence[int] = (), **more: float):
        names = [field[0] for field in _c.tft_sampler_more._fields_]
        own = {"size", "dry_breakers", "n_dry_breakers"}
        unknown = more.keys() - set(names) | more.keys() & own
        if unknown:
            raise TypeError(f"unknown arguments: {', '.join(sorted(unknown))}")
        self._more = _c.tft_sampler_more(size=ctypes.sizeof(_c.tft_sampler_more), **more)
        self._more.n_dry_breakers = len(dry_breakers)
        self._more.dry_breakers = (ctypes.c_int32 * len(dry_breakers))(*sorted(dry_breakers))
        self._grammar = None if grammar is None else GrammarState(grammar)
        self._c = _c.tft_sampler(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p,
                                 repeat_penalty=repeat_penalty, repeat_last=repeat_last,
                                 seed=secrets.randbits(64) if seed is None else seed,
                                 min_tokens=min_tokens,
                                 more=ctypes.pointer(self._more) if more else None,
                                 grammar=self._grammar and self._grammar._open)

    @property
    def _open(self) -> Any:
        """The library's sampler. It has the pointer of the grammar's state, which must be open."""
        if self._grammar is not None:
            self._grammar._open
        return byref(self._c)

    @property
    def _done(self) -> bool:
        """The grammar lets nothing more come."""
        return self._grammar is not None and _c.lib.tft_grammar_is_done(self._grammar._open)


class Session(Handle):
    """A sequence of tokens; one thread at a time may use it, except cancel().

    capacity: tokens that fit (default: the model's context). kv: the cache, such as "kivi" or
    "tuffet". prefix: the name of a prefix of the file. slide: drop old tokens when it is full.
    keep(position, token): a filter of tokens that stay f16. n_logits, n_hidden: how many of the
    newest tokens of a call keep their logits, their hidden vectors. lookup: how many guesses of the
    next tokens decode() may compute ahead, by prompt lookup. draft: a session of a smaller model
    with the same vocabulary, which makes guesses too, from now on for this session alone; it is
    closed with it. count_ends: count the numbers at the ends of their ranges: see ends. tuffet.h
    has the details.
    """

    def __init__(self, model: Model, *, capacity: int = 0, kv: Optional[str] = None,
                 prefix: Optional[str] = None, threads: int = 0, n_batch: int = 0,
                 n_logits: int = 0, n_hidden: int = 0, no_logits: bool = False,
                 slide: bool = False, checkpoints: int = 0, lookup: int = 0,
                 draft: Optional["Session"] = None, count_ends: bool = False,
                 keep: Optional[Callable[[int, int], bool]] = None,
                 progress: Optional[Callable[[float], None]] = None):
        self.model = model
        self.stopped: Optional[str] = None  # why generate() ended: "end", "length", "full"
        self._prefix = prefix
        self._raised: Optional[BaseException] = None  # by a callback, during a call
        self._callbacks = (_c.GOES_ON(self._goes_on),  # the session must have them as long as it is
                           None if keep is None else _c.KEEP(self._keeps))
        self._progress, self._keep, self._draft = progress, keep, draft
        opts = _c.tft_session_opts(size=ctypes.sizeof(_c.tft_session_opts), capacity=capacity,
                                   kv=encoded(kv), prefix=encoded(prefix), n_threads=threads,
                                   n_batch=n_batch, n_logits=n_logits, n_hidden=n_hidden,
                                   no_logits=no_logits, slide=slide, checkpoints=checkpoints,
                                   lookup=lookup, draft=None if draft is None else draft._open,
                                   count_ends=count_ends, progress=self._callbacks[0])
        if self._callbacks[1] is not None:
            opts.keep = self._callbacks[1]
        p, err = c_void_p(), _c.tft_error()
        check(_c.lib.tft_session_open(byref(p), model._open, byref(opts), byref(err)), err)
        self._cell = Cell(p.value, _c.lib.tft_session_close, model._cell)
        if draft is not None:
            self._own(draft)

    def _own(self, draft: "Session") -> None:
        """The draft is closed after this session, or this session before the draft's model."""
        cell, draft._cell = draft._cell, None
        if self._cell is not None and cell is not None:
            free = self._cell.free
            self._cell.free = lambda p: (free(p), cell.close())
            cell.children.add(self._cell)

    # An exception cannot pass through the library. It ends the call where the library can, and is
    # raised after it. So Ctrl-C, which Python raises in the main thread's callback, stops a prompt.

    def _goes_on(self, user: Any, done: float) -> bool:
        try:
            if self._progress is not None:
                self._progress(done)
        except BaseException as e:  # noqa: B902
            self._raised = e
        return self._raised is None

    def _keeps(self, user: Any, position: int, token: int) -> bool:
        try:
            return self._keep is not None and bool(self._keep(position, token))
        except BaseException as e:  # noqa: B902
            self._raised = e
            return False

    def _check(self, status: int) -> None:
        raised, self._raised = self._raised, None
        if self._draft is not None and raised is None:
            raised, self._draft._raised = self._draft._raised, None
        if raised is not None:
            raise raised
        if status != _c.OK:
            check(status, _c.lib.tft_session_error(self._open).contents)

    # -- feeding

    def prefill(self, tokens: Sequence[int]) -> None:
        """Appends tokens and computes them."""
        self._check(_c.lib.tft_prefill(self._open, ids_of(tokens), len(tokens)))

    def decode(self, token: int) -> None:
        """Appends one token and computes it."""
        self._check(_c.lib.tft_decode(self._open, token))

    def sync(self, tokens: Sequence[int]) -> None:
        """Makes the session hold exactly these tokens: keeps the longest common beginning."""
        self._check(_c.lib.tft_sync(self._open, ids_of(tokens), len(tokens)))

    def rewind(self, pos: int) -> None:
        """Drops every token from position pos on."""
        self._check(_c.lib.tft_rewind(self._open, pos))

    def prompt_end(self) -> None:
        """With a cache of prefill=prompt: what the session holds is the prompt."""
        _c.lib.tft_prompt_end(self._open)

    def cancel(self) -> None:
        """Ends the call that feeds the session, or the next one, with Cancelled. From any thread.
        """
        _c.lib.tft_cancel(self._open)

    def use_threads(self, n: int) -> None:
        """Computes with n threads from now on, at most as many as it was opened with."""
        self._check(_c.lib.tft_session_threads(self._open, n))

    # -- what it holds

    @property
    def pos(self) -> int:
        """How many tokens it holds."""
        return int(_c.lib.tft_pos(self._open))

    @property
    def guessed(self) -> int:
        """How many tokens were computed as guesses, and then came: see lookup."""
        return int(_c.lib.tft_guessed(self._open))

    @property
    def ends(self) -> Optional[Tuple[int, int]]:
        """How many numbers inputs with fixed ranges had, and how many of them were at the ends of
        these; None: it does not count. See count_ends."""
        ends = _c.tft_ends()
        counts = _c.lib.tft_session_ends(self._open, byref(ends))
        return (ends.numbers, ends.at_ends) if counts else None

    @property
    def capacity(self) -> int:
        return int(_c.lib.tft_capacity(self._open))

    @property
    def tokens(self) -> List[int]:
        return list(_c.lib.tft_tokens(self._open)[:self.pos])

    def logits(self, back: int = 0) -> Any:
        """A copy of the logits [n_vocab] after the newest token, the one before it (1), ... of the
        last call; None if they were not kept."""
        p = _c.lib.tft_logits(self._open, back)
        return floats_of(p, self.model.info.n_vocab) if p else None

    def hidden(self, back: int = 0) -> Any:
        """A copy of the hidden vector [n_embd] of the newest token, ...; None if it was not kept.
        """
        p = _c.lib.tft_hidden(self._open, back)
        return floats_of(p, self.model.info.n_embd) if p else None

    def likeliest(self, k: int) -> List[Tuple[int, float]]:
        """The k most likely next tokens, and the logarithms of their probabilities."""
        out = (_c.tft_choice * k)()
        n = _c.lib.tft_likeliest(self._open, None, out, k)
        return [(c.id, c.logprob) for c in out[:n]]

    def logprob(self, token: int) -> float:
        """The logarithm of the probability that this token comes next; NaN without logits."""
        return float(_c.lib.tft_logprob(self._open, None, token))

    # -- generating

    def sample(self, sampler: Sampler) -> Optional[int]:
        """The next token; None if no token may come. It is not fed."""
        token = _c.lib.tft_sample(sampler._open, self._open)
        return None if token < 0 else token

    def generate(self, prompt: Union[str, Sequence[int]], *, max_tokens: Optional[int] = None,
                 goes_on: bool = True, **sampling: Any) -> Iterator[str]:
        """Continues a prompt: yields the text as it comes. Tokens that the session already holds
        are not computed again. sampling: arguments of Sampler. It ends where the model ends the
        text, after max_tokens, or where the session is full; `stopped` then says which. goes_on:
        the last token of the prompt is text, so that a space may follow."""
        tokens = self.model.tokenize(prompt) if isinstance(prompt, str) else list(prompt)
        return self.model.texts(self._generated(tokens, max_tokens, Sampler(**sampling)),
                                goes_on=goes_on)

    def chat(self, messages: Sequence[Mapping[str, Any]], *,
             variables: Optional[Dict[str, Any]] = None, **options: Any) -> Iterator[str]:
        """The answer to a conversation by the file's chat template; see Model.prompt and generate.
        """
        prompt = self.model.prompt(messages, **(variables or {}))
        return self.generate(prompt.tokens, goes_on=prompt.text_goes_on, **options)

    def _generated(self, tokens: List[int], max_tokens: Optional[int], sampler: Sampler
                   ) -> Iterator[int]:
        self.stopped = None
        held = _c.lib.tft_prefix_held(self.model._open, encoded(self._prefix), ids_of(tokens),
                                      len(tokens))
        if held < len(tokens):
            self.sync(tokens[held:])
        else:  # the prefix is the whole prompt
            self.rewind(0)
            self.prefill([])
        made = 0
        while max_tokens is None or made < max_tokens:
            done = sampler._done
            token = None if done else self.sample(sampler)
            if done or (token is not None and self.model.ends(token)):
                self.stopped = "end"
                return
            if token is None:
                raise ArgumentError("no token may come next")
            yield token
            made += 1
            if made == max_tokens:
                break
            try:
                self.decode(token)
            except Full:
                self.stopped = "full"
                return
        self.stopped = "length"

    # -- saving

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Saves it to a file, which gets its name when it is complete."""
        err = _c.tft_error()
        check(_c.lib.tft_session_save(self._open, None, os.fsencode(path), byref(err)), err)

    def load(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Replaces what it holds by a saved session of the same model, cache and prefix. After an
        error it is as it was."""
        err = _c.tft_error()
        check(_c.lib.tft_session_load(self._open, None, os.fsencode(path), byref(err)), err)

    def dump(self) -> bytes:
        """What save() writes."""
        n = _c.lib.tft_session_save_bytes(self._open, None)
        data, err = ctypes.create_string_buffer(n), _c.tft_error()
        check(_c.lib.tft_session_save_mem(self._open, None, data, n, byref(err)), err)
        return data.raw

    def restore(self, data: bytes) -> None:
        """load() of what dump() gave."""
        err = _c.tft_error()
        check(_c.lib.tft_session_load_mem(self._open, None, data, len(data), byref(err)), err)

    def copy_from(self, other: "Session") -> None:
        """Replaces what it holds by what another session of the model holds."""
        err = _c.tft_error()
        check(_c.lib.tft_session_copy(self._open, other._open, byref(err)), err)


class Batch(Handle):
    """Feeds several sessions of a model in one pass, which reads the weights once. Each gets the
    bits that it would get alone."""

    def __init__(self, model: Model, *, n_sessions: int = 0, n_tokens: int = 0, threads: int = 0):
        opts = _c.tft_batch_opts(size=ctypes.sizeof(_c.tft_batch_opts), n_sessions=n_sessions,
                                 n_tokens=n_tokens, n_threads=threads)
        p, err = c_void_p(), _c.tft_error()
        check(_c.lib.tft_batch_open(byref(p), model._open, byref(opts), byref(err)), err)
        self._cell = Cell(p.value, _c.lib.tft_batch_close, model._cell)
        self._model = model  # keeps it open

    def step(self, fed: Mapping[Session, Sequence[int]]) -> Dict[Session, Exception]:
        """Appends to each session its tokens. Returns the errors of failed sessions; they do not
        stop the others."""
        sessions = list(fed)
        arrays = [ids_of(fed[s]) for s in sessions]
        steps = (_c.tft_step * len(sessions))(
            *[_c.tft_step(session=s._open, tokens=ids, n=len(ids))
              for s, ids in zip(sessions, arrays)])
        _c.lib.tft_step(self._open, steps, len(steps))
        failed: Dict[Session, Exception] = {}
        for s, step in zip(sessions, steps):
            try:
                s._check(step.status)
            except Exception as e:
                failed[s] = e
        return failed
