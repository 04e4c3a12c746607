# An update finds what has changed, also at once, and takes nothing else.
file_systems="local sshfs bindfs bindfs_ctime bindfs_slow mergerfs exfat_private ntfs_private"

scene() {
    mkdir plain
    for number in 1 2 3 4 5 6 7 8 9; do echo "$number" >"plain/$number"; done
    # Older than any tick of a clock.
    touch -d '2020-02-02 02:02:02' plain/*
    let_time_pass
    run 0 encrypt -k "$key" plain "$there/sealed"
    # Not a second later.
    for _ in 1 2; do
        run 0 encrypt -k "$key" --update plain "$there/sealed"
        printed '9 unchanged'
        not_printed updated
        told_once
    done
    run 0 encrypt -k "$key" --resume plain "$there/sealed"
    printed '9 complete already'
    # Where modes don't hold, a run that writes nothing can't find that out.
    if [[ $on != @(exfat_private|ntfs_private) ]]; then
        run 0 encrypt -k "$key" --update --dry-run plain "$there/sealed"
        printed '9 unchanged'
    fi
    run 0 encrypt -k "$key" --update --ignore-ctime plain "$there/sealed"
    printed '9 unchanged'
    not_printed 'when files were changed'

    echo longer >plain/1
    touch -d '2021-01-01' plain/2
    run 0 encrypt -k "$key" --update plain "$there/sealed"
    printed '2 updated; 7 unchanged'
    let_time_pass
    run 0 decrypt -k "$key" "$there/sealed" back
    same plain back
    run 0 decrypt -k "$key" "$there/sealed" "$there/back"
    run 0 decrypt -k "$key" --update "$there/sealed" "$there/back"
    printed '9 unchanged'
    same plain "$there/back"

    # What has changed since is named with both values.
    echo much longer >plain/3
    touch -d '2020-02-02 02:02:02' plain/3
    touch -d '1996-01-01 00:00:00 UTC' plain/4
    run 1 encrypt -k "$key" --resume plain "$there/sealed"
    printed '3: the output `3.enc` exists but has 74 bytes, not 84;'
    printed '4: the output `4.enc` exists but was modified on 20[-0-9]+ [0-9:.]+ and its source on 1996-01-01 00:00:00[.0]* \(UTC\)'
    printed_times 2 'exists but'
}

# Where nothing shows a change but size and time, one line says so.
told_once() {
    case $on in
        sshfs | bindfs_ctime | exfat_private) printed_times 1 'keep when files were changed' ;;
        *) not_printed 'when files were changed' ;;
    esac
}
