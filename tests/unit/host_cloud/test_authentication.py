# SPDX-License-Identifier: Apache-2.0
"""What is the fault of a cloud, and what is ours."""

import concurrent.futures
import json
import logging
import threading
import time
import unittest
from unittest import mock

from keystoneauth1 import access
from keystoneauth1 import adapter
from keystoneauth1 import exceptions as ks_exceptions
from keystoneauth1.identity import base as ks_base
from keystoneauth1 import noauth
import requests
import yaml

from quintupleo_power.host_cloud import authentication
from quintupleo_power.host_cloud import cloud_facts
from quintupleo_power.host_cloud import clouds_yaml
from quintupleo_power.host_cloud import errors
from quintupleo_power.host_cloud import service
from tests.unit import base
from tests.unit import host_cloud_fixture


class PluginTestCase(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.wrapped = mock.create_autospec(ks_base.BaseIdentityPlugin,
                                            instance=True,
                                            auth_url='http://here')
        self.plugin = authentication.Plugin(self.wrapped)

    def test_documents_of_a_wrong_form(self):
        for name in ('get_access', 'get_headers', 'get_token',
                     'get_project_id', 'get_user_id', 'get_endpoint',
                     'get_endpoint_data', 'get_api_major_version',
                     'get_all_version_data'):
            for error in (KeyError, TypeError, AttributeError, ValueError):
                getattr(self.wrapped, name).side_effect = error('a secret')
                with self.assertRaisesRegex(authentication.MalformedDocument,
                                            f'^{error.__name__}$'):
                    getattr(self.plugin, name)(None)
            getattr(self.wrapped, name).side_effect = None

    def test_endpoint_that_is_no_text(self):
        self.wrapped.get_endpoint.return_value = 7
        self.assertRaises(authentication.MalformedDocument,
                          self.plugin.get_endpoint, None)

    def test_no_token_is_needed_to_get_a_token(self):
        self.wrapped.get_headers.side_effect = (
            lambda session: self.plugin.get_headers(session))
        self.assertRaises(ks_exceptions.Unauthorized,
                          self.plugin.get_headers, None)
        # For an endpoint a token comes first.
        self.wrapped.get_headers.side_effect = None
        self.wrapped.get_endpoint.side_effect = (
            lambda session: self.plugin.get_headers(session)['url'])
        self.wrapped.get_headers.return_value = {'url': 'http://nova'}
        self.assertEqual('http://nova', self.plugin.get_endpoint(None))
        # Who gets a token may look for its endpoint meanwhile.
        self.wrapped.get_endpoint.side_effect = None
        self.wrapped.get_endpoint.return_value = 'http://keystone'
        self.wrapped.get_headers.side_effect = self.plugin.get_endpoint
        self.assertEqual('http://keystone', self.plugin.get_headers(None))

    def test_the_rest_is_that_of_the_plugin(self):
        self.assertEqual('http://here', self.plugin.auth_url)
        self.assertRaises(AttributeError, getattr, self.plugin, 'x')
        self.plugin.invalidate()
        self.wrapped.invalidate.assert_called_once_with()

    def test_plugin_without_tokens(self):
        plugin = authentication.Plugin(noauth.NoAuth(endpoint='http://nova'))
        self.assertRaises(ks_exceptions.AuthPluginException,
                          plugin.get_access, None)
        self.assertEqual('http://nova', plugin.get_endpoint(None))

    def ask(self, threads):
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            return [each.exception() for each in [
                pool.submit(self.plugin.get_token, None)
                for _ in range(threads)]]

    def test_who_waits_for_a_token_shares_its_failure(self):
        def get_token(session):
            time.sleep(0.3)
            raise ks_exceptions.ConnectTimeout('no')

        self.wrapped.get_token.side_effect = get_token
        begun = time.monotonic()
        found = self.ask(24)
        self.assertEqual({ks_exceptions.ConnectTimeout},
                         {type(each) for each in found})
        self.assertLess(time.monotonic() - begun, 3)
        self.assertLess(self.wrapped.get_token.call_count, 4)
        # It is asked for again later.
        self.wrapped.get_token.side_effect = lambda session: 'a token'
        self.assertEqual('a token', self.plugin.get_token(None))

    def test_wait_has_an_end(self):
        go = threading.Event()
        self.addCleanup(go.set)
        self.wrapped.get_token.side_effect = lambda session: go.wait(60)
        thread = threading.Thread(target=self.plugin.get_token, args=(None,))
        thread.start()
        self.addCleanup(thread.join)
        while not self.wrapped.get_token.called:
            time.sleep(0.01)
        with mock.patch.object(authentication, 'LONGEST_WAIT', 0.1):
            self.assertRaises(ks_exceptions.ConnectTimeout,
                              self.plugin.get_token, None)
        go.set()


class TokenTestCase(unittest.TestCase):

    def test_token_of_a_wrong_form(self):
        compute = mock.create_autospec(service.Service, instance=True)
        compute.sign_in.return_value = access.AccessInfoV3(
            {'token': {'user': 'x'}}, 'a-token')
        info = cloud_facts.CloudInfo(compute, None, None, None)
        with self.assertRaisesRegex(errors.MalformedAnswer,
                                    'a form that Keystone does not have'):
            info.sign_in()


class YAMLErrorsTestCase(unittest.TestCase):

    def test_warning_of_another_thread_is_left_to_it(self):
        record = logging.makeLogRecord(
            {'args': (yaml.YAMLError('a secret'),)})
        logger = logging.getLogger('openstack.config')
        with clouds_yaml._yaml_errors() as mine:
            with concurrent.futures.ThreadPoolExecutor() as pool:
                self.assertTrue(pool.submit(logger.filter, record).result())
            self.assertEqual([], mine)
            self.assertFalse(logger.filter(record))
            self.assertEqual([*record.args], mine)
        self.assertEqual([], logger.filters)


class BlameTestCase(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.rest = mock.Mock(spec=adapter.Adapter, endpoint_override='x',
                              session=mock.Mock(auth=None))
        self.service = service.Service('Cloud', self.rest)

    def test_mistake_of_ours_is_shown_as_what_it_is(self):
        for error in (TypeError, AttributeError, KeyError, ValueError):
            self.rest.request.side_effect = error
            self.assertRaises(error, self.service.get, '/servers')

    def test_error_whose_list_keystoneauth_does_not_know(self):
        answer = requests.Response()
        answer.status_code, answer.url = 400, 'http://nova/servers'
        answer.headers['Content-Type'] = 'application/json'
        answer._content = json.dumps({'errors': ['no']}).encode()
        self.rest.request.return_value = answer
        self.assertRaises(errors.BadRequest, self.service.get, '/servers')


class KeystoneTestCase(base.DriverTestCase):

    def test_keystone_that_asks_for_a_token_before_it_gives_one(self):
        self.host_cloud.fail('GET', host_cloud_fixture.AUTH_URL + '$',
                             401, times=9)
        self.validate()
