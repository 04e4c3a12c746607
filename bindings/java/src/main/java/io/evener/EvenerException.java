package io.evener;

/** Why a call did not do everything: its status, and one line that says what to do next. */
public final class EvenerException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** What kind of trouble it is. */
    private final Status status;

    EvenerException(Status status, String message) {
        super(message);
        this.status = status;
    }

    /** What kind of trouble it is. */
    public Status status() {
        return status;
    }
}
