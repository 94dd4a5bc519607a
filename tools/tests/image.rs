//! `palisade-image` on small kernels that these tests make themselves.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::{env, fs};

use object::build::elf::{Builder, SectionData, SectionId};
use object::elf::{
    EM_AARCH64, EM_X86_64, ET_EXEC, PF_R, PT_LOAD, SHF_ALLOC, SHF_EXECINSTR, SHT_NOBITS, SHT_PROGBITS, SHT_STRTAB,
    SHT_SYMTAB, STB_GLOBAL, STT_FUNC, STT_NOTYPE, STT_OBJECT, SectionFlags, SectionType, SymbolType,
};
use object::{Endianness, Object, ObjectSection};
use platform::symbols::SymbolTable;
use tools::header::Header;
use tools::image::{self, ImageError};

const BASE: u64 = 0xffff_ffff_8000_0000;
const LOADED: u64 = 0x4020_0000;

/// A kernel of four segments: code with an Image header, the room for the symbols, data with BSS, and only BSS.
struct Kernel {
    machine: object::elf::Machine,
    header: Vec<u8>,
    symbols_name: &'static str,
    symbols_type: SectionType,
    symbols_len: usize,
    data_paddr: u64,
}

/// Memory that the segments of a [`Kernel`] take.
const MEMORY: u64 = 0x60_0000;

impl Default for Kernel {
    fn default() -> Self {
        let header = Header { code0: 0x1400_0010, text_offset: 0, image_size: MEMORY, flags: 0xa };
        Self {
            machine: EM_AARCH64,
            header: header.to_bytes().to_vec(),
            symbols_name: ".symbols",
            symbols_type: SHT_PROGBITS,
            symbols_len: 0x800,
            data_paddr: LOADED + 0x40_0000,
        }
    }
}

impl Kernel {
    fn link(self) -> Vec<u8> {
        let mut elf = Builder::new(Endianness::Little, true);
        elf.header.e_type = ET_EXEC;
        elf.header.e_machine = self.machine;
        elf.header.e_phoff = 64;
        let mut code = self.header;
        code.resize(0x1000, 0xaa);
        let text = add_section(&mut elf, ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0);
        set_contents(&mut elf, text, BASE, 0x1000, code);
        let symbols = add_section(&mut elf, self.symbols_name, self.symbols_type, SHF_ALLOC, 0x2000);
        if self.symbols_type == SHT_PROGBITS {
            set_contents(&mut elf, symbols, BASE + 0x20_0000, 0x2000, vec![0xee; self.symbols_len]);
        }
        let data = add_section(&mut elf, ".data", SHT_PROGBITS, SHF_ALLOC, 0x3000);
        set_contents(&mut elf, data, BASE + 0x40_0000, 0x3000, vec![0xdd; 0x10]);
        for (name, kind, data) in [
            (".symtab", SHT_SYMTAB, SectionData::Symbol),
            (".strtab", SHT_STRTAB, SectionData::String),
            (".shstrtab", SHT_STRTAB, SectionData::SectionString),
        ] {
            let section = add_section(&mut elf, name, kind, SectionFlags(0), 0);
            elf.sections.get_mut(section).data = data;
        }
        add_segment(&mut elf, 0x1000, 0, LOADED, 0x1000, 0x1000);
        add_segment(&mut elf, 0x2000, 0x20_0000, LOADED + 0x20_0000, self.symbols_len as u64, self.symbols_len as u64);
        add_segment(&mut elf, 0x3000, 0x40_0000, self.data_paddr, 0x10, 0x2000);
        add_segment(&mut elf, 0x4000, 0x5f_f000, LOADED + 0x5f_f000, 0, 0x1000);
        add_symbol(&mut elf, "_head", text, STT_NOTYPE, 0, 0);
        add_symbol(&mut elf, "_ZN8palisade4main17h0123456789abcdefE", text, STT_FUNC, 0x40, 0x20);
        add_symbol(&mut elf, "an_object", data, STT_OBJECT, 0x40_0000, 8);
        let mut bytes = Vec::new();
        elf.write(&mut bytes).unwrap();
        bytes
    }
}

fn add_section(
    elf: &mut Builder<'_>,
    name: &'static str,
    kind: SectionType,
    flags: SectionFlags,
    offset: u64,
) -> SectionId {
    let section = elf.sections.add();
    section.name = name.into();
    section.sh_type = kind;
    section.sh_flags = flags;
    section.sh_offset = offset;
    section.sh_addralign = 8;
    if kind == SHT_NOBITS {
        section.data = SectionData::UninitializedData(8);
    }
    section.id()
}

fn set_contents(elf: &mut Builder<'_>, section: SectionId, addr: u64, offset: u64, bytes: Vec<u8>) {
    let section = elf.sections.get_mut(section);
    section.sh_addr = addr;
    section.sh_offset = offset;
    section.sh_size = bytes.len() as u64;
    section.data = SectionData::Data(bytes.into());
}

fn add_segment(elf: &mut Builder<'_>, offset: u64, from_base: u64, paddr: u64, filesz: u64, memsz: u64) {
    let segment = elf.segments.add();
    segment.p_type = PT_LOAD;
    segment.p_flags = PF_R;
    segment.p_offset = offset;
    segment.p_vaddr = BASE + from_base;
    segment.p_paddr = paddr;
    segment.p_filesz = filesz;
    segment.p_memsz = memsz;
    segment.p_align = 0x1000;
}

