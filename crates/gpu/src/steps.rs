//! The kernels for a part of a batch, in their order, with their arguments.

use evener_core::{Cipher, Direction, Mode};

use super::device::Argument::{Buffer, U32, U64};
use super::device::{Argument, DeviceError, Launch, Properties};
use super::kernels::{self, Form};
use super::plan::Plan;
use super::sys::{Buffers, Channel};

/// The kernels of one cipher and direction on one device.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    cipher: Cipher,
    direction: Direction,
    family: Family,
    /// The device's multiprocessors or compute units.
    units: u32,
    /// True if AES's tables are the wide ones.
    takes_wide: bool,
}

/// Ciphers that share kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Aes,
    ChaCha,
    Des,
    Camellia,
}

impl Family {
    fn of(cipher: Cipher) -> Option<Family> {
        match (cipher, cipher.mode()) {
            // Blowfish's look-ups depend on the key, and would be in memory that other programs
            // could time.
            (Cipher::Enc(_) | Cipher::BfCbc, _) => None,
            (Cipher::ChaCha20Poly1305, _) => Some(Family::ChaCha),
            (Cipher::DesEde3Cbc, _) => Some(Family::Des),
            (Cipher::Camellia128Cbc | Cipher::Camellia192Cbc | Cipher::Camellia256Cbc, _) => {
                Some(Family::Camellia)
            }
            (_, Mode::Ecb | Mode::Cbc | Mode::Ctr | Mode::Gcm | Mode::Xts) => Some(Family::Aes),
            _ => None,
        }
    }

    /// Bytes of a key's slot in the kernels.
    fn slot(self) -> usize {
        let words = match self {
            Family::Aes => 192,
            Family::ChaCha => 8,
            Family::Des => 96,
            Family::Camellia => 136,
        };
        words * 4
    }
}

/// Returns whether there are kernels for a cipher.
pub(super) fn performs(cipher: Cipher) -> bool {
    Family::of(cipher).is_some()
}

impl Steps {
    pub(super) fn new(cipher: Cipher, direction: Direction, device: &Properties) -> Steps {
        let family = Family::of(cipher).unwrap_or(Family::Aes);
        let takes_wide = kernels::takes_wide_tables(device);
        Steps { cipher, direction, family, units: device.usable_units(), takes_wide }
    }

    /// Bytes of a key's slot.
    pub(super) fn slot(self) -> usize {
        self.family.slot()
    }

    /// Returns whether a part's messages have verdicts.
    pub(super) fn gives_verdicts(self) -> bool {
        self.cipher.is_authenticated() && self.opens()
    }

    fn opens(self) -> bool {
        self.direction == Direction::Decrypt
    }

    /// The rounds of AES, or the groups of six rounds of Camellia. The other ciphers have a fixed
    /// number.
    fn rounds(self) -> u32 {
        match self.family {
            Family::Camellia => 3 + u32::from(self.key_words() > 4),
            _ => self.key_words() + 6,
        }
    }

    /// The words of a key; for XTS, of one of the two.
    fn key_words(self) -> u32 {
        (self.cipher.key_length() / 4) as u32 / self.keys_in_one()
    }

    fn keys_in_one(self) -> u32 {
        if self.cipher.mode() == Mode::Xts { 2 } else { 1 }
    }

    /// Makes all kernels that a part may need.
    pub(super) fn prepare_kernels(self, channel: &mut Channel) -> Result<(), DeviceError> {
        let others: &[&str] = match (self.family, self.cipher.mode()) {
            (Family::Aes, Mode::Gcm) => {
                &["aes_expand", "gcm_expand", "gcm_stripes", "gcm_fold", "gcm_tags"]
            }
            (Family::Aes, Mode::Xts) => &["aes_expand", "xts_tweaks"],
            (Family::Aes, _) => &["aes_expand"],
            (Family::Camellia, _) => &["camellia_expand"],
            (Family::Des, _) => &["des_expand"],
            (Family::ChaCha, _) => {
                &["chacha_expand", "poly_expand", "poly_stripes", "poly_fold", "poly_tags"]
            }
        };
        let slices = self.family == Family::Des && self.opens();
        let crypting =
            [self.crypting(false)].into_iter().chain(slices.then(|| self.crypting(true)));
        for kernel in others.iter().copied().chain(crypting) {
            let Form { name, dynamic_shared, .. } = kernels::form(kernel, self.takes_wide);
            channel.prepare(name, dynamic_shared)?;
        }
        Ok(())
    }

