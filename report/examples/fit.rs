//! Repeats the cost model's fit and prints it: `cargo run --release -p report --example fit`.

use report::fit::{errors, fit, rows};
use report::{Strategy, Version};

fn main() {
    let costs = fit();
    println!("POR write {}, ISB {}, stall per entry {}", costs.por_write, costs.isb, costs.entry);
    println!("objective {:.4}", costs.objective());
    for strategy in [Strategy::PerWrite, Strategy::Batched] {
        println!("{strategy}: {:.2?}", errors(&costs, strategy));
        for (port, published) in rows() {
            let figures =
                Version::ALL.map(|version| published.figure(version, strategy).map_or(0.0, |figure| figure.pct));
            let modelled = costs.predict(port, strategy);
            println!("  {:11} {:3} {:5} {modelled:8.2} {figures:.2?}", port.bench, port.pages, port.huge);
        }
    }
    for entry in (0..=100).step_by(10) {
        let fixed = report::fit::Costs { entry: f64::from(entry), ..costs };
        println!("stall {entry:3}: objective {:.3}", fixed.objective());
    }
}
