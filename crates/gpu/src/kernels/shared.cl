// What shared memory gives at most, for benchmarks: every thread follows CHAINS chains of look-ups and
// does nothing else. The table has 256 words in LANES copies, as AES has one in the narrow layout, and
// each word of it is the place of the next one, in bytes.

#define CHAINS 8u

// All 256 words come in turn.
#define NEXT_WORD(number) (((number) * 77u + 13u) & 255u)

#ifdef __NVPTX__
static ulong unit_clock(void) {
    ulong clock;
    __asm__ volatile("mov.u64 %0, %%clock64;" : "=l"(clock) : : "memory");
    return clock;
}
static ulong unit_number(void) {
    uint number;
    __asm__ volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}
#else
// OpenCL has neither.
#define unit_clock() 0ul
#define unit_number() 0ul
#endif

// A group writes its unit's clock before and after, and which unit that was; behind those of all groups
// each thread writes the sum of the places where its chains end.
KERNEL void shared_chains(__global uchar *output, uint steps) {
    __local uint shared[256 * LANES];
    for (uint i = LOCAL_ID; i < 256 * LANES; i += GROUP_SIZE)
        shared[i] = (NEXT_WORD(i / LANES) * LANES + i % LANES) * 4;
    BARRIER();
    uint place[CHAINS];
    for (uint chain = 0; chain < CHAINS; chain++)
        place[chain] = (((LOCAL_ID * 7 + chain * 31) & 255u) * LANES + LOCAL_ID % LANES) * 4;
    ulong begun = unit_clock();
    for (uint step = 0; step < steps; step++)
        for (uint chain = 0; chain < CHAINS; chain++)
            place[chain] = *(__local const uint *)((__local const uchar *)shared + place[chain]);
    uint sum = 0;
    for (uint chain = 0; chain < CHAINS; chain++) sum += place[chain];
    ((__global uint *)(output + GROUPS * 24))[GROUP * GROUP_SIZE + LOCAL_ID] = sum;
    BARRIER();
    if (LOCAL_ID != 0) return;
    __global ulong *times = (__global ulong *)(output + GROUP * 24);
    times[0] = begun;
    times[1] = unit_clock();
    times[2] = unit_number();
}
