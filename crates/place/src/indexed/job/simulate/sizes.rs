//! Sizes of objects, drawn at random from a seed.

use std::f64::consts::TAU;
use std::str::FromStr;

use thiserror::Error;

/// How the sizes of objects are distributed.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Log-normal: most objects are shorter than the mean, and a few are much longer.
    LogNormal {
        /// The mean, in bytes.
        mean: f64,
        /// The standard deviation of the logarithm; 0 makes all sizes the mean.
        sigma: f64,
    },
    /// Sizes in bytes with their shares of the objects, which need not add up to 1.
    Listed(Vec<(u64, f64)>),
}

/// Sizes that can't be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("not sizes such as 10M, lognormal:10M:1.5 or 64K:0.9,100M:0.1 ({0})")]
pub struct MalformedSizes(String);

impl FromStr for Sizes {
    type Err = MalformedSizes;

    /// Reads `10M`, `lognormal:MEAN:SIGMA` or `SIZE:SHARE,SIZE:SHARE`.
    fn from_str(text: &str) -> Result<Sizes, MalformedSizes> {
        let wrong = |part: &str| MalformedSizes(format!("`{part}`"));
        let size = |text: &str| bytes(text).ok_or_else(|| wrong(text));
        let number = |text: &str| {
            let number = text.parse::<f64>().ok();
            number.filter(|number| (0.0..=1e6).contains(number)).ok_or_else(|| wrong(text))
        };
        if let Some(rest) = text.strip_prefix("lognormal:") {
            let (mean, sigma) = rest.split_once(':').ok_or_else(|| wrong(rest))?;
            let (mean, sigma) = (size(mean)? as f64, number(sigma)?);
            if sigma > MOST_SIGMA {
                return Err(MalformedSizes(format!("more than {MOST_SIGMA} as SIGMA")));
            }
            return Ok(Sizes::LogNormal { mean, sigma });
        }
        if !text.contains(':') {
            return Ok(Sizes::Listed(vec![(size(text)?, 1.0)]));
        }
        let each = |part: &str| {
            let (bytes, share) = part.split_once(':').ok_or_else(|| wrong(part))?;
            Ok((size(bytes)?, number(share)?))
        };
        let listed: Vec<_> = text.split(',').map(each).collect::<Result<_, _>>()?;
        match listed.iter().map(|(_, share)| share).sum::<f64>() > 0.0 {
            true => Ok(Sizes::Listed(listed)),
            false => Err(MalformedSizes("all shares are 0".to_owned())),
        }
    }
}

/// A number of bytes, with or without K, M, G or T.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift).filter(|bytes| *bytes <= MOST)
}

/// Draws sizes. The same seed draws the same ones.
pub(super) struct Draw {
    random: fastrand::Rng,
    sizes: Sizes,
    /// The sum of the shares.
    whole: f64,
    /// The second one of a pair of normal numbers.
    spare: Option<f64>,
}

impl Draw {
    pub(super) fn new(sizes: &Sizes, seed: u64) -> Draw {
        let whole = match sizes {
            Sizes::Listed(listed) => listed.iter().map(|(_, share)| share).sum(),
            Sizes::LogNormal { .. } => 1.0,
        };
        let random = fastrand::Rng::with_seed(seed);
        Draw { random, sizes: sizes.clone(), whole, spare: None }
    }

    pub(super) fn next(&mut self) -> u64 {
        match &self.sizes {
            Sizes::LogNormal { mean, sigma } => {
                let middle = mean.max(1.0).ln() - sigma * sigma / 2.0;
                let sigma = *sigma;
                let drawn = (middle + sigma * self.normal()).exp().round();
                (drawn as u64).min(MOST)
            }
            Sizes::Listed(listed) => {
                let mut left = self.random.f64() * self.whole;
                let drawn = listed.iter().find(|(_, share)| {
                    left -= share;
                    left < 0.0
                });
                drawn.or(listed.last()).map_or(0, |(size, _)| *size)
            }
        }
    }

    /// A number with the standard normal distribution (Box and Muller, 1958).
    fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        // From above 0 to 1, of which there is a logarithm.
        let radius = (-2.0 * (1.0 - self.random.f64()).ln()).sqrt();
        let (sine, cosine) = (TAU * self.random.f64()).sin_cos();
        self.spare = Some(radius * sine);
        radius * cosine
    }
}

/// The longest object of Amazon's store, since December 2025.
const MOST: u64 = 50 << 40;
const MOST_SIGMA: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        let listed = Sizes::Listed(vec![(65_536, 0.9), (100 << 20, 0.1)]);
        assert_eq!("64K:0.9,100M:0.1".parse(), Ok(listed));
        assert_eq!("10000000".parse(), Ok(Sizes::Listed(vec![(10_000_000, 1.0)])));
        let expected = Sizes::LogNormal { mean: 10_485_760.0, sigma: 1.5 };
        assert_eq!("lognormal:10M:1.5".parse(), Ok(expected));
        for text in
            ["", "x", "10X", "1K:", "1K:-1", "1K:0", "lognormal:1K", "lognormal:1K:9", "99T"]
        {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
    }

    #[test]
    fn draws_have_the_mean_and_repeat() {
        let mean = |text: &str| {
            let mut draw = Draw::new(&text.parse().unwrap(), 7);
            (0..200_000).map(|_| draw.next() as f64).sum::<f64>() / 200_000.0
        };
        for (text, expected) in [
            ("lognormal:1000000:1", 1e6),
            ("lognormal:1000000:0", 1e6),
            ("1000:0.5,3000:0.5", 2000.0),
            ("1000:90,3000:10", 1200.0),
        ] {
            let found = mean(text);
            assert!((found / expected - 1.0).abs() < 0.02, "{text}: {found}");
            assert!((found - mean(text)).abs() < f64::EPSILON);
        }
    }
}
