"""A real llama.cpp server in a process of its own. Knows nothing of the package.

Run by path under ``python -I`` (see ``demo_engine``): neither the working directory nor this
folder, whose ``http.py`` would hide the standard library's, is on the module path. The address
is the first and only line on standard output; everything the engine writes goes to standard
error. The process ends when its standard input does, so it never outlives its parent, not even
one that was killed.
"""

from __future__ import annotations

import argparse
import os
import sys


def main(argv: list[str]) -> None:
    """Serve until standard input ends. Leaves by ``os._exit``: 0, or 1 where it cannot start."""
    parser = argparse.ArgumentParser(prog="_llama_server")
    parser.add_argument("model", help="path of a GGUF file")
    parser.add_argument("--packages", required=True, help="folder that holds xllamacpp")
    parser.add_argument("--port", type=int, default=0, help="0: the system picks a free one")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--ctx", type=int, default=4096, help="context length of each slot")
    parser.add_argument("--alias", default="", help="the model's name in answers")
    parser.add_argument(
        "--template", default="", help="chat template (Jinja); else the model's own"
    )
    args = parser.parse_args(argv)

    address_out = os.dup(1)  # a private way out: native code may print to descriptor 1
    os.dup2(2, 1)
    sys.path.append(args.packages)
    try:
        server = start(args)
    except Exception as exc:
        print(f"cannot start: {type(exc).__name__}: {exc}", file=sys.stderr, flush=True)
        os._exit(1)
    os.write(address_out, f"{server.listening_address}\n".encode())
    os.close(address_out)
    while os.read(0, 4096):
        pass
    os._exit(0)  # no tidy shutdown: it may wait for a request that never ends


def start(args: argparse.Namespace):  # type: ignore[no-untyped-def]  # xllamacpp has no types
    """Load the model and listen on the loopback address."""
    import xllamacpp  # noqa: PLC0415 - its folder is known only now

    params = xllamacpp.CommonParams()
    params.model.path = args.model
    params.model_alias = {args.alias or os.path.basename(args.model).removesuffix(".gguf")}
    params.hostnames = ["127.0.0.1"]
    params.port = args.port
    params.n_parallel = args.slots
    params.n_ctx = args.ctx * args.slots  # this build divides it by the number of slots
    params.cpuparams.n_threads = args.threads
    params.cpuparams_batch.n_threads = args.threads
    if args.template:
        params.chat_template = args.template
    params.cache_ram_mib = 0  # answers must not depend on what was asked before
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main(sys.argv[1:])
