//! Finds the kernel's drivers that this process can use through AF_ALG.

use std::cmp::Reverse;
use std::{fmt, fs, io};

use evener_core::{Cipher, Mode, shown_error};

use super::sys::{BindError, Transform};
use crate::kernel;

/// The drivers of this name; several if one name stands for several ciphers. The error is the
/// reason as text.
pub(super) fn drivers_named(name: &str) -> Result<Vec<Driver>, String> {
    let mut drivers = matching(&read_drivers()?, name);
    if drivers.is_empty() {
        // A request for a driver makes the kernel load its module, after which the driver is
        // listed.
        for interface in [Interface::Skcipher, Interface::Aead] {
            let _ = Transform::bind(interface.name(), name);
        }
        drivers = matching(&read_drivers()?, name);
    }
    if drivers.is_empty() {
        let others = drivers_of_algorithm(&read_drivers()?, name);
        return Err(if others.is_empty() {
            format!("{PROC_CRYPTO} has no cipher driver of this name that Evener can use")
        } else {
            format!("this is an algorithm, not a driver; its drivers are {others}")
        });
    }
    usable(drivers)
}

/// The hardware driver of the highest priority for every algorithm.
pub(super) fn best_hardware_drivers() -> Result<Vec<Driver>, String> {
    let mut drivers = read_drivers()?;
    drivers.retain(Driver::is_hardware);
    if drivers.is_empty() {
        return Err(format!(
            "{PROC_CRYPTO} lists no hardware driver for a cipher; software drivers are used \
             only when named, as in af_alg:cbc-aes-aesni"
        ));
    }
    drivers.sort_by_key(|driver| Reverse(driver.priority));
    let mut best: Vec<Driver> = Vec::new();
    for driver in drivers {
        let taken = |kept: &Driver| {
            kept.algorithm == driver.algorithm && kept.key_lengths == driver.key_lengths
        };
        if !best.iter().any(taken) {
            best.push(driver);
        }
    }
    usable(best)
}

/// A block of `/proc/crypto` about a cipher that Evener knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Driver {
    /// The driver's own name, such as `virtio_crypto_aes_cbc`.
    pub(super) name: String,
    pub(super) interface: Interface,
    /// The kernel's name of its cipher, such as `cbc(aes)`.
    algorithm: String,
    module: String,
    priority: i32,
    is_asynchronous: bool,
    /// The shortest and the longest key in bytes; unknown for AEAD drivers.
    key_lengths: Option<(usize, usize)>,
}

impl Driver {
    pub(super) fn performs(&self, cipher: Cipher) -> bool {
        let (algorithm, interface) = kernel_name(cipher);
        let fits = |(shortest, longest)| (shortest..=longest).contains(&cipher.key_length());
        self.algorithm == algorithm
            && self.interface == interface
            && self.key_lengths.is_none_or(fits)
    }

    /// Returns whether a device does the work. Such drivers are asynchronous, but so are some
    /// wrappers around software, which are recognised by name.
    pub(super) fn is_hardware(&self) -> bool {
        self.is_asynchronous && !kernel::computes_on_the_calling_core(&self.name)
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nature = if self.is_hardware() { "hardware" } else { "software" };
        let Driver { name, algorithm, priority, module, .. } = self;
        write!(f, "{name} ({nature}, {algorithm}, priority {priority}, module {module})")
    }
}

/// AF_ALG's interface to a kind of driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interface {
    Skcipher,
    Aead,
}

impl Interface {
    /// The socket address's type; the module is this with `algif_` before it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Interface::Skcipher => "skcipher",
            Interface::Aead => "aead",
        }
    }
}

/// Keeps the drivers that this process can use; the error is the reason why there are none.
fn usable(drivers: Vec<Driver>) -> Result<Vec<Driver>, String> {
    let mut kept = Vec::new();
    let mut why_not = None;
    for driver in drivers {
        match Transform::bind(driver.interface.name(), &driver.name) {
            Ok(_) => kept.push(driver),
            Err(error) => why_not = Some(reason(&driver, &error)),
        }
    }
    match why_not {
        Some(reason) if kept.is_empty() => Err(reason),
        _ => Ok(kept),
    }
}

