# SPDX-License-Identifier: Apache-2.0
"""Tempest tests of Ironic with nodes that are Nova servers."""
