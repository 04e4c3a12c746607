//! The features of an ARM processor that help with ciphers, as Linux reports them (`AT_HWCAP` and
//! `AT_HWCAP2`).

/// A feature: its name, whether `AT_HWCAP2` has it, and its bit there (`asm/hwcap.h`).
type Feature = (&'static str, bool, u32);

const AARCH64: &[Feature] =
    &[("NEON", false, 1), ("AES", false, 3), ("PMULL", false, 4), ("SHA3", false, 17)];
const ARM: &[Feature] = &[("NEON", false, 12), ("AES", true, 0), ("PMULL", true, 1)];

/// The features of this processor, such as `NEON, AES, PMULL`; `None` if it is not an ARM
/// processor.
pub(crate) fn of_this_processor() -> Option<String> {
    let known = match std::env::consts::ARCH {
        "aarch64" => AARCH64,
        "arm" => ARM,
        _ => return None,
    };
    let (first, second) = rustix::param::linux_hwcap();
    Some(names(known, first, second))
}

fn names(known: &[Feature], first: usize, second: usize) -> String {
    let has = |&&(_, is_second, bit): &&Feature| {
        let word = if is_second { second } else { first };
        word >> bit & 1 == 1
    };
    let found: Vec<_> = known.iter().filter(has).map(|(name, ..)| *name).collect();
    if found.is_empty() { "nothing for ciphers".to_owned() } else { found.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_linux() {
        // A Raspberry Pi 5 (Cortex-A76), a Raspberry Pi 4 (A72), and a BeagleBone (Cortex-A8).
        assert_eq!(names(AARCH64, 0x11_9FFF, 0), "NEON, AES, PMULL");
        assert_eq!(names(AARCH64, 0x887, 0), "NEON");
        assert_eq!(names(ARM, 0xB0D7, 0), "NEON");
        assert_eq!(names(ARM, 0x3F_B0D6, 0x1F), "NEON, AES, PMULL");
        assert_eq!(names(ARM, 0, 0), "nothing for ciphers");
    }

    #[test]
    fn only_arm_processors_have_them() {
        let is_arm = cfg!(any(target_arch = "arm", target_arch = "aarch64"));
        assert_eq!(of_this_processor().is_some(), is_arm);
    }
}
