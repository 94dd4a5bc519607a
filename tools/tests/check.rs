//! `palisade-check` as a program, on lines that the report crate writes.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use report::{Bench, Counts, Gate, Head, PorOrigin, Row, Strategy, TimeSource, write_json};

/// A folder of one test's files, removed when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("palisade-check-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Runs the program: exit code, and what it said on both streams.
fn check(args: &[&str]) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_palisade-check")).args(args).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

/// The lines of a run of two rows, the second of them as `change` leaves it.
fn lines(time: TimeSource, change: impl Fn(&mut Counts, Strategy)) -> String {
    let head = Head { gate: Gate::Mock, por: PorOrigin::Emulated, time };
    let mut rows = [Row::new(Bench::Fork, 512, false, 262_144), Row::new(Bench::FixSize, 4, false, 4)];
    for strategy in Strategy::ALL {
        let (por_writes, isb) = match strategy {
            Strategy::Off => (0, 2),
            Strategy::PerWrite => (16, 18),
            _ => (4, 4),
        };
        let instructions = if time == TimeSource::Icount { 10_000 } else { 0 };
        let mut counts = Counts { ops: 10, instructions, por_writes, isb, dsb: 3, tlbi: 1 };
        rows[0].set_counts(strategy, counts);
        change(&mut counts, strategy);
        rows[1].set_counts(strategy, counts);
    }
    let mut text = String::new();
    write_json(&mut text, &head, &rows).unwrap();
    text
}

fn unchanged() -> String {
    lines(TimeSource::Icount, |_, _| {})
}

#[test]
fn a_good_run_is_valid_even_with_a_serial_lines_carriage_returns() {
    let folder = Folder::new("valid");
    let file = folder.file("run.json", &unchanged().replace('\n', "\r\n"));
    assert_eq!(check(&["json", &file]), (0, "6 results are valid\n".into()));
    let host = folder.file("host.json", &lines(TimeSource::Host, |_, _| {}));
    assert_eq!(check(&["json", &host]).0, 0);
}

