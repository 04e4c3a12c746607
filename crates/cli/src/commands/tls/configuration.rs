//! A configuration of OpenSSL, read as OpenSSL reads it (config(5) of OpenSSL).

mod lines;

use std::collections::HashMap;
use std::env;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions, ReadDir};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use evener::program::shown_error;
use rustix::fs::OFlags;

use crate::trouble::shown;

use lines::{Lines, without_comment};

/// The values of a file and of all that it includes.
#[derive(Default)]
pub(super) struct Configuration {
    sections: HashMap<Vec<u8>, HashMap<Vec<u8>, Value>>,
}

/// The text after a name, without quotes and with variables replaced.
#[derive(Clone, Default)]
pub(super) struct Value {
    pub(super) text: Vec<u8>,
    /// True if a part of it is an environment variable, which may differ next time.
    varies: bool,
}

impl Configuration {
    /// Reads a file.
    ///
    /// # Errors
    /// When something can't be read, or OpenSSL would read it but it depends on where or how a
    /// program is started; the error says why, with file and line.
    pub(super) fn read(path: &Path) -> Result<Configuration, String> {
        let mut reader = Reader { section: DEFAULT.to_vec(), ..Reader::default() };
        reader.open(path.to_owned()).map_err(|cause| refused(path, "read", &cause))?;
        while let Some(file) = reader.files.last_mut() {
            if let Some(line) = file.next() {
                let (path, number) = (file.path().to_owned(), file.number());
                let at = |reason| format!("{}:{number}: {reason}", shown(&path));
                reader.take(&line).map_err(at)?;
            } else {
                reader.files.pop();
                reader.open_next()?;
            }
        }
        Ok(reader.found)
    }

    /// A value that is the same for every program, if this name has one.
    pub(super) fn value(&self, section: &[u8], name: &str) -> Result<Option<&[u8]>, String> {
        match self.sections.get(section).and_then(|section| section.get(name.as_bytes())) {
            Some(value) if value.varies => {
                Err(format!("its `{name}` depends on the environment of each program"))
            }
            value => Ok(value.map(|value| &*value.text)),
        }
    }

    /// Returns whether a section of this name exists, even if it is empty.
    pub(super) fn has_section(&self, name: &[u8]) -> bool {
        self.sections.contains_key(name)
    }

    /// The names in a section.
    pub(super) fn names(&self, section: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.sections
            .get(section)
            .into_iter()
            .flat_map(|section| section.keys().map(|name| &**name))
    }

    /// The value of a variable.
    fn variable(&self, section: &[u8], name: &[u8]) -> Option<Value> {
        let value = |section| self.sections.get(section)?.get(name).cloned();
        value(section).or_else(|| {
            if section == b"ENV" {
                let text = env::var_os(OsStr::from_bytes(name)).unwrap_or_default().into_vec();
                return Some(Value { text, varies: true });
            }
            value(DEFAULT)
        })
    }
}

/// The state in the middle of reading. An included file stands for its lines: the section in which
/// it ends continues after it.
#[derive(Default)]
struct Reader {
    found: Configuration,
    section: Vec<u8>,
    /// The open files, each included by the one before.
    files: Vec<Lines>,
    /// The rest of the directory that is being included. There is one at most.
    directory: Option<(PathBuf, ReadDir)>,
    /// The number of files that were opened.
    opened: usize,
    pragmas: Pragmas,
}

/// The settings of the `.pragma` lines.
#[derive(Default)]
struct Pragmas {
    has_dollars_in_names: bool,
    wants_absolute_paths: bool,
    include_directory: Option<Vec<u8>>,
}

impl Reader {
    fn open(&mut self, path: PathBuf) -> io::Result<()> {
        self.opened += 1;
        if self.opened > MOST_FILES {
            return Err(io::Error::other("lines `.include` go round"));
        }
        let text = contents(&path)?;
        if text.contains(&0) {
            return Err(io::Error::other("it is no text"));
        }
        self.files.push(Lines::of(path, text));
        Ok(())
    }

    /// Opens the next file of the directory that is being included.
    fn open_next(&mut self) -> Result<(), String> {
        while let Some((path, directory)) = &mut self.directory {
            let failed = |cause| refused(path, "read", &cause);
            let Some(entry) = directory.next().transpose().map_err(failed)? else {
                self.directory = None;
                break;
            };
            let path = entry.path();
            let name = entry.file_name().as_bytes().to_ascii_lowercase();
            let is_named = [&b".conf"[..], b".cnf"]
                .iter()
                .any(|ending| name.len() > ending.len() && name.ends_with(ending));
            if is_named && path.is_file() {
                return self.open(path.clone()).map_err(|cause| refused(&path, "read", &cause));
            }
        }
        Ok(())
    }

