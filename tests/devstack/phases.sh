#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

# Runs phases of the plugin as DevStack does.
#
#   phases.sh LOCALRC "stack install" "stack post-config" ...
#
# LOCALRC has what DevStack and local.conf set before a plugin is loaded. Phase
# "code" is the file PLUGIN_CODE.
# DEVSTACK_DIR names a checkout of DevStack whose functions are to be used,
# but for those that need systemd or its own Python environment.

set -o errexit

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PLUGIN=$HERE/../../devstack

LOCALRC=$1
shift
# shellcheck disable=SC1090  # the caller's
source "$LOCALRC"
# What the plugin runs of DevStack's own.
TOP_DIR=$HERE/standin
# shellcheck source=tests/devstack/standin/functions
source "$TOP_DIR/functions"
if [[ -n "${DEVSTACK_DIR:-}" ]]; then
    # shellcheck source=/dev/null
    source "$HERE/real-functions"
    # DevStack's own has set some of it.
    # shellcheck disable=SC1090
    source "$LOCALRC"
fi
# shellcheck source=devstack/settings
source "$PLUGIN/settings"
for phase; do
    if [[ "$phase" == code ]]; then
        # shellcheck source=devstack/lib/quintupleo
        source "$PLUGIN/lib/quintupleo"
        # shellcheck disable=SC1090  # what a test wants to know
        source "$PLUGIN_CODE"
    else
        if [[ "$phase" == unstack || "$phase" == clean ]]; then
            # As openrc does, which unstack.sh and clean.sh read.
            export OS_AUTH_TYPE=password OS_AUTH_URL=http://127.0.0.1/identity
            export OS_USERNAME=demo OS_PASSWORD=secret OS_PROJECT_NAME=demo
            export OS_USER_DOMAIN_ID=default OS_PROJECT_DOMAIN_ID=default
        fi
        # shellcheck disable=SC2086,SC1091  # a mode and a phase
        source "$PLUGIN/plugin.sh" $phase
    fi
done
