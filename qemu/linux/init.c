/*
 * The only process of a Linux arm64 guest: shows that the kernel offers protection keys, and that they do what they say.
 * Prints a line per check and "pkeys: N checks, N wrong", and switches the machine off. No C library; README.md says how to
 * build and boot it.
 */

typedef unsigned long u64;
typedef long i64;

enum {
    SYS_WRITE = 64,
    SYS_EXIT_GROUP = 94,
    SYS_CLOCK_GETTIME = 113,
    SYS_RT_SIGACTION = 134,
    SYS_REBOOT = 142,
    SYS_CLONE = 220,
    SYS_MMAP = 222,
    SYS_WAIT4 = 260,
    SYS_PKEY_MPROTECT = 288,
    SYS_PKEY_ALLOC = 289,
    SYS_PKEY_FREE = 290,
};

enum { SIGCHLD = 17, SIGSEGV = 11, SA_SIGINFO = 4, SEGV_PKUERR = 4, EFAULT = 14 };
enum { PROT_RWX = 7, MAP_PRIVATE_ANONYMOUS = 0x22, PAGE = 4096 };
/* Of an auxiliary vector entry: the second word of hardware capabilities, whose bit 63 is HWCAP2_POE. */
enum { AT_HWCAP2 = 26, HWCAP2_POE_BIT = 63 };
/* Permissions of a POR_EL0 field (Arm ARM D24.2, "POR_EL0"). */
enum { POR_NONE = 0, POR_R = 1, POR_X = 2, POR_RW = 5, POR_RWX = 7 };
/* How a child ends: well, at a fault that a key caused (the signal handler adds si_code), or where a call gave EFAULT. */
enum { ENDED_WELL = 0, HANDLER = 100, KEY_FAULT = HANDLER + SEGV_PKUERR };

static u64 checks, wrong;

static i64 call(i64 number, i64 a, i64 b, i64 c, i64 d, i64 e)
{
    register i64 x8 __asm__("x8") = number;
    register i64 x0 __asm__("x0") = a;
    register i64 x1 __asm__("x1") = b;
    register i64 x2 __asm__("x2") = c;
    register i64 x3 __asm__("x3") = d;
    register i64 x4 __asm__("x4") = e;
    register i64 x5 __asm__("x5") = 0;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory", "cc");
    return x0;
}

static void print(const char *text)
{
    i64 length = 0;
    while (text[length])
        length++;
    call(SYS_WRITE, 1, (i64)text, length, 0, 0);
}

static void print_number(u64 value)
{
    char text[21], *at = text + 20;
    *at = 0;
    do
        *--at = '0' + value % 10;
    while (value /= 10);
    print(at);
}

static void check(const char *what, u64 seen, u64 expected)
{
    checks++;
    print(seen == expected ? "ok    " : "WRONG ");
    print(what);
    if (seen != expected) {
        wrong++;
        print(": ");
        print_number(seen);
        print(" instead of ");
        print_number(expected);
    }
    print("\n");
}

static u64 read_por(void)
{
    u64 value;
    __asm__ volatile("mrs %0, S3_3_C10_C2_4" : "=r"(value));
    return value;
}

static void write_por(u64 value)
{
    __asm__ volatile("msr S3_3_C10_C2_4, %0\n\tisb" ::"r"(value) : "memory");
}

static void on_fault(int signal, int *info, void *context)
{
    (void)signal, (void)context;
    call(SYS_EXIT_GROUP, HANDLER + info[2], 0, 0, 0, 0);
}

/* The exit code of a child that does this to the page. */
static int child(void (*act)(volatile u64 *), volatile u64 *page)
{
    struct {
        void (*handler)(int, int *, void *);
        u64 flags, mask;
    } action = { on_fault, SA_SIGINFO, 0 };
    int status = 0;
    i64 pid = call(SYS_CLONE, SIGCHLD, 0, 0, 0, 0);

    if (pid == 0) {
        call(SYS_RT_SIGACTION, SIGSEGV, (i64)&action, 0, 8, 0);
        act(page);
        call(SYS_EXIT_GROUP, ENDED_WELL, 0, 0, 0, 0);
    }
    call(SYS_WAIT4, pid, (i64)&status, 0, 0, 0);
    return (status & 0x7f) ? status & 0x7f : status >> 8 & 0xff;
}

