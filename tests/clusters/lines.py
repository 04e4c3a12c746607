"""The lines between nodes and a store: proxies that limit the rate and delay requests."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import NamedTuple

PIECE = 1 << 16


class Request(NamedTuple):
    """A request that the store has answered."""

    node: str
    method: str
    target: str
    status: int
    sent: int
    received: int


class Lines:
    """One line for each node, with a rate of its own in each direction, in a thread of their own.

    The rate is in bytes a second, the delay in seconds.
    """

    def __init__(self, nodes: list[str], port: int, rate: float, delay: float) -> None:
        self.requests: list[Request] = []
        self.ports: dict[str, int] = {}
        self._store, self._rate, self._delay = port, rate, delay
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._run(nodes, ready)), daemon=True).start()
        ready.wait()

    def url(self, node: str) -> str:
        return f"http://{node}:{self.ports[node]}"

    async def _run(self, nodes: list[str], ready: threading.Event) -> None:
        for node in nodes:
            up, down = Direction(self._rate), Direction(self._rate)

            async def serve(reader, writer, node=node, up=up, down=down):
                with contextlib.suppress(OSError, EOFError), contextlib.closing(writer):
                    await self._serve(node, reader, writer, up, down)

            server = await asyncio.start_server(serve, node, 0)
            self.ports[node] = server.sockets[0].getsockname()[1]
        ready.set()
        await asyncio.Event().wait()

    async def _serve(self, node, reader, writer, up, down) -> None:
        store_reader, store_writer = await asyncio.open_connection("127.0.0.1", self._store)
        with contextlib.closing(store_writer):
            while head := await read_head(reader):
                await asyncio.sleep(self._delay)
                method, target, _ = head.lines[0].split(" ", 2)
                store_writer.write(head.bytes)
                sent = 0
                if head.has_body:
                    sent = await pass_body(head, reader, store_writer, up)
                answer = await read_head(store_reader)
                if answer is None:
                    return
                status = int(answer.lines[0].split()[1])
                writer.write(answer.bytes)
                received = 0
                if method != "HEAD" and status not in (204, 304):
                    received = await pass_body(answer, store_reader, writer, down)
                await writer.drain()
                self.requests.append(Request(node, method, target, status, sent, received))
                if answer.fields.get("connection", "").lower() == "close":
                    return


class Direction:
    """Lets bytes pass at a rate."""

    def __init__(self, rate: float) -> None:
        self.rate, self.free = rate, 0.0

    async def take(self, length: int) -> None:
        now = asyncio.get_running_loop().time()
        self.free = max(self.free, now) + length / self.rate
        # The clock's steps are not much shorter.
        if self.free - now > 0.005:
            await asyncio.sleep(self.free - now)


class Head(NamedTuple):
    """The head of a request or an answer."""

    bytes: bytes
    lines: list[str]
    fields: dict[str, str]

    @property
    def has_body(self) -> bool:
        return "content-length" in self.fields or "transfer-encoding" in self.fields


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Returns `None` at the end of the connection."""
    try:
        data = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    lines = data.decode("latin-1").split("\r\n")
    pairs = (line.split(":", 1) for line in lines[1:] if ":" in line)
    return Head(data, lines, {name.lower(): value.strip() for name, value in pairs})


async def pass_body(head: Head, reader, writer, direction: Direction) -> int:
    """Passes a body on, and returns its length."""
    if head.fields.get("transfer-encoding", "").lower() != "chunked":
        # Without a length, the body ends with the connection.
        length = int(head.fields.get("content-length", 1 << 62))
        return await pass_bytes(length, reader, writer, direction)
    total = 0
    while True:
        line = await reader.readuntil(b"\r\n")
        length = int(line.split(b";")[0], 16)
        writer.write(line)
        await pass_bytes(length + 2, reader, writer, direction)
        total += length
        if length == 0:
            return total


async def pass_bytes(length: int, reader, writer, direction: Direction) -> int:
    passed = 0
    while passed < length:
        piece = await reader.read(min(length - passed, PIECE))
        if not piece:
            if length == 1 << 62:
                return passed
            raise EOFError
        await direction.take(len(piece))
        writer.write(piece)
        await writer.drain()
        passed += len(piece)
    return passed
