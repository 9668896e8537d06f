"""The prefix cache of tuffet serve beyond its slots: --cache-mem and --cache-dir."""
import os
import random
import re
import resource
import signal
import stat

from program import PATIENCE, TUFFET, Case, main, wait_until
from test_serve import ZEPHYR, Server

WORDS = "hello and once upon a time the world was in to of".split()


def prompt(i):
    """The i-th conversation. All take about as much; none shares more than a few tokens with
    another."""
    return " ".join(random.Random(i).choices(WORDS, k=120))


class Cache(Case):
    def settings(self, **settings):
        return self.toy(**{"template": ZEPHYR, "endless": 1, "ctx": 2000, **settings})

    def serve(self, *args, **settings):
        return Server(self.settings(**settings), "--slots=1", *args)

    def ask(self, s, i, more=""):
        return s.answer("/completion", prompt=prompt(i) + more, temperature=0, n_predict=12)

    def wanted(self, n, *args, more="", **settings):
        """The answers of a server that keeps nothing."""
        with self.serve("--cache-mem=0", *args, **settings) as s:
            got = [self.ask(s, i, more) for i in range(n)]
        self.assertTrue(all(x["tokens_cached"] < 40 for x in got))
        return [x["content"] for x in got]

    def folder_of(self, name):
        return self.path(name + self.id())

    def files(self, folder):
        return sorted(f for f in os.listdir(folder) if f.endswith(".session"))

    def age(self, folder):
        """Makes the files an hour older: some file systems tell times apart by seconds only."""
        for name in self.files(folder):
            path = f"{folder}/{name}"
            then = os.stat(path).st_mtime_ns - 3600 * 10**9
            os.utime(path, ns=(then, then))

    def test_a_session_without_a_slot_comes_back(self):
        for kv in ("f16", "kivi"):
            with self.subTest(kv=kv):
                want = self.wanted(4, "--kv", kv)
                with self.serve("--kv", kv, "--cache-mem=64M") as s:
                    for _ in range(2):
                        got = [self.ask(s, i) for i in range(4)]
                        self.assertEqual([x["content"] for x in got], want)
                    for x in got:
                        self.assertEqual(x["timings"]["prompt_n"],
                                         x["tokens_evaluated"] - x["tokens_cached"])
                    m = s.metrics()
                    if kv == "f16":
                        self.assertEqual([x["tokens_cached"] for x in got],
                                         [x["tokens_evaluated"] - 1 for x in got])
                        self.assertEqual((m["cache_hits_memory_total"], m["cache_saved_total"]),
                                         (4, 4))
                    self.assertLessEqual(m["cache_memory_bytes"], 64 << 20)
                    self.assertGreater(m["cache_memory_bytes"], 0)

    def test_states_go_back_to_checkpoints_alone(self):
        want = self.wanted(3, arch="qwen35", more=" and hello")
        with self.serve(arch="qwen35") as s:
            before = [self.ask(s, i) for i in range(3)]
            got = [self.ask(s, i, " and hello") for i in range(3)]
            self.assertEqual([x["content"] for x in got], want)
            self.assertEqual([x["tokens_cached"] for x in got],
                             [x["tokens_evaluated"] for x in before], "where the prompts ended")
            self.assertGreater(min(x["tokens_cached"] for x in got), 150)
            # behind 100 tokens there is no checkpoint: nothing of them is of use
            cut = prompt(0)[:len(prompt(0)) // 3]
            self.assertEqual(s.answer("/completion", prompt=cut + "world", n_predict=1)
                             ["tokens_cached"], 0)

    def test_memory_is_bounded_and_the_oldest_goes(self):
        want = self.wanted(4)
        with self.serve("--cache-mem=64M") as s:
            self.ask(s, 0), self.ask(s, 1)
            one = s.metrics()["cache_memory_bytes"]
        with self.serve(f"--cache-mem={int(2.5 * one)}") as s:
            for i in range(4):
                self.ask(s, i)
            m = s.metrics()
            self.assertEqual((m["cache_sessions"], m["cache_saved_total"]), (2, 3))
            self.assertLessEqual(m["cache_memory_bytes"], 2.5 * one)
            again = [self.ask(s, i) for i in (1, 0)]
            self.assertGreater(again[0]["tokens_cached"], 150)
            self.assertLess(again[1]["tokens_cached"], 40, "0 was the oldest")
            self.assertEqual([x["content"] for x in again], [want[1], want[0]])
        with self.serve(f"--cache-mem={int(0.8 * one)}") as s:  # texts differ by some tokens
            for i in (0, 1, 0):
                self.assertEqual(self.ask(s, i)["content"], want[i])
            self.assertEqual(s.metrics()["cache_memory_bytes"], 0, "it did not fit")

    def test_a_session_that_goes_on_takes_the_place_of_the_shorter_one(self):
        folder = self.folder_of("longer")
        with self.serve("--cache-dir", folder) as s:
            for i, more in ((0, ""), (1, ""), (0, " and hello" * 40), (1, "")):
                self.ask(s, i, more)
            self.assertEqual(s.metrics()["cache_sessions"], 2)
        self.assertEqual(len(self.files(folder)), 2)

    def test_what_another_slot_has_is_not_saved(self):
        with self.serve("--slots=2") as s:  # the last --slots counts
            s.answer("/v1/completions", prompt=prompt(0), n=2, max_tokens=12)
            self.ask(s, 1)
            self.assertEqual(s.metrics()["cache_saved_total"], 0)
            self.ask(s, 2)
            self.assertEqual(s.metrics()["cache_saved_total"], 1)

    def test_a_restored_slot_is_kept_before(self):
        with self.serve("--slot-save-path", self.folder.name) as s:
            self.ask(s, 0)
            s.answer("/slots/0?action=save", filename="zero")
            self.ask(s, 1)
            s.answer("/slots/0?action=restore", filename="zero")
            self.assertGreater(self.ask(s, 1)["tokens_cached"], 150)

    def test_prompts_that_end_in_the_cache_are_excluded(self):
        kv = "kivi:prefill=prompt"
        want = self.wanted(2, "--kv", kv)
        with self.serve("--kv", kv) as s:
            self.assertEqual([self.ask(s, i)["content"] for i in (0, 1, 0)],
                             [want[0], want[1], want[0]])
            self.assertEqual(s.metrics()["cache_sessions"], 0)

    def test_a_restart_finds_the_folder(self):
        folder = self.folder_of("new")
        want = self.wanted(3)
        with self.serve("--cache-dir", folder) as s:
            for i in range(3):
                self.ask(s, i)
        self.assertEqual(len(self.files(folder)), 3, "that of the slot too")
        self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
        for name in os.listdir(folder):
            self.assertEqual(stat.S_IMODE(os.stat(f"{folder}/{name}").st_mode), 0o600)
        with self.serve("--cache-dir", folder) as s:
            got = [self.ask(s, i) for i in range(3)]
            self.assertEqual([x["content"] for x in got], want)
            self.assertGreater(min(x["tokens_cached"] for x in got), 150)
            m = s.metrics()
            self.assertEqual((m["cache_hits_disk_total"], m["cache_files"]), (3, 3))
            self.assertEqual(m["cache_disk_bytes"],
                             sum(os.path.getsize(f"{folder}/{f}") for f in self.files(folder)))

    def test_a_killed_server_leaves_whole_files(self):
        folder = self.folder_of("killed")
        want = self.wanted(4)
        for kills in range(4):
            s = self.serve("--cache-dir", folder)
            for i in (kills, (kills + 1) % 4, (kills + 2) % 4):
                self.assertEqual(self.ask(s, i)["content"], want[i])
            if kills % 2:
                wait_until(lambda: s.metrics()["cache_files"] >= 1)
            s.process.kill()
            _, err = s.process.communicate(timeout=PATIENCE)
            self.assertEqual(err, b"")
        with self.serve("--cache-dir", folder) as s:  # and says nothing of files
            self.assertEqual([self.ask(s, i)["content"] for i in range(4)], want)
            self.assertGreater(s.metrics()["cache_hits_disk_total"], 0)

    def test_the_disk_is_bounded(self):
        folder = self.folder_of("bounded")
        with self.serve("--cache-dir", folder) as s:
            self.ask(s, 0)
        size = os.path.getsize(f"{folder}/{self.files(folder)[0]}")
        with self.serve("--cache-dir", folder, f"--cache-disk={int(2.5 * size)}") as s:
            for i in range(1, 5):
                self.ask(s, i)
        files = self.files(folder)
        self.assertEqual(len(files), 2)
        with self.serve("--cache-dir", folder) as s:
            for i in (4, 3):
                self.assertGreater(self.ask(s, i)["tokens_cached"], 150, "the newest are there")
        with self.serve("--cache-dir", folder, f"--cache-disk={size // 2}") as s:
            self.assertEqual(self.files(folder), [], "the bound is lower now")

    def test_the_file_that_was_not_used_goes_first(self):
        folder = self.folder_of("used")
        with self.serve("--cache-dir", folder) as s:
            for i in range(3):
                self.ask(s, i)
        size = max(os.path.getsize(f"{folder}/{f}") for f in self.files(folder))
        with self.serve("--cache-dir", folder, f"--cache-disk={int(3.5 * size)}") as s:
            self.ask(s, 0), self.ask(s, 3)
        self.assertEqual(len(self.files(folder)), 3)
        with self.serve("--cache-dir", folder) as s:
            self.assertLess(self.ask(s, 1)["tokens_cached"], 40, "it made room for 3")
            self.assertGreater(self.ask(s, 0)["tokens_cached"], 150)
        self.age(folder)
        with self.serve("--cache-dir", folder) as s:
            self.ask(s, 2)  # a later server sees by the time of the file that it was used
        with self.serve("--cache-dir", folder, f"--cache-disk={int(1.5 * size)}") as s:
            self.assertGreater(self.ask(s, 2)["tokens_cached"], 150)

    def ends(self, s):
        """What a server has written to standard error."""
        s.process.send_signal(signal.SIGTERM)
        err = s.process.communicate(timeout=PATIENCE)[1].decode()
        self.assertEqual(s.process.returncode, 0, err)
        return err.splitlines()

    def test_files_of_others_are_ignored_and_said(self):
        folder = self.folder_of("others")
        want = self.wanted(2)
        with self.serve("--cache-dir", folder, seed=2) as s:
            self.ask(s, 0)
        s = self.serve("--cache-dir", folder, "--kv=kivi")
        self.ask(s, 0)
        self.assertIn(": 1 of another model", *self.ends(s))
        number = "tuffet-%016x.session"
        data = self.read(f"{folder}/{self.files(folder)[0]}")
        for name, content in {"notes.txt": b"mine", number % 90: b"", number % 91: data[:50],
                              number % 92: b"TFTKEPT\n" + b"\xff" * 200}.items():
            with open(f"{folder}/{name}", "wb") as f:
                f.write(content)
        os.mkfifo(f"{folder}/{number % 93}")
        os.symlink("/etc/passwd", f"{folder}/{number % 94}")
        os.mkdir(f"{folder}/{number % 95}")
        s = self.serve("--cache-dir", folder)
        self.assertEqual([self.ask(s, i)["content"] for i in range(2)], want)
        line, = self.ends(s)
        self.assertRegex(line, r"others\S+: ignored files: 4 of another model, cache or version, "
                               "1 damaged, 4 that are not saved sessions$")
        self.assertEqual(self.read(f"{folder}/notes.txt"), b"mine")

    def test_damaged_files_are_computed(self):
        folder = self.folder_of("damaged")
        want = self.wanted(1)
        for at in (9, 45, 200, -3, None):  # head, tokens, session, its checksum; a file cut off
            with self.serve("--cache-dir", folder) as s:
                self.ask(s, 0)
            name, = self.files(folder)
            data = bytearray(self.read(f"{folder}/{name}"))
            if at is None:
                del data[-10:]
            else:
                data[at] ^= 1
            with open(f"{folder}/{name}", "wb") as f:
                f.write(data)
            s = self.serve("--cache-dir", folder)
            got = self.ask(s, 0)
            self.assertEqual((got["content"], got["tokens_cached"]), (want[0], 0))
            self.assertEqual(len(self.ends(s)), 1, at)
            for name in self.files(folder):
                os.unlink(f"{folder}/{name}")

    def test_a_file_that_changes_under_the_server(self):
        folder = self.folder_of("changed")
        want = self.wanted(3)
        with self.serve("--cache-dir", folder) as s:
            for i in range(3):
                self.ask(s, i)
        s = self.serve("--cache-dir", folder)
        first, second, third = self.files(folder)
        os.truncate(f"{folder}/{first}", 1000)
        os.unlink(f"{folder}/{second}")
        with open(f"{folder}/{third}", "r+b") as f:
            f.seek(45)  # in the list of tokens
            f.write(b"\xff")
        for i in range(3):
            got = self.ask(s, i)
            self.assertEqual(got["content"], want[i])
            self.assertLess(got["tokens_cached"], 40)
        self.assertEqual(len(self.ends(s)), 3)

    def test_two_servers_and_bad_folders(self):
        folder = self.folder_of("two")
        with self.serve("--cache-dir", folder) as s:
            self.ask(s, 0)
            other = self.serve("--cache-dir", folder)
            self.ask(other, 1)
            self.assertRegex(self.ends(other)[0], "another server uses it")
            self.assertEqual(self.files(folder), [])
        self.assertEqual(len(self.files(folder)), 1)
        toy = self.settings()
        self.assertRegex(self.fails("serve", toy, "--port=0", "--cache-dir", toy),
                         "opened: Not a dir")
        self.assertRegex(self.fails("serve", toy, "--cache-dir", folder + "/none/x"),
                         "cannot be made")
        self.assertRegex(self.fails("serve", toy, "--cache-dir=x", "--cache-mem=0", status=2),
                         "needs some --cache-mem")
        for size in ("", "x", "-1", "1T", "1Gx", "99999999999G", "1.5G", " 1"):
            self.assertRegex(self.fails("serve", toy, f"--cache-mem={size}", status=2),
                             "bytes such")

    def test_a_full_disk(self):
        """No file may be larger than a page: every write fails."""
        folder = self.folder_of("full")
        want = self.wanted(3)
        s = self.serve("--cache-dir", folder)
        resource.prlimit(s.process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
        for _ in range(2):
            for i in range(3):
                self.assertEqual(self.ask(s, i)["content"], want[i])
        self.assertEqual(s.metrics()["cache_files"], 0)
        line, = self.ends(s)
        self.assertRegex(line, "sessions cannot be written: File too large")
        self.assertEqual(os.listdir(folder), ["tuffet.lock"])

    def test_a_lack_of_memory(self):
        if b"__tsan_init" in self.read(TUFFET[-1]):
            self.skipTest("ThreadSanitizer itself ends where the system gives no memory")
        want = self.wanted(3)
        with self.serve("--cache-mem=64M") as s:
            self.ask(s, 0)
            size = int(re.search(r"VmSize:\s+(\d+)", self.read(
                f"/proc/{s.process.pid}/status").decode())[1]) * 1024
            resource.prlimit(s.process.pid, resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
            got = [self.ask(s, i) for i in (1, 2, 0)]
            self.assertEqual([x["content"] for x in got], [want[1], want[2], want[0]])
            self.assertLess(got[2]["tokens_cached"], 40, "it could not be stored")
            resource.prlimit(s.process.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)


if __name__ == "__main__":
    main()
