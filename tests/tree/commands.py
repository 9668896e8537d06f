"""The commands of README.md and docs/*.md, run as they are written.

    commands.py SOURCE_ROOT BUILD               those that need the program alone
    commands.py SOURCE_ROOT BUILD --everywhere  the others, as root on Debian: they build, and may
                                                install packages

An indented block of a page that begins with a command is a script: each runs in a folder of its
own, with the model, the texts and the folder of Hugging Face that the pages speak of, and must end
with status 0. A block that cannot run is in NOT_RUN, with the reason. Sessions of `tuffet chat` and
other transcripts begin with "$ "; the lines after it are what is printed and typed.
"""
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

root, build = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
sys.path.insert(0, str(root / "tests"))
from support import hf_folder
from support.hub import Hub

PATIENCE, MUCH_PATIENCE = 100, 3600  # seconds for a block

# Words that begin a command, beside programs of this machine.
WORDS = {"apt-get", "aarch64-linux-gnu-gcc", "cargo", "cc", "cd", "curl", "docker", "export", "for",
         "git", "go", "meson", "mpirun", "ninja", "node", "npm", "pip", "pkg", "python3", "sh",
         "search", "signify-openbsd", "tar", "termux-setup-storage", "tr", "tuffet", "tuffet.exe"}
TEXT_WORDS = {"location", "panel", "group", "text", "check:"}  # lines of drawings and of answers

# Blocks by page and the beginning of the first line. A reason may name the step of everywhere.sh.
NOT_RUN = {
    ("README.md", "tuffet demo      "): "a list of commands; pages have each",
    ("README.md", "build/demo/tools/tuffet chat hf:"): "docs/models.md has the command",
    ("docs/architecture.md", "meson test -C build/test cuda"): "a part of the suite",
    ("docs/boards.md", "sh tuffet-*-aarch64/board.sh"): "in the archive that static.sh makes",
    ("docs/chat.md", "npm install"): "the step web of .ci/run",
    ("docs/chat.md", "tuffet chat tinyllama.gguf --tools"): "asks at a terminal: cli_tools does it",
    ("docs/chat.md", "PREFIX=..."): "needs llama.cpp",
    ("docs/chat.md", "build/test/tests/grammar/grammar_speed"): "measures, with a large vocabulary",
    ("docs/chat.md", "python3 tests/chat/oracle.py"): "needs Jinja and a folder of templates",
    ("docs/embedding.md", "tuffet rerank"): "needs a reranker: cli_embedding plays one",
    ("docs/embedding.md", "search index"): "the test cli_search",
    ("docs/embedding.md", "meson setup build --prefix"): "needs Swift, which Debian 12 lacks",
    ("docs/home-assistant.md", "tuffet serve"): "the test cli_serve_ollama",
    ("docs/install.md", "sh tools/scripts/deb.sh"): "the step deb, which installs the packages too",
    ("docs/install.md", "apt-get update && apt-get install ./tuffet_"): "the step deb",
    ("docs/install.md", "sh tools/scripts/static.sh"): "the step static",
    ("docs/install.md", "export QEMU_LD_PREFIX"): "runs with the block that goes on from it",
    ("docs/install.md", "sh tools/scripts/windows.sh"): "the step windows",
    ("docs/install.md", "apt-get install gcc-mingw"): "the step windows",
    ("docs/install.md", "signify-openbsd"): "the test release checks one",
    ("docs/install.md", "tuffet.exe"): "Windows",
    ("docs/install.md", "termux-setup-storage"): "Android",
    ("docs/install.md", "pkg install"): "Android",
    ("docs/install.md", "chmod +x /etc/init.d/tuffet"): "OpenWrt: cli_serve starts the service",
    ("docs/install.md", "meson setup build/cuda"): "needs a GPU",
    ("docs/install.md", "tuffet run model.w8a8.gguf -p \"Once upon a time\" --device"): "a GPU",
    ("docs/install.md", "mpirun"): "several machines; the test cli_mpi plays them",
    ("docs/models.md", "tuffet pack model.gguf"): "needs a quantized model: cli_pack packs one",
    ("docs/models.md", "tuffet chat model.gguf --lora"): "needs adapters: cli_lora makes one",
    ("docs/models.md", "tuffet import my-adapter"): "needs an adapter: cli_peft makes one",
    ("docs/quantize.md", "tuffet quantize model.gguf --lora"): "needs an adapter: cli_peft",
    ("docs/quantize.md", "tuffet quantize minilm.f16.gguf"): "needs an encoder: cli_embedding",
    ("docs/reliability.md", "sh tools/scripts/test.sh"): "the suite, and the step campaign",
    ("docs/reliability.md", "tools/scripts/campaign.py"): "the step campaign",
    ("docs/reliability.md", "sh tools/scripts/everywhere.sh"): "the step hostile",
    ("docs/server-reference.md", "tuffet serve model.gguf --lora"):
        "needs adapters: cli_serve_lora",
    ("docs/install.md", "docker"): "needs a Docker that runs",
    ("docs/server.md", "docker"): "needs a Docker that runs",
    ("docs/server.md", "tuffet serve small=llama-1b.gguf"): "two models: cli_serve_models",
    ("docs/server.md", "tuffet serve --config"): "needs the file: cli_serve_config",
    ("docs/server-reference.md", "tuffet serve reranker"): "needs one: cli_serve_encoder",
    ("docs/server-reference.md", "npm install"): "the step web of .ci/run",
    ("docs/server-reference.md", "NODE_PATH="): "the step web of .ci/run",
    ("docs/server-reference.md", "tools/scripts/serve_soak.py"): "minutes of load: by hand",
    ("docs/server-reference.md", "tools/scripts/models_soak.py"): "half an hour of load: by hand",
}

