# SPDX-License-Identifier: Apache-2.0
"""Make the tools' package importable: it is not part of the driver's."""

import pathlib
import sys

TOOLS = pathlib.Path(__file__).resolve().parents[3] / 'tools'
if str(TOOLS) not in sys.path:
    sys.path.insert(0, str(TOOLS))
