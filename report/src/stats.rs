//! Statistics of host times: mean, confidence interval, and Welch's test against the baseline.

use crate::published::Mark;

/// The confidence of intervals and marks.
const CONFIDENCE: f64 = 0.95;

/// Mean and variance of a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Mean, nanoseconds per operation.
    pub mean_ns: f64,
    /// Variance of the sample (divided by `samples - 1`), square nanoseconds; 0 for one sample.
    pub variance: f64,
    /// How many samples there are, at least one.
    pub samples: u32,
}

impl Summary {
    /// Summarises samples in nanoseconds per operation; `None` where there are none.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        let count = samples.len();
        let samples_u32 = u32::try_from(count).ok().filter(|count| *count > 0)?;
        let mean = samples.iter().sum::<f64>() / count as f64;
        let squares = samples.iter().map(|sample| (sample - mean) * (sample - mean)).sum::<f64>();
        let variance = if count > 1 { squares / (count - 1) as f64 } else { 0.0 };
        Some(Self { mean_ns: mean, variance, samples: samples_u32 })
    }

    /// Half the width of the 95 % confidence interval of the mean, nanoseconds; `None` for fewer than two samples.
    #[must_use]
    pub fn ci95_ns(&self) -> Option<f64> {
        (self.samples > 1)
            .then(|| t_quantile(CONFIDENCE, f64::from(self.samples - 1)) * libm::sqrt(self.mean_variance()))
    }

    /// By how many per cent this mean lies over that of `baseline`.
    #[must_use]
    pub fn overhead_pct(&self, baseline: &Self) -> f64 {
        100.0 * (self.mean_ns / baseline.mean_ns - 1.0)
    }

    /// Whether this mean differs from that of `baseline` with 95 % confidence (Welch's test, two-sided). Fewer than
    /// two samples on either side tell nothing.
    #[must_use]
    pub fn mark(&self, baseline: &Self) -> Mark {
        if self.samples < 2 || baseline.samples < 2 || self.mean_ns == baseline.mean_ns {
            return Mark::None;
        }
        let (a, b) = (self.mean_variance(), baseline.mean_variance());
        let spread = a + b;
        let difference = self.mean_ns - baseline.mean_ns;
        let significant = spread == 0.0 || {
            let t = difference / libm::sqrt(spread);
            // Welch and Satterthwaite's degrees of freedom.
            let weighted = a * a / f64::from(self.samples - 1) + b * b / f64::from(baseline.samples - 1);
            t_within(t.abs(), spread * spread / weighted) > CONFIDENCE
        };
        match (significant, difference > 0.0) {
            (false, _) => Mark::None,
            (true, true) => Mark::Regression,
            (true, false) => Mark::Improvement,
        }
    }

    fn mean_variance(&self) -> f64 {
        self.variance / f64::from(self.samples)
    }
}

/// The probability that Student's t with `freedom` degrees of freedom lies within `±t`.
fn t_within(t: f64, freedom: f64) -> f64 {
    1.0 - beta_regularized(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// The `t` within which Student's t with `freedom` degrees of freedom lies with probability `confidence`.
fn t_quantile(confidence: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while t_within(high, freedom) < confidence {
        high *= 2.0;
    }
    // Halving 60 times leaves less than the rounding of an f64.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if t_within(middle, freedom) < confidence { low = middle } else { high = middle }
    }
    high
}

/// The regularised incomplete beta function I_x(a, b) (DLMF 8.17).
fn beta_regularized(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The continued fraction converges fast below the mean only; I_x(a, b) = 1 - I_{1-x}(b, a) serves the rest.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_regularized(1.0 - x, b, a);
    }
    let log_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let front = libm::exp(a * libm::log(x) + b * libm::log(1.0 - x) - log_beta);
    front / (a * beta_fraction(x, a, b))
}

/// The continued fraction 1 + d1/(1 + d2/(1 + ...)) of DLMF 8.17.22, evaluated by Lentz's method.
fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let nonzero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let (mut value, mut c, mut d) = (1.0, 1.0, 0.0);
    for step in 1..=400_u32 {
        let m = f64::from(step / 2);
        let term = if step % 2 == 0 {
            m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m))
        } else {
            -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0))
        };
        d = 1.0 / nonzero(1.0 + term * d);
        c = nonzero(1.0 + term / c);
        value *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(value: f64, expected: f64, tolerance: f64) {
        assert!((value - expected).abs() < tolerance, "{value} is not {expected}");
    }

    #[test]
    fn quantiles_match_the_printed_tables() {
        for (freedom, expected) in
            [(1.0, 12.7062), (2.0, 4.3027), (4.0, 2.7764), (9.0, 2.2622), (29.0, 2.0452), (100.0, 1.9840)]
        {
            close(t_quantile(0.95, freedom), expected, 1e-4);
        }
        close(t_quantile(0.99, 10.0), 3.1693, 1e-4);
    }

    #[test]
    fn the_beta_function_has_its_closed_forms() {
        close(beta_regularized(0.3, 1.0, 1.0), 0.3, 1e-12);
        close(beta_regularized(0.5, 7.5, 7.5), 0.5, 1e-12);
        close(beta_regularized(0.25, 0.5, 0.5), 1.0 / 3.0, 1e-12);
        close(beta_regularized(0.9, 3.0, 1.0), 0.729, 1e-12);
    }

    #[test]
    fn a_summary_of_known_samples() {
        let summary = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!(summary.mean_ns, 5.0);
        close(summary.variance, 32.0 / 7.0, 1e-12);
        // 2.3646 * sqrt(32 / 7 / 8)
        close(summary.ci95_ns().unwrap(), 1.7875, 1e-4);
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[3.0]).unwrap().ci95_ns(), None);
    }

    /// Two samples with a known Welch result: t = 2.8797, 27.904 degrees of freedom, p = 0.0075614 (integrated
    /// numerically).
    #[test]
    fn welch_marks_what_is_significant() {
        let a =
            Summary::of(&[27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4])
                .unwrap();
        let b =
            Summary::of(&[27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 24.9])
                .unwrap();
        assert_eq!(b.mark(&a), Mark::Regression);
        assert_eq!(a.mark(&b), Mark::Improvement);
        assert_eq!(a.mark(&a), Mark::None);
        close(b.overhead_pct(&a), 100.0 * (b.mean_ns / a.mean_ns - 1.0), 1e-12);
        let (va, vb) = (a.variance / 15.0, b.variance / 15.0);
        let t = (b.mean_ns - a.mean_ns) / libm::sqrt(va + vb);
        let freedom = (va + vb) * (va + vb) / ((va * va + vb * vb) / 14.0);
        close(t, 2.879_714, 1e-6);
        close(1.0 - t_within(t, freedom), 0.007_561_4, 1e-7);
    }

    #[test]
    fn noise_and_single_samples_are_not_marked() {
        let a = Summary::of(&[10.0, 12.0, 8.0, 11.0]).unwrap();
        let b = Summary::of(&[10.5, 12.5, 8.5, 11.5]).unwrap();
        assert_eq!(b.mark(&a), Mark::None);
        let single = Summary::of(&[99.0]).unwrap();
        assert_eq!(single.mark(&a), Mark::None);
    }

    #[test]
    fn samples_without_spread_are_compared_exactly() {
        let a = Summary::of(&[10.0, 10.0]).unwrap();
        let b = Summary::of(&[11.0, 11.0]).unwrap();
        assert_eq!(b.mark(&a), Mark::Regression);
        assert_eq!(a.mark(&a), Mark::None);
    }
}