# What runs with --everywhere: the Debian packages that it needs.
EVERYWHERE = {
    ("README.md", "sh tools/scripts/demo.sh"): "",
    ("docs/cache.md", "tuffet bench --shape gemma-3-1b"): "",
    ("docs/embedding.md", "meson setup build -Dtests=false && ninja -C build\n"
     "export PKG_CONFIG_PATH=$PWD/build/meson-uninstalled LD_LIBRARY_PATH=$PWD/build:"):
        "nodejs npm gcc libc6-dev meson pkgconf",
    ("docs/embedding.md", "meson setup build -Dtests=false && ninja -C build\n"
     "export TUFFET_LIB_DIR"):
        "cargo gcc libc6-dev meson ninja-build",
    ("docs/embedding.md", "sh tools/scripts/install.sh golang-go"): "meson ninja-build",
    ("docs/embedding.md", "sh tools/scripts/install.sh kotlin"):
        "gcc libc6-dev meson ninja-build",
    ("docs/embedding.md", "python3 -m venv"): "python3-venv",
    ("docs/install.md", "sh tools/scripts/demo.sh"): "",
    ("docs/install.md", "export PKG_CONFIG_SYSROOT_DIR"):
        "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user meson ninja-build pkgconf",
    ("docs/install.md", "meson setup build --prefix ~/.local"):
        "gcc libc6-dev meson ninja-build pkgconf dpkg-dev",
    ("docs/server-reference.md", "tools/scripts/serve_load.py"): "",
}

# What goes on from another block of its page, by its beginning.
AFTER = {
    ("docs/install.md", "export PKG_CONFIG_SYSROOT_DIR"): "export QEMU_LD_PREFIX",
}

# What runs with --everywhere and needs the program alone: it takes many seconds.
SLOW = {
    ("docs/cache.md", "tuffet quantize model.gguf -o out.gguf --calib text.txt --kv tuffet:s"): 1,
    ("docs/quantize.md", "tuffet quantize model.gguf -o model.w8a8.gguf --calib text.txt --c"): 1,
    ("docs/reliability.md", "timeout 30"): 1,
}

# The small model has heads too small for this budget; names that stand for others.
REPLACED = {
    ("docs/cache.md", "tuffet quantize model.gguf -o out.gguf --calib text.txt --kv tuffet:scales"):
        ("model.gguf", "models/demo/stories2M.gguf --calib-tokens 2048"),
    ("docs/speed.md", "tuffet bench MODEL"): ("--shape NAME", "--shape smollm2-135m -p8 -n2"),
}

SERVED = "http://127.0.0.1:8080"
SERVE = {"slots": ["--slot-save-path", "."]}  # options of a server that a block with this needs
wrong, used = [], set()


