//! The kernels that a part of a batch takes, in their order, with their arguments.

use evener_core::{Cipher, Direction, Mode};

use super::device::{Argument, Buffer, DeviceError, Launch};
use super::plan::Plan;
use super::sys::{Buffers, Lane};

/// Whether there are kernels for a cipher.
pub(super) fn performs(cipher: Cipher) -> bool {
    use Cipher::{BfCbc, Camellia128Cbc, Camellia192Cbc, Camellia256Cbc, DesEde3Cbc, Enc};
    let is_aes = !matches!(
        cipher,
        Camellia128Cbc | Camellia192Cbc | Camellia256Cbc | DesEde3Cbc | BfCbc | Enc(_)
    );
    is_aes && matches!(cipher.mode(), Mode::Ecb | Mode::Cbc | Mode::Ctr)
}

/// The kernels of one cipher and direction on one device.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    cipher: Cipher,
    direction: Direction,
    /// Most work-groups at a time.
    groups: u32,
}

impl Steps {
    /// `units` is the device's number of multiprocessors or compute units.
    pub(super) fn new(cipher: Cipher, direction: Direction, units: usize) -> Steps {
        let units = u32::try_from(units.clamp(1, 4_096)).unwrap_or(1);
        Steps { cipher, direction, groups: units * GROUPS_PER_UNIT }
    }

    /// Bytes of a key's slot.
    pub(super) fn slot(cipher: Cipher) -> usize {
        let _ = cipher;
        AES_SLOT
    }

    /// Whether a part's messages have verdicts.
    pub(super) fn gives_verdicts(self) -> bool {
        self.cipher.is_authenticated() && self.direction == Direction::Decrypt
    }

    /// Queues the wiping of the slots of `count` keys, which follow the session's.
    pub(super) fn wipe_keys(self, lane: &mut Lane, count: usize) -> Result<(), DeviceError> {
        let slot = Steps::slot(self.cipher);
        lane.zero_from(lane.buffers().keys, slot, count * slot)
    }

    /// Queues the expansion of `count` keys, which lie at `raw` in the input, into the slots from
    /// `slot` on.
    pub(super) fn expand(
        self,
        lane: &mut Lane,
        raw: usize,
        slot: u32,
        count: u32,
    ) -> Result<(), DeviceError> {
        let Buffers { input, keys, .. } = lane.buffers();
        let parts = if self.cipher.mode() == Mode::Xts { 2 } else { 1 };
        let words = (self.cipher.key_length() / 4) as u32 / parts;
        let arguments = [
            Argument::Buffer(input),
            Argument::U64(raw as u64),
            Argument::U32(words),
            Argument::U32(parts),
            Argument::Buffer(keys),
            Argument::U32(slot),
            Argument::U32(count),
        ];
        self.run(lane, "aes_expand", u64::from(count), &arguments)
    }

    /// Queues what computes a part.
    pub(super) fn compute(self, lane: &mut Lane, plan: &Plan) -> Result<(), DeviceError> {
        let Buffers { input, output, keys, .. } = lane.buffers();
        let messages = plan.items().len() as u32;
        let rounds = (self.cipher.key_length() / 4) as u32 + 6;
        let kernel = match (self.cipher.mode(), self.direction) {
            (Mode::Ecb, Direction::Encrypt) => "aes_ecb_encrypt",
            (Mode::Ecb, Direction::Decrypt) => "aes_ecb_decrypt",
            (Mode::Cbc, Direction::Encrypt) => "aes_cbc_encrypt",
            (Mode::Cbc, Direction::Decrypt) => "aes_cbc_decrypt",
            _ => "aes_ctr",
        };
        let each = self.each(plan.units());
        let arguments = self.with_text(input, output, keys, rounds, messages, plan.units(), each);
        self.run_each(lane, kernel, plan.units(), each, &arguments)
    }

    #[allow(clippy::too_many_arguments, reason = "they are the kernel's")]
    fn with_text(
        self,
        input: Buffer,
        output: Buffer,
        keys: Buffer,
        rounds: u32,
        messages: u32,
        units: u64,
        each: u32,
    ) -> [Argument; 7] {
        [
            Argument::Buffer(input),
            Argument::Buffer(output),
            Argument::Buffer(keys),
            Argument::U32(rounds),
            Argument::U32(messages),
            Argument::U64(units),
            Argument::U32(each),
        ]
    }

    /// Units that a thread does in a row: more than one only when there is enough for all.
    fn each(self, units: u64) -> u32 {
        let full = u64::from(self.groups) * u64::from(GROUP_SIZE);
        (units / full).clamp(1, MOST_EACH) as u32
    }

    fn run(
        self,
        lane: &mut Lane,
        kernel: &'static str,
        units: u64,
        arguments: &[Argument],
    ) -> Result<(), DeviceError> {
        self.run_each(lane, kernel, units, 1, arguments)
    }

    fn run_each(
        self,
        lane: &mut Lane,
        kernel: &'static str,
        units: u64,
        each: u32,
        arguments: &[Argument],
    ) -> Result<(), DeviceError> {
        if units == 0 {
            return Ok(());
        }
        let tiles = units.div_ceil(u64::from(each) * u64::from(GROUP_SIZE));
        let groups = tiles.min(u64::from(self.groups)) as u32;
        let (group_size, dynamic_shared) = (GROUP_SIZE, 0);
        lane.launch(&Launch { kernel, groups, group_size, dynamic_shared, arguments })
    }
}

/// Threads of a group (`GROUP_SIZE` in `kernels/common.cl`).
const GROUP_SIZE: u32 = 256;
/// As many groups fit an NVIDIA multiprocessor of compute capability 9.0 by their threads.
const GROUPS_PER_UNIT: u32 = 8;
const MOST_EACH: u64 = 8;
/// Bytes of `AES_SLOT` in `kernels/aes.cl`.
const AES_SLOT: usize = 192 * 4;
