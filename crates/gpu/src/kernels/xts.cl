// AES-XTS (IEEE 1619, NIST SP 800-38E), with ciphertext stealing.

// The tweak as a polynomial: bit i of the little-endian number is the coefficient of x^i.
typedef struct {
    ulong low, high;
} Tweak;

// x^(2^k) for k from 7 to 20. (A message has at most 2^20 blocks.)
__constant const ulong XTS_POWERS[14][2] = {
    {0x0000000000000087ul, 0x0000000000000000ul},
    {0x0000000000004015ul, 0x0000000000000000ul},
    {0x0000000010000111ul, 0x0000000000000000ul},
    {0x0100000000010101ul, 0x0000000000000000ul},
    {0x0000000100010001ul, 0x0001000000000000ul},
    {0x0000000100000001ul, 0x0000008700000001ul},
    {0x0000000000000086ul, 0x000000000021caeaul},
    {0x00021cae93f7cfc8ul, 0x0000000000000000ul},
    {0x4105551550555040ul, 0x0000000401504454ul},
    {0x118fe6196978ef70ul, 0x1001001111110961ul},
    {0x93c692c775187987ul, 0x860140d2541486c6ul},
    {0xea618e11df04ea1eul, 0x8b69509b312d6501ul},
    {0xcad0352d30b311b4ul, 0xb715594eb7756558ul},
    {0x54e1a6f865fe82b9ul, 0x01afdeffd35e5fdeul},
};

// Reduces 256 bits with x^128 = x^7 + x^2 + x + 1.
static Tweak tweak_reduced(ulong *z) {
    z[2] ^= z[3] >> 63 ^ z[3] >> 62 ^ z[3] >> 57;
    z[1] ^= z[3] ^ z[3] << 1 ^ z[3] << 2 ^ z[3] << 7;
    z[1] ^= z[2] >> 63 ^ z[2] >> 62 ^ z[2] >> 57;
    z[0] ^= z[2] ^ z[2] << 1 ^ z[2] << 2 ^ z[2] << 7;
    Tweak t = {z[0], z[1]};
    return t;
}

static Tweak tweak_times_power(Tweak t, uint power) {
    ulong z[4];
    carryless_128(t.low, t.high, XTS_POWERS[power - 7][0], XTS_POWERS[power - 7][1], z);
    return tweak_reduced(z);
}

// Times x^steps. The number of steps is no secret.
static Tweak tweak_advanced(Tweak t, ulong steps) {
    uint few = (uint)steps & 63u;
    ulong low = t.low, high = t.high, over = 0;
    if (few > 0) {
        over = high >> (64 - few);
        high = high << few | low >> (64 - few);
        low <<= few;
    }
    ulong z[4] = {low, high, over, 0};
    if (steps & 64) {
        z[3] = over;
        z[2] = high;
        z[1] = low;
        z[0] = 0;
    }
    t = tweak_reduced(z);
#pragma nounroll
    for (uint power = 7; power <= 20; power++)
        if (steps >> power & 1) t = tweak_times_power(t, power);
    return t;
}

static Tweak tweak_doubled(Tweak t) {
    Tweak d = {t.low << 1 ^ (0 - (t.high >> 63) & 0x87), t.high << 1 | t.low >> 63};
    return d;
}

static uint4 tweak_block(Tweak t) {
    return (uint4)((uint)t.low, (uint)(t.low >> 32), (uint)t.high, (uint)(t.high >> 32));
}

// A thread a message: the tweak of its first block, to scratch.
KERNEL void xts_tweaks(__global const uchar *input, __global const uint *keys, uint rounds,
                       __global uint *scratch, uint messages) {
    FILL_TABLES(false)
    __global const Message *message = (__global const Message *)input;
    FOR_UNITS(m, messages, 1) {
        __global const uint *key = keys + message[m].key * AES_SLOT + AES_SECOND;
        uint4 tweak = *(__global const uint4 *)message[m].iv;
        tweak = aes_encrypt(tweak, key, rounds, tables);
        *(__global uint4 *)(scratch + m * MESSAGE_WORDS) = tweak;
    }
}

// The tweak of a message's block; `last` is that of the unit before, which lies LANES blocks
// earlier if `follows`.
__attribute__((always_inline))
static Tweak tweak_of(__global const uint *first, ulong number, bool follows, Tweak last) {
    if (follows) {
        ulong z[4] = {last.low << LANES, last.high << LANES | last.low >> (64 - LANES),
                      last.high >> (64 - LANES), 0};
        return tweak_reduced(z);
    }
    Tweak t = {first[0] | (ulong)first[1] << 32, first[2] | (ulong)first[3] << 32};
    return tweak_advanced(t, number);
}

// The first `bytes` bytes of one block, then those of another.
static uint4 joined(uint4 start, uint4 end, uint bytes) {
    uint mask[4];
    for (uint i = 0; i < 4; i++) {
        uint here = bytes > 4 * i ? bytes - 4 * i : 0;
        mask[i] = here >= 4 ? 0xffffffffu : (1u << (8 * here)) - 1;
    }
    uint4 kept = (uint4)(mask[0], mask[1], mask[2], mask[3]);
    return (start & kept) | (end & ~kept);
}
