//! The requests of `/dev/crypto`, read from and written to the caller's memory by the offsets
//! that cryptodev-linux's `crypto/cryptodev.h` has on 64-bit machines.

use crate::sys::{read_memory, write_memory};

/// An errno.
pub(crate) type Errno = i32;

/// The caller of a request, and the argument of the ioctl: an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) thread: u32,
    pub(crate) argument: u64,
}

/// A request with what it points to, except for the data.
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
    /// 0 for none.
    pub(crate) iv_address: u64,
    pub(crate) input_address: u64,
    /// Of the input, in bytes.
    pub(crate) length: u32,
    pub(crate) output_address: u64,
    /// The caller's structure, which an asynchronous request gives back.
    pub(crate) structure: Vec<u8>,
}

impl Caller {
    pub(crate) fn read(self, command: u32) -> Result<Call, Errno> {
        match command {
            CIOCGSESSION => {
                let fields = self.fields(48)?;
                Ok(Call::StartSession {
                    cipher: fields.u32(0),
                    key: self.bytes(fields.u64(16), fields.u32(8))?,
                })
            }
            CIOCFSESSION => Ok(Call::EndSession { id: self.fields(4)?.u32(0) }),
            CIOCGSESSINFO => Ok(Call::Describe { id: self.fields(4)?.u32(0) }),
            CIOCCRYPT => Ok(Call::Crypt(self.crypt_operation()?)),
            CIOCASYNCCRYPT => Ok(Call::Submit(self.crypt_operation()?)),
            CIOCASYNCFETCH => Ok(Call::Fetch),
            CIOCAUTHCRYPT => {
                let fields = self.fields(72)?;
                Ok(Call::Authenticate {
                    operation: operation(&fields, fields.u64(24), fields.u64(32), 56)?,
                    aad: self.bytes(fields.u64(16), fields.u32(12))?,
                    tag_length: fields.u32(48),
                })
            }
            _ => Err(libc::EINVAL),
        }
    }

    /// Completes the answer to [`Call::StartSession`].
    pub(crate) fn write_session(self, id: u32) -> Result<(), Errno> {
        self.write(self.argument + 40, &id.to_ne_bytes())
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

    fn fields(self, length: u32) -> Result<Fields, Errno> {
        self.bytes(self.argument, length).map(Fields)
    }

    fn crypt_operation(self) -> Result<Operation, Errno> {
        let fields = self.fields(48)?;
        operation(&fields, fields.u64(16), fields.u64(24), 40)
    }
}

fn operation(
    fields: &Fields,
    input_address: u64,
    output_address: u64,
    iv_at: usize,
) -> Result<Operation, Errno> {
    let decrypts = match fields.u32(4) & 0xFFFF {
        0 => false,
        1 => true,
        _ => return Err(libc::EINVAL),
    };
    Ok(Operation {
        session: fields.u32(0),
        decrypts,
        iv_address: fields.u64(iv_at),
        input_address,
        length: fields.u32(8),
        output_address,
        structure: fields.0.clone(),
    })
}

struct Fields(Vec<u8>);

impl Fields {
    fn u32(&self, at: usize) -> u32 {
        self.0[at..].first_chunk().map_or(0, |chunk| u32::from_ne_bytes(*chunk))
    }

    fn u64(&self, at: usize) -> u64 {
        self.0[at..].first_chunk().map_or(0, |chunk| u64::from_ne_bytes(*chunk))
    }
}

// As a C compiler computes them from the header on x86-64.
const CIOCGSESSION: u32 = 0xC030_6366;
const CIOCFSESSION: u32 = 0x4004_6367;
const CIOCCRYPT: u32 = 0xC030_6368;
const CIOCGSESSINFO: u32 = 0xC10C_636B;
const CIOCAUTHCRYPT: u32 = 0xC048_636D;
const CIOCASYNCCRYPT: u32 = 0x4030_636E;
const CIOCASYNCFETCH: u32 = 0x8030_636F;
