//! For test kernels: announcing the fault that is to come.

use crate::syndrome::{Access, Fault, Kind};
use core::fmt;
use spin::Mutex;

/// What is to end the kernel next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// This access to this address, for lack of a translation.
    Translation(Access, u64),
    /// This access to this address, for lack of permission.
    Permission(Access, u64),
    /// A kernel stack that runs into its guard.
    StackOverflow,
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expectation::Translation(access, address) => write!(f, "{access} at {address:#018x}: translation fault"),
            Expectation::Permission(access, address) => write!(f, "{access} at {address:#018x}: permission fault"),
            Expectation::StackOverflow => f.write_str("kernel stack overflow"),
        }
    }
}

impl Expectation {
    /// What `fault` would have been announced as; `None` for kinds that can't be announced.
    pub(super) fn of(fault: &Fault) -> Option<Expectation> {
        match fault.kind() {
            Kind::Translation(_) => Some(Expectation::Translation(fault.access(), fault.far)),
            Kind::Permission(_) => Some(Expectation::Permission(fault.access(), fault.far)),
            _ => None,
        }
    }
}

static EXPECTED: Mutex<Option<Expectation>> = Mutex::new(None);

/// Announces what is to end the kernel. The next exception that would be a panic ends it with exit code 0 where it is
/// just this, and with code 1 and the panic's report where it is anything else.
pub fn expect(expectation: Expectation) {
    *EXPECTED.lock() = Some(expectation);
}

/// Takes what was announced.
pub(crate) fn expected() -> Option<Expectation> {
    EXPECTED.lock().take()
}
