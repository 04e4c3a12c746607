# Plaintext does not go where others can read it, whatever mode it is to have.
file_systems="exfat ntfs exfat_private ntfs_private ntfs_permissions bindfs rclone local"

scene() {
    mkdir -p plain/below
    echo secret >plain/one
    echo two >plain/below/two
    chmod 600 plain/one
    run 0 encrypt -k "$key" plain sealed
    cp -p sealed/one.enc open.enc
    chmod 666 open.enc
    case $on in
        exfat | ntfs) refused ;;
        *) taken ;;
    esac
}

refused() {
    local words="others could read the plaintext there.*--insecure-modes"
    run 2 decrypt -k "$key" sealed "$there/new"
    printed "$there/new: $words"
    run 2 decrypt -k "$key" --only one sealed "$there/new"
    run 2 decrypt -k "$key" sealed/one.enc "$there/one"
    printed "$there/one: $words"
    run 1 decrypt -k "$key" sealed/one.enc open.enc "$there/"
    rm "$there/open"
    (umask 077 && ! "$evener" decrypt -k "$key" - "$there/one" <sealed/one.enc 2>"$output") ||
        fail "it was taken"
    printed "$there/one: $words"
    # What a dry run can know of the directory without making anything there.
    if [ "$on" = exfat ]; then run 2 decrypt -k "$key" --dry-run sealed "$there"; fi
    [ -z "$(ls -A "$there")" ] || fail "it has left $(ls -A "$there")"
    run 0 decrypt -k "$key" --insecure-modes sealed "$there/all"
    same plain "$there/all"
    run 2 decrypt -k "$key" --update sealed "$there/all"
    run 0 decrypt -k "$key" open.enc "$there/open"
    (umask 077 && "$evener" decrypt -k "$key" --insecure-modes - "$there/piped" <sealed/one.enc) \
        2>"$output" || fail "it was refused"
}

taken() {
    run 0 decrypt -k "$key" --dry-run sealed "$there/all"
    run 0 decrypt -k "$key" sealed "$there/all"
    same plain "$there/all"
    run 0 decrypt -k "$key" --only one sealed "$there/part"
    run 0 decrypt -k "$key" sealed/one.enc "$there/one"
    (umask 077 && "$evener" decrypt -k "$key" - "$there/piped" <sealed/one.enc 2>"$output") ||
        fail "it was refused"
}