    /// Queues the expansion of `count` keys, at `raw` in the input, into the slots from `slot` on.
    pub(super) fn expand(
        self,
        channel: &mut Channel,
        raw: usize,
        slot: u32,
        count: u32,
    ) -> Result<(), DeviceError> {
        let Buffers { input, keys, .. } = channel.buffers();
        let (input, keys, raw) = (Buffer(input), Buffer(keys), U64(raw as u64));
        let (slot, count, threads) = (U32(slot), U32(count), u64::from(count));
        let (words, parts) = (U32(self.key_words()), U32(self.keys_in_one()));
        let plain = [input, raw, keys, slot, count];
        match self.family {
            Family::Aes => {
                let arguments = [input, raw, words, parts, keys, slot, count];
                self.run(channel, "aes_expand", threads, &arguments)?;
            }
            Family::Camellia => {
                let arguments = [input, raw, words, keys, slot, count];
                self.run(channel, "camellia_expand", threads, &arguments)?;
            }
            Family::ChaCha => self.run(channel, "chacha_expand", threads, &plain)?,
            Family::Des => self.run(channel, "des_expand", threads, &plain)?,
        }
        if self.cipher.mode() == Mode::Gcm {
            let arguments = [keys, U32(self.rounds()), slot, count];
            self.run(channel, "gcm_expand", threads, &arguments)?;
        }
        Ok(())
    }

    /// Queues the wiping of the slots of `count` keys, which follow the session's.
    pub(super) fn wipe_keys(self, channel: &mut Channel, count: usize) -> Result<(), DeviceError> {
        let slot = self.slot();
        channel.zero_from(channel.buffers().keys, slot, count * slot)
    }

    /// Queues the kernels that compute a part.
    pub(super) fn compute(self, channel: &mut Channel, plan: &Plan) -> Result<(), DeviceError> {
        match (self.cipher.mode(), self.opens()) {
            (Mode::Gcm | Mode::Poly1305, false) => {
                self.prepare(channel, plan)?;
                self.crypt(channel, plan)?;
                self.authenticate(channel, plan)
            }
            (Mode::Gcm | Mode::Poly1305, true) => {
                self.prepare(channel, plan)?;
                self.authenticate(channel, plan)?;
                self.crypt(channel, plan)
            }
            (Mode::Xts, _) => {
                self.prepare(channel, plan)?;
                self.crypt(channel, plan)
            }
            _ => self.crypt(channel, plan),
        }
    }

    /// Queues the kernels that run before the texts are read: for a tweak, or a one-time key.
    fn prepare(self, channel: &mut Channel, plan: &Plan) -> Result<(), DeviceError> {
        let Buffers { input, keys, scratch, .. } = channel.buffers();
        let (input, keys, scratch) = (Buffer(input), Buffer(keys), Buffer(scratch));
        let (count, rounds) = (plan.items().len(), U32(self.rounds()));
        let messages = U32(count as u32);
        match self.cipher.mode() {
            Mode::Xts => {
                let arguments = [input, keys, rounds, scratch, messages];
                self.run(channel, "xts_tweaks", count as u64, &arguments)
            }
            Mode::Poly1305 => {
                self.run(channel, "poly_expand", count as u64, &[input, keys, scratch, messages])
            }
            _ => Ok(()),
        }
    }

