//! Checks whether running processes have Evener loaded, according to /proc.

mod process;

use std::io::{self, Write};

use super::counters::Work;
use super::services::Membership;
use crate::trouble::{Ending, Trouble, complain, shown};
use process::{Finding, look};

/// Reports what processes have loaded, what their configuration says, and what they count.
/// Processes without OpenSSL are left out unless they were given by number.
pub(super) fn perform(numbers: &[u32], service: Option<&Membership>) -> Result<Ending, Trouble> {
    let mut groups: Vec<Group> = Vec::new();
    let found = match service {
        Some(service) => process::of(service)?,
        None => numbers.to_vec(),
    };
    for number in found {
        let finding = match look(number) {
            Ok(finding) => finding,
            // The process has ended meanwhile.
            Err(Trouble::File { cause, .. }) if service.is_some() && is_absence(&cause) => continue,
            Err(trouble) => return Err(trouble),
        };
        if service.is_some() && !finding.has_openssl {
            continue;
        }
        match groups.iter_mut().find(|group| group.is_like(&finding)) {
            Some(group) => group.add(&finding),
            None => groups.push(Group::of(finding)),
        }
    }
    if let Some(service) = service
        && groups.is_empty()
    {
        complain(&format_args!(
            "{}: none of its processes has OpenSSL loaded; one may begin with it when a client comes: \
             try it while one is connected",
            shown(service.name.as_ref())
        ));
        return Ok(Ending::SomeFailed);
    }
    let text: String = groups.iter().map(Group::text).collect();
    io::stdout().lock().write_all(text.as_bytes()).map_err(Trouble::Output)?;
    let lacking = groups.iter().filter(|group| !group.finding.is_loaded);
    let lacking: usize = lacking.map(|group| group.number).sum();
    if lacking == 0 {
        return Ok(Ending::Done);
    }
    let noun = if lacking == 1 { "process has" } else { "processes have" };
    let advice = match service {
        Some(service) => service.advice(),
        None => String::new(),
    };
    complain(&format_args!("{lacking} {noun} not loaded Evener{advice}"));
    Ok(Ending::SomeFailed)
}

/// Processes with the same report.
struct Group {
    finding: Finding,
    number: usize,
    work: Work,
}

impl Group {
    fn of(finding: Finding) -> Group {
        let mut group = Group { work: Work::default(), number: 0, finding: finding.clone() };
        group.add(&finding);
        group
    }

    fn is_like(&self, other: &Finding) -> bool {
        let own = &self.finding;
        (&own.program, &own.library, &own.configuration, &own.counting)
            == (&other.program, &other.library, &other.configuration, &other.counting)
    }

    fn add(&mut self, finding: &Finding) {
        self.number += 1;
        self.work.add(&finding.work);
    }

    fn text(&self) -> String {
        let Finding { program, library, configuration, counting, .. } = &self.finding;
        let processes = match self.number {
            1 => format!("process {}", self.finding.number),
            number => format!("{number} processes"),
        };
        let counted = match counting {
            Ok(place) => {
                let (records, bytes) = (self.work.records(), self.work.bytes());
                let noun = if records == 1 { "record" } else { "records" };
                format!("{records} {noun} with {bytes} bytes in {place}")
            }
            Err(reason) => format!("nothing: {reason}"),
        };
        format!(
            "{program}, {processes}\n  library: {library}\n  configuration: {configuration}\n  \
             counted: {counted}\n"
        )
    }
}

fn is_absence(cause: &io::Error) -> bool {
    // The process ended while its file was read.
    const ESRCH: i32 = 3;
    cause.kind() == io::ErrorKind::NotFound || cause.raw_os_error() == Some(ESRCH)
}
