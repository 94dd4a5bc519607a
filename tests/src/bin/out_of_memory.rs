//! Memory runs out in every operation, under every policy: each says so to its caller, gives back what it had taken, and works
//! again once there is memory.
//! qemu: --memory 128M
//! expect: 0
#![no_std]
#![no_main]

extern crate alloc;

use alloc::vec::Vec;
use mm::addr::{Frame, VirtAddr};
use mm::area::{AreaError, Areas, VmFlags};
use mm::desc::Level;
use mm::memory::Memory;
use mm::pool::BLOCK_FRAMES;
use mm::space::{Access, AddressSpace, Protection, SpaceError};
use mm::table::{Table, walk};
use palisade::window::with_protection_off;
use palisade_tests::kit::{accounted, pages, virt};
use pkeys::{Batched, Context, KernelTables, Off, PerWrite, Pkey, Policy, PorGate, Section, UserTables};
use platform::arch::Arm;

palisade::kernel_main!(main);

const REGION: u64 = 0x10_0000_0000;
/// One page in each of these many tables: more than a block of the pool holds.
const SPARSE: u64 = 1500;
const TABLE_BYTES: u64 = 2 << 20;
/// Frames that are left to use up where it takes a store for each: stores take long where POR_EL1 is emulated.
const LEFT: u64 = 12_000;
/// Tables that are left to use up.
const TABLES_LEFT: usize = 10;

#[derive(Clone, Copy)]
struct Test<'a> {
    memory: &'static Memory,
    areas: &'a Areas,
}

