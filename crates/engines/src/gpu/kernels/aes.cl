// AES (FIPS 197) in ECB, CBC and CTR (NIST SP 800-38A).
//
// One table of 256 words (SubBytes and a column of MixColumns) is used with four rotations, in 32
// copies: 32 KiB. State words hold a column each, the first row in the lowest byte.

// FIPS 197, figure 7.
__constant const uchar AES_SBOX[256] = {
    0x63, 0x7c, 0x77, 0x7b, 0xf2, 0x6b, 0x6f, 0xc5, 0x30, 0x01, 0x67, 0x2b, 0xfe, 0xd7, 0xab, 0x76,
    0xca, 0x82, 0xc9, 0x7d, 0xfa, 0x59, 0x47, 0xf0, 0xad, 0xd4, 0xa2, 0xaf, 0x9c, 0xa4, 0x72, 0xc0,
    0xb7, 0xfd, 0x93, 0x26, 0x36, 0x3f, 0xf7, 0xcc, 0x34, 0xa5, 0xe5, 0xf1, 0x71, 0xd8, 0x31, 0x15,
    0x04, 0xc7, 0x23, 0xc3, 0x18, 0x96, 0x05, 0x9a, 0x07, 0x12, 0x80, 0xe2, 0xeb, 0x27, 0xb2, 0x75,
    0x09, 0x83, 0x2c, 0x1a, 0x1b, 0x6e, 0x5a, 0xa0, 0x52, 0x3b, 0xd6, 0xb3, 0x29, 0xe3, 0x2f, 0x84,
    0x53, 0xd1, 0x00, 0xed, 0x20, 0xfc, 0xb1, 0x5b, 0x6a, 0xcb, 0xbe, 0x39, 0x4a, 0x4c, 0x58, 0xcf,
    0xd0, 0xef, 0xaa, 0xfb, 0x43, 0x4d, 0x33, 0x85, 0x45, 0xf9, 0x02, 0x7f, 0x50, 0x3c, 0x9f, 0xa8,
    0x51, 0xa3, 0x40, 0x8f, 0x92, 0x9d, 0x38, 0xf5, 0xbc, 0xb6, 0xda, 0x21, 0x10, 0xff, 0xf3, 0xd2,
    0xcd, 0x0c, 0x13, 0xec, 0x5f, 0x97, 0x44, 0x17, 0xc4, 0xa7, 0x7e, 0x3d, 0x64, 0x5d, 0x19, 0x73,
    0x60, 0x81, 0x4f, 0xdc, 0x22, 0x2a, 0x90, 0x88, 0x46, 0xee, 0xb8, 0x14, 0xde, 0x5e, 0x0b, 0xdb,
    0xe0, 0x32, 0x3a, 0x0a, 0x49, 0x06, 0x24, 0x5c, 0xc2, 0xd3, 0xac, 0x62, 0x91, 0x95, 0xe4, 0x79,
    0xe7, 0xc8, 0x37, 0x6d, 0x8d, 0xd5, 0x4e, 0xa9, 0x6c, 0x56, 0xf4, 0xea, 0x65, 0x7a, 0xae, 0x08,
    0xba, 0x78, 0x25, 0x2e, 0x1c, 0xa6, 0xb4, 0xc6, 0xe8, 0xdd, 0x74, 0x1f, 0x4b, 0xbd, 0x8b, 0x8a,
    0x70, 0x3e, 0xb5, 0x66, 0x48, 0x03, 0xf6, 0x0e, 0x61, 0x35, 0x57, 0xb9, 0x86, 0xc1, 0x1d, 0x9e,
    0xe1, 0xf8, 0x98, 0x11, 0x69, 0xd9, 0x8e, 0x94, 0x9b, 0x1e, 0x87, 0xe9, 0xce, 0x55, 0x28, 0xdf,
    0x8c, 0xa1, 0x89, 0x0d, 0xbf, 0xe6, 0x42, 0x68, 0x41, 0x99, 0x2d, 0x0f, 0xb0, 0x54, 0xbb, 0x16,
};

