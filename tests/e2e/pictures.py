# SPDX-License-Identifier: Apache-2.0
"""Pictures of screens: read from files, and found in one another."""

import dataclasses
import re
import struct
import zlib

_PNG = b'\x89PNG\r\n\x1a\n'
_PPM = re.compile(rb'P6\s+(?:#.*\n\s*)*(\d+)\s+(\d+)\s+(\d+)\s')
# Bytes of a pixel, by the colour type of a PNG: RGB, and RGB with opacity.
_CHANNELS = {2: 3, 6: 4}
# Three bits are left of a colour: who paints a picture may round it.
_COARSE = bytes((value * 7 + 127) // 255 for value in range(256))
# Rows by which one picture is looked for in another.
_ROWS_LOOKED_FOR = 8


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture.

    :ivar width: pixels.
    :ivar height: pixels.
    :ivar rows: its rows from the top, three bytes a pixel in coarse colours.
    """

    width: int
    height: int
    rows: tuple

    @classmethod
    def read(cls, content):
        """Read a PNG or a PPM, each with eight bits a colour.

        :param content: the content of the file.
        :raises: ValueError if it is neither.
        """
        if content.startswith(_PNG):
            return cls.of(*_read_png(content))
        if content.startswith(b'P6'):
            return cls.of(*_read_ppm(content))
        raise ValueError(f'a picture that begins with {content[:8]!r}')

    @classmethod
    def of(cls, width, rows):
        """Make one of rows of RGB."""
        return cls(width, len(rows),
                   tuple(bytes(row).translate(_COARSE) for row in rows))

    @property
    def detail(self):
        """How many pixels differ from their left neighbour; blank: none."""
        return sum(map(_detail, self.rows))

    def shows(self, other, tolerance=200):
        """Tell whether another picture is shown in this one, 1:1.

        :param other: the other :class:`Picture`; a blank one is never shown.
        :param tolerance: how many of its pixels may differ, as those of a
            cursor that blinks do; some letters are more.
        """
        wanted = sorted(range(other.height), reverse=True,
                        key=lambda y: _detail(other.rows[y]))
        for y in wanted[:_ROWS_LOOKED_FOR]:
            if not _detail(other.rows[y]):
                return False
            for top, left in self._places_of(other.rows[y]):
                if self._differs(other, left, top - y) <= tolerance:
                    return True
        return False

    def _places_of(self, wanted):
        """Where a row is found, as (row, byte in the row)."""
        for number, row in enumerate(self.rows):
            at = row.find(wanted)
            while at >= 0:
                if at % 3 == 0:
                    yield number, at
                at = row.find(wanted, at + 1)

    def _differs(self, other, left, top):
        """How many pixels of another picture are different here."""
        if top < 0 or top + other.height > self.height:
            return other.width * other.height
        differing = 0
        for ours, theirs in zip(self.rows[top:], other.rows, strict=False):
            ours = ours[left:left + len(theirs)]
            if ours != theirs:
                differing += sum(
                    ours[at:at + 3] != theirs[at:at + 3]
                    for at in range(0, len(theirs), 3))
        return differing


def _detail(row):
    return sum(row[at:at + 3] != row[at - 3:at]
               for at in range(3, len(row), 3))


def _read_ppm(content):
    """Read a PPM (netpbm's format "P6")."""
    head = _PPM.match(content)
    if not head or int(head[3]) != 255:
        raise ValueError(f'a PPM that begins with {content[:20]!r}')
    width, height = int(head[1]), int(head[2])
    return width, [
        content[at:at + 3 * width] for at in range(
            head.end(), head.end() + 3 * width * height, 3 * width)]


def _read_png(content):
    """Read a PNG (ISO/IEC 15948) that is not interlaced."""
    at, packed = len(_PNG), b''
    while at < len(content):
        length, kind = struct.unpack_from('>I4s', content, at)
        chunk = content[at + 8:at + 8 + length]
        if kind == b'IHDR':
            width, height, depth, colour, _, _, interlaced = struct.unpack(
                '>IIBBBBB', chunk)
        elif kind == b'IDAT':
            packed += chunk
        # Between two chunks is a checksum.
        at += 12 + length
    if depth != 8 or colour not in _CHANNELS or interlaced:
        raise ValueError(f'a PNG of depth {depth} and colour type {colour}')
    channels = _CHANNELS[colour]
    length = width * channels
    raw = zlib.decompress(packed)
    rows, above = [], bytes(length)
    for at in range(0, height * (length + 1), length + 1):
        above = _unfiltered(raw[at], bytearray(raw[at + 1:at + 1 + length]),
                            above, channels)
        rows.append(_rgb(above, channels))
    return width, rows


def _unfiltered(kind, row, above, channels):
    """Undo the filter of a row of a PNG, in which it is told by a number."""
    if kind == 2:
        return bytearray((value + up) & 255 for value, up in zip(
            row, above, strict=True))
    if kind:
        guess = _GUESSES[kind]
        for at, up in enumerate(above):
            left = row[at - channels] if at >= channels else 0
            corner = above[at - channels] if at >= channels else 0
            row[at] = (row[at] + guess(left, up, corner)) & 255
    return row


def _paeth(left, up, corner):
    """The one of three neighbours that is the nearest to a plane of them."""
    plane = left + up - corner
    return min((left, up, corner), key=lambda value: abs(plane - value))


_GUESSES = {
    1: lambda left, up, corner: left,
    3: lambda left, up, corner: (left + up) // 2,
    4: _paeth,
}


def _rgb(row, channels):
    found = bytearray(len(row) // channels * 3)
    for colour in range(3):
        found[colour::3] = row[colour::channels]
    return found
