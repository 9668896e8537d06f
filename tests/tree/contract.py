"""Compilers that would break the numerics contract are refused: contract.py ROOT COMPILER...

Compiles a file that includes simd/kernels.h, as all kernels do, with flags that change results.
"""
import subprocess
import sys

root, compiler = sys.argv[1], sys.argv[2:]


def errors(*flags):
    """What the compiler says, with C11 as in the build."""
    done = subprocess.run([*compiler, "-std=c11", *flags, "-I", root, "-I", root + "/src",
                           "-fsyntax-only", "-x", "c", "-"],
                          input='#include "simd/kernels.h"\n', capture_output=True, text=True)
    assert (done.returncode != 0) == ("error" in done.stderr), done.stderr
    return done.stderr if done.returncode else ""


assert errors() == "", errors()
assert "remove them from CFLAGS" in errors("-ffast-math")
assert "remove them from CFLAGS" in errors("-Ofast")
assert "remove them from CFLAGS" in errors("-ffinite-math-only")
assert "(x87)" in errors("-U__FLT_EVAL_METHOD__", "-D__FLT_EVAL_METHOD__=2")
assert "little-endian" in errors("-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__")
