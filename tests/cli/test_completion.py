"""Completion: each shell reads its script, and offers what --help all shows."""
import os
import re
import shutil
import subprocess

from program import Case, main

# What the bash script calls, outside of an interactive shell: it says so.
BASH = r"""
compopt() { echo "compopt $*"; }
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_tuffet
printf 'word %s\n' "${COMPREPLY[@]}"
"""
# zsh completes only while a line is edited: its functions that offer words are replaced.
ZSH = r"""
_arguments() { print -rl -- "arguments" "$@"; }
_describe() { print -rl -- "describe" ${(P)2}; }
compdef() { :; }
source $1
shift
words=("$@") CURRENT=$#
_tuffet
"""
# A zsh that edits lines, with its own functions. After the script come a line and what it becomes,
# and so on; prints the lines that became that.
ZSH_LINE = r"""
zmodload zsh/zpty
zpty z "TERM=dumb zsh -f -i"
zpty -w z "PS1=; autoload -Uz compinit; compinit -D; source $1"
zpty -w z "bindkey -e; bindkey '^I' complete-word '^U' kill-whole-line; print READ''Y"
zpty -r -m z all '*READY*'
shift
while (($#)); do
    zpty -w -n z $1$'\t'
    zpty -r -m z all "*$2*" && print -r -- $1
    zpty -w -n z $'\C-u'
    shift 2
done
zpty -d z
"""


