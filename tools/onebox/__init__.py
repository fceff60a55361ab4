# SPDX-License-Identifier: Apache-2.0
"""Everything that runs on one machine; standard library only, but for lab."""
