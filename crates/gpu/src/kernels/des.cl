// Triple DES (NIST SP 800-67) in CBC, for keys of 24 bytes (EDE).
//
// The eight S-boxes put out different bits, so one table of 64 words holds them all, behind the
// permutation P, and a mask takes those of one box. In LANES copies it has 8 KiB.

// Word x: P of what the S-boxes 1 to 8 (FIPS 46-3) make of the six bits x.
__constant const uint DES_TABLE[64] = {
    0xd8d8dbbcu, 0xd73559c1u, 0x8306f441u, 0x3dabeafeu, 0x1cec9542u, 0x8a408efbu, 0xf079253fu, 0xcf34d510u,
    0x721726b5u, 0x4cfef21cu, 0x4deadaa6u, 0xf2471ac9u, 0xeda34bcfu, 0x338fa826u, 0x16d508d1u, 0xe048253fu,
    0x8f0a4602u, 0x28bc163du, 0x7cd56b19u, 0x8240bf20u, 0x6223abc1u, 0x37d7e0a8u, 0xaf9fd4bcu, 0x59bb1bcfu,
    0xb77c897eu, 0xe0810592u, 0x00a1344bu, 0x3f7ae567u, 0x091474bcu, 0x4d697b47u, 0xf36abb62u, 0x949644d0u,
    0x1647a960u, 0xa5dac69au, 0x587b189eu, 0x83e8bd45u, 0xf2a1e679u, 0x4fbf0121u, 0x67986989u, 0x30465aa9u,
    0x49b899c3u, 0x7241e064u, 0xbf458774u, 0xcd9e619au, 0xbe5e56bcu, 0x982035dbu, 0x81b27643u, 0x7f358e66u,
    0xa5e4f7dfu, 0xda2fe8e3u, 0xa79a8421u, 0x7fb513beu, 0x89de041eu, 0xc8017b16u, 0x78659b73u, 0xa7f8a65du,
    0x8c0f7aa2u, 0x05b21fcdu, 0x72d26b8cu, 0x84455c30u, 0x5221a967u, 0x724e8634u, 0x4d2d549cu, 0x38dbf9cbu,
};

// The left and the right rotations of the key's halves are by one in these rounds, else by two.
#define DES_SINGLE_ROTATIONS 0x8103u

__constant const uchar DES_CHOICE_1[56] = {
    57, 49, 41, 33, 25, 17, 9,  1,  58, 50, 42, 34, 26, 18, 10, 2,  59, 51, 43,
    35, 27, 19, 11, 3,  60, 52, 44, 36, 63, 55, 47, 39, 31, 23, 15, 7,  62, 54,
    46, 38, 30, 22, 14, 6,  61, 53, 45, 37, 29, 21, 13, 5,  28, 20, 12, 4,
};

__constant const uchar DES_CHOICE_2[48] = {
    14, 17, 11, 24, 1,  5,  3,  28, 15, 6,  21, 10, 23, 19, 12, 4,
    26, 8,  16, 7,  27, 20, 13, 2,  41, 52, 31, 37, 47, 55, 30, 40,
    51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
};

// Words in a slot: two for each of 48 rounds, with the six bits for a box in a byte.
#define DES_SLOT 96u

static uint2 load_pair(__global const uchar *from) {
    return (uint2)(swap_bytes(load_word(from)), swap_bytes(load_word(from + 4)));
}

static void store_pair(__global uchar *to, uint2 pair) {
    for (uint i = 0; i < 4; i++) {
        to[i] = (uchar)(pair.x >> (24 - 8 * i));
        to[4 + i] = (uchar)(pair.y >> (24 - 8 * i));
    }
}

static uint rotate_half(uint half_key, uint n) {
    return (half_key << n | half_key >> (28 - n)) & 0x0fffffffu;
}

// The round keys of one DES key to every second word from `to` on, or backwards.
static void des_expand_one(__global const uchar *key, __global uint *to, bool backwards) {
    uint2 words = load_pair(key);
    ulong bits = (ulong)words.x << 32 | words.y, chosen = 0;
    for (uint i = 0; i < 56; i++) chosen = chosen << 1 | (bits >> (64 - DES_CHOICE_1[i]) & 1);
    uint c = (uint)(chosen >> 28), d = (uint)chosen & 0x0fffffffu;
    for (uint round = 0; round < 16; round++) {
        uint n = 2 - (DES_SINGLE_ROTATIONS >> round & 1);
        c = rotate_half(c, n);
        d = rotate_half(d, n);
        ulong both = (ulong)c << 28 | d;
        uint even = 0, odd = 0;
        for (uint box = 0; box < 8; box++) {
            uint six = 0;
            for (uint i = 0; i < 6; i++)
                six = six << 1 | (uint)(both >> (56 - DES_CHOICE_2[6 * box + i]) & 1);
            // Box 1 is the highest byte of the even word, box 2 that of the odd.
            if (box % 2 == 0) even = even << 8 | six;
            else odd = odd << 8 | six;
        }
        uint place = backwards ? 15 - round : round;
        to[2 * place] = even;
        to[2 * place + 1] = odd;
    }
}

