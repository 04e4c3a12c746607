//! Messages.

use std::sync::{Mutex, MutexGuard, PoisonError};

use facade::hazmat::{nonce, seal_batch};
use facade::{AeadError, Cipher, Key, Nonce, NonceSequence, Opening, Sealing};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::buffers::{made, unattached};
use crate::error::Trouble;
use crate::sys::{Input, Output, bytes_of, disjoint, refuse_shared, reserved};
use crate::values::given;

/// A cipher with its key: aes-128-gcm, aes-192-gcm, aes-256-gcm or chacha20-poly1305.
///
/// seal and its variants draw random nonces, for at most 2^32 messages under a key. A sealed message
/// is its nonce of 12 bytes, the ciphertext, and the tag of 16. A message that is not authentic raises
/// a DamagedError.
#[pyclass(frozen, module = "evener")]
pub(crate) struct Aead {
    aead: facade::Aead,
    nonces: Mutex<NonceSequence>,
}

#[pymethods]
impl Aead {
    #[new]
    fn new(cipher: &str, secret: Input) -> Result<Aead, Trouble> {
        let cipher: Cipher = cipher.parse().map_err(Trouble::usage)?;
        if !cipher.is_authenticated() {
            return Err(AeadError::NotAuthenticated { cipher }.into());
        }
        let (length, given) = (cipher.key_length(), secret.bytes().len());
        if length != given {
            return Err(Trouble::Usage(format!(
                "{cipher} has keys of {length} bytes, not {given}"
            )));
        }
        let key = Key::new(secret.bytes()).map_err(Trouble::usage)?;
        let nonces = Mutex::new(NonceSequence::random());
        Ok(Aead { aead: facade::Aead::new(cipher, &key)?, nonces })
    }

