//! The kernel's own symbol table, in the section that `palisade-image` fills after the kernel is linked.

use core::arch::global_asm;

use platform::symbols::SymbolTable;

/// Bytes reserved for the table; `palisade-image` says how many it needs where these are too few.
const RESERVED: usize = 512 * 1024;

// Reserved by the assembler and not by a Rust `static`: the compiler would take the contents of a constant `static`
// for known, and could answer every look-up from the zeros that it saw.
global_asm!(
    ".pushsection .symbols, \"a\", @progbits",
    ".balign 8",
    ".global palisade_symbols",
    ".type palisade_symbols, @object",
    ".size palisade_symbols, {reserved}",
    "palisade_symbols:",
    ".zero {reserved}",
    ".popsection",
    reserved = const RESERVED,
);

// SAFETY: the assembly above defines the symbol with this length, in a section that is mapped read-only, and any
// bytes are a valid `[u8]`.
unsafe extern "C" {
    safe static palisade_symbols: [u8; RESERVED];
}

/// The symbol table, or `None` in a kernel that `palisade-image` has not been run on.
///
/// Its addresses are link addresses: of code that still runs at its load address it knows nothing.
pub fn table() -> Option<SymbolTable<'static>> {
    SymbolTable::parse(&palisade_symbols)
}
