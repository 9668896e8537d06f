"""Errors: one class for each status of tuffet.h, with the library's line for a person."""
from __future__ import annotations

from typing import Optional

from . import _c


class Error(Exception):
    """A call has failed. str() is one line that says which file, where, what."""

    def __init__(self, message: str, offset: int = 0):
        super().__init__(message)
        self.offset = offset  # FormatError: the byte of the file where reading stopped


class ArgumentError(Error, ValueError):
    """An argument is outside what tuffet.h allows."""


class NoMemory(Error, MemoryError):
    """Too little memory, here or on the device."""


class FileError(Error, OSError):
    """The operating system refused; errno says why."""


class FormatError(Error):
    """A file is damaged, or is not of the type it claims to be; a grammar or a template has an
    error."""


class Unsupported(Error):
    """The file is valid, but this version cannot run it."""


class Full(Error):
    """The session has no room for the tokens; it is as it was."""


class DeviceError(Error):
    """The device to compute on is missing or has failed."""


class NumbersError(Error):
    """The model computed logits that are NaN or infinity."""


class Cancelled(Error):
    """Session.cancel() stopped the call."""


BY_STATUS = {_c.ERR_ARG: ArgumentError, _c.ERR_NOMEM: NoMemory, _c.ERR_IO: FileError,
             _c.ERR_FORMAT: FormatError, _c.ERR_UNSUPPORTED: Unsupported, _c.ERR_FULL: Full,
             _c.ERR_DEVICE: DeviceError, _c.ERR_NUMBERS: NumbersError,
             _c.ERR_CANCELLED: Cancelled}


def check(status: int, err: Optional[_c.tft_error] = None) -> None:
    """Raises the error of a status that is not OK."""
    if status == _c.OK:
        return
    line = err.msg.decode("utf-8", "replace") if err is not None else ""
    line = line or _c.lib.tft_status_text(status).decode()
    error = BY_STATUS.get(status, Error)(line, err.offset if err is not None else 0)
    if isinstance(error, OSError) and err is not None:
        error.errno = err.os
    raise error
