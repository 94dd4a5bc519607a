//! Picking the kernel's functions out of its ELF symbols, and writing the table that `platform::symbols` reads.

use std::collections::HashMap;

use platform::symbols::{ENTRY_LEN, HEADER_LEN, MAGIC};
use thiserror::Error;

/// A function's link addresses and its name as people write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Address of its first byte.
    pub start: u64,
    /// Length in bytes, at least one.
    pub size: u64,
    /// Demangled, without the hash.
    pub name: String,
}

/// A symbol that may name a function, as the ELF has it.
#[derive(Clone, Debug)]
pub struct Candidate<'n> {
    /// Address the symbol stands for.
    pub start: u64,
    /// Length in bytes that the ELF states; zero, as with most assembly labels, where it states none.
    pub size: u64,
    /// Whether the ELF calls it a function (`STT_FUNC`); labels of assembly mostly have no type.
    pub is_function: bool,
    /// Address after the end of the section it lies in.
    pub section_end: u64,
    /// Name as the ELF has it.
    pub name: &'n str,
}

/// Why a table cannot be written.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SymtabError {
    /// A function lies further from the image's base than the table's 32-bit offsets reach.
    #[error("function {name} at {start:#x} is out of the 4 GiB after the image base {base:#x}")]
    TooFar {
        /// The function's name.
        name: String,
        /// Its address.
        start: u64,
        /// The lowest address of the image.
        base: u64,
    },
    /// A count or the block of names is longer than 32 bits can say.
    #[error("{0} bytes of entries or names are more than the table's format can hold")]
    TooLong(usize),
}

/// Turns symbols into functions that are sorted and do not overlap.
///
/// Of several symbols at one address the best one stays: a typed one before a label, a sized one before an unsized.
/// A label inside a function is dropped: it marks a place in the function and is not the function's name. A symbol
/// without a size reaches to the next one, or to the end of its section.
pub fn functions(mut candidates: Vec<Candidate<'_>>) -> Vec<Function> {
    candidates.retain(|symbol| {
        // Mapping symbols (`$x`, `$d`) and assembler-local labels name no code.
        let is_marker = symbol.name.is_empty() || symbol.name.starts_with('$') || symbol.name.starts_with(".L");
        !is_marker && symbol.start < symbol.section_end
    });
    candidates.sort_by_key(|symbol| (symbol.start, !symbol.is_function, symbol.size == 0, symbol.name));
    candidates.dedup_by_key(|symbol| symbol.start);
    let mut function_end = 0;
    candidates.retain(|symbol| {
        if symbol.is_function {
            function_end = symbol.start.saturating_add(symbol.size);
        }
        symbol.is_function || symbol.start >= function_end
    });
    let next_starts = candidates.iter().skip(1).map(|symbol| symbol.start).chain([u64::MAX]);
    candidates.iter().zip(next_starts).map(|(symbol, next)| function(symbol, next)).collect()
}

/// The function that `symbol` names, cut off where the next one starts.
fn function(symbol: &Candidate<'_>, next: u64) -> Function {
    let end = match symbol.size {
        0 => symbol.section_end,
        size => symbol.start.saturating_add(size),
    };
    Function {
        start: symbol.start,
        size: end.min(next) - symbol.start,
        name: format!("{:#}", rustc_demangle::demangle(symbol.name)),
    }
}

/// Writes the table of `functions`, which must be sorted by address, with offsets counted from `base`.
///
/// # Errors
/// A function below `base` or 4 GiB above it, or more names than the format holds.
pub fn encode(base: u64, functions: &[Function]) -> Result<Vec<u8>, SymtabError> {
    let mut names = String::new();
    let mut name_offsets = HashMap::new();
    let mut entries = Vec::with_capacity(functions.len() * ENTRY_LEN);
    for function in functions {
        // Instances of one generic function may share a name; it is stored once.
        let name = *name_offsets.entry(function.name.as_str()).or_insert_with(|| {
            names.push_str(&function.name);
            names.len() - function.name.len()
        });
        let start = function.start.checked_sub(base).and_then(|start| u32::try_from(start).ok());
        let start =
            start.ok_or_else(|| SymtabError::TooFar { name: function.name.clone(), start: function.start, base })?;
        let size = u32::try_from(function.size).unwrap_or(u32::MAX);
        for field in [start, size, length(name)?, length(function.name.len())?] {
            entries.extend(field.to_le_bytes());
        }
    }
    let mut table = Vec::with_capacity(HEADER_LEN + entries.len() + names.len());
    table.extend(MAGIC);
    table.extend(base.to_le_bytes());
    table.extend(length(functions.len())?.to_le_bytes());
    table.extend(length(names.len())?.to_le_bytes());
    table.extend(entries);
    table.extend(names.into_bytes());
    Ok(table)
}