class Completion(Case):
    def commands(self):
        return re.findall(r"^  (\w+) +\w", self.tuffet("help").decode(), re.M)

    def options(self, command):
        """(letter or "", name, what the help calls the value or "", the rest of the help)"""
        usage = self.tuffet(command, "--help", "all").decode()
        found = re.findall(r"^  (?:    )?(?:(-\w), )?(--[\w-]+)(?: (\S+))?(?:  +|\n +)"
                           r"((?:.+\n(?: {28})?)+?)(?=^ {2,6}-|^\S|^$|\Z)", usage, re.M)
        return [(letter, name, value, " ".join(text.split()))
                for letter, name, value, text in found if name != "--help"]

    def skip_unless_it_works(self, shell):
        """Skips the test where there is no such shell, or none that can do what scripts need."""
        checks = {"bash": ["-c", "type compopt"], "fish": ["--no-config", "-c", "complete -C ec"],
                  "zsh": ["-f", "-c", "zmodload zsh/zpty; autoload -Uz +X compinit"]}
        why = "is not there"
        if shutil.which(shell):
            try:
                done = subprocess.run([shell, *checks[shell]], capture_output=True, check=False,
                                      stdin=subprocess.DEVNULL)
                why = f"does not work: {done.stderr.decode().strip() or done.returncode}"
                if done.returncode == 0 and not done.stderr:
                    return
            except OSError as e:
                why = f"does not work: {e}"
        self.skipTest(f"{shell} {why}")

    def script(self, shell):
        self.skip_unless_it_works(shell)
        path = self.write(f"tuffet.{shell}", self.tuffet("help", "--completion", shell))
        self.assertEqual(self.shell(shell, "-n", path), "")
        return path

    def shell(self, *args):
        """What the shell prints in a folder with two files and a folder."""
        os.makedirs(self.path("here/folder"), exist_ok=True)
        for name in ("a model.gguf", "b.gguf"):
            self.write(f"here/{name}", b"")
        done = subprocess.run(args, capture_output=True, text=True, cwd=self.path("here"),
                              stdin=subprocess.DEVNULL, timeout=60, env={
                                  **os.environ, "HOME": self.folder.name,
                                  "XDG_CONFIG_HOME": self.path("config"),
                                  "XDG_DATA_HOME": self.path("data")})
        self.assertEqual((done.returncode, done.stderr), (0, ""), args)
        return done.stdout

    def check_values(self, command, offered):
        """offered(option): the words that a shell offers, or "files", "folders" or None. Returns
        the options whose words are listed in a sentence of the help."""
        sentences = set()
        for letter, name, value, text in self.options(command):
            for option in filter(None, [letter, name]):
                if not value:
                    continue
                got = offered(option)
                where = (command, option, value, got)
                if option == "--kv":  # quantize's refers to run's
                    text = next(o for o in self.options("run") if o[1] == "--kv")[3]
                if "|" in value and value != "FILE|TEXT":
                    self.assertCountEqual(got, value.split("|"), where)
                elif value in ("FILE", "FILE|TEXT", "MODEL"):
                    self.assertEqual(got, "files", where)
                elif value == "FOLDER":
                    self.assertEqual(got, "folders", where)
                elif got:
                    for word in got:  # the help has them too
                        self.assertRegex(text, rf"(^|\W){re.escape(word)}(\W|$)", where)
                # a list in the help of words that are typed, such as "c, avx2 or neon"
                listed = re.search(r": ((?:[\w.-]+, ){2,}[\w.-]+(?: or [\w.-]+)?)(?:,| \(|$)",
                                   text)
                if listed and value in ("NAME", "CACHE"):
                    self.assertEqual(set(re.split(r", | or ", listed[1])) - set(got), set(), where)
                    sentences.add(option)
        return sentences

    def test_the_options_are_read_from_the_help(self):
        """What the tests below compare with."""
        names = dict((name, (letter, value)) for letter, name, value, _ in self.options("run"))
        self.assertEqual(names["--file"], ("-f", "FILE"))
        self.assertEqual(names["--weights"], ("", "stored|f32|f16|bf16"))
        self.assertEqual(names["--json"], ("", ""))
        for command in self.commands():
            usage = self.tuffet(command, "--help", "all").decode()
            self.assertEqual([*(name for _, name, _, _ in self.options(command)), "--help"],
                             re.findall(r"^  .{0,4}(--[\w-]+)", usage, re.M))

    def bash(self, path, *words):
        """(words, calls of compopt)"""
        lines = self.shell("bash", "-c", BASH, "bash", path, *words).splitlines()
        return ([line[5:] for line in lines if line.startswith("word ") and line[5:]],
                [line[8:] for line in lines if line.startswith("compopt ")])

    def bash_value(self, path, command):
        def offered(option):
            words, calls = self.bash(path, "tuffet", command, option, "")
            if words:
                self.assertEqual(calls, ["+o default"])
                return words
            return {"": "files", "+o default -o dirnames": "folders",
                    "+o default": None}[" ".join(calls)]
        return offered

    def test_bash(self):
        path = self.script("bash")
        words, _ = self.bash(path, "tuffet", "")
        self.assertEqual(words, [*self.commands(), "help", "--help", "--version"])
        self.assertEqual(self.bash(path, "tuffet", "qua")[0], ["quantize"])
        self.assertEqual(self.bash(path, "tuffet", "help", "tok")[0], ["tokenize"])
        self.assertEqual(self.bash(path, "tuffet", "help", "--completion", "z")[0], ["zsh"])
        for option in ("--help", "-h"):
            self.assertEqual(self.bash(path, "tuffet", "run", option, ""),
                             (["all"], ["+o default"]))
        self.assertEqual(self.bash(path, "tuffet", "help", "--help", ""),
                         self.bash(path, "tuffet", "help", ""))
        for command in self.commands():
            names = [n for letter, name, _, _ in self.options(command)
                     for n in (letter, name) if n]
            self.assertEqual(self.bash(path, "tuffet", command, "-")[0], [*names, "-h", "--help"])
            self.assertEqual(self.bash(path, "tuffet", command, ""),
                             ([], {"import": ["+o default -o dirnames"], "pull": ["+o default"],
                                   "list": ["+o default"], "rm": ["+o default"]}.get(command, [])))
        # A shell takes long: the other commands' are made by the same function.
        self.assertEqual(self.check_values("run", self.bash_value(path, "run")), {"--cpu", "--kv"})
        self.check_values("quantize", self.bash_value(path, "quantize"))
        # --kv=VALUE comes as three words
        self.assertEqual(self.bash(path, "tuffet", "run", "--kv", "=", "k")[0], ["kivi"])
        self.assertIn("f16", self.bash(path, "tuffet", "run", "--kv", "=")[0])

    def zsh(self, path, *words):
        return self.shell("zsh", "-f", "-c", ZSH, "zsh", path, *words).splitlines()

    def test_zsh(self):
        path = self.script("zsh")
        kind, *words = self.zsh(path, "tuffet", "")
        self.assertEqual(kind, "describe")
        self.assertEqual([word.split(":")[0] for word in words], [*self.commands(), "help"])
        sentences = set()
        for command in self.commands():
            kind, *specs = self.zsh(path, "tuffet", command, "")
            self.assertEqual(kind, "arguments")
            actions = {}
            for spec in specs:
                found = re.fullmatch(
                    r"(?:\(-\w --[\w-]+\))?\*?(--?[\w-]+)[+=]?\[(?:[^]\\]|\\.)*\]"
                    r"(?::(?:[^:\\]|\\.)*:(.*))?", spec)
                if found:
                    actions[found[1]] = found[2]
            names = [n for letter, name, _, _ in self.options(command)
                     for n in (letter, name) if n]
            self.assertEqual([*actions], [*names, "-h", "--help"])
            action = {"import": "_files -/", **dict.fromkeys(("pull", "list", "rm"), " ")}
            self.assertRegex(specs[-1], f"^[1*]:.*:{action.get(command, '_files')}$")

            def offered(option):
                action = actions[option]
                if action.startswith("("):
                    return action[1:-1].split()
                return {"_files": "files", "_files -/": "folders", " ": None}[action]
            sentences |= self.check_values(command, offered)
        self.assertEqual(sentences, {"--cpu", "--kv", "--template", "--shape"})

    def test_zsh_takes_the_specifications(self):
        path = self.script("zsh")
        lines = {"tuffet quan": "quantize", "tuffet run --kv part": "partial-logquant",
                 "tuffet run --no-such -p x --repeat-p": "repeat-penalty=",
                 "tuffet quantize --rotate=o+": "o+down", "tuffet run b": "b.gguf",
                 "tuffet run --help al": "help all"}
        words = [word for item in lines.items() for word in item]
        found = self.shell("zsh", "-f", "-c", ZSH_LINE, "zsh", path, *words)
        self.assertEqual(found.splitlines(), [*lines])

    def fish(self, path, line):
        lines = self.shell("fish", "--no-config", "-c",
                           'source $argv[1]; complete -C "$argv[2]"', path, line).splitlines()
        return [text.split("\t")[0] for text in lines]

    def test_fish(self):
        path = self.script("fish")
        self.assertEqual(sorted(self.fish(path, "tuffet ")), sorted([*self.commands(), "help"]))
        self.assertEqual(self.fish(path, "tuffet help --completion z"), ["zsh"])
        for option in ("--help", "-h"):
            self.assertEqual(self.fish(path, f"tuffet run {option} "), ["all"])
        for command in self.commands():
            letters = {letter for letter, _, _, _ in self.options(command) if letter}
            names = {name for _, name, _, _ in self.options(command)}
            got = set(self.fish(path, f"tuffet {command} -"))
            self.assertEqual({n for n in got if n.startswith("--")}, names | {"--help"})
            self.assertEqual(letters - got, set())
            got = self.fish(path, f"tuffet {command} ")
            self.assertEqual(sorted(got), ["folder/"] if command == "import" else
                             [] if command in ("pull", "list", "rm") else
                             ["a model.gguf", "b.gguf", "folder/"], got)
        for command in ("run", "quantize"):
            def offered(option):
                got = self.fish(path, f"tuffet {command} {option} ")
                if "b.gguf" in got:
                    return "files"
                return "folders" if got == ["folder/"] else got or None
            self.check_values(command, offered)

    def test_wrong_use(self):
        for args, message in [(["ksh"], 'bash, zsh or fish, not "ksh"'), ([], 'not ""'),
                              (["bash", "x"], '"x" is one argument too many')]:
            self.assertIn(message, self.fails("help", "--completion", *args, status=2))


main()
