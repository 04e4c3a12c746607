// Camellia (RFC 3713) in CBC.
//
// The S-boxes 2 to 4 are the first with rotated bits. Four entries share a word of its table, which
// has 8 KiB in LANES copies.

__constant const uchar CAMELLIA_SBOX[256] = {
    112, 130, 44, 236, 179, 39, 192, 229, 228, 133, 87, 53, 234, 12, 174, 65,
    35, 239, 107, 147, 69, 25, 165, 33, 237, 14, 79, 78, 29, 101, 146, 189,
    134, 184, 175, 143, 124, 235, 31, 206, 62, 48, 220, 95, 94, 197, 11, 26,
    166, 225, 57, 202, 213, 71, 93, 61, 217, 1, 90, 214, 81, 86, 108, 77,
    139, 13, 154, 102, 251, 204, 176, 45, 116, 18, 43, 32, 240, 177, 132, 153,
    223, 76, 203, 194, 52, 126, 118, 5, 109, 183, 169, 49, 209, 23, 4, 215,
    20, 88, 58, 97, 222, 27, 17, 28, 50, 15, 156, 22, 83, 24, 242, 34,
    254, 68, 207, 178, 195, 181, 122, 145, 36, 8, 232, 168, 96, 252, 105, 80,
    170, 208, 160, 125, 161, 137, 98, 151, 84, 91, 30, 149, 224, 255, 100, 210,
    16, 196, 0, 72, 163, 247, 117, 219, 138, 3, 230, 218, 9, 63, 221, 148,
    135, 92, 131, 2, 205, 74, 144, 51, 115, 103, 246, 243, 157, 127, 191, 226,
    82, 155, 216, 38, 200, 55, 198, 59, 129, 150, 111, 75, 19, 190, 99, 46,
    233, 121, 167, 140, 159, 110, 188, 142, 41, 245, 249, 182, 47, 253, 180, 89,
    120, 152, 6, 106, 231, 70, 113, 186, 212, 37, 171, 66, 136, 162, 141, 250,
    114, 7, 185, 85, 248, 238, 172, 10, 54, 73, 42, 104, 60, 56, 241, 164,
    64, 40, 211, 123, 187, 201, 67, 193, 21, 227, 173, 244, 119, 199, 128, 158,
};

// The subkeys in the order of use for keys of 16 bytes: the half of KL (0, 1), KR (2, 3), KA (4, 5)
// or KB (6, 7), and by how much it is rotated.
__constant const uchar CAMELLIA_ORDER_128[26][2] = {
    {0, 0}, {1, 0}, {4, 0}, {5, 0}, {0, 15}, {1, 15}, {4, 15}, {5, 15},
    {4, 30}, {5, 30}, {0, 45}, {1, 45}, {4, 45}, {1, 60}, {4, 60}, {5, 60},
    {0, 77}, {1, 77}, {0, 94}, {1, 94}, {4, 94}, {5, 94}, {0, 111}, {1, 111},
    {4, 111}, {5, 111},
};

// For longer keys.
__constant const uchar CAMELLIA_ORDER_256[34][2] = {
    {0, 0}, {1, 0}, {6, 0}, {7, 0}, {2, 15}, {3, 15}, {4, 15}, {5, 15},
    {2, 30}, {3, 30}, {6, 30}, {7, 30}, {0, 45}, {1, 45}, {4, 45}, {5, 45},
    {0, 60}, {1, 60}, {2, 60}, {3, 60}, {6, 60}, {7, 60}, {0, 77}, {1, 77},
    {4, 77}, {5, 77}, {2, 94}, {3, 94}, {4, 94}, {5, 94}, {0, 111}, {1, 111},
    {6, 111}, {7, 111},
};

__constant const ulong CAMELLIA_SIGMA[6] = {
    0xa09e667f3bcc908bul, 0xb67ae8584caa73b2ul, 0xc6ef372fe94f82beul,
    0x54ff53a5f1d36f1cul, 0x10e527fade682d1dul, 0xb05688c2b3e6c1fdul,
};

// Words in a slot: 34 subkeys of 64 bits for encryption, and 34 for decryption.
#define CAMELLIA_SLOT 136u
#define CAMELLIA_SUBKEYS 34u

