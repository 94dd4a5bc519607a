//! PSCI: switching the machine off, resetting it, starting CPUs (Arm DEN 0022).
//!
//! The calls come from the `smccc` crate; the conduit (HVC or SMC) from the device tree.

use core::convert::Infallible;

use smccc::psci;
use smccc::{Hvc, Smc};

use crate::machine::Conduit;

pub use smccc::psci::Version;
pub use smccc::psci::error::Error;

/// The PSCI firmware, reached by the conduit that the device tree names.
#[derive(Clone, Copy, Debug)]
pub struct Psci {
    conduit: Conduit,
}

impl Psci {
    /// Takes the conduit from [`crate::machine::Machine::psci`].
    pub const fn new(conduit: Conduit) -> Self {
        Psci { conduit }
    }

    /// PSCI_VERSION.
    ///
    /// # Errors
    /// `NotSupported` where nothing answers the call.
    pub fn version(self) -> Result<Version, Error> {
        match self.conduit {
            Conduit::Hvc => psci::version::<Hvc>(),
            Conduit::Smc => psci::version::<Smc>(),
        }
    }

    /// SYSTEM_OFF: returns only if it failed.
    ///
    /// # Errors
    /// The firmware's error, when the machine is still running.
    pub fn system_off(self) -> Result<Infallible, Error> {
        match self.conduit {
            Conduit::Hvc => psci::system_off::<Hvc>(),
            Conduit::Smc => psci::system_off::<Smc>(),
        }
        .and(Err(Error::InternalFailure))
    }

    /// SYSTEM_RESET: returns only if it failed. Under QEMU's `-no-reboot` it ends the emulator with exit code 0.
    ///
    /// # Errors
    /// The firmware's error, when the machine is still running.
    pub fn system_reset(self) -> Result<Infallible, Error> {
        match self.conduit {
            Conduit::Hvc => psci::system_reset::<Hvc>(),
            Conduit::Smc => psci::system_reset::<Smc>(),
        }
        .and(Err(Error::InternalFailure))
    }

    /// CPU_ON: starts the CPU whose affinity is `mpidr` at physical address `entry`, MMU and caches off, with `context`
    /// in x0.
    ///
    /// # Errors
    /// `AlreadyOn`, `OnPending`, `InvalidParameters` (no such CPU), `InvalidAddress` and what else DEN 0022 lists.
    ///
    /// # Safety
    /// At `entry` lies code that is written to be a CPU's first, `context` is what that code expects, and everything it
    /// reads before its caches are on has been cleaned to memory.
    pub unsafe fn cpu_on(self, mpidr: u64, entry: u64, context: u64) -> Result<(), Error> {
        match self.conduit {
            Conduit::Hvc => psci::cpu_on::<Hvc>(mpidr, entry, context),
            Conduit::Smc => psci::cpu_on::<Smc>(mpidr, entry, context),
        }
    }
}
