"""How tests speak to a server over a real socket, with TLS or without."""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from webapp.server.serving import Server, Tls


def port(server: Server) -> int:
    return urlsplit(server.url).port or 0


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port(server)), timeout=10)


def get(server: Server, path: str = "/", context: ssl.SSLContext | None = None, body: bytes | None = None) -> tuple[int, bytes]:
    """Status and body of one GET, or of one POST if there is a body to send."""
    if context:
        client: http.client.HTTPConnection = http.client.HTTPSConnection("127.0.0.1", port(server), timeout=10, context=context)
    else:
        client = http.client.HTTPConnection("127.0.0.1", port(server), timeout=10)
    try:
        client.request("POST" if body is not None else "GET", path, body=body)
        answer = client.getresponse()
        return answer.status, answer.read()
    finally:
        client.close()


def certificate(folder: Path, name: str = "127.0.0.1") -> Tls:
    """A new self-signed certificate of 127.0.0.1 and its key, in `folder`."""
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command += ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(command, check=True, capture_output=True)
    return Tls(folder / "cert.pem", folder / "key.pem")
