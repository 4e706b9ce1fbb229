#!/bin/bash
# run.sh MACHINE SHARE SECONDS COMMAND: runs a shell command in the machine that build.sh made in the folder MACHINE. The folder SHARE
# is seen there, read-only, at the same path. Output and exit status are the command's; 125: the machine did not come up.
set -euo pipefail
machine=$1 share=$2 seconds=$3 command=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/job"
printf 'SHARE=%q\nSECONDS_LEFT=%q\n' "$share" "$seconds" >"$work/job/settings"
printf '%s\n' "$command" >"$work/job/command"
(cd "$work" && printf 'job\njob/settings\njob/command\n' | "$machine/guest/bin/busybox" cpio -o -H newc 2>/dev/null) >"$work/job.cpio"
cat "$machine/initramfs.cpio" "$work/job.cpio" >"$work/initrd"
libraries=$machine/qemu/usr/lib/x86_64-linux-gnu
share_options=local,id=share,path=$share,security_model=none,multidevs=remap,readonly=on
# Emulated: a nested /dev/kvm is slower. Its time stamp counter is miscalibrated where virtual processors are preempted.
tools=$machine/guest/usr/lib/x86_64-linux-gnu:$machine/guest/lib/x86_64-linux-gnu
LD_LIBRARY_PATH=$libraries:$machine/qemu/lib/x86_64-linux-gnu:$tools QEMU_MODULE_DIR=$libraries/qemu \
    timeout -k 5 $((seconds + 90)) "$machine/qemu/usr/bin/qemu-system-x86_64" \
    -L "$machine/qemu/usr/share/qemu" -L "$machine/qemu/usr/share/seabios" -machine q35 -accel tcg,thread=multi -cpu max -smp 1 \
    -m 768M -nodefaults -no-user-config -display none -no-reboot -kernel "$machine/vmlinuz" -initrd "$work/initrd" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr no_timer_check random.trust_cpu=on clocksource=hpet tsc=unstable" \
    -serial "file:$work/console" -chardev stdio,id=out,signal=off -serial chardev:out \
    -fsdev "$share_options" -device virtio-9p-pci,fsdev=share,mount_tag=share </dev/null >"$work/out" 2>"$work/qemu" || true
grep -av '^@@EXIT ' "$work/out" | tr -d '\r' || true
status=$(sed -n 's/^@@EXIT \([0-9]*\).*/\1/p' "$work/out" | tail -n 1)
if [ -z "$status" ]; then
    tail -n 20 "$work/console" "$work/qemu" >&2 || true
    exit 125
fi
exit "$status"
