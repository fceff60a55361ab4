# SPDX-License-Identifier: Apache-2.0
"""What the tests of the packages and of Kolla's override need."""

# docker is the library that kolla-build imports; no daemon is asked.
REQUIREMENTS = ('build==1.6.*', 'docker==7.*', 'kolla==23.*', 'pytest==9.*',
                'setuptools==80.*', 'twine==7.*', 'uv==0.13.*',
                'vermin==1.9.*')
