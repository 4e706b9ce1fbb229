#!/bin/bash
# Makes a small virtual machine with an RDMA device in the folder $1: vmlinuz, initramfs.cpio, and qemu to run them. Packages are
# downloaded and unpacked; nothing is installed.
set -euo pipefail
sources=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/debs"
cd "$1"
work=$PWD
# The verbs programs. What the library itself needs is in the machine.
programs() {
    for program in client responder; do
        cc -std=gnu11 -O1 -Wall -Wextra -Werror -I headers/usr/include -o "$program" "$sources/$program.c" \
            guest/usr/lib/x86_64-linux-gnu/libibverbs.so.1 -Wl,--unresolved-symbols=ignore-in-shared-libs
    done
}
if [ built -nt "$sources/build.sh" ] && [ built -nt "$sources/init" ]; then
    programs
    exit 0
fi
rm -f built

apt=(apt-get -q -o DPkg::Lock::Timeout=120 -o APT::Sandbox::User=root)
kernel_package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ { print $2; exit }')
if [ -z "$kernel_package" ]; then
    "${apt[@]}" update >/dev/null
    kernel_package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
fi
release=${kernel_package#linux-image-}
host=(qemu-system-x86 qemu-system-common qemu-system-data seabios ipxe-qemu libbrlapi0.8 libcacard0 libcapstone4 libdaxctl1
    libepoxy0 libexecs0 libfdt1 libndctl6 libpmem1 librdmacm1 libslirp0 libspice-server1 libusb-1.0-0 libusbredirparser1
    libvdeplug2)
guest=(ibverbs-utils ibverbs-providers rdma-core libibverbs1 libnl-3-200 libnl-route-3-200 iproute2 libelf1 libbpf1 libmnl0
    libcap2 libxtables12 libtirpc3 busybox-static)
headers=(libibverbs-dev)
missing=()
for package in "$kernel_package" "${host[@]}" "${guest[@]}" "${headers[@]}"; do
    compgen -G "debs/${package}_*.deb" >/dev/null || missing+=("$package")
done
if ((${#missing[@]})); then
    (cd debs && "${apt[@]}" download "${missing[@]}") || {
        # A list that names packages which a point release has replaced.
        "${apt[@]}" update >/dev/null
        (cd debs && "${apt[@]}" download "${missing[@]}")
    }
fi

unpack() { # FOLDER PACKAGE...
    local folder=$1
    shift
    rm -rf "$folder"
    mkdir -p "$folder"
    for package; do dpkg -x "$(compgen -G "debs/${package}_*.deb" | head -n 1)" "$folder"; done
}
unpack qemu "${host[@]}"
unpack guest "${guest[@]}"
unpack headers "${headers[@]}"
rm -rf kernel
mkdir kernel
# The unpacked package has 400 MB; this is what is used of it.
modules=./lib/modules/$release/kernel
dpkg --fsys-tarfile "$(compgen -G "debs/${kernel_package}_*.deb" | head -n 1)" | tar -x -C kernel --wildcards \
    './boot/vmlinuz-*' "./lib/modules/$release/modules.*" "$modules/drivers/infiniband/core/*" \
    "$modules/drivers/infiniband/sw/rxe/*" "$modules/drivers/net/veth.ko" "$modules/drivers/virtio/*" "$modules/net/9p/*" \
    "$modules/fs/9p/*" "$modules/fs/netfs/*" "$modules/fs/fscache/*" "$modules/fs/configfs/*" \
    "$modules/net/ipv4/udp_tunnel.ko" "$modules/net/ipv6/ip6_udp_tunnel.ko" "$modules/net/sched/sch_netem.ko" \
    "$modules/crypto/crc32_generic.ko" "$modules/arch/x86/crypto/crc32-pclmul.ko"
busybox=$work/guest/bin/busybox
"$busybox" depmod -b "$work/kernel" "$release"

root=$work/root
libraries=$root/usr/lib/x86_64-linux-gnu
rm -rf "$root"
mkdir -p "$libraries/libibverbs" "$root"/{usr/bin,usr/sbin,usr/lib64,proc,sys,dev,tmp,run,etc/libibverbs.d,root,modules}
for link in bin sbin lib lib64; do ln -s "usr/$link" "$root/$link"; done
cp "$busybox" "$root/usr/bin/"
for applet in $("$busybox" --list); do [ -e "$root/usr/bin/$applet" ] || ln -s busybox "$root/usr/bin/$applet"; done
# Debian's busybox shell prefers its own applets to programs of the same name, and its `ip` knows no veth: dash is the shell.
rm -f "$root"/usr/bin/{sh,bash,ip,tc}
for tool in ip rdma tc; do cp "$(find guest -type f -name $tool -path '*bin/*' | head -n 1)" "$root/usr/bin/"; done
cp guest/usr/bin/ibv_devinfo "$root/usr/bin/"
cp /bin/dash /bin/bash "$root/usr/bin/"
ln -s dash "$root/usr/bin/sh"
echo "driver rxe" >"$root/etc/libibverbs.d/rxe.driver"
cp guest/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav*.so "$libraries/libibverbs/"
printf 'root:x:0:0:root:/root:/bin/sh\n' >"$root/etc/passwd"
printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
# The packages' libraries first, the host's C library and its like otherwise; and what Rust programs need.
LD_LIBRARY_PATH=$work/guest/usr/lib/x86_64-linux-gnu:$work/guest/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH
for file in "$root"/usr/bin/{ibv_devinfo,ip,rdma,tc,dash,bash} "$libraries"/libibverbs/*.so; do ldd "$file"; done |
    awk '/=> \// { print $3 } /^\t\/lib64/ { print $1 }' | sort -u | while read -r library; do
    case $library in
        /lib64/*) cp -L "$library" "$root/usr/lib64/" ;;
        *) cp -L "$library" "$libraries/" ;;
    esac
done
unset LD_LIBRARY_PATH
for library in libgcc_s.so.1 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1; do
    cp -Ln "/lib/x86_64-linux-gnu/$library" "$libraries/" 2>/dev/null || true
done

# Modules in the order in which they are loaded: each after those that it needs.
known=kernel/lib/modules/$release
add() { # NAME: a module, with what it needs before it
    local line path needed
    grep -q "/$1\.ko" "$known/modules.builtin" && return 0
    line=$(grep "/$1\.ko[^:]*:" "$known/modules.dep" | head -n 1)
    path=${line%%:*}
    grep -qx "$1" "$root/modules/order" 2>/dev/null && return 0
    for needed in ${line#*:}; do add "$(basename "${needed%%.ko*}")"; done
    cp "$known/$path" "$root/modules/$1.ko"
    grep -qx "$1" "$root/modules/order" 2>/dev/null || echo "$1" >>"$root/modules/order"
}
for module in virtio_pci 9pnet_virtio 9p crc32_generic rdma_rxe ib_uverbs veth sch_netem; do
    # Files are named with either sign.
    add $module || true
    [ -e "$root/modules/$module.ko" ] || add "${module//_/-}"
done
cp "$sources/init" "$root/init"
chmod 755 "$root/init"
(cd "$root" && find . | sort | "$busybox" cpio -o -H newc 2>/dev/null) >initramfs.cpio
cp kernel/boot/vmlinuz-"$release" vmlinuz
programs
touch built
