"""A hub of our own, with a second server for large files, as Hugging Face has."""
import hashlib
import http.server
import json
import re
import threading
import urllib.parse

COMMIT = "c0ffee" + "0" * 34


def git_hash(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def send(self, status, body=b"", **headers):
        """A whole reply, unless the headers say another length."""
        self.send_response(status)
        for name, value in {"Content_Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:  # the client has gone
            pass

    def send_range(self, data):
        """The bytes that the request asks for."""
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked else 0
        if start > len(data):
            return self.send(416)
        if not asked:
            return self.send(200, data)
        place = f"bytes {start}-{len(data) - 1}/{len(data)}"
        return self.send(206, data[start:], Content_Range=place)

    def do_GET(self):
        """Takes the next fault for this path, or else does as the hub does."""
        server, path = self.server, urllib.parse.urlsplit(self.path)
        with server.hub.lock:
            server.requests.append((self.path, dict(self.headers)))
            fault = next((f for f in server.faults if re.search(f[0], self.path) and f[1]), None)
            act = fault[1].pop(0) if fault else None
        if act:
            act(self)
        else:
            server.reply(self, path.path, urllib.parse.parse_qs(path.query))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, hub, reply):
        super().__init__(("127.0.0.1", 0), Handler)
        self.hub, self.reply, self.requests, self.faults = hub, reply, [], []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def fault(self, pattern, *acts):
        """The next requests whose path has the pattern are answered by these functions."""
        self.faults.append((pattern, list(acts)))

    def asked(self, pattern):
        """The headers of the requests whose path has the pattern."""
        return [headers for path, headers in self.requests if re.search(pattern, path)]


class Hub:
    """repos: {"USER/REPO": {path: bytes}}. Files of more than 1,000 bytes are on the other host."""

    def __init__(self):
        self.lock, self.repos, self.lists, self.page = threading.Lock(), {}, {}, 1000
        self.main, self.store = Server(self, self.reply), Server(self, self.reply_store)

    def close(self):
        for server in (self.main, self.store):
            server.shutdown()
            server.server_close()

    def entries(self, repo):
        """The list of files, or what a test has put in its place."""
        if repo in self.lists:
            return self.lists[repo]
        entries = []
        for path, data in self.repos[repo].items():
            entry = {"type": "file", "path": path, "size": len(data), "oid": git_hash(data)}
            if len(data) > 1000:
                digest = hashlib.sha256(data).hexdigest()
                entry["oid"] = git_hash(b"pointer")
                entry["lfs"] = {"oid": digest, "size": len(data), "pointerSize": 134}
            entries.append(entry)
        folders = {path.rpartition("/")[0] for path in self.repos[repo]} - {""}
        return [{"type": "directory", "path": f, "size": 0, "oid": "0" * 40}
                for f in sorted(folders)] + entries

    def reply(self, request, path, query):
        parts = urllib.parse.unquote(path).strip("/").split("/")
        api = parts[:2] == ["api", "models"]
        repo = "/".join(parts[2:4] if api else parts[:2])
        if repo not in self.repos:
            request.send(401, b"{}", X_Error_Message="Invalid username or password.")
        elif api and len(parts) == 4:
            request.send(200, json.dumps({"id": repo, "sha": COMMIT}).encode())
        elif api and parts[4:] == ["tree", COMMIT]:
            self.reply_list(request, repo, int(query.get("cursor", ["0"])[0]))
        elif parts[2:4] == ["resolve", COMMIT] and "/".join(parts[4:]) in self.repos[repo]:
            self.reply_file(request, repo, "/".join(parts[4:]))
        else:
            request.send(404, X_Error_Code="EntryNotFound")

    def reply_list(self, request, repo, start):
        entries, more = self.entries(repo), {}
        if start + self.page < len(entries):
            url = f"{self.main.url}/api/models/{repo}/tree/{COMMIT}?cursor={start + self.page}"
            more = {"Link": f'<{url}>; rel="next"'}
        request.send(200, json.dumps(entries[start:start + self.page]).encode(), **more)

    def reply_file(self, request, repo, path):
        data = self.repos[repo][path]
        if len(data) <= 1000:
            return request.send_range(data)
        place = f"{self.store.url}/{hashlib.sha256(data).hexdigest()}?signature=x"
        return request.send(302, Location=place, X_Linked_Size=len(data))

    def reply_store(self, request, path, _):
        for files in self.repos.values():
            for data in files.values():
                if hashlib.sha256(data).hexdigest() == path[1:]:
                    return request.send_range(data)
        return request.send(404)


def status(number, **headers):
    """A fault: a reply without contents."""
    return lambda request: request.send(number, **headers)


def half(request):
    """A fault: the reply ends in the middle."""
    data = next(d for files in request.server.hub.repos.values() for d in files.values()
                if hashlib.sha256(d).hexdigest() in request.path)
    request.send(200, data[:len(data) // 2], Content_Length=len(data))