    /// Makes a key for a cipher.
    #[staticmethod]
    fn generate_key<'py>(py: Python<'py>, cipher: &str) -> Result<Bound<'py, PyBytes>, Trouble> {
        let cipher = cipher.parse().map_err(Trouble::usage)?;
        Ok(PyBytes::new(py, facade::Aead::generate_key(cipher)?.bytes()))
    }

    /// How many bytes longer a sealed message is: 28.
    #[getter]
    fn overhead(&self) -> usize {
        Nonce::LENGTH + self.tag()
    }

    /// Encrypts under the caller's nonce of 12 bytes, which no other message under this key may have.
    /// Returns the ciphertext and the tag.
    #[pyo3(signature = (nonce, data, associated_data))]
    fn encrypt<'py>(
        &self,
        py: Python<'py>,
        nonce: Input,
        data: Input,
        associated_data: Option<Input>,
    ) -> Result<Bound<'py, PyBytes>, Trouble> {
        let nonce = self::nonce(nonce_of(nonce.bytes())?);
        let (data, aad) = (data.bytes(), aad_of(&associated_data));
        made(py, data.len() + self.tag(), |out| {
            let length = out.len();
            unattached(py, length, || self.aead.seal(nonce, aad, data, out))?;
            Ok(length)
        })
    }

    /// Decrypts a result of encrypt.
    #[pyo3(signature = (nonce, data, associated_data))]
    fn decrypt<'py>(
        &self,
        py: Python<'py>,
        nonce: Input,
        data: Input,
        associated_data: Option<Input>,
    ) -> Result<Bound<'py, PyBytes>, Trouble> {
        let nonce = nonce_of(nonce.bytes())?;
        let (data, aad) = (data.bytes(), aad_of(&associated_data));
        made(py, data.len().saturating_sub(self.tag()), |out| {
            Ok(unattached(py, data.len(), || self.aead.open(&nonce, aad, data, out))?)
        })
    }

    /// Seals a message. aad is authenticated, and not part of the result.
    #[pyo3(signature = (data, aad=None))]
    fn seal<'py>(
        &self,
        py: Python<'py>,
        data: Input,
        aad: Option<Input>,
    ) -> Result<Bound<'py, PyBytes>, Trouble> {
        let nonce = self.nonces().next_nonce().map_err(AeadError::from)?;
        let (data, aad) = (data.bytes(), aad_of(&aad));
        made(py, data.len() + self.overhead(), |out| {
            let length = out.len();
            let (head, rest) = out.split_at_mut(Nonce::LENGTH);
            head.copy_from_slice(nonce.bytes());
            unattached(py, length, || self.aead.seal(nonce, aad, data, rest))?;
            Ok(length)
        })
    }

    /// Opens a sealed message.
    #[pyo3(signature = (sealed, aad=None))]
    fn open<'py>(
        &self,
        py: Python<'py>,
        sealed: Input,
        aad: Option<Input>,
    ) -> Result<Bound<'py, PyBytes>, Trouble> {
        let (nonce, sealed) = parts(sealed.bytes(), 0, self.overhead())?;
        let aad = aad_of(&aad);
        made(py, sealed.len() - self.tag(), |out| {
            Ok(unattached(py, sealed.len(), || self.aead.open(nonce, aad, sealed, out))?)
        })
    }

    /// Seals messages, with the same aad, on all cores.
    #[pyo3(signature = (messages, aad=None))]
    fn seal_many<'py>(
        &self,
        py: Python<'py>,
        messages: Vec<Input>,
        aad: Option<Input>,
    ) -> Result<Vec<Bound<'py, PyBytes>>, Trouble> {
        let inputs: Vec<_> = messages.iter().map(Input::bytes).collect();
        let mut sealed = Vec::with_capacity(inputs.len());
        let mut room: Vec<u8> = Vec::new();
        for inputs in inputs.chunks(AT_ONCE) {
            let lengths: Vec<_> = inputs.iter().map(|one| one.len() + self.overhead()).collect();
            let length = lengths.iter().sum();
            if length > room.capacity() {
                room = reserved(length)?;
            }
            room.resize(length, 0);
            py.detach(|| self.seal_some(inputs, aad_of(&aad), &mut room))?;
            sealed.extend(cut(py, &room, &lengths)?);
        }
        Ok(sealed)
    }

    /// Opens sealed messages on all cores: all of them, or none.
    #[pyo3(signature = (sealed, aad=None))]
    fn open_many<'py>(
        &self,
        py: Python<'py>,
        sealed: Vec<Input>,
        aad: Option<Input>,
    ) -> Result<Vec<Bound<'py, PyBytes>>, Trouble> {
        let inputs: Vec<_> = sealed.iter().map(Input::bytes).collect();
        let lengths = inputs.iter().map(|input| input.len().saturating_sub(self.overhead()));
        let lengths: Vec<_> = lengths.collect();
        let length = lengths.iter().sum();
        let mut out = zeroize::Zeroizing::new(reserved(length)?);
        out.resize(length, 0);
        py.detach(|| self.open_all(&inputs, aad_of(&aad), &mut out))?;
        Ok(cut(py, &out, &lengths)?)
    }

    /// Seals the messages data[offsets[i]:offsets[i + 1]] into a buffer, without gaps. Returns the
    /// length of all results.
    #[pyo3(signature = (data, offsets, out, aad=None))]
    fn seal_many_into(
        &self,
        py: Python<'_>,
        data: Input,
        offsets: Offsets,
        mut out: Output,
        aad: Option<Input>,
    ) -> Result<usize, Trouble> {
        aad.iter().try_for_each(|aad| refuse_shared(aad, &out))?;
        let (data, out) = disjoint(&data, &mut out)?;
        let inputs = offsets.cut(data)?;
        let sealed = |inputs: &[&[u8]]| inputs.iter().map(|one| one.len() + self.overhead()).sum();
        let length = sealed(&inputs);
        let mut out = room(out, length)?;
        py.detach(|| {
            inputs.chunks(AT_ONCE).try_for_each(|inputs| {
                let own = out.split_off_mut(..sealed(inputs)).unwrap_or_default();
                self.seal_some(inputs, aad_of(&aad), own)
            })
        })?;
        Ok(length)
    }

    /// Opens the messages that seal_many_into has sealed, into another buffer.
    #[pyo3(signature = (sealed, offsets, out, aad=None))]
    fn open_many_into(
        &self,
        py: Python<'_>,
        sealed: Input,
        offsets: Offsets,
        mut out: Output,
        aad: Option<Input>,
    ) -> Result<usize, Trouble> {
        aad.iter().try_for_each(|aad| refuse_shared(aad, &out))?;
        let (sealed, out) = disjoint(&sealed, &mut out)?;
        let inputs = offsets.cut(sealed)?;
        let length = inputs.iter().map(|input| input.len().saturating_sub(self.overhead())).sum();
        let out = room(out, length)?;
        py.detach(|| self.open_all(&inputs, aad_of(&aad), out))?;
        Ok(length)
    }

    fn __repr__(&self) -> String {
        format!("<evener.Aead of {}>", self.aead.cipher())
    }

    fn __reduce__(&self) -> PyResult<()> {
        Err(PyTypeError::new_err("an Aead can't be pickled, since it holds a secret"))
    }
}

