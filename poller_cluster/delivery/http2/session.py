"""HTTP/2 of one connection between bytes and bytes, by the library `h2`. No socket and no clock is known here.

    request --receive, until a stream's `end` is set, or nobody waits for it--> leave
        `-- `going` (GOAWAY): no more requests -- `broken`: the connection has to be closed

The library keeps the protocol's states, windows and header tables. Of what it leaves open this module sees to:

- What comes is handed on frame by frame, so that what was heard before a violation counts. A frame is refused by its
  length alone, before it is there.
- Everything is counted. A frame costs its bytes, a multiple of them where it takes longer to read, and `FRAME_COST` at
  least; each header that it unpacks to costs some more. Answers' frames are taken off what their stream may bring;
  beyond it the stream ends as `too-long`. Frames for streams that were given up are taken off an allowance that each
  such stream adds to, up to a window of the connection: what may be under way. Behind the end of one that is not left
  yet as much may come. All others (SETTINGS, PING, WINDOW_UPDATE, kinds that nobody knows) are taken off
  `CONTROL_COST`, of which each request and each piece of a body gives some back, a small piece no more than it has; a
  WINDOW_UPDATE is spared a byte of that for each byte of a body that it gives back. Beyond either the connection is
  broken.
- What comes in one read may take long to read: no more of it is taken in at a time than `_AT_A_TIME`, by that measure.
- A header block has 64 CONTINUATION frames at most and is 64 KB at most when it is unpacked (the library's bounds), and
  32 KB before: it is read at once. It resizes the table twice at most, as an encoder may.
- No stream is the receiver's own: the library would keep each until its end.
- Streams that the receiver took before it said GOAWAY are still answered; the library alone would end them. It would
  also answer each frame of a stream that was reset by another reset.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, Generic, TypeVar

from h2.config import H2Configuration
from h2.connection import ConnectionInputs, ConnectionState, H2Connection, H2ConnectionStateMachine
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    InformationalResponseReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import StreamClosedError, StreamIDTooLowError
from h2.settings import SettingCodes, Settings
from hpack import Decoder, HeaderTuple, HPACKDecodingError
from hyperframe.frame import DataFrame, Frame, RstStreamFrame

from poller_cluster.delivery.http2.stream import Stream

A = TypeVar("A")

MOST_STREAMS: Final = 100
"""At a time on one connection, whatever the receiver admits: what one connection's end can take with it."""
FRAME_COST: Final = 256
"""Small frames cost the time of about so many bytes."""
_SLOW: Final = 4
"""All but DATA costs the time of so many times its bytes."""
_FIELD_COST: Final = 64
"""And each header, however few bytes name it."""
CONTROL_COST: Final = 65_536
_CONTROL_REGAINED: Final = 2_048
_UNDER_WAY: Final = 262_144
"""What may come for a stream that was given up: a window full, in small frames."""
_MOST_UNDER_WAY: Final = 4_194_304
"""And for all of them: the connection's window full."""
_AT_A_TIME: Final = 65_536
_MOST_A_BLOCK: Final = 32_768
_MOST_RESIZES: Final = 2
"""To the smallest size in between, and to the last one (RFC 7541, 4.2)."""
_FRAME_HEADER: Final = 9
_MOST_A_FRAME: Final = 16_384 + _FRAME_HEADER
_read_header: Final = Struct(">HBBxL").unpack_from
_CONNECTION_WINDOW: Final = 1_048_576
_INITIAL_WINDOW: Final = 65_535
_DATA: Final = 0x0
_ANSWER_FRAMES: Final = frozenset({_DATA, 0x1, 0x9})
"""DATA, HEADERS, CONTINUATION."""
_CONTINUATION: Final = 0x9
_SETTINGS: Final = 0x4
_NO_TABLE: Final = b"\x20"
"""A dynamic table size update to 0 (RFC 7541, 6.3)."""
_FLAGS: Final = 4
_ACK: Final = 0x1
_A_SETTING: Final = 6
_KNOWN_SETTINGS: Final = frozenset(code.to_bytes(2, "big") for code in SettingCodes)
"""Their ids (RFC 9113, 6.5.2; RFC 8441, 3)."""
_GOAWAY: Final = 0x7
_WINDOW_UPDATE: Final = 0x8
_A_WINDOW_UPDATE: Final = _FRAME_HEADER + 4
_read_increment: Final = Struct(">9xL").unpack_from
_OF_STREAMS: Final = (ResponseReceived, DataReceived, StreamEnded, InformationalResponseReceived, StreamReset)
_OfStream = ResponseReceived | DataReceived | StreamEnded | InformationalResponseReceived | StreamReset