def blocks(page):
    """The indented blocks of a page: (number of the first line, lines). Lists are none."""
    lines, at, found = page.read_text().splitlines(), 0, []
    in_list = False
    while at < len(lines):
        line = lines[at]
        if re.match(r"(- |\d+\. )", line):
            in_list = True
        elif line and not line.startswith(" "):
            in_list = False
        indent = "      " if in_list else "    "
        if line.startswith(indent) and (at == 0 or not lines[at - 1]):
            begin = at
            while at < len(lines) and (lines[at].startswith(indent) or not lines[at]):
                at += 1
            found.append((begin + 1, [x[len(indent):] for x in lines[begin:at]]))
        else:
            at += 1
    return found


def script_of(lines):
    """The commands of a block; None if it has none."""
    first = lines[0].removeprefix("$ ")
    word = re.split(r"[ =]", first)[0]
    if first.startswith(word + " = "):
        return None
    is_command = (word in WORDS or re.match(r"(\./|build/|tools/scripts/|[A-Z_]+=)", first)
                  or (word not in TEXT_WORDS and shutil.which(word)))
    if not is_command:
        return None
    if lines[0].startswith("$ "):
        lines = [x.removeprefix("$ ") for x in lines if x.startswith("$ ")]
    return "\n".join(lines).strip() + "\n"


def row(table, page, script):
    """The value of the table for this block, or None."""
    for key in table:
        if key[0] == page and script.startswith(key[1]):
            used.add(key)
            return table[key]
    return None


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(command, **more):
    subprocess.run(command, check=True, capture_output=True, **more)


