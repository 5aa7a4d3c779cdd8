"""HTTP/2 of one connection, sans-IO, over the library `h2`. It has no socket and no clock.

    request --receive, until a stream's `end` is set or its attempt has ended--> leave
        |--`going` (GOAWAY): no more requests
        `--`broken`: the connection has to be closed

The library keeps the protocol's states, windows and header tables. This module adds:

- Input is passed on frame by frame, so that frames before a violation count. A frame that is too long is refused by its
  header, before the rest has come.
- All frames have a cost: their bytes, a multiple of them for frames that take longer to process, and `FRAME_COST` at
  least; each decoded header adds some. Frames of an answer are charged to their stream, which ends as `too-long` when
  it has used up its bound. Frames for streams that were given up are charged to an allowance that each such stream adds
  to, up to a window of the connection: what may be in transit. As much may follow the end of a stream that has not been
  left yet. All others (SETTINGS, PING, WINDOW_UPDATE, unknown types) are charged to `CONTROL_COST`, of which each
  request gives some back, and each piece of a body, at most its size. A WINDOW_UPDATE costs one byte less for each byte
  of a body that it gives back. Beyond either allowance the connection is broken.
- One read may take long to process: at most `_AT_A_TIME` of it, by that measure, is processed at a time.
- A header block has 64 CONTINUATION frames at most and unpacks to 64 KB at most (the library's bounds), and is 32 KB at
  most packed, because it is decoded at once. It resizes the table twice at most, as an encoder may.
- Server push is refused: the library would keep each pushed stream until its end.
- Streams that the receiver accepted before its GOAWAY are still answered; the library alone would end them. It would
  also answer each frame on a stream that was reset with another reset.
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
"""At a time on one connection, whatever the receiver admits: bounds what the loss of one connection costs."""
FRAME_COST: Final = 256
"""A small frame takes about the time of this many bytes."""
_SLOW: Final = 4
"""Frames other than DATA take this many times the time of their bytes."""
_FIELD_COST: Final = 64
"""The cost of each header in addition, however few bytes encode it."""
CONTROL_COST: Final = 65_536
_CONTROL_REGAINED: Final = 2_048
_UNDER_WAY: Final = 262_144
"""What may still come for a stream that was given up: a full window, in small frames."""
_MOST_UNDER_WAY: Final = 4_194_304
"""And for all of them: a full window of the connection."""
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
    """Drop unknown settings from a SETTINGS frame: the library would keep one of each id while the connection lasts."""
    said = frame[_FRAME_HEADER:]
    if frame[_FLAGS] & _ACK or len(said) % _A_SETTING:
        return frame
    each = (said[at : at + _A_SETTING] for at in range(0, len(said), _A_SETTING))
    known = b"".join(one for one in each if one[:2] in _KNOWN_SETTINGS)
    return len(known).to_bytes(3, "big") + frame[3:_FRAME_HEADER] + known


class _GoesOn(H2ConnectionStateMachine):
    """h2 ends the connection at GOAWAY; here the streams that the receiver has accepted go on."""

    _transitions = H2ConnectionStateMachine._transitions | {
        (ConnectionState.CLIENT_OPEN, ConnectionInputs.RECV_GOAWAY): (None, ConnectionState.CLIENT_OPEN)
    }


class _WrittenBefore:
    """Replaces h2's encoder: returns the block that `header_block` has encoded. The first block begins with a table
    size of 0, as receivers require that admit less than the default size (RFC 7541, 4.2)."""

    header_table_size = 4_096
    """Set by the library to what the receiver admits; unused, as there is no table."""
    block = b""
    _said_first = _NO_TABLE

    def encode(self, headers: object) -> bytes:
        said_first, self._said_first = self._said_first, b""
        return said_first + self.block


class _CountingDecoder(Decoder):
    """`fields`: how many headers it has decoded. Also bounds the table resizes of a block."""

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
        """h2 reads it before each request. Counting visits all streams and drops those that ended; now and then is
        enough, because the session counts too."""
        return super().open_outbound_streams if len(self.streams) > 2 * MOST_STREAMS else 0

    def _receive_frame(self, frame: Frame) -> list[Event]:
        """As in the library, without formatting each frame for a log that is off, and without answering frames on reset
        streams with further resets."""
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
        """Gives windows back, but sends no RST_STREAM: that was sent when the stream was given up."""
        frames, events = super()._handle_data_on_closed_stream(events, exc, frame)
        return [each for each in frames if not isinstance(each, RstStreamFrame)], events

    def forget_reset(self, number: int) -> None:
        """Make h2 drop a reset stream. It ignores any frame on a dropped stream, but an interim head on a reset stream
        that it still has would be an error."""
        self._closed_streams[number] = self.streams.pop(number).closed_by

    def forget_ended(self) -> None:
        """Make h2 drop ended streams, which it does while counting; 1: those with odd ids, ours."""
        self._open_streams(1)


class Session(Generic[A]):
    """`streams`: those under way, by their ids. `behind`: not all input was processed. `settled`: the receiver's
    SETTINGS have come, which have to be its first frame; `most_streams`: how many may be under way, one until then.
    `going`: no more requests may be written. `broken`: the connection has to be closed. `answers`: how many streams the
    receiver ended. `frames`: how many came. `outstanding`: bytes of bodies that the receiver has not given back to the
    connection's window."""

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
                # `request` has judged ours, and `stream` judges those of an answer that are used.
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
        """Write a request's head with the encoded headers `block`; `write_bodies` writes its body."""
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
        """Write bodies as far as the receiver's windows admit, about `most` bytes, one frame of each in turn. Whether
        it stopped at `most`, so that more may follow."""
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
        sendable = min(h2.local_flow_control_window(number), h2.max_outbound_frame_size, _MOST_A_FRAME)
        if sendable <= 0:
            return 0
        piece, rest = stream.unsent[:sendable], stream.unsent[sendable:]
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
        """Remove a stream whose attempt has ended. Whether a reset has to be sent: not if both sides have ended it."""
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
        """The bytes to send."""
        said, self._said = self._said, b""
        return said + self._h2.data_to_send() if said else self._h2.data_to_send()

    def receive(self, data: bytes) -> list[Stream[A]]:
        """Process input, or some of it: call again with b"" while it is `behind`. Returns the streams that changed."""
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
                # The rest of its body is not needed, and the library may have dropped the stream.
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
            # h2 drops its unsent bytes at GOAWAY, so they are taken first.
            self._said += self._h2.data_to_send()
        elif kind == _SETTINGS:
            frame = _known_settings(frame)
        fields = self._decoder.fields
        try:
            events = self._h2.receive_data(frame)
        except Exception:
            # Mostly H2Error, but any other exception is caused by the receiver's bytes too.
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
            # The owner has not seen the end yet: until it leaves the stream, as much may come as for one given up.
            stream.left = min(stream.left, 0)
            self.broken = self.broken or stream.left < -_UNDER_WAY

    def _returned(self, number: int, frame: bytes, cost: int) -> int:
        """The discount on a WINDOW_UPDATE: the bytes of bodies that it gives back."""
        of = self.streams.get(number) if number else self
        if of is None:
            return 0
        (increment,) = _read_increment(frame)
        returned: int = min(increment & 0x7FFF_FFFF, of.outstanding)
        of.outstanding -= returned
        return min(returned, cost)

    def _charge(self, kind: int, number: int, cost: int) -> Stream[A] | None:
        """Charge a cost to the stream of an answer or to an allowance. Returns that stream, if there is one."""
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
        """Give windows back when half is used up, a stream's only if more of its body is to come."""
        self._unacknowledged += data.flow_controlled_length
        stream.unacknowledged += data.flow_controlled_length
        if self._unacknowledged >= _CONNECTION_WINDOW // 2:
            self._h2.increment_flow_control_window(self._unacknowledged)
            self._unacknowledged = 0
        if stream.unacknowledged >= _INITIAL_WINDOW // 2 and data.stream_ended is None and stream.end is None:
            self._h2.increment_flow_control_window(stream.unacknowledged, stream.number)
            stream.unacknowledged = 0
