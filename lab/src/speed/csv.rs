//! Rows as comma-separated values (RFC 4180).

use super::row::Row;

/// Writes the rows, with the names of their fields as columns.
pub(super) fn write(rows: &[Row]) -> String {
    let mut text = HEAD.join(",") + "\n";
    for row in rows {
        let Row { engine, cipher, direction, aes_instructions, threads, bytes, kb_per_s } = row;
        let (engine, cipher) = (quoted(engine), quoted(cipher));
        text += &format!(
            "{engine},{cipher},{direction},{aes_instructions},{threads},{bytes},{kb_per_s}\n"
        );
    }
    text
}

/// Splits the non-empty lines into fields, and returns them with their numbers. A quoted field may
/// contain commas and doubled quotes, but no line break.
///
/// # Errors
/// A text with the line's number, when a quote is not closed.
pub(super) fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let cut = |(index, line)| {
        let number = index + 1;
        let fields = fields(line).ok_or_else(|| format!("line {number}: a quote is not closed"))?;
        Ok((number, fields))
    };
    lines.map(cut).collect()
}

fn fields(line: &str) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    let mut rest = line.trim_end_matches('\r');
    loop {
        let mut field = String::new();
        if let Some(quoted) = rest.strip_prefix('"') {
            rest = quoted;
            loop {
                let (part, behind) = rest.split_once('"')?;
                field.push_str(part);
                match behind.strip_prefix('"') {
                    Some(behind) => {
                        field.push('"');
                        rest = behind;
                    }
                    None => {
                        rest = behind;
                        break;
                    }
                }
            }
        }
        let end = rest.find(',').unwrap_or(rest.len());
        field.push_str(rest[..end].trim());
        fields.push(field);
        match rest.get(end + 1..) {
            Some(behind) => rest = behind,
            None => return Some(fields),
        }
    }
}

fn quoted(field: &str) -> String {
    match field.contains([',', '"']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

/// The columns, in order.
pub(super) const HEAD: [&str; 7] =
    ["engine", "cipher", "direction", "aes_instructions", "threads", "bytes", "kb_per_s"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_what_was_written() {
        let cut = |line: &str| fields(line).map(|fields| fields.join("|"));
        assert_eq!(cut("a, b,,c\r").as_deref(), Some("a|b||c"));
        assert_eq!(cut(r#""a,b","say ""x""",c"#).as_deref(), Some(r#"a,b|say "x"|c"#));
        assert_eq!(cut(r#""a,b"#), None);
        assert_eq!(cut("").as_deref(), Some(""));
        for name in ["openssl", "openssl:provider=x,path=/y", "a\"b"] {
            assert_eq!(fields(&quoted(name)).unwrap(), [name]);
        }
    }
}
