package io.evener;

/** Whether messages of ECB and CBC are padded to whole blocks. */
public enum Padding {
    /** The message is whole blocks, or the cipher needs none. */
    NONE,
    /** One to a block's length of bytes that hold their number (RFC 5652). */
    PKCS7;

    int number() {
        return ordinal();
    }
}
