//! What an exception handler's stack holds of POR_EL1 is for reports only: changing it there opens nothing on return.
//! expect: 0
#![no_std]
#![no_main]

use core::mem::offset_of;
use mm::linear;
use palisade::exception::{self, ExceptionFrame, Fault, probe};
use pkeys::pi::PIR_EL1;
use pkeys::{Context, KernelTables, Por, UserTables};
use platform::arch::{Arch, Arm};

palisade::kernel_main!(main);

/// 64-bit words of stack in which the handler looks for its exception frame.
const SEARCHED: usize = 512;

/// Opens every key in the frame of the exception that led here.
fn handler(fault: &Fault) -> bool {
    const fn word(offset: usize) -> usize {
        offset / size_of::<u64>()
    }
    const ELR: usize = word(offset_of!(ExceptionFrame, elr));
    let (esr, far) = (word(offset_of!(ExceptionFrame, esr)) - ELR, word(offset_of!(ExceptionFrame, far)) - ELR);
    let (por, pir) = (word(offset_of!(ExceptionFrame, por)) - ELR, word(offset_of!(ExceptionFrame, pir)) - ELR);
    for n in 0..SEARCHED {
        let elr = (&raw const *fault).cast::<u64>().cast_mut().wrapping_add(n);
        // SAFETY: the exception's frame lies above `fault` on this stack, so the search ends before the stack does.
        let seen = [0, esr, far, por].map(|field| unsafe { elr.add(field).read_volatile() });
        if seen == [fault.elr, fault.esr, fault.far, fault.por] {
            // SAFETY: the two words are fields of this frame; that changing them does nothing is what is tested.
            unsafe {
                elr.add(por).write_volatile(Por::ALL_OPEN.bits());
                elr.add(pir).write_volatile(PIR_EL1);
            }
            return false;
        }
    }
    panic!("no exception frame on the stack");
}

fn main(boot: &palisade::Boot) -> u32 {
    exception::set_user_fault_handler(handler);
    let entry = linear::ptr(boot.memory.kernel.table().frame().start()).addr() as u64 + 300 * 8;
    for por in [Por::CLOSED, UserTables::OPEN, KernelTables::OPEN] {
        // SAFETY: a test of what exceptions do to an open section; closed again below.
        unsafe { Arm::write_por(por.bits()) };
        let _ = Arm::isb();
        assert!(probe::read_user_u8(0x1234_5678).is_err());
        assert_eq!(Arm::read_por(), por.bits(), "neither more nor less is open");
        // SAFETY: the entry is empty and stays so: the write faults, or writes what is there.
        assert_eq!(unsafe { probe::write_u64(entry, 0) }.is_ok(), por == KernelTables::OPEN);
        // SAFETY: closes.
        unsafe { Arm::write_por(Por::CLOSED.bits()) };
        let _ = Arm::isb();
    }
    0
}
