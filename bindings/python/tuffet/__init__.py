"""Small language models on the machine in front of you, by libtuffet.

    with tuffet.Model("model.gguf") as model, model.session() as session:
        for text in session.generate("Once upon a time", max_tokens=50):
            print(text, end="", flush=True)

The library's header, tuffet.h, is the manual of what each call means.
"""
from . import _c
from .embedding import Embedder
from .errors import (ArgumentError, Cancelled, DeviceError, Error, FileError, FormatError, Full,
                     NoMemory, NumbersError, Unsupported)
from .model import Grammar, Info, Model, Prefix, Prompt
from .quantizing import Input, Loss, Plan, Quantized, import_folder, quantize
from .session import Batch, Sampler, Session

__all__ = ["ArgumentError", "Batch", "Cancelled", "DeviceError", "Embedder", "Error", "FileError",
           "FormatError", "Full", "Grammar", "Info", "Input", "Loss", "Model", "NoMemory",
           "NumbersError", "Prefix", "Prompt", "Quantized", "Sampler", "Session", "Unsupported",
           "cpu_name", "features", "import_folder", "quantize", "version"]

#: of the library, such as "1.2.3"
version: str = _c.lib.tft_version().decode()


def cpu_name() -> str:
    """The best set of kernels that this CPU allows: "avx512", "neon", "c", ..."""
    return str(_c.lib.tft_cpu_name().decode())


def features() -> "list[str]":
    """What the library was built with: "openmp", "cuda", and its sets of kernels."""
    found: "list[str]" = []
    while (name := _c.lib.tft_feature(len(found))) is not None:
        found.append(name.decode())
    return found
