//! The score.

use core::fmt;

/// Counts, and names what is wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Score {
    /// Judged since the section began.
    cases: u64,
    /// Of these, wrong.
    wrong: u64,
    /// Of these, wrong in a way that is known of QEMU.
    known: u64,
    /// Judged in all.
    pub all_cases: u64,
    /// Of these, wrong.
    pub all_wrong: u64,
    /// Of these, wrong in a way that is known of QEMU.
    pub all_known: u64,
}

/// Mismatches of a section that are told in full.
const NAMED: u64 = 10;

impl Score {
    /// Counts a case that ought to be `right`; where it is not, `told` says what is wrong.
    pub fn judge(&mut self, right: bool, told: fmt::Arguments<'_>) {
        self.cases += 1;
        if !right {
            self.wrong += 1;
            if self.wrong <= NAMED {
                palisade::println!("wrong: {told}");
            }
        }
    }

    /// Counts a case that is wrong as `Lab::is_known` describes.
    pub fn excuse(&mut self) {
        self.cases += 1;
        self.known += 1;
    }

    /// Ends a section.
    pub fn section(&mut self, name: fmt::Arguments<'_>) {
        let Score { cases, wrong, known, .. } = *self;
        match known {
            0 => palisade::println!("conformance: {name}: {cases} cases, {wrong} wrong"),
            _ => palisade::println!("conformance: {name}: {cases} cases, {wrong} wrong, {known} as known of QEMU"),
        }
        self.all_cases += cases;
        self.all_wrong += wrong;
        self.all_known += known;
        (self.cases, self.wrong, self.known) = (0, 0, 0);
    }
}
