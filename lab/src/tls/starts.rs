//! Measures how much longer a process takes to start with the provider.

use super::contender::Contender;
use super::options::DEFAULT;
use super::report::Start;
use crate::LabError;
use crate::process::run;
use crate::statistics::{Interval, median};
use crate::watch::Watch;

/// Starts `openssl version`, which loads the configuration, `times` times with each contender in
/// turns; each round begins with a different contender.
///
/// # Errors
/// When there is no program `openssl`, or it fails.
pub(super) fn measure(
    contenders: &[Contender],
    times: u32,
    watch: &mut Watch<'_>,
) -> Result<Vec<Start>, LabError> {
    if times == 0 {
        return Ok(Vec::new());
    }
    watch.next("start-up")?;
    let mut milliseconds = vec![Vec::new(); contenders.len()];
    for round in 0..times as usize {
        watch.go_on()?;
        for place in 0..contenders.len() {
            let index = (place + round) % contenders.len();
            let cost = run(contenders[index].command("openssl").arg("version"));
            let cost = cost.map_err(|error| {
                match error {
                LabError::Start { .. } => LabError::Unavailable(
                    "there is no program openssl: install it, or leave start-up out with --starts 0"
                        .to_owned(),
                ),
                other => other,
            }
            })?;
            milliseconds[index].push(1e3 * cost.wall.as_secs_f64());
        }
    }
    let starts = contenders.iter().zip(&milliseconds);
    Ok(starts.map(|(contender, all)| start(&contender.name, all, &milliseconds[0])).collect())
}

/// The figures of a contender's starts, compared with those of `default` in the same rounds.
fn start(name: &str, all: &[f64], default: &[f64]) -> Start {
    let more: Vec<f64> = all.iter().zip(default).map(|(one, other)| one - other).collect();
    Start {
        contender: name.to_owned(),
        ms_median: median(all).unwrap_or(0.0),
        ms_more: if name == DEFAULT { None } else { Interval::of(&more) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_made_within_a_round() {
        let default = [1.0, 2.0, 9.0];
        let evener = start("evener", &[1.5, 3.0, 9.25], &default);
        assert_eq!(evener.ms_median, 3.0);
        assert_eq!(evener.ms_more.map(|more| more.median), Some(0.5));
        assert_eq!(start("default", &default, &default).ms_more, None);
    }
}
