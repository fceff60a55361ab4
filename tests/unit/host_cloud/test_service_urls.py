# SPDX-License-Identifier: Apache-2.0
"""Which identity endpoint permits which, and how it can be talked around."""

import unittest

from quintupleo_power.host_cloud import service_urls

GOOD = 'https://good.example.test:5000/identity/v3'

TRICKS = (
    # Somebody else's host that looks like the permitted one.
    'https://good.example.test:5000@evil.example.test/identity/v3',
    'https://good.example.test:5000%40evil.example.test/identity/v3',
    'https://good.example.test:5000\\@evil.example.test/identity/v3',
    'https://good.example.test:5000#@evil.example.test/identity/v3',
    'https://good.example.test:5000?@evil.example.test/identity/v3',
    'https://good.example.test.evil.example.test:5000/identity/v3',
    'https://evil.example.test/https://good.example.test:5000/identity/v3',
    'https://evil.example.test#https://good.example.test:5000/identity/v3',
    'https://evil.example.test:5000/identity/v3',
    'https://xgood.example.test:5000/identity/v3',
    # Letters that some programs turn into others.
    'https://ɡood.example.test:5000/identity/v3',
    'https://ｇood.example.test:5000/identity/v3',
    'https://good。example。test:5000/identity/v3',
    'https://good.example.test：5000/identity/v3',
    'https://good.example.test:5000／identity/v3',
    'https://good.example.test:５０００/identity/v3',
    'https://good.example.te\u017ft:5000/identity/v3',
    # The same host by another name, which TLS or DNS may treat otherwise.
    'https://good.example.test.:5000/identity/v3',
    'https://good..example.test:5000/identity/v3',
    # Other ports, other schemes.
    'https://good.example.test/identity/v3',
    'https://good.example.test:/identity/v3',
    'https://good.example.test:443/identity/v3',
    'https://good.example.test:50000/identity/v3',
    'https://good.example.test:5000000/identity/v3',
    'https://good.example.test:-5000/identity/v3',
    'https://good.example.test:5000:6000/identity/v3',
    'http://good.example.test:5000/identity/v3',
    'ftp://good.example.test:5000/identity/v3',
    'file:///identity/v3',
    '//good.example.test:5000/identity/v3',
    'good.example.test:5000/identity/v3',
    'https:good.example.test:5000/identity/v3',
    'https:/good.example.test:5000/identity/v3',
    'https:///good.example.test:5000/identity/v3',
    'https:\\\\good.example.test:5000\\identity\\v3',
    # Out of the permitted path.
    'https://good.example.test:5000/',
    'https://good.example.test:5000/identity',
    'https://good.example.test:5000/identity/v3x',
    'https://good.example.test:5000/identity/v3/../../evil',
    'https://good.example.test:5000/identity/v3/..',
    'https://good.example.test:5000/identity/v3/./x',
    'https://good.example.test:5000/identity/v3/%2e%2e/evil',
    'https://good.example.test:5000/identity/v3/%252e%252e/evil',
    'https://good.example.test:5000/identity/v3%2f..%2fevil',
    'https://good.example.test:5000/identity/v3/..;/evil',
    'https://good.example.test:5000/identity/v3\\..\\evil',
    'https://good.example.test:5000//identity/v3',
    'https://good.example.test:5000/identity//v3',
    'https://good.example.test:5000/x/https://good.example.test/identity/v3',
    'https://good.example.test:5000/IDENTITY/v3',
    # More than an address.
    'https://user:password@good.example.test:5000/identity/v3',
    'https://@good.example.test:5000/identity/v3',
    'https://good.example.test:5000/identity/v3?next=evil',
    'https://good.example.test:5000/identity/v3#evil',
    'https://good.example.test:5000/identity/v3;evil',
    # Characters that end or split a line or a header.
    ' https://good.example.test:5000/identity/v3',
    'https://good.example.test:5000/identity/v3 ',
    'https://good.example.test:5000/identity/v3\n',
    'https://good.example.test:5000/identity/v3\r\nHost: evil',
    'https://good.example.test\t:5000/identity/v3',
    'https://good.example.test\x00:5000/identity/v3',
    'https://good.example.test\u2028:5000/identity/v3',
    'https://good.example.test:5000/identity/v3/ evil',
    # Addresses instead of names, and what only looks like one.
    'https://[::1]:5000/identity/v3',
    'https://[::1:5000/identity/v3',
    'https://[good.example.test]:5000/identity/v3',
    'https://[::1%25eth0]:5000/identity/v3',
    'https://2130706433:5000/identity/v3',
    '', '/', 'https://', 'https://:5000/identity/v3', 'v3', '\ud800',
)


