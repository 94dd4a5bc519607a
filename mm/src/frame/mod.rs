//! Frames of physical memory: their metadata, and who hands them out.

mod meta;

pub use meta::{FrameMeta, Kind};
