package io.evener;

/** How an operation on files is to be done. The order is that of the bits in evener.h. */
public enum FileOption {
    /** Skip files whose output is complete. */
    RESUME,
    /** Replace outputs that exist; otherwise they are errors. */
    OVERWRITE,
    /** Remove each source once its output has been read back, compared and synced. */
    REMOVE_SOURCE,
    /** Have every output on the device before the operation ends. */
    DURABLE,
    /** Take what symbolic links point to, instead of recreating the links. */
    FOLLOW_SYMLINKS,
    /** Keep owner and group, which needs privilege. */
    KEEP_OWNER,
    /** Keep extended attributes. */
    KEEP_XATTRS,
    /** When decrypting, leave holes where the plaintext has whole pages of zeros. */
    SPARSE,
    /** Count what would be done and write nothing. */
    DRY_RUN,
    /** Add up all sizes while walking, so that progress can tell the remaining time. */
    MEASURE_TOTAL,
    /** Leave the cores to other programs: CPU workers use only idle CPU time. */
    BACKGROUND,
    /** Bring outputs up to date: replace those whose source has changed, leave all others. */
    UPDATE,
    /** Leave out files that change while they are read. */
    SKIP_CHANGING;

    int flag() {
        return 1 << ordinal();
    }
}
