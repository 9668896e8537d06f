"""Embedders: vectors of texts, and scores of pairs of texts."""
from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_float, c_uint8, c_void_p, cast
from typing import Any, List, Optional, Sequence

from . import _c
from .errors import check
from .model import Cell, Handle, Model, ids_of
from .session import floats_of

_POOLING = {None: _c.POOLING_NONE, "mean": _c.POOLING_MEAN, "last": _c.POOLING_LAST,
            "cls": _c.POOLING_CLS, "rank": _c.POOLING_RANK, "none": _c.POOLING_TOKENS}
_NAMES = {number: name for name, number in _POOLING.items()}


class Embedder(Handle):
    """Makes vectors of texts; one thread at a time may use it, except cancel().

    pooling: "mean", "cls", "last", "rank" or "none" (a vector for each token); without it, what the
    file says, or the mean. raw: vectors do not get length 1, and scores no sigmoid. n_dims: the
    first numbers of a vector that are kept. max_text: tokens of a text, n_tokens: of a pass, at
    most. A text is the tokens of it, with all special tokens, as the model was trained."""

    def __init__(self, model: Model, *, pooling: Optional[str] = None, raw: bool = False,
                 n_dims: int = 0, max_text: int = 0, n_tokens: int = 0, threads: int = 0):
        opts = _c.tft_embedder_opts(size=ctypes.sizeof(_c.tft_embedder_opts),
                                    pooling=_POOLING[pooling], raw=raw, n_dims=n_dims,
                                    max_text=max_text, n_tokens=n_tokens, n_threads=threads)
        p, err = c_void_p(), _c.tft_error()
        check(_c.lib.tft_embedder_open(byref(p), model._open, byref(opts), byref(err)), err)
        self._cell = Cell(p.value, _c.lib.tft_embedder_close, model._cell)
        self._model = model  # keeps it open
        info = _c.tft_embedder_info(size=ctypes.sizeof(_c.tft_embedder_info))
        _c.lib.tft_embedder_describe(self._open, byref(info))
        #: as the embedder uses it
        self.pooling: str = str(_NAMES[info.pooling])
        #: numbers of a result
        self.width: int = info.width
        self.n_types: int = info.n_types
        self.max_text: int = info.max_text

    def _call(self, function: Any, texts: Sequence[Sequence[int]],
              types: Optional[Sequence[Sequence[int]]], n: int) -> Any:
        """function(embedder, texts, their number, an array of n floats)."""
        ids = [ids_of(text) for text in texts]
        of_type = [None] * len(ids) if types is None else [
            cast((c_uint8 * len(t))(*bytes(t)), POINTER(c_uint8)) for t in types]
        if types is not None and [len(t) for t in types] != [len(t) for t in ids]:
            raise ValueError("types and tokens differ in number")
        given = (_c.tft_text_tokens * len(ids))(
            *[_c.tft_text_tokens(ids=text, types=t, n=len(text))
              for text, t in zip(ids, of_type)])
        out = (c_float * n)()
        status = function(self._open, given, len(ids), out)
        check(status, _c.lib.tft_embedder_error(self._open).contents)
        return out

    def embed(self, texts: Sequence[Sequence[int]],
              types: Optional[Sequence[Sequence[int]]] = None) -> List[Any]:
        """A vector for each text; with pooling "none" a list of vectors, one for each token; with
        "rank" all scores. types: of the tokens, for models that have more than one."""
        each = [len(text) if self.pooling == "none" else 1 for text in texts]
        out = self._call(_c.lib.tft_embed, texts, types, sum(each) * self.width)
        rows = [floats_of(byref(out, 4 * i * self.width), self.width) for i in range(sum(each))]
        if self.pooling != "none":
            return rows
        ends = [sum(each[:i + 1]) for i in range(len(each))]
        return [rows[end - n:end] for end, n in zip(ends, each)]

    def rerank(self, pairs: Sequence[Sequence[int]],
               types: Optional[Sequence[Sequence[int]]] = None) -> List[float]:
        """How well the query and the document of each pair belong together, from 0 to 1."""
        return list(self._call(_c.lib.tft_rerank, pairs, types, len(pairs)))

    def cancel(self) -> None:
        """Ends the call that another thread is in, or else the next one, with Cancelled."""
        _c.lib.tft_embedder_cancel(self._open)
