"""How long a session takes to compute, to save, to load and to copy, and how large its file is:

    sessions.py [--library build/release/libtuffet.so] [-n TOKENS] [--kv POLICY,...] MODEL...

Prints a row of a table for each model and cache. The tokens are made up. "a token" is the time of
one more token in the session. "cache" is the memory that the session has for slots and blocks: the
difference to a session with an f16 cache, added to the size of that cache by tft_kv_bytes.
"""
import argparse
import ctypes
import os
import sys
import tempfile
import time


TOKENS = 5  # more, for the time that one takes


class Options(ctypes.Structure):
    """The beginning of struct tft_session_opts; what follows is not set."""
    _fields_ = [("size", ctypes.c_size_t), ("allocator", ctypes.c_void_p),
                ("capacity", ctypes.c_uint32), ("n_batch", ctypes.c_uint32),
                ("n_logits", ctypes.c_uint32), ("n_threads", ctypes.c_int),
                ("slide", ctypes.c_bool), ("kv", ctypes.c_char_p)]


def check(status):
    if status:
        sys.exit(f"status {status}")


def seconds(work, *args):
    start = time.perf_counter()
    check(work(*args))
    return time.perf_counter() - start


def options_of(kv, n):
    return Options(ctypes.sizeof(Options), kv=kv.encode(), capacity=n)


def cache_bytes(tft, model, kv, n):
    def all_bytes(kv):
        return tft.tft_session_bytes(model, ctypes.byref(options_of(kv, n)), None)
    return all_bytes(kv) - all_bytes("f16") + n * tft.tft_kv_bytes(model, b"f16", None)


def measure(tft, model, kv, n):
    """Seconds to compute, save, load, copy and decode, bytes of the file."""
    options = options_of(kv, n + TOKENS)
    sessions = [ctypes.c_void_p(), ctypes.c_void_p()]
    for s in sessions:
        check(tft.tft_session_open(ctypes.byref(s), model, ctypes.byref(options), None))
    ids = (ctypes.c_int32 * n)(*((i * 7919 + 11) % 30000 for i in range(n)))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "session").encode()
        compute = seconds(tft.tft_prefill, sessions[0], ids, ctypes.c_size_t(n))
        save = seconds(tft.tft_session_save, sessions[0], None, path, None)
        load = min(seconds(tft.tft_session_load, s, None, path, None) for s in sessions[::-1] * 2)
        bytes_ = os.path.getsize(path)
    copy = min(seconds(tft.tft_session_copy, sessions[1], sessions[0], None) for _ in range(TOKENS))
    token = min(seconds(tft.tft_decode, sessions[0], 1 + i) for i in range(TOKENS))
    for s in sessions:
        tft.tft_session_close(s)
    return compute, save, load, copy, token, bytes_


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="+")
    parser.add_argument("--library", default="build/release/libtuffet.so")
    parser.add_argument("-n", type=int, default=2000)
    parser.add_argument("--kv", default="f16,kivi,skvq:reorder=none:clip=zero")
    a = parser.parse_args()
    tft = ctypes.CDLL(a.library)
    tft.tft_kv_bytes.restype = tft.tft_session_bytes.restype = ctypes.c_size_t
    print("| model | cache | computed s | saved s | loaded s | times | copied s | a token s |"
          " file MB | cache MB |")
    print("|---|---|" + "---:|" * 8)
    for path in a.model:
        model = ctypes.c_void_p()
        check(tft.tft_model_open(ctypes.byref(model), path.encode(), None, None))
        for kv in a.kv.split(","):
            kv = kv.replace(":clip", ",clip")
            compute, save, load, copy, token, size = measure(tft, model, kv, a.n)
            cache = cache_bytes(tft, model, kv, a.n)
            print(f"| {os.path.basename(path)} | {kv} | {compute:.1f} | {save:.3f} | {load:.3f} |"
                  f" {compute / load:.0f} | {copy:.4f} | {token:.4f} | {size / 1e6:.2f} |"
                  f" {cache / 1e6:.2f} |", flush=True)
        tft.tft_model_close(model)


if __name__ == "__main__":
    main()
