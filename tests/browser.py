"""Pages opened in a real headless browser, and everything that they did there.

Each page is a frame of one page of ours, all from a server on this machine. Nothing else is
resolved: the hosts that hostile texts name lead back to that server, which takes whatever is asked
of it beside the pages as a request that a page made. A policy that only reports tells it also of
what the page's own policy forbids.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from iqaction.surfaces._page import POLICY

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
NAMED_BY = "IQACTION_BROWSER"
HOSTS = ("evil.example", "www.evil.example", "b.example")
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-extensions", "--no-default-browser-check", "--disable-dev-shm-usage"),
)
_REPORTING = f"{POLICY}; script-src 'nonce-ours'; report-uri /did/violate"
_OURS = (
    '<script nonce="ours">seen = [];'
    "for (const name of ['alert', 'confirm', 'prompt', 'print', 'open'])"
    " window[name] = () => { seen.push('dialog ' + name) };</script>"
)
_OUTER = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<script>
const pages = @PAGES@, links = @LINKS@, out = {};
const pause = (ms) => new Promise((r) => setTimeout(r, ms));
async function visit(name) {
  const frame = document.createElement('iframe'), did = [];
  frame.width = 1200; frame.height = 800;
  const loaded = new Promise((r) => frame.addEventListener('load', r, {once: true}));
  frame.src = '/page/' + name;
  document.body.append(frame);
  await loaded;
  frame.addEventListener('load', () => did.push('navigation'));
  const inside = frame.contentDocument, home = frame.contentWindow.location.pathname;
  const main = inside.body, height = main.getBoundingClientRect().height;
  const text = main.innerText;
  // What has no children: the rest hears of it as it bubbles.
  for (const x of inside.querySelectorAll('body :not(:has(*)), body [onfocus]')) {
    for (const kind of ['mouseover', 'focus', 'click'])
      if (!(kind == 'click' && x.closest('a') && links.includes(x.closest('a').href)))
        x.dispatchEvent(new MouseEvent(kind, {bubbles: kind != 'focus', cancelable: true}));
  }
  await pause(@PAUSE@); // a refresh takes its time
  try {
    did.push(...(frame.contentWindow.seen || []));
    if (frame.contentWindow.location.pathname != home) did.push('navigation');
  } catch (e) { did.push('navigation'); }
  out[name] = {did, text, height};
  frame.remove();
}
addEventListener('load', async () => {
  const left = [...pages];
  const work = async () => { while (left.length) await visit(left.shift()); };
  await Promise.all(Array.from({length: 24}, work));
  await pause(1000);
  await fetch('/done', {method: 'POST', body: JSON.stringify(out)});
});
</script><body>"""


def found() -> str | None:
    """The browser that is used, or None. One that the environment names has to be there."""
    if named := os.environ.get(NAMED_BY):
        if path := shutil.which(named):
            return path
        raise FileNotFoundError(f"{NAMED_BY} names {named!r}, which is no program that can be run")
    return next((path for n in NAMES if (path := shutil.which(n))), None)


def bared(page: str) -> str:
    """The page without its policy, so that escaping alone protects it; dialogs are noted."""
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    assert page.count(policy) == 1
    return page.replace(policy, _OURS)


@dataclass
class Seen:
    """One page: what it did in the browser, the text shown, and how high it stood."""

    did: list[str]
    text: str
    height: float


@dataclass
class Opened:
    """All pages, and what was asked of the server beside them."""

    pages: dict[str, Seen]
    requests: list[str]


@dataclass
class _Server(ThreadingHTTPServer):
    pages: Mapping[str, str]
    links: tuple[str, ...]
    pause_ms: int
    requests: list[str] = field(default_factory=list)
    result: dict[str, dict[str, object]] = field(default_factory=dict)
    done: threading.Event = field(default_factory=threading.Event)

    daemon_threads = True

    def __post_init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: object, client_address: object) -> None: ...


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        page = self.server.pages.get(self.path.removeprefix("/page/"))
        is_ours = self.headers.get("Host") == f"127.0.0.1:{self.server.server_address[1]}"
        if is_ours and self.path == "/all":
            names = json.dumps(list(self.server.pages))
            outer = _OUTER.replace("@PAGES@", names)
            outer = outer.replace("@LINKS@", json.dumps(self.server.links))
            self._send(outer.replace("@PAUSE@", str(self.server.pause_ms)))
        elif is_ours and page is not None and self.path.startswith("/page/"):
            self._send(page, ("Content-Security-Policy-Report-Only", _REPORTING))
        else:
            self._noted()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/done":
            self.server.result = json.loads(body)
            self.server.done.set()
            self._send("")
        else:
            self._noted(body.decode("utf-8", "replace"))

    def send_error(self, code: int, *args: object) -> None:
        """Also what is no HTTP, as the start of TLS is none."""
        self.server.requests.append(f"no HTTP request: {code}")

    def _noted(self, body: str = "") -> None:
        host = self.headers.get("Host")
        self.server.requests.append(f"{self.command} {host}{self.path} {body}".rstrip())
        self._send("")

    def _send(self, text: str, *headers: tuple[str, str]) -> None:
        data = text.encode()
        self.send_response_only(200)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None: ...


def opened(
    browser: str,
    pages: Mapping[str, str],
    place: Path,
    *,
    links: tuple[str, ...] = (),
    pause_ms: int = 300,
) -> Opened:
    """Every page loaded and every element of it pointed at, focused and clicked, but ``links``;
    then it has ``pause_ms`` to do something."""
    server = _Server(pages, links, pause_ms)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    port = server.server_address[1]
    led = ", ".join(f"MAP {h} 127.0.0.1:{port}" for h in HOSTS)
    process = subprocess.Popen(
        [
            *(browser, *_FLAGS, f"--user-data-dir={place / 'profile'}"),
            f"--host-resolver-rules={led}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            *("--remote-debugging-port=0", f"http://127.0.0.1:{port}/all"),
        ],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        assert server.done.wait(120), f"{browser} told nothing in 120 s, exit {process.poll()}"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        server.shutdown()
        server.server_close()
    told = {name: Seen(**seen) for name, seen in server.result.items()}  # type: ignore[arg-type]
    return Opened(told, server.requests)
