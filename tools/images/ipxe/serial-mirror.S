# SPDX-License-Identifier: Apache-2.0

# Shows on the first serial port what BIOS programs print on the VGA text
# screen, then goes on with isolinux.
#
# Debian's BIOS iPXE prints through INT 10h only, so "openstack console log
# show" would stay empty while a machine waits for its DHCP server. This is
# the boot image of the CD under BIOS: it leaves a handler for INT 10h at the
# top of conventional memory (which iPXE and isolinux respect) and starts
# isolinux from the sector that the build writes into the last four bytes.

        .code16
        .text

        .set    LOAD_ADDRESS, 0x7c00    # where the BIOS puts boot images
        .set    RUN_ADDRESS, 0x0600     # linked here (ld -Ttext 0x600)
        .set    BDA_COM1, 0x0400        # I/O port of the first serial port
        .set    BDA_MEMORY_KIB, 0x0413  # size of conventional memory
        .set    IVT_INT10, 0x10 * 4
        .set    SECTOR, 2048

        .globl  _start
_start:
        cli
        xorw    %ax, %ax
        movw    %ax, %ss
        movw    $LOAD_ADDRESS, %sp
        sti
        cld
        pushw   %es                     # es:di and dl are the BIOS's message
        pushw   %di                     # to a boot image: isolinux gets them
        pushw   %dx
        movw    %ax, %ds
        movw    %ax, %es
        movw    $LOAD_ADDRESS, %si      # make room for isolinux
        movw    $RUN_ADDRESS, %di
        movw    $(SECTOR / 2), %cx
        rep movsw
        ljmp    $0, $relocated

relocated:
        movw    BDA_COM1, %dx
        testw   %dx, %dx
        jz      start_isolinux          # no serial port: nothing to mirror to
        movw    %dx, port

        addw    $3, %dx                 # 115200 baud, 8 bits, no parity
        movb    $0x80, %al
        outb    %al, %dx
        movw    port, %dx
        movb    $1, %al
        outb    %al, %dx
        incw    %dx
        xorb    %al, %al
        outb    %al, %dx
        addw    $2, %dx
        movb    $0x03, %al
        outb    %al, %dx
        incw    %dx                     # request to send, terminal ready
        outb    %al, %dx

        movw    IVT_INT10, %ax
        movw    %ax, previous
        movw    IVT_INT10 + 2, %ax
        movw    %ax, previous + 2

        decw    BDA_MEMORY_KIB          # take 1 KiB for the handler
        movw    BDA_MEMORY_KIB, %ax
        shlw    $6, %ax                 # KiB to segment
        movw    %ax, %es
        movw    $handler, %si
        xorw    %di, %di
        movw    $(handler_end - handler), %cx
        rep movsb
        cli
        movw    $0, IVT_INT10
        movw    %es, IVT_INT10 + 2
        sti

start_isolinux:
        popw    %dx
        movw    isolinux_lba, %ax
        movw    %ax, packet_lba
        movw    isolinux_lba + 2, %ax
        movw    %ax, packet_lba + 2
        movw    $packet, %si
        movb    $0x42, %ah              # extended read from drive dl
        int     $0x13
        jc      failed
        popw    %di
        popw    %es
        ljmp    $0, $LOAD_ADDRESS

failed:
        movw    $message, %si
1:      lodsb
        testb   %al, %al
        jz      2f
        movw    $0x0007, %bx
        movb    $0x0e, %ah
        int     $0x10
        jmp     1b
2:      ljmp    $0xf000, $0xfff0        # reset: the next try may succeed

message:
        .asciz  "quintupleo rescue image: cannot read the CD, resetting\r\n"

        .balign 4
packet: .byte   16, 0
        .word   1                       # sectors; isolinux loads its own rest
        .word   LOAD_ADDRESS, 0
packet_lba:
        .long   0, 0

# INT 10h, copied to a segment of its own: sees "print character" (ah = 0Eh)
# pass by and leaves the work to the handler before it.
handler:
        cmpb    $0x0e, %ah
        jne     3f
        pushw   %ax
        pushw   %cx
        pushw   %dx
        movb    %al, %ah
        movw    %cs:(port - handler), %dx
        addw    $5, %dx
        xorw    %cx, %cx                # a port that is stuck costs a wait,
2:      inb     %dx, %al                # never a hang
        testb   $0x20, %al
        loopz   2b
        subw    $5, %dx
        movb    %ah, %al
        outb    %al, %dx
        popw    %dx
        popw    %cx
        popw    %ax
3:      ljmp    *%cs:(previous - handler)
port:   .word   0
previous:
        .long   0
handler_end:

        .org    SECTOR - 4
isolinux_lba:
        .long   0
