//! The benchmark's report.

use std::{fmt, slice};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::options::DEFAULT;
use super::{Suite, Version};
use crate::done::{Amount, all_done};
use crate::statistics::{Interval, median};
use crate::{LabError, Machine};

/// The benchmark's report. Its JSON is the document that `--json` prints and `--from` reads, its
/// [`Display`] tables, and [`TlsReport::to_html`] a page with charts.
///
/// [`Display`]: fmt::Display
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TlsReport {
    /// The machine.
    pub machine: Machine,
    /// The machine's other load: the load averages of 1, 5 and 15 minutes at the beginning.
    pub load: String,
    /// The versions of nginx and its OpenSSL.
    pub server: String,
    /// The number of nginx's workers.
    pub workers: u16,
    /// Bytes of plaintext in a record of a long body.
    #[serde(default = "longest_record")]
    pub record: u16,
    /// The client's OpenSSL.
    pub client: String,
    /// The cores of nginx; empty for all.
    pub server_cores: Vec<usize>,
    /// The cores of the client; empty for all.
    pub client_cores: Vec<usize>,
    /// The number of turns of each contender at each case.
    pub rounds: u32,
    /// The seconds after which a turn began no further request.
    pub seconds: f64,
    /// The figures, by case, and within a case by contender.
    #[serde(deserialize_with = "of_whole_turns")]
    pub rows: Vec<Row>,
    /// The time that the start of a process took.
    pub starts: Vec<Start>,
    /// Cases that were not measured because the total of their bodies exceeds `--most`.
    pub left_out: Vec<Case>,
}

/// The file to fetch, and the way to fetch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Case {
    /// The cipher.
    pub cipher: Suite,
    /// The version of TLS.
    pub tls: Version,
    /// True if a connection serves many requests; otherwise each request makes its own.
    pub keep_alive: bool,
    /// Bytes of a body.
    pub bytes: u64,
    /// The number of simultaneous connections.
    pub connections: u16,
}

/// A contender's figures for a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Row {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// The contender.
    pub contender: String,
    /// Medians of the rounds.
    pub figures: Figures,
    /// The number of requests per second, as a ratio to that of `default` in the same round;
    /// without keep-alive this is the number of handshakes.
    pub requests_to_default: Option<Interval>,
    /// The CPU time of nginx's workers per request, and thus per GB, as such a ratio.
    pub cpu_to_default: Option<Interval>,
    /// The contender's turn in each round.
    pub turns: Vec<Turn>,
}

/// A contender's results in one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Turn {
    /// The number of requests answered.
    pub requests: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// The time from the first request to the end of the last response.
    pub seconds: f64,
    /// The CPU time of nginx's workers during that time.
    pub cpu_seconds: f64,
}

/// The figures of several turns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Figures {
    /// Requests a second; without keep-alive these are handshakes a second.
    pub requests_per_s: f64,
    /// Millions of bytes of bodies a second.
    pub mb_per_s: f64,
    /// Seconds of CPU time of nginx's workers for 10⁹ bytes of bodies.
    pub cpu_s_per_gb: f64,
    /// Microseconds of that CPU time per request.
    pub cpu_us_per_request: f64,
}

/// The time that the start of `openssl version` took with a contender's configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Start {
    /// The contender.
    pub contender: String,
    /// Milliseconds from the start to the end of the process: the median.
    pub ms_median: f64,
    /// The difference from `default` in the same round.
    pub ms_more: Option<Interval>,
}

impl Turn {
    fn requests_per_s(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    fn cpu_per_request(&self) -> f64 {
        self.cpu_seconds / self.requests as f64
    }
}

impl Figures {
    fn of(turns: &[Turn]) -> Figures {
        let middle = |figure: &dyn Fn(&Turn) -> f64| {
            median(&turns.iter().map(figure).collect::<Vec<_>>()).unwrap_or(0.0)
        };
        Figures {
            requests_per_s: middle(&Turn::requests_per_s),
            mb_per_s: middle(&|turn| turn.bytes as f64 / turn.seconds / 1e6),
            cpu_s_per_gb: middle(&|turn| turn.cpu_seconds / turn.bytes as f64 * 1e9),
            cpu_us_per_request: middle(&|turn| turn.cpu_per_request() * 1e6),
        }
    }
}

impl Row {
    /// A contender's figures, and their ratios to those of `default` in the same rounds.
    pub(super) fn new(case: Case, contender: &str, turns: Vec<Turn>, default: &[Turn]) -> Row {
        let ratio = |figure: fn(&Turn) -> f64| {
            let pairs = turns.iter().zip(default);
            let ratios = pairs.map(|(one, other)| figure(one) / figure(other));
            // A clock that counts ticks may miss a short turn.
            Interval::of(&ratios.filter(|ratio| ratio.is_finite()).collect::<Vec<_>>())
                .filter(|_| contender != DEFAULT)
        };
        Row {
            case,
            contender: contender.to_owned(),
            figures: Figures::of(&turns),
            requests_to_default: ratio(Turn::requests_per_s),
            cpu_to_default: ratio(Turn::cpu_per_request),
            turns,
        }
    }

