//! Parses lists of file sizes.

use std::str::FromStr;

/// One or more sizes in bytes, as one item of a list: `8`, `1500-3500:250` or `2013`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(Vec<usize>);

impl Sizes {
    /// The eight sizes of the 2015 paper.
    pub const OF_2015: [usize; 8] = [8, 16, 64, 256, 1024, 4096, 8192, 16_384];

    /// The nine sizes of the 2013 paper.
    pub const OF_2013: [usize; 9] = [5, 20, 50, 100, 500, 1024, 3072, 5120, 7168];

    /// The sizes of several items in rising order, without duplicates.
    pub fn all(items: &[Sizes]) -> Vec<usize> {
        let mut sizes: Vec<usize> = items.iter().flat_map(|item| &item.0).copied().collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

impl FromStr for Sizes {
    type Err = String;

    /// Reads `N`, `FROM-TO:STEP`, or `2013` and `2015` for the papers' sizes.
    fn from_str(text: &str) -> Result<Sizes, String> {
        match text {
            "2013" => return Ok(Sizes(Sizes::OF_2013.to_vec())),
            "2015" => return Ok(Sizes(Sizes::OF_2015.to_vec())),
            _ => {}
        }
        let number = |text: &str| match text.parse() {
            Ok(number @ 1..=LARGEST) => Ok(number),
            _ => Err(format!("`{text}` is not a number from 1 to {LARGEST}")),
        };
        let Some((from, rest)) = text.split_once('-') else {
            return Ok(Sizes(vec![number(text)?]));
        };
        let (to, step) = rest.split_once(':').ok_or("a range is FROM-TO:STEP")?;
        let (from, to, step) = (number(from)?, number(to)?, number(step)?);
        match (to.checked_sub(from).ok_or("a range goes upwards")?) / step {
            steps @ 0..MOST => Ok(Sizes((0..=steps).map(|index| from + index * step).collect())),
            _ => Err(format!("a range has at most {MOST} sizes")),
        }
    }
}

/// The largest size, in bytes; thousands of larger files would not fit into memory.
const LARGEST: usize = 64 << 20;

/// The most sizes in a range.
const MOST: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(items: &[&str]) -> Result<Vec<usize>, String> {
        let items: Result<Vec<Sizes>, String> = items.iter().map(|item| item.parse()).collect();
        items.map(|items| Sizes::all(&items))
    }

    #[test]
    fn numbers_ranges_and_papers_are_read() {
        assert_eq!(read(&["64", "8"]), Ok(vec![8, 64]));
        assert_eq!(read(&["1500-2000:250"]), Ok(vec![1500, 1750, 2000]));
        assert_eq!(read(&["1-6:4", "5"]), Ok(vec![1, 5]));
        assert_eq!(read(&["2013"]), Ok(Sizes::OF_2013.to_vec()));
        assert_eq!(read(&["2015"]), Ok(Sizes::OF_2015.to_vec()));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "0", "-5", "8-", "8-16", "16-8:1", "8-16:0", "1-9999999:1", "8k"] {
            assert!(read(&[text]).is_err(), "{text}");
        }
    }
}
