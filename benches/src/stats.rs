//! Medians, paired ratios, and the two ways to print them.

use serde_json::{Value, json};

/// The median of some samples; NaN for none.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// One arm's samples.
pub(crate) struct Arm {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) samples: Vec<f64>,
}

/// A comparison of two arms that were measured in turn.
pub(crate) struct Ratio {
    pub(crate) name: String,
    /// Paired quotients.
    pub(crate) samples: Vec<f64>,
}

/// What a benchmark found.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) title: String,
    pub(crate) arms: Vec<Arm>,
    pub(crate) ratios: Vec<Ratio>,
    /// What could not be measured, and why.
    pub(crate) missing: Vec<String>,
}

/// Paired quotients of two arms: sample i of one by sample i of the other.
pub(crate) fn paired(name: impl Into<String>, numerator: &[f64], denominator: &[f64]) -> Ratio {
    Ratio { name: name.into(), samples: numerator.iter().zip(denominator).map(|(a, b)| a / b).collect() }
}

fn extremes(samples: &[f64]) -> (f64, f64) {
    let low = samples.iter().copied().fold(f64::INFINITY, f64::min);
    let high = samples.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}

impl Report {
    /// A table.
    pub(crate) fn text(&self) -> String {
        let mut out = format!("{}\n", self.title);
        for arm in &self.arms {
            let (low, high) = extremes(&arm.samples);
            let (n, median) = (arm.samples.len(), median(&arm.samples));
            out += &format!("  {:<34} median {median:>14.1} {}  ({low:.1} to {high:.1}, n={n})\n", arm.name, arm.unit);
        }
        for ratio in &self.ratios {
            let (low, high) = extremes(&ratio.samples);
            let (n, median) = (ratio.samples.len(), median(&ratio.samples));
            out += &format!("  {:<34} median {median:>14.3} x   ({low:.3} to {high:.3}, paired, n={n})\n", ratio.name);
        }
        for line in &self.missing {
            out += &format!("  not measured: {line}\n");
        }
        out
    }

    /// The same as JSON.
    pub(crate) fn json(&self) -> Value {
        let arm = |a: &Arm| json!({"name": a.name, "unit": a.unit, "median": median(&a.samples), "samples": a.samples});
        let ratio = |r: &Ratio| json!({"name": r.name, "median": median(&r.samples), "samples": r.samples});
        json!({
            "title": self.title,
            "arms": self.arms.iter().map(arm).collect::<Vec<_>>(),
            "ratios": self.ratios.iter().map(ratio).collect::<Vec<_>>(),
            "not_measured": self.missing,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
        assert!((median(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < f64::EPSILON);
        assert!(median(&[]).is_nan());
    }
}
