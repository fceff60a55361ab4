#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Stand-in for DevStack's tool of this name: the cloud of the tests knows its
# compute hosts already.
