"""A real engine: llama.cpp's server with a model, on two threads, with /metrics.

    llama_engine.py MODEL.gguf PORT

Needs the package xllamacpp (34 MB). `make smoke` fetches it, and a model of 94 MB.
"""

from __future__ import annotations

import os
import signal
import sys
import threading


def main(model: str, port: int) -> None:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_ctx = 2048
    parameters.n_parallel = 2
    parameters.endpoint_metrics = True
    parameters.cpuparams.n_threads = 2
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    server = xllamacpp.Server(parameters)
    print("listening at", server.listening_address, flush=True)
    while not ended.wait(0.2):
        pass
    os._exit(0)  # its destructor may wait for ever if the server was stopped while it started


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