static void fill_camellia_table(__local uint *table) {
    for (uint i = LOCAL_ID; i < 64 * LANES; i += GROUP_SIZE) {
        uint x = i / LANES * 4;
        table[i] = CAMELLIA_SBOX[x] | (uint)CAMELLIA_SBOX[x + 1] << 8 |
                   (uint)CAMELLIA_SBOX[x + 2] << 16 | (uint)CAMELLIA_SBOX[x + 3] << 24;
    }
    BARRIER();
}

#define CAMELLIA_S1(x) (table[((x) >> 2) * LANES] >> (((x)&3u) * 8) & 255u)

static uint rotate_byte(uint x, uint n) {
    return (x << n | x >> (8 - n)) & 255u;
}

static ulong camellia_f(ulong x, ulong key, __local const uint *table) {
    x ^= key;
    uint left = (uint)(x >> 32), right = (uint)x;
    uint u = CAMELLIA_S1(BYTE3(left)) << 24 | rotate_byte(CAMELLIA_S1(BYTE2(left)), 1) << 16 |
             rotate_byte(CAMELLIA_S1(BYTE1(left)), 7) << 8 |
             CAMELLIA_S1(rotate_byte(BYTE0(left), 1));
    uint v = rotate_byte(CAMELLIA_S1(BYTE3(right)), 1) << 24 |
             rotate_byte(CAMELLIA_S1(BYTE2(right)), 7) << 16 |
             CAMELLIA_S1(rotate_byte(BYTE1(right), 1)) << 8 | CAMELLIA_S1(BYTE0(right));
    // The function P, in words.
    u ^= rotate_left(v, 8);
    v ^= rotate_left(u, 16);
    u ^= rotate_left(v, 24);
    v ^= rotate_left(u, 24);
    return (ulong)v << 32 | u;
}

static ulong camellia_fl(ulong x, ulong key) {
    uint left = (uint)(x >> 32), right = (uint)x;
    right ^= rotate_left(left & (uint)(key >> 32), 1);
    left ^= right | (uint)key;
    return (ulong)left << 32 | right;
}

static ulong camellia_fl_inverse(ulong x, ulong key) {
    uint left = (uint)(x >> 32), right = (uint)x;
    left ^= right | (uint)key;
    right ^= rotate_left(left & (uint)(key >> 32), 1);
    return (ulong)left << 32 | right;
}

static ulong load_big_endian(__global const uchar *from) {
    return (ulong)swap_bytes(load_word(from)) << 32 | swap_bytes(load_word(from + 4));
}

// Of a number of 128 bits, rotated to the left, the high or the low half.
static ulong rotated_half(ulong high, ulong low, uint n, bool is_low) {
    if (n >= 64) {
        ulong swapped = high;
        high = low;
        low = swapped;
        n -= 64;
    }
    ulong first = is_low ? low : high, second = is_low ? high : low;
    return n == 0 ? first : first << n | second >> (64 - n);
}

// A thread a key of `words` words.
KERNEL void camellia_expand(__global const uchar *input, ulong raw, uint words,
                            __global uint *keys, uint slot, uint count) {
    __local uint shared[64 * LANES];
    fill_camellia_table(shared);
    __local const uint *table = shared + LOCAL_ID % LANES;
    FOR_UNITS(index, count, 1) {
        __global const uchar *from = input + raw + index * words * 4;
        ulong half_keys[8];
        half_keys[0] = load_big_endian(from);
        half_keys[1] = load_big_endian(from + 8);
        half_keys[2] = words > 4 ? load_big_endian(from + 16) : 0;
        half_keys[3] = words > 6 ? load_big_endian(from + 24) : words > 4 ? ~half_keys[2] : 0;
        ulong x = half_keys[0] ^ half_keys[2], y = half_keys[1] ^ half_keys[3];
        y ^= camellia_f(x, CAMELLIA_SIGMA[0], table);
        x ^= camellia_f(y, CAMELLIA_SIGMA[1], table);
        x ^= half_keys[0];
        y ^= half_keys[1];
        y ^= camellia_f(x, CAMELLIA_SIGMA[2], table);
        x ^= camellia_f(y, CAMELLIA_SIGMA[3], table);
        half_keys[4] = x;
        half_keys[5] = y;
        x ^= half_keys[2];
        y ^= half_keys[3];
        y ^= camellia_f(x, CAMELLIA_SIGMA[4], table);
        x ^= camellia_f(y, CAMELLIA_SIGMA[5], table);
        half_keys[6] = x;
        half_keys[7] = y;
        __global ulong *to = (__global ulong *)(keys + (slot + index) * CAMELLIA_SLOT);
        uint count_of = words > 4 ? 34 : 26;
        for (uint i = 0; i < count_of; i++) {
            uint which = words > 4 ? CAMELLIA_ORDER_256[i][0] : CAMELLIA_ORDER_128[i][0];
            uint n = words > 4 ? CAMELLIA_ORDER_256[i][1] : CAMELLIA_ORDER_128[i][1];
            uint source = which & 6u;
            ulong subkey =
                rotated_half(half_keys[source], half_keys[source + 1], n, (which & 1) != 0);
            to[i] = subkey;
            // Decryption uses them backwards, but the whitening keys in pairs.
            bool whitens = i < 2 || i >= count_of - 2;
            uint place = count_of - 1 - i;
            to[CAMELLIA_SUBKEYS + (whitens ? place ^ 1 : place)] = subkey;
        }
    }
}

