//! The part of CBOR (RFC 8949) that the index needs: definite lengths, and no text but map keys.

use ciborium_io::Read as _;
use ciborium_ll::{Decoder, Encoder, Header, simple};

use super::IndexError;

/// Appends items to bytes.
pub(super) struct Writer<'a>(Encoder<&'a mut Vec<u8>>);

impl<'a> Writer<'a> {
    pub(super) fn new(bytes: &'a mut Vec<u8>) -> Writer<'a> {
        Writer(Encoder::from(bytes))
    }

    pub(super) fn number(&mut self, number: u64) {
        self.push(Header::Positive(number));
    }

    pub(super) fn signed(&mut self, number: i64) {
        self.push(match u64::try_from(number) {
            Ok(number) => Header::Positive(number),
            Err(_) => Header::Negative(!number as u64),
        });
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        never_fails(self.0.bytes(bytes, None));
    }

    pub(super) fn text(&mut self, text: &str) {
        never_fails(self.0.text(text, None));
    }

    pub(super) fn array(&mut self, length: usize) {
        self.push(Header::Array(Some(length)));
    }

    pub(super) fn map(&mut self, length: usize) {
        self.push(Header::Map(Some(length)));
    }

    pub(super) fn null(&mut self) {
        self.push(Header::Simple(simple::NULL));
    }

    /// An item, or null.
    pub(super) fn optional<T>(&mut self, item: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match item {
            Some(item) => write(self, item),
            None => self.null(),
        }
    }

    fn push(&mut self, header: Header) {
        never_fails(self.0.push(header));
    }
}

/// Writing to memory does not fail, but the type of the error that never comes depends on features.
fn never_fails<E>(written: Result<(), E>) {
    debug_assert!(written.is_ok());
}

/// Reads items from bytes. Each has the shortest encoding that it can have.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    most: usize,
    decoder: Decoder<&'a [u8]>,
}

impl<'a> Reader<'a> {
    /// Reads items of at most so many bytes together; only padding may lie beyond.
    pub(super) fn new(bytes: &'a [u8], most: usize) -> Reader<'a> {
        let most = most.min(bytes.len());
        Reader { bytes, most, decoder: Decoder::from(&bytes[..most]) }
    }

    pub(super) fn number(&mut self) -> Result<u64, IndexError> {
        match self.pull()? {
            Header::Positive(number) => Ok(number),
            _ => Err(IndexError::Malformed("a number was expected")),
        }
    }

    pub(super) fn small(&mut self, most: u32) -> Result<u32, IndexError> {
        let number = u32::try_from(self.number()?).ok().filter(|number| *number <= most);
        number.ok_or(IndexError::Malformed("a number is too large"))
    }

    /// The number of a generation.
    pub(super) fn generation(&mut self) -> Result<u64, IndexError> {
        match self.number()? {
            number @ 1..=MOST_NUMBER => Ok(number),
            _ => Err(IndexError::Malformed("no generation has such a number")),
        }
    }

    pub(super) fn signed(&mut self) -> Result<i64, IndexError> {
        let number = match self.pull()? {
            Header::Positive(number) => i64::try_from(number).ok(),
            Header::Negative(number) => i64::try_from(number).ok().map(|number| !number),
            _ => None,
        };
        number.ok_or(IndexError::Malformed("a number was expected"))
    }

    pub(super) fn bytes(&mut self, most: usize) -> Result<Vec<u8>, IndexError> {
        match self.pull()? {
            Header::Bytes(Some(length)) => self.content(length, most),
            _ => Err(IndexError::Malformed("bytes were expected")),
        }
    }

    pub(super) fn fixed<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], IndexError> {
        let wrong = IndexError::Malformed("a value has the wrong length");
        self.bytes(LENGTH)?.try_into().map_err(|_| wrong)
    }