// FIPS 197, figure 14.
__constant const uchar AES_INVERSE_SBOX[256] = {
    0x52, 0x09, 0x6a, 0xd5, 0x30, 0x36, 0xa5, 0x38, 0xbf, 0x40, 0xa3, 0x9e, 0x81, 0xf3, 0xd7, 0xfb,
    0x7c, 0xe3, 0x39, 0x82, 0x9b, 0x2f, 0xff, 0x87, 0x34, 0x8e, 0x43, 0x44, 0xc4, 0xde, 0xe9, 0xcb,
    0x54, 0x7b, 0x94, 0x32, 0xa6, 0xc2, 0x23, 0x3d, 0xee, 0x4c, 0x95, 0x0b, 0x42, 0xfa, 0xc3, 0x4e,
    0x08, 0x2e, 0xa1, 0x66, 0x28, 0xd9, 0x24, 0xb2, 0x76, 0x5b, 0xa2, 0x49, 0x6d, 0x8b, 0xd1, 0x25,
    0x72, 0xf8, 0xf6, 0x64, 0x86, 0x68, 0x98, 0x16, 0xd4, 0xa4, 0x5c, 0xcc, 0x5d, 0x65, 0xb6, 0x92,
    0x6c, 0x70, 0x48, 0x50, 0xfd, 0xed, 0xb9, 0xda, 0x5e, 0x15, 0x46, 0x57, 0xa7, 0x8d, 0x9d, 0x84,
    0x90, 0xd8, 0xab, 0x00, 0x8c, 0xbc, 0xd3, 0x0a, 0xf7, 0xe4, 0x58, 0x05, 0xb8, 0xb3, 0x45, 0x06,
    0xd0, 0x2c, 0x1e, 0x8f, 0xca, 0x3f, 0x0f, 0x02, 0xc1, 0xaf, 0xbd, 0x03, 0x01, 0x13, 0x8a, 0x6b,
    0x3a, 0x91, 0x11, 0x41, 0x4f, 0x67, 0xdc, 0xea, 0x97, 0xf2, 0xcf, 0xce, 0xf0, 0xb4, 0xe6, 0x73,
    0x96, 0xac, 0x74, 0x22, 0xe7, 0xad, 0x35, 0x85, 0xe2, 0xf9, 0x37, 0xe8, 0x1c, 0x75, 0xdf, 0x6e,
    0x47, 0xf1, 0x1a, 0x71, 0x1d, 0x29, 0xc5, 0x89, 0x6f, 0xb7, 0x62, 0x0e, 0xaa, 0x18, 0xbe, 0x1b,
    0xfc, 0x56, 0x3e, 0x4b, 0xc6, 0xd2, 0x79, 0x20, 0x9a, 0xdb, 0xc0, 0xfe, 0x78, 0xcd, 0x5a, 0xf4,
    0x1f, 0xdd, 0xa8, 0x33, 0x88, 0x07, 0xc7, 0x31, 0xb1, 0x12, 0x10, 0x59, 0x27, 0x80, 0xec, 0x5f,
    0x60, 0x51, 0x7f, 0xa9, 0x19, 0xb5, 0x4a, 0x0d, 0x2d, 0xe5, 0x7a, 0x9f, 0x93, 0xc9, 0x9c, 0xef,
    0xa0, 0xe0, 0x3b, 0x4d, 0xae, 0x2a, 0xf5, 0xb0, 0xc8, 0xeb, 0xbb, 0x3c, 0x83, 0x53, 0x99, 0x61,
    0x17, 0x2b, 0x04, 0x7e, 0xba, 0x77, 0xd6, 0x26, 0xe1, 0x69, 0x14, 0x63, 0x55, 0x21, 0x0c, 0x7d,
};

// Words in a slot: 60 of round keys for encryption, 60 for decryption, and 60 for the tweak's key of
// XTS or what hashing needs for GCM.
#define AES_SLOT 192u
#define AES_DECRYPTION 60u
#define AES_SECOND 120u

static uint twice(uint s) {
    return (s << 1) ^ ((s >> 7) * 0x11bu);
}

