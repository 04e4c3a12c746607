// The layout of AES's tables for devices with 128 KiB of shared memory for a group: four tables in
// LANES copies.
//
// A row of 256 bytes has the copies of a word of the first table, and then those of the second; so
// of the third and fourth, 64 KiB behind. The address of a look-up is (apart from the table's own)
// the byte that is looked up, times 256, plus the lane, times 4: one byte permutation makes it.
//
// One group of so many threads occupies a multiprocessor.

#undef LAYOUT
#undef LAYOUT_KERNEL
#undef LAYOUT_GROUP
#undef LAYOUT_PARAMETER
#undef FILL_TABLES
#undef LOOK

#define LAYOUT(name) name##_wide
#define LAYOUT_GROUP 1024u
#define LAYOUT_KERNEL __kernel __attribute__((reqd_work_group_size(LAYOUT_GROUP, 1, 1)))

typedef struct {
    __local const uchar *start;
    uint lane; // times 4
} Tables_wide;

static Tables_wide fill_wide_tables(__local uint *shared, bool opens) {
    for (uint i = LOCAL_ID; i < 256 * LANES; i += LAYOUT_GROUP) {
        uint word = table_entry(i / LANES, opens);
        __local uint *to = shared + i / LANES * 2 * LANES + i % LANES;
        to[0] = word;
        to[LANES] = rotate_left(word, 8);
        to[512 * LANES] = rotate_left(word, 16);
        to[513 * LANES] = rotate_left(word, 24);
    }
    BARRIER();
    Tables_wide tables = {(__local const uchar *)shared, LOCAL_ID % LANES * 4};
    return tables;
}

// The memory's size is given when a kernel is started: CUDA has more than 48 KiB only so.
#ifdef __NVPTX__
__asm__(".extern .shared .align 256 .b8 wide_shared[];");
static __local uint *wide_shared(void) {
    uint address;
    __asm__("mov.u32 %0, wide_shared;" : "=r"(address));
    return (__local uint *)(ulong)address;
}
#define LAYOUT_PARAMETER
#define FILL_TABLES(opens) Tables_wide tables = fill_wide_tables(wide_shared(), opens);
#else
#define LAYOUT_PARAMETER , __local uint *shared
#define FILL_TABLES(opens) Tables_wide tables = fill_wide_tables(shared, opens);
#endif

#define LOOK(word, byte, turns)                                                                  \
    (*(__local const uint *)(tables.start + ((turns) >> 1) * 65536u + ((turns)&1u) * 128u +      \
                             PERMUTE(word, tables.lane, 0x7604u | (byte) << 4)))
