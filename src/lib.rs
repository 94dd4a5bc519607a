//! Palisade
