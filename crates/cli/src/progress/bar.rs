//! The line on the terminal. It fits the terminal's current width: less important parts are left
//! out if there is no room.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use evener::program::shown_text;
use rustix::stdio::stderr;
use rustix::termios::tcgetwinsize;

use super::gauge::Reading;
use crate::summary::{count, size};

/// Returns whether standard error is a terminal that can clear a line.
pub(super) fn has_room() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|kind| kind != "dumb")
}

/// Draws the line. The cursor stays at its beginning: if a terminal becomes narrower and breaks the
/// line in two, erasing from there on clears both parts, and the cursor never moves up into other
/// lines.
pub(super) fn show(reading: &Reading) {
    let columns = tcgetwinsize(stderr()).map_or(0, |size| usize::from(size.ws_col));
    let mut terminal = io::stderr().lock();
    let _ = terminal.write_all(format!("{CLEAR}{}\r", line(reading, columns)).as_bytes());
    let _ = terminal.flush();
}

/// Clears the line for a message; it is drawn again below.
pub(crate) fn clear_bar() {
    if has_room() {
        // If this fails, the line is not visible either.
        let _ = io::stderr().lock().write_all(CLEAR.as_bytes());
    }
}

/// ` 42% [=====>      ]  1.2 GiB/4.0 GiB  300.0 MiB/s  0:09 left  3/40 files`
fn line(reading: &Reading, columns: usize) -> String {
    // The width is 0 if the terminal does not report it. Some terminals wrap after the last column,
    // so that column stays empty.
    let room = if columns == 0 { USUAL_COLUMNS } else { columns } - 1;
    let parts = parts(reading);
    let mut by_rank: Vec<_> = (0..parts.len()).collect();
    by_rank.sort_by_key(|&part| parts[part].rank);
    let mut used = 0;
    let mut fits = vec![false; parts.len()];
    for part in by_rank {
        let width = parts[part].text.chars().count() + if used == 0 { 0 } else { GAP.len() };
        if used + width <= room {
            (fits[part], used) = (true, used + width);
        }
    }
    let kept = parts.into_iter().zip(fits).filter(|(_, fits)| *fits);
    let mut texts: Vec<_> = kept.map(|(part, _)| part.text).collect();
    let bar = reading.share().and_then(|share| bar(share, room.saturating_sub(used + 1)));
    if let (Some(bar), Some(first)) = (bar, texts.first_mut()) {
        first.push(' ');
        first.push_str(&bar);
    }
    texts.join(GAP)
}

struct Part {
    /// The part with the lowest rank is left out last.
    rank: u8,
    text: String,
}

/// The parts in the order of the line.
fn parts(reading: &Reading) -> Vec<Part> {
    let part = |rank, text: String| Part { rank, text };
    let mut parts = Vec::new();
    if reading.is_stopped {
        parts.push(part(0, "stopping".to_owned()));
    } else if let Some(share) = reading.share() {
        // Everything is done only when the line disappears.
        parts.push(part(0, format!("{:3.0}%", (share * 100.0).floor().min(99.0))));
    }
    let is_moving = !reading.is_dry_run;
    if is_moving {
        let bytes = match reading.total {
            Some(total) => format!("{}/{}", size(reading.bytes as f64), size(total.bytes as f64)),
            None => size(reading.bytes as f64),
        };
        // If the total is unknown, nothing else shows the amount.
        let rank = if reading.total.is_some() { 3 } else { 1 };
        parts.push(part(rank, bytes));
        parts.push(part(2, format!("{}/s", size(reading.rate))));
    }
    parts.push(match reading.left {
        Some(left) => part(1, format!("{} left", clock(left))),
        None => part(5, format!("in {}", clock(reading.elapsed))),
    });
    let is_one = reading.total.map_or(reading.files, |total| total.files) < 2;
    if !is_one || reading.is_dry_run {
        parts.push(part(
            4,
            match reading.total {
                Some(total) => format!("{}/{}", reading.files, count(total.files, "file")),
                None => count(reading.files, "file"),
            },
        ));
    }
    parts.extend(shares(&reading.engines).map(|text| part(6, text)));
    parts
}