    /// Checks that each turn received all bytes of its requests, at least one request for each
    /// connection.
    ///
    /// # Errors
    /// [`LabError::Undone`] when a turn did not.
    fn check(&self) -> Result<(), LabError> {
        let Row { case, contender, turns, .. } = self;
        let run = format!("{contender}, {case}");
        let least = u64::from(case.connections);
        let done = |turn: &Turn| Amount { files: turn.requests, bytes: turn.bytes };
        let none = Turn { requests: 0, bytes: 0, seconds: 0.0, cpu_seconds: 0.0 };
        let turns = if turns.is_empty() { slice::from_ref(&none) } else { turns };
        for turn in turns {
            let wanted = turn.requests.max(least);
            let bytes = wanted.saturating_mul(case.bytes);
            all_done(&run, done(turn), Amount { files: wanted, bytes })?;
            if !turn.seconds.is_finite() || turn.seconds <= 0.0 {
                let reason = format!("{run}: {} s is no time of a turn", turn.seconds);
                return Err(LabError::Unavailable(reason));
            }
        }
        Ok(())
    }
}

/// Rejects figures of turns that did not receive everything.
fn of_whole_turns<'de, D: Deserializer<'de>>(document: D) -> Result<Vec<Row>, D::Error> {
    let mut rows = Vec::<Row>::deserialize(document)?;
    if rows.is_empty() {
        return Err(D::Error::custom("it has no figures"));
    }
    rows.iter().try_for_each(Row::check).map_err(D::Error::custom)?;
    // The figures are computed from the turns, whatever the document says.
    rows.iter_mut().for_each(|row| row.figures = Figures::of(&row.turns));
    Ok(rows)
}

impl Case {
    /// The part of a case that it shares with its neighbours in a report.
    pub(super) fn subject(&self) -> (Suite, Version, bool) {
        (self.cipher, self.tls, self.keep_alive)
    }

    /// The heading for that part.
    pub(super) fn heading(&self) -> String {
        let kept = match self.keep_alive {
            true => "keep-alive",
            false => "a connection for each request (requests/s are handshakes/s)",
        };
        format!("{}, {}, {kept}", self.cipher, self.tls)
    }

    /// The rest of the case: `16 KiB × 256`, for 256 connections.
    pub(super) fn load(&self) -> String {
        format!("{} × {}", size(self.bytes), self.connections)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case { cipher, tls, keep_alive, bytes, connections } = self;
        let kept = if *keep_alive { "keep-alive" } else { "no keep-alive" };
        let noun = if *connections == 1 { "connection" } else { "connections" };
        write!(f, "{cipher}, {tls}, {kept}, {}, {connections} {noun}", size(*bytes))
    }
}

impl TlsReport {
    /// The facts that explain the figures, as lines.
    pub(super) fn facts(&self) -> Vec<String> {
        let at = |cores: &[usize]| match cores {
            [] => "all cores".to_owned(),
            cores => {
                let cores: Vec<_> = cores.iter().map(usize::to_string).collect();
                format!("core {}", cores.join(", "))
            }
        };
        let noun = if self.workers == 1 { "worker" } else { "workers" };
        vec![
            self.machine.to_string(),
            format!("load average at the beginning: {}", self.load),
            format!(
                "server: {}; {} {noun}, {}, records of {}",
                self.server,
                self.workers,
                at(&self.server_cores),
                size(self.record.into())
            ),
            format!("client: {}; {}", self.client, at(&self.client_cores)),
            format!("rounds: {}, {} s a turn, medians", self.rounds, self.seconds),
        ]
    }
}

/// TLS's longest record, for reports that do not name one.
fn longest_record() -> u16 {
    16_384
}

/// Formats a size as `16 KiB`, or in bytes if it is not a whole number of KiB.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= MIB && bytes.is_multiple_of(MIB) => format!("{} MiB", bytes / MIB),
        bytes if bytes >= KIB && bytes.is_multiple_of(KIB) => format!("{} KiB", bytes / KIB),
        bytes => format!("{bytes} B"),
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn case(keep_alive: bool, bytes: u64) -> Case {
        let (cipher, tls) = (Suite::Aes128Gcm, Version::Tls13);
        Case { cipher, tls, keep_alive, bytes, connections: 16 }
    }