static void fill_encryption_table(__local uint *table) {
    for (uint i = LOCAL_ID; i < 256 * LANES; i += GROUP_SIZE) {
        uint s = AES_SBOX[i / LANES], s2 = twice(s);
        table[i] = s2 | s << 8 | s << 16 | (s2 ^ s) << 24;
    }
    BARRIER();
}

static void fill_decryption_tables(__local uint *table, __local uint *last) {
    for (uint i = LOCAL_ID; i < 256 * LANES; i += GROUP_SIZE) {
        uint s = AES_INVERSE_SBOX[i / LANES];
        uint s2 = twice(s), s4 = twice(s2), s8 = twice(s4);
        table[i] = (s8 ^ s4 ^ s2) | (s8 ^ s) << 8 | (s8 ^ s4 ^ s) << 16 | (s8 ^ s2 ^ s) << 24;
    }
    // The last round takes the plain inverse S-box, four entries to a word.
    for (uint i = LOCAL_ID; i < 64 * LANES; i += GROUP_SIZE) {
        uint x = i / LANES * 4;
        last[i] = AES_INVERSE_SBOX[x] | (uint)AES_INVERSE_SBOX[x + 1] << 8 |
                  (uint)AES_INVERSE_SBOX[x + 2] << 16 | (uint)AES_INVERSE_SBOX[x + 3] << 24;
    }
    BARRIER();
}

#define BYTE0(x) ((x)&255u)
#define BYTE1(x) ((x) >> 8 & 255u)
#define BYTE2(x) ((x) >> 16 & 255u)
#define BYTE3(x) ((x) >> 24)

// `table` points to the lane's first word.
#define LOOK(x) table[(x)*LANES]
#define COLUMN(a, b, c, d)                                                                     \
    (LOOK(BYTE0(a)) ^ rotate_left(LOOK(BYTE1(b)), 8) ^ rotate_left(LOOK(BYTE2(c)), 16) ^       \
     rotate_left(LOOK(BYTE3(d)), 24))
// The S-box is the table's second byte.
#define SUB(x) (LOOK(x) >> 8 & 255u)
#define LAST_COLUMN(a, b, c, d) \
    (SUB(BYTE0(a)) | SUB(BYTE1(b)) << 8 | SUB(BYTE2(c)) << 16 | SUB(BYTE3(d)) << 24)

static uint4 aes_encrypt(uint4 x, __global const uint *keys, uint rounds, __local const uint *table) {
    __global const uint4 *key = (__global const uint4 *)keys;
    x ^= key[0];
    for (uint round = 1; round < rounds; round++) {
        uint4 y;
        y.x = COLUMN(x.x, x.y, x.z, x.w);
        y.y = COLUMN(x.y, x.z, x.w, x.x);
        y.z = COLUMN(x.z, x.w, x.x, x.y);
        y.w = COLUMN(x.w, x.x, x.y, x.z);
        x = y ^ key[round];
    }
    uint4 y;
    y.x = LAST_COLUMN(x.x, x.y, x.z, x.w);
    y.y = LAST_COLUMN(x.y, x.z, x.w, x.x);
    y.z = LAST_COLUMN(x.z, x.w, x.x, x.y);
    y.w = LAST_COLUMN(x.w, x.x, x.y, x.z);
    return y ^ key[rounds];
}

#define INVERSE(x) (last[((x) >> 2) * LANES] >> (((x)&3u) * 8) & 255u)
#define LAST_INVERSE_COLUMN(a, b, c, d)                                                        \
    (INVERSE(BYTE0(a)) | INVERSE(BYTE1(b)) << 8 | INVERSE(BYTE2(c)) << 16 |                    \
     INVERSE(BYTE3(d)) << 24)

