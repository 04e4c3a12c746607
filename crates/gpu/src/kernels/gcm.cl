// AES-GCM (NIST SP 800-38D).
//
// GHASH multiplies without look-ups: integer multiplications of words in which only every fourth bit
// can be set make no carry that reaches the next such bit, so they multiply polynomials over GF(2).
// (Pornin, BearSSL, `ghash_ctmul`.) Their time does not depend on the data.

static ulong carryless(uint x, uint y) {
    uint x0 = x & 0x11111111u, x1 = x & 0x22222222u, x2 = x & 0x44444444u, x3 = x & 0x88888888u;
    uint y0 = y & 0x11111111u, y1 = y & 0x22222222u, y2 = y & 0x44444444u, y3 = y & 0x88888888u;
#define TIMES(a, b) wide_product(a, b)
    ulong z0 = TIMES(x0, y0) ^ TIMES(x1, y3) ^ TIMES(x2, y2) ^ TIMES(x3, y1);
    ulong z1 = TIMES(x0, y1) ^ TIMES(x1, y0) ^ TIMES(x2, y3) ^ TIMES(x3, y2);
    ulong z2 = TIMES(x0, y2) ^ TIMES(x1, y1) ^ TIMES(x2, y0) ^ TIMES(x3, y3);
    ulong z3 = TIMES(x0, y3) ^ TIMES(x1, y2) ^ TIMES(x2, y1) ^ TIMES(x3, y0);
#undef TIMES
    return (z0 & 0x1111111111111111ul) | (z1 & 0x2222222222222222ul) |
           (z2 & 0x4444444444444444ul) | (z3 & 0x8888888888888888ul);
}

// The product of polynomials of 64 bits, by Karatsuba's rule: 128 bits, the lowest first.
static void carryless_64(ulong x, ulong y, ulong *low, ulong *high) {
    uint x0 = (uint)x, x1 = (uint)(x >> 32), y0 = (uint)y, y1 = (uint)(y >> 32);
    ulong a = carryless(x0, y0), c = carryless(x1, y1);
    ulong b = carryless(x0 ^ x1, y0 ^ y1) ^ a ^ c;
    *low = a ^ b << 32;
    *high = c ^ b >> 32;
}

// The product of polynomials of 128 bits: 256 bits, the lowest first.
static void carryless_128(ulong x0, ulong x1, ulong y0, ulong y1, ulong *z) {
    ulong a0, a1, b0, b1, c0, c1;
    carryless_64(x0, y0, &a0, &a1);
    carryless_64(x1, y1, &c0, &c1);
    carryless_64(x0 ^ x1, y0 ^ y1, &b0, &b1);
    b0 ^= a0 ^ c0;
    b1 ^= a1 ^ c1;
    z[0] = a0;
    z[1] = a1 ^ b0;
    z[2] = c0 ^ b1;
    z[3] = c1;
}

// An element of GHASH's field: the block as a big-endian number. The highest bit is the coefficient
// of 1.
typedef struct {
    ulong low, high;
} Element;

static Element element(uint4 block) {
    Element e;
    e.high = (ulong)swap_bytes(block.x) << 32 | swap_bytes(block.y);
    e.low = (ulong)swap_bytes(block.z) << 32 | swap_bytes(block.w);
    return e;
}

static uint4 block_of(Element e) {
    return (uint4)(swap_bytes((uint)(e.high >> 32)), swap_bytes((uint)e.high),
                   swap_bytes((uint)(e.low >> 32)), swap_bytes((uint)e.low));
}

static Element added(Element x, Element y) {
    x.low ^= y.low;
    x.high ^= y.high;
    return x;
}

static Element multiplied(Element x, Element y) {
    ulong z[4];
    carryless_128(x.low, x.high, y.low, y.high, z);
    // The product of two reflected numbers lies one bit too low.
    z[3] = z[3] << 1 | z[2] >> 63;
    z[2] = z[2] << 1 | z[1] >> 63;
    z[1] = z[1] << 1 | z[0] >> 63;
    z[0] = z[0] << 1;
    // x^128 = x^7 + x^2 + x + 1.
    z[1] ^= z[0] << 63 ^ z[0] << 62 ^ z[0] << 57;
    z[2] ^= z[0] ^ z[0] >> 1 ^ z[0] >> 2 ^ z[0] >> 7;
    z[2] ^= z[1] << 63 ^ z[1] << 62 ^ z[1] << 57;
    z[3] ^= z[1] ^ z[1] >> 1 ^ z[1] >> 2 ^ z[1] >> 7;
    Element e = {z[2], z[3]};
    return e;
}