def _known_settings(frame: bytes) -> bytes:
    """Without the rest: the library would keep one of each id for the life of the connection."""
    said = frame[_FRAME_HEADER:]
    if frame[_FLAGS] & _ACK or len(said) % _A_SETTING:
        return frame
    each = (said[at : at + _A_SETTING] for at in range(0, len(said), _A_SETTING))
    known = b"".join(one for one in each if one[:2] in _KNOWN_SETTINGS)
    return len(known).to_bytes(3, "big") + frame[3:_FRAME_HEADER] + known


class _GoesOn(H2ConnectionStateMachine):
    """h2 ends the connection at GOAWAY; here the streams that the receiver accepted go on."""

    _transitions = H2ConnectionStateMachine._transitions | {
        (ConnectionState.CLIENT_OPEN, ConnectionInputs.RECV_GOAWAY): (None, ConnectionState.CLIENT_OPEN)
    }


class _WrittenBefore:
    """In the place of an encoder: the block is written already (`header_block`). The first one says before all else
    that no table is used, as receivers expect that admit less than the usual one (RFC 7541, 4.2)."""

    header_table_size = 4_096
    """Set by the library to what the receiver admits; no table is used."""
    block = b""
    _said_first = _NO_TABLE

    def encode(self, headers: object) -> bytes:
        said_first, self._said_first = self._said_first, b""
        return said_first + self.block


class _CountingDecoder(Decoder):
    """`fields`: how many headers were read so far."""

    fields = 0
    _resizes = 0

    def decode(self, data: bytes, raw: bool = False) -> Iterable[HeaderTuple]:
        self._resizes = 0
        headers = list(super().decode(data, raw))
        self.fields += len(headers)
        return headers

    def _update_encoding_context(self, data: bytes | memoryview) -> int:
        self._resizes += 1
        if self._resizes > _MOST_RESIZES:
            raise HPACKDecodingError("a header block that resizes the table again and again")
        return super()._update_encoding_context(data)


class _Library(H2Connection):
    """Overrides private methods of h2 4.4, which pyproject pins: look here at each upgrade."""

    MAX_CLOSED_STREAMS = 4_096

    @property
    def open_outbound_streams(self) -> int:
        """Asked before each request. Counting looks through all streams and forgets those that ended: now and then is
        enough, for the session counts too."""
        return super().open_outbound_streams if len(self.streams) > 2 * MOST_STREAMS else 0

    def _receive_frame(self, frame: Frame) -> list[Event]:
        """As the library does it, but for the text of each frame that it makes for a log which is off, and for the
        resets that answer what comes on streams that were reset before."""
        events: list[Event]
        try:
            frames, events = self._frame_dispatch_table[frame.__class__](frame)
        except (StreamClosedError, StreamIDTooLowError) as error:
            if self._stream_is_closed_by_reset(error.stream_id):
                return []
            raise
        if frames:
            self._prepare_for_sending(frames)
        return events

    def _handle_data_on_closed_stream(
        self, events: list[Event], exc: StreamClosedError, frame: DataFrame
    ) -> tuple[list[Frame], list[Event]]:
        """Windows are given back, and the reset was said when the stream was given up."""
        frames, events = super()._handle_data_on_closed_stream(events, exc, frame)
        return [each for each in frames if not isinstance(each, RstStreamFrame)], events

    def forget_reset(self, number: int) -> None:
        """h2 bears all that comes for a stream it has forgotten, but no interim head for one that it still knows."""
        self._closed_streams[number] = self.streams.pop(number).closed_by

    def forget_ended(self) -> None:
        """h2 forgets ended streams while it counts; 1: those of odd ids, ours."""
        self._open_streams(1)


