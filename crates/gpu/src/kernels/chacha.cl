// ChaCha20-Poly1305 (RFC 8439). Nothing here looks anything up.

// Words in a slot: the key.
#define CHACHA_SLOT 8u

#define QUARTER(a, b, c, d)                                                                      \
    a += b, d = rotate_left(d ^ a, 16), c += d, b = rotate_left(b ^ c, 12);                      \
    a += b, d = rotate_left(d ^ a, 8), c += d, b = rotate_left(b ^ c, 7)

static void chacha_block(__global const uint *key, uint nonce0, uint nonce1, uint nonce2,
                         uint counter, uint *out) {
    uint start[16] = {0x61707865u, 0x3320646eu, 0x79622d32u, 0x6b206574u};
    for (uint i = 0; i < 8; i++) start[4 + i] = key[i];
    start[12] = counter;
    start[13] = nonce0;
    start[14] = nonce1;
    start[15] = nonce2;
    uint x0 = start[0], x1 = start[1], x2 = start[2], x3 = start[3], x4 = start[4], x5 = start[5];
    uint x6 = start[6], x7 = start[7], x8 = start[8], x9 = start[9], xa = start[10];
    uint xb = start[11], xc = start[12], xd = start[13], xe = start[14], xf = start[15];
    for (uint round = 0; round < 10; round++) {
        QUARTER(x0, x4, x8, xc);
        QUARTER(x1, x5, x9, xd);
        QUARTER(x2, x6, xa, xe);
        QUARTER(x3, x7, xb, xf);
        QUARTER(x0, x5, xa, xf);
        QUARTER(x1, x6, xb, xc);
        QUARTER(x2, x7, x8, xd);
        QUARTER(x3, x4, x9, xe);
    }
    uint end[16] = {x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, xa, xb, xc, xd, xe, xf};
    for (uint i = 0; i < 16; i++) out[i] = start[i] + end[i];
}

// A thread a key.
KERNEL void chacha_expand(__global const uchar *input, ulong raw, __global uint *keys, uint slot,
                          uint count) {
    FOR_UNITS(index, count, 1)
    for (uint i = 0; i < CHACHA_SLOT; i++)
        keys[(slot + index) * CHACHA_SLOT + i] = load_word(input + raw + index * 32 + i * 4);
}

// A thread 64 bytes. As gcm_crypt.
KERNEL void chacha_crypt(__global const uchar *input, __global uchar *output,
                         __global const uint *keys, uint messages, ulong units, uint each,
                         uint opens) {
    __global const Message *message = (__global const Message *)input;
    __global const uint *verdicts = (__global const uint *)output;
    uint m = 0;
    FOR_UNITS(unit, units, each) {
        m = find_message(message, messages, unit, m);
        ulong number = unit - message[m].first;
        uint stream[16];
        __global const uint *iv = message[m].iv;
        chacha_block(keys + message[m].key * CHACHA_SLOT, iv[0], iv[1], iv[2], (uint)number + 1,
                     stream);
        bool is_forged = opens && verdicts[m] != 0;
        for (uint i = 0; i < 4; i++) {
            ulong offset = number * 64 + i * 16;
            if (offset >= message[m].length) break;
            uint bytes = bytes_at(message[m].length, offset, 16);
            uint4 block = load_block(input + message[m].input + offset, bytes);
            block ^= (uint4)(stream[4 * i], stream[4 * i + 1], stream[4 * i + 2], stream[4 * i + 3]);
            if (is_forged) block = (uint4)(0, 0, 0, 0);
            store_block(output + message[m].output + offset, block, bytes);
        }
    }
}

// ChaCha20 in place, as gcm_crypt_in_place. A thread 64 bytes.
KERNEL void chacha_crypt_in_place(__global uchar *text, ulong start, ulong length,
                                  __global const uint *keys, uint iv0, uint iv1, uint iv2,
                                  uint counter, ulong units, uint each) {
    FOR_UNITS(unit, units, each) {
        uint stream[16];
        chacha_block(keys, iv0, iv1, iv2, (uint)unit + counter, stream);
        for (uint i = 0; i < 4; i++) {
            ulong offset = unit * 64 + i * 16;
            if (offset >= length) break;
            uint bytes = bytes_at(length, offset, 16);
            uint4 block = load_block(text + start + offset, bytes);
            block ^= (uint4)(stream[4 * i], stream[4 * i + 1], stream[4 * i + 2], stream[4 * i + 3]);
            store_block(text + start + offset, block, bytes);
        }
    }
}