fn add_symbol(
    elf: &mut Builder<'_>,
    name: &'static str,
    section: SectionId,
    kind: SymbolType,
    from_base: u64,
    size: u64,
) {
    let symbol = elf.symbols.add();
    symbol.name = name.into();
    symbol.section = Some(section);
    symbol.set_st_info(STB_GLOBAL, kind);
    symbol.st_value = BASE + from_base;
    symbol.st_size = size;
}

fn refusal(kernel: Kernel) -> ImageError {
    image::build(&kernel.link()).unwrap_err()
}

#[test]
fn the_table_lands_in_its_section_and_in_the_image() {
    let built = image::build(&Kernel::default().link()).unwrap();
    assert_eq!((built.functions, built.reserved, built.memory), (2, 0x800, MEMORY));
    let elf = object::File::parse(&*built.elf).unwrap();
    let section = elf.section_by_name(".symbols").unwrap().data().unwrap();
    let table = SymbolTable::parse(section).unwrap();
    assert_eq!(table.lookup(BASE + 0x44), Some(("palisade::main", 4)));
    assert_eq!(table.lookup(BASE + 0x10), Some(("_head", 0x10)));
    assert_eq!(table.lookup(BASE + 0x40_0000), None);
    assert!(section[built.table..].iter().all(|byte| *byte == 0), "the placeholder's rest is cleared");
    assert_eq!(built.image.len(), 0x40_0010);
    assert_eq!(built.image[0x20_0000..0x20_0800], *section);
    assert_eq!(built.image[0x1000..0x1010], [0; 16], "gaps are zero");
    assert_eq!(built.image[0x40_0000..], [0xdd; 16]);
}

#[test]
fn a_second_run_changes_nothing() {
    let once = image::build(&Kernel::default().link()).unwrap();
    let twice = image::build(&once.elf).unwrap();
    assert_eq!((once.elf, once.image), (twice.elf, twice.image));
}

#[test]
fn a_table_that_does_not_fit_says_what_it_needs() {
    let error = refusal(Kernel { symbols_len: 32, ..Kernel::default() });
    let built = image::build(&Kernel::default().link()).unwrap();
    assert_eq!(
        error.to_string(),
        format!("the symbol table needs {} bytes and .symbols reserves 32: enlarge it", built.table)
    );
    let fits = Kernel { symbols_len: built.table, ..Kernel::default() };
    assert_eq!(image::build(&fits.link()).unwrap().reserved, built.table);
}

#[test]
fn what_is_no_kernel_is_refused() {
    assert!(matches!(image::build(b"no ELF"), Err(ImageError::Elf(_))));
    let whole = Kernel::default().link();
    assert!(matches!(image::build(&whole[..0x2000]), Err(ImageError::Elf(_) | ImageError::BadSegment { .. })));
    assert!(matches!(refusal(Kernel { machine: EM_X86_64, ..Kernel::default() }), ImageError::Machine(62)));
    let other = Kernel { symbols_name: ".other", ..Kernel::default() };
    assert!(matches!(refusal(other), ImageError::NoSymbolsSection));
    let no_bits = Kernel { symbols_type: SHT_NOBITS, ..Kernel::default() };
    assert!(matches!(refusal(no_bits), ImageError::SymbolsNotLoaded));
}

#[test]
fn an_image_header_that_is_missing_or_too_small_is_refused() {
    assert!(matches!(refusal(Kernel { header: vec![0; 64], ..Kernel::default() }), ImageError::NoHeader(LOADED)));
    let small = Header { code0: 0, text_offset: 0, image_size: MEMORY - 1, flags: 0 };
    let error = refusal(Kernel { header: small.to_bytes().to_vec(), ..Kernel::default() });
    assert!(matches!(error, ImageError::HeaderSize { claimed: 0x5f_ffff, needed: MEMORY }));
}

#[test]
fn load_addresses_that_cannot_be_meant_are_refused() {
    let overlapping = Kernel { data_paddr: LOADED + 0x20_0400, ..Kernel::default() };
    assert!(matches!(refusal(overlapping), ImageError::Overlap(..)));
    let without_at = Kernel { data_paddr: BASE + 0x40_0000, ..Kernel::default() };
    assert!(matches!(refusal(without_at), ImageError::Span(_)));
}

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_palisade-image")).args(args).output().unwrap()
}

/// A file of this test run's own, removed when it goes out of scope.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id())))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn the_program_writes_both_files() {
    let [input, elf, img] = ["kernel", "kernel.elf", "kernel.img"].map(Scratch::new);
    let linked = Kernel::default().link();
    fs::write(input.path(), &linked).unwrap();
    let output = run(&[input.path(), "--elf", elf.path(), "--image", img.path()]);
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("2 functions in"));
    let built = image::build(&linked).unwrap();
    assert_eq!(fs::read(elf.path()).unwrap(), built.elf);
    assert_eq!(fs::read(img.path()).unwrap(), built.image);
}

#[test]
fn the_program_tells_wrong_usage_from_a_wrong_file() {
    assert_eq!(run(&["--help"]).status.code(), Some(0));
    for args in [&[][..], &["only-an-input"], &["a", "b", "--elf", "c"], &["a", "--elf"], &["--unknown"]] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("usage:"));
    }
    let output = run(&["/nonexistent/kernel", "--elf", "out"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("palisade-image: cannot read /nonexistent/kernel"));
}
