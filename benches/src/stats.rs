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

/// The mean for quotients.
pub(crate) fn geometric_mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len();
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let count = count as f64;
    (values.map(f64::ln).sum::<f64>() / count).exp()
}

/// Where the median lies with a confidence of at least 95 %, whatever the distribution: two order statistics, found by the
/// binomial distribution. `None` for fewer than 6 samples, which cannot tell.
pub(crate) fn interval(samples: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    // The chance that at most `low` of n samples are below the median.
    let (mut low, mut chance, mut term) = (0usize, 0.0, 0.5f64.powi(i32::try_from(n).ok()?));
    for k in 0..n {
        chance += term;
        if chance > 0.025 {
            break;
        }
        low = k + 1;
        #[expect(clippy::cast_precision_loss, reason = "numbers of samples")]
        let factor = (n - k) as f64 / (k + 1) as f64;
        term *= factor;
    }
    (low > 0).then(|| (sorted[low - 1], sorted[n - low]))
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
            let (n, median) = (ratio.samples.len(), median(&ratio.samples));
            let range = match interval(&ratio.samples) {
                Some((low, high)) => format!("95 %: {low:.3} to {high:.3}"),
                None => {
                    let (low, high) = extremes(&ratio.samples);
                    format!("{low:.3} to {high:.3}")
                }
            };
            out += &format!("  {:<34} median {median:>14.3} x   ({range}, paired, n={n})\n", ratio.name);
        }
        for line in &self.missing {
            out += &format!("  not measured: {line}\n");
        }
        out
    }

    /// The same as JSON.
    pub(crate) fn json(&self) -> Value {
        let arm = |a: &Arm| json!({"name": a.name, "unit": a.unit, "median": median(&a.samples), "samples": a.samples});
        let ratio = |r: &Ratio| json!({"name": r.name, "median": median(&r.samples), "interval": interval(&r.samples), "samples": r.samples});
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

    #[test]
    fn intervals() {
        let samples: Vec<f64> = (1..=31u32).map(f64::from).collect();
        // As tables of the sign test have it: the 10th from each end.
        assert_eq!(interval(&samples), Some((10.0, 22.0)));
        assert_eq!(interval(&samples[..6]), Some((1.0, 6.0)));
        assert_eq!(interval(&samples[..5]), None);
    }

    #[test]
    fn geometric_means() {
        assert!((geometric_mean([2.0, 8.0].into_iter()) - 4.0).abs() < 1e-12);
    }
}
