//! Palisade.
fn main() {}
