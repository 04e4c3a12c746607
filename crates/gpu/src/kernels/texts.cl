// The kernels that read and write texts with AES, for one layout of its tables: ECB, CBC and CTR
// (NIST SP 800-38A), of GCM what encrypts, and XTS. A thread does a block at a time.

#undef FOR_LAYOUT_UNITS
#define FOR_LAYOUT_UNITS(unit, total, each) FOR_UNITS_IN(LAYOUT_GROUP, unit, total, each)

LAYOUT_KERNEL void LAYOUT(aes_ecb_encrypt)(
    __global const uchar *input, __global uchar *output, __global const uint *keys, uint rounds,
    uint messages, ulong units, uint each LAYOUT_PARAMETER) {
    FILL_TABLES(false)
    __global const Message *message = (__global const Message *)input;
    uint m = 0;
    FOR_LAYOUT_UNITS(unit, units, each) {
        m = find_message(message, messages, unit, m);
        ulong offset = (unit - message[m].first) * 16;
        uint4 block = load_block(input + message[m].input + offset, 16);
        block = LAYOUT(aes_encrypt)(block, keys + message[m].key * AES_SLOT, rounds, tables);
        store_block(output + message[m].output + offset, block, 16);
    }
}

LAYOUT_KERNEL void LAYOUT(aes_ecb_decrypt)(
    __global const uchar *input, __global uchar *output, __global const uint *keys, uint rounds,
    uint messages, ulong units, uint each LAYOUT_PARAMETER) {
    FILL_TABLES(true)
    __global const Message *message = (__global const Message *)input;
    uint m = 0;
    FOR_LAYOUT_UNITS(unit, units, each) {
        m = find_message(message, messages, unit, m);
        ulong offset = (unit - message[m].first) * 16;
        uint4 block = load_block(input + message[m].input + offset, 16);
        block = LAYOUT(aes_decrypt)(block, keys + message[m].key * AES_SLOT, rounds, tables);
        store_block(output + message[m].output + offset, block, 16);
    }
}

LAYOUT_KERNEL void LAYOUT(aes_cbc_decrypt)(
    __global const uchar *input, __global uchar *output, __global const uint *keys, uint rounds,
    uint messages, ulong units, uint each LAYOUT_PARAMETER) {
    FILL_TABLES(true)
    __global const Message *message = (__global const Message *)input;
    uint m = 0;
    FOR_LAYOUT_UNITS(unit, units, each) {
        m = find_message(message, messages, unit, m);
        ulong offset = (unit - message[m].first) * 16;
        __global const uchar *from = input + message[m].input + offset;
        uint4 block = load_block(from, 16);
        block = LAYOUT(aes_decrypt)(block, keys + message[m].key * AES_SLOT, rounds, tables);
        block ^= offset == 0 ? *(__global const uint4 *)message[m].iv : load_block(from - 16, 16);
        store_block(output + message[m].output + offset, block, 16);
    }
}

LAYOUT_KERNEL void LAYOUT(aes_ctr)(
    __global const uchar *input, __global uchar *output, __global const uint *keys, uint rounds,
    uint messages, ulong units, uint each LAYOUT_PARAMETER) {
    FILL_TABLES(false)
    __global const Message *message = (__global const Message *)input;
    Stretch stretch = {0, 0, (uint4)(0, 0, 0, 0)};
    ulong stretch_number = 0;
    uint m = 0, stretch_message = 0xffffffffu;
    FOR_LAYOUT_UNITS(unit, units, each) {
        m = find_message(message, messages, unit, m);
        ulong number = unit - message[m].first, offset = number * 16;
        uint bytes = bytes_at(message[m].length, offset, 16);
        __global const uint *key = keys + message[m].key * AES_SLOT;
        ulong counter = number + (message[m].iv[3] >> 24);
        if (m != stretch_message || counter >> 8 != stretch_number) {
            stretch = LAYOUT(aes_stretch)(advance_counter(message[m].iv, number), key, tables);
            stretch_message = m;
            stretch_number = counter >> 8;
        }
        uint4 block = LAYOUT(aes_encrypt_counter)(stretch, (uint)counter, key, rounds, tables);
        block ^= load_block(input + message[m].input + offset, bytes);
        store_block(output + message[m].output + offset, block, bytes);
    }
}