static Element load_element(__global const uint *from) {
    return element(*(__global const uint4 *)from);
}

static void store_element(__global uint *to, Element e) {
    *(__global uint4 *)to = block_of(e);
}

// In a key's slot: the hash key, and its STRIPE-th power.
#define HASH_KEY AES_SECOND
#define HASH_POWER (AES_SECOND + 4u)

// A thread a key, after aes_expand.
KERNEL void gcm_expand(__global uint *keys, uint rounds, uint slot, uint count) {
    FILL_TABLES(false)
    FOR_UNITS(index, count, 1) {
        __global uint *key = keys + (slot + index) * AES_SLOT;
        uint4 h = aes_encrypt((uint4)(0, 0, 0, 0), key, rounds, tables);
        Element power = element(h);
        store_element(key + HASH_KEY, power);
        for (uint i = 1; i < STRIPE; i *= 2) power = multiplied(power, power);
        store_element(key + HASH_POWER, power);
    }
}

// A thread a stripe of ciphertext: of the input when a message is opened.
KERNEL void gcm_stripes(__global const uchar *input, __global const uchar *output,
                        __global const uint *keys, __global uint *scratch, uint messages,
                        ulong stripes, uint opens) {
    __global const Message *message = (__global const Message *)input;
    uint m = 0;
    FOR_UNITS(stripe, stripes, 1) {
        m = find_message_of_stripe(message, messages, stripe, m);
        ulong after = (stripe - message[m].stripes) * STRIPE, blocks = hashed_blocks(&message[m]);
        ulong number = blocks - after < STRIPE ? 0 : blocks - after - STRIPE;
        __global const uchar *text =
            opens ? input + message[m].input : output + message[m].output;
        Element key = load_element(keys + message[m].key * AES_SLOT + HASH_KEY);
        Element sum = {0, 0};
        for (; number < blocks - after; number++) {
            Element next = {message[m].length * 8, message[m].aad_length * 8};
            if (number + 1 < blocks)
                next = element(hashed_block(&message[m], input, text, number));
            sum = multiplied(added(sum, next), key);
        }
        store_element(stripe_values(scratch, messages, stripe), sum);
    }
}

// A pass of folding: a thread joins some values.
KERNEL void gcm_fold(__global const uchar *input, __global const uint *keys, __global uint *scratch,
                     uint messages, uint shift, ulong threads) {
    __global const Message *message = (__global const Message *)input;
    FOR_UNITS(thread, threads, 1) {
        uint m;
        Fold fold = fold_of(message, messages, thread, shift, &m);
        if (fold.count == 0) continue;
        Element power = load_element(keys + message[m].key * AES_SLOT + HASH_POWER);
        for (uint i = 0; i < shift; i++) power = multiplied(power, power);
        Element sum = {0, 0};
        for (uint i = fold.count; i-- > 0;) {
            ulong stripe = fold.first + ((ulong)i << shift);
            sum = added(multiplied(sum, power),
                        load_element(stripe_values(scratch, messages, stripe)));
        }
        store_element(fold.is_all ? scratch + m * MESSAGE_WORDS
                                  : stripe_values(scratch, messages, fold.first), sum);
    }
}

// A thread a message: writes its tag, or compares (`opens`) and writes a verdict, 0 for a right tag.
KERNEL void gcm_tags(__global const uchar *input, __global uchar *output, __global const uint *keys,
                     uint rounds, __global uint *scratch, uint messages, uint opens) {
    FILL_TABLES(false)
    __global const Message *message = (__global const Message *)input;
    FOR_UNITS(m, messages, 1) {
        __global const uint *key = keys + message[m].key * AES_SLOT;
        ulong stripes = stripes_of(&message[m]);
        Element sum = {0, 0};
        if (stripes <= JOINED_STRIPES) {
            Element power = load_element(key + HASH_POWER);
            for (ulong i = stripes; i-- > 0;)
                sum = added(multiplied(sum, power),
                            load_element(stripe_values(scratch, messages, message[m].stripes + i)));
        } else {
            sum = load_element(scratch + m * MESSAGE_WORDS);
        }
        __global const uint *iv = message[m].iv;
        uint4 tag = (uint4)(iv[0], iv[1], iv[2], swap_bytes(1));
        tag = aes_encrypt(tag, key, rounds, tables) ^ block_of(sum);
        if (opens) {
            tag ^= load_block(input + message[m].input + message[m].length, 16);
            ((__global uint *)output)[m] = tag.x | tag.y | tag.z | tag.w;
        } else {
            store_block(output + message[m].output + message[m].length, tag, 16);
        }
    }
}