    /// Queues the kernel that reads and writes the texts.
    fn crypt(self, channel: &mut Channel, plan: &Plan) -> Result<(), DeviceError> {
        let Buffers { input, output, keys, scratch } = channel.buffers();
        let (input, output, keys) = (Buffer(input), Buffer(output), Buffer(keys));
        let (messages, rounds) = (U32(plan.items().len() as u32), U32(self.rounds()));
        let form = kernels::form(self.crypting(plan.is_sliced()), self.takes_wide);
        let each = form.each(self.units, plan.units());
        let (units, opens) = (U64(plan.units()), U32(u32::from(self.opens())));
        let plain = [input, output, keys, rounds, messages, units, U32(each)];
        let tweaked = [input, output, keys, rounds, Buffer(scratch), messages, units, U32(each)];
        let gcm = [input, output, keys, rounds, messages, units, U32(each), opens];
        let chacha = [input, output, keys, messages, units, U32(each), opens];
        let arguments: &[Argument] = match self.cipher.mode() {
            Mode::Gcm => &gcm,
            Mode::Poly1305 => &chacha,
            Mode::Xts => &tweaked,
            _ => &plain,
        };
        self.run_each(channel, form, plan.units(), each, arguments)
    }

    /// The kernel that reads and writes the texts.
    fn crypting(self, is_sliced: bool) -> &'static str {
        if is_sliced {
            return "des3_cbc_decrypt_sliced";
        }
        match (self.cipher.mode(), self.opens()) {
            (Mode::Gcm, _) => "gcm_crypt",
            (Mode::Poly1305, _) => "chacha_crypt",
            (Mode::Xts, false) => "xts_encrypt",
            (Mode::Xts, true) => "xts_decrypt",
            (Mode::Ecb, false) => "aes_ecb_encrypt",
            (Mode::Ecb, true) => "aes_ecb_decrypt",
            (Mode::Cbc, opens) => self.cbc(opens),
            _ => "aes_ctr",
        }
    }

    fn cbc(self, opens: bool) -> &'static str {
        match (self.family, opens) {
            (Family::Des, false) => "des3_cbc_encrypt",
            (Family::Des, true) => "des3_cbc_decrypt",
            (Family::Camellia, false) => "camellia_cbc_encrypt",
            (Family::Camellia, true) => "camellia_cbc_decrypt",
            (_, false) => "aes_cbc_encrypt",
            (_, true) => "aes_cbc_decrypt",
        }
    }

    /// Queues the kernels that make tags or verdicts.
    fn authenticate(self, channel: &mut Channel, plan: &Plan) -> Result<(), DeviceError> {
        let Buffers { input, output, keys, scratch } = channel.buffers();
        let (input, output, keys) = (Buffer(input), Buffer(output), Buffer(keys));
        let (scratch, count) = (Buffer(scratch), plan.items().len());
        let (messages, rounds) = (U32(count as u32), U32(self.rounds()));
        let (stripes, opens) = (plan.stripes(), U32(u32::from(self.opens())));
        if self.family == Family::ChaCha {
            let arguments = [input, output, scratch, messages, U64(stripes), opens];
            self.run(channel, "poly_stripes", stripes, &arguments)?;
            for (shift, threads) in plan.folds() {
                let arguments = [input, scratch, messages, U32(shift), U64(threads)];
                self.run(channel, "poly_fold", threads, &arguments)?;
            }
            let arguments = [input, output, scratch, messages, opens];
            return self.run(channel, "poly_tags", count as u64, &arguments);
        }
        let arguments = [input, output, keys, scratch, messages, U64(stripes), opens];
        self.run(channel, "gcm_stripes", stripes, &arguments)?;
        for (shift, threads) in plan.folds() {
            let arguments = [input, keys, scratch, messages, U32(shift), U64(threads)];
            self.run(channel, "gcm_fold", threads, &arguments)?;
        }
        let arguments = [input, output, keys, rounds, scratch, messages, opens];
        self.run(channel, "gcm_tags", count as u64, &arguments)
    }

    fn run(
        self,
        channel: &mut Channel,
        kernel: &'static str,
        units: u64,
        arguments: &[Argument],
    ) -> Result<(), DeviceError> {
        self.run_each(channel, kernels::form(kernel, self.takes_wide), units, 1, arguments)
    }

    fn run_each(
        self,
        channel: &mut Channel,
        form: Form,
        units: u64,
        each: u32,
        arguments: &[Argument],
    ) -> Result<(), DeviceError> {
        if units == 0 {
            return Ok(());
        }
        let Form { name: kernel, group_size, dynamic_shared, .. } = form;
        let groups = form.groups_for(self.units, units, each);
        channel.launch(&Launch { kernel, groups, group_size, dynamic_shared, arguments })
    }
}
