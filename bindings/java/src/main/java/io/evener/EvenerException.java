package io.evener;

import java.util.Optional;

/**
 * Why a call did not do everything: its status, and one line that says what to do next. That of an
 * operation on files has its report.
 */
public final class EvenerException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** What kind of trouble it is. */
    private final Status status;

    /** What an operation on files did, or null. */
    private final transient Report report;

    EvenerException(Status status, String message, Report report) {
        super(message);
        this.status = status;
        this.report = report;
    }

    /** What kind of trouble it is. */
    public Status status() {
        return status;
    }

    /**
     * The report of an operation on files: what was done, and the files that failed. Empty if the
     * options or engines can't be used, so that nothing was tried.
     */
    public Optional<Report> report() {
        return Optional.ofNullable(report);
    }
}
