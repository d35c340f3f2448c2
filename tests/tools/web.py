"""A web server on this machine that says what a test wants, byte by byte."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager


class Web:
    """Answers each path with what ``pages`` has: bytes, or an async function of the writer. Notes the requests."""

    def __init__(self):
        self.pages = {}
        self.asked = []
        self.port = 0

    async def serve(self, reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split()[1]
            self.asked.append(head)
            answer = self.pages.get(path, page("", status="404 Not Found"))
            if callable(answer):
                await answer(writer)
            else:
                writer.write(answer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def hosts(self):
        return [
            line for head in self.asked for line in head.split("\r\n") if line.lower().startswith("host:")
        ]


def page(body, status="200 OK", kind="text/html", *more):
    data = body.encode() if isinstance(body, str) else body
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(data)}",
        "Connection: close",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + data


def redirect_to(to, status="302 Found"):
    return page("", status, "text/html", f"Location: {to}")


@asynccontextmanager
async def web(tls=None):
    found = Web()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0, ssl=tls)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        yield found