static void load(volatile u64 *page) { (void)*page; }
static void store(volatile u64 *page) { *page = 1; }
static void run(volatile u64 *page) { ((void (*)(void))(u64)page)(); }
/* The kernel stores there on the process's behalf. */
static void store_by_kernel(volatile u64 *page)
{
    call(SYS_EXIT_GROUP, -call(SYS_CLOCK_GETTIME, 0, (i64)page, 0, 0, 0), 0, 0, 0, 0);
}

static void put_return(volatile u64 *page)
{
    *page = 0xd65f03c0; /* RET */
    __asm__ volatile("dc cvau, %0\n\tdsb ish\n\tic ivau, %0\n\tdsb ish\n\tisb" ::"r"(page) : "memory");
}

static void check_keys(volatile u64 *page)
{
    i64 key = call(SYS_PKEY_ALLOC, 0, 0, 0, 0, 0);
    u64 others;

    check("pkey_alloc gives a key other than 0", key > 0, 1);
    check("pkey_mprotect", call(SYS_PKEY_MPROTECT, (i64)page, PAGE, PROT_RWX, key, 0), 0);
    others = read_por() & ~(15UL << 4 * key);

    write_por(others | (u64)POR_RWX << 4 * key);
    put_return(page);
    check("key RWX: load", child(load, page), ENDED_WELL);
    check("key RWX: store", child(store, page), ENDED_WELL);
    check("key RWX: fetch", child(run, page), ENDED_WELL);
    write_por(others | (u64)POR_R << 4 * key);
    check("key R: load", child(load, page), ENDED_WELL);
    check("key R: store is SEGV_PKUERR", child(store, page), KEY_FAULT);
    check("key R: fetch is SEGV_PKUERR", child(run, page), KEY_FAULT);
    check("key R: a system call's store is EFAULT", child(store_by_kernel, page), EFAULT);
    write_por(others | (u64)POR_X << 4 * key);
    check("key X: load is SEGV_PKUERR", child(load, page), KEY_FAULT);
    check("key X: fetch", child(run, page), ENDED_WELL);
    write_por(others | (u64)POR_NONE << 4 * key);
    check("key without permissions: load is SEGV_PKUERR", child(load, page), KEY_FAULT);
    check("key without permissions: fetch is SEGV_PKUERR", child(run, page), KEY_FAULT);
    check("another page", child(store, page + PAGE / sizeof(u64)), ENDED_WELL);

    u64 lost = 0;
    for (u64 i = 0; i < 200000; i++) {
        write_por(others | (u64)POR_RW << 4 * key);
        *page = i;
        write_por(others | (u64)POR_R << 4 * key);
        lost += *page != i;
    }
    check("400000 writes of POR_EL0, with interrupts between", lost, 0);
    check("after them: store is SEGV_PKUERR", child(store, page), KEY_FAULT);
    check("pkey_free", call(SYS_PKEY_FREE, key, 0, 0, 0, 0), 0);
}

__attribute__((used)) static void start(u64 *stack)
{
    u64 *at = stack + 1 + stack[0] + 1, capabilities = 0;

    while (*at++)
        ;
    for (; at[0]; at += 2)
        if (at[0] == AT_HWCAP2)
            capabilities = at[1];
    check("HWCAP2_POE", capabilities >> HWCAP2_POE_BIT, 1);
    if (capabilities >> HWCAP2_POE_BIT) {
        check("POR_EL0 at exec: key 0 is RWX", read_por() & 15, POR_RWX);
        check_keys((volatile u64 *)call(SYS_MMAP, 0, 2 * PAGE, PROT_RWX, MAP_PRIVATE_ANONYMOUS, -1));
    }
    print("pkeys: ");
    print_number(checks);
    print(" checks, ");
    print_number(wrong);
    print(" wrong\n");
    call(SYS_REBOOT, 0xfee1dead, 672274793, 0x4321fedc, 0, 0);
    for (;;)
        ;
}

__asm__(".globl _start\n_start: mov x0, sp\n\tbl start\n");
