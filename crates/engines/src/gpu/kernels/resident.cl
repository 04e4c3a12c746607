// Texts that lie in the device's memory for good.

// The counter mode of AES-GCM in place. `counter` is that of the first block; the IV's words are as in
// a message's entry. The key is in the first slot.
KERNEL void gcm_crypt_in_place(__global uchar *text, ulong start, ulong length,
                               __global const uint *keys, uint rounds, uint iv0, uint iv1, uint iv2,
                               uint counter, ulong units, uint each) {
    __local uint shared[256 * LANES];
    fill_encryption_table(shared);
    __local const uint *table = shared + LOCAL_ID % LANES;
    FOR_UNITS(unit, units, each) {
        ulong offset = unit * 16;
        uint bytes = bytes_at(length, offset, 16);
        uint4 block = (uint4)(iv0, iv1, iv2, swap_bytes((uint)unit + counter));
        block = aes_encrypt(block, keys, rounds, table);
        block ^= load_block(text + start + offset, bytes);
        store_block(text + start + offset, block, bytes);
    }
}
