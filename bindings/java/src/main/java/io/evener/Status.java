package io.evener;

/** What became of a call of the C library. The order is that of the numbers in evener.h. */
public enum Status {
    OK,
    INVALID_ARGUMENT,
    UNKNOWN_CIPHER,
    INVALID_KEY,
    ENGINE_UNAVAILABLE,
    NOT_OFFERED,
    ENGINE_FAILED,
    AUTHENTICATION_FAILED,
    BAD_PADDING,
    MALFORMED_JOB,
    PENDING,
    KEY_FILE,
    FILE,
    INCOMPLETE,
    CANCELLED,
    BUSY,
    INTERNAL;

    private static final Status[] ALL = values();

    int number() {
        return ordinal();
    }

    /** Numbers of a later library are defects to this one. */
    static Status of(int number) {
        return number >= 0 && number < ALL.length ? ALL[number] : INTERNAL;
    }
}