/// Takes every frame that there is but `spare`, and gives them back when dropped.
struct Full(&'static Memory, Option<Frame>);

impl Full {
    fn but(memory: &'static Memory, spare: u64) -> Self {
        let free = memory.frames.stats().free();
        Full(memory, memory.frames.alloc_chain(free - spare).expect("that many are free"))
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        self.0.frames.drop_chain(self.1);
    }
}

fn out<T>(result: Result<T, SpaceError>) -> bool {
    matches!(result, Err(SpaceError::OutOfMemory(_)))
}

fn is_short<T>(result: Result<T, AreaError>) -> bool {
    matches!(result, Err(AreaError::NoMemory(_)))
}

impl Test<'_> {
    /// Runs `work`, after which everything has to be where it was.
    fn whole<P: Policy>(self, what: &str, work: impl FnOnce()) {
        self.areas.purge::<P>();
        let before = (accounted(self.memory), self.memory.pool.usage(Pkey::UserTables).tables);
        work();
        let after = (accounted(self.memory), self.memory.pool.usage(Pkey::UserTables).tables);
        assert_eq!(after, before, "frames and user tables after {what}");
    }

    fn populate<P: Policy>(self) {
        let _most = Full::but(self.memory, LEFT);
        for order in [0, 9] {
            let mut space = AddressSpace::<P>::new(self.memory).expect("room");
            let all = pages(REGION, self.memory.frames.stats().total());
            space.map(all, Protection::ReadWrite, order).expect("free addresses");
            assert!(out(space.populate(all)));
            assert!(self.memory.frames.stats().free() < BLOCK_FRAMES, "all of it was used");
            // The pages so far stay, and go like any others; then there is room for the same range again.
            assert!(walk(space.root(), virt(REGION)).descriptor.is_valid());
            space.unmap(pages(REGION, 4096)).expect("user pages");
            space.map(pages(REGION, 4096), Protection::ReadWrite, order).expect("free addresses");
            space.populate(pages(REGION, 4096)).expect("as much was free");
        }
    }

    /// A space of [`SPARSE`] regions of one page, each with a table of its own.
    fn sparse<P: Policy>(self) -> AddressSpace<P> {
        let mut space = AddressSpace::<P>::new(self.memory).expect("room");
        for i in 0..SPARSE {
            let page = pages(REGION + i * TABLE_BYTES, 1);
            space.map(page, Protection::ReadWrite, 0).expect("free addresses");
            space.populate(page).expect("room");
        }
        space
    }

    fn fork<P: Policy>(self) {
        let mut space = self.sparse::<P>();
        {
            let _full = Full::but(self.memory, 0);
            assert!(out(space.fork()));
            // The parent's pages are its own: nothing has to be copied, and nothing could be.
            for i in 0..SPARSE {
                let resolved = space.fault(virt(REGION + i * TABLE_BYTES), Access::Write);
                assert!(resolved.is_ok(), "{resolved:?}");
            }
            assert!(out(space.fork()));
        }
        let mut child = space.fork().expect("room again");
        {
            let _full = Full::but(self.memory, 0);
            assert!(out(child.fault(virt(REGION), Access::Write).map(|_| ())), "a copy needs a frame");
        }
        child.fault(virt(REGION), Access::Write).expect("room again");
    }

    fn first_touch<P: Policy>(self) {
        let mut space = AddressSpace::<P>::new(self.memory).expect("room");
        space.map(pages(REGION, 512), Protection::ReadWrite, 9).expect("free addresses");
        {
            let _full = Full::but(self.memory, 0);
            assert!(out(space.fault(virt(REGION), Access::Write).map(|_| ())));
        }
        {
            // Without a folio a single page has to do.
            let _full = Full::but(self.memory, 40);
            space.fault(virt(REGION), Access::Write).expect("a frame is left");
        }
        space.unmap(pages(REGION, 512)).expect("user pages");
    }

    fn vmalloc<P: Policy>(self, count: u64, huge: bool) {
        let _most = Full::but(self.memory, LEFT);
        let flags = VmFlags { huge, ..VmFlags::default() };
        let mut made: Vec<VirtAddr> = Vec::with_capacity(self.memory.frames.stats().total() as usize / 16);
        let error = loop {
            match self.areas.vmalloc::<P>(count, flags) {
                Ok(area) => made.push(area),
                Err(error) => break error,
            }
        };
        assert!(is_short::<()>(Err(error)), "{error}");
        assert!(made.len() > 10);
        // What is only freed serves, after the purge that shortage brings about.
        for area in made.split_off(made.len() - 4) {
            self.areas.vfree::<P>(area).expect("an area");
        }
        made.push(self.areas.vmalloc::<P>(2 * count, flags).expect("as much was freed"));
        for area in made {
            self.areas.vfree::<P>(area).expect("an area");
        }
        self.areas.purge::<P>();
    }

    /// Many mappings of one frame: tables run out, and nothing else.
    fn vm_map_ram<P: Policy>(self) {
        let frame = self.memory.frames.alloc().expect("room");
        let list: Vec<Frame> = core::iter::repeat_n(frame, 600).collect();
        let mut made: Vec<VirtAddr> = Vec::with_capacity(TABLES_LEFT);
        {
            let _full = Full::but(self.memory, 0);
            let mut tables = self.take_all::<P, KernelTables>();
            self.put_all::<P, _>(tables.split_off(tables.len() - TABLES_LEFT));
            let error = loop {
                match self.areas.vm_map_ram::<P>(&list) {
                    Ok(area) => made.push(area),
                    Err(error) => break error,
                }
            };
            assert!(is_short::<()>(Err(error)), "{error}");
            assert!(!made.is_empty());
            assert_eq!(u64::from(frame.meta().refs()), 1 + made.len() as u64 * 600);
            self.put_all::<P, _>(tables);
        }
        made.push(self.areas.vm_map_ram::<P>(&list).expect("room again"));
        for area in made {
            self.areas.vm_unmap_ram::<P>(area, 600).expect("an area");
        }
        self.areas.purge::<P>();
        assert_eq!(frame.meta().refs(), 1);
        self.memory.frames.release(frame, 1);
    }

    /// Takes tables until there are no more.
    fn take_all<P: Policy, C: Context>(self) -> Vec<Table<C>> {
        let mut tables = Vec::with_capacity(self.memory.frames.stats().total() as usize);
        loop {
            let section = Section::<P, C>::open();
            let Ok(table) = self.memory.take_table(section.token(), Level::L3) else { return tables };
            tables.push(table);
        }
    }

    fn put_all<P: Policy, C: Context>(self, tables: Vec<Table<C>>) {
        let section = Section::<P, C>::open();
        tables.into_iter().for_each(|table| self.memory.put_table(section.token(), table));
    }

    fn pool<P: Policy>(self) {
        let tables = self.take_all::<P, UserTables>();
        assert!(self.memory.frames.stats().tables.free < 2 * BLOCK_FRAMES, "all blocks were used");
        assert!(tables.len() as u64 > 20 * BLOCK_FRAMES);
        assert_eq!(self.memory.pool.usage(Pkey::UserTables).tables, tables.len() as u64);
        assert!(self.take_all::<P, UserTables>().is_empty());
        self.put_all::<P, _>(tables);
    }

    /// Fails the first allocation of `work`, then the second and so on, until it succeeds.
    fn sweep<P: Policy>(self, what: &str, work: impl Fn() -> bool) {
        let frames = self.memory.frames;
        for n in 0.. {
            self.areas.purge::<P>();
            let before = accounted(self.memory);
            frames.fail_after(n);
            let done = work();
            let failed = frames.fail_never();
            self.areas.purge::<P>();
            assert_eq!(accounted(self.memory), before, "frames after {what}, allocation {n} failing");
            if !failed {
                assert!(done, "{what} fails without a cause");
                assert!(n > 0, "{what} allocates");
                palisade::println!("{what}: {n} allocations, each failed once");
                return;
            }
        }
    }

    fn sweeps<P: Policy>(self) {
        for order in [0, 2] {
            self.sweep::<P>("populate, fork, copy", || {
                let life = || -> Result<(), SpaceError> {
                    let mut space = AddressSpace::<P>::new(self.memory)?;
                    space.map(pages(REGION, 40), Protection::ReadWrite, order)?;
                    space.fault(virt(REGION), Access::Write)?;
                    space.populate(pages(REGION, 40))?;
                    let mut child = space.fork()?;
                    child.fault(virt(REGION + 0x5000), Access::Write)?;
                    child.protect(pages(REGION, 7), Protection::Read)?;
                    child.unmap(pages(REGION + 0x3000, 9))?;
                    space.fault(virt(REGION + 0x5000), Access::Write)?;
                    Ok(())
                };
                // A folio that can't be had is no failure.
                life().is_ok()
            });
        }
        self.sweep::<P>("vmalloc", || {
            let life = || -> Result<(), AreaError> {
                let area = self.areas.vmalloc::<P>(70, VmFlags::default())?;
                self.areas.vfree::<P>(area)?;
                let area = self.areas.vmalloc::<P>(700, VmFlags { huge: true, ..VmFlags::default() })?;
                self.areas.vfree::<P>(area)
            };
            life().is_ok()
        });
    }

    fn all<P: Policy>(self, policy: &str) {
        palisade::println!("{policy}");
        self.whole::<P>("populate", || self.populate::<P>());
        self.whole::<P>("fork", || self.fork::<P>());
        self.whole::<P>("first touch", || self.first_touch::<P>());
        self.whole::<P>("vmalloc", || self.vmalloc::<P>(20, false));
        self.whole::<P>("vmalloc, huge", || self.vmalloc::<P>(700, true));
        self.whole::<P>("vm_map_ram", || self.vm_map_ram::<P>());
        self.whole::<P>("growth of the pool", || self.pool::<P>());
        self.sweeps::<P>();
    }
}

fn main(boot: &palisade::Boot) -> u32 {
    // The heap keeps what it has taken: enough now for all that comes.
    drop(Vec::<u8>::with_capacity(4 << 20));
    let areas = Areas::new(boot.memory).expect("room");
    let test = Test { memory: boot.memory, areas: &areas };
    with_protection_off(|| test.all::<Off<Arm>>("off"));
    test.all::<PerWrite<PorGate<Arm>>>("per write");
    test.all::<Batched<PorGate<Arm>>>("batched");
    0
}