    pub(super) fn text(&mut self, most: usize) -> Result<String, IndexError> {
        let malformed = IndexError::Malformed("text was expected");
        match self.pull()? {
            Header::Text(Some(length)) => {
                String::from_utf8(self.content(length, most)?).map_err(|_| malformed)
            }
            _ => Err(malformed),
        }
    }

    /// The length of an array of `least` to `most` items.
    pub(super) fn array(&mut self, least: usize, most: usize) -> Result<usize, IndexError> {
        match self.pull()? {
            Header::Array(Some(length)) if (least..=most).contains(&length) => Ok(length),
            _ => Err(IndexError::Malformed("an array was expected")),
        }
    }

    pub(super) fn map(&mut self, most: usize) -> Result<usize, IndexError> {
        match self.pull()? {
            Header::Map(Some(length)) if length <= most => Ok(length),
            _ => Err(IndexError::Malformed("a map was expected")),
        }
    }

    /// Reads null if it comes next.
    pub(super) fn null(&mut self) -> Result<bool, IndexError> {
        match self.pull()? {
            Header::Simple(simple::NULL) => Ok(true),
            header => {
                self.decoder.push(header);
                Ok(false)
            }
        }
    }

    /// An item, unless it is null.
    pub(super) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, IndexError>,
    ) -> Result<Option<T>, IndexError> {
        if self.null()? { Ok(None) } else { read(self).map(Some) }
    }

    /// Returns whether bytes come next.
    pub(super) fn bytes_follow(&mut self) -> Result<bool, IndexError> {
        let header = self.pull()?;
        self.decoder.push(header);
        Ok(matches!(header, Header::Bytes(_)))
    }

    /// The bytes behind the last item.
    pub(super) fn rest(mut self) -> &'a [u8] {
        self.bytes.get(self.decoder.offset()..).unwrap_or_default()
    }

    /// Checks that nothing follows.
    pub(super) fn end(self) -> Result<(), IndexError> {
        nothing_else(self.rest().is_empty())
    }

    /// Checks that nothing but padding follows: zeros.
    pub(super) fn padding(self) -> Result<(), IndexError> {
        nothing_else(self.rest().iter().all(|byte| *byte == 0))
    }

    fn content(&mut self, length: usize, most: usize) -> Result<Vec<u8>, IndexError> {
        if length > most {
            return Err(IndexError::Malformed("a value is too long"));
        }
        if length > self.most.saturating_sub(self.decoder.offset()) {
            return Err(CUT);
        }
        let mut content = vec![0; length];
        self.decoder.read_exact(&mut content).map_err(|_| CUT)?;
        Ok(content)
    }

    fn pull(&mut self) -> Result<Header, IndexError> {
        let start = self.decoder.offset();
        let header = self.decoder.pull().map_err(|_| CUT)?;
        match shortest(header) == Some(self.decoder.offset() - start) {
            true => Ok(header),
            false => Err(IndexError::Malformed("an item has another type or a longer form")),
        }
    }
}

/// The length of the shortest form of a header, of those types that an index has.
fn shortest(header: Header) -> Option<usize> {
    let number = match header {
        Header::Positive(number) | Header::Negative(number) => number,
        Header::Bytes(length) | Header::Text(length) => length? as u64,
        Header::Array(length) | Header::Map(length) => length? as u64,
        Header::Simple(simple::NULL) => return Some(1),
        _ => return None,
    };
    Some(match number {
        0..=23 => 1,
        24..=0xFF => 2,
        0x100..=0xFFFF => 3,
        0x1_0000..=0xFFFF_FFFF => 5,
        _ => 9,
    })
}

fn nothing_else(is_so: bool) -> Result<(), IndexError> {
    match is_so {
        true => Ok(()),
        false => Err(IndexError::Malformed("something follows its end")),
    }
}

const CUT: IndexError = IndexError::Malformed("it is cut, too long, or no CBOR");
const MOST_NUMBER: u64 = 1 << 62;