    /// Takes a line.
    fn take(&mut self, line: &[u8]) -> Result<(), String> {
        let line = without_comment(line);
        let line = line.trim_ascii_start();
        if line.is_empty() {
            return Ok(());
        }
        if let Some(rest) = line.strip_prefix(b"[") {
            let name = self.section_name(rest).ok_or("the section's name has no `]` behind it")?;
            self.section = self.expand(b"", name)?.text;
            self.found.sections.entry(self.section.clone()).or_default();
            return Ok(());
        }
        let end = self.end_of_name(line);
        let (section, line, end) = match line[end..].strip_prefix(b"::") {
            Some(rest) => (line[..end].to_vec(), rest, self.end_of_name(rest)),
            None => (self.section.clone(), line, end),
        };
        let (name, rest) = line.split_at(end);
        let value = rest.trim_ascii_start();
        // A blank may follow a directive in place of `=`.
        let is = |directive: &[u8]| {
            name.starts_with(directive)
                && (name != directive || value.len() < rest.len() || value.starts_with(b"="))
        };
        let is_pragma = is(b".pragma");
        let is_include = is(b".include");
        let given = value.strip_prefix(b"=");
        if is_pragma {
            return self.pragma(given.unwrap_or(value).trim_ascii());
        }
        if is_include {
            let path = self.expand(&section, given.unwrap_or(value).trim_ascii())?;
            return self.include(&path);
        }
        let given = given.ok_or("it has no `=`, so that OpenSSL reads nothing of all this")?;
        let value = self.expand(&section, given.trim_ascii())?;
        self.found.sections.entry(section).or_default().insert(name.to_vec(), value);
        Ok(())
    }

    fn pragma(&mut self, pragma: &[u8]) -> Result<(), String> {
        let wrong = "OpenSSL doesn't understand the value of `.pragma`";
        let colon = pragma.iter().position(|&byte| byte == b':').ok_or(wrong)?;
        let (keyword, value) = (pragma[..colon].trim_ascii(), pragma[colon + 1..].trim_ascii());
        if colon == 0 || colon + 1 == pragma.len() {
            return Err(wrong.to_owned());
        }
        let is_on = || match &*value.to_ascii_lowercase() {
            b"on" | b"true" => Ok(true),
            b"off" | b"false" => Ok(false),
            _ => Err(wrong),
        };
        match keyword {
            b"dollarid" => self.pragmas.has_dollars_in_names = is_on()?,
            b"abspath" => self.pragmas.wants_absolute_paths = is_on()?,
            b"includedir" => self.pragmas.include_directory = Some(value.to_vec()),
            _ => {}
        }
        Ok(())
    }

    fn include(&mut self, included: &Value) -> Result<(), String> {
        let named = Path::new(OsStr::from_bytes(&included.text));
        let shown_path = shown(named);
        if included.varies {
            return Err(format!(
                "what `.include {shown_path}` names depends on the environment of each program"
            ));
        }
        let mut path = named.to_owned();
        if path.is_relative() {
            let directory = env::var_os("OPENSSL_CONF_INCLUDE").map(OsStringExt::into_vec);
            let directory = directory.or_else(|| self.pragmas.include_directory.clone());
            if let Some(directory) = directory {
                path = Path::new(OsStr::from_bytes(&directory)).join(path);
            }
        }
        if path.is_relative() && !included.text.is_empty() {
            let reason = if self.pragmas.wants_absolute_paths {
                "OpenSSL refuses it by the line `.pragma` before"
            } else {
                "each program looks for it in the directory in which it was started"
            };
            return Err(format!("`.include {shown_path}` has no absolute path: {reason}"));
        }
        let failed = |cause| refused(&path, "read", &cause);
        let found = match fs::metadata(&path) {
            // OpenSSL does not treat this as an error.
            Err(cause) if is_absence(&cause) => return Ok(()),
            found => found.map_err(failed)?,
        };
        if found.is_file() {
            return self.open(path.clone()).map_err(failed);
        }
        if !found.is_dir() {
            return Err(failed(io::Error::other("it is no file")));
        }
        // OpenSSL skips a directory that a file of another included directory includes.
        if self.directory.is_none() {
            self.directory = Some((path.clone(), fs::read_dir(&path).map_err(failed)?));
            self.open_next()?;
        }
        Ok(())
    }

