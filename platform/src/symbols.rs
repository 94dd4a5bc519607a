//! The kernel's own symbol table: which function an address lies in.
//!
//! `palisade-image` (in `tools/`) writes the table into the linked kernel, in a section reserved for it; the panic
//! handler reads it to name the frames of a backtrace. The reader trusts nothing: an empty, cut-off or overwritten
//! table gives "no table" or "no such symbol", never a panic, because it runs where the kernel is already broken.
//!
//! # Format
//! All numbers are little endian.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | [`MAGIC`] |
//! | 8..16 | `base`: the link address that offsets count from, the image's lowest address |
//! | 16..20 | `count`: number of entries |
//! | 20..24 | `names`: length of the name block in bytes |
//! | 24.. | `count` entries of [`ENTRY_LEN`] bytes: `start`, `size`, `name`, `name_len`, each a `u32` |
//! | then | the name block, UTF-8 without terminators |
//!
//! `start` is the function's first byte less `base`, `size` its length in bytes, `name` an offset into the name block
//! and `name_len` a length in bytes. Entries are sorted by `start` and do not overlap. What follows the name block
//! is ignored, so the table may lie in a section larger than itself.

/// First eight bytes of a table; the last one is the format's version.
pub const MAGIC: [u8; 8] = *b"PALSYMS\x01";

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 24;

/// Length of one entry in bytes.
pub const ENTRY_LEN: usize = 16;

/// A symbol table that lies in a byte slice.
#[derive(Clone, Copy, Debug)]
pub struct SymbolTable<'a> {
    base: u64,
    entries: &'a [u8],
    names: &'a [u8],
}

/// One entry of the table, as stored.
struct Entry {
    start: u32,
    size: u32,
    name: u32,
    name_len: u32,
}

impl<'a> SymbolTable<'a> {
    /// Reads the header of the table at the start of `bytes`.
    ///
    /// Gives `None` where there is no table (a kernel that `palisade-image` has not been run on holds zeros there)
    /// or where the lengths in its header do not fit `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (header, rest) = bytes.split_at_checked(HEADER_LEN)?;
        let (magic, fields) = header.split_first_chunk::<8>()?;
        let (base, lengths) = fields.split_first_chunk::<8>()?;
        if *magic != MAGIC {
            return None;
        }
        let entries_len = to_usize(word(lengths, 0)?)?.checked_mul(ENTRY_LEN)?;
        let (entries, rest) = rest.split_at_checked(entries_len)?;
        let names = rest.get(..to_usize(word(lengths, 1)?)?)?;
        Some(Self { base: u64::from_le_bytes(*base), entries, names })
    }

    /// Number of functions in the table.
    pub fn len(&self) -> usize {
        self.entries.len() / ENTRY_LEN
    }

    /// Whether the table names no function at all.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Finds the function that holds `addr`, a link (virtual) address.
    ///
    /// Gives its name and the offset of `addr` from its first byte, or `None` where `addr` lies in no function that
    /// the table knows.
    pub fn lookup(&self, addr: u64) -> Option<(&'a str, u64)> {
        let offset = u32::try_from(addr.checked_sub(self.base)?).ok()?;
        let entry = self.entry(self.entries_up_to(offset).checked_sub(1)?)?;
        let within = offset.checked_sub(entry.start)?;
        if within >= entry.size {
            return None;
        }
        let name = self.names.get(to_usize(entry.name)?..)?.get(..to_usize(entry.name_len)?)?;
        Some((core::str::from_utf8(name).ok()?, u64::from(within)))
    }

    /// Number of leading entries that start at `offset` or below it.
    fn entries_up_to(&self, offset: u32) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(middle) {
                Some(entry) if entry.start <= offset => low = middle + 1,
                _ => high = middle,
            }
        }
        low
    }

    fn entry(&self, index: usize) -> Option<Entry> {
        let raw = self.entries.get(index.checked_mul(ENTRY_LEN)?..)?.get(..ENTRY_LEN)?;
        Some(Entry { start: word(raw, 0)?, size: word(raw, 1)?, name: word(raw, 2)?, name_len: word(raw, 3)? })
    }
}