// `sixes` rounds of six each. A block is two big-endian numbers.
static ulong2 camellia(ulong2 block, __global const ulong *key, uint sixes,
                       __local const uint *table) {
    ulong x = block.x ^ *key++, y = block.y ^ *key++;
    for (uint six = 0; six < sixes; six++) {
        if (six > 0) {
            x = camellia_fl(x, *key++);
            y = camellia_fl_inverse(y, *key++);
        }
        for (uint i = 0; i < 3; i++) {
            y ^= camellia_f(x, *key++, table);
            x ^= camellia_f(y, *key++, table);
        }
    }
    return (ulong2)(y ^ key[0], x ^ key[1]);
}

static ulong2 load_numbers(__global const uchar *from) {
    uint4 block = load_block(from, 16);
    return (ulong2)((ulong)swap_bytes(block.x) << 32 | swap_bytes(block.y),
                    (ulong)swap_bytes(block.z) << 32 | swap_bytes(block.w));
}

static void store_numbers(__global uchar *to, ulong2 n) {
    uint4 block = (uint4)(swap_bytes((uint)(n.x >> 32)), swap_bytes((uint)n.x),
                          swap_bytes((uint)(n.y >> 32)), swap_bytes((uint)n.y));
    store_block(to, block, 16);
}

KERNEL void camellia_cbc_encrypt(__global const uchar *input, __global uchar *output,
                                 __global const uint *keys, uint sixes, uint messages, ulong units,
                                 uint each) {
    __local uint shared[64 * LANES];
    fill_camellia_table(shared);
    __local const uint *table = shared + LOCAL_ID % LANES;
    __global const Message *message = (__global const Message *)input;
    FOR_UNITS(m, messages, each) {
        __global const ulong *key =
            (__global const ulong *)(keys + message[m].key * CAMELLIA_SLOT);
        ulong2 block = load_numbers((__global const uchar *)message[m].iv);
        for (ulong offset = 0; offset < message[m].length; offset += 16) {
            block ^= load_numbers(input + message[m].input + offset);
            block = camellia(block, key, sixes, table);
            store_numbers(output + message[m].output + offset, block);
        }
    }
}

KERNEL void camellia_cbc_decrypt(__global const uchar *input, __global uchar *output,
                                 __global const uint *keys, uint sixes, uint messages, ulong units,
                                 uint each) {
    __local uint shared[64 * LANES];
    fill_camellia_table(shared);
    __local const uint *table = shared + LOCAL_ID % LANES;
    __global const Message *message = (__global const Message *)input;
    uint m = 0;
    FOR_UNITS(unit, units, each) {
        m = find_message(message, messages, unit, m);
        ulong offset = (unit - message[m].first) * 16;
        __global const ulong *key =
            (__global const ulong *)(keys + message[m].key * CAMELLIA_SLOT) + CAMELLIA_SUBKEYS;
        __global const uchar *from = input + message[m].input + offset;
        __global const uchar *before =
            offset == 0 ? (__global const uchar *)message[m].iv : from - 16;
        ulong2 block = camellia(load_numbers(from), key, sixes, table);
        store_numbers(output + message[m].output + offset, block ^ load_numbers(before));
    }
}
