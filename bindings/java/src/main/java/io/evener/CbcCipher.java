package io.evener;

import static java.lang.foreign.ValueLayout.JAVA_BYTE;

import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import javax.crypto.BadPaddingException;
import javax.crypto.IllegalBlockSizeException;
import javax.crypto.ShortBufferException;

/**
 * AES-CBC (NIST SP 800-38A) as a stream. An incomplete block waits for more input; when decrypting
 * with padding, so does the last block.
 */
final class CbcCipher extends AesCipher {
    private final Padding padding;
    /** The IV of the next block. */
    private final byte[] chain = new byte[BLOCK];
    private final byte[] held = new byte[BLOCK];
    private final MemorySegment heldSegment = MemorySegment.ofArray(held);
    private int heldLength;
    /** How much of the input was taken and is not to be held. */
    private long taken;

    CbcCipher(Padding padding) {
        super("cbc", BLOCK);
        this.padding = padding;
    }

    @Override
    void begin() {
        System.arraycopy(iv(), 0, chain, 0, BLOCK);
        Arrays.fill(held, (byte) 0);
        heldLength = 0;
        taken = 0;
    }

    @Override
    long longestOutput(long length, boolean last) {
        long total = heldLength + length;
        if (last) {
            return pads() ? total - total % BLOCK + BLOCK : total;
        }
        return ready(total);
    }

    @Override
    long transform(MemorySegment input, MemorySegment output, boolean last)
            throws ShortBufferException, IllegalBlockSizeException, BadPaddingException {
        long total = heldLength + input.byteSize();
        if (!last) {
            needRoom(output, ready(total));
            long written = blocks(input, output, ready(total));
            hold(input);
            return written;
        }
        if (!pads() && total % BLOCK != 0) {
            throw new IllegalBlockSizeException(total + " bytes are no whole blocks");
        }
        long written;
        if (pads()) {
            needRoom(output, longestOutput(input.byteSize(), true));
            written = blocks(input, output, total - total % BLOCK);
            hold(input);
            MemorySegment tail = heldSegment.asSlice(0, heldLength);
            written += crypt(padding, chain, MemorySegment.NULL, tail, output.asSlice(written));
        } else if (padding == Padding.PKCS7 && total > 0) {
            written = unpad(input, output, total);
        } else {
            needRoom(output, total);
            written = blocks(input, output, total);
        }
        begin();
        return written;
    }

    /** Decrypts the last block first, because only that tells how much room is needed. */
    private long unpad(MemorySegment input, MemorySegment output, long total)
            throws ShortBufferException, BadPaddingException {
        byte[] lastTwo = new byte[2 * BLOCK];
        MemorySegment ends = MemorySegment.ofArray(lastTwo);
        MemorySegment.copy(chain, 0, ends, JAVA_BYTE, 0, BLOCK);
        for (long index = Math.max(0, total - 2 * BLOCK); index < total; index++) {
            byte next =
                    index < heldLength
                            ? held[(int) index]
                            : input.get(JAVA_BYTE, index - heldLength);
            lastTwo[(int) (2 * BLOCK - total + index)] = next;
        }
        byte[] before = Arrays.copyOf(lastTwo, BLOCK);
        byte[] plain = new byte[BLOCK];
        try {
            MemorySegment result = MemorySegment.ofArray(plain);
            MemorySegment block = ends.asSlice(BLOCK);
            long tail = crypt(padding, before, MemorySegment.NULL, block, result);
            needRoom(output, total - BLOCK + tail);
            long written = blocks(input, output, total - BLOCK);
            MemorySegment.copy(result, 0, output, written, tail);
            return written + tail;
        } finally {
            Arrays.fill(plain, (byte) 0);
        }
    }

    /** Does so many bytes, whole blocks, of what is held and the input. */
    private long blocks(MemorySegment input, MemorySegment output, long length)
            throws BadPaddingException {
        if (length == 0) {
            return 0;
        }
        long done = 0;
        if (heldLength > 0) {
            taken = BLOCK - heldLength;
            MemorySegment.copy(input, 0, heldSegment, heldLength, taken);
            done = piece(heldSegment, output.asSlice(0, BLOCK));
            heldLength = 0;
        }
        while (done < length) {
            long size = Math.min(length - done, Session.LONGEST_IN_HEAP);
            piece(input.asSlice(taken, size), output.asSlice(done, size));
            taken += size;
            done += size;
        }
        return done;
    }

    private long piece(MemorySegment input, MemorySegment output) throws BadPaddingException {
        long length = crypt(Padding.NONE, chain, MemorySegment.NULL, input, output);
        MemorySegment ciphertext = direction() == Direction.ENCRYPT ? output : input;
        MemorySegment.copy(ciphertext, length - BLOCK, MemorySegment.ofArray(chain), 0, BLOCK);
        return length;
    }

    private void hold(MemorySegment input) {
        long rest = input.byteSize() - taken;
        MemorySegment.copy(input, taken, heldSegment, heldLength, rest);
        heldLength += (int) rest;
        taken = 0;
    }

    /** How much of so many bytes can be put out before it is known what follows. */
    private long ready(long total) {
        boolean keepsLast = padding == Padding.PKCS7 && direction() == Direction.DECRYPT;
        return keepsLast && total > 0 ? (total - 1) / BLOCK * BLOCK : total - total % BLOCK;
    }

    private boolean pads() {
        return padding == Padding.PKCS7 && direction() == Direction.ENCRYPT;
    }
}
