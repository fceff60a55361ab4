# SPDX-License-Identifier: Apache-2.0
#
# Makes images of whole disks with a Debian that boots under BIOS and UEFI.
# Nothing is mounted for it. Sourced by builders after common.sh, never run.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2153  # what builders use, and what they set

DEBIAN_FILES=$TOOLS/images/debian
DISK_TOOLS=(
    mmdebstrap debian-archive-keyring e2fsprogs gdisk mtools dosfstools
    grub-common grub-pc-bin grub-efi-amd64-bin
)
# What each of them is made of; builders add to it.
PACKAGES=(
    dbus e2fsprogs init iproute2 kmod linux-image-cloud-amd64 login mount
    netbase openssh-server passwd procps systemd-resolved udev usr-is-merged
    util-linux zstd
)

# Arguments for tune2fs of the root file system.
ROOT_TUNING=()

# Partitions, in sectors of 512 bytes: the first start where all tools align.
BIOS_START=2048
BIOS_SECTORS=2048
ESP_START=$(( BIOS_START + BIOS_SECTORS ))
ESP_SECTORS=16384
ROOT_START=$(( ESP_START + ESP_SECTORS ))
# The second copy of the partition table, and the end of the last MiB.
TABLE_SECTORS=2048

GRUB_MODULES=(
    part_gpt ext2 search_fs_uuid normal configfile linux serial terminal test
)

# Makes in $WORK/files what an image has on top of Debian's packages: what all
# have, and what is in the folder of the image.
make_own_files() {
    local files=$WORK/files

    mkdir "$files"
    cp -rT "$DEBIAN_FILES/root" "$files"
    cp -rT "$FILES/root" "$files"
    mkdir -p "$files/boot/grub"
    sed "s/@ROOT_UUID@/$ROOT_UUID/" "$DEBIAN_FILES/grub.cfg" \
        >"$files/boot/grub/grub.cfg"
    echo "UUID=$ROOT_UUID / ext4 x-systemd.growfs,errors=remount-ro 0 1" \
        >"$files/etc/fstab"
    chmod -R u=rwX,go=rX "$files"
}

# Makes the files of the root file system in $WORK/root.
install_debian() {
    local sources packages

    mapfile -t sources < <(debian_sources "$DEBIAN_RELEASE")
    packages=$(IFS=, && echo "${PACKAGES[*]}")
    # Our own files are there before the kernel, whose initramfs they shape.
    export WORK
    choose_mmdebstrap
    # shellcheck disable=SC2016  # the variables are for the hook's shell
    run_isolated "${MMDEBSTRAP[@]}" --variant=apt --include="$packages" \
        --dpkgopt="$DEBIAN_FILES/dpkg.cfg" \
        --aptopt='Acquire::Languages "none"' \
        --essential-hook='cp -rT "$WORK/files" "$1"' \
        "$DEBIAN_RELEASE" "$WORK/root" "${sources[@]}" ||
        die "mmdebstrap could not install Debian $DEBIAN_RELEASE;" \
            "see its messages above."
}