// A number modulo 2^130 - 5 in limbs of 26 bits, which may be one bit too long.
typedef struct {
    uint limb[5];
} Number;

#define LIMB 0x3ffffffu

static Number number_of(uint4 block, uint high) {
    Number n;
    n.limb[0] = block.x & LIMB;
    n.limb[1] = (block.x >> 26 | block.y << 6) & LIMB;
    n.limb[2] = (block.y >> 20 | block.z << 12) & LIMB;
    n.limb[3] = (block.z >> 14 | block.w << 18) & LIMB;
    n.limb[4] = block.w >> 8 | high << 24;
    return n;
}

static Number sum_of(Number x, Number y) {
    uint carry = 0;
    for (uint i = 0; i < 5; i++) {
        uint sum = x.limb[i] + y.limb[i] + carry;
        x.limb[i] = sum & LIMB;
        carry = sum >> 26;
    }
    x.limb[0] += carry * 5;
    return x;
}

static Number product_of(Number x, Number y) {
    ulong sum[5];
    for (uint i = 0; i < 5; i++) {
        sum[i] = 0;
        for (uint j = 0; j < 5; j++) {
            // x^130 = 5.
            uint factor = j <= i ? y.limb[i - j] : y.limb[i + 5 - j] * 5;
            sum[i] += (ulong)x.limb[j] * factor;
        }
    }
    ulong carry = 0;
    for (uint i = 0; i < 5; i++) {
        sum[i] += carry;
        x.limb[i] = (uint)sum[i] & LIMB;
        carry = sum[i] >> 26;
    }
    carry = carry * 5 + x.limb[0];
    x.limb[0] = (uint)carry & LIMB;
    x.limb[1] += (uint)(carry >> 26);
    return x;
}

static Number load_number(__global const uint *from) {
    Number n;
    for (uint i = 0; i < 5; i++) n.limb[i] = from[i];
    return n;
}

static void store_number(__global uint *to, Number n) {
    for (uint i = 0; i < 5; i++) to[i] = n.limb[i];
}

// A message's part of scratch: the folded value, the key, its STRIPE-th power, and what is added.
#define POLY_KEY 5u
#define POLY_POWER 10u
#define POLY_PAD 15u

// A thread a message: its one-time key.
KERNEL void poly_expand(__global const uchar *input, __global const uint *keys,
                        __global uint *scratch, uint messages) {
    __global const Message *message = (__global const Message *)input;
    FOR_UNITS(m, messages, 1) {
        uint stream[16];
        __global const uint *iv = message[m].iv;
        chacha_block(keys + message[m].key * CHACHA_SLOT, iv[0], iv[1], iv[2], 0, stream);
        __global uint *to = scratch + m * MESSAGE_WORDS;
        uint4 clamped = (uint4)(stream[0] & 0x0fffffffu, stream[1] & 0x0ffffffcu,
                                stream[2] & 0x0ffffffcu, stream[3] & 0x0ffffffcu);
        Number power = number_of(clamped, 0);
        store_number(to + POLY_KEY, power);
        for (uint i = 1; i < STRIPE; i *= 2) power = product_of(power, power);
        store_number(to + POLY_POWER, power);
        for (uint i = 0; i < 4; i++) to[POLY_PAD + i] = stream[4 + i];
    }
}

// As gcm_stripes.
KERNEL void poly_stripes(__global const uchar *input, __global const uchar *output,
                         __global uint *scratch, uint messages, ulong stripes, uint opens) {
    __global const Message *message = (__global const Message *)input;
    uint m = 0;
    FOR_UNITS(stripe, stripes, 1) {
        m = find_message_of_stripe(message, messages, stripe, m);
        ulong after = (stripe - message[m].stripes) * STRIPE, blocks = hashed_blocks(&message[m]);
        ulong number = blocks - after < STRIPE ? 0 : blocks - after - STRIPE;
        __global const uchar *text =
            opens ? input + message[m].input : output + message[m].output;
        Number key = load_number(scratch + m * MESSAGE_WORDS + POLY_KEY);
        Number sum = {{0, 0, 0, 0, 0}};
        for (; number < blocks - after; number++) {
            ulong aad = message[m].aad_length, length = message[m].length;
            uint4 next = (uint4)((uint)aad, (uint)(aad >> 32), (uint)length, (uint)(length >> 32));
            if (number + 1 < blocks) next = hashed_block(&message[m], input, text, number);
            sum = product_of(sum_of(sum, number_of(next, 1)), key);
        }
        store_number(stripe_values(scratch, messages, stripe), sum);
    }
}

