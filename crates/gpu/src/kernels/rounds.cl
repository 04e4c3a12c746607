// The rounds of AES, for one layout of its tables.

#undef TABLES
#define TABLES LAYOUT(Tables)
#undef COLUMN
#define COLUMN(a, b, c, d) (LOOK(a, 0, 0) ^ LOOK(b, 1, 1) ^ LOOK(c, 2, 2) ^ LOOK(d, 3, 3))
// The S-box is the first table's second byte.
#undef LAST_COLUMN
#define LAST_COLUMN(a, b, c, d)                               \
    PERMUTE(PERMUTE(LOOK(a, 0, 0), LOOK(b, 1, 0), 0x0051u),   \
            PERMUTE(LOOK(c, 2, 0), LOOK(d, 3, 0), 0x0051u), 0x5410u)
// The inverse S-box is the sum of a word's bytes: 14 + 9 + 13 + 11 = 1 in AES's field.
#undef LAST_INVERSE_COLUMN
#define LAST_INVERSE_COLUMN(a, b, c, d) \
    sums_of_bytes(LOOK(a, 0, 0), LOOK(b, 1, 0), LOOK(c, 2, 0), LOOK(d, 3, 0))

// From a round on, the first being 1.
static uint4 LAYOUT(aes_encrypt_from)(uint4 x, uint round, __global const uint *keys, uint rounds,
                                      TABLES tables) {
    __global const uint4 *key = (__global const uint4 *)keys;
    for (; round < rounds; round++) {
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

static uint4 LAYOUT(aes_encrypt)(uint4 x, __global const uint *keys, uint rounds, TABLES tables) {
    x ^= *(__global const uint4 *)keys;
    return LAYOUT(aes_encrypt_from)(x, 1, keys, rounds, tables);
}

// The stretch of a counter block. (The first two rounds of Park and Lee's FACE, CHES 2018.)
static Stretch LAYOUT(aes_stretch)(uint4 x, __global const uint *keys, TABLES tables) {
    __global const uint4 *key = (__global const uint4 *)keys;
    x.w &= 0x00ffffffu;
    x ^= key[0];
    uint4 y = key[1], z = key[2];
    y.x ^= LOOK(x.x, 0, 0) ^ LOOK(x.y, 1, 1) ^ LOOK(x.z, 2, 2);
    y.y ^= COLUMN(x.y, x.z, x.w, x.x);
    y.z ^= COLUMN(x.z, x.w, x.x, x.y);
    y.w ^= COLUMN(x.w, x.x, x.y, x.z);
    z.x ^= LOOK(y.y, 1, 1) ^ LOOK(y.z, 2, 2) ^ LOOK(y.w, 3, 3);
    z.y ^= LOOK(y.y, 0, 0) ^ LOOK(y.z, 1, 1) ^ LOOK(y.w, 2, 2);
    z.z ^= LOOK(y.z, 0, 0) ^ LOOK(y.w, 1, 1) ^ LOOK(y.y, 3, 3);
    z.w ^= LOOK(y.w, 0, 0) ^ LOOK(y.y, 2, 2) ^ LOOK(y.z, 3, 3);
    Stretch stretch = {x.w, y.x, z};
    return stretch;
}

// Encrypts the block of a stretch whose counter ends with the lowest byte of `counter`.
static uint4 LAYOUT(aes_encrypt_counter)(Stretch stretch, uint counter, __global const uint *keys,
                                         uint rounds, TABLES tables) {
    uint y = stretch.first ^ LOOK(stretch.last ^ counter << 24, 3, 3);
    uint4 z = stretch.second;
    z.x ^= LOOK(y, 0, 0);
    z.y ^= LOOK(y, 3, 3);
    z.z ^= LOOK(y, 2, 2);
    z.w ^= LOOK(y, 1, 1);
    return LAYOUT(aes_encrypt_from)(z, 3, keys, rounds, tables);
}

// The equivalent inverse cipher (FIPS 197, 5.3.5).
static uint4 LAYOUT(aes_decrypt)(uint4 x, __global const uint *keys, uint rounds, TABLES tables) {
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