#[test]
fn every_kind_of_damage_is_found() {
    let folder = Folder::new("damage");
    let good = unchanged();
    let without_last = good.lines().take(5).collect::<Vec<_>>().join("\n");
    let damaged = [
        (good.replacen(r#","pages":512"#, "", 1), "line 1: pages is missing"),
        (good.replacen(r#""huge":false"#, r#""huge":0"#, 1), "line 1: huge is 0, not true or false"),
        (good.replacen(r#""isb_per_op":"#, r#""isb_per_op":-"#, 1), "isb_per_op is -0.2, not a number, zero or more"),
        (good.replacen(r#""strategy":"off""#, r#""strategy":"of""#, 1), r#"strategy is "of", not one of the known"#),
        (good.replacen(r#""schema":1"#, r#""schema":1,"more":1"#, 1), "line 1: more is unknown"),
        (good.replacen(r#""schema":1"#, r#""schema":2"#, 1), "schema is 2, not 1"),
        (good.replacen(r#""gate":"mock""#, r#""gate":"por""#, 1), "gate differs between lines"),
        (good.replacen("282.89", "28.289", 1), "but Some(282.89) was published"),
        (good.replacen(r#""modelled_overhead_pct":0"#, r#""modelled_overhead_pct":1"#, 1), "of off is 1, not 0"),
        (good.replacen("262144,", "262144", 1), "line 1: "),
        (without_last, "fix_size p:4 h:0 batched is there 0 times, not once"),
        (good.clone() + &good, "fork p:512 h:0 off is there 2 times, not once"),
        (good.clone() + "done\n", r#"line 7: does not start with {"bench":"#),
        (String::new(), "no results"),
    ];
    for (text, expected) in damaged {
        assert_ne!(text, good, "nothing was damaged for: {expected}");
        let (code, said) = check(&["json", &folder.file("run.json", &text)]);
        assert_eq!(code, 1, "{expected}: {said}");
        assert!(said.contains(expected), "{expected} is not in: {said}");
    }
}

#[test]
fn counts_are_compared_with_what_was_recorded() {
    let folder = Folder::new("counts");
    let run = folder.file("run.json", &unchanged());
    let baseline = folder.file("counts.json", "");
    let (code, said) = check(&["counts", &run, &baseline, "--update"]);
    assert_eq!((code, said), (0, format!("recorded 6 results in {baseline}\n")));
    let (code, said) = check(&["counts", &run, &baseline]);
    assert_eq!((code, said.as_str()), (0, "6 results compared: 0 regressions, 0 improvements\n"));

    type Change = fn(&mut Counts, Strategy);
    let changes: [(Change, i32, &str); 6] = [
        (|counts, _| counts.instructions += 290, 0, "0 regressions"),
        (|counts, _| counts.instructions += 310, 1, "fix_size p:4 h:0 off: instructions_per_op 1000 -> 1031 (+3.1 %)"),
        (|counts, _| counts.instructions -= 1000, 0, "improved: fix_size p:4 h:0 off: instructions_per_op 1000 -> 900"),
        (|counts, _| counts.isb += 1, 1, "fix_size p:4 h:0 off: isb_per_op 0.2 -> 0.3\n"),
        (|counts, _| counts.dsb -= 1, 1, "dsb_per_op 0.3 -> 0.2 (fewer: --update if that is meant)"),
        (|counts, _| counts.ops = 20, 1, "ops was 10, is 20: run as the file was recorded"),
    ];
    for (change, expected_code, expected) in changes {
        let run = folder.file("changed.json", &lines(TimeSource::Icount, change));
        let (code, said) = check(&["counts", &run, &baseline]);
        assert_eq!(code, expected_code, "{expected}: {said}");
        assert!(said.contains(expected), "{expected} is not in: {said}");
    }
}

#[test]
fn a_result_that_went_or_came_is_named() {
    let folder = Folder::new("rows");
    let all = folder.file("all.json", &unchanged());
    let one = folder.file("one.json", &unchanged().lines().take(3).collect::<Vec<_>>().join("\n"));
    let baseline = folder.file("counts.json", "");
    assert_eq!(check(&["counts", &all, &baseline, "--update"]).0, 0);
    let (code, said) = check(&["counts", &one, &baseline]);
    assert!(code == 1 && said.contains("fix_size p:4 h:0 batched: no longer there"), "{said}");
    assert_eq!(check(&["counts", &one, &baseline, "--update"]).0, 0);
    let (code, said) = check(&["counts", &all, &baseline]);
    assert!(code == 1 && said.contains("fix_size p:4 h:0 off: not recorded yet"), "{said}");
}

#[test]
fn wrong_calls_and_files_are_told_apart_from_wrong_results() {
    let folder = Folder::new("calls");
    let run = folder.file("run.json", &unchanged());
    let host = folder.file("host.json", &lines(TimeSource::Host, |_, _| {}));
    let nonsense = folder.file("counts.json", r#"{"format": 7}"#);
    for (args, expected) in [
        (vec![], "no command given"),
        (vec!["jsn", &run], "unknown command jsn"),
        (vec!["json"], "LINES is missing"),
        (vec!["json", &run, &run], "unexpected argument"),
        (vec!["json", &run, "--update"], "--update belongs to counts"),
        (vec!["json", "/nonexistent"], "can't read /nonexistent"),
        (vec!["counts", &run], "BASELINE.json is missing"),
        (vec!["counts", &run, &nonsense], "format is 7, not 1"),
        (vec!["counts", &host, &nonsense], "counts need a run under icount"),
    ] {
        let (code, said) = check(&args);
        assert_eq!(code, 2, "{args:?}: {said}");
        assert!(said.contains(expected), "{expected} is not in: {said}");
    }
    let (code, said) = check(&["--help"]);
    assert!(code == 0 && said.starts_with("usage: "), "{said}");
}
