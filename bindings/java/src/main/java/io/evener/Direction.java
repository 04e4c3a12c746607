package io.evener;

/** Whether a session encrypts or decrypts. */
public enum Direction {
    ENCRYPT,
    DECRYPT;

    int number() {
        return ordinal();
    }
}
