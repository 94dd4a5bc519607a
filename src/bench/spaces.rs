//! fork and munmap of anonymous memory, faulted in and mapped by pages (micromm's benchmarks of that name).

use super::meter::Meter;
use super::{BenchError, Env};
use mm::addr::{PAGE_SHIFT, Page, PageRange, VirtAddr};
use mm::space::{AddressSpace, Protection};
use pkeys::Policy;

/// Where the region lies: any 2 MiB-aligned user address serves.
const REGION: u64 = 0x10_0000_0000;

/// One `fork` of a process whose memory is populated and writable. The child ends at once, unmeasured.
pub fn fork<P: Policy>(env: &Env<'_>, folio_pages: u32, meter: &mut Meter) -> Result<(), BenchError> {
    let (mut space, _) = populated::<P>(env, folio_pages)?;
    let child = meter.measure(1, || space.fork())?;
    drop(child);
    Ok(())
}

/// One `munmap` of all of it.
pub fn munmap<P: Policy>(env: &Env<'_>, folio_pages: u32, meter: &mut Meter) -> Result<(), BenchError> {
    let (mut space, region) = populated::<P>(env, folio_pages)?;
    Ok(meter.measure(1, || space.unmap(region))?)
}

/// An active space with one populated region in folios of `folio_pages`.
fn populated<P: Policy>(env: &Env<'_>, folio_pages: u32) -> Result<(AddressSpace<P>, PageRange), BenchError> {
    let mut space = AddressSpace::new(env.memory)?;
    let start = VirtAddr::new(REGION).map(Page::containing).expect("the region lies in the user's half");
    let region = PageRange::new(start, env.region >> PAGE_SHIFT).expect("the region lies in the user's half");
    space.map(region, Protection::ReadWrite, folio_pages.ilog2())?;
    space.activate();
    space.populate(region)?;
    Ok((space, region))
}