/// The `index`th little-endian `u32` of `bytes`.
fn word(bytes: &[u8], index: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(4 * index..)?.first_chunk::<4>()?))
}

/// A length from the table as a length on this machine.
fn to_usize(length: u32) -> Option<usize> {
    usize::try_from(length).ok()
}

#[cfg(test)]
mod tests {
    use std::string::String;
    use std::vec::Vec;

    use super::*;

    const BASE: u64 = 0xffff_ffff_8000_0000;

    /// A table of `(start, size, name)` as the tool would write it, but without any check of its own.
    fn table(functions: &[(u32, u32, &str)]) -> Vec<u8> {
        let mut names = String::new();
        let mut entries = Vec::new();
        for (start, size, name) in functions {
            for field in [*start, *size, names.len() as u32, name.len() as u32] {
                entries.extend(field.to_le_bytes());
            }
            names.push_str(name);
        }
        let mut out = Vec::from(MAGIC);
        out.extend(BASE.to_le_bytes());
        out.extend((functions.len() as u32).to_le_bytes());
        out.extend((names.len() as u32).to_le_bytes());
        out.extend(entries);
        out.extend(names.bytes());
        out
    }

    const FUNCTIONS: [(u32, u32, &str); 3] =
        [(0x40, 0x10, "_start"), (0x50, 0x20, "palisade::main"), (0x100, 4, "palisade::mm::last")];

    #[test]
    fn finds_first_middle_and_last_byte_of_each_function() {
        let bytes = table(&FUNCTIONS);
        let symbols = SymbolTable::parse(&bytes).unwrap();
        assert_eq!(symbols.len(), 3);
        for (start, size, name) in FUNCTIONS {
            for offset in [0, size / 2, size - 1] {
                let found = symbols.lookup(BASE + u64::from(start + offset));
                assert_eq!(found, Some((name, u64::from(offset))));
            }
        }
    }

    #[test]
    fn addresses_outside_every_function_have_no_name() {
        let bytes = table(&FUNCTIONS);
        let symbols = SymbolTable::parse(&bytes).unwrap();
        for addr in [0, BASE - 1, BASE, BASE + 0x3f, BASE + 0x70, BASE + 0x104, BASE + 0x7fff_ffff, u64::MAX] {
            assert_eq!(symbols.lookup(addr), None, "{addr:#x}");
        }
    }

    #[test]
    fn a_larger_section_than_the_table_is_fine_and_a_blank_one_is_no_table() {
        let mut bytes = table(&FUNCTIONS);
        bytes.resize(4096, 0);
        assert!(SymbolTable::parse(&bytes).unwrap().lookup(BASE + 0x50).is_some());
        assert!(SymbolTable::parse(&[0; 4096]).is_none());
        assert!(SymbolTable::parse(&[]).is_none());
    }

    #[test]
    fn an_empty_table_finds_nothing() {
        let bytes = table(&[]);
        let symbols = SymbolTable::parse(&bytes).unwrap();
        assert!(symbols.is_empty());
        assert_eq!(symbols.lookup(BASE), None);
    }

    #[test]
    fn every_cut_is_refused() {
        let bytes = table(&FUNCTIONS);
        for length in 0..bytes.len() {
            assert!(SymbolTable::parse(&bytes[..length]).is_none(), "{length}");
        }
    }

    #[test]
    fn garbage_never_panics() {
        let good = table(&FUNCTIONS);
        for position in 0..good.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = good.clone();
                bytes[position] = value;
                if let Some(symbols) = SymbolTable::parse(&bytes) {
                    for addr in [0, BASE, BASE + 0x45, BASE + 0x60, BASE + 0x102, BASE + 0x7fff_ffff, u64::MAX] {
                        let _ = symbols.lookup(addr);
                    }
                }
            }
        }
    }

    #[test]
    fn a_name_that_is_not_utf8_is_no_name() {
        let mut bytes = table(&[(0, 4, "x")]);
        *bytes.last_mut().unwrap() = 0xff;
        assert_eq!(SymbolTable::parse(&bytes).unwrap().lookup(BASE), None);
    }
}