/// The reason why this process can't use a driver through AF_ALG, and what to do.
pub(super) fn reason(driver: &Driver, error: &BindError) -> String {
    let Driver { name, interface, .. } = driver;
    let interface = interface.name();
    let (BindError::Socket(system) | BindError::Bind(system)) = error;
    let words = shown_error(system);
    match error {
        BindError::Socket(error) => match error.raw_os_error() {
            Some(libc::EAFNOSUPPORT) => "this kernel has no AF_ALG sockets: load the module \
                af_alg, or use a kernel with CONFIG_CRYPTO_USER_API_SKCIPHER"
                .to_owned(),
            Some(libc::EPERM | libc::EACCES) => format!(
                "this process may not open AF_ALG sockets ({words}): a system call filter, a \
                 security module or a system setting forbids it"
            ),
            _ => format!("an AF_ALG socket could not be opened: {words}"),
        },
        BindError::Bind(error) => match error.raw_os_error() {
            Some(libc::ENOENT) => format!(
                "the kernel lists the driver {name} but AF_ALG does not give it out: the module \
                 algif_{interface} is missing, the device is gone, or the kernel keeps hardware \
                 drivers from AF_ALG as those from 7.2 on do; /dev/crypto may offer it instead"
            ),
            Some(libc::EPERM | libc::EACCES) => {
                format!("this process may not use the driver {name} over AF_ALG ({words})")
            }
            _ => format!("the driver {name} could not be opened: {words}"),
        },
    }
}

fn read_drivers() -> Result<Vec<Driver>, String> {
    match fs::read_to_string(PROC_CRYPTO) {
        Ok(text) => Ok(parse(&text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(format!("there is no {PROC_CRYPTO}: this kernel has no crypto drivers"))
        }
        Err(error) => Err(format!("{PROC_CRYPTO} could not be read: {}", shown_error(&error))),
    }
}

/// The usable ciphers among the blocks of `/proc/crypto`, which empty lines separate.
fn parse(text: &str) -> Vec<Driver> {
    text.split("\n\n").filter_map(parse_block).collect()
}

fn parse_block(block: &str) -> Option<Driver> {
    let field = |name: &str| {
        block.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim_end() == name).then_some(value.trim())
        })
    };
    let number = |name: &str| field(name)?.parse().ok();
    if field("internal") == Some("yes") || field("selftest") == Some("unknown") {
        return None;
    }
    let interface = match field("type")? {
        // Before Linux 4.10 the asynchronous ones were called ablkcipher.
        "skcipher" | "ablkcipher" | "blkcipher" => Interface::Skcipher,
        "aead" => Interface::Aead,
        _ => return None,
    };
    let driver = Driver {
        name: field("driver")?.to_owned(),
        interface,
        algorithm: field("name")?.to_owned(),
        module: field("module").unwrap_or("kernel").to_owned(),
        priority: field("priority")?.parse().ok()?,
        is_asynchronous: field("async") == Some("yes"),
        key_lengths: number("min keysize").zip(number("max keysize")),
    };
    Cipher::ALL.iter().any(|&cipher| driver.performs(cipher)).then_some(driver)
}

fn matching(drivers: &[Driver], name: &str) -> Vec<Driver> {
    drivers.iter().filter(|driver| driver.name == name).cloned().collect()
}

