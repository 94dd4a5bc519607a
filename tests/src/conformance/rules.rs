//! What the architecture says about an access: the tables and rules of the Arm ARM (DDI 0487), D8.4.1 and D8.15.5.1, written down
//! as they stand there. Nothing here touches the CPU.
//!
//! | rule | says |
//! |---|---|
//! | D8.4.1.2, Tables D8-63 and D8-65, R_VWLLR | base permissions by AP, UXN and PXN |
//! | R_FYMXJ, R_SYMMB | when SCTLR_EL1.WXN makes direct permissions WXN |
//! | Table D8-64, R_RLQFP | APTable, UXNTable, PXNTable |
//! | I_PKGJC, I_NYWHQ, R_JHSVW, R_BVXDG | when these do not count |
//! | D8.4.1.3, Tables D8-67 to D8-69 | base permissions by PIR_EL1 and PIRE0_EL1, which obey overlays, which are WXN |
//! | R_VFPJF | privileged execute beside unprivileged write removes everything |
//! | R_TBKKB | PSTATE.PAN with indirect permissions |
//! | D8.4.1.4, R_GDVJK, R_DPZHF, Tables D8-72 and D8-74 | overlays |
//! | R_QXXPC, R_NPBXC | WXN, with overlays and without |
//! | R_PPGMC | a write to a clean leaf |
//! | D8.15.5.1 | overlay before base before dirty state |

use core::fmt;

/// The direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A data read.
    Read,
    /// A data write.
    Write,
    /// An instruction fetch.
    Fetch,
}

/// What permits what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    read: bool,
    write: bool,
    execute: bool,
}

impl Rights {
    const NONE: Rights = rights("");

    const fn permits(self, kind: Kind) -> bool {
        match kind {
            Kind::Read => self.read,
            Kind::Write => self.write,
            Kind::Fetch => self.execute,
        }
    }
}

/// Rights as a table writes them: the letters `r`, `w` and `x`.
const fn rights(letters: &str) -> Rights {
    let mut rights = Rights { read: false, write: false, execute: false };
    let letters = letters.as_bytes();
    let mut i = 0;
    while i < letters.len() {
        match letters[i] {
            b'r' => rights.read = true,
            b'w' => rights.write = true,
            b'x' => rights.execute = true,
            _ => panic!("r, w or x"),
        }
        i += 1;
    }
    rights
}

/// Table D8-68, both columns: base permissions, and whether the overlay is applied.
const INDIRECT: [(Rights, bool); 16] = [
    (rights(""), true),
    (rights("r"), true),
    (rights("x"), true),
    (rights("rx"), true),
    (rights(""), true), // reserved
    (rights("rw"), true),
    (rights("rwx"), true),
    (rights("rwx"), true),
    (rights("r"), false),
    (rights("r"), false), // and GCS, which no access here is
    (rights("rx"), false),
    (rights(""), false), // reserved
    (rights("rw"), false),
    (rights(""), false), // reserved
    (rights("rwx"), false),
    (rights(""), false), // reserved
];

/// Table D8-69: the one value that is WXN.
const INDIRECT_WXN: u8 = 0b0110;

/// R_VFPJF, S1PrivBasePerm: the values that have PrivExecute or PrivGCS.
const PRIVILEGED_EXECUTE_OR_GCS: [u8; 7] = [0b0010, 0b0011, 0b0110, 0b0111, 0b1001, 0b1010, 0b1110];
/// R_VFPJF, S1UnprivBasePerm: the values that have UnprivWrite or UnprivGCS.
const UNPRIVILEGED_WRITE_OR_GCS: [u8; 6] = [0b0101, 0b0110, 0b0111, 0b1001, 0b1100, 0b1110];

/// Table D8-68: the values that are reserved and treated as no access.
pub const RESERVED: [u8; 4] = [0b0100, 0b1011, 0b1101, 0b1111];

/// Table D8-74.
const OVERLAY: [Rights; 16] = [
    rights(""),
    rights("r"),
    rights("x"),
    rights("rx"),
    rights("w"),
    rights("rw"),
    rights("wx"),
    rights("rwx"),
    rights(""), // 0b1xxx: reserved, as 0b0000
    rights(""),
    rights(""),
    rights(""),
    rights(""),
    rights(""),
    rights(""),
    rights(""),
];

