#!/bin/bash
# SPDX-License-Identifier: Apache-2.0

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
