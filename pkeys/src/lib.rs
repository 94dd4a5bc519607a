//! pkeys
