# SPDX-License-Identifier: Apache-2.0
"""minicloud: a real OpenStack cloud on one machine, to be a host cloud."""
