"""A name server on loopback that answers by a script, or stays silent."""

import asyncio
import struct
from ipaddress import ip_address
from typing import cast

A, AAAA = 1, 28
SERVER_FAILED, NO_SUCH_NAME = 2, 3


class NameServer:
    """`answers`: addresses by name; `codes`: errors by name. Names below `silent` get no answer; all others are
    unknown. `asked`: every question's name, as written, and type.
    """

    def __init__(self) -> None:
        self.answers: dict[str, tuple[str, ...]] = {}
        self.codes: dict[str, int] = {}
        self.silent = "silent.test"
        self.seconds = 60
        self.asked: list[tuple[str, int]] = []
        self._transport: asyncio.DatagramTransport | None = None

    @property
    def name(self) -> str:
        """The server as settings name it."""
        assert self._transport is not None
        host, port = self._transport.get_extra_info("sockname")
        return f"{host}:{port}"

    def asked_for(self, name: str) -> int:
        """How many A questions were asked for the name."""
        return self.asked.count((name, A))

    async def __aenter__(self) -> "NameServer":
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: _Protocol(self), local_addr=("127.0.0.1", 0))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._transport is not None
        self._transport.close()

    def answer(self, question: bytes) -> bytes | None:
        number, _, _, _, _, _ = struct.unpack("!6H", question[:12])
        labels, position = [], 12
        while length := question[position]:
            labels.append(question[position + 1 : position + 1 + length].decode().lower())
            position += 1 + length
        (kind,) = struct.unpack("!H", question[position + 1 : position + 3])
        name = ".".join(labels)
        self.asked.append((name, kind))
        if name == self.silent or name.endswith("." + self.silent):
            return None
        code = self.codes.get(name, 0 if name in self.answers else NO_SUCH_NAME)
        found = [ip_address(text) for text in self.answers.get(name, ()) if not code]
        packed = [each.packed for each in found if (AAAA if each.version == 6 else A) == kind]
        head = struct.pack("!6H", number, 0x8180 | code, 1, len(packed), 0, 0)
        records = [struct.pack("!HHHIH", 0xC00C, kind, 1, self.seconds, len(each)) + each for each in packed]
        return head + question[12 : position + 5] + b"".join(records)


class _Protocol(asyncio.DatagramProtocol):
    def __init__(self, server: NameServer) -> None:
        self._server = server
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        answer = self._server.answer(data)
        if answer is not None and self._transport is not None:
            self._transport.sendto(answer, addr)
