//! The `palisade` program on the host: it hands over to `./qemu.sh`, so that `cargo run` boots the kernel.

use std::env;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Exit code of a set-up that failed, as `qemu.sh` has it too.
const SETUP_FAILED: u8 = 10;

/// Replaces this process by `qemu.sh` with the same arguments; returns only where that fails.
pub fn run() -> ExitCode {
    // Cargo says where the package is now; without it, where it was when this program was built.
    let package = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let script = Path::new(&package).join("qemu.sh");
    let error = Command::new(&script).args(env::args_os().skip(1)).exec();
    eprintln!("palisade: cannot run {}: {error}; run it from a checkout of the repository", script.display());
    ExitCode::from(SETUP_FAILED)
}
