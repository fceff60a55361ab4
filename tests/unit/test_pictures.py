# SPDX-License-Identifier: Apache-2.0
"""How the end-to-end test of the console compares pictures."""

import random
import struct
import unittest
import zlib

from tests.e2e import pictures

BLACK, GREY, WHITE = b'\0\0\0', b'\x55\x55\x55', b'\xaa\xaa\xaa'
WIDTH, HEIGHT = 90, 60


def text(seed, width=WIDTH, height=HEIGHT):
    """Rows of a screen with three lines of something like text."""
    chance = random.Random(seed)
    rows = [[BLACK] * width for _ in range(height)]
    for y in (*range(2, 10), *range(14, 22), *range(40, 48)):
        for x in range(2, width - 20):
            rows[y][x] = chance.choice((BLACK, BLACK, WHITE))
    return rows


def picture(rows):
    return pictures.Picture.of(len(rows[0]), [b''.join(row) for row in rows])


def page(rows, left=37, top=25, width=200, height=120):
    """Rows of a page that shows a screen somewhere."""
    found = [[GREY] * width for _ in range(height)]
    for y, row in enumerate(rows):
        found[top + y][left:left + len(row)] = row
    return found


def ppm(rows):
    return b'P6\n# made by a test\n%d %d\n255\n' % (
        len(rows[0]), len(rows)) + b''.join(map(b''.join, rows))


def png(rows, channels=3, filters=(0,), depth=8, interlaced=0):
    """Encode a PNG, its rows filtered in turn."""
    above, raw = bytes(channels * len(rows[0])), b''
    for number, pixels in enumerate(rows):
        row = b''.join(pixel + b'\xff' * (channels - 3) for pixel in pixels)
        kind = filters[number % len(filters)]
        raw += bytes([kind]) + bytes(
            (row[at] - _guess(kind, row, above, at, channels)) & 255
            for at in range(len(row)))
        above = row
    packed = zlib.compress(raw)
    head = struct.pack('>IIBBBBB', len(rows[0]), len(rows), depth,
                       {3: 2, 4: 6}[channels], 0, 0, interlaced)
    return b'\x89PNG\r\n\x1a\n' + b''.join(
        struct.pack('>I', len(chunk)) + kind + chunk
        + struct.pack('>I', zlib.crc32(kind + chunk))
        for kind, chunk in ((b'IHDR', head), (b'IDAT', packed[:50]),
                            (b'IDAT', packed[50:]), (b'IEND', b'')))


def _guess(kind, row, above, at, channels):
    """The filters as the standard has them (9.2 and 9.4)."""
    a = row[at - channels] if at >= channels else 0
    b = above[at]
    c = above[at - channels] if at >= channels else 0
    if kind == 4:
        pa, pb, pc = abs(b - c), abs(a - c), abs(a + b - 2 * c)
        return a if pa <= pb and pa <= pc else b if pb <= pc else c
    return (0, a, b, (a + b) // 2)[kind]


class ReadTestCase(unittest.TestCase):

    def test_formats_hold_the_same_picture(self):
        chance = random.Random(1)
        rows = [[chance.randbytes(3) for _ in range(23)] for _ in range(17)]
        wanted = picture(rows)
        self.assertEqual((23, 17), (wanted.width, wanted.height))
        self.assertEqual(wanted, pictures.Picture.read(ppm(rows)))
        for channels in (3, 4):
            for filters in ((0,), (1,), (2,), (3,), (4,), (4, 1, 0, 3, 2)):
                self.assertEqual(wanted, pictures.Picture.read(
                    png(rows, channels, filters)))

    def test_what_is_not_read(self):
        rows = text(1)
        for content in (b'', b'GIF89a', b'P6 1', b'P6\n1 1\n65535\nxxxxxx',
                        png(rows, depth=16), png(rows, interlaced=1)):
            with self.assertRaises(ValueError):
                pictures.Picture.read(content)


class ShowsTestCase(unittest.TestCase):

    def test_screen_somewhere_on_a_page(self):
        screen = text(1)
        for left, top in ((0, 0), (37, 25), (110, 60)):
            self.assertTrue(picture(page(screen, left, top)).shows(
                picture(screen)))

    def test_screen_itself(self):
        self.assertTrue(picture(text(1)).shows(picture(text(1))))

    def test_cursor_that_blinks(self):
        now = text(1)
        for y in range(50, 58):
            now[y][2:11] = [WHITE] * 9
        self.assertTrue(picture(page(now)).shows(picture(text(1))))

    def test_colours_that_were_rounded(self):
        rounded = [[bytes(min(value + 2, 255) for value in pixel)
                    for pixel in row] for row in text(1)]
        self.assertTrue(picture(page(rounded)).shows(picture(text(1))))

    def test_screen_of_another_machine(self):
        self.assertFalse(picture(page(text(2))).shows(picture(text(1))))

    def test_screen_that_went_on(self):
        # The first lines are the same.
        now = text(1)
        now[40:48] = text(2)[40:48]
        self.assertFalse(picture(page(now)).shows(picture(text(1))))

    def test_page_that_is_blank(self):
        for colour in (BLACK, GREY, WHITE):
            blank = picture([[colour] * 200] * 120)
            self.assertEqual(0, blank.detail)
            self.assertFalse(blank.shows(picture(text(1))))
            # Neither does anything show a screen that is.
            self.assertFalse(picture(page(text(1))).shows(blank))
            self.assertFalse(blank.shows(blank))

    def test_screen_that_is_cut_off(self):
        whole = page(text(1))
        for cut in (whole[30:], whole[:60], [row[45:] for row in whole],
                    [row[:100] for row in whole]):
            self.assertFalse(picture(cut).shows(picture(text(1))))

    def test_screen_that_is_scaled(self):
        double = [[pixel for pixel in row for _ in range(2)]
                  for row in text(1) for _ in range(2)]
        self.assertFalse(
            picture(page(double, 0, 0)).shows(picture(text(1))))

    def test_detail(self):
        self.assertGreater(picture(text(1)).detail, 300)