    /// Replaces quotes, escapes and variables.
    fn expand(&self, section: &[u8], mut rest: &[u8]) -> Result<Value, String> {
        let mut value = Value::default();
        while let [first, behind @ ..] = rest {
            rest = behind;
            match first {
                b'\'' | b'"' | b'`' => {
                    while let [byte, behind @ ..] = rest {
                        rest = behind;
                        match (byte, behind) {
                            (byte, _) if byte == first => break,
                            (b'\\', [escaped, behind @ ..]) => {
                                value.text.push(*escaped);
                                rest = behind;
                            }
                            (b'\\', []) => {}
                            _ => value.text.push(*byte),
                        }
                    }
                }
                b'\\' => {
                    let Some((byte, behind)) = rest.split_first() else { break };
                    rest = behind;
                    value.text.push(match byte {
                        b'r' => b'\r',
                        b'n' => b'\n',
                        b'b' => 8,
                        b't' => b'\t',
                        _ => *byte,
                    });
                }
                b'$' if !self.pragmas.has_dollars_in_names
                    || rest.starts_with(b"{")
                    || rest.starts_with(b"(") =>
                {
                    rest = self.expand_variable(section, rest, &mut value)?;
                }
                _ => value.text.push(*first),
            }
            if value.text.len() > LONGEST {
                return Err("a value with its variables is too long for OpenSSL".to_owned());
            }
        }
        Ok(value)
    }

    /// Adds the value of the variable at the beginning of `rest`, and returns the text after it.
    fn expand_variable<'r>(
        &self,
        section: &[u8],
        rest: &'r [u8],
        value: &mut Value,
    ) -> Result<&'r [u8], String> {
        let bracket = match rest.first() {
            Some(b'{') => Some(b'}'),
            Some(b'(') => Some(b')'),
            _ => None,
        };
        let word = |text: &'r [u8]| {
            let is_in_word = |byte: &u8| {
                byte.is_ascii_alphanumeric()
                    || *byte == b'_'
                    || (*byte == b'$' && self.pragmas.has_dollars_in_names)
            };
            text.split_at(text.iter().position(|byte| !is_in_word(byte)).unwrap_or(text.len()))
        };
        let (mut name, mut rest) = word(if bracket.is_some() { &rest[1..] } else { rest });
        let mut section = section;
        if let Some(behind) = rest.strip_prefix(b"::") {
            section = name;
            (name, rest) = word(behind);
        }
        if let Some(bracket) = bracket {
            rest = rest.strip_prefix(&[bracket]).ok_or("a variable's bracket is not closed")?;
        }
        let found = self.found.variable(section, name).ok_or_else(|| {
            let name = shown(Path::new(OsStr::from_bytes(name)));
            format!("the variable {name} has no value, so that OpenSSL reads nothing of all this")
        })?;
        value.text.extend(found.text);
        value.varies |= found.varies;
        Ok(rest)
    }

    /// The name between brackets. It may contain blanks, but not begin or end with them.
    fn section_name<'l>(&self, line: &'l [u8]) -> Option<&'l [u8]> {
        let line = line.trim_ascii_start();
        let mut begin = 0;
        loop {
            let end = begin + self.end_of_name(&line[begin..]);
            let behind = line[end..].trim_ascii_start();
            let next = line.len() - behind.len();
            match behind.first() {
                Some(b']') => return Some(&line[..end]),
                Some(_) if next != begin => begin = next,
                _ => return None,
            }
        }
    }

    fn end_of_name(&self, line: &[u8]) -> usize {
        let mut at = 0;
        while let Some(&byte) = line.get(at) {
            match byte {
                b'\\' => at = (at + 2).min(line.len()),
                b'$' if self.pragmas.has_dollars_in_names => at += 1,
                _ if byte.is_ascii_alphanumeric() || b"_!.%&*+,/;?@^~|-".contains(&byte) => at += 1,
                _ => break,
            }
        }
        at
    }
}

/// Returns whether nothing has that name.
fn is_absence(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn refused(path: &Path, action: &str, cause: &io::Error) -> String {
    format!("{}: can't {action} it: {}", shown(path), shown_error(cause))
}

/// The section in which a file begins.
pub(super) const DEFAULT: &[u8] = b"default";

/// OpenSSL would loop until it has no descriptors left.
const MOST_FILES: usize = 500;

/// The longest value, in bytes.
const LONGEST: usize = 65_536;

/// Reads a configuration's bytes. A pipe is refused: reading would wait for a writer, and another
/// program could not read it again. So is a file of more than 16 MiB, such as a device without an
/// end.
pub(super) fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_fifo() || kind.is_block_device() {
        return Err(io::Error::other("it is no file"));
    }
    let mut contents = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut contents)?;
    match contents.len() as u64 > LARGEST {
        true => Err(io::Error::other("it is larger than 16 MiB")),
        false => Ok(contents),
    }
}

