"""A server for tests: ``server.py PORT [READY_AFTER_S]`` answers 503, and later 200."""

from __future__ import annotations

import http.server
import sys
import time


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        ready = time.monotonic() >= READY_AT
        self.send_response(200 if ready else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, form, *args):
        print("served", form % args, flush=True)


READY_AT = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 0)
print("listening", flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
