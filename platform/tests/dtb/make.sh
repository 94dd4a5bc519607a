#!/bin/sh
# Makes the sample device trees anew: QEMU writes them, dtc takes the padding off (1 MiB each otherwise).
# Usage: make.sh QEMU-SYSTEM-AARCH64
set -eu
qemu=$1
cd "$(dirname "$0")"

# dump NAME MACHINE-OPTIONS QEMU-OPTIONS...
dump() {
    name=$1 machine=$2
    shift 2
    "$qemu" -M "virt,dtb-randomness=off,$machine,dumpdtb=$name.padded" -cpu max -nographic -nic none "$@" > /dev/null
    dtc -q -I dtb -O dtb -o "$name.dtb" "$name.padded"
    rm "$name.padded"
}

disk=$(mktemp)
trap 'rm -f "$disk"' EXIT
head -c 3000000 /dev/zero > "$disk"

dump virt-gicv2-1cpu gic-version=2 -m 128M
dump virt-gicv3-4cpu gic-version=3 -smp 4 -m 2G -kernel "$disk" -append "gate=por log=debug"
dump virt-64g-el2 gic-version=3,virtualization=on,memory-backend=ram \
    -object memory-backend-ram,id=ram,size=64G,reserve=off -m 64G
dump virt-numa gic-version=3 -smp 2 -m 2G \
    -object memory-backend-ram,id=m0,size=1G -numa node,memdev=m0,cpus=0 \
    -object memory-backend-ram,id=m1,size=1G -numa node,memdev=m1,cpus=1
dump virt-secure gic-version=3,secure=on -m 1G
dump virt-initrd gic-version=3 -m 1G -kernel "$disk" -initrd "$disk" -append x

# Two banks with a hole: 768 MiB at 1 GiB, 1 GiB at 2 GiB. QEMU describes no such machine, but with -m 2G it has that
# memory, so a kernel that is given this tree by a loader device instead of QEMU's own runs on it.
dump virt-two-banks gic-version=3 -m 2G
fdtput -t x virt-two-banks.dtb /memory@40000000 reg 0 40000000 0 30000000 0 80000000 0 40000000
