package io.evener;

/**
 * How an operation on files is to be done. An operation does not begin with options that contradict
 * each other. The order is that of the bits in evener.h.
 */
public enum FileOption {
    /** Skip files whose output is complete. Not with {@link #UPDATE}. */
    RESUME,
    /** Replace outputs that exist; otherwise they are errors. */
    OVERWRITE,
    /**
     * Remove each source once its output has been read back, compared and synced. Neither with {@link
     * #UPDATE} nor with {@link #FOLLOW_SYMLINKS}, nor to decrypt files of {@code openssl enc}, which
     * nothing authenticates.
     */
    REMOVE_SOURCE,
    /** Have every output on the device before the operation ends. */
    DURABLE,
    /**
     * Take what symbolic links point to, instead of recreating the links. Not with {@link
     * #REMOVE_SOURCE}.
     */
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
    /**
     * Bring outputs up to date: replace those whose source has changed, leave all others. Neither with
     * {@link #RESUME} nor with {@link #REMOVE_SOURCE}.
     */
    UPDATE,
    /** Leave out files that change while they are read. */
    SKIP_CHANGING,
    /** With {@link #UPDATE}: go by size and time, and not by the time of change. */
    IGNORE_CTIME,
    /**
     * When decrypting, write plaintext also where the file system takes no modes and others could read
     * it (FAT, exFAT, NTFS), which is refused otherwise; and take the modes that such a file system
     * shows for sources.
     */
    INSECURE_MODES,
    /** Take nothing below directories on other file systems than that of the source. */
    ONE_FILE_SYSTEM,
    /**
     * With {@link FileKey#ofAge}, encrypt a file or a pipe to ASCII armor. Reading needs no option. Not
     * with {@link #RESUME}, {@link #UPDATE}, {@link #REMOVE_SOURCE} or {@link #DRY_RUN}.
     */
    ARMOR;

    int flag() {
        return 1 << ordinal();
    }
}
