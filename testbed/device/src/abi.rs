//! The requests of `/dev/crypto`, read from and written to the caller's memory at the offsets of
//! cryptodev-linux's `crypto/cryptodev.h` on this machine: of 64 bits or of 32.

use std::mem::size_of;

use crate::sys::{read_memory, write_memory};

/// An errno.
pub(crate) type Errno = i32;

/// The caller of a request, and the argument of the ioctl: an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) thread: u32,
    pub(crate) argument: u64,
}

/// A request with everything at its pointers, except for the text.
#[derive(Debug)]
pub(crate) enum Call {
    StartSession { cipher: u32, key: Vec<u8> },
    EndSession { id: u32 },
    Describe { id: u32 },
    Crypt(Operation),
    Authenticate { operation: Operation, aad: Vec<u8>, tag_length: u32 },
    Submit(Operation),
    Fetch,
}

#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) session: u32,
    pub(crate) decrypts: bool,
    /// 0 if there is none.
    pub(crate) iv_address: u64,
    pub(crate) input_address: u64,
    /// Length of the input, in bytes.
    pub(crate) length: u32,
    pub(crate) output_address: u64,
    /// The caller's structure, which an asynchronous request returns.
    pub(crate) structure: Vec<u8>,
}

impl Caller {
    pub(crate) fn read(self, command: u32) -> Result<Call, Errno> {
        match command {
            CIOCGSESSION => {
                let fields = self.fields(SESSION_OR_CRYPT)?;
                Ok(Call::StartSession {
                    cipher: fields.u32(0),
                    key: self.bytes(fields.pointer(FIRST), fields.u32(8))?,
                })
            }
            CIOCFSESSION => Ok(Call::EndSession { id: self.fields(4)?.u32(0) }),
            CIOCGSESSINFO => Ok(Call::Describe { id: self.fields(4)?.u32(0) }),
            CIOCCRYPT => Ok(Call::Crypt(self.crypt_operation()?)),
            CIOCASYNCCRYPT => Ok(Call::Submit(self.crypt_operation()?)),
            CIOCASYNCFETCH => Ok(Call::Fetch),
            CIOCAUTHCRYPT => {
                let fields = self.fields(AUTHENTICATE)?;
                Ok(Call::Authenticate {
                    operation: operation(&fields, 16 + WORD, 16 + 5 * WORD)?,
                    aad: self.bytes(fields.pointer(16), fields.u32(12))?,
                    tag_length: fields.u32(16 + 4 * WORD),
                })
            }
            _ => Err(libc::EINVAL),
        }
    }

    /// Completes the answer to [`Call::StartSession`].
    pub(crate) fn write_session(self, id: u32) -> Result<(), Errno> {
        self.write(self.argument + (FIRST + 3 * WORD) as u64, &id.to_ne_bytes())
    }

    /// Completes the answer to [`Call::Describe`].
    pub(crate) fn write_description(
        self,
        driver: &str,
        alignment: u64,
        is_hardware: bool,
    ) -> Result<(), Errno> {
        let mut name = [0; 64];
        name[..driver.len()].copy_from_slice(driver.as_bytes());
        self.write(self.argument + 4 + 64, &name)?;
        self.write(self.argument + 260, &(alignment as u16 - 1).to_ne_bytes())?;
        self.write(self.argument + 264, &u32::from(is_hardware).to_ne_bytes())
    }

    pub(crate) fn write(self, address: u64, bytes: &[u8]) -> Result<(), Errno> {
        write_memory(self.thread, address, bytes).map_err(|_| libc::EFAULT)
    }

    pub(crate) fn bytes(self, address: u64, length: u32) -> Result<Vec<u8>, Errno> {
        if length == 0 {
            return Ok(Vec::new());
        }
        read_memory(self.thread, address, length as usize).map_err(|_| libc::EFAULT)
    }

    fn fields(self, length: usize) -> Result<Fields, Errno> {
        self.bytes(self.argument, length as u32).map(Fields)
    }

    fn crypt_operation(self) -> Result<Operation, Errno> {
        let fields = self.fields(SESSION_OR_CRYPT)?;
        operation(&fields, FIRST, FIRST + 3 * WORD)
    }
}

/// The pointer to the output follows the pointer to the input.
fn operation(fields: &Fields, input_at: usize, iv_at: usize) -> Result<Operation, Errno> {
    let decrypts = match fields.u32(4) & 0xFFFF {
        0 => false,
        1 => true,
        _ => return Err(libc::EINVAL),
    };
    Ok(Operation {
        session: fields.u32(0),
        decrypts,
        iv_address: fields.pointer(iv_at),
        input_address: fields.pointer(input_at),
        length: fields.u32(8),
        output_address: fields.pointer(input_at + WORD),
        structure: fields.0.clone(),
    })
}

struct Fields(Vec<u8>);

impl Fields {
    fn u32(&self, at: usize) -> u32 {
        self.0[at..].first_chunk().map_or(0, |chunk| u32::from_ne_bytes(*chunk))
    }

    fn pointer(&self, at: usize) -> u64 {
        self.0[at..].first_chunk().map_or(0, |chunk| usize::from_ne_bytes(*chunk) as u64)
    }
}

/// Length of a pointer, and of a field aligned as one.
const WORD: usize = size_of::<usize>();
/// Offset of the first pointer after three words of 32 bits.
const FIRST: usize = 12_usize.next_multiple_of(WORD);
/// Length of struct session_op, and of struct crypt_op.
const SESSION_OR_CRYPT: usize = FIRST + 4 * WORD;
/// Length of struct crypt_auth_op.
const AUTHENTICATE: usize = 16 + 7 * WORD;

const CIOCGSESSION: u32 = request(READ | WRITE, SESSION_OR_CRYPT, 102);
const CIOCFSESSION: u32 = request(WRITE, 4, 103);
const CIOCCRYPT: u32 = request(READ | WRITE, SESSION_OR_CRYPT, 104);
const CIOCGSESSINFO: u32 = request(READ | WRITE, 268, 107);
const CIOCAUTHCRYPT: u32 = request(READ | WRITE, AUTHENTICATE, 109);
const CIOCASYNCCRYPT: u32 = request(WRITE, SESSION_OR_CRYPT, 110);
const CIOCASYNCFETCH: u32 = request(READ, SESSION_OR_CRYPT, 111);

/// The number of an ioctl, as `_IOC` of `asm-generic/ioctl.h` computes it.
const fn request(direction: u32, length: usize, number: u32) -> u32 {
    direction << 30 | (length as u32) << 16 | (b'c' as u32) << 8 | number
}

/// From the caller to the device.
const WRITE: u32 = 1;
const READ: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_are_those_that_a_c_compiler_makes_of_the_header() {
        let requests = [
            CIOCGSESSION,
            CIOCFSESSION,
            CIOCCRYPT,
            CIOCGSESSINFO,
            CIOCAUTHCRYPT,
            CIOCASYNCCRYPT,
            CIOCASYNCFETCH,
        ];
        let expected: [u32; 7] = match WORD {
            4 => [
                0xC01C_6366,
                0x4004_6367,
                0xC01C_6368,
                0xC10C_636B,
                0xC02C_636D,
                0x401C_636E,
                0x801C_636F,
            ],
            _ => [
                0xC030_6366,
                0x4004_6367,
                0xC030_6368,
                0xC10C_636B,
                0xC048_636D,
                0x4030_636E,
                0x8030_636F,
            ],
        };
        assert_eq!(requests, expected);
    }
}
