//! What Palisade prints about its benchmarks: the cost model, the statistics, the table, the verdict and the JSON
//! lines.
//!
//! The crate is pure: the kernel's benchmark driver fills in a [`Head`] and [`Row`]s, and everything is rendered into a
//! [`core::fmt::Write`]. It needs no allocator.
//!
//! - [`mod@bench`]: benchmarks and strategies; [`row`]: counts, rows, the head
//! - [`published`]: the published figures; [`linux`]: Linux's counts
//! - [`model`]: the cost model and its one table of constants; [`fit`]: where three of them come from
//! - [`stats`]: host times
//! - [`table`], [`verdict`], [`json`]: rendering

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod bench;
pub mod fit;
pub mod json;
pub mod linux;
pub mod model;
mod number;
pub mod published;
pub mod row;
pub mod stats;
pub mod table;
pub mod verdict;

pub use bench::{Bench, Strategy, Unit, UnknownName};
pub use json::write_json;
pub use published::{Figure, Mark, Published, Version};
pub use row::{Counts, Gate, Head, PerOp, PorOrigin, Row, TimeSource};
pub use stats::Summary;
pub use table::write_table;
pub use verdict::write_verdict;
