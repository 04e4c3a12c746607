//! Results of earlier runs and of other machines.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use evener_core::{Cipher, shown_error};
use serde::{Deserialize, Serialize};

use super::SpeedError;
use super::csv;
use super::row::Row;

/// The results of one run or machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The machine's name, or the file's name if it has none.
    pub name: String,
    /// Its figures.
    pub rows: Vec<Row>,
}

/// Loads results: JSON or CSV from this command, the article's table (`article`), or a table of the
/// same form with the columns `machine`, `cipher`, `aes_ni` and, for every length N, `bN`.
///
/// # Errors
/// [`SpeedError::Compare`] with the error and the line.
pub(super) fn load(path: &Path) -> Result<Vec<Comparison>, SpeedError> {
    let wrong = |reason| SpeedError::Compare { path: path.to_owned(), reason };
    if path == Path::new("article") {
        return parse(ARTICLE, "article").map_err(wrong);
    }
    let text = fs::read(path).map_err(|error| wrong(shown_error(&error)))?;
    let text = String::from_utf8(text).map_err(|_| wrong("it is not text".to_owned()))?;
    let name = evener_core::shown(path.file_stem().unwrap_or_default()).to_string();
    parse(&text, &name).map_err(wrong)
}

fn parse(text: &str, name: &str) -> Result<Vec<Comparison>, String> {
    let comparisons = if text.trim_start().starts_with(['{', '[']) {
        let document: Document = serde_json::from_str(text).map_err(|error| error.to_string())?;
        vec![Comparison { name: name.to_owned(), rows: document.rows }]
    } else {
        let mut records = csv::records(text)?.into_iter();
        let (_, head) = records.next().ok_or("it is empty")?;
        let rows = records.collect::<Vec<_>>();
        if head.iter().any(|column| column == "machine") {
            by_machine(&head, &rows)?
        } else {
            vec![Comparison { name: name.to_owned(), rows: own(&head, &rows)? }]
        }
    };
    let mut all = comparisons.iter().flat_map(|comparison| &comparison.rows);
    if all.clone().next().is_none() {
        return Err("it has no figures".to_owned());
    }
    match all.find(|row| !row.kb_per_s.is_finite() || row.kb_per_s <= 0.0 || row.threads == 0) {
        Some(row) => Err(format!(
            "{} kB/s of {} threads is no figure ({}, {} bytes)",
            row.kb_per_s, row.threads, row.cipher, row.bytes
        )),
        None => Ok(comparisons),
    }
}

/// The needed part of the command's JSON.
#[derive(Deserialize)]
struct Document {
    rows: Vec<Row>,
}

/// Reads a table with this command's columns.
fn own(head: &[String], records: &[(usize, Vec<String>)]) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    let table = Table { head };
    for (line, fields) in records {
        let record = table.record(*line, fields)?;
        rows.push(Row {
            engine: record.text("engine")?.to_owned(),
            cipher: cipher(record.text("cipher")?),
            direction: record.text("direction")?.to_owned(),
            aes_instructions: record.number("aes_instructions", "true or false")?,
            threads: record.number("threads", "a number")?,
            bytes: record.number("bytes", "a number")?,
            kb_per_s: record.number("kb_per_s", "a number")?,
        });
    }
    Ok(rows)
}

/// Reads a table in the article's form. Its source, `openssl speed`, encrypts on one core.
fn by_machine(
    head: &[String],
    records: &[(usize, Vec<String>)],
) -> Result<Vec<Comparison>, String> {
    let lengths: Vec<(&String, usize)> = head
        .iter()
        .filter_map(|column| Some((column, column.strip_prefix('b')?.parse().ok()?)))
        .collect();
    if lengths.is_empty() {
        return Err("it has no column for a length, such as `b1024`".to_owned());
    }
    let mut comparisons: Vec<Comparison> = Vec::new();
    let table = Table { head };
    for (line, fields) in records {
        let record = table.record(*line, fields)?;
        let machine = record.text("machine")?;
        let aes_instructions = match record.text("aes_ni")? {
            "yes" => true,
            "no" => false,
            other => return Err(format!("line {line}: `aes_ni` is `{other}`, not yes or no")),
        };
        let mut rows = Vec::new();
        for &(column, bytes) in &lengths {
            if record.text(column)?.is_empty() {
                continue;
            }
            rows.push(Row {
                engine: "openssl".to_owned(),
                cipher: cipher(record.text("cipher")?),
                direction: "encrypt".to_owned(),
                aes_instructions,
                threads: 1,
                bytes,
                kb_per_s: record.number(column, "a number")?,
            });
        }
        match comparisons.iter_mut().find(|comparison| comparison.name == machine) {
            Some(known) => known.rows.extend(rows),
            None => comparisons.push(Comparison { name: machine.to_owned(), rows }),
        }
    }
    Ok(comparisons)
}

