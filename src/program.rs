//! What the kernel does: the self-check, the benchmarks, an audit of the tables, the report.

use crate::bench::Plan;
use crate::boot::{Boot, EXIT_USAGE};
use crate::console::Out;
use crate::protection::Protection;
use crate::selfcheck;
use core::fmt;
use mm::area::Areas;
use mm::audit;

/// Exit code for a check or benchmark that failed.
pub const EXIT_FAILED: u32 = 1;

/// Runs it all; the exit code.
pub fn main(boot: &Boot) -> u32 {
    let areas = match Areas::new(boot.memory) {
        Ok(areas) => areas,
        Err(error) => return failed(EXIT_FAILED, &error),
    };
    let plan = match Plan::new(boot, &areas) {
        Ok(plan) => plan,
        Err(error) => return failed(if error.is_usage() { EXIT_USAGE } else { EXIT_FAILED }, &error),
    };
    if !checked(boot, &areas) {
        return EXIT_FAILED;
    }
    let results = match plan.run() {
        Ok(results) => results,
        Err(error) => return failed(EXIT_FAILED, &error),
    };
    if !audited(boot, &areas) {
        return EXIT_FAILED;
    }
    if results.rows.is_empty() {
        return 0;
    }
    // The console does not fail.
    let _ = report::write_table(&mut Out, &results.head, &results.rows);
    let _ = report::write_verdict(&mut Out, &results.rows);
    let _ = report::write_json(&mut Out, &results.head, &results.rows);
    0
}

fn failed(code: u32, error: &dyn fmt::Display) -> u32 {
    crate::println!("{error}");
    code
}

/// The self-check, and what it found; true where it passed or there is nothing to check.
fn checked(boot: &Boot, areas: &Areas) -> bool {
    if boot.protection == Protection::None {
        crate::println!("self-check: skipped, nothing is protected");
        return true;
    }
    match selfcheck::run(boot, areas) {
        Ok(outcome) => {
            crate::println!("self-check: {outcome}");
            outcome.passed()
        }
        Err(error) => failed(EXIT_FAILED, &error) == 0,
    }
}

/// Audits all tables with two spaces and an area in place; true where the audit could be made and found nothing.
fn audited(boot: &Boot, areas: &Areas) -> bool {
    let mut violations = 0;
    match selfcheck::audit(boot, areas, &mut |violation| {
        violations += 1;
        crate::println!("audit: {violation}");
    }) {
        Ok(summary) => {
            let audit::Summary { tables, leaves, frames, .. } = summary;
            crate::println!(
                "audit: {violations} violations in {tables} tables, {leaves} leaves and {frames} frames of RAM"
            );
            violations == 0
        }
        Err(error) => failed(EXIT_FAILED, &error) == 0,
    }
}
