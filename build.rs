//! Links the kernel with its own linker script; host builds stay as they are.

use std::env;
use std::path::Path;

fn main() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/boot/kernel.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "none") {
        println!("cargo::rustc-link-arg-bins=-T{}", script.display());
    }
}
