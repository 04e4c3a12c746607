//! The order of paths, borders, and padding.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::*;
use super::samples::path;

proptest! {
    #[test]
    fn paths_are_ordered_by_directory_then_name(one in path(0), other in path(0)) {
        let expected = split(&one).cmp(&split(&other));
        let (one, other) = (EntryPath::of(&one), EntryPath::of(&other));
        prop_assert_eq!(one.cmp(&other), expected);
        prop_assert_eq!(EntryPath::of(&one.whole()), one);
    }

    #[test]
    fn padding_is_padme(bytes in any::<u64>(), shift in 0..64_u32, floor in 0..1_u64 << 26) {
        let bytes = bytes >> shift >> 1;
        let length = Padding { floor: 0 }.length(bytes);
        prop_assert_eq!(length, padme(bytes));
        prop_assert!(u128::from(length) * 100 <= u128::from(bytes) * 112);
        let next = Padding { floor: 0 }.length(bytes + 1);
        prop_assert!(next >= length, "{next} < {length}");
        prop_assert_eq!(Padding { floor }.length(bytes), padme(bytes.max(floor)));
    }
}

/// The directory's components, and the name.
fn split(path: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut components: Vec<_> = path.split(|byte| *byte == b'/').collect();
    let name = components.pop().unwrap();
    (components, name)
}

/// The paper's formula (algorithm 1), in numbers of 128 bits.
fn padme(length: u64) -> u64 {
    if length < 2 {
        return length;
    }
    let length = u128::from(length);
    let exponent = 127 - length.leading_zeros();
    let significant = 32 - exponent.leading_zeros();
    let step = 1 << (exponent - significant);
    (length.div_ceil(step) * step) as u64
}

#[test]
fn lengths_at_the_ends_are_padded() {
    let padding = Padding { floor: 0 };
    let padded = [0, 1, 2, 3, 8, 9, 17, 1000, 1025, u64::MAX].map(|it| padding.length(it));
    assert_eq!(padded, [0, 1, 2, 3, 8, 10, 18, 1024, 1088, u64::MAX]);
    assert_eq!(Padding { floor: 4096 }.length(1), 4096);
}

#[test]
fn the_children_of_a_directory_lie_together() {
    let paths = ["", "a", "a-b", "b", "a/z", "a/b/c", "a/b!/c", "a-b/c", "b/a"];
    let paths = paths.map(|path| EntryPath::of(path.as_bytes()));
    assert!(paths.is_sorted_by(|one, next| one < next));
}

#[test]
fn blocks_have_512_entries_on_average() {
    let border = Border([7; 16]);
    let paths = (0..500_000).map(|number| EntryPath::of(format!("d/{number}").as_bytes()));
    let begin: BTreeSet<_> = paths.filter(|path| border.begins_block(path)).collect();
    // Four standard deviations around 977.
    assert!((850..1100).contains(&begin.len()), "{} blocks", begin.len());
    assert!(begin.iter().filter(|path| border.begins_node(path)).count() < 10);
    let other = Border([8; 16]);
    assert!(begin.iter().filter(|path| other.begins_block(path)).count() < 20, "it is no secret");
}

#[test]
fn borders_are_the_known_ones() {
    // From Python's hashlib: SHA-256(16 bytes of 7 ‖ path).
    let begins = |path: &str| {
        let (border, path) = (Border([7; 16]), EntryPath::of(path.as_bytes()));
        (border.begins_block(&path), border.begins_node(&path))
    };
    assert_eq!(begins("some/directory/335"), (true, false));
    assert_eq!(begins("some/directory/356927"), (true, true));
    assert_eq!(begins("567"), (true, false));
    assert_eq!(begins("some/directory/0"), (false, false));
}