// The equivalent inverse cipher (FIPS 197, 5.3.5).
static uint4 aes_decrypt(uint4 x, __global const uint *keys, uint rounds, __local const uint *table,
                         __local const uint *last) {
    __global const uint4 *key = (__global const uint4 *)(keys + AES_DECRYPTION);
    x ^= key[0];
    for (uint round = 1; round < rounds; round++) {
        uint4 y;
        y.x = COLUMN(x.x, x.w, x.z, x.y);
        y.y = COLUMN(x.y, x.x, x.w, x.z);
        y.z = COLUMN(x.z, x.y, x.x, x.w);
        y.w = COLUMN(x.w, x.z, x.y, x.x);
        x = y ^ key[round];
    }
    uint4 y;
    y.x = LAST_INVERSE_COLUMN(x.x, x.w, x.z, x.y);
    y.y = LAST_INVERSE_COLUMN(x.y, x.x, x.w, x.z);
    y.z = LAST_INVERSE_COLUMN(x.z, x.y, x.x, x.w);
    y.w = LAST_INVERSE_COLUMN(x.w, x.z, x.y, x.x);
    return y ^ key[rounds];
}

// InvMixColumns of one column.
static uint inverse_mix(uint x) {
    uint sum = 0;
    for (uint i = 0; i < 4; i++) {
        uint s = x >> (8 * i) & 255u;
        uint s2 = twice(s), s4 = twice(s2), s8 = twice(s4);
        uint column = (s8 ^ s4 ^ s2) | (s8 ^ s) << 8 | (s8 ^ s4 ^ s) << 16 | (s8 ^ s2 ^ s) << 24;
        sum ^= rotate_left(column, 8 * i);
    }
    return sum;
}

static void aes_expand_one(__global const uchar *key, uint key_words, __global uint *to,
                           __local const uint *table) {
    uint rounds = key_words + 6, round_constant = 1;
    for (uint i = 0; i < 4 * (rounds + 1); i++) {
        if (i < key_words) {
            to[i] = load_word(key + 4 * i);
            continue;
        }
        uint word = to[i - 1];
        if (i % key_words == 0) {
            word = word >> 8 | word << 24;
            word = LAST_COLUMN(word, word, word, word) ^ round_constant;
            round_constant = twice(round_constant);
        } else if (key_words > 6 && i % key_words == 4) {
            word = LAST_COLUMN(word, word, word, word);
        }
        to[i] = to[i - key_words] ^ word;
    }
}

// A thread a key. `words` are those of one AES key; XTS has two in each key, `parts` of 2.
KERNEL void aes_expand(__global const uchar *input, ulong raw, uint words, uint parts,
                       __global uint *keys, uint slot, uint count) {
    __local uint shared[256 * LANES];
    fill_encryption_table(shared);
    __local const uint *table = shared + LOCAL_ID % LANES;
    uint rounds = words + 6;
    FOR_UNITS(index, count, 1) {
        __global const uchar *key = input + raw + index * words * 4 * parts;
        __global uint *to = keys + (slot + index) * AES_SLOT;
        aes_expand_one(key, words, to, table);
        for (uint round = 0; round <= rounds; round++)
            for (uint i = 0; i < 4; i++) {
                uint word = to[4 * (rounds - round) + i];
                bool is_end = round == 0 || round == rounds;
                to[AES_DECRYPTION + 4 * round + i] = is_end ? word : inverse_mix(word);
            }
        if (parts == 2) aes_expand_one(key + words * 4, words, to + AES_SECOND, table);
    }
}

KERNEL void aes_ecb_encrypt(__global const uchar *input, __global uchar *output,
                            __global const uint *keys, uint rounds, uint messages, ulong units,
                            uint each) {
    __local uint shared[256 * LANES];
    fill_encryption_table(shared);
    __local const uint *table = shared + LOCAL_ID % LANES;
    __global const Message *message = (__global const Message *)input;
    uint m = 0;
    FOR_UNITS(unit, units, each) {
        m = find_message(message, messages, unit, m);
        ulong offset = (unit - message[m].first) * 16;
        uint4 block = load_block(input + message[m].input + offset, 16);
        block = aes_encrypt(block, keys + message[m].key * AES_SLOT, rounds, table);
        store_block(output + message[m].output + offset, block, 16);
    }
}