/// Table D8-65 without its column WXN: privileged and unprivileged permissions by {UXN, PXN, AP\[2:1\]}. (Its row 0, 1, 01 has no
/// privileged execute for two reasons.)
const DIRECT: [(Rights, Rights); 16] = [
    (rights("rwx"), rights("x")),
    (rights("rw"), rights("rwx")),
    (rights("rx"), rights("x")),
    (rights("rx"), rights("rx")),
    (rights("rw"), rights("x")),
    (rights("rw"), rights("rwx")),
    (rights("r"), rights("x")),
    (rights("r"), rights("rx")),
    (rights("rwx"), rights("")),
    (rights("rw"), rights("rw")),
    (rights("rx"), rights("")),
    (rights("rx"), rights("r")),
    (rights("rw"), rights("")),
    (rights("rw"), rights("rw")),
    (rights("r"), rights("")),
    (rights("r"), rights("r")),
];

/// What a leaf says about permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// 3 for a page, 2 or 1 for a block.
    pub level: u8,
    /// PIIndex, {bit 54, bit 53, bit 51, bit 6}; with direct permissions UXN, PXN, DBM and AP\[1\].
    pub pi_index: u8,
    /// Bit 7: nDirty; with direct permissions AP\[2\].
    pub bit7: bool,
    /// POIndex, bits 62 to 60.
    pub po_index: u8,
}

/// Permission bits of the table descriptor above the leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hierarchy {
    /// APTable, bits 62 and 61.
    pub ap: u8,
    /// UXNTable, bit 60.
    pub uxn: bool,
    /// PXNTable, bit 59.
    pub pxn: bool,
}

/// All that decides about an access, but the access itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The leaf.
    pub leaf: Leaf,
    /// The table descriptor above it.
    pub above: Hierarchy,
    /// TCR_EL1.HPD0.
    pub hpd: bool,
    /// TCR2_EL1.PIE.
    pub pie: bool,
    /// TCR2_EL1.POE.
    pub poe: bool,
    /// TCR2_EL1.E0POE.
    pub e0poe: bool,
    /// SCTLR_EL1.WXN.
    pub wxn: bool,
    /// PSTATE.PAN.
    pub pan: bool,
    /// PSTATE.UAO.
    pub uao: bool,
    /// SCTLR_EL1.EPAN.
    pub epan: bool,
    /// PIR_EL1.
    pub pir: u64,
    /// PIRE0_EL1.
    pub pire0: u64,
    /// POR_EL1.
    pub por: u64,
    /// POR_EL0.
    pub por0: u64,
}

/// The four bits of `register` that `index` selects (Tables D8-67 and D8-72).
pub const fn field(register: u64, index: u8) -> u8 {
    (register >> (index * 4) & 0xf) as u8
}

/// `register` with these four bits replaced.
pub const fn with_field(register: u64, index: u8, value: u8) -> u64 {
    register & !(0xf << (index * 4)) | (value as u64) << (index * 4)
}

/// Why an access is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// By the overlay permissions.
    Overlay,
    /// By the base permissions.
    Base,
    /// As a write to a leaf that is clean.
    Dirty,
}

/// What has to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The access is done.
    Allowed,
    /// A Permission fault.
    Denied(Cause),
    /// IMPLEMENTATION DEFINED: nothing to judge.
    Open,
}

/// One side of what base permissions are: the privileged or the unprivileged one.
#[derive(Clone, Copy)]
struct Base {
    rights: Rights,
    /// PrivWXN or UnprivWXN.
    wxn: bool,
    /// Whether the overlay is applied, as far as the base permissions decide.
    overlay: bool,
}

impl Setting {
    /// What has to come of an access. `pan`: whether PSTATE.PAN counts for it.
    pub fn verdict(&self, privileged: bool, kind: Kind, pan: bool) -> Verdict {
        let pan = self.pan && pan && privileged && kind != Kind::Fetch;
        let (inner, outer) = if self.pie { self.indirect() } else { self.direct() };
        let mut base = if privileged { inner } else { outer };
        let mut overlay = self.overlay(privileged, base.overlay);
        if base.wxn {
            match &mut overlay {
                Some(overlay) if overlay.execute => overlay.write = false,
                Some(_) => (),
                None if base.rights.write => base.rights.execute = false,
                None => (),
            }
        }
        if overlay.is_some_and(|overlay| !overlay.permits(kind)) {
            return Verdict::Denied(Cause::Overlay);
        }
        if pan && self.pie && RESERVED.contains(&field(self.pire0, self.leaf.pi_index)) {
            return if base.rights.permits(kind) { Verdict::Open } else { Verdict::Denied(Cause::Base) };
        }
        if !base.rights.permits(kind) || pan && self.pan_applies(outer.rights) {
            return Verdict::Denied(Cause::Base);
        }
        if self.pie && kind == Kind::Write && self.leaf.bit7 {
            return Verdict::Denied(Cause::Dirty);
        }
        Verdict::Allowed
    }

