"""Quantizing: a W8A8 model of a float model, and a GGUF file of a folder of Hugging Face.

tuffet_quantize.h is the manual of what each option means."""
from __future__ import annotations

import json
import os
from ctypes import POINTER, byref, c_uint64, sizeof
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from . import _c
from .errors import check

Path = Union[str, "os.PathLike[str]"]
#: gets the name of the current step and how much of the call is done, 0..1, which never falls;
#: returns False to stop the call
Progress = Callable[[str, float], Optional[bool]]

# Options that are words, in the order of the enums.
_WORDS: Dict[str, Tuple[str, ...]] = {
    "rounding": ("gptq", "nearest", "awq"),
    "rotate": ("auto", "none", "output", "output+down", "all"),
    "intact": ("auto", "none", "bos"),
    "cushion": ("none", "auto", "exhaustive"),
    "tune": ("none", "prediction", "outputs"),
}
_TYPES = ("keep", "f16", "bf16", "f32")
# Fields that quantize() sets itself.
_OWN = {"size", "calib", "n_calib", "system", "n_system", "progress", "note", "user", "plan",
        "loras", "n_loras"}


@dataclass(frozen=True)
class Loss:
    """The loss on text that was held out from calibration: means over its tokens."""
    group: str  # "conversation" or "text"
    tokens: int
    floats: float  # -ln p by the float model,
    file: float  # and by the new one
    divergence: float  # from the float model, nats
    same: float  # 0..1 how often the most likely token is the same


@dataclass(frozen=True)
class Input:
    """An input of linear layers."""
    name: str
    per_token: bool  # its range is measured at run time
    scale: float
    zero: int
    min: float
    max: float
    error: float  # |x - q(x)|^2 / |x|^2 over the calibration text


@dataclass(frozen=True)
class Quantized:
    """What quantize() has made."""
    n_tokens: int
    window: int
    prefix: List[int]
    check: List[Loss]
    inputs: List[Input]
    bits: Optional[str]  # found by bits_search
    kv: Optional[str]  # found by kv_search
    report: str  # lines for people, as tuffet quantize prints them
    json: Dict[str, Any]  # all results, as tuffet quantize --json prints them


@dataclass(frozen=True)
class Plan:
    """What quantize() takes: estimates, without searches and tuning. Sizes are bytes."""
    disk: int  # that it will need at most, from now on
    imported: int  # of the import of a folder, which stays until the end
    file: int  # of the new file; 0: not known before a folder is imported, as are
    memory: int
    operations: float  # on floats; a multiply-add is two


class _Callbacks:
    """The callbacks of a call. An exception in one stops the call, and is raised after it."""

    def __init__(self, progress: Optional[Progress], note: Optional[Callable[[str], object]],
                 plan: Optional[Callable[[Plan], Optional[bool]]] = None):
        self.raised: Optional[BaseException] = None
        self.progress = progress
        self.note = note
        self.plan = plan
        self.c_progress = _c.STEP(self._step)
        self.c_note = _c.NOTE(self._note)
        self.c_plan = _c.PLAN(self._plan)

    def _step(self, _user: Any, step: bytes, done: float) -> bool:
        try:
            return self.raised is None and (
                self.progress is None or self.progress(step.decode(), done) is not False)
        except BaseException as e:  # KeyboardInterrupt too
            self.raised = e
            return False

    def _note(self, _user: Any, text: bytes) -> None:
        try:
            if self.note is not None:
                self.note(text.decode("utf-8", "replace"))
        except BaseException as e:
            self.raised = e

    def _plan(self, _user: Any, p: Any) -> bool:
        try:
            c = p.contents
            return self.plan is None or self.plan(
                Plan(c.disk, c.imported, c.file, c.memory, c.operations)) is not False
        except BaseException as e:
            self.raised = e
            return False

    def check(self, status: int, err: _c.tft_error) -> None:
        if self.raised is not None:
            raise self.raised
        check(status, err)


def _word(name: str, value: str, words: Tuple[str, ...]) -> int:
    if value not in words:
        raise ValueError(f"{name} is one of {', '.join(words)}, not {value!r}")
    return words.index(value)


