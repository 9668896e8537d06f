"""The library in a few files, by its reference kernels: amalgamation.py SOURCE LOGITS COMPILER...

The script writes the same bytes each time. tuffet.c computes the logits of the library that LOGITS
is linked with. Compiled with contraction, it opens no model. tools/scripts/amalgamation.sh compiles
all files, as their README says.
"""
import filecmp
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

source, (library, *compiler) = pathlib.Path(sys.argv[1]), sys.argv[2:]
model = source / "models" / "demo" / "stories2M.gguf"
script = source / "tools" / "scripts" / "amalgamate.py"


def made(folder, seed):
    """The folder that the script makes. seed: of the order of Python's sets."""
    subprocess.run([sys.executable, script, folder], check=True,
                   env={**os.environ, "PYTHONHASHSEED": seed})
    return sorted(p.name for p in folder.iterdir())


def compiled(folder, *flags):
    """The program of logits.c with tuffet.c, in place of the library."""
    program = folder / "program"
    subprocess.run([*compiler, "-std=c11", "-O1", *flags, "-DTFT_SIMD=0", f"-I{folder}",
                    source / "tests" / "abi" / "logits.c", folder / "tuffet.c", "-lm", "-pthread",
                    "-o", program], check=True)
    return subprocess.run([program, model], capture_output=True, text=True)


def fused():
    """The flags of this CPU's instruction for a product and a sum, or None if it has none."""
    if platform.machine() == "aarch64":
        return []
    return ["-mfma"] if " fma " in pathlib.Path("/proc/cpuinfo").read_text() else None


with tempfile.TemporaryDirectory() as temporary:
    folder, again = pathlib.Path(temporary, "a"), pathlib.Path(temporary, "b")
    names = made(folder, "1")
    assert names == made(again, "2"), names
    _, differ, failed = filecmp.cmpfiles(folder, again, names, shallow=False)
    assert not differ and not failed, (differ, failed)

    want = subprocess.run([library, model], capture_output=True, text=True, check=True).stdout
    done = compiled(folder, "-ffp-contract=off")
    assert len(want) == 17 and done.stdout == want, (want, done)
    flags = fused()
    if flags is None:
        print("left out: contraction, this CPU has no fma")
    else:
        # gcc contracts from -O2 on
        done = compiled(folder, "-O2", "-ffp-contract=fast", *flags)
        assert done.returncode == 1 and "-ffp-contract=off" in done.stderr, done
print("the same logits")
