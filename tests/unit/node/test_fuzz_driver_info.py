# SPDX-License-Identifier: Apache-2.0
"""Whatever stands in driver_info: a sentence of Ironic's, or success."""

from urllib import parse

import hypothesis
from hypothesis import strategies
from ironic.common import exception

from quintupleo_power.host_cloud import consoles
from quintupleo_power.node import driver_info
from tests.unit import base
from tests.unit.host_cloud import test_service_urls
from tests.unit import host_cloud_fixture

AUTH_URL = host_cloud_fixture.AUTH_URL
SECRET = host_cloud_fixture.SECRET

MARKS = ('/', '\\', '..', '%2e%2e%2f', '%00', '?', '#', '@', ':', '&', ';',
         '{', '}', '{auth}', '${x}', '%s', '%(x)s', '"', "'", '<', '\n',
         '\r\n', '\t', '\x00', '\x1b[2J', '\x7f', '\u202e', '\u2028',
         '\ufeff', '\ud800', '\U0001f980', 'ß', 'İ', '٣', '.*', '(', '[',
         ' ', 'é', 'e\u0301', 'all_tenants=1', AUTH_URL, 'machine-0',
         'quintupleo-rescue-bios', 'RegionOne')

TEXTS = strategies.one_of(
    strategies.sampled_from(MARKS),
    strategies.lists(strategies.sampled_from(MARKS), max_size=6).map(''.join),
    strategies.text(max_size=40),
    strategies.integers(250, 260).map(lambda length: 'x' * length),
    strategies.just('x' * 1_000_000),
    strategies.uuids().map(str),
    strategies.uuids().map(lambda value: value.urn),
    strategies.sampled_from(test_service_urls.TRICKS))

VALUES = strategies.one_of(
    TEXTS, strategies.none(), strategies.booleans(), strategies.integers(),
    strategies.floats(), strategies.binary(max_size=8),
    strategies.recursive(
        strategies.one_of(strategies.none(), strategies.integers(),
                          strategies.text(max_size=4)),
        lambda inner: strategies.one_of(
            strategies.lists(inner, max_size=3),
            strategies.dictionaries(strategies.text(max_size=4), inner,
                                    max_size=3)), max_leaves=8))

KEYS = sorted(driver_info.COMMON_PROPERTIES)
GOOD = {'quintupleo_server': 'machine-0'}

EXPECTED = (exception.InvalidParameterValue, exception.MissingParameterValue)


def settings(examples):
    """Few examples in CI; the seed of a failure is printed."""
    return hypothesis.settings(
        max_examples=examples, deadline=None, print_blob=True, database=None,
        suppress_health_check=list(hypothesis.HealthCheck))


class FuzzTestCase(base.DriverTestCase):

    def setUp(self):
        super().setUp()
        self.config(allowed_auth_urls=[AUTH_URL], group='quintupleo')

    def use(self, found):
        """Give the node a driver_info, as the database would."""
        self.node.driver_info = found

    def assert_sentence(self, error):
        text = str(error)
        self.assertTrue(text.isprintable(), text)
        self.assertLess(len(text), 2000)
        self.assertIn(self.node.uuid, text)

    @settings(200)
    @hypothesis.given(strategies.fixed_dictionaries(
        {}, optional={key: VALUES for key in KEYS}))
    def test_parse(self, found):
        self.use(found)
        try:
            info = driver_info.parse(self.node)
        except EXPECTED as error:
            self.assert_sentence(error)
            return
        self.check_parsed(info)

    @settings(200)
    @hypothesis.given(strategies.sampled_from(KEYS), VALUES,
                      strategies.booleans())
    def test_parse_one_bad_value(self, key, value, own):
        found = {**GOOD, key: value}
        if own:
            found = {'quintupleo_application_credential_id': 'abc',
                     'quintupleo_application_credential_secret': SECRET,
                     **found}
        self.use(found)
        try:
            info = driver_info.parse(self.node)
        except EXPECTED as error:
            self.assert_sentence(error)
            return
        self.check_parsed(info)

    def check_parsed(self, info):
        """What is let through is text of bounded length and one line."""
        for text in (info.server, info.rescue_image, info.empty_image,
                     *vars(info.credentials).values()):
            if text is not None:
                self.assertTrue(0 < len(text) <= 255 and text.isprintable())
        auth_url = info.credentials.auth_url
        if auth_url:
            # Read by another parser than the driver's own.
            there = parse.urlsplit(auth_url)
            here = parse.urlsplit(AUTH_URL)
            self.assertEqual((here.scheme, here.netloc.lower()),
                             (there.scheme, there.netloc.lower()))
            self.assertIsNone(there.username)

    @settings(100)
    @hypothesis.given(VALUES)
    def test_console_type(self, value):
        self.use({**GOOD, 'quintupleo_console_type': value})
        try:
            self.assertIn(driver_info.console_type(self.node),
                          consoles.PROTOCOLS)
        except EXPECTED as error:
            self.assert_sentence(error)

    @settings(80)
    @hypothesis.given(strategies.sampled_from(KEYS), VALUES)
    def test_validate(self, key, value):
        """As far as the requests go, and where they go."""
        self.host_cloud.forget_requests()
        self.use({**GOOD, key: value})
        self.node.save = lambda: None
        task = _Task(self.node, self.driver)
        try:
            task.driver.power.validate(task)
        except EXPECTED as error:
            self.assert_sentence(error)
        for request in self.host_cloud.requests:
            self.assertIn(request.split()[1].split('/')[1],
                          ('v3', 'v2.1', 'v2', ''))
        self.assertEqual([], self.host_cloud.sent)
        self.forget_clouds()

    @property
    def driver(self):
        with self.acquire(shared=True) as task:
            return task.driver


class _Task:
    """As much of a TaskManager as a validation looks at."""

    shared = True

    def __init__(self, node, driver):
        self.node = node
        self.driver = driver