fn drivers_of_algorithm(drivers: &[Driver], algorithm: &str) -> String {
    let of_it = drivers.iter().filter(|driver| driver.algorithm == algorithm);
    of_it.map(|driver| driver.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The kernel's name of a cipher, and the interface that performs it.
fn kernel_name(cipher: Cipher) -> (&'static str, Interface) {
    use Cipher::{BfCbc, Camellia128Cbc, Camellia192Cbc, Camellia256Cbc, DesEde3Cbc};
    let name = match (cipher, cipher.mode()) {
        (Camellia128Cbc | Camellia192Cbc | Camellia256Cbc, _) => "cbc(camellia)",
        (DesEde3Cbc, _) => "cbc(des3_ede)",
        (BfCbc, _) => "cbc(blowfish)",
        (_, Mode::Ecb) => "ecb(aes)",
        (_, Mode::Cbc) => "cbc(aes)",
        (_, Mode::Ctr) => "ctr(aes)",
        (_, Mode::Xts) => "xts(aes)",
        (_, Mode::Gcm) => "gcm(aes)",
        (_, Mode::Poly1305) => "rfc7539(chacha20,poly1305)",
        // A mode that is added to `Mode` must be named here before the kernel's drivers are used
        // for it.
        _ => "",
    };
    let interface = if cipher.is_authenticated() { Interface::Aead } else { Interface::Skcipher };
    (name, interface)
}

const PROC_CRYPTO: &str = "/proc/crypto";

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
name         : cbc(aes)
driver       : virtio_crypto_aes_cbc
module       : virtio_crypto
priority     : 150
refcnt       : 1
selftest     : passed
internal     : no
type         : skcipher
async        : yes
blocksize    : 16
min keysize  : 16
max keysize  : 32
ivsize       : 16

name         : __cbc(aes)
driver       : cryptd(__cbc-aes-aesni)
module       : cryptd
priority     : 450
internal     : yes
type         : skcipher
async        : yes
min keysize  : 16
max keysize  : 32

name         : cbc(aes)
driver       : cbc-aes-aesni
module       : aesni_intel
priority     : 400
internal     : no
type         : skcipher
async        : yes
min keysize  : 16
max keysize  : 32

name         : gcm(aes)
driver       : generic-gcm-aesni
module       : aesni_intel
priority     : 400
internal     : no
type         : aead
async        : yes
ivsize       : 12

name         : sha256
driver       : sha256-generic
module       : kernel
priority     : 100
type         : shash
";

    #[test]
    fn the_kernels_listing_is_read() {
        let drivers = parse(LISTING);
        let names: Vec<_> = drivers.iter().map(|driver| driver.name.as_str()).collect();
        assert_eq!(names, ["virtio_crypto_aes_cbc", "cbc-aes-aesni", "generic-gcm-aesni"]);
        assert!(drivers[0].performs(Cipher::Aes256Cbc) && !drivers[0].performs(Cipher::Aes128Ctr));
        assert!(drivers[2].performs(Cipher::Aes192Gcm));
        assert_eq!(
            drivers[0].to_string(),
            "virtio_crypto_aes_cbc (hardware, cbc(aes), priority 150, module virtio_crypto)"
        );
    }

    #[test]
    fn only_devices_count_as_hardware() {
        let drivers = parse(LISTING);
        assert!(drivers[0].is_hardware());
        assert!(!drivers[1].is_hardware() && !drivers[2].is_hardware());
        let waits = Driver { is_asynchronous: false, ..drivers[0].clone() };
        assert!(!waits.is_hardware());
    }

    #[test]
    fn refusals_are_told_in_words() {
        let driver = &parse(LISTING)[0];
        let told = |error| reason(driver, &error);
        let error = io::Error::from_raw_os_error;
        assert!(told(BindError::Socket(error(libc::EAFNOSUPPORT))).contains("no AF_ALG"));
        assert!(told(BindError::Socket(error(libc::EPERM))).contains("may not open"));
        assert!(told(BindError::Bind(error(libc::ENOENT))).contains("algif_skcipher"));
        let of_a_limit = told(BindError::Bind(error(libc::EMFILE)));
        assert!(of_a_limit.ends_with("could not be opened: Too many open files"), "{of_a_limit}");
    }

    #[test]
    fn nonsense_is_passed_over() {
        assert_eq!(parse(""), []);
        assert_eq!(parse("name\ndriver : x\n\n:::\n\nname : cbc(aes)\ntype : skcipher"), []);
    }
}