    fn turn(requests: u64, cpu_seconds: f64) -> Turn {
        Turn { requests, bytes: requests * 1000, seconds: 0.5, cpu_seconds }
    }

    pub(in super::super) fn report() -> TlsReport {
        let default = vec![turn(100, 0.25), turn(200, 0.5), turn(400, 0.5)];
        let evener = vec![turn(200, 0.25), turn(200, 0.25), turn(200, 0.25)];
        let cases = [case(true, 1 << 14), case(false, 1 << 10)];
        let rows = cases.into_iter().flat_map(|case| {
            [("default", &default), ("evener", &evener)].map(|(name, turns)| {
                let sized = |turn: &Turn| Turn { bytes: turn.requests * case.bytes, ..*turn };
                Row::new(case, name, turns.iter().map(sized).collect(), &default)
            })
        });
        TlsReport {
            machine: Machine::look(),
            load: "0.00 0.25 0.50".to_owned(),
            server: "nginx/1.22.1, <OpenSSL> 3.0.17".to_owned(),
            workers: 1,
            record: longest_record(),
            client: "OpenSSL 3.6.3".to_owned(),
            server_cores: vec![0],
            client_cores: vec![1],
            rounds: 3,
            seconds: 0.5,
            rows: rows.collect(),
            starts: vec![
                Start { contender: "default".to_owned(), ms_median: 3.0, ms_more: None },
                Start {
                    contender: "evener".to_owned(),
                    ms_median: 3.5,
                    ms_more: Interval::of(&[0.25, 0.5, 0.75]),
                },
            ],
            left_out: vec![case(true, 1 << 26)],
        }
    }

    #[test]
    fn ratios_are_made_within_a_round() {
        let report = report();
        let [default, evener, ..] = &report.rows[..] else { panic!("{report:?}") };
        assert_eq!((default.requests_to_default, default.cpu_to_default), (None, None));
        // Medians of 2, 1 and 0.5, and of 0.5, 0.5 and 1.
        let requests = evener.requests_to_default.unwrap();
        assert_eq!((requests.median, requests.low, requests.high), (1.0, 0.5, 2.0));
        let cpu = evener.cpu_to_default.unwrap();
        assert_eq!((cpu.median, cpu.low, cpu.high), (0.5, 0.5, 1.0));
        let Figures { requests_per_s, mb_per_s, cpu_s_per_gb, cpu_us_per_request } = evener.figures;
        assert_eq!((requests_per_s, mb_per_s), (400.0, 6.5536));
        let cpu = 0.25 / (200.0 * 16_384.0) * 1e9;
        assert_eq!((cpu_s_per_gb, cpu_us_per_request), (cpu, 1250.0));
    }

    #[test]
    fn a_clock_that_stood_still_makes_no_ratio() {
        let still = [turn(100, 0.0)];
        let row = Row::new(case(true, 1), "evener", vec![turn(100, 0.5)], &still);
        assert_eq!(row.cpu_to_default, None);
        let row = Row::new(case(true, 1), "evener", still.to_vec(), &still);
        assert!(row.cpu_to_default.is_none() && row.requests_to_default.is_some());
    }

    #[test]
    fn what_json_says_is_read_again() {
        let report = report();
        let json = serde_json::to_string(&report).unwrap();
        assert!(json.contains(r#""cipher":"aes-128-gcm","tls":"1.3","keep_alive":true"#), "{json}");
        assert_eq!(serde_json::from_str::<TlsReport>(&json).unwrap(), report);
    }

    #[test]
    fn a_turn_that_did_not_bring_everything_is_not_read() {
        type Spoil = fn(&mut Vec<Turn>);
        let broken: [(Spoil, &str); 5] = [
            (|turns| turns[1].bytes -= 1, "200 of 200 files were done (3276799 of 3276800 bytes)"),
            (|turns| (turns[2].requests, turns[2].bytes) = (0, 0), "0 of 16 files"),
            (|turns| turns[0].requests = 15, "15 of 16 files"),
            (|turns| turns[0].seconds = 0.0, "0 s is no time of a turn"),
            (Vec::clear, "0 of 16 files"),
        ];
        for (spoil, complaint) in broken {
            let mut report = report();
            spoil(&mut report.rows[0].turns);
            let json = serde_json::to_string(&report).unwrap();
            let error = serde_json::from_str::<TlsReport>(&json).unwrap_err().to_string();
            assert!(error.contains("default, ") && error.contains(complaint), "{error}");
        }
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(
            [1, 1024, 1025, 16384, 1 << 20, 1 << 26].map(size).join(", "),
            "1 B, 1 KiB, 1025 B, 16 KiB, 1 MiB, 64 MiB"
        );
    }
}
