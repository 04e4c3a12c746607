// The layout of AES's tables for every device: one table in LANES copies, 32 KiB. It is used with
// four rotations.

#define LAYOUT(name) name
#define LAYOUT_KERNEL KERNEL
#define LAYOUT_GROUP GROUP_SIZE
#define LAYOUT_PARAMETER

typedef __local const uint *Tables;

static Tables fill_tables(__local uint *shared, bool opens) {
    for (uint i = LOCAL_ID; i < 256 * LANES; i += GROUP_SIZE)
        shared[i] = table_entry(i / LANES, opens);
    BARRIER();
    return shared + LOCAL_ID % LANES;
}

// Defines `tables`: of encryption, or (`opens`) of decryption.
#define FILL_TABLES(opens)             \
    __local uint shared[256 * LANES];  \
    Tables tables = fill_tables(shared, opens);

// The word of the table that is rotated by `turns` bytes, for a byte of a word.
#define LOOK(word, byte, turns) \
    rotate_left(tables[((word) >> (8 * (byte)) & 255u) * LANES], 8 * (turns))
