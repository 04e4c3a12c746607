// What of AES goes step by step: the expansion of keys, and CBC encryption. It has the narrow
// layout alone, which leaves room for more groups.

static void aes_expand_one(__global const uchar *key, uint key_words, __global uint *to,
                           Tables tables) {
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
    FILL_TABLES(false)
    uint rounds = words + 6;
    FOR_UNITS(index, count, 1) {
        __global const uchar *key = input + raw + index * words * 4 * parts;
        __global uint *to = keys + (slot + index) * AES_SLOT;
        aes_expand_one(key, words, to, tables);
        for (uint round = 0; round <= rounds; round++)
            for (uint i = 0; i < 4; i++) {
                uint word = to[4 * (rounds - round) + i];
                bool is_end = round == 0 || round == rounds;
                to[AES_DECRYPTION + 4 * round + i] = is_end ? word : inverse_mix(word);
            }
        if (parts == 2) aes_expand_one(key + words * 4, words, to + AES_SECOND, tables);
    }
}


// A thread a message, because each block needs the one before it. A message is a unit here; they
// are sorted by length, so that neighbours end together.
KERNEL void aes_cbc_encrypt(__global const uchar *input, __global uchar *output,
                            __global const uint *keys, uint rounds, uint messages, ulong units,
                            uint each) {
    FILL_TABLES(false)
    __global const Message *message = (__global const Message *)input;
    FOR_UNITS(m, messages, each) {
        __global const uchar *from = input + message[m].input;
        __global uchar *to = output + message[m].output;
        __global const uint *key = keys + message[m].key * AES_SLOT;
        uint4 block = *(__global const uint4 *)message[m].iv;
        for (ulong offset = 0; offset < message[m].length; offset += 16) {
            block ^= load_block(from + offset, 16);
            block = aes_encrypt(block, key, rounds, tables);
            store_block(to + offset, block, 16);
        }
    }
}