class PermittedTestCase(unittest.TestCase):

    def permits(self, allowed, *urls):
        for url in urls:
            with self.subTest(ascii(url)):
                self.assertTrue(service_urls.permitted(url, [allowed]))

    def refuses(self, allowed, *urls):
        for url in urls:
            with self.subTest(ascii(url)):
                self.assertFalse(service_urls.permitted(url, [allowed]))

    def test_tricks(self):
        self.refuses(GOOD, *TRICKS)

    def test_what_is_meant(self):
        self.permits(GOOD, GOOD, GOOD + '/', GOOD + '/below',
                     'HTTPS://Good.Example.TEST:5000/identity/v3')

    def test_trailing_slash_of_the_permitted_one(self):
        self.permits('https://a.test/identity/', 'https://a.test/identity')

    def test_port_of_the_scheme(self):
        self.permits('https://a.test', 'https://a.test:443/v3')
        self.permits('http://a.test:80', 'http://a.test/v3')
        self.refuses('https://a.test', 'https://a.test:80')

    def test_names_with_underscores(self):
        self.permits('http://key_stone:5000', 'http://key_stone:5000/v3')

    def test_ip_addresses(self):
        self.permits('http://[fd00::1]:5000',
                     'http://[FD00:0:0::1]:5000/v3')
        self.refuses('http://127.0.0.1:5000',
                     'http://127.1:5000', 'http://2130706433:5000',
                     'http://0x7f000001:5000', 'http://0177.0.0.1:5000',
                     'http://localhost:5000', 'http://127.0.0.1.:5000',
                     'http://[::ffff:127.0.0.1]:5000', 'http://[::]:5000')

    def test_permitted_url_that_is_not_plain_permits_nothing(self):
        for url in TRICKS:
            if service_urls.parse(url) is None:
                self.refuses(url, url, GOOD)

    def test_same_service(self):
        for url, other, same in (
                (GOOD, GOOD, True),
                ('http://a.test:5000', 'http://a.test:5000/v3', True),
                ('http://a.test:5000/v3', 'http://a.test:5000/', True),
                ('http://a.test:5000/v3', 'http://b.test:5000/v3', False),
                ('http://a.test/x/v3', 'http://a.test/y/v3', False),
                (None, GOOD, False), (GOOD, None, False)):
            self.assertIs(same, service_urls.same_service(url, other))


class RedirectsAwayTestCase(unittest.TestCase):

    def test_locations(self):
        asked = 'https://a.test:5000/v2.1'
        for location, away in (
                ('https://a.test:5000/v2.1/', False),
                ('/v2.1/', False),
                ('https://A.test:5000/', False),
                ('https://b.test:5000/v2.1/', True),
                ('https://a.test/v2.1/', True),
                ('http://a.test:5000/v2.1/', True),
                ('//b.test/v2.1/', True),
                ('https://a.test:5000@b.test/', True),
                ('https://[::1/', True),
                ('https://a.test:port/', True),
                ('file:///etc/passwd', True)):
            with self.subTest(ascii(location)):
                self.assertIs(away,
                              service_urls.redirects_away(asked, location))

    def test_towards_tls_on_the_same_host(self):
        self.assertFalse(service_urls.redirects_away(
            'http://a.test:5000/v3', 'https://a.test/v3'))
        self.assertTrue(service_urls.redirects_away(
            'http://a.test:5000/v3', 'https://b.test/v3'))