/// Evener's name of a cipher. `openssl speed` calls 3DES in CBC mode `des-ede3`.
fn cipher(name: &str) -> String {
    match Cipher::from_str(name) {
        Ok(cipher) => cipher.to_string(),
        Err(_) if name.eq_ignore_ascii_case("des-ede3") => Cipher::DesEde3Cbc.to_string(),
        Err(_) => name.to_owned(),
    }
}

struct Table<'a> {
    head: &'a [String],
}

impl<'a> Table<'a> {
    fn record(&self, line: usize, fields: &'a [String]) -> Result<Record<'a>, String> {
        let (columns, found) = (self.head.len(), fields.len());
        if found != columns {
            return Err(format!("line {line}: it has {found} fields and the head {columns}"));
        }
        Ok(Record { line, head: self.head, fields })
    }
}

struct Record<'a> {
    line: usize,
    head: &'a [String],
    fields: &'a [String],
}

impl Record<'_> {
    fn text(&self, column: &str) -> Result<&str, String> {
        let place = self.head.iter().position(|name| name == column);
        let field = place.and_then(|place| self.fields.get(place));
        field.map(|field| &field[..]).ok_or_else(|| format!("it has no column `{column}`"))
    }

    fn number<T: FromStr>(&self, column: &str, kind: &str) -> Result<T, String> {
        let (text, line) = (self.text(column)?, self.line);
        text.parse().map_err(|_| format!("line {line}: `{column}` is `{text}`, not {kind}"))
    }
}

/// The article's figures; `lab/reference/README.md` names their source.
const ARTICLE: &str = include_str!("../../reference/speed-2014.csv");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_articles_two_servers_are_read() {
        let servers = load(Path::new("article")).unwrap();
        let names: Vec<_> = servers.iter().map(|server| &server.name[..]).collect();
        assert_eq!(names, ["opteron-6276", "xeon-e5-2620v2"]);
        assert!(servers.iter().all(|server| server.rows.len() == 25));
        let opteron = &servers[0].rows;
        assert_eq!((&opteron[0].cipher[..], opteron[0].kb_per_s), ("des-ede3-cbc", 20369.30));
        let with: Vec<_> = opteron.iter().filter(|row| row.aes_instructions).collect();
        assert_eq!((with.len(), with[4].bytes, with[4].kb_per_s), (5, 8192, 397_369.34));
    }

    #[test]
    fn what_was_written_is_read() {
        let rows = vec![Row {
            engine: "openssl:provider=x,path=/y".into(),
            cipher: "aes-256-cbc".into(),
            direction: "decrypt".into(),
            aes_instructions: true,
            threads: 2,
            bytes: 16,
            kb_per_s: 1234.567,
        }];
        let json = serde_json::json!({"machine": {}, "rows": rows}).to_string();
        for text in [csv::write(&rows), json] {
            let read = parse(&text, "earlier").unwrap();
            assert_eq!(read, [Comparison { name: "earlier".into(), rows: rows.clone() }]);
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let own = csv::HEAD.join(",");
        for (text, expected) in [
            (String::new(), "it is empty"),
            (own.clone(), "it has no figures"),
            ("{\"rows\": 3}".into(), "line 1"),
            ("[]".into(), "invalid"),
            ("a,b\n1,2".into(), "no column `engine`"),
            ("machine,cipher\nx,y".into(), "no column for a length"),
            ("machine,cipher,aes_ni,b16\nx,y,maybe,1".into(), "line 2: `aes_ni` is `maybe`"),
            ("machine,cipher,aes_ni,b16\n\nx,y,no,fast".into(), "line 3: `b16` is `fast`"),
            (format!("{own}\nopenssl,aes-256-cbc"), "line 2: it has 2 fields and the head 7"),
            (format!("{own}\no,c,encrypt,true,0,16,5"), "0 threads"),
            (format!("{own}\no,c,encrypt,true,1,16,-5"), "-5 kB/s"),
            (format!("{own}\no,c,encrypt,true,1,16,0"), "0 kB/s of 1 threads is no figure"),
            (format!("{own}\no,c,encrypt,true,1,16,\"5"), "a quote is not closed"),
        ] {
            let error = parse(&text, "x").unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let error = load(Path::new("/no/such/file")).unwrap_err().to_string();
        assert_eq!(error, "can't compare with /no/such/file: No such file or directory");
    }
}