/// A length as the table stores it.
fn length(value: usize) -> Result<u32, SymtabError> {
    u32::try_from(value).map_err(|_| SymtabError::TooLong(value))
}

#[cfg(test)]
mod tests {
    use platform::symbols::SymbolTable;

    use super::*;

    const BASE: u64 = 0xffff_ffff_8000_0000;

    fn candidate(name: &str, offset: u64, size: u64, is_function: bool) -> Candidate<'_> {
        Candidate { start: BASE + offset, size, is_function, section_end: BASE + 0x1000, name }
    }

    fn picked(candidates: Vec<Candidate<'_>>) -> Vec<(u64, u64, String)> {
        functions(candidates).into_iter().map(|f| (f.start - BASE, f.size, f.name)).collect()
    }

    #[test]
    fn names_are_demangled_without_their_hash() {
        let found = picked(vec![
            candidate("_ZN8palisade2mm3foo17h0123456789abcdefE", 0x100, 0x20, true),
            candidate("_RNvCs1234_7mycrate3bar", 0x200, 0x20, true),
            candidate("memcpy", 0x300, 0x20, true),
        ]);
        let names: Vec<_> = found.iter().map(|(_, _, name)| name.as_str()).collect();
        assert_eq!(names, ["palisade::mm::foo", "mycrate::bar", "memcpy"]);
    }

    #[test]
    fn unsized_labels_reach_to_the_next_symbol_or_the_section_end() {
        let found = picked(vec![
            candidate("vectors", 0x800, 0, false),
            candidate("_start", 0, 0, false),
            candidate("after", 0x40, 8, true),
        ]);
        let expected = [(0, 0x40, "_start"), (0x40, 8, "after"), (0x800, 0x800, "vectors")];
        assert_eq!(found, expected.map(|(start, size, name)| (start, size, name.to_owned())));
    }

    #[test]
    fn the_best_symbol_at_an_address_stays() {
        let found = picked(vec![
            candidate("__text_start", 0, 0, false),
            candidate("alias", 0, 0, true),
            candidate("real", 0, 16, true),
        ]);
        assert_eq!(found, [(0, 16, "real".to_owned())]);
    }

    #[test]
    fn markers_inner_labels_and_symbols_past_the_section_are_dropped() {
        let found = picked(vec![
            candidate("$x", 0, 0, false),
            candidate("", 0, 0, false),
            candidate("outer", 0, 0x40, true),
            candidate("fixup", 0x20, 0, false),
            candidate(".Lloop", 0x50, 0, false),
            candidate("__text_end", 0x1000, 0, false),
        ]);
        assert_eq!(found, [(0, 0x40, "outer".to_owned())]);
    }

    #[test]
    fn overlapping_functions_are_cut() {
        let found = picked(vec![candidate("outer", 0, 0x40, true), candidate("inner", 0x20, 0x10, true)]);
        assert_eq!(found, [(0, 0x20, "outer".to_owned()), (0x20, 0x10, "inner".to_owned())]);
    }

    #[test]
    fn the_kernel_reads_what_is_written() {
        let list: Vec<_> =
            (0..100).map(|i| Function { start: BASE + 0x40 * i, size: 0x30, name: format!("f{}", i / 2) }).collect();
        let bytes = encode(BASE, &list).unwrap();
        let table = SymbolTable::parse(&bytes).unwrap();
        assert_eq!(table.len(), list.len());
        for function in &list {
            assert_eq!(table.lookup(function.start + 0x2f), Some((function.name.as_str(), 0x2f)));
            assert_eq!(table.lookup(function.start + 0x30), None);
        }
    }

    #[test]
    fn equal_names_are_stored_once() {
        let one = Function { start: BASE, size: 4, name: "generic".to_owned() };
        let two = Function { start: BASE + 4, ..one.clone() };
        let alone = encode(BASE, std::slice::from_ref(&one)).unwrap();
        assert_eq!(encode(BASE, &[one, two]).unwrap().len(), alone.len() + ENTRY_LEN);
    }

    #[test]
    fn functions_out_of_reach_are_refused() {
        let base = 0x4000_0000;
        for start in [base - 4, base + (1 << 32)] {
            let far = Function { start, size: 4, name: "far".to_owned() };
            let error = SymtabError::TooFar { name: "far".to_owned(), start, base };
            assert_eq!(encode(base, &[far]), Err(error));
        }
    }
}
