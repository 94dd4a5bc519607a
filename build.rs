//! Links the kernel with its own linker script; host builds stay as they are.

use std::env;
use std::path::Path;

fn main() {
    // Read when the script runs: a target folder may outlive the checkout that this program was compiled in.
    let package = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR for build scripts");
    let script = Path::new(&package).join("src/boot/kernel.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "none") {
        println!("cargo::rustc-link-arg-bins=-T{}", script.display());
    }
}