// As gcm_fold.
KERNEL void poly_fold(__global const uchar *input, __global uint *scratch, uint messages, uint shift,
                      ulong threads) {
    __global const Message *message = (__global const Message *)input;
    FOR_UNITS(thread, threads, 1) {
        uint m;
        Fold fold = fold_of(message, messages, thread, shift, &m);
        if (fold.count == 0) continue;
        Number power = load_number(scratch + m * MESSAGE_WORDS + POLY_POWER);
        for (uint i = 0; i < shift; i++) power = product_of(power, power);
        Number sum = {{0, 0, 0, 0, 0}};
        for (uint i = fold.count; i-- > 0;) {
            ulong stripe = fold.first + ((ulong)i << shift);
            sum = sum_of(product_of(sum, power),
                         load_number(stripe_values(scratch, messages, stripe)));
        }
        store_number(fold.is_all ? scratch + m * MESSAGE_WORDS
                                 : stripe_values(scratch, messages, fold.first), sum);
    }
}

// The number modulo 2^130 - 5, then modulo 2^128, plus the pad.
static uint4 poly_tag(Number n, __global const uint *pad) {
    // Twice, because the first carry out of the top may start another.
    for (uint pass = 0; pass < 2; pass++) {
        uint carry = 0;
        for (uint i = 0; i < 5; i++) {
            uint sum = n.limb[i] + carry;
            n.limb[i] = sum & LIMB;
            carry = sum >> 26;
        }
        n.limb[0] += carry * 5;
    }
    // n + 5 has bit 130 if n is not less than the modulus; then n + 5 - 2^130 is taken.
    uint reduced[5], carry = 5;
    for (uint i = 0; i < 5; i++) {
        uint sum = n.limb[i] + carry;
        reduced[i] = sum & LIMB;
        carry = sum >> 26;
    }
    uint mask = 0u - (carry & 1u);
    for (uint i = 0; i < 5; i++) n.limb[i] = (n.limb[i] & ~mask) | (reduced[i] & mask);
    uint word[4] = {n.limb[0] | n.limb[1] << 26, n.limb[1] >> 6 | n.limb[2] << 20,
                    n.limb[2] >> 12 | n.limb[3] << 14, n.limb[3] >> 18 | n.limb[4] << 8};
    ulong sum = 0;
    for (uint i = 0; i < 4; i++) {
        sum = (sum >> 32) + word[i] + pad[i];
        word[i] = (uint)sum;
    }
    return (uint4)(word[0], word[1], word[2], word[3]);
}

// As gcm_tags.
KERNEL void poly_tags(__global const uchar *input, __global uchar *output, __global uint *scratch,
                      uint messages, uint opens) {
    __global const Message *message = (__global const Message *)input;
    FOR_UNITS(m, messages, 1) {
        __global const uint *own = scratch + m * MESSAGE_WORDS;
        ulong stripes = stripes_of(&message[m]);
        Number sum = {{0, 0, 0, 0, 0}};
        if (stripes <= JOINED_STRIPES) {
            Number power = load_number(own + POLY_POWER);
            for (ulong i = stripes; i-- > 0;)
                sum = sum_of(product_of(sum, power),
                             load_number(stripe_values(scratch, messages, message[m].stripes + i)));
        } else {
            sum = load_number(own);
        }
        uint4 tag = poly_tag(sum, own + POLY_PAD);
        if (opens) {
            tag ^= load_block(input + message[m].input + message[m].length, 16);
            ((__global uint *)output)[m] = tag.x | tag.y | tag.z | tag.w;
        } else {
            store_block(output + message[m].output + message[m].length, tag, 16);
        }
    }
}
