//! Links every test kernel with the linker script of the kernel itself.

use std::env;
use std::path::Path;

fn main() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/boot/kernel.ld");
    println!("cargo::rerun-if-changed={}", script.display());
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "none") {
        println!("cargo::rustc-link-arg=-T{}", script.display());
    }
}
