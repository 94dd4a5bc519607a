//! The kernel on `target_os = "none"`; on the host, the launcher that boots it in QEMU.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(not(target_os = "none"))]
mod launcher;

#[cfg(not(target_os = "none"))]
fn main() -> std::process::ExitCode {
    launcher::run()
}

#[cfg(target_os = "none")]
palisade::kernel_main!(palisade::program::main);