# Turns services on, those of the arguments, and off, and leaves nothing that
# must differ between machines.
configure_debian() {
    local root=$WORK/root

    run_isolated chroot "$root" systemctl --quiet enable \
        systemd-networkd.service systemd-resolved.service "$@" ||
        die "systemctl could not enable the services of the image."
    run_isolated chroot "$root" systemctl --quiet disable \
        systemd-networkd-wait-online.service apt-daily.timer \
        apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service ||
        die "systemctl could not disable services of the image."
    rm -f "$root"/etc/ssh/ssh_host_* "$root/usr/lib/udev/hwdb.bin" \
        "$root"/var/log/*.log "$root"/var/log/apt/* "$root"/*.old \
        "$root"/var/cache/debconf/*-old "$root"/var/lib/dpkg/*-old
    ln -sf ../run/systemd/resolve/stub-resolv.conf "$root/etc/resolv.conf"
    : >"$root/etc/machine-id"
}

# Features are named one by one: GRUB and Debian must know each of them.
make_root_file_system() {
    local features used size

    rm -rf "$WORK/root$LIBFAKEROOT_DIR"
    features=none,has_journal,ext_attr,resize_inode,dir_index,filetype
    features+=,extent,64bit,flex_bg,sparse_super,large_file,huge_file
    features+=,dir_nlink,extra_isize,metadata_csum
    used=$(du -sxm "$WORK/root" | cut -f 1)
    size=$(( used * 110 / 100 + 24 ))
    mke2fs -q -t ext4 -O "$features" -b 4096 -I 256 \
        -i 8192 -m 1 -J size=8 -U "$ROOT_UUID" -L debian -d "$WORK/root" \
        "$WORK/root.ext4" "${size}M" >"$WORK/command.log" 2>&1 || {
        cat "$WORK/command.log" >&2
        die "mke2fs could not make the root file system."
    }
    (( ${#ROOT_TUNING[@]} == 0 )) ||
        tune2fs "${ROOT_TUNING[@]}" "$WORK/root.ext4" >/dev/null ||
        die "tune2fs could not tune the root file system."
    ROOT_SECTORS=$(( size * 2048 ))
}

# Prints GRUB for a platform on standard output.
make_grub() {
    local platform=$1
    shift

    cat >"$WORK/grub-start.cfg" <<EOF
search.fs_uuid $ROOT_UUID root
configfile (\$root)/boot/grub/grub.cfg
EOF
    grub-mkimage -O "$platform" -d "$(file_of "/usr/lib/grub/$platform")" \
        -p /boot/grub -c "$WORK/grub-start.cfg" "${GRUB_MODULES[@]}" "$@" ||
        die "grub-mkimage could not make GRUB for $platform."
}

make_efi_system_partition() {
    make_grub x86_64-efi >"$WORK/BOOTX64.EFI"
    mkfs.fat -C -n ESP "$WORK/esp.fat" $(( ESP_SECTORS / 2 )) >/dev/null
    mmd -i "$WORK/esp.fat" ::/EFI ::/EFI/BOOT
    mcopy -i "$WORK/esp.fat" "$WORK/BOOTX64.EFI" ::/EFI/BOOT/BOOTX64.EFI
}

# Writes a number as 8 bytes, least significant first, into a file.
patch_number() {
    local file=$1 offset=$2 number=$3 bytes='' i

    for i in 0 8 16 24 32 40 48 56; do
        bytes+=$(printf '\\x%02x' $(( number >> i & 255 )))
    done
    printf '%b' "$bytes" |
        dd of="$file" bs=1 seek="$offset" conv=notrunc status=none
}

write_sectors() {
    local file=$1 start=$2

    dd if="$file" of="$WORK/disk.raw" bs=1M conv=notrunc,sparse status=none \
        oflag=seek_bytes seek=$(( start * 512 ))
}

# What grub-install would do, on files: boot.img is told where the first
# sector of core.img is, and that one where the second is.
make_bios_grub() {
    make_grub i386-pc biosdisk >"$WORK/core.img"
    [[ $(stat -c %s "$WORK/core.img") -le $(( BIOS_SECTORS * 512 )) ]] ||
        die "GRUB for BIOS is larger than its partition."
    cp "$(file_of /usr/lib/grub/i386-pc/boot.img)" "$WORK/boot.img"
    patch_number "$WORK/boot.img" $(( 0x5c )) "$BIOS_START"
    patch_number "$WORK/core.img" $(( 0x1f4 )) $(( BIOS_START + 1 ))
}

# The root partition is the last, so that it can grow.
make_disk() {
    local disk=$WORK/disk.raw

    truncate -s $(( (ROOT_START + ROOT_SECTORS + TABLE_SECTORS) * 512 )) \
        "$disk"
    sgdisk "$disk" --clear \
        --new "1:$BIOS_START:+$BIOS_SECTORS" --typecode 1:ef02 \
        --change-name 1:BIOS \
        --new "2:$ESP_START:+$ESP_SECTORS" --typecode 2:ef00 \
        --change-name 2:ESP \
        --new "3:$ROOT_START:+$ROOT_SECTORS" --typecode 3:8304 \
        --change-name 3:root >/dev/null ||
        die "sgdisk could not make the partition table."
    # The partition table's sector ends with the table of old.
    head -c 440 "$WORK/boot.img" >"$WORK/boot.code"
    write_sectors "$WORK/boot.code" 0
    write_sectors "$WORK/core.img" "$BIOS_START"
    write_sectors "$WORK/esp.fat" "$ESP_START"
    write_sectors "$WORK/root.ext4" "$ROOT_START"
}

# Makes $WORK/disk.raw of $WORK/root.
pack_disk() {
    make_root_file_system
    make_efi_system_partition
    make_bios_grub
    make_disk
}
