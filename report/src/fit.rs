//! Fits the cost model's three unknowns to the published figures, and judges the fit.
//!
//! The data: the port's counts ([`crate::linux::PORTED`]) and the published per cents
//! ([`crate::published::PUBLISHED`]). The objective: the sum of absolute relative errors over every figure that the
//! source marks as a significant regression, v4 and v5, per-write and batched, each with the same weight. The port's
//! added instructions are left out of the prediction (`docs/measuring.md` says why). [`fit`] searches whole units and
//! is deterministic.

use crate::bench::Strategy;
use crate::linux::Ported;
use crate::published::{Mark, Published, Version};

/// The model's unknowns, in units of an average unprotected instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A `POR_EL1` write.
    pub por_write: f64,
    /// An `ISB`.
    pub isb: f64,
    /// What an entry's write stalls beyond its instructions.
    pub entry: f64,
    /// An instruction that the strategy adds: chosen, not fitted, and 0 in the model's own fit.
    pub added_instruction: f64,
}

impl Costs {
    /// The per cent by which the model says that `strategy` slows the port's operation down.
    #[must_use]
    pub fn predict(&self, port: &Ported, strategy: Strategy) -> f64 {
        let Some(gated) = port.gated(strategy) else { return 0.0 };
        let instructions = port.off * gated.added_instructions_pct / 100.0;
        let added = self.por_write * gated.por_writes + self.isb * gated.isb + self.added_instruction * instructions;
        100.0 * added / (port.off + self.entry * port.entries())
    }

    /// The fit's objective: lower is better.
    #[must_use]
    pub fn objective(&self) -> f64 {
        let mut sum = 0.0;
        for (port, published) in rows() {
            for strategy in [Strategy::PerWrite, Strategy::Batched] {
                let predicted = self.predict(port, strategy);
                for version in Version::ALL {
                    match published.figure(version, strategy) {
                        Some(figure) if figure.mark == Mark::Regression => sum += (predicted / figure.pct - 1.0).abs(),
                        _ => {}
                    }
                }
            }
        }
        sum
    }
}

/// Every row that was both counted in the port and published.
pub fn rows() -> impl Iterator<Item = (&'static Ported, &'static Published)> {
    crate::linux::PORTED.iter().filter_map(|port| Some((port, Published::of(port.bench, port.pages, port.huge)?)))
}

/// Bounds of the search in units: wide enough that no optimum lies on the upper edge.
const LIMIT: u32 = 240;

/// The best whole units with `step` between candidates, within `reach` of `centre` and within the bounds.
fn search(added_instruction: f64, centre: [u32; 3], reach: u32, step: u32) -> [u32; 3] {
    let range = |middle: u32| (middle.saturating_sub(reach)..=(middle + reach).min(LIMIT)).step_by(step as usize);
    let mut best = (f64::INFINITY, centre);
    for por_write in range(centre[0]) {
        for isb in range(centre[1]) {
            for entry in range(centre[2]) {
                let candidate = [por_write, isb, entry];
                let objective = costs(candidate, added_instruction).objective();
                if objective < best.0 {
                    best = (objective, candidate);
                }
            }
        }
    }
    best.1
}

fn costs([por_write, isb, entry]: [u32; 3], added_instruction: f64) -> Costs {
    Costs { por_write: f64::from(por_write), isb: f64::from(isb), entry: f64::from(entry), added_instruction }
}

/// The costs that minimise [`Costs::objective`] in whole units, for a given price of an added instruction: every fourth
/// unit of 0 to 240 first, then every unit around the best.
#[must_use]
pub fn fit(added_instruction: f64) -> Costs {
    let coarse = search(added_instruction, [LIMIT / 2; 3], LIMIT / 2, 4);
    costs(search(added_instruction, coarse, 8, 1), added_instruction)
}

/// How far the model is from the published figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// Median of the absolute errors.
    pub median: f64,
    /// Mean of the absolute errors.
    pub mean: f64,
    /// Largest absolute error.
    pub max: f64,
}

/// Both versions' figures of every row.
const FIGURES: usize = crate::linux::PORTED.len() * Version::ALL.len();

/// The errors over every published figure of `strategy`, significant or not: in per cent of the published figure for
/// the per-write strategy, in percentage points for the others, whose figures are near zero.
#[must_use]
pub fn errors(costs: &Costs, strategy: Strategy) -> Errors {
    let mut errors = [0.0_f64; FIGURES];
    let mut count = 0;
    for (port, published) in rows() {
        for version in Version::ALL {
            if let Some(figure) = published.figure(version, strategy) {
                errors[count] = error(costs.predict(port, strategy), figure.pct, strategy).abs();
                count += 1;
            }
        }
    }
    let errors = &mut errors[..count];
    errors.sort_unstable_by(f64::total_cmp);
    let median = match count {
        0 => 0.0,
        _ => f64::midpoint(errors[(count - 1) / 2], errors[count / 2]),
    };
    let mean = errors.iter().sum::<f64>() / count.max(1) as f64;
    Errors { median, mean, max: errors.last().copied().unwrap_or(0.0) }
}

/// A signed error, in the measure that [`errors`] states.
#[must_use]
pub fn error(predicted: f64, published: f64, strategy: Strategy) -> f64 {
    match strategy {
        Strategy::PerWrite => 100.0 * (predicted / published - 1.0),
        _ => predicted - published,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::FITTED;

    #[test]
    fn the_constants_are_the_fits_optimum() {
        assert_eq!(fit(0.0), FITTED);
    }

    #[test]
    fn no_neighbour_and_no_point_of_a_coarse_grid_is_better() {
        let best = FITTED.objective();
        for por_write in (0..=160).step_by(10) {
            for isb in (0..=160).step_by(10) {
                for entry in (0..=160).step_by(10) {
                    assert!(costs([por_write, isb, entry], 0.0).objective() >= best);
                }
            }
        }
        let inside = |value: f64| value > 0.0 && value < f64::from(LIMIT);
        assert!(inside(FITTED.por_write) && inside(FITTED.isb) && inside(FITTED.entry));
    }

    /// The numbers that `docs/measuring.md` names.
    #[test]
    fn the_fit_stands_on_43_figures_of_56() {
        let figures = |(_, published): (_, &'static Published)| {
            let both = [Strategy::PerWrite, Strategy::Batched];
            both.into_iter().flat_map(move |strategy| Version::ALL.map(|version| published.figure(version, strategy)))
        };
        assert_eq!(rows().count(), crate::linux::PORTED.len());
        assert_eq!(rows().flat_map(figures).flatten().count(), 56);
        let significant = |figure: &crate::Figure| figure.mark == Mark::Regression;
        assert_eq!(rows().flat_map(figures).flatten().filter(significant).count(), 43);
    }

    #[test]
    fn the_fit_halves_the_error_of_the_first_one() {
        let first = Costs { por_write: 19.0, isb: 45.0, entry: 0.0, added_instruction: 0.0 };
        let before = errors(&first, Strategy::PerWrite);
        let after = errors(&FITTED, Strategy::PerWrite);
        assert!(after.median < 12.5, "{after:?}");
        assert!(after.median < 0.5 * before.median && after.mean < 0.65 * before.mean, "{before:?} {after:?}");
    }
}
