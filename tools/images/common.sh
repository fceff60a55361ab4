# SPDX-License-Identifier: Apache-2.0
#
# What the image builders share. Sourced by them, never run.
# shellcheck shell=bash
# shellcheck disable=SC2034  # variables for those who source this

# Other users than root have a cache of their own.
CACHE_DIR=/var/cache
(( EUID == 0 )) || CACHE_DIR=${XDG_CACHE_HOME:-${HOME:-}/.cache}
CACHE_DIR=${QUINTUPLEO_CACHE_DIR:-$CACHE_DIR/quintupleo}
IMAGES_DIR=$CACHE_DIR/images
PROGRAM=${0##*/}
# Where mkfs.fat is, which users other than root may not have in it.
PATH=$PATH:/usr/sbin:/sbin

# Debian's release whose packages the images of Linux systems are made of.
# One for every host: an image does not depend on where it was built.
DEBIAN_RELEASE=bookworm
# Where it has fakeroot's library.
LIBFAKEROOT_DIR=/usr/lib/x86_64-linux-gnu/libfakeroot

say() {
    echo "$PROGRAM: $*"
}

die() {
    echo "$PROGRAM: $*" >&2
    exit 1
}

# Reads --output PATH and --help, all that a builder understands, into OUTPUT.
parse_arguments() {
    while (( $# )); do
        case $1 in
            --output)
                [[ -n ${2:-} ]] || die "--output needs a path, see --help."
                OUTPUT=$2
                shift
                ;;
            --output=?*)
                OUTPUT=${1#--output=}
                ;;
            -h|--help)
                usage
                exit 0
                ;;
            *)
                die "unknown argument '$1', see --help."
                ;;
        esac
        shift
    done
    OUTPUT=$(realpath -m -- "$OUTPUT")
}

# True for root of this machine, and not for one that become_root made.
is_true_root() {
    (( EUID == 0 )) && [[ -z ${FAKEROOTKEY:-} ]]
}