    /// Whether PAN takes a privileged data access away. With indirect permissions R_TBKKB; with direct ones that unprivileged accesses
    /// have some permission, which with SCTLR_EL1.EPAN may be execute (D24.2 "SCTLR_EL1").
    fn pan_applies(&self, outer: Rights) -> bool {
        if self.pie {
            return field(self.pire0, self.leaf.pi_index) != 0;
        }
        outer.read || outer.write || self.epan && outer.execute
    }

    /// R_GDVJK and R_DPZHF; then Tables D8-72 and D8-74. `None` where no overlay is applied.
    fn overlay(&self, privileged: bool, applied: bool) -> Option<Rights> {
        let (enabled, register) = if privileged { (self.poe, self.por) } else { (self.e0poe, self.por0) };
        (enabled && applied).then(|| OVERLAY[field(register, self.leaf.po_index) as usize])
    }

    fn indirect(&self) -> (Base, Base) {
        let inner = field(self.pir, self.leaf.pi_index);
        let outer = field(self.pire0, self.leaf.pi_index);
        let unsafe_pair = PRIVILEGED_EXECUTE_OR_GCS.contains(&inner) && UNPRIVILEGED_WRITE_OR_GCS.contains(&outer);
        let base = |value: u8| {
            let (rights, overlay) = INDIRECT[value as usize];
            let rights = if unsafe_pair { Rights::NONE } else { rights };
            Base { rights, wxn: value == INDIRECT_WXN, overlay }
        };
        (base(inner), base(outer))
    }

    fn direct(&self) -> (Base, Base) {
        let above = if self.hpd || self.poe || self.e0poe { Hierarchy::default() } else { self.above };
        // Table D8-64 as what it does to the Effective AP[2:1]: 01 and 11 clear AP[1], 10 and 11 set AP[2].
        let ap1 = self.leaf.pi_index & 1 != 0 && above.ap & 0b01 == 0;
        let ap2 = self.leaf.bit7 || above.ap & 0b10 != 0;
        let uxn = self.leaf.pi_index & 8 != 0 || above.uxn;
        let pxn = self.leaf.pi_index & 4 != 0 || above.pxn;
        let row = usize::from(uxn) << 3 | usize::from(pxn) << 2 | usize::from(ap2) << 1 | usize::from(ap1);
        let base = |rights: Rights| Base { rights, wxn: self.wxn && rights.write && rights.execute, overlay: true };
        (base(DIRECT[row].0), base(DIRECT[row].1))
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Leaf { level, pi_index, bit7, po_index } = self.leaf;
        let bit = u8::from;
        write!(f, "PIE={} POE={} E0POE={} PAN={}", bit(self.pie), bit(self.poe), bit(self.e0poe), bit(self.pan))?;
        write!(f, " UAO={} EPAN={} WXN={}", bit(self.uao), bit(self.epan), bit(self.wxn))?;
        write!(f, " HPD0={}", bit(self.hpd))?;
        let Hierarchy { ap, uxn, pxn } = self.above;
        if self.above != Hierarchy::default() {
            write!(f, " APTable={ap:02b} UXNTable={} PXNTable={}", bit(uxn), bit(pxn))?;
        }
        write!(f, " level {level} PIIndex={pi_index} POIndex={po_index} bit7={}", bit(bit7))?;
        let [pir, pire0] = [self.pir, self.pire0].map(|register| field(register, pi_index));
        let [por, por0] = [self.por, self.por0].map(|register| field(register, po_index));
        write!(f, " PIR={pir:04b} PIRE0={pire0:04b} POR_EL1={por:04b} POR_EL0={por0:04b}")
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Allowed => "allowed",
            Verdict::Denied(Cause::Overlay) => "denied by the overlay",
            Verdict::Denied(Cause::Base) => "denied by the base permissions",
            Verdict::Denied(Cause::Dirty) => "denied as clean",
            Verdict::Open => "either",
        })
    }
}