class Place:
    """Where blocks run: a folder with what the pages speak of, made once and copied."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.seed, self.bin = self.folder / "seed", self.folder / "bin"
        self.seed.mkdir()
        self.bin.mkdir()
        (self.bin / "tuffet").symlink_to(build / "tools/tuffet")
        # an answer that is an error fails
        (self.bin / "curl").write_text(f'#!/bin/sh\nexec {shutil.which("curl")} -sS --fail "$@"\n')
        (self.bin / "curl").chmod(0o755)
        self.environment = {
            **os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}", "HOME": str(self.folder),
            "XDG_CACHE_HOME": str(self.folder / "cache"), "NO_PROXY": "127.0.0.1",
            "PKG_CONFIG_PATH": str(build / "meson-uninstalled"),
            "LD_LIBRARY_PATH": f"{build}:{build / 'src/chat'}"}
        self.fill()

    def fill(self):
        """The files: text.txt and TEXT, some models, FOLDER, and what blocks name besides."""
        seed, text = self.seed, (root / "tools/quantize/calibration.txt").read_text()[:20000]
        for name in ("text.txt", "TEXT", "SOURCES", "notes.txt"):
            (seed / name).write_text(text[:200] if name in ("SOURCES", "notes.txt") else text)
        (seed / "animals.gbnf").write_text('root ::= ("a cat" | "two dogs") "."\n')
        for name in ("models", "examples", "tests", "tools", "bindings"):
            (seed / name).symlink_to(root / name)
        (seed / "embed_chat.c").symlink_to(root / "examples/embed_chat.c")
        toy = build / "tests/toy"
        for name in ("model.gguf", "MODEL", "tinyllama.gguf"):
            run([toy, "write", seed / name, "endless=1", "ctx=512", "template=" + TEMPLATE])
        run([build / "tools/tuffet", "quantize", "model.gguf", "-o", "model.w8a8.gguf", "--calib",
             "text.txt", "-t1", "--intact-system", "pirate=You are a pirate.",
             "--calib-tokens", "600"], cwd=seed)
        self.play_hub((seed / "model.gguf").read_bytes())
        hf_folder.write(str(seed / "FOLDER"), {
            "config.json": {**hf_folder.CONFIG, "vocab_size": 264},
            "tokenizer.json": hf_folder.tokenizer()},
                        *hf_folder.safetensors(hf_folder.tensors(264)))

    def play_hub(self, model):
        """Repositories by the names that the pages have, on a hub of our own."""
        hub = Hub()
        for repo in ("USER/REPO", "Qwen/Qwen3-0.6B-GGUF"):
            hub.repos[repo] = {"model-Q8_0.gguf": model}
        self.environment["HF_ENDPOINT"] = hub.main.url
        version = subprocess.run([self.bin / "tuffet", "--version"], check=True,
                                 capture_output=True).stdout
        self.pulls = b" libcurl" in version

    def run(self, page, number, script):
        """Runs the script in a fresh copy; a server is there while it asks one."""
        if SERVED in script and not shutil.which("curl"):
            print(f"left out: {page}:{number} needs curl")
            return
        if re.search("hf:|tuffet pull", script) and not self.pulls:
            print(f"left out: {page}:{number} needs a build with libcurl")
            return
        here = self.folder / "here"
        shutil.copytree(self.seed, here, symlinks=True)
        port, server = free_port(), None
        serves = re.match(r"tuffet serve (\S+)\n", script)
        if SERVED in script:
            options = [o for name, more in SERVE.items() if name in script for o in more]
            server = subprocess.Popen(
                [self.bin / "tuffet", "serve", serves[1] if serves else "model.gguf",
                 f"--port={port}", *options], cwd=here, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL)
            server.stdout.readline()  # it listens
            script = script[serves.end() if serves else 0:].replace(SERVED,
                                                                   f"http://127.0.0.1:{port}")
        begun = time.monotonic()
        try:
            done = subprocess.run(["sh", "-eu", "-c", script], cwd=here, env=self.environment,
                                  input=b"Hello\n/quit\n", stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=PATIENCE, check=False)
            if done.returncode:
                end = done.stdout[-600:].decode(errors="replace")
                wrong.append(f"{page}:{number}: status {done.returncode}\n{script}{end}")
        except subprocess.TimeoutExpired:
            wrong.append(f"{page}:{number}: not done in {PATIENCE} s\n{script}")
        finally:
            if server:
                server.terminate()
                server.communicate()
            shutil.rmtree(here)
        print(f"{time.monotonic() - begun:6.1f} s  {page}:{number}", flush=True)


TEMPLATE = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + "
            "'<|im_end|>\n' }}{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def run_everywhere(page, number, script, packages):
    """In a copy of the sources, with `tuffet` of the build."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "tuffet"
        shutil.copytree(root, copy, symlinks=True,
                        ignore=lambda at, names: ["build"] if at == str(root) else [])
        if "build/test/" in script:
            (copy / "build").mkdir()
            (copy / "build/test").symlink_to(build)
        if packages:
            run(["sh", "tools/scripts/install.sh", *packages.split()], cwd=copy)
        begun = time.monotonic()
        command = ["timeout", str(MUCH_PATIENCE), "sh", "-eu", "-c", script]
        done = subprocess.run(
            command, cwd=copy, check=False, stdin=subprocess.DEVNULL,
            env={**os.environ, "HOME": folder, "PATH": f"{build / 'tools'}:{os.environ['PATH']}"})
        print(f"{time.monotonic() - begun:6.1f} s  {page}:{number}", flush=True)
        if done.returncode:
            wrong.append(f"{page}:{number}: status {done.returncode}\n{script}")


def visit(place, everywhere, page):
    """Runs the blocks of a page; returns how many."""
    name, count, before = str(page.relative_to(root)), 0, []
    for number, lines in blocks(page):
        script = script_of(lines)
        before.append(script or "")
        if not script or row(NOT_RUN, name, script):
            continue
        packages, slow = row(EVERYWHERE, name, script), row(SLOW, name, script)
        first = row(AFTER, name, script)
        script = "".join(b for b in before if first and b.startswith(first)) + script
        old, new = row(REPLACED, name, script) or ("", "")
        script = script.replace(old, new) if old else script
        if everywhere != (packages is not None or bool(slow)):
            continue
        if packages is None:
            place.run(name, number, script)
        else:
            run_everywhere(name, number, script, packages)
        count += 1
    return count


def main():
    everywhere = "--everywhere" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder)
        count = sum(visit(place, everywhere, page) for page
                    in [root / "README.md", *sorted((root / "docs").glob("*.md"))])
    wrong.extend(f"no block of {key[0]} begins with {key[1]!r}"
                 for key in {**NOT_RUN, **EVERYWHERE, **AFTER, **SLOW, **REPLACED}
                 if key not in used)
    print(f"{count} blocks of commands", *wrong, sep="\n")
    sys.exit(1 if wrong or count < (6 if everywhere else 15) else 0)


main()
