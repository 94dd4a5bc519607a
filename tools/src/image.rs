//! The bootable forms of a linked kernel: the ELF with its symbol table filled in, and the flat arm64 Image.
//!
//! The Image is the bytes that a boot loader puts into memory as they are (Linux, `Documentation/arch/arm64/booting`);
//! its header is the kernel's own assembly and is only checked here.

use std::ops::Range;

use object::elf::{EM_AARCH64, PT_LOAD, SHF_EXECINSTR, SHT_PROGBITS, STT_FUNC, STT_NOTYPE};
use object::read::elf::{ElfFile64, ElfSection64, FileHeader, ProgramHeader, SectionHeader};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol};
use thiserror::Error;

use crate::header::Header;
use crate::symtab::{self, Candidate, Function, SymtabError};

/// Section that the kernel reserves for its symbol table.
pub const SYMBOLS_SECTION: &str = ".symbols";

/// Widest span of load addresses taken to be meant; a wider one is a segment without a load address of its own.
const SPAN_LIMIT: u64 = 1 << 30;

/// Why a kernel cannot be made bootable.
#[derive(Debug, Error)]
pub enum ImageError {
    /// Not an ELF, or one that is cut off or contradicts itself.
    #[error("not a readable 64-bit little-endian ELF: {0}")]
    Elf(#[from] object::read::Error),
    /// An ELF for another machine.
    #[error("the ELF is for machine {0}, not AArch64 (183)")]
    Machine(u16),
    /// No `PT_LOAD` segment.
    #[error("the ELF has no PT_LOAD segment")]
    NoSegment,
    /// A segment that ends outside the file or past the end of the address space, or has more bytes than memory.
    #[error("the PT_LOAD segment at {vaddr:#x} has a size or place that cannot be: {filesz:#x} bytes of {memsz:#x}")]
    BadSegment {
        /// Its link address.
        vaddr: u64,
        /// Bytes in the file.
        filesz: u64,
        /// Bytes in memory.
        memsz: u64,
    },
    /// Two segments share load addresses.
    #[error("the PT_LOAD segments at load addresses {0:#x} and {1:#x} overlap")]
    Overlap(u64, u64),
    /// The load addresses lie implausibly far apart.
    #[error("load addresses span {0:#x} bytes, over 1 GiB: does the linker script give every section its AT()?")]
    Span(u64),
    /// No room was reserved for the symbol table.
    #[error("the ELF has no {SYMBOLS_SECTION} section: is it the kernel, and does the linker script KEEP it?")]
    NoSymbolsSection,
    /// The reserved section has no bytes in the file, or none that are loaded.
    #[error("the {SYMBOLS_SECTION} section has no bytes in a PT_LOAD segment")]
    SymbolsNotLoaded,
    /// The reserved section is too small.
    #[error("the symbol table needs {needed} bytes and {SYMBOLS_SECTION} reserves {reserved}: enlarge it")]
    SymbolsTooSmall {
        /// Bytes that the table has.
        needed: usize,
        /// Bytes that the kernel reserves.
        reserved: usize,
    },
    /// The table cannot be written.
    #[error(transparent)]
    Symtab(#[from] SymtabError),
    /// The lowest load address does not hold an arm64 Image header.
    #[error("no arm64 Image header at load address {0:#x}: the magic ARM\\x64 is missing at offset 56")]
    NoHeader(u64),
    /// The Image header claims less memory than the segments take.
    #[error("the Image header's image_size is {claimed:#x}, but the segments take {needed:#x} bytes of memory")]
    HeaderSize {
        /// The header's `image_size`.
        claimed: u64,
        /// Bytes from the lowest to the highest load address.
        needed: u64,
    },
}

/// A `PT_LOAD` segment; its range in the file is known to lie inside the file.
#[derive(Debug)]
struct Segment {
    vaddr: u64,
    paddr: u64,
    memsz: u64,
    file: Range<usize>,
}

/// What became of a kernel.
#[derive(Debug)]
pub struct Built {
    /// The ELF with its symbol table filled in.
    pub elf: Vec<u8>,
    /// The flat arm64 Image of the same.
    pub image: Vec<u8>,
    /// Bytes of memory that the image takes, BSS included.
    pub memory: u64,
    /// Functions in the symbol table.
    pub functions: usize,
    /// Length of the symbol table in bytes.
    pub table: usize,
    /// Bytes that the kernel reserves for it.
    pub reserved: usize,
}

/// Makes the bootable forms of the linked kernel `elf`.
///
/// A kernel that has been through here before gives the same result again.
///
/// # Errors
/// See [`ImageError`].
pub fn build(elf: &[u8]) -> Result<Built, ImageError> {
    let file = ElfFile64::<LittleEndian>::parse(elf)?;
    let machine = file.elf_header().e_machine(LittleEndian);
    if machine != EM_AARCH64 {
        return Err(ImageError::Machine(machine.0));
    }
    let segments = segments(&file, elf.len())?;
    let base = segments.iter().map(|segment| segment.vaddr).min().ok_or(ImageError::NoSegment)?;
    let functions = functions(&file)?;
    let table = symtab::encode(base, &functions)?;
    let room = symbols_range(&file, &segments)?;
    if table.len() > room.len() {
        return Err(ImageError::SymbolsTooSmall { needed: table.len(), reserved: room.len() });
    }
    let reserved = room.len();
    let mut patched = elf.to_vec();
    let section = &mut patched[room];
    section.fill(0);
    section[..table.len()].copy_from_slice(&table);
    let (image, memory) = flatten(&patched, &segments)?;
    Ok(Built { elf: patched, image, memory, functions: functions.len(), table: table.len(), reserved })
}

/// The loaded segments, sorted by load address.
fn segments(file: &ElfFile64<'_, LittleEndian>, file_len: usize) -> Result<Vec<Segment>, ImageError> {
    let mut segments = Vec::new();
    for header in file.elf_program_headers() {
        let memsz = header.p_memsz(LittleEndian);
        if header.p_type(LittleEndian) != PT_LOAD || memsz == 0 {
            continue;
        }
        let (vaddr, paddr) = (header.p_vaddr(LittleEndian), header.p_paddr(LittleEndian));
        let (offset, filesz) = header.file_range(LittleEndian);
        let fits = filesz <= memsz && vaddr.checked_add(memsz).is_some() && paddr.checked_add(memsz).is_some();
        let file = match offset.checked_add(filesz) {
            // A segment of BSS alone may have any offset.
            _ if fits && filesz == 0 => 0..0,
            Some(end) if fits && end <= file_len as u64 => offset as usize..end as usize,
            _ => return Err(ImageError::BadSegment { vaddr, filesz, memsz }),
        };
        segments.push(Segment { vaddr, paddr, memsz, file });
    }
    segments.sort_by_key(|segment| segment.paddr);
    match segments.windows(2).find(|pair| pair[0].paddr + pair[0].memsz > pair[1].paddr) {
        Some(pair) => Err(ImageError::Overlap(pair[0].paddr, pair[1].paddr)),
        None => Ok(segments),
    }
}

/// The functions that the ELF's symbols name.
fn functions(file: &ElfFile64<'_, LittleEndian>) -> Result<Vec<Function>, ImageError> {
    let mut candidates = Vec::new();
    for symbol in file.symbols() {
        let kind = symbol.elf_symbol().st_type();
        let Some(index) = symbol.section_index().filter(|_| kind == STT_FUNC || kind == STT_NOTYPE) else {
            continue;
        };
        let section = file.section_by_index(index)?;
        let header = section.elf_section_header();
        if !header.sh_flags(LittleEndian).contains(SHF_EXECINSTR) || symbol.address() < section.address() {
            continue;
        }
        candidates.push(Candidate {
            start: symbol.address(),
            size: symbol.size(),
            is_function: kind == STT_FUNC,
            section_end: section.address().saturating_add(section.size()),
            name: symbol.name()?,
        });
    }
    Ok(symtab::functions(candidates))
}

/// Where in the file the bytes reserved for the symbol table lie.
fn symbols_range(file: &ElfFile64<'_, LittleEndian>, segments: &[Segment]) -> Result<Range<usize>, ImageError> {
    let section: ElfSection64<'_, '_, LittleEndian> =
        file.section_by_name(SYMBOLS_SECTION).ok_or(ImageError::NoSymbolsSection)?;
    let header = section.elf_section_header();
    let (start, len) = section.file_range().ok_or(ImageError::SymbolsNotLoaded)?;
    let range = start as usize..start.saturating_add(len) as usize;
    let is_loaded = segments.iter().any(|s| s.file.start <= range.start && range.end <= s.file.end);
    match header.sh_type(LittleEndian) {
        SHT_PROGBITS if is_loaded => Ok(range),
        _ => Err(ImageError::SymbolsNotLoaded),
    }
}

/// Lays out the file-backed bytes of `segments` by load address; gives them and the bytes of memory they take.
fn flatten(elf: &[u8], segments: &[Segment]) -> Result<(Vec<u8>, u64), ImageError> {
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
        return Err(ImageError::NoSegment);
    };
    let memory = last.paddr + last.memsz - first.paddr;
    if memory > SPAN_LIMIT {
        return Err(ImageError::Span(memory));
    }
    let mut image = Vec::new();
    for segment in segments.iter().filter(|segment| !segment.file.is_empty()) {
        image.resize((segment.paddr - first.paddr) as usize, 0);
        image.extend(&elf[segment.file.clone()]);
    }
    let claimed = Header::parse(&image).ok_or(ImageError::NoHeader(first.paddr))?.image_size;
    if claimed < memory {
        return Err(ImageError::HeaderSize { claimed, needed: memory });
    }
    Ok((image, memory))
}