impl Aead {
    fn tag(&self) -> usize {
        self.aead.cipher().tag_length()
    }

    fn nonces(&self) -> MutexGuard<'_, NonceSequence> {
        self.nonces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Seals messages one after another, each behind its nonce.
    fn seal_some(&self, inputs: &[&[u8]], aad: &[u8], mut out: &mut [u8]) -> Result<(), Trouble> {
        let nonces = self.nonces().next_nonces(inputs.len()).map_err(AeadError::from)?;
        let mut batch = Vec::with_capacity(inputs.len());
        for (input, nonce) in inputs.iter().zip(&nonces) {
            let (head, rest) = out.split_at_mut(Nonce::LENGTH);
            head.copy_from_slice(nonce.bytes());
            let (sealed, rest) = rest.split_at_mut(input.len() + self.tag());
            out = rest;
            batch.push(Sealing::new(input, sealed).aad(aad));
        }
        Ok(seal_batch(&self.aead, nonces, &mut batch)?)
    }

    /// Opens messages one after another. If one is forged, leaves nothing in the buffer.
    fn open_all(&self, inputs: &[&[u8]], aad: &[u8], out: &mut [u8]) -> Result<(), Trouble> {
        let mut batch = reserved(inputs.len())?;
        let mut left = &mut *out;
        for (index, input) in inputs.iter().enumerate() {
            let (nonce, sealed) = parts(input, index, self.overhead())?;
            let (plain, rest) = left.split_at_mut(sealed.len() - self.tag());
            left = rest;
            batch.push(Opening::new(nonce, sealed, plain).aad(aad));
        }
        let opened = self.aead.open_batch(&mut batch);
        drop(batch);
        if opened.is_err() {
            out.fill(0);
        }
        Ok(opened?)
    }
}

/// The number of messages that are sealed at once: enough for several threads, and no more, since the
/// descriptions of many fill a cache.
const AT_ONCE: usize = 8192;

/// The ends of messages in one buffer: the first byte of each, and the end of the last.
struct Offsets(Vec<usize>);

impl Offsets {
    fn cut<'d>(&self, data: &'d [u8]) -> Result<Vec<&'d [u8]>, Trouble> {
        let mut all = reserved(self.0.len())?;
        for pair in self.0.windows(2) {
            let one = data.get(pair[0]..pair[1]);
            all.push(
                one.ok_or_else(|| Trouble::usage("the offsets do not ascend within the data"))?,
            );
        }
        Ok(all)
    }
}

impl<'py> FromPyObject<'_, 'py> for Offsets {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Offsets> {
        let numbers: Vec<i64> = match PyBuffer::<i64>::get(&object) {
            Ok(buffer) => {
                let mut numbers = reserved(buffer.item_count())?;
                numbers.resize(buffer.item_count(), 0);
                buffer.copy_to_slice(object.py(), &mut numbers)?;
                numbers
            }
            Err(_) => given("offsets", &object, "a sequence of numbers from 0 to 2**63 - 1")?,
        };
        let number = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(Offsets(numbers.into_iter().map(number).collect()))
    }
}

fn room(out: &mut [u8], length: usize) -> Result<&mut [u8], Trouble> {
    let room = out.len();
    out.get_mut(..length).ok_or_else(|| {
        Trouble::Usage(format!("the result has {length} bytes, and the buffer for it {room}"))
    })
}

/// The nonce of a sealed message, and the rest.
fn parts(
    sealed: &[u8],
    message: usize,
    overhead: usize,
) -> Result<(&[u8; Nonce::LENGTH], &[u8]), Trouble> {
    match sealed.split_first_chunk() {
        Some(parts) if sealed.len() >= overhead => Ok(parts),
        _ => Err(AeadError::Forged { message, count: 1 }.into()),
    }
}

fn nonce_of(bytes: &[u8]) -> Result<[u8; Nonce::LENGTH], Trouble> {
    bytes.try_into().map_err(|_| Trouble::usage("a nonce has 12 bytes"))
}

fn aad_of(aad: &Option<Input>) -> &[u8] {
    aad.as_ref().map_or(&[], Input::bytes)
}

/// Copies a buffer of messages into objects.
fn cut<'py>(
    py: Python<'py>,
    mut all: &[u8],
    lengths: &[usize],
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let mut next = |&length: &usize| {
        let (one, rest) = all.split_at(length);
        all = rest;
        bytes_of(py, one)
    };
    lengths.iter().map(&mut next).collect()
}
