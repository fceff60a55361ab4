# SPDX-License-Identifier: Apache-2.0
"""The code of the commands in tools; standard library only, but for lab."""
