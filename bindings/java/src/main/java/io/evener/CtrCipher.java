package io.evener;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import javax.crypto.BadPaddingException;
import javax.crypto.ShortBufferException;

/** AES-CTR (NIST SP 800-38A) as a stream: each call goes on within the block of the last. */
final class CtrCipher extends AesCipher {
    /** The counter of the next block, or of the one that is begun. */
    private final byte[] counter = new byte[BLOCK];
    /** How much of a block was used up. */
    private int begun;

    CtrCipher() {
        super("ctr", BLOCK);
    }

    @Override
    void begin() {
        System.arraycopy(iv(), 0, counter, 0, BLOCK);
        begun = 0;
    }

    @Override
    long longestOutput(long length, boolean last) {
        return length;
    }

    @Override
    long transform(MemorySegment input, MemorySegment output, boolean last)
            throws ShortBufferException, BadPaddingException {
        long length = input.byteSize();
        needRoom(output, length);
        long done = finishBlock(input, output);
        while (done < length) {
            long piece = Math.min(length - done, Session.LONGEST_IN_HEAP);
            crypt(
                    Padding.NONE,
                    counter,
                    MemorySegment.NULL,
                    input.asSlice(done, piece),
                    output.asSlice(done, piece));
            advance(piece);
            done += piece;
        }
        if (last) {
            begin();
        }
        return length;
    }

    /** Does what is left of a block that was begun, and returns how much that is. */
    private long finishBlock(MemorySegment input, MemorySegment output)
            throws BadPaddingException {
        int length = (int) Math.min(begun == 0 ? 0 : BLOCK - begun, input.byteSize());
        if (length == 0) {
            return 0;
        }
        byte[] block = new byte[BLOCK];
        byte[] result = new byte[BLOCK];
        MemorySegment from = MemorySegment.ofArray(block);
        MemorySegment to = MemorySegment.ofArray(result);
        MemorySegment.copy(input, 0, from, begun, length);
        crypt(Padding.NONE, counter, MemorySegment.NULL, from, to);
        MemorySegment.copy(to, begun, output, 0, length);
        // The rest of the result is the key stream of what is yet to come.
        Arrays.fill(block, (byte) 0);
        Arrays.fill(result, (byte) 0);
        advance(length);
        return length;
    }

    /** Adds to the counter, a number of 128 bits with the highest first. */
    private void advance(long length) {
        long carry = (begun + length) / BLOCK;
        begun = (int) ((begun + length) % BLOCK);
        for (int index = BLOCK - 1; index >= 0 && carry > 0; index--) {
            carry += counter[index] & 0xFF;
            counter[index] = (byte) carry;
            carry >>>= 8;
        }
    }
}
