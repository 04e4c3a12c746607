// What all kernels share. The files of this folder are joined to one source (mod.rs lists them),
// which is OpenCL C 1.2, and with clang's NVPTX target becomes PTX.
//
// No branch and no address of global memory depends on a key or on text. Look-ups with secret
// indices go only to local (shared) memory, to tables with LANES copies of each word: lane i of 32
// reads copy i, which lies in bank i of NVIDIA's and AMD's 32 banks. So a look-up takes one pass
// whatever the indices are. (On a device that is really a processor, such as PoCL's, local memory
// is cached memory, and the look-ups' time may tell of the indices: such devices are for tests.)

#ifdef __NVPTX__
#define LOCAL_ID ((uint)__nvvm_read_ptx_sreg_tid_x())
#define GROUP ((uint)__nvvm_read_ptx_sreg_ctaid_x())
#define GROUPS ((uint)__nvvm_read_ptx_sreg_nctaid_x())
#define BARRIER() __syncthreads()
#define PERMUTE(low, high, selector) __nvvm_prmt(low, high, selector)
// The whole product. (The compiler would multiply numbers of 64 bits.)
static ulong wide_product(uint x, uint y) {
    ulong product;
    __asm__("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(x), "r"(y));
    return product;
}
#else
static ulong wide_product(uint x, uint y) {
    return (ulong)x * y;
}
#define LOCAL_ID ((uint)get_local_id(0))
#define GROUP ((uint)get_group_id(0))
#define GROUPS ((uint)get_num_groups(0))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
// Byte i of the result is that of the eight bytes whose number the selector's digit i is.
static uint permuted(uint low, uint high, uint selector) {
    ulong both = (ulong)high << 32 | low;
    uint word = 0;
    for (uint i = 0; i < 4; i++)
        word |= (uint)(both >> (selector >> (4 * i) & 7u) * 8 & 255u) << (8 * i);
    return word;
}
#define PERMUTE(low, high, selector) permuted(low, high, selector)
#endif

// Kernels run in groups of this size, except those with the layout of wide.cl.
#define GROUP_SIZE 256u
#define KERNEL __kernel __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))

// Copies of each word of a table, one for each lane.
#define LANES 32u

// A message, as plan/mod.rs lays it out: 96 bytes.
typedef struct {
    ulong input;      // where its text starts in the input, in bytes
    ulong output;     // where its text starts in the output, in bytes
    ulong length;     // of its text, in bytes
    ulong first;      // units of work before this message, in the launch that the table is for
    ulong aad;        // where its additional data starts in the input, in bytes
    ulong aad_length; // in bytes
    ulong stripes;    // stripes of hashing before this message
    ulong spare;
    uint iv[4];       // the first bytes of the IV, zeros after it
    uint key;         // the key's slot
    uint spares[3];
} Message;

static uint rotate_left(uint x, uint n) {
    return x << n | x >> (-n & 31u);
}

#define BYTE0(x) ((x)&255u)
#define BYTE1(x) ((x) >> 8 & 255u)
#define BYTE2(x) ((x) >> 16 & 255u)
#define BYTE3(x) ((x) >> 24)

static uint swap_bytes(uint x) {
    return PERMUTE(x, 0, 0x0123u);
}

// Defines a function that finds the message to which a unit (a stripe) belongs: the last that
// starts at or before it. `hint` is a guess. Most messages have the same length, so another guess is
// the place in proportion to the unit; from there it gallops.
#define DEFINE_FIND(name, start)                                                                 \
    static uint name(__global const Message *messages, uint count, ulong unit, uint hint) {      \
        if (messages[hint].start <= unit &&                                                      \
            (hint + 1 == count || messages[hint + 1].start > unit))                              \
            return hint;                                                                         \
        ulong last = messages[count - 1].start;                                                  \
        if (last <= unit) return count - 1;                                                      \
        uint place = (uint)((float)unit / (float)last * (float)(count - 1)), step = 1;           \
        uint low = place < count - 1 ? place : count - 1, high = low;                            \
        while (messages[low].start > unit) {                                                     \
            high = low;                                                                          \
            low = low > step ? low - step : 0;                                                   \
            step *= 2;                                                                           \
        }                                                                                        \
        while (high == low || messages[high].start <= unit) {                                    \
            low = high;                                                                          \
            high = count - 1 - low > step ? low + step : count - 1;                              \
            step *= 2;                                                                           \
        }                                                                                        \
        while (high - low > 1) {                                                                 \
            uint middle = low + (high - low) / 2;                                                \
            if (messages[middle].start <= unit) low = middle;                                    \
            else high = middle;                                                                  \
        }                                                                                        \
        return low;                                                                              \
    }
DEFINE_FIND(find_message, first)
DEFINE_FIND(find_message_of_stripe, stripes)

// Bytes in the block that starts `offset` bytes into a text.
static uint bytes_at(ulong length, ulong offset, uint block) {
    return length - offset < block ? (uint)(length - offset) : block;
}

static uint load_word(__global const uchar *from) {
    return from[0] | (uint)from[1] << 8 | (uint)from[2] << 16 | (uint)from[3] << 24;
}

// Up to 16 bytes, followed by zeros.
static uint4 load_block(__global const uchar *from, uint bytes) {
    if (bytes == 16 && ((ulong)from & 15) == 0) return *(__global const uint4 *)from;
    uint word[4] = {0, 0, 0, 0};
    for (uint i = 0; i < 16; i++)
        if (i < bytes) word[i / 4] |= (uint)from[i] << (8 * (i % 4));
    return (uint4)(word[0], word[1], word[2], word[3]);
}

static void store_block(__global uchar *to, uint4 block, uint bytes) {
    if (bytes == 16 && ((ulong)to & 15) == 0) {
        *(__global uint4 *)to = block;
        return;
    }
    uint word[4] = {block.x, block.y, block.z, block.w};
    for (uint i = 0; i < 16; i++)
        if (i < bytes) to[i] = (uchar)(word[i / 4] >> (8 * (i % 4)));
}

// Runs the loop's body for this thread's units. A group takes a tile, `each` units for a thread,
// and 32 threads take `each` times 32 units of it in a row, so that neighbours read neighbouring
// memory.
#define FOR_UNITS(unit, total, each) FOR_UNITS_IN(GROUP_SIZE, unit, total, each)
// The same for groups of another size.
#define FOR_UNITS_IN(size, unit, total, each)                                                    \
    for (ulong tile_ = GROUP; tile_ * (each) * (size) < (total); tile_ += GROUPS)                \
        for (ulong unit = tile_ * (each) * (size) + LOCAL_ID / LANES * LANES * (each) +          \
                          LOCAL_ID % LANES,                                                      \
                   end_ = unit + (each)*LANES;                                                   \
             unit < end_ && unit < (total); unit += LANES)
