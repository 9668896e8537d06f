"""/slots of tuffet serve: what each has, saved, restored and erased."""
import os
import stat
import threading

from program import Case, main, wait_until
from test_serve import ZEPHYR, Server

PROMPT = "hello and once upon a time " * 10
BODY = {"prompt": PROMPT, "temperature": 0, "n_predict": 12}


class Slots(Case):
    def serve(self, *args, **settings):
        toy = self.toy(**{"template": ZEPHYR, "endless": 1, "ctx": 2000, **settings})
        return Server(toy, "--slots=2", "--slot-save-path", self.folder.name, *args)

    def act(self, s, slot, action, name=None):
        status, _, answer = s.ask(f"/slots/{slot}?action={action}",
                                  {"filename": name} if name is not None else {})
        return status, answer

    def test_a_list(self):
        with self.serve() as s:
            self.assertEqual([(x["id"], x["n_past"], x["is_processing"]) for x in
                              s.ask("/slots")[2]], [(0, 0, False), (1, 0, False)])
            got = s.answer("/completion", **BODY)
            # the last token is not fed
            self.assertEqual([x["n_past"] for x in s.ask("/slots")[2]],
                             [got["tokens_evaluated"] + 11, 0])

    def test_restored_is_computed(self):
        with self.serve() as s:
            want = s.answer("/completion", **BODY)
            status, saved = self.act(s, 0, "save", "a.session")
            self.assertEqual((status, saved["n_saved"]), (200, want["tokens_evaluated"] + 11))
            self.assertEqual(saved["n_written"], os.path.getsize(self.path("a.session")))
            self.assertEqual(self.act(s, 0, "erase")[1]["n_erased"], saved["n_saved"])
            self.assertEqual(s.ask("/slots")[2][0]["n_past"], 0)
        with self.serve() as s:
            status, got = self.act(s, 1, "restore", "a.session")
            self.assertEqual((status, got["n_restored"], got["n_read"]),
                             (200, saved["n_saved"], saved["n_written"]))
            again = s.answer("/completion", **BODY)
            self.assertEqual(again["content"], want["content"])
            self.assertEqual(again["tokens_cached"], want["tokens_evaluated"] - 1)

    def test_saving_follows_no_link(self):
        other = self.write("other", b"a file of somebody else")
        for name, target in [("link", other), (".hidden.new", other), ("loose", "nowhere"),
                             ("up", "../up")]:
            os.symlink(target, self.path(name))
        os.link(other, self.path("hard"))
        with self.serve() as s:
            s.answer("/completion", **BODY)
            for name in ["link", "hidden", "loose", "up", "hard", "new"]:
                status, saved = self.act(s, 0, "save", name)
                self.assertEqual(status, 200, name)
                how = os.lstat(self.path(name))
                self.assertEqual((stat.S_ISREG(how.st_mode), how.st_mode & 0o777, how.st_size),
                                 (True, 0o600, saved["n_written"]), name)
            self.assertEqual(self.read(other), b"a file of somebody else")
            self.assertFalse(os.path.exists(self.path("nowhere")))
            os.mkdir(self.path("folder"))
            self.assertEqual(self.act(s, 0, "save", "folder")[0], 500)
        left = [name for name in os.listdir(self.folder.name) if name.startswith(".")]
        self.assertEqual(left, [])

    def test_a_damaged_file_leaves_the_slot_as_it_was(self):
        with self.serve() as s:
            want = s.answer("/completion", **BODY)
            self.act(s, 0, "save", "b.session")
            data = bytearray(self.read(self.path("b.session")))
            data[len(data) // 2] ^= 1
            self.write("b.session", bytes(data))
            status, answer = self.act(s, 0, "restore", "b.session")
            self.assertEqual(status, 400)
            message = answer["error"]["message"]
            self.assertTrue(message.startswith("b.session: "), "without its folder: " + message)
            again = s.answer("/completion", **BODY)
            self.assertEqual((again["content"], again["tokens_cached"]),
                             (want["content"], want["tokens_evaluated"] - 1))
            self.assertEqual(self.act(s, 0, "restore", "none.session")[0], 404)

    def test_errors_do_not_tell_the_folder(self):
        folder = self.path("/".join(["x-" * 30] * 5))
        os.makedirs(folder)
        for path in (self.path(""), folder):  # messages have only the end of a long path
            with self.serve("--slot-save-path", path) as s:
                for name in ("x", "x-", "none.session"):
                    status, answer = self.act(s, 0, "restore", name)
                    self.assertEqual(status, 404)
                    self.assertRegex(answer["error"]["message"],
                                     f"^{name}: cannot be read: No such")

    def test_names_stay_in_the_folder(self):
        with self.serve() as s:
            for name in ("../x", "/etc/passwd", "", ".hidden", "a/b", "a\\b", "\u00e9", "x" * 129,
                         "a\n", "a b"):
                for action in ("save", "restore"):
                    self.assertEqual(self.act(s, 0, action, name)[0], 400, name)
            for path in ("/slots/2?action=erase", "/slots/x?action=erase", "/slots/?action=erase",
                         "/slots/-1?action=erase", "/slots/3?action=erase",
                         "/slots/99999999999999999999?action=erase",
                         "/slots/0/1?action=erase"):
                self.assertEqual(s.ask(path, {})[0], 404, path)
            for path in ("/slots/0", "/slots/0?action=", "/slots/0?action=eat"):
                self.assertEqual(s.ask(path, {})[0], 400, path)
        with Server(self.toy(template=ZEPHYR)) as s:
            self.assertEqual(self.act(s, 0, "save", "x")[0], 501, "nothing is saved unless asked")

    def test_a_busy_slot_is_waited_for(self):
        with self.serve() as s:
            body = {**BODY, "n_predict": 1500}
            thread = threading.Thread(target=s.answer, args=["/completion"], kwargs=body)
            thread.start()
            wait_until(lambda: s.requests() == (1, 0) or not thread.is_alive())
            status, answer = self.act(s, 0, "save", "busy.session")
            thread.join()
            self.assertEqual(status, 200)
            self.assertGreater(answer["n_saved"], 1500, "the answer was complete")


if __name__ == "__main__":
    main()
