# The tests of './qemu.sh test'.
# shellcheck shell=bash