/// The largest size of a configuration, in bytes.
const LARGEST: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Configuration, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, text.replace("HERE", directory.path().to_str().unwrap())).unwrap();
        fs::create_dir(directory.path().join("more")).unwrap();
        for (name, text) in [
            ("one", "a = 1\n[second]\nb = 2"),
            ("round", ".include HERE/round"),
            ("more/x.CNF", "x = 1\n.include HERE/one\nx = 2\n"),
            ("more/y.conf", "y = 1\n.include HERE/more\n"),
            ("more/z.txt", "z = 1\n"),
            ("more/.cnf", "z = 1\n"),
        ] {
            let text = text.replace("HERE", directory.path().to_str().unwrap());
            fs::write(directory.path().join(name), text).unwrap();
        }
        Configuration::read(&path)
    }

    #[track_caller]
    fn expect(text: &str, section: &str, name: &str, value: Option<&str>) {
        let found = read(text).unwrap();
        let found = found.value(section.as_bytes(), name).unwrap();
        assert_eq!(found.map(String::from_utf8_lossy).as_deref(), value, "{text}");
    }

    #[test]
    fn values_are_what_openssl_makes_of_them() {
        expect("a = b # c\n", "default", "a", Some("b"));
        expect("a = 'b # c' \" d\"\r\n", "default", "a", Some("b # c  d"));
        expect("a = b\\\n c\\#d\n", "default", "a", Some("b c#d"));
        expect("a = 1\na = 2", "default", "a", Some("2"));
        expect("[ s t ] x\na = 1\n", "s t", "a", Some("1"));
        expect("s::a = 1\nb = 2\n", "s", "a", Some("1"));
        expect("s::a = 1\nb = 2\n", "default", "b", Some("2"));
        expect("v=1\n[s]\nw=2\na=$v${w}$(w)x${default::v}$s::w\n", "s", "a", Some("122x12"));
        expect(".pragma = dollarid:on\n$v=1\na=$v${$v}\n", "default", "a", Some("$v1"));
        expect("a =\n", "default", "a", Some(""));
    }

    #[test]
    fn what_is_included_stands_for_its_lines() {
        for line in [".include HERE/one", ".include=HERE/one", ".include = \"HERE/one\" # x"] {
            let text = format!("a = 0\n{line}\nc = 3\n");
            expect(&text, "default", "a", Some("1"));
            expect(&text, "second", "c", Some("3"));
        }
        expect(".pragma includedir:HERE\n.include one\n", "second", "b", Some("2"));
        expect(".pragma includedir:HERE/more\n.include ../one\n", "second", "b", Some("2"));
        expect("a = 1\n.include HERE/none\n", "default", "a", Some("1"));
        expect(".include HERE/more\n", "second", "x", Some("2"));
        for section in ["default", "second"] {
            expect(".include HERE/more\n", section, "z", None);
        }
        let y = read(".include HERE/more\n").unwrap();
        assert!(
            ["default", "second"].iter().any(|s| y.value(s.as_bytes(), "y").unwrap().is_some())
        );
    }

    #[test]
    fn what_openssl_or_this_program_cant_know_is_refused() {
        for (text, line, told) in [
            ("a\n", 1, "no `=`"),
            ("\n[a\n", 2, "no `]`"),
            ("a = $b\n", 1, "variable b has no value"),
            ("a = ${b\n", 1, "not closed"),
            (".pragma a\n", 1, "`.pragma`"),
            (".include one\n", 1, "`.include one` has no absolute path"),
            (".include $ENV::HOME/one\n", 1, "depends on the environment"),
            (".include HERE/round\n", 1, "go round"),
        ] {
            let reason = read(text).err().unwrap_or_else(|| panic!("{text}"));
            assert!(reason.contains(&format!(":{line}: ")), "{reason}");
            assert!(reason.contains(told), "{reason}");
        }
        let varying = read("a = $ENV::HOME\n").unwrap();
        assert!(varying.value(DEFAULT, "a").unwrap_err().contains("`a` depends"));
        assert!(read("a = \0\n").is_err());
    }
}
