"""Receivers that misbehave, as one process: the path chooses the fault.

    python -m tests.support.bad_receiver --port PORT

`/hang` never answers, `/reset` resets the connection, `/slow` answers after `SLOW_SECONDS`, `/flood` answers with an
endless body. `GET /livez` answers 200.
"""

import argparse
import asyncio
from typing import cast

import uvloop

SLOW_SECONDS = 5.0
_OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"
_PIECE = b"x" * 65_536


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._flooding = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._flooding = False

    def data_received(self, data: bytes) -> None:
        target = data.split(b" ", 2)[1] if data.count(b" ") > 1 else b""
        if target == b"/reset":
            self._transport.abort()
        elif target == b"/slow":
            asyncio.get_running_loop().call_later(SLOW_SECONDS, self._answer)
        elif target == b"/flood":
            self._transport.write(_ENDLESS)
            self._flooding = True
            self.resume_writing()
        elif target == b"/livez":
            self._answer()

    def resume_writing(self) -> None:
        for _ in range(16):
            if self._flooding:
                self._transport.write(_PIECE)

    def pause_writing(self) -> None:
        """Called above the high-water mark: further writes are buffered until `resume_writing`."""

    def _answer(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(_OK)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(description="A receiver that misbehaves.")
    parser.add_argument("--port", type=int, required=True)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