def _options(options: Mapping[str, Any]) -> _c.tft_quantize_opts:
    o = _c.tft_quantize_opts()
    names = {name for name, *_ in o._fields_} - _OWN
    for name, value in options.items():
        if name not in names:
            raise TypeError(f"quantize() has no option {name!r}")
        if value is None:
            continue
        if name in _WORDS:
            value = _word(name, value, _WORDS[name])
        elif name == "tokenizer":
            value = os.fsencode(value)
        elif isinstance(value, str):
            value = value.encode()
        setattr(o, name, value)
    return o


def _text(p: Optional[bytes]) -> Optional[str]:
    return None if p is None else p.decode()


def _result(r: _c.tft_quantize_result) -> Quantized:
    losses = [Loss(c.group.decode(), c.tokens, c.floats, c.file, c.divergence, c.same)
              for c in r.check[:r.n_check]]
    inputs = [Input(i.name.decode(), i.per_token, i.scale, i.zero, i.min, i.max, i.error)
              for i in r.input[:r.n_input]]
    return Quantized(r.n_tokens, r.window, list(r.prefix[:r.n_prefix]), losses, inputs,
                     _text(r.bits), _text(r.kv), r.report.decode(), json.loads(r.json))


def quantize(model: Path, out: Path, *, calib: Union[str, bytes, None] = None,
             system: Optional[Mapping[str, str]] = None, progress: Optional[Progress] = None,
             note: Optional[Callable[[str], object]] = None,
             plan: Optional[Callable[[Plan], Optional[bool]]] = None,
             loras: Optional[Mapping[Path, float]] = None,
             **options: Any) -> Quantized:
    """Makes a W8A8 model of the float model at a path, a file or a folder, and writes it to `out`.

    calib: the calibration text; None: the model writes its own. system: system messages by the
    names of their prefixes. note: gets a line about what may be unexpected. plan: is told before
    the work what it takes, and returns False to stop the call; of a folder also before its import,
    when `disk` is that of the import alone. loras: paths of LoRA adapters that are added to the
    weights, and their scales (1: as trained). The other options are fields of tft_quantize_opts:
    bits="4", dynamic="none", kv_search="2.5", ...; enums are words, such as tune="prediction".
    """
    o = _options(options)
    o.size = sizeof(o)
    text = calib.encode() if isinstance(calib, str) else calib
    if text is not None:
        o.calib, o.n_calib = text, len(text)
    messages = [_c.tft_quantize_system(name.encode(), said.encode())
                for name, said in (system or {}).items()]
    o.system = (_c.tft_quantize_system * len(messages))(*messages)
    o.n_system = len(messages)
    adapters = [_c.tft_quantize_lora(os.fsencode(path), scale)
                for path, scale in (loras or {}).items()]
    o.loras = (_c.tft_quantize_lora * len(adapters))(*adapters)
    o.n_loras = len(adapters)
    callbacks = _Callbacks(progress, note, plan)
    o.plan = callbacks.c_plan
    o.progress, o.note = callbacks.c_progress, callbacks.c_note
    result, err = POINTER(_c.tft_quantize_result)(), _c.tft_error()
    library = _c.quantize()
    callbacks.check(library.tft_quantize(os.fsencode(model), os.fsencode(out), byref(o),
                                         byref(result), byref(err)), err)
    try:
        return _result(result.contents)
    finally:
        library.tft_quantize_free(result)


def import_folder(folder: Path, out: Path, *, type: str = "keep", tokenizer: bool = True,
                  progress: Optional[Progress] = None,
                  note: Optional[Callable[[str], object]] = None,
                  ignore_keys: Optional[str] = None) -> int:
    """Makes the GGUF file `out` of a folder of Hugging Face; returns the bytes of its tensors.
    type: of the matrices, "keep", "f16", "bf16" or "f32". note: gets a line about what
    may be unexpected. ignore_keys: members of config.json that count as absent, "one,other"."""
    callbacks, err, n = _Callbacks(progress, note), _c.tft_error(), c_uint64()
    o = _c.tft_import_opts(type=_word("type", type, _TYPES), no_tokenizer=not tokenizer,
                           progress=callbacks.c_progress, note=callbacks.c_note)
    if ignore_keys is not None:
        o.ignore_keys = ignore_keys.encode()
    o.size = sizeof(o)
    callbacks.check(_c.quantize().tft_import(os.fsencode(folder), os.fsencode(out), byref(o),
                                             byref(n), byref(err)), err)
    return n.value
