"""A Messages API on loopback that answers what a test tells it to: real HTTP, plain or streamed, no model behind it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, NamedTuple, Self

from tests.fakes.backend import NOTHING

Body = dict[str, Any]

_KINDS = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
    404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}  # fmt: skip
_ROW = re.compile(r"\[(\d+)\] .*(?:\n  .*)*")


class Response(NamedTuple):
    """An odd answer. `body` is sent as it is; without it `text` becomes a message (200) or the text of an error."""

    status: int = 200
    text: str = NOTHING
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    delay: float = 0
    stop_reason: str = "end_turn"
    changes: Mapping[str, Any] = {}  # of the message, `{"usage": None}`


class Seen(NamedTuple):
    """A request as it came; names of headers in lower case."""

    path: str
    headers: dict[str, str]
    body: Body
    raw: bytes


class ModelServer:
    """Serves while the `with` block runs; `answer` says what, and may be replaced at any time."""

    def __init__(self, answer: Callable[[Body], str | Response] = lambda _: NOTHING) -> None:
        self.answer = answer
        self.requests: list[Seen] = []
        self.closing = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens, without `/v1`."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def prompts(self) -> list[str]:
        """What the user said last in each request for a message, oldest first."""
        return [prompt_of(seen.body) for seen in self.requests if seen.path.partition("?")[0].endswith("/messages")]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def prompt_of(body: Body) -> str:
    """The text of a request's last user message."""
    content = next(message["content"] for message in reversed(body["messages"]) if message["role"] == "user")
    return content if isinstance(content, str) else "\n".join(block.get("text", "") for block in content)


def row_of(body: Body, quote: str) -> int:
    """The number of the row of the turn in which `quote` stands, rows of earlier turns left out."""
    for row in _ROW.finditer(prompt_of(body)):
        if not row[0].startswith(f"[{row[1]}] earlier ") and quote in row[0].replace("\n  ", "\n"):
            return int(row[1])
    raise AssertionError(f"no row holds {quote!r}")


def answer(*facts: Mapping[str, Any], **changes: Any) -> str:
    """The text of an answer with these facts."""
    return json.dumps(json.loads(NOTHING) | {"facts": facts, "empty_reason": None} | changes)


def fact(body: Body, *, slug: str, quote: str, **changes: Any) -> dict[str, Any]:
    """One fact that quotes the row in which `quote` stands."""
    return {
        "op": "add", "near": None, "slug": slug, "kind": "project", "scope": "project", "summary": quote[:120],
        "body": quote, "related": [], "strength": "stated", "valid_until": None,
        "evidence": [{"row": row_of(body, quote), "role": "user", "quote": quote}],
    } | changes  # fmt: skip


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, owner: ModelServer) -> None:
        self.owner = owner
        self.numbers = count(1)
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, *_: object) -> None:
        """A client that hung up is what many tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._send(200, b"", {})

    def do_GET(self) -> None:
        self._record()
        self._send(404, _error(404, self.path), {})

    def do_POST(self) -> None:
        body = self._record()
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._send(200, json.dumps({"input_tokens": _tokens(body)}).encode(), {})
        elif path != "/v1/messages":
            self._send(404, _error(404, path), {})
        else:
            said = self.server.owner.answer(body)
            self._respond(body, said if isinstance(said, Response) else Response(text=said))

    def _record(self) -> Body:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        body = json.loads(raw) if raw else {}
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.owner.requests.append(Seen(self.path, headers, body, raw))
        return body

    def _respond(self, body: Body, response: Response) -> None:
        if response.delay:
            self.server.owner.closing.wait(response.delay)
        if response.body is not None:
            self._send(response.status, response.body, response.headers)
        elif response.status != 200:
            self._send(response.status, _error(response.status, response.text), response.headers)
        elif body.get("stream"):
            self._stream(self._message(body, response))
        else:
            self._send(200, json.dumps(self._message(body, response)).encode(), response.headers)

    def _message(self, body: Body, response: Response) -> Body:
        usage = {
            "input_tokens": _tokens(body), "output_tokens": len(response.text) // 4 + 1,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        }  # fmt: skip
        return {
            "id": f"msg_{next(self.server.numbers):024d}", "type": "message", "role": "assistant",
            "model": body.get("model"), "content": [{"type": "text", "text": response.text}],
            "stop_reason": response.stop_reason, "stop_sequence": None, "usage": usage,
        } | dict(response.changes)  # fmt: skip

    def _send(self, status: int, data: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        usual = {"content-type": "application/json", "content-length": str(len(data))}
        for name, value in (usual | dict(headers)).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self, message: Body) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for event in _events(message):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        self.close_connection = True


def _events(message: Body) -> Iterator[Body]:
    yield {"type": "message_start", "message": message | {"content": [], "stop_reason": None}}
    for index, block in enumerate(message["content"]):
        yield {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}
        delta = {"type": "text_delta", "text": block["text"]}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": message["usage"]["output_tokens"]}}
    yield {"type": "message_stop"}


def _tokens(body: Body) -> int:
    return len(json.dumps(body)) // 4


def _error(status: int, message: str) -> bytes:
    error = {"type": _KINDS.get(status, "api_error"), "message": message}
    return json.dumps({"type": "error", "error": error}).encode()
