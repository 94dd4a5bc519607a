//! Repeats the cost model's fit and prints it: `cargo run --release -p report --example fit`.
//!
//! The second fit charges the instructions that the ported scheme adds in full; the model's own leaves them out.

use report::fit::{Costs, errors, fit, rows};
use report::{Strategy, Version};

fn main() {
    for added_instruction in [0.0, 1.0] {
        println!("Added instructions at {added_instruction} units");
        print(&fit(added_instruction));
    }
}

fn print(costs: &Costs) {
    println!("POR write {}, ISB {}, stall per entry {}", costs.por_write, costs.isb, costs.entry);
    println!("objective {:.4}", costs.objective());
    for strategy in [Strategy::PerWrite, Strategy::Batched] {
        println!("{strategy}: {:.2?}", errors(costs, strategy));
        for (port, published) in rows() {
            let figures =
                Version::ALL.map(|version| published.figure(version, strategy).map_or(0.0, |figure| figure.pct));
            let modelled = costs.predict(port, strategy);
            println!("  {:11} {:3} {:5} {modelled:8.2} {figures:.2?}", port.bench, port.pages, port.huge);
        }
    }
    println!();
}