KERNEL void aes_ecb_decrypt(__global const uchar *input, __global uchar *output,
                            __global const uint *keys, uint rounds, uint messages, ulong units,
                            uint each) {
    __local uint shared[256 * LANES], shared_last[64 * LANES];
    fill_decryption_tables(shared, shared_last);
    __local const uint *table = shared + LOCAL_ID % LANES;
    __local const uint *last = shared_last + LOCAL_ID % LANES;
    __global const Message *message = (__global const Message *)input;
    uint m = 0;
    FOR_UNITS(unit, units, each) {
        m = find_message(message, messages, unit, m);
        ulong offset = (unit - message[m].first) * 16;
        uint4 block = load_block(input + message[m].input + offset, 16);
        block = aes_decrypt(block, keys + message[m].key * AES_SLOT, rounds, table, last);
        store_block(output + message[m].output + offset, block, 16);
    }
}

KERNEL void aes_cbc_decrypt(__global const uchar *input, __global uchar *output,
                            __global const uint *keys, uint rounds, uint messages, ulong units,
                            uint each) {
    __local uint shared[256 * LANES], shared_last[64 * LANES];
    fill_decryption_tables(shared, shared_last);
    __local const uint *table = shared + LOCAL_ID % LANES;
    __local const uint *last = shared_last + LOCAL_ID % LANES;
    __global const Message *message = (__global const Message *)input;
    uint m = 0;
    FOR_UNITS(unit, units, each) {
        m = find_message(message, messages, unit, m);
        ulong offset = (unit - message[m].first) * 16;
        __global const uchar *from = input + message[m].input + offset;
        uint4 block = load_block(from, 16);
        block = aes_decrypt(block, keys + message[m].key * AES_SLOT, rounds, table, last);
        block ^= offset == 0 ? *(__global const uint4 *)message[m].iv : load_block(from - 16, 16);
        store_block(output + message[m].output + offset, block, 16);
    }
}

// A thread a message, because each block needs the one before it. A message is a unit here; they are
// sorted by length, so that neighbours end together.
KERNEL void aes_cbc_encrypt(__global const uchar *input, __global uchar *output,
                            __global const uint *keys, uint rounds, uint messages, ulong units,
                            uint each) {
    __local uint shared[256 * LANES];
    fill_encryption_table(shared);
    __local const uint *table = shared + LOCAL_ID % LANES;
    __global const Message *message = (__global const Message *)input;
    FOR_UNITS(m, messages, each) {
        __global const uchar *from = input + message[m].input;
        __global uchar *to = output + message[m].output;
        __global const uint *key = keys + message[m].key * AES_SLOT;
        uint4 block = *(__global const uint4 *)message[m].iv;
        for (ulong offset = 0; offset < message[m].length; offset += 16) {
            block ^= load_block(from + offset, 16);
            block = aes_encrypt(block, key, rounds, table);
            store_block(to + offset, block, 16);
        }
    }
}

// The IV, as a big-endian number of 128 bits, plus `blocks`.
static uint4 advance_counter(__global const uint *iv, ulong blocks) {
    ulong low = (ulong)swap_bytes(iv[2]) << 32 | swap_bytes(iv[3]);
    ulong high = (ulong)swap_bytes(iv[0]) << 32 | swap_bytes(iv[1]);
    ulong sum = low + blocks;
    high += sum < low;
    return (uint4)(swap_bytes((uint)(high >> 32)), swap_bytes((uint)high),
                   swap_bytes((uint)(sum >> 32)), swap_bytes((uint)sum));
}

KERNEL void aes_ctr(__global const uchar *input, __global uchar *output, __global const uint *keys,
                    uint rounds, uint messages, ulong units, uint each) {
    __local uint shared[256 * LANES];
    fill_encryption_table(shared);
    __local const uint *table = shared + LOCAL_ID % LANES;
    __global const Message *message = (__global const Message *)input;
    uint m = 0;
    FOR_UNITS(unit, units, each) {
        m = find_message(message, messages, unit, m);
        ulong number = unit - message[m].first, offset = number * 16;
        uint bytes = bytes_at(message[m].length, offset, 16);
        uint4 block = advance_counter(message[m].iv, number);
        block = aes_encrypt(block, keys + message[m].key * AES_SLOT, rounds, table);
        block ^= load_block(input + message[m].input + offset, bytes);
        store_block(output + message[m].output + offset, block, bytes);
    }
}
