//! One pass over RAM: what each frame says it is, against how it lies in the linear map and whether a root leads to it.

use super::Scope;
use super::violation::{Mapping, Place, Violation};
use super::walk::{View, Visit, Walked, walk};
use crate::addr::{Frame, FrameRange};
use crate::frame::Kind;
use crate::table::Table;
use core::ops::Range;
use pkeys::{Pkey, UserTables};

/// Frames of a window: those of which a bitmap of 1 KiB on the stack knows which ones are reached as tables. The upper tables are
/// walked once for each window that holds any table.
pub(super) const WINDOW: usize = 8192;

/// What the pass counted.
#[derive(Default)]
pub(super) struct Totals {
    /// Frames that are tables.
    pub(super) tables: u64,
    /// Frames of the pool, tables and free ones.
    pub(super) pool: u64,
    /// The walks that it took.
    pub(super) walked: Walked,
}

/// Tables in RAM by what the frames say.
pub(super) fn count_tables(ram: &[FrameRange]) -> u64 {
    ram.iter().flat_map(FrameRange::iter).filter(|frame| frame.meta().is(Kind::Table)).count() as u64
}

/// The tables of one window that are reached.
struct Marks<'r> {
    window: FrameRange,
    reached: [u64; WINDOW / 64],
    report: &'r mut dyn FnMut(Violation),
}

impl Marks<'_> {
    /// Word and bit of `frame`; `None` outside the window.
    fn bit(&self, frame: Frame) -> Option<(usize, u64)> {
        let at = self.window.contains(frame).then(|| (frame.number() - self.window.start().number()) as usize)?;
        Some((at / 64, 1 << (at % 64)))
    }

    fn has(&self, frame: Frame) -> bool {
        self.bit(frame).is_some_and(|(word, bit)| self.reached[word] & bit != 0)
    }
}

impl Visit for Marks<'_> {
    const LEAVES: bool = false;

    fn table(&mut self, frame: Frame, place: Place) -> bool {
        let Some((word, bit)) = self.bit(frame) else { return true };
        let before = self.reached[word] & bit != 0;
        self.reached[word] |= bit;
        if before {
            (self.report)(Violation::Shared { frame, place });
        }
        !before
    }
}

/// Frames below one leaf of the linear map that break a rule, reported together.
#[derive(Clone, Copy)]
struct Group {
    frame: Frame,
    kind: Kind,
    frames: u64,
}

impl Group {
    fn add(group: &mut Option<Group>, frame: Frame, kind: Kind) {
        group.get_or_insert(Group { frame, kind, frames: 0 }).frames += 1;
    }
}

/// The leaf of the linear map that the pass is at.
struct Leaf {
    mapping: Option<Mapping>,
    /// Whether it carries a table key.
    gated: bool,
    /// Numbers of the frames for which it is asked.
    frames: Range<u64>,
    /// Frames under a table key that are no tables.
    stray: Option<Group>,
    /// Frames of the pool under no table key.
    bare: Option<Group>,
}

impl Leaf {
    const NONE: Leaf = Leaf { mapping: None, gated: false, frames: 0..0, stray: None, bare: None };

    /// The one that `frame` lies in.
    fn of(view: View<'_>, frame: Frame) -> Leaf {
        let (mapping, frames) = view.linear(frame);
        let gated = mapping.is_some_and(|leaf| is_gated(view, leaf));
        Leaf { mapping, gated, frames: frame.number()..frame.number() + frames, ..Leaf::NONE }
    }

    /// Reports what gathered.
    fn close(&self, report: &mut dyn FnMut(Violation)) {
        if let (Some(Group { frame, kind, frames }), Some(leaf)) = (self.stray, self.mapping) {
            report(Violation::StrayKey { leaf, frame, kind, frames });
        }
        if let Some(Group { frame, kind, frames }) = self.bare {
            report(Violation::UnkeyedPool { frame, kind, frames, leaf: self.mapping });
        }
    }
}

/// Whether a leaf carries a table key and the permission index that belongs to it.
pub(super) fn is_gated(view: View<'_>, leaf: Mapping) -> bool {
    matches!(view.key(leaf.descriptor), Some(Pkey::UserTables | Pkey::KernelTables))
}

/// The pass, over all of RAM. `tables` is what [`count_tables`] found.
pub(super) fn pass<S>(scope: &Scope<'_, S>, tables: u64, report: &mut dyn FnMut(Violation)) -> Totals
where
    S: Iterator<Item = Table<UserTables>> + Clone,
{
    let mut totals = Totals::default();
    let mut leaf = Leaf::NONE;
    for range in scope.ram {
        for start in (range.start().number()..range.end_number()).step_by(WINDOW) {
            let count = (range.end_number() - start).min(WINDOW as u64);
            let Some(window) = FrameRange::new(Frame::from_number(start), count) else { continue };
            pass_window(scope, tables, window, &mut leaf, &mut totals, report);
        }
    }
    leaf.close(report);
    totals
}

fn pass_window<S>(
    scope: &Scope<'_, S>,
    tables: u64,
    window: FrameRange,
    leaf: &mut Leaf,
    totals: &mut Totals,
    report: &mut dyn FnMut(Violation),
) where
    S: Iterator<Item = Table<UserTables>> + Clone,
{
    let mut marks = Marks { window, reached: [0; WINDOW / 64], report };
    if window.iter().any(|frame| frame.meta().is(Kind::Table)) {
        totals.walked += walk(scope, tables, &mut marks);
    }
    let view = scope.view();
    for frame in window {
        let kind = frame.meta().kind();
        if !leaf.frames.contains(&frame.number()) {
            leaf.close(marks.report);
            *leaf = Leaf::of(view, frame);
        }
        let pool = matches!(kind, Kind::Table | Kind::Pool);
        if !pool {
            if leaf.gated {
                Group::add(&mut leaf.stray, frame, kind);
            }
            continue;
        }
        totals.pool += 1;
        totals.tables += u64::from(kind == Kind::Table);
        if marks.has(frame) {
            continue;
        }
        if !leaf.gated {
            Group::add(&mut leaf.bare, frame, kind);
        }
        if kind == Kind::Table && !totals.walked.truncated && !view.is_boot_table(frame) {
            (marks.report)(Violation::Unreached { frame, tag: frame.meta().tag() });
        }
    }
}
