#!/bin/bash
#
# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

# Called by DevStack with a mode and a phase; what is done is in lib/quintupleo.
# https://docs.openstack.org/devstack/latest/plugins.html

# shellcheck source=devstack/lib/quintupleo
source "$(dirname "${BASH_SOURCE[0]}")/lib/quintupleo"

if is_service_enabled quintupleo; then
    case "$1 ${2:-}" in
        "stack install")
            echo_summary "quintupleo: installing the driver and the iPXE image"
            install_quintupleo
            ;;
        "stack post-config")
            echo_summary "quintupleo: configuring Ironic and its host cloud"
            configure_quintupleo
            ;;
        "stack extra")
            echo_summary "quintupleo: making machines and nodes"
            start_quintupleo
            ;;
        "stack test-config")
            if is_service_enabled tempest; then
                echo_summary "quintupleo: configuring Tempest"
                configure_quintupleo_tempest
            fi
            ;;
        "unstack "*)
            stop_quintupleo
            ;;
        "clean "*)
            cleanup_quintupleo
            ;;
    esac
fi