class Session(Generic[A]):
    """`streams` are those under way, by their ids. `behind`: not all that came was taken in. `settled`: the
    receiver's settings are there, as they have to be before all else; `most_streams` may be at a time, one before
    that. `going`: no more requests may be written. `broken`: the connection has to be closed. `answers`: how many
    streams the receiver ended; `frames` came so far. `outstanding`: how many bytes of bodies the receiver has given
    no new window for."""

    __slots__ = (
        "_begun",
        "_block",
        "_control",
        "_decoder",
        "_encoder",
        "_given_up",
        "_h2",
        "_said",
        "_unacknowledged",
        "_unsent",
        "_work",
        "answers",
        "behind",
        "broken",
        "frames",
        "going",
        "most_streams",
        "outstanding",
        "settled",
        "streams",
    )

    def __init__(self) -> None:
        h2 = self._h2 = _Library(
            H2Configuration(
                client_side=True,
                header_encoding=None,
                # `request` judges them before; and what of an answer's is used is judged by `stream`.
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
            )
        )
        h2.state_machine = _GoesOn()
        self._decoder = h2.decoder = _CountingDecoder(H2Connection.DEFAULT_MAX_HEADER_LIST_SIZE)
        self._encoder = h2.encoder = _WrittenBefore()  # type: ignore[assignment]
        h2.local_settings = Settings(
            client=True,
            initial_values={
                SettingCodes.ENABLE_PUSH: 0,
                SettingCodes.MAX_HEADER_LIST_SIZE: H2Connection.DEFAULT_MAX_HEADER_LIST_SIZE,
            },
        )
        h2.initiate_connection()
        h2.increment_flow_control_window(_CONNECTION_WINDOW - _INITIAL_WINDOW)
        self.streams: dict[int, Stream[A]] = {}
        self.most_streams = 1
        self.behind = self.settled = self.going = self.broken = False
        self.answers = self.frames = self.outstanding = 0
        self._unsent: dict[Stream[A], None] = {}
        self._begun = b""
        self._said = b""
        self._control = CONTROL_COST
        self._block = self._given_up = self._unacknowledged = self._work = 0

    def request(self, stream: Stream[A], *, method: str, block: bytes, body: bytes) -> None:
        """Write a request's head, `block` being its headers; `write_bodies` writes its body."""
        number = stream.number = self._h2.get_next_available_stream_id()
        self._encoder.block = block
        self._h2.send_headers(number, [(":method", method)], end_stream=not body)
        self._regain(_CONTROL_REGAINED)
        self.streams[number] = stream
        stream.on_kept = self.answers > 0
        if body:
            stream.unsent = memoryview(body)
            self._unsent[stream] = None

    def write_bodies(self, most: int) -> bool:
        """As much of the bodies as the receiver's windows admit, `most` bytes about, a frame of each in turn. Whether
        more of them may go."""
        wrote = True
        while wrote and most > 0:
            wrote = False
            for stream in list(self._unsent):
                wrote_bytes = self._write_piece(stream)
                wrote = wrote or wrote_bytes > 0
                most -= wrote_bytes
                if most <= 0:
                    break
        return most <= 0

    def _write_piece(self, stream: Stream[A]) -> int:
        assert stream.unsent is not None
        h2, number = self._h2, stream.number
        room = min(h2.local_flow_control_window(number), h2.max_outbound_frame_size, _MOST_A_FRAME)
        if room <= 0:
            return 0
        piece, rest = stream.unsent[:room], stream.unsent[room:]
        h2.send_data(number, piece, end_stream=not rest)
        self._regain(min(len(piece), _CONTROL_REGAINED))
        self.outstanding += len(piece)
        stream.outstanding += len(piece)
        del self._unsent[stream]
        if rest:
            stream.unsent = rest
            self._unsent[stream] = None
        else:
            stream.unsent = None
        return len(piece)

    def _regain(self, cost: int) -> None:
        self._control = min(self._control + cost, CONTROL_COST)

    def leave(self, stream: Stream[A]) -> bool:
        """Nobody waits for it any more. Whether the receiver is to be told: not where both sides are done with it."""
        if self.streams.pop(stream.number, None) is None:
            return False
        self._unsent.pop(stream, None)
        state, told = self._h2.streams.get(stream.number), False
        if not self.broken and state is not None and not state.closed:
            self._h2.reset_stream(stream.number, ErrorCodes.CANCEL)
            self._h2.forget_reset(stream.number)
            self._given_up = min(self._given_up + _UNDER_WAY, _MOST_UNDER_WAY)
            told = True
        if not self.streams:
            self._h2.forget_ended()
        return told

    def take(self) -> bytes:
        """What is to be sent."""
        said, self._said = self._said, b""
        return said + self._h2.data_to_send() if said else self._h2.data_to_send()

    def receive(self, data: bytes) -> list[Stream[A]]:
        """Take in what came, or some of it: call again with nothing more while it is `behind`. The streams of which
        more is known now."""
        heard: dict[Stream[A], None] = {}
        self._work, self.behind = _AT_A_TIME, False
        if self._begun:
            data = self._begun + data
        at, size = 0, len(data)
        while size - at >= _FRAME_HEADER and not self.broken:
            high, low, kind, number = _read_header(data, at)
            end = at + _FRAME_HEADER + (high << 8) + low
            if end - at > _MOST_A_FRAME:
                self.broken = True
            elif end > size:
                break
            elif self._work <= 0:
                self.behind = True
                break
            else:
                self.frames += 1
                self._receive_frame(kind, number & 0x7FFF_FFFF, data[at:end], heard)
            at = end
        self._begun = data[at:]
        for stream in heard:
            if stream.end is not None:
                # No more of its body is asked for, and the library may know it no more.
                self._unsent.pop(stream, None)
        return list(heard)

    def _receive_frame(self, kind: int, number: int, frame: bytes, heard: dict[Stream[A], None]) -> None:
        cost = max(len(frame) if kind == _DATA else _SLOW * len(frame), FRAME_COST)
        self._work -= cost
        self._block = len(frame) + (self._block if kind == _CONTINUATION else 0)
        if kind == _WINDOW_UPDATE and len(frame) == _A_WINDOW_UPDATE:
            cost -= self._returned(number, frame, cost)
        stream = self._charge(kind, number, cost)
        is_early = kind != _SETTINGS and not self.settled
        is_its_own = kind in _ANSWER_FRAMES and number % 2 == 0
        is_too_much = self._control < 0 or self._given_up < 0 or self._block > _MOST_A_BLOCK
        if is_early or is_its_own or is_too_much:
            self.broken = True
            return
        if kind == _GOAWAY:
            # What is yet to be sent would be forgotten.
            self._said += self._h2.data_to_send()
        elif kind == _SETTINGS:
            frame = _known_settings(frame)
        fields = self._decoder.fields
        try:
            events = self._h2.receive_data(frame)
        except Exception:
            # Mostly H2Error; any other exception comes of the receiver's bytes too.
            self.broken = True
            return
        if self._decoder.fields > fields:
            cost = _FIELD_COST * (self._decoder.fields - fields)
            self._work -= cost
            self._charge(kind, number, cost)
        for event in events:
            self._hear(event, heard)
        if stream is not None and stream.left < 0 and stream.end is None:
            stream.end = "too-long"
            heard[stream] = None
        if stream is not None and stream.end is not None:
            # As of one that was given up: this comes before its owner has heard of the end.
            stream.left = min(stream.left, 0)
            self.broken = self.broken or stream.left < -_UNDER_WAY

    def _returned(self, number: int, frame: bytes, cost: int) -> int:
        """What a new window is spared of its cost, for giving back what was sent."""
        of = self.streams.get(number) if number else self
        if of is None:
            return 0
        (increment,) = _read_increment(frame)
        returned: int = min(increment & 0x7FFF_FFFF, of.outstanding)
        of.outstanding -= returned
        return min(returned, cost)

    def _charge(self, kind: int, number: int, cost: int) -> Stream[A] | None:
        """Take it off what may still come; the stream whose answer it is part of."""
        if kind not in _ANSWER_FRAMES:
            self._control -= cost
            return None
        stream = self.streams.get(number)
        if stream is None:
            self._given_up -= cost
        else:
            stream.left -= cost
        return stream

    def _hear(self, event: Event, heard: dict[Stream[A], None]) -> None:
        if isinstance(event, _OF_STREAMS):
            stream = self.streams.get(event.stream_id)
            if stream is not None:
                heard[stream] = None
                self._hear_stream(stream, event)
        elif isinstance(event, RemoteSettingsChanged):
            self.settled = True
            self.most_streams = min(self._h2.remote_settings.max_concurrent_streams, MOST_STREAMS)
        elif isinstance(event, ConnectionTerminated):
            self.going = True
            for stream in self.streams.values():
                if stream.number > (event.last_stream_id or 0):
                    stream.hear_refusal()
                    heard[stream] = None

    def _hear_stream(self, stream: Stream[A], event: _OfStream) -> None:
        if isinstance(event, DataReceived):
            stream.hear_body(event.data)
            self._acknowledge(stream, event)
        elif isinstance(event, StreamEnded):
            self.answers += 1
            stream.hear_end("complete")
        elif not isinstance(event, StreamReset):
            stream.hear_head(event.headers)
        elif event.error_code is ErrorCodes.REFUSED_STREAM:
            stream.hear_refusal()
        else:
            stream.hear_end("broken")

    def _acknowledge(self, stream: Stream[A], data: DataReceived) -> None:
        """Give windows back by halves, of a stream as long as more is to come."""
        self._unacknowledged += data.flow_controlled_length
        stream.unacknowledged += data.flow_controlled_length
        if self._unacknowledged >= _CONNECTION_WINDOW // 2:
            self._h2.increment_flow_control_window(self._unacknowledged)
            self._unacknowledged = 0
        if stream.unacknowledged >= _INITIAL_WINDOW // 2 and data.stream_ended is None and stream.end is None:
            self._h2.increment_flow_control_window(stream.unacknowledged, stream.number)
            stream.unacknowledged = 0
