"""The libraries as a program finds them: installed.py MESON PKG_CONFIG BUILD SOURCE TOY COMPILER...

Installs into a folder, where pkg-config finds both libraries. The programs of examples/ are
compiled from there, and run with a random model.

Exit status 77 if the libraries are static, since the flags of their dependencies differ then.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

meson, pkg_config, build, source, toy, *compiler = sys.argv[1:]
examples = pathlib.Path(source) / "examples"
# It shows calls in the format of Hermes, and writes tools, calls and results.
TEMPLATE = ("{% for t in tools %}{{ t | tojson }}{% endfor %}{% for m in messages %}"
            "{{ '<|' + m.role + '|>' + m.content }}{% for c in m.tool_calls %}<tool_call>"
            "{{ c.function | tojson }}{% endfor %}{% endfor %}{{ '<|assistant|>' }}")

# It quantizes a model twice: stopped by its callback, and to the end.
QUANTIZE = """
#include <stdio.h>
#include <tuffet_quantize.h>

static bool stop(void *user, const char *step, double done)
{
    (void)user, (void)step, (void)done;
    return false;
}

int main(int argc, char **argv)
{
    struct tft_quantize_opts o = {.size = sizeof o, .calib_tokens = 512, .calib_window = 64,
                                  .dynamic = "none", .intact = TFT_INTACT_NONE, .progress = stop};
    struct tft_quantize_result *r;
    struct tft_error err;
    if (argc != 3 || tft_quantize(argv[1], argv[2], &o, &r, &err) != TFT_ERR_CANCELLED)
        return 1;
    o.progress = NULL;
    if (tft_quantize(argv[1], argv[2], &o, &r, &err) != TFT_OK)
        return puts(err.msg), 2;
    bool good = r->n_tokens && r->window == 64 && r->n_prefix == 0 && r->n_input && r->n_check;
    tft_quantize_free(r);
    return good ? 0 : 3;
}
"""


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    run(meson, "install", "-C", build, "--no-rebuild", "--destdir", folder)
    names = sorted(p.relative_to(root).as_posix() for p in root.rglob("*"))
    print(*[n for n in names if re.search(r"chat|tuffet", n)], sep="\n")
    found = [p.parent for p in root.rglob("tuffet-chat.pc")]
    headers = sorted(p.name for p in root.rglob("*.h"))
    tools = any(name.endswith("/tuffet-quantize.pc") for name in names)
    expected = ["tuffet.h", "tuffet_chat.h"] + ["tuffet_quantize.h"] * tools
    assert len(found) == 1 and headers == expected, (found, headers)
    if any(name.endswith("/tuffet.1") for name in names):  # made by the program where it can run
        for data in ("tuffet/stories2M.gguf", "bash-completion/completions/tuffet.bash",
                     "zsh/site-functions/_tuffet", "fish/vendor_completions.d/tuffet.fish"):
            assert any(name.endswith("/share/" + data) for name in names), data
    libraries = [p for p in root.rglob("libtuffet-chat.so.[0-9]")]
    if not libraries:
        print("skipped: no shared libraries")
        sys.exit(77)
    env = {**os.environ, "PKG_CONFIG_LIBDIR": str(found[0]), "PKG_CONFIG_SYSROOT_DIR": folder,
           "LD_LIBRARY_PATH": str(libraries[0].parent)}
    model = str(root / "toy.gguf")
    small = str(root / "small.gguf")
    for path, ctx in [(model, 2000), (small, 60)]:
        run(toy, "write", path, f"template={TEMPLATE}", "endless=1", f"ctx={ctx}")
    plugins = list(root.rglob("libtuffet-mpi.so"))
    programs = [p for p in root.rglob("tuffet") if p.parent.name == "bin"]
    if plugins and programs:  # the program finds its plug-in, in any prefix
        text = root / "text"
        text.write_bytes(b"hello world, once upon a time. " * 90)
        made = str(root / "w8a8.gguf")
        run(str(programs[0]), "quantize", model, "-o", made, "--calib", str(text),
            "--calib-tokens=200", "--calib-window=64", "-t1")
        alone = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        done = subprocess.run([str(programs[0]), "run", made, "-phello", "-n3", "--device=mpi"],
                              capture_output=True, env=alone)
        assert b"cannot open shared object" not in done.stderr, done.stderr
    for example, package, question in [("embed", "tuffet", "once"),
                                       ("embed_chat", "tuffet-chat", "upon a time")]:
        program = str(root / example)
        flags = run(pkg_config, "--cflags", "--libs", package, env=env).split()
        run(*compiler, "-std=c11", "-o", program, str(examples / f"{example}.c"), *flags)
        linked = subprocess.run([program, model, question], capture_output=True, env=env)
        if example == "embed":  # the toy never ends its text
            assert b"no room" in linked.stderr and len(linked.stdout) > 10, linked
            continue
        assert linked.returncode == 0 and not linked.stderr, linked
        call, answer = linked.stdout.decode("utf-8").split("\n", 1)
        arguments, result = re.fullmatch(r"weather (\{.*\}): (.*)", call).groups()
        results = {"Oslo": "rain, 7 degrees", "Lima": "clear, 19 degrees"}
        assert result == results[json.loads(arguments)["city"]], linked.stdout
        assert 1 <= len(json.loads(answer)) <= 60, linked.stdout
        usage = subprocess.run([program], capture_output=True, env=env)
        assert usage.returncode == 1 and b"usage: embed_chat MODEL QUESTION" in usage.stderr, usage
        full = subprocess.run([program, small, question], capture_output=True, env=env)
        assert full.returncode == 1 and b"no room" in full.stderr, full
        assert b"usage" not in full.stderr, full
    if tools:  # a program against the installed header and library
        source, program = root / "quantize.c", str(root / "quantize")
        source.write_text(QUANTIZE)
        flags = run(pkg_config, "--cflags", "--libs", "tuffet-quantize", env=env).split()
        run(*compiler, "-std=c11", "-o", program, str(source), *flags)
        run(program, model, str(root / "w8a8.gguf"), env=env)
        assert (root / "w8a8.gguf").stat().st_size > 0
print("the examples run")