/// `af_alg 70% cpu 30%`, if more than one engine works.
fn shares(engines: &[(String, u64)]) -> Option<String> {
    let all: u64 = engines.iter().map(|(_, bytes)| bytes).sum();
    if engines.len() < 2 || all == 0 {
        return None;
    }
    let share = |(name, bytes): &(String, u64)| {
        format!("{} {:.0}%", shown_text(name), *bytes as f64 / all as f64 * 100.0)
    };
    Some(engines.iter().map(share).collect::<Vec<_>>().join(" "))
}

/// `[====>     ]`, if there is enough room for a bar to be visible.
fn bar(share: f64, room: usize) -> Option<String> {
    let inside = room.min(WIDEST_BAR).checked_sub(2).filter(|inside| *inside >= NARROWEST_BAR)?;
    let filled = (share * inside as f64) as usize;
    let arrow = format!("{}>", "=".repeat(filled.min(inside).saturating_sub(1)));
    Some(format!("[{arrow:inside$}]"))
}

/// `0:09`, `12:34`, `5:00:00`, `3 days`.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        1..48 => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => count(hours / 24, "day"),
    }
}

/// Moves to the beginning of the line and clears from there to the end of the screen.
pub(super) const CLEAR: &str = "\r\x1b[J";

/// The space between two parts.
const GAP: &str = "  ";

const USUAL_COLUMNS: usize = 80;

const NARROWEST_BAR: usize = 8;

const WIDEST_BAR: usize = 32;

#[cfg(test)]
mod tests {
    use evener::Total;

    use super::*;

    fn reading() -> Reading {
        Reading {
            elapsed: Duration::from_secs(12),
            files: 3,
            bytes: 1_288_490_189,
            total: Some(Total { files: 40, bytes: 4 << 30 }),
            rate: 314_572_800.0,
            left: Some(Duration::from_secs(9)),
            engines: vec![("cpu".to_owned(), 100)],
            ..Reading::default()
        }
    }

    #[test]
    fn what_matters_most_fits_the_narrowest() {
        let line = |columns| line(&reading(), columns);
        assert_eq!(
            line(80),
            " 30% [====>              ]  1.2 GiB/4.0 GiB  300.0 MiB/s  0:09 left  3/40 files"
        );
        assert_eq!(line(41), " 30%  300.0 MiB/s  0:09 left  3/40 files");
        assert_eq!(line(40), " 30% [=>      ]  300.0 MiB/s  0:09 left");
        assert_eq!(line(39), " 30%  300.0 MiB/s  0:09 left");
        assert_eq!(line(20), " 30%  0:09 left");
        assert_eq!(line(3), "");
        assert_eq!(line(0), line(80));
        for columns in 1..200 {
            assert!(line(columns).chars().count() < columns, "{columns}");
        }
    }

    #[test]
    fn a_pipe_of_unknown_length_has_no_share_and_no_end() {
        let reading =
            Reading { total: None, left: None, files: 0, engines: Vec::new(), ..reading() };
        assert_eq!(line(&reading, 80), "1.2 GiB  300.0 MiB/s  in 0:12");
        assert_eq!(line(&reading, 26), "1.2 GiB  300.0 MiB/s");
        assert_eq!(line(&reading, 12), "1.2 GiB");
    }

    #[test]
    fn several_engines_show_their_shares() {
        let engines = vec![("af_alg".to_owned(), 70), ("cpu".to_owned(), 30)];
        let reading = Reading { engines, is_stopped: true, ..reading() };
        let line = line(&reading, 110);
        assert!(line.starts_with("stopping ["), "{line}");
        assert!(line.ends_with("  3/40 files  af_alg 70% cpu 30%"), "{line}");
    }

    #[test]
    fn a_dry_run_shows_files() {
        let reading = Reading { is_dry_run: true, left: None, ..reading() };
        assert_eq!(line(&reading, 40), "  7% [>          ]  in 0:12  3/40 files");
    }

    #[test]
    fn times_are_short() {
        let cases = [(9, "0:09"), (754, "12:34"), (18_000, "5:00:00"), (300_000, "3 days")];
        for (seconds, text) in cases {
            assert_eq!(clock(Duration::from_secs(seconds)), text);
        }
    }
}