// Encrypts, or decrypts (`opens`) and writes zeros for messages with a wrong tag.
LAYOUT_KERNEL void LAYOUT(gcm_crypt)(
    __global const uchar *input, __global uchar *output, __global const uint *keys, uint rounds,
    uint messages, ulong units, uint each, uint opens LAYOUT_PARAMETER) {
    FILL_TABLES(false)
    __global const Message *message = (__global const Message *)input;
    __global const uint *verdicts = (__global const uint *)output;
    Stretch stretch = {0, 0, (uint4)(0, 0, 0, 0)};
    uint m = 0, stretch_message = 0xffffffffu, stretch_number = 0;
    FOR_LAYOUT_UNITS(unit, units, each) {
        m = find_message(message, messages, unit, m);
        ulong number = unit - message[m].first, offset = number * 16;
        uint bytes = bytes_at(message[m].length, offset, 16);
        __global const uint *key = keys + message[m].key * AES_SLOT;
        uint counter = (uint)number + 2;
        if (m != stretch_message || counter >> 8 != stretch_number) {
            __global const uint *iv = message[m].iv;
            uint4 first = (uint4)(iv[0], iv[1], iv[2], swap_bytes(counter));
            stretch = LAYOUT(aes_stretch)(first, key, tables);
            stretch_message = m;
            stretch_number = counter >> 8;
        }
        uint4 block = LAYOUT(aes_encrypt_counter)(stretch, counter, key, rounds, tables);
        block ^= load_block(input + message[m].input + offset, bytes);
        if (opens && verdicts[m] != 0) block = (uint4)(0, 0, 0, 0);
        store_block(output + message[m].output + offset, block, bytes);
    }
}

// The counter mode of AES-GCM in place, for a text that lies in the device's memory for good.
// `counter` is that of the first block; the IV's words are as in a message's entry. The key is in
// the first slot.
LAYOUT_KERNEL void LAYOUT(gcm_crypt_in_place)(
    __global uchar *text, ulong start, ulong length, __global const uint *keys, uint rounds,
    uint iv0, uint iv1, uint iv2, uint counter, ulong units, uint each LAYOUT_PARAMETER) {
    FILL_TABLES(false)
    Stretch stretch = {0, 0, (uint4)(0, 0, 0, 0)};
    uint stretch_number = 0xffffffffu;
    FOR_LAYOUT_UNITS(unit, units, each) {
        ulong offset = unit * 16;
        uint bytes = bytes_at(length, offset, 16);
        uint number = (uint)unit + counter;
        if (number >> 8 != stretch_number) {
            stretch = LAYOUT(aes_stretch)((uint4)(iv0, iv1, iv2, swap_bytes(number)), keys, tables);
            stretch_number = number >> 8;
        }
        uint4 block = LAYOUT(aes_encrypt_counter)(stretch, number, keys, rounds, tables);
        block ^= load_block(text + start + offset, bytes);
        store_block(text + start + offset, block, bytes);
    }
}

// The kernels' loop: `CIPHER(block)` encrypts or decrypts a block. A thread a block; that of the
// last whole block does the incomplete one too. `opens` says which of the two comes first.
#undef XTS_LOOP
#define XTS_LOOP(CIPHER, opens)                                                                  \
    __global const Message *message = (__global const Message *)input;                           \
    uint m = 0, last_message = 0xffffffffu;                                                      \
    ulong last_unit = 0;                                                                         \
    Tweak t = {0, 0};                                                                            \
    FOR_LAYOUT_UNITS(unit, units, each) {                                                        \
        m = find_message(message, messages, unit, m);                                            \
        ulong number = unit - message[m].first, length = message[m].length;                      \
        bool follows = m == last_message && unit == last_unit + LANES;                           \
        t = tweak_of(scratch + m * MESSAGE_WORDS, number, follows, t);                           \
        last_message = m;                                                                        \
        last_unit = unit;                                                                        \
        __global const uint *key = keys + message[m].key * AES_SLOT;                             \
        __global const uchar *from = input + message[m].input + number * 16;                     \
        __global uchar *to = output + message[m].output + number * 16;                           \
        uint rest = (uint)(length & 15);                                                         \
        bool steals = rest > 0 && number + 1 == length / 16;                                     \
        uint4 tweak = tweak_block(t), next = tweak_block(tweak_doubled(t));                      \
        uint4 used = steals && opens ? next : tweak;                                             \
        uint4 block = load_block(from, 16) ^ used;                                               \
        block = CIPHER(block) ^ used;                                                            \
        if (steals) {                                                                            \
            uint4 other = load_block(from + 16, rest);                                           \
            store_block(to + 16, block, rest);                                                   \
            used = opens ? tweak : next;                                                         \
            block = joined(other, block, rest) ^ used;                                           \
            block = CIPHER(block) ^ used;                                                        \
        }                                                                                        \
        store_block(to, block, 16);                                                              \
    }

LAYOUT_KERNEL void LAYOUT(xts_encrypt)(
    __global const uchar *input, __global uchar *output, __global const uint *keys, uint rounds,
    __global const uint *scratch, uint messages, ulong units, uint each LAYOUT_PARAMETER) {
    FILL_TABLES(false)
#undef ENCRYPT
#define ENCRYPT(block) LAYOUT(aes_encrypt)(block, key, rounds, tables)
    XTS_LOOP(ENCRYPT, false)
}

LAYOUT_KERNEL void LAYOUT(xts_decrypt)(
    __global const uchar *input, __global uchar *output, __global const uint *keys, uint rounds,
    __global const uint *scratch, uint messages, ulong units, uint each LAYOUT_PARAMETER) {
    FILL_TABLES(true)
#undef DECRYPT
#define DECRYPT(block) LAYOUT(aes_decrypt)(block, key, rounds, tables)
    XTS_LOOP(DECRYPT, true)
}
