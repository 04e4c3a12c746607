# Hard links go there and come back: as links where that shows, as files of their own elsewhere.
file_systems="local sshfs bindfs mergerfs exfat_private ntfs_private"

scene() {
    mkdir -p plain/below
    echo one >plain/one
    ln plain/one plain/two
    ln plain/one plain/below/three
    head -c 300000 /dev/urandom >plain/long
    ln plain/long plain/below/long
    touch -d '2020-02-02 02:02:02' plain/one plain/long
    let_time_pass
    run 0 encrypt -k "$key" plain "$there/sealed"
    told_once
    run 0 encrypt -k "$key" --update plain "$there/sealed"
    printed '5 unchanged|2 unchanged'
    told_once
    run 0 encrypt -k "$key" --resume plain "$there/sealed"
    printed '[25] complete already'
    run 0 encrypt -k "$key" --overwrite plain "$there/sealed"
    [ "$(find "$there" -name '.evener-*' | wc -l)" -eq 0 ] || fail "a temporary file is left"
    run 0 decrypt -k "$key" "$there/sealed" back
    same plain back

    run 0 encrypt -k "$key" plain sealed
    let_time_pass
    run 0 decrypt -k "$key" sealed "$there/back"
    same plain "$there/back"
    run 0 decrypt -k "$key" --update sealed "$there/back"
    printed '[25] unchanged'
    same plain "$there/back"

    # Sources are removed, here and there.
    cp -a sealed moved
    run 0 decrypt -k "$key" --remove-source moved "$there/moved"
    same plain "$there/moved"
    nothing_left moved
    run 0 encrypt -k "$key" --remove-source "$there/moved" again
    nothing_left "$there/moved"
    run 0 decrypt -k "$key" again plain-again
    same plain plain-again
}

# Where links don't show, one line says so.
told_once() {
    case $on in
        local | bindfs | ntfs_private) not_printed "of their own" ;;
        *) printed_times 1 "3 hard links are stored as files of their own" ;;
    esac
    not_printed "another run"
}

nothing_left() { [ -z "$(find "$1" -type f)" ] || fail "sources are left in $1"; }
