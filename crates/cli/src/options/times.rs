//! Times, as RFC 3339 writes them, in UTC.

/// Reads a time in seconds since 1970: `2026-11-20` (the end of that day), or
/// `2026-11-20T18:30:00Z`, where `Z` may be missing, or an offset.
pub(crate) fn parse(text: &str) -> Result<i64, String> {
    read(text).ok_or_else(|| "not a time such as 2026-11-20 or 2026-11-20T18:30:00Z".to_owned())
}

fn read(text: &str) -> Option<i64> {
    let (date, rest) = text.split_at_checked(10)?;
    let day = day_of(date)? * DAY;
    let Some(rest) = rest.strip_prefix(['T', 't', ' ']) else {
        return rest.is_empty().then_some(day + DAY - 1);
    };
    let (time, rest) = rest.split_at_checked(8)?;
    let [hours, minutes, seconds] = numbers(time, ':', [2, 2, 2])?;
    if hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    let offset = rest
        .strip_prefix('.')
        .map_or(rest, |fraction| fraction.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    let time = day + hours * 3600 + minutes * 60 + seconds;
    Some(time - offset_of(offset)?)
}

/// A time in seconds since 1970, as `2026-11-20T18:30:00Z`.
pub(crate) fn shown(time: i64) -> String {
    let (day, rest) = (time.div_euclid(DAY) + FIRST_DAY, time.rem_euclid(DAY));
    let era = day.div_euclid(DAYS_OF_400_YEARS);
    let in_era = day.rem_euclid(DAYS_OF_400_YEARS);
    let year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let months = (5 * in_year + 2) / 153;
    let day = in_year - (153 * months + 2) / 5 + 1;
    let (year, month) = match months < 10 {
        true => (year, months + 3),
        false => (year + 1, months - 9),
    };
    let year = year + 400 * era;
    let (hours, minutes, seconds) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
}

/// The seconds by which a clock with an offset is ahead of UTC.
fn offset_of(text: &str) -> Option<i64> {
    let sign = match text.bytes().next() {
        None => return Some(0),
        Some(b'Z' | b'z') if text.len() == 1 => return Some(0),
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return None,
    };
    let [hours, minutes] = numbers(text.get(1..)?, ':', [2, 2])?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// The number of a day since 1970.
fn day_of(date: &str) -> Option<i64> {
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    // Years begin in March here, so that the leap day is their last.
    let (year, months) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let before = 365 * year + year / 4 - year / 100 + year / 400 + (153 * months + 2) / 5;
    (1..=days).contains(&day).then_some(before + day - 1 - FIRST_DAY)
}

/// Numbers of so many digits each, with this sign between them.
fn numbers<const N: usize>(text: &str, sign: char, digits: [usize; N]) -> Option<[i64; N]> {
    let parts: Vec<&str> = text.split(sign).collect();
    let parts: [&str; N] = parts.try_into().ok()?;
    let mut numbers = [0; N];
    for ((number, part), digits) in numbers.iter_mut().zip(parts).zip(digits) {
        if part.len() != digits || !part.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    Some(numbers)
}

const DAY: i64 = 86_400;

const DAYS_OF_400_YEARS: i64 = 146_097;

/// The first day of 1970, counted from 1 March of the year 0.
const FIRST_DAY: i64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc_unless_they_say_otherwise() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01", 86_399),
            ("2026-11-20T18:30:00Z", 1_795_199_400),
            ("2026-11-20 18:30:00", 1_795_199_400),
            ("2026-11-20T18:30:00.25+01:00", 1_795_195_800),
            ("2026-11-20T18:30:00-00:30", 1_795_201_200),
            ("2024-02-29", 1_709_251_199),
            ("2000-03-01T00:00:00Z", 951_868_800),
        ] {
            assert_eq!(parse(text), Ok(seconds), "{text}");
        }
    }

    #[test]
    fn times_are_shown_as_they_are_read() {
        assert_eq!(shown(1_795_199_400), "2026-11-20T18:30:00Z");
        for time in (-60_000_000_000..250_000_000_000).step_by(86_399 * 97) {
            assert_eq!(parse(&shown(time)), Ok(time));
        }
    }

    #[test]
    fn other_text_is_no_time() {
        let wrong = [
            "",
            "today",
            "2026",
            "2026-13-01",
            "2026-02-29",
            "2026-00-10",
            "2026-1-1",
            "20-11-2026",
            "2026-11-20T",
            "2026-11-20T25:00:00",
            "2026-11-20T18:30",
            "2026-11-20T18:30:00+1",
            "2026-11-20T18:30:00X",
            "2026-11-20x",
            "２０２６-11-20",
        ];
        for text in wrong {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
