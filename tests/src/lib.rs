//! Test kernels.
