# The options of qemu.sh, and the kernel's bootargs that some of them become.
# shellcheck shell=bash

default_options() {
    SMP=1 MEMORY=2G QEMU_ASKED='' CPU=max TIME=icount JSON='' LIMIT=600 FORMAT=image BANKS='' BANK_NODES=''
    GDB='' KVM='' EL2='' MACHINE_EXTRA=() BOOTARGS=()
}

usage_error() { die $EXIT_USAGE "$* ('./qemu.sh --help' lists all)"; }

# one_of OPTION VALUE ALLOWED...
one_of() {
    local option=$1 value=$2 allowed
    shift 2
    for allowed; do
        if [[ $value == "$allowed" ]]; then return; fi
    done
    usage_error "$option $value: must be one of $*"
}

# a_number OPTION VALUE LEAST MOST
a_number() {
    if ! [[ $2 =~ ^[0-9]{1,9}$ ]] || ((10#$2 < $3 || 10#$2 > $4)); then
        usage_error "$1 $2: must be a whole number from $3 to $4"
    fi
}

# a_size OPTION VALUE UNITS
a_size() { [[ $2 =~ ^[1-9][0-9]{0,8}[$3]$ ]] || usage_error "$1 $2: must be a size such as 512M or 2G"; }

a_word() { [[ $2 =~ ^[A-Za-z0-9_:.,+-]+$ ]] || usage_error "$1 '$2': must be a word or a list with commas and no spaces"; }

parse_options() {
    local option value
    while (($# > 0)); do
        option=$1 value=''
        shift
        case $option in
            --gdb) GDB=yes && continue ;;
            --kvm) KVM=yes && continue ;;
            --el2) EL2=yes && continue ;;
            --smp | --memory | --qemu | --cpu | --gate | --bench | --size | --samples | --json | --time | --log | --append | \
                --timeout | --machine-opt | --boot | --banks | --bank-nodes)
                (($# > 0)) || usage_error "$option: needs a value"
                value=$1
                shift
                ;;
            *) usage_error "unknown option $option" ;;
        esac
        take_option "$option" "$value"
    done
    check_options
}

take_option() {
    local option=$1 value=$2 word
    case $option in
        --smp) a_number "$option" "$value" 1 512 && SMP=$value ;;
        --memory) a_size "$option" "$value" MG && MEMORY=$value ;;
        --banks | --bank-nodes)
            BANKS=$value BANK_NODES=''
            [[ $option == --banks ]] || BANK_NODES=--node-per-bank
            ;;
        --qemu) QEMU_ASKED=$value ;;
        --cpu) a_word "$option" "${value//=/}" && CPU=$value ;;
        --machine-opt) MACHINE_EXTRA+=("$value") ;;
        --boot) one_of "$option" "$value" image elf && FORMAT=$value ;;
        --json) JSON=$value ;;
        --timeout) a_number "$option" "$value" 1 86400 && LIMIT=$value ;;
        --time) one_of "$option" "$value" icount host && TIME=$value && BOOTARGS+=("time=$value") ;;
        --gate) one_of "$option" "$value" auto por mock none && BOOTARGS+=("gate=$value") ;;
        --bench) a_word "$option" "$value" && BOOTARGS+=("bench=$value") ;;
        --size) a_size "$option" "$value" KMG && BOOTARGS+=("size=$value") ;;
        --samples) a_number "$option" "$value" 1 100000 && BOOTARGS+=("samples=$value") ;;
        --log) one_of "$option" "$value" off error warn info debug trace && BOOTARGS+=("log=$value") ;;
        --append)
            for word in $value; do
                BOOTARGS+=("$word")
            done
            ;;
    esac
}

readonly RAM_BASE=0x40000000

# bytes SIZE: a size with a unit as a number.
bytes() {
    local -A unit=([K]=1024 [M]=$((1 << 20)) [G]=$((1 << 30)))
    echo $((${1%[KMG]} * unit[${1: -1}]))
}

check_banks() {
    local bank banks base end=$((RAM_BASE + $(bytes "$MEMORY")))
    [[ $FORMAT == image ]] || usage_error "--boot elf: not together with memory banks, which only an Image can bring along"
    IFS=, read -ra banks <<<"$BANKS"
    for bank in "${banks[@]}"; do
        [[ $bank =~ ^(0x[0-9a-f]{1,15}):([1-9][0-9]{0,8}[KMG])$ ]] ||
            usage_error "memory bank $bank: must be BASE:SIZE such as 0x40000000:512M"
        base=$((BASH_REMATCH[1]))
        ((base >= RAM_BASE && base + $(bytes "${BASH_REMATCH[2]}") <= end)) ||
            usage_error "memory bank $bank: must lie in the RAM of --memory $MEMORY, which begins at $RAM_BASE"
    done
}

# What only shows when all options are known, and before anything is built.
check_options() {
    if [[ -n $KVM ]]; then
        [[ $(uname -m) == aarch64 ]] ||
            usage_error "--kvm: this host is $(uname -m), and KVM runs the kernel on arm64 hosts only; leave it out"
        [[ -w /dev/kvm ]] || usage_error "--kvm: /dev/kvm is not there or not writable; load KVM, or join the group that owns it"
        [[ -z $EL2 ]] || usage_error "--el2: not together with --kvm"
        [[ " ${BOOTARGS[*]} " != *" time=icount "* ]] ||
            usage_error "--time icount: not together with --kvm, which runs against the clock"
        [[ $TIME == host ]] || BOOTARGS+=("time=host")
        TIME=host CPU=host
    fi
    [[ -z $BANKS ]] || check_banks
    if [[ -n $JSON ]]; then
        { : >"$JSON"; } 2>/dev/null || usage_error "--json $JSON: cannot be written; give a file in a folder that exists"
    fi
}
