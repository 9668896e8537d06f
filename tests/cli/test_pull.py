"""tuffet pull, list and rm, and hf: in place of a file, with a hub of our own."""
import hashlib
import json
import os
import pathlib
import random
import resource
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from program import PATIENCE, TUFFET, Case, Terminal, interrupt, main, wait_until
from support import hf_folder
from support.hub import COMMIT, Hub, git_hash, half, status

PULLS = b" libcurl" in subprocess.run([*TUFFET, "--version"], capture_output=True).stdout
MODEL = random.Random(1).randbytes(100000)
SHA256 = hashlib.sha256(MODEL).hexdigest()


class Without(Case):
    @unittest.skipIf(PULLS, "built with libcurl")
    def test_says_what_it_takes(self):
        for args in (["pull", "a/b"], ["list"], ["rm", "a/b"], ["run", "hf:a/b"]):
            self.assertIn("libcurl4-openssl-dev", self.fails(*args))


@unittest.skipUnless(PULLS, "built without libcurl")
class Pull(Case):
    def setUp(self):
        self.hub = Hub()
        self.addCleanup(self.hub.close)
        self.home = pathlib.Path(tempfile.mkdtemp(dir=self.folder.name))
        self.cache = self.home / "huggingface/hub"
        self.repo = self.cache / "models--some--model"
        self.blob = self.repo / "blobs" / SHA256
        self.part = self.repo / "blobs" / (SHA256 + ".incomplete")
        self.snapshot = self.repo / "snapshots" / COMMIT
        for name in [*os.environ]:
            if name.lower().endswith("_proxy") or name.startswith(("HF_", "HUGGING", "OLLAMA")):
                del os.environ[name]
        os.environ.update(HF_ENDPOINT=self.hub.main.url, XDG_CACHE_HOME=str(self.home),
                          HOME=str(self.home), HF_HUB_DOWNLOAD_TIMEOUT="20")
        self.hub.repos["some/model"] = {"model-Q8_0.gguf": MODEL, "README.md": b"# model\n"}

    def setting(self, **variables):
        os.environ.update(variables)
        for name in variables:
            self.addCleanup(os.environ.pop, name, None)

    def pull(self, name="some/model"):
        return self.json("pull", name)

    def ended(self, *args, **options):
        """Exit status and standard error."""
        done = subprocess.run([*TUFFET, *args], capture_output=True, timeout=PATIENCE, check=False,
                              **options)
        return done.returncode, done.stderr.decode()

    def started(self, *args):
        return subprocess.Popen([*TUFFET, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    # ---- what is fetched

    def test_layout(self):
        path = self.tuffet("pull", "some/model").decode().rstrip("\n")
        self.assertEqual(path, str(self.snapshot / "model-Q8_0.gguf"))
        self.assertEqual(os.readlink(path), f"../../blobs/{SHA256}")
        self.assertEqual(self.read(self.blob), MODEL)
        self.assertEqual((self.repo / "refs/main").read_text(), COMMIT)
        self.assertEqual(os.listdir(self.repo / "blobs"), [SHA256])
        again = self.pull()
        self.assertEqual((again["path"], again["fetched"], again["bytes"]), (path, 0, len(MODEL)))
        self.assertEqual(len(self.hub.store.requests), 1)

    def test_folders_of_the_cache(self):
        for number, (name, value, place) in enumerate([
                ("HF_HUB_CACHE", "a", "a"), ("HUGGINGFACE_HUB_CACHE", "b", "b"),
                ("HF_HOME", "c", "c/hub")]):
            os.environ[name] = str(self.home / value)
            self.assertTrue(self.pull()["path"].startswith(f"{self.home}/{place}/models--"))
            del os.environ[name]
            self.assertEqual(len(self.hub.store.requests), number + 1)

    def test_a_command_fetches_once_and_runs(self):
        toy = self.read(self.toy())
        self.hub.repos["some/model"] = {"x.gguf": toy}
        own = self.tuffet("run", self.toy(), "-p", "a", "-n4", "--temp=0")
        for _ in range(2):
            self.assertEqual(self.tuffet("run", "hf:some/model", "-p", "a", "-n4", "--temp=0"), own)
        self.assertEqual(len(self.hub.store.requests), 1)
        n = len(self.hub.main.requests)
        self.assertIn("MODEL", self.fails("chat", status=2))
        self.tuffet("inspect", "hf:some/model:x.gguf")
        self.assertEqual(len(self.hub.main.requests), n)

    def test_choice(self):
        def files(*names):
            self.hub.repos["some/model"] = {name: name.encode() for name in names}
        files("m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-F16.gguf", "mmproj-Q4_K_M.gguf")
        self.assertTrue(self.pull()["path"].endswith("/m-Q4_K_M.gguf"))
        self.assertTrue(self.pull("hf:some/model:q8_0")["path"].endswith("/m-Q8_0.gguf"))
        files("m-BF16.gguf", "m-F16.gguf", "m-Q8_0.gguf", "sub/other-Q2_K.gguf")
        self.assertTrue(self.pull()["path"].endswith("/m-Q8_0.gguf"))
        self.assertTrue(self.pull("some/model:F16")["path"].endswith("/m-F16.gguf"))
        self.assertTrue(self.pull("some/model:Q2_K")["path"].endswith("/sub/other-Q2_K.gguf"))
        self.assertEqual(os.readlink(self.snapshot / "sub/other-Q2_K.gguf"),
                         "../../../blobs/" + git_hash(b"sub/other-Q2_K.gguf"))
        files("m-Q2_K.gguf", "m-Q3_K_S.gguf", "mmproj-F16.gguf")
        self.assertRegex(self.fails("pull", "some/model"), ": Q2_K, Q3_K_S$")
        self.assertRegex(self.fails("pull", "some/model:Q9"), '"Q9".*: Q2_K, Q3_K_S$')
        files("README.md")
        self.assertIn("neither GGUF files nor", self.fails("pull", "some/model"))

    def test_split(self):
        names = [f"m-Q8_0-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
        self.hub.repos["some/model"] = {name: name.encode() for name in names}
        done = self.pull()
        self.assertEqual((done["path"], done["files"]), (str(self.snapshot / names[0]), 3))
        for name in names:
            self.assertEqual(self.read(self.snapshot / name), name.encode())
        del self.hub.repos["some/model"][names[1]]
        self.assertIn("a part of the split file is missing", self.fails("pull", "some/model"))

    def test_pages(self):
        self.hub.page = 1
        self.hub.repos["some/model"].update({f"a{i}": b"" for i in range(5)})
        self.assertTrue(self.pull()["path"].endswith("/model-Q8_0.gguf"))
        self.assertEqual(len(self.hub.main.asked("/tree/")), 7)

    def test_folder_of_safetensors(self):
        tensors = hf_folder.tensors(264)
        shards = {f"model-0000{i + 1}-of-00002.safetensors":
                  {name: tensors[name] for name in [*tensors][i::2]} for i in range(2)}
        index = {"weight_map": {name: shard for shard, has in shards.items() for name in has}}
        texts = {"config.json": {**hf_folder.CONFIG, "vocab_size": 264},
                 "tokenizer.json": hf_folder.tokenizer(), "model.safetensors.index.json": index}
        self.hub.repos["some/model"] = {
            **{name: json.dumps(text).encode() for name, text in texts.items()},
            "pytorch_model.bin": MODEL}
        for name, has in shards.items():
            header, data = hf_folder.safetensors(has)
            head = json.dumps(header).encode()
            self.hub.repos["some/model"][name] = struct.pack("<Q", len(head)) + head + data
        done = self.pull()
        self.assertEqual((done["path"], done["files"]), (str(self.snapshot), 5))
        self.assertFalse((self.snapshot / "pytorch_model.bin").exists())
        self.tuffet("import", done["path"], "-o", self.path("own.gguf"))
        own = self.tuffet("run", self.path("own.gguf"), "-p", "the", "-n4", "--temp=0")
        for _ in range(2):
            got = self.tuffet("run", "hf:some/model", "-p", "the", "-n4", "--temp=0")
            self.assertEqual(got, own)
        made = list((self.home / "tuffet/imported").iterdir())
        self.assertEqual([path.name for path in made], [f"some--model--{COMMIT}.gguf"])
        self.tuffet("rm", "some/model")
        self.assertFalse(made[0].exists() or self.repo.exists())

    # ---- hosts

    def test_the_token_goes_to_the_hub_alone(self):
        self.setting(HF_TOKEN="hf_secret")
        self.hub.main.fault("/api/models/some/model$",
                            status(307, Location="/api/models/some/model?renamed=1"))
        self.pull()
        self.assertEqual([h.get("Authorization") for _, h in self.hub.main.requests],
                         ["Bearer hf_secret"] * 4)
        self.assertEqual([h.get("Authorization") for _, h in self.hub.store.requests], [None])

    def test_the_file_of_the_token(self):
        self.setting(HF_TOKEN_PATH=self.write("token", b"hf_of_file\n"))
        self.pull()
        self.assertEqual(self.hub.main.requests[0][1].get("Authorization"), "Bearer hf_of_file")
        self.setting(HF_TOKEN="hf_a\r\nX-Other: b")
        self.assertIn("holds no token", self.fails("pull", "some/model"))
        self.setting(HF_HUB_DISABLE_IMPLICIT_TOKEN="1")
        self.pull()
        self.assertNotIn("Authorization", self.hub.main.requests[-1][1])

    def test_redirects_are_bounded(self):
        for place, why in [("/api/models/some/model", "too many redirects"),
                           ("file:///etc/passwd", "cannot be reached"),
                           ("http://user:word@127.0.0.1:1/", "cannot be reached")]:
            self.hub.main.faults.clear()
            self.hub.main.fault("/api/", *[status(302, Location=place)] * 20)
            before = len(self.hub.main.requests)
            self.assertIn(why, self.fails("pull", "some/model"))
            self.assertLessEqual(len(self.hub.main.requests) - before, 6)

    def test_proxy(self):
        """The hub plays the proxy, which gets whole addresses."""
        self.setting(HF_ENDPOINT="http://hub.invalid", http_proxy=self.hub.main.url,
                     NO_PROXY="127.0.0.1")
        self.pull()
        self.assertTrue(self.hub.main.requests[0][0].startswith("http://hub.invalid/api/"))

    def test_offline(self):
        self.setting(HF_HUB_OFFLINE="1")
        self.assertIn("HF_HUB_OFFLINE", self.fails("pull", "some/model"))
        os.environ["HF_HUB_OFFLINE"] = "0"
        path = self.pull()["path"]
        n = len(self.hub.main.requests)
        os.environ["HF_HUB_OFFLINE"] = "YES"
        self.assertEqual(self.pull()["path"], path)
        self.assertEqual(len(self.hub.main.requests), n)

    # ---- breaks

    def test_a_break_in_the_middle(self):
        self.hub.store.fault("", half)
        self.assertEqual(self.pull()["fetched"], len(MODEL))
        self.assertEqual([h.get("Range") for _, h in self.hub.store.requests],
                         [None, f"bytes={len(MODEL) // 2}-"])
        self.assertEqual(self.read(self.blob), MODEL)

    def test_a_pull_goes_on_where_another_stopped(self):
        stop = threading.Event()
        self.addCleanup(stop.set)

        def stall(request):
            request.send(200, MODEL[:30000], Content_Length=len(MODEL))
            request.wfile.flush()
            stop.wait(PATIENCE)
        self.hub.store.fault("", stall)
        process = self.started("pull", "some/model")
        wait_until(lambda: self.part.exists() and self.part.stat().st_size == 30000)
        interrupt(process)
        self.assertEqual(process.returncode, 130)
        self.assertFalse(self.blob.exists())
        self.assertEqual(self.pull()["fetched"], len(MODEL) - 30000)
        self.assertEqual(self.hub.store.requests[-1][1]["Range"], "bytes=30000-")
        self.assertEqual(self.read(self.blob), MODEL)

    def test_a_server_without_ranges(self):
        self.pull()
        self.tuffet("rm", "some/model")
        for left, fault in [(MODEL[:5000], lambda request: request.send(200, MODEL)),
                            (MODEL[:5000], status(416)), (b"x" * (len(MODEL) + 1), None)]:
            self.part.parent.mkdir(parents=True, exist_ok=True)
            self.part.write_bytes(left)
            if fault:
                self.hub.store.fault("", fault)
            self.pull()
            self.assertEqual(self.read(self.blob), MODEL)
            self.blob.unlink()

    def test_wrong_bytes(self):
        wrong = bytes([MODEL[0] ^ 1]) + MODEL[1:]
        self.hub.store.fault("", lambda request: request.send(200, wrong))
        message = self.fails("pull", "some/model")
        self.assertIn(hashlib.sha256(wrong).hexdigest(), message)
        self.assertIn(SHA256, message)
        self.assertFalse(self.part.exists() or self.blob.exists())
        self.hub.store.fault("", lambda request: request.send(200, MODEL + b"x"))
        self.assertIn("more bytes", self.fails("pull", "some/model"))
        # an earlier try left other bytes
        self.part.write_bytes(wrong[:100])
        self.assertIn("hash", self.fails("pull", "some/model"))
        self.pull()

    def test_a_small_file_has_the_hash_of_git(self):
        self.hub.repos["some/model"] = {"m.gguf": b"small"}
        entry = {"type": "file", "path": "m.gguf", "size": 5, "oid": git_hash(b"other")}
        self.hub.lists["some/model"] = [entry]
        self.assertIn(git_hash(b"small"), self.fails("pull", "some/model"))
        entry["oid"] = git_hash(b"small")
        self.assertEqual(self.read(self.pull()["path"]), b"small")

    def test_an_empty_file(self):
        self.hub.repos["some/model"] = {"m.gguf": b""}
        self.assertEqual(self.read(self.pull()["path"]), b"")

    def test_progress(self):
        """At a terminal, a line shows the share and the time left, and is gone at the end."""
        def slow(request):
            request.send(200, MODEL[:10000], Content_Length=len(MODEL))
            for start in range(10000, len(MODEL), 3000):
                time.sleep(0.12)
                request.wfile.write(MODEL[start:start + 3000])
        self.hub.store.fault("", slow)
        t = Terminal("pull", "some/model")
        t.wait_for(b"some/model [")
        self.assertRegex(t.wait_for(b" s left"), rb"\d %, \d+ s left")
        self.assertEqual(t.end(), 0)
        self.assertIn(b"\r\x1b[K" + str(self.snapshot).encode(), t.screen)

    # ---- errors of the hub

    def test_errors(self):
        for number, headers, why in [
                (401, {}, "no such repository"), (404, {"X_Error_Code": "RepoNotFound"}, "no such"),
                (403, {"X_Error_Code": "GatedRepo"}, f"{self.hub.main.url}/some/model"),
                (401, {"X_Error_Message": "Invalid credentials in Authorization header"},
                 "check HF_TOKEN"),
                (403, {"X_Error_Message": "Access to this resource is disabled."}, "has disabled"),
                (404, {"X_Error_Code": "EntryNotFound"}, "has it no longer"),
                (429, {"Retry_After": "900"}, "try again in 900 s"),
                (418, {"X_Error_Message": "a\x1b[31mb"}, r"status 418: a\?\[31mb")]:
            self.hub.main.faults.clear()
            self.hub.main.fault("/api/", status(number, **headers))
            before = len(self.hub.main.requests)
            self.assertRegex(self.fails("pull", "some/model"), why)
            self.assertEqual(len(self.hub.main.requests) - before, 1)
        self.assertIn("no such repository", self.fails("pull", "some/other"))

    def test_errors_that_pass(self):
        self.hub.main.fault("/api/models/some/model$", status(429, Retry_After=1))
        self.hub.main.fault("/tree/", status(429, RateLimit='"api";r=0;t=0'))
        self.hub.main.fault("/resolve/", status(503))
        self.hub.store.fault("", status(403))  # a signed address that is too old
        self.pull()
        self.assertEqual([len(self.hub.main.asked(p)) for p in ("model$", "/tree/", "/resolve/")],
                         [2, 2, 3])

    def test_no_server(self):
        self.hub.main.shutdown()
        self.hub.main.server_close()
        self.assertIn(self.hub.main.url, self.fails("pull", "some/model"))
        self.setting(HF_ENDPOINT="ftp://x")
        self.assertIn("HF_ENDPOINT", self.fails("pull", "some/model"))

    def test_no_room(self):
        digest = "0" * 64
        self.hub.lists["some/model"] = [{"type": "file", "path": "m.gguf", "oid": "0" * 40,
                                         "size": 1 << 60, "lfs": {"oid": digest, "size": 1 << 60}}]
        self.assertIn("no room", self.fails("pull", "some/model"))
        self.assertEqual(self.hub.main.asked("/resolve/"), [])
        # the sum of these is 2^64
        self.hub.lists["some/model"] = [
            {"type": "file", "path": f"m-0000{i}-of-00003.gguf", "size": size, "oid": str(i) * 40}
            for i, size in ((1, 2**63 - 1), (2, 2**63 - 1), (3, 2))]
        self.assertIn("no room", self.fails("pull", "some/model"))
        del self.hub.lists["some/model"]
        # Python ignores SIGXFSZ, so a write over the limit fails
        code, said = self.ended(
            "pull", "some/model", restore_signals=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40960, 40960)))
        self.assertEqual(code, 1)
        self.assertIn("File too large", said)
        self.assertLessEqual(self.part.stat().st_size, 40960)
        self.pull()

    def test_two_at_once(self):
        go = threading.Event()

        def slow(request):
            go.wait(PATIENCE)
            request.send(200, MODEL)
        self.hub.store.fault("", slow)
        first = self.started("pull", "some/model")
        wait_until(lambda: self.hub.store.requests)
        second = self.started("pull", "some/model")
        line = second.stderr.readline()
        self.assertIn(b"another process fetches", line)
        go.set()
        paths = {process.communicate(timeout=PATIENCE)[0] for process in (first, second)}
        self.assertEqual((first.returncode, second.returncode, len(paths)), (0, 0, 1))
        self.assertEqual(len(self.hub.store.requests), 1)

    # ---- a hub, or a cache, that means harm

    def test_names(self):
        for name in ["../x.gguf", "a/../../x.gguf", "/etc/x.gguf", "a\\..\\x.gguf", "", ".", "a//b",
                     "a\x1b[2J.gguf", "a\x00b", "a\u0085.gguf", "a/./b", "x" * 300]:
            self.hub.lists["some/model"] = [{"type": "file", "path": name, "size": 1,
                                             "oid": "0" * 40}]
            self.assertRegex(self.fails("pull", "some/model"), "refused: |cannot be read")
            self.assertFalse(self.cache.exists())
        for name in ["model", "a/b/c", "../b", "a/..", "a/b:", "a--b/c", "a/b:../x", "a/b c", "/a",
                     "a/", ".a/b", "a/b:x\\y"]:
            self.assertIn("USER/REPO", self.fails("pull", name, status=2))
            self.assertIn("USER/REPO", self.fails("run", "hf:" + name, status=2))

    def test_replies(self):
        def endless(request):
            request.send_response(200)
            request.end_headers()
            try:
                while True:
                    request.wfile.write(b" " * 65536)
            except OSError:
                pass

        def headers(request):
            request.send(200, b"{}", **{f"X_{i}": "x" * 1000 for i in range(90)})
        for act, why in [(endless, "too long"), (headers, "too many headers"),
                         (lambda r: r.send(200, b"["), "cannot be read"),
                         (lambda r: r.send(200, b"[" * 100000), "cannot be read"),
                         (lambda r: r.send(200, b'{"sha": "../../x"}'), "no commit")]:
            self.hub.main.faults.clear()
            self.hub.main.fault("/api/", act)
            self.assertIn(why, self.fails("pull", "some/model"))
        self.hub.main.faults.clear()
        page = {"type": "file", "path": "a", "size": 1, "oid": "0" * 40}
        for wrong in [{"oid": "../x"}, {"oid": "0" * 64}, {"size": -1}, {"oid": None}]:
            self.hub.lists["some/model"] = [{**page, **wrong}]
            self.assertIn("cannot be read", self.fails("pull", "some/model"))

    def test_links_in_the_cache(self):
        victim = self.home / "victim"
        victim.write_bytes(b"mine")
        self.part.parent.mkdir(parents=True)
        self.part.symlink_to(victim)
        self.fails("pull", "some/model")
        self.part.unlink()
        os.link(victim, self.part)
        self.assertIn("remove it", self.fails("pull", "some/model"))
        self.part.unlink()
        self.blob.symlink_to(victim)
        self.pull()
        self.assertFalse(self.blob.is_symlink())
        self.assertEqual(self.read(self.blob), MODEL)
        outside = self.home / "outside"
        outside.mkdir()
        for name in ("blobs", "snapshots"):
            (self.repo / name).rename(self.home / name)
            (self.repo / name).symlink_to(outside)
            self.fails("pull", "some/model")
            self.tuffet("list", "nothing", "--json")
            self.assertEqual(os.listdir(outside), [])
            (self.repo / name).unlink()
            (self.home / name).rename(self.repo / name)
        self.assertEqual(victim.read_bytes(), b"mine")

    def test_a_record_that_names_other_files(self):
        self.pull()
        victim = self.home / "victim"
        victim.write_bytes(b"mine")
        with open(self.repo / ".tuffet", "a") as f:
            for path in ("../../../victim", f"snapshots/{COMMIT}/../../../../../victim",
                         "blobs/../../../../victim", str(victim), "refs/../../../../victim"):
                f.write(path + "\n")
        self.tuffet("rm", "some/model")
        self.assertEqual(victim.read_bytes(), b"mine")
        self.assertFalse(self.blob.exists())

    # ---- list and rm

    def listed(self, *args):
        return [json.loads(line) for line in self.tuffet("list", "--json", *args).splitlines()]

    def test_list_and_rm(self):
        code, said = self.ended("list")
        self.assertEqual((code, "tuffet pull" in said), (0, True))
        self.assertEqual(self.listed(), [])
        self.hub.repos["some/model"]["model-Q2_K.gguf"] = b"small"
        for quant in ("Q8_0", "Q2_K"):
            self.pull("some/model:" + quant)
        foreign = self.cache / "models--other--one/snapshots" / COMMIT / "b-Q4_0.gguf"
        foreign.parent.mkdir(parents=True)
        foreign.write_bytes(b"theirs")
        (foreign.parents[2] / "refs").mkdir()
        (foreign.parents[2] / "refs/main").write_text(COMMIT)
        got = {f["model"]: (f["bytes"], f["from"]) for f in self.listed()}
        self.assertEqual(got, {"hf:some/model:Q8_0": (len(MODEL), "tuffet"),
                               "hf:some/model:Q2_K": (5, "tuffet"),
                               "hf:other/one:Q4_0": (6, "huggingface")})
        self.assertEqual([f["model"] for f in self.listed("other")], ["hf:other/one:Q4_0"])
        self.assertIn(b"hf:other/one:Q4_0\n", self.tuffet("list"))
        self.assertIn("no such model", self.fails("rm", "other/one"))
        self.assertEqual(self.json("rm", "some/model:Q8_0"), {"files": 1, "bytes": len(MODEL)})
        self.assertFalse(self.blob.exists())
        self.assertEqual([f["model"] for f in self.listed("some")], ["hf:some/model:Q2_K"])
        self.assertIn("no such model", self.fails("rm", "some/model:Q8_0"))
        self.tuffet("rm", "some/model")
        self.assertFalse(self.repo.exists())
        self.assertEqual(foreign.read_bytes(), b"theirs")

    def test_rm_leaves_what_others_use(self):
        self.pull()
        other = self.repo / "snapshots" / ("1" * 40)
        other.mkdir()
        (other / "same.gguf").symlink_to(f"../../blobs/{SHA256}")
        (self.repo / "blobs/theirs").write_bytes(b"x")
        self.assertEqual(self.json("rm", "some/model"), {"files": 1, "bytes": 0})
        self.assertEqual(self.read(other / "same.gguf"), MODEL)
        self.assertTrue((self.repo / "blobs/theirs").exists())
        self.assertFalse(self.snapshot.exists())

    def test_rm_of_one_leaves_a_part_of_another(self):
        self.hub.repos["some/model"]["model-Q2_K.gguf"] = b"small"
        self.pull("some/model:Q2_K")
        self.hub.store.fault("", half, *[status(404)] * 9)
        self.assertIn("host of its files answers with status 404", self.fails("pull", "some/model"))
        self.tuffet("rm", "some/model:Q2_K")
        self.assertEqual(self.part.stat().st_size, len(MODEL) // 2)
        self.assertEqual(self.json("rm", "some/model"), {"files": 0, "bytes": len(MODEL) // 2})
        self.assertFalse(self.repo.exists())

    def test_caches_of_others(self):
        """A file of llama.cpp's or ollama's cache is not fetched again, if it is the same."""
        llama = self.home / "llama.cpp/some_model_model-Q8_0.gguf"
        ollama = self.home / ".ollama/models"
        manifest = ollama / "manifests/registry.ollama.ai/library/small/latest"
        for path in (llama, manifest, ollama / "blobs/x"):
            path.parent.mkdir(parents=True)
        manifest.write_text(json.dumps({"layers": [
            {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:" + "0" * 64},
            {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:" + SHA256}]}))
        theirs = ollama / f"blobs/sha256-{SHA256}"
        for path in (llama, theirs):
            path.write_bytes(MODEL)
            self.assertEqual(self.pull()["fetched"], 0)
            self.assertEqual({f["from"]: f["model"] for f in self.listed()}[
                "ollama" if path == theirs else "llama.cpp"], str(path))
            self.tuffet("rm", "some/model")
            self.assertEqual(path.read_bytes(), MODEL)
            path.unlink()
        llama.write_bytes(b"x" * len(MODEL))
        self.assertEqual(self.pull()["fetched"], len(MODEL))


main()
