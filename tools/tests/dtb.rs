//! `palisade-dtb` as a script uses it.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::{env, fs, process};

use dtoolkit::fdt::Fdt;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use dtoolkit::{Node, Property};
use tools::bundle;
use tools::header::Header;

fn run(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_palisade-dtb")).args(args).output().unwrap()
}

/// A folder of one test's own, removed when it goes out of scope.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn blob() -> Vec<u8> {
    let mut tree = DeviceTree::new();
    tree.root.add_property(DeviceTreeProperty::new("#address-cells", 2_u32).unwrap());
    tree.root.add_property(DeviceTreeProperty::new("#size-cells", 2_u32).unwrap());
    let mut memory = DeviceTreeNode::new("memory@40000000").unwrap();
    memory.add_property(DeviceTreeProperty::new("device_type", "memory").unwrap());
    tree.root.add_child(memory);
    tree.to_dtb()
}

#[test]
fn split_then_bundle() {
    let scratch = Scratch::new("split");
    let [input, split, kernel, output] =
        ["in.dtb", "split.dtb", "kernel.img", "out.img"].map(|name| scratch.path(name));
    fs::write(&input, blob()).unwrap();
    let result = run(&["split", "--node-per-bank", &input, &split, "0x40000000:64M", "0x80000000:1G"]);
    assert!(result.status.success(), "{result:?}");
    let dtb = fs::read(&split).unwrap();
    let root = Fdt::new(&dtb).unwrap().root();
    let regs: Vec<_> = root.children().map(|node| node.property("reg").unwrap().value().to_vec()).collect();
    let bytes = |base: u64, size: u64| [base.to_be_bytes(), size.to_be_bytes()].concat();
    assert_eq!(regs, [bytes(0x4000_0000, 64 << 20), bytes(0x8000_0000, 1 << 30)]);

    let image = Header { code0: 0, text_offset: 0, image_size: 0x1000, flags: 0 }.to_bytes();
    fs::write(&kernel, image).unwrap();
    let result = run(&["bundle", &kernel, &split, &output]);
    assert!(result.status.success(), "{result:?}");
    assert_eq!(fs::read(&output).unwrap(), bundle::bundle(&image, &dtb).unwrap());
}

#[test]
fn wrong_usage_is_told_from_wrong_files() {
    assert_eq!(run(&["--help"]).status.code(), Some(0));
    for args in [&[][..], &["merge"], &["split", "in"], &["split", "in", "out", "1"], &["bundle", "a", "b", "c", "d"]] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(String::from_utf8(output.stderr).unwrap().contains("usage:"), "{args:?}");
    }
    let scratch = Scratch::new("usage");
    let (input, output) = (scratch.path("in.dtb"), scratch.path("out.dtb"));
    assert_eq!(run(&["split", &input, &output, "0:1M"]).status.code(), Some(1));
    fs::write(&input, "not a blob").unwrap();
    let result = run(&["split", &input, &output, "0:1M"]);
    assert_eq!(result.status.code(), Some(1));
    assert!(String::from_utf8(result.stderr).unwrap().contains("not a readable device tree blob"));
    fs::write(&input, blob()).unwrap();
    let result = run(&["split", &input, &output]);
    assert!(String::from_utf8(result.stderr).unwrap().contains("no memory bank given"));
}