# Runs the script again for another user than root: in a user namespace, where
# it may mount and chroot, and with fakeroot, which keeps the owners of files.
# Only one user is mapped, so that neither setuid programs nor subordinate
# user IDs are needed (user_namespaces(7)).
become_root() {
    local status=0

    (( EUID == 0 )) && return
    unshare --map-root-user true 2>/dev/null ||
        die "must be run as root: this machine does not permit user" \
            "namespaces."
    open_work_folder fakeroot "$CACHE_DIR"
    need_packages mmdebstrap debian-archive-keyring
    fetch_fakeroot
    export QUINTUPLEO_CACHE_DIR=$CACHE_DIR
    # To chown to a user that is not mapped is EINVAL; fakeroot knows EPERM.
    export FAKEROOTDONTTRYCHOWN=1
    export LIBFAKEROOT=$WORK/debian$LIBFAKEROOT_DIR/libfakeroot-sysv.so
    # shellcheck disable=SC2016  # all of it is for that shell
    isolate --map-root-user --mount-proc bash -c '
        FAKEROOTKEY=$("$1/debian/usr/bin/faked-sysv")
        export FAKEROOTKEY=${FAKEROOTKEY%:*}
        export LD_PRELOAD=${LIBFAKEROOT##*/}
        export LD_LIBRARY_PATH=$2:${LIBFAKEROOT%/*}:${LD_LIBRARY_PATH:-}
        exec "${@:3}"' \
        "$PROGRAM" "$WORK" "$LIBFAKEROOT_DIR" "$0" "$@" || status=$?
    exit "$status"
}

# Unpacks fakeroot of the images' release: programs in an image load it, too.
fetch_fakeroot() {
    local sources

    mapfile -t sources < <(debian_sources "$DEBIAN_RELEASE")
    mmdebstrap --quiet --mode=chrootless --variant=extract \
        --include=fakeroot "$DEBIAN_RELEASE" "$WORK/debian" \
        "${sources[@]}" >"$WORK/command.log" 2>&1 || {
        tail -n 30 "$WORK/command.log" >&2
        die "mmdebstrap could not unpack fakeroot of Debian $DEBIAN_RELEASE;" \
            "see its messages above."
    }
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=600 \
        -o Dpkg::Use-Pty=0 --no-install-recommends install "$@"
}

# Installs those of the named Debian packages that are missing; for another
# user than root it unpacks them in WORK, which has to be open.
need_packages() {
    local package missing=()

    command -v apt-get >/dev/null ||
        die "needs Debian or Ubuntu: apt-get was not found."
    for package; do
        dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null |
            grep -qx installed || missing+=("$package")
    done
    (( ${#missing[@]} )) || return 0

    is_true_root || {
        unpack_packages "${missing[@]}"
        return
    }
    say "installing ${missing[*]}"
    # Package lists may be missing, or too old to name what the mirror has.
    apt_install "${missing[@]}" >/dev/null 2>&1 ||
        { apt_update && apt_install "${missing[@]}" >/dev/null; } ||
        die "apt-get could not install ${missing[*]}; see its message above."
}

# Fetches packages, with what they need and this machine lacks, and unpacks
# them for this script alone.
unpack_packages() {
    local archives=$WORK/archives archive libraries

    say "fetching $*"
    mkdir -p "$archives/partial" "$WORK/packages"
    apt-get -qq -y -o Debug::NoLocking=true -o APT::Sandbox::User=root \
        -o Dir::Cache::Archives="$archives" --no-install-recommends \
        --download-only install "$@" >/dev/null ||
        die "apt-get could not fetch $*; see its message above. Run" \
            "\"apt-get update\" as root, or install them."
    for archive in "$archives"/*.deb; do
        dpkg-deb --extract "$archive" "$WORK/packages"
    done
    PATH=$WORK/packages/usr/bin:$WORK/packages/usr/sbin:$PATH
    libraries=$WORK/packages/usr/lib/x86_64-linux-gnu
    export LD_LIBRARY_PATH=$libraries:${LD_LIBRARY_PATH:-}
}

# Prints the path of a package's file, installed or unpacked.
file_of() {
    local unpacked=${WORK:-}/packages$1

    [[ -e $unpacked ]] && echo "$unpacked" || echo "$1"
}

# apt-get update does not wait for another one to end; this does.
apt_update() {
    local attempt

    for attempt in {1..60}; do
        apt-get -qq update && return
        fuser -s /var/lib/apt/lists/lock 2>/dev/null || return
        sleep 2
    done
    return 1
}

# Makes WORK, an empty folder that is removed when the script ends. One build
# of a kind at a time; what a killed one left behind goes now. Makes the
# folder for the result, too.
open_work_folder() {
    local name=$1 target=$2

    umask 022
    mkdir -p "$CACHE_DIR/build" "$target"
    WORK=$CACHE_DIR/build/$name
    exec {WORK_LOCK}>"$WORK.lock"
    flock --nonblock "$WORK_LOCK" || {
        say "waiting for another build of the same image to end"
        flock "$WORK_LOCK"
    }
    rm -rf --one-file-system "$WORK"
    mkdir "$WORK"
    ISOLATED=
    trap clean_up EXIT
    trap 'exit 143' TERM
    trap 'exit 130' INT
    trap 'exit 129' HUP
}

# Ends what run_isolated runs, so that nothing writes into the folder any more:
# with the first process of a namespace the kernel ends all others, and
# unshare waits for that.
clean_up() {
    local first

    if [[ -n $ISOLATED ]]; then
        first=$(cat "/proc/$ISOLATED/task/$ISOLATED/children" 2>/dev/null) ||
            true
        # shellcheck disable=SC2086  # a blank follows the number
        kill -KILL ${first:-$ISOLATED} 2>/dev/null || true
        wait "$ISOLATED" 2>/dev/null || true
    fi
    rm -rf --one-file-system "$WORK"
}

# Runs a command with mounts and processes of its own: none of them is left
# when it ends, or when this script is killed. Options for unshare may be
# before the command.
isolate() {
    local status=0

    # In the background, because bash answers signals only while it waits.
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child \
        "$@" &
    ISOLATED=$!
    wait "$ISOLATED" || status=$?
    ISOLATED=
    return "$status"
}

# Runs a command isolated. Its output is kept for the case that it fails.
run_isolated() {
    local log=$WORK/command.log

    isolate "$@" >"$log" 2>&1 || {
        tail -n 30 "$log" >&2
        return 1
    }
}

# Sets MMDEBSTRAP to the command that installs Debian, with its first options.
choose_mmdebstrap() {
    MMDEBSTRAP=(
        mmdebstrap
        # Merged from the start: package usrmerge would bring all of Perl.
        --hook-dir="$(file_of /usr/share/mmdebstrap/hooks/merged-usr)"
    )
    # shellcheck disable=SC2016  # the variable is for the hook's shell
    is_true_root || MMDEBSTRAP+=(
        # fakeroot makes plain files of device nodes: use this machine's.
        --skip=chroot/mount/dev
        --setup-hook="mkdir -p \"\$1$LIBFAKEROOT_DIR\" &&
            cp \"\$LIBFAKEROOT\" \"\$1$LIBFAKEROOT_DIR\""
        --extract-hook='mount --rbind /dev "$1/dev"'
    )
}

# Prints the apt sources of a Debian release at the mirrors that this machine
# uses itself, or at Debian's own where it uses none.
debian_sources() {
    local release=$1 mirror security keyring

    keyring=$(file_of /usr/share/keyrings/debian-archive-keyring.gpg)
    mirror=$(mirror_of Debian)
    security=$(mirror_of Debian-Security)
    [[ -n $mirror ]] || {
        mirror=http://deb.debian.org/debian
        security=http://deb.debian.org/debian-security
    }
    echo "deb [signed-by=$keyring] $mirror $release main"
    [[ -z $security ]] ||
        echo "deb [signed-by=$keyring] $security $release-security main"
}

mirror_of() {
    # shellcheck disable=SC2016  # apt-get's own variables
    apt-get indextargets --format '$(REPO_URI)' \
        'Identifier: Packages' 'Origin: Debian' "Label: $1" | head -n 1
}

# Puts finished files to their place, each in one step.
publish() {
    local file=$1 target=$2

    chmod 0644 "$file"
    mv -T -- "$file" "$target.new"
    mv -T -- "$target.new" "$target"
    say "$target: $(stat -c %s "$target") bytes," \
        "sha256 $(sha256sum "$target" | cut -d ' ' -f 1)"
}
