# Files are stored where `chmod` fails or does nothing, and a run says so once.
file_systems="bindfs_chmod_deny bindfs_chmod_ignore vfat exfat ntfs"

scene() {
    mkdir -p plain/below
    echo one >plain/one
    echo two >plain/below/two
    chmod 640 plain/one
    chmod 750 plain/below
    run 0 encrypt -k "$key" plain "$there/sealed"
    if [ "$on" != bindfs_chmod_ignore ]; then printed_times 1 "sets no modes"; fi
    run 0 verify -k "$key" "$there/sealed"
    not_printed "sets no modes"
    run 0 encrypt -k "$key" --update plain "$there/sealed"
    run 0 encrypt -k "$key" plain/one "$there/one.enc"
    # Where the call fails.
    case $on in vfat | bindfs_chmod_deny) printed_times 1 "sets no modes" ;; esac
    run 0 encrypt -k "$key" --durable plain/one "$there/durable.enc"
    "$evener" encrypt -k "$key" - "$there/piped.enc" <plain/one 2>/dev/null
    for name in one durable piped; do
        run 0 decrypt -k "$key" "$there/$name.enc" "$name"
        cmp "$name" plain/one
    done
    run 0 decrypt -k "$key" "$there/sealed" back
    same plain back
    # A file system that shows one mode for all files says nothing of who may read them.
    if [ "$on" = exfat ]; then
        printed "its file system gives all files one mode"
        [ "$(stat -c %a back/one back/below one | sort -u)" = 700 ] || fail "others may read it"
        run 0 decrypt -k "$key" --insecure-modes "$there/sealed" shown
        [ "$(stat -c %a shown/one)" = 777 ] || fail "it has not the mode that is shown"
    fi
}
