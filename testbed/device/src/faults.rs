//! The device's faults, and their times.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use crate::lies::Lie;

/// The command line: the device's properties, and the operations at which faults happen. Operations
/// are counted from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) sessions: Option<u64>,
    pub(crate) alignment: u64,
    /// The number of the first session that software serves.
    software_from: Option<u64>,
    /// The number of asynchronous requests for which each open file has room; without it, they are
    /// refused.
    pub(crate) ring: Option<u64>,
    /// Asynchronous requests are performed only when a program waits for their results.
    pub(crate) is_lazy: bool,
    busy_every: Option<u64>,
    invalid_at: Option<u64>,
    wrong_at: Option<u64>,
    hang_at: Option<u64>,
    vanish_at: Option<u64>,
    lie: Option<Fault>,
    /// The first operation that is lied about.
    lie_from: u64,
    /// Inputs of more than this many bytes are long.
    lie_above: u64,
    /// The delay of late results.
    pub(crate) delay: Duration,
    /// The file for the number of faults at the end.
    pub(crate) tally: Option<PathBuf>,
}

/// The fault of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Busy,
    Invalid,
    Hang,
    Vanish,
    Interrupt,
    Lie(Lie),
}

impl Fault {
    /// Parses a fault that lasts once it has begun.
    fn of_name(name: &str) -> Option<Fault> {
        match name {
            "error" => Some(Fault::Invalid),
            "hang" => Some(Fault::Hang),
            "vanish" => Some(Fault::Vanish),
            "interrupt" => Some(Fault::Interrupt),
            _ => Lie::of_name(name).map(Fault::Lie),
        }
    }
}

impl Options {
    /// Reads the options and returns the arguments after them, the command.
    pub(crate) fn parse(
        arguments: impl Iterator<Item = OsString>,
    ) -> Result<(Options, Vec<OsString>), String> {
        let mut options = Options {
            alignment: 1,
            lie_from: 1,
            lie_above: 1024,
            delay: Duration::from_millis(5),
            ..Options::default()
        };
        let mut arguments = arguments.peekable();
        while let Some(name) = arguments.next_if(|word| word.to_string_lossy().starts_with("--")) {
            let name = name.to_string_lossy().into_owned();
            if name == "--tally" {
                let file = arguments.next().ok_or_else(|| format!("{name} takes a file"))?;
                options.tally = Some(file.into());
                continue;
            }
            let mut word = || arguments.next().and_then(|word| word.into_string().ok());
            let mut number = || {
                let number = word().and_then(|word| word.parse().ok()).filter(|&number| number > 0);
                number.ok_or_else(|| format!("{name} takes a number from 1"))
            };
            match name.as_str() {
                "--" => break,
                "--software" => options.software_from = Some(1),
                "--software-from" => options.software_from = Some(number()?),
                "--ring" => options.ring = Some(number()?),
                "--lazy" => options.is_lazy = true,
                "--sessions" => options.sessions = Some(number()?),
                "--alignment" => options.alignment = number()?,
                "--busy-every" => options.busy_every = Some(number()?),
                "--invalid-at" => options.invalid_at = Some(number()?),
                "--wrong-at" => options.wrong_at = Some(number()?),
                "--hang-at" => options.hang_at = Some(number()?),
                "--vanish-at" => options.vanish_at = Some(number()?),
                "--lie" => {
                    let fault = word().and_then(|word| Fault::of_name(&word));
                    options.lie = Some(fault.ok_or_else(|| format!("{name} takes a lie"))?);
                }
                "--lie-from" => options.lie_from = number()?,
                "--lie-above" => options.lie_above = number()?,
                "--lie-delay" => options.delay = Duration::from_millis(number()?),
                _ => return Err(format!("there is no option {name}")),
            }
        }
        Ok((options, arguments.collect()))
    }

    /// Returns whether the session with this number is one of a software driver.
    pub(crate) fn is_software(&self, session: u32) -> bool {
        self.software_from.is_some_and(|first| u64::from(session) >= first)
    }

    fn is_lied_about(&self, number: u64, length: u32) -> bool {
        let is_apt = match self.lie {
            Some(Fault::Lie(Lie::Long)) => u64::from(length) > self.lie_above,
            lie => lie.is_some(),
        };
        is_apt && number >= self.lie_from
    }

    /// The fault of the operation with this number, whose input has this many bytes.
    pub(crate) fn fault(&self, number: u64, length: u32) -> Option<Fault> {
        let at = Some(number);
        if self.vanish_at == at {
            Some(Fault::Vanish)
        } else if self.hang_at == at {
            Some(Fault::Hang)
        } else if self.invalid_at == at {
            Some(Fault::Invalid)
        } else if self.wrong_at == at {
            Some(Fault::Lie(Lie::Flip))
        } else if self.is_lied_about(number, length) {
            self.lie
        } else if self.busy_every.is_some_and(|every| number.is_multiple_of(every)) {
            Some(Fault::Busy)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(Options, Vec<OsString>), String> {
        Options::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_end_where_the_command_begins() {
        let (options, command) = parse("--sessions 3 --wrong-at 7 ls --all").unwrap();
        assert_eq!(options.sessions, Some(3));
        assert_eq!(options.fault(7, 0), Some(Fault::Lie(Lie::Flip)));
        assert_eq!(options.fault(8, 0), None);
        assert_eq!(command, ["ls", "--all"]);
        assert_eq!(parse("-- --odd").unwrap().1, ["--odd"]);
    }

    #[test]
    fn lies_go_on_once_they_have_begun() {
        let (options, _) = parse("--lie swap --lie-from 3 --vanish-at 5 ls").unwrap();
        let faults: Vec<_> = (1..=6).map(|number| options.fault(number, 0)).collect();
        let swap = Some(Fault::Lie(Lie::Swap));
        assert_eq!(faults, [None, None, swap, swap, Some(Fault::Vanish), swap]);
        let (options, _) = parse("--lie hang ls").unwrap();
        assert_eq!(options.fault(1, 0), Some(Fault::Hang));
        let (options, _) = parse("--lie long --lie-above 9 ls").unwrap();
        assert_eq!((options.fault(1, 9), options.fault(1, 10).is_some()), (None, true));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(parse("--sessions").is_err());
        assert!(parse("--sessions 0 ls").is_err());
        assert!(parse("--explode-at 1 ls").is_err());
        assert!(parse("--lie").is_err());
        assert!(parse("--lie white ls").is_err());
    }
}