KERNEL void des_expand(__global const uchar *input, ulong raw, __global uint *keys, uint slot,
                       uint count) {
    FOR_UNITS(index, count, 1) {
        __global const uchar *key = input + raw + index * 24;
        __global uint *to = keys + (slot + index) * DES_SLOT;
        for (uint i = 0; i < 3; i++) des_expand_one(key + 8 * i, to + 32 * i, i == 1);
    }
}

static void fill_des_table(__local uint *table) {
    for (uint i = LOCAL_ID; i < 64 * LANES; i += GROUP_SIZE) table[i] = DES_TABLE[i / LANES];
    BARRIER();
}

#define DES_BOX(x, mask) (table[((x)&63u) * LANES] & (mask))

static uint des_round(uint right, uint even, uint odd, __local const uint *table) {
    even ^= rotate_left(right, 29);
    odd ^= rotate_left(right, 1);
    return DES_BOX(even >> 24, 0x00808202u) | DES_BOX(odd >> 24, 0x40084010u) |
           DES_BOX(even >> 16, 0x04010104u) | DES_BOX(odd >> 16, 0x80401040u) |
           DES_BOX(even >> 8, 0x21040080u) | DES_BOX(odd >> 8, 0x10202008u) |
           DES_BOX(even, 0x02100401u) | DES_BOX(odd, 0x08020820u);
}

// Swaps the bits of `a` under the mask, shifted, with those of `b` under it.
#define SWAP_BITS(a, b, n, mask)                                                                 \
    do {                                                                                         \
        uint t_ = ((a) >> (n) ^ (b)) & (mask);                                                   \
        (b) ^= t_;                                                                               \
        (a) ^= t_ << (n);                                                                        \
    } while (0)

static uint2 des3(uint2 block, __global const uint *keys, bool opens, __local const uint *table) {
    uint left = block.x, right = block.y;
    // The initial permutation.
    SWAP_BITS(left, right, 4, 0x0f0f0f0fu);
    SWAP_BITS(left, right, 16, 0x0000ffffu);
    SWAP_BITS(right, left, 2, 0x33333333u);
    SWAP_BITS(right, left, 8, 0x00ff00ffu);
    SWAP_BITS(left, right, 1, 0x55555555u);
    for (uint stage = 0; stage < 3; stage++) {
        for (uint i = 0; i < 16; i++) {
            uint round = stage * 16 + i, place = opens ? 47 - round : round;
            uint next = left ^ des_round(right, keys[2 * place], keys[2 * place + 1], table);
            left = right;
            right = next;
        }
        uint swapped = left;
        left = right;
        right = swapped;
    }
    SWAP_BITS(left, right, 1, 0x55555555u);
    SWAP_BITS(right, left, 8, 0x00ff00ffu);
    SWAP_BITS(right, left, 2, 0x33333333u);
    SWAP_BITS(left, right, 16, 0x0000ffffu);
    SWAP_BITS(left, right, 4, 0x0f0f0f0fu);
    return (uint2)(left, right);
}

static uint2 iv_pair(__global const Message *message) {
    return (uint2)(swap_bytes(message->iv[0]), swap_bytes(message->iv[1]));
}

KERNEL void des3_cbc_encrypt(__global const uchar *input, __global uchar *output,
                             __global const uint *keys, uint rounds, uint messages, ulong units,
                             uint each) {
    __local uint shared[64 * LANES];
    fill_des_table(shared);
    __global const Message *message = (__global const Message *)input;
    FOR_UNITS(m, messages, each) {
        __global const uint *key = keys + message[m].key * DES_SLOT;
        uint2 block = iv_pair(&message[m]);
        for (ulong offset = 0; offset < message[m].length; offset += 8) {
            block ^= load_pair(input + message[m].input + offset);
            block = des3(block, key, false, shared + LOCAL_ID % LANES);
            store_pair(output + message[m].output + offset, block);
        }
    }
}

KERNEL void des3_cbc_decrypt(__global const uchar *input, __global uchar *output,
                             __global const uint *keys, uint rounds, uint messages, ulong units,
                             uint each) {
    __local uint shared[64 * LANES];
    fill_des_table(shared);
    __global const Message *message = (__global const Message *)input;
    uint m = 0;
    FOR_UNITS(unit, units, each) {
        m = find_message(message, messages, unit, m);
        ulong offset = (unit - message[m].first) * 8;
        __global const uchar *from = input + message[m].input + offset;
        uint2 before = offset == 0 ? iv_pair(&message[m]) : load_pair(from - 8);
        uint2 block = des3(load_pair(from), keys + message[m].key * DES_SLOT, true,
                           shared + LOCAL_ID % LANES);
        store_pair(output + message[m].output + offset, block ^ before);
    }
}
