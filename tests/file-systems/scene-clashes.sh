# Two sources whose names are one there keep their content, whichever run they belong to.
file_systems="ntfs_ignore_case"

scene() {
    local how number=0
    mkdir -p one/Tree two/tree three
    echo one | tee one/Notes >one/Tree/file
    echo two | tee two/notes >two/tree/file
    touch -d 2020-01-01 one/Notes two/notes one/Tree/file two/tree/file
    for how in "" --overwrite --update --resume; do
        number=$((number + 1))
        # shellcheck disable=SC2086
        run 1 encrypt -k "$key" $how one/Notes two/notes "$there/$number/"
        printed 'another source has the output `notes.enc` already'
        opens "$there/$number/Notes.enc" one
        # shellcheck disable=SC2086
        run 1 encrypt -k "$key" $how one/Tree two/tree "$there/$number/"
        printed 'another source has the output `tree` already'
        opens "$there/$number/Tree/file.enc" one
    done
    run 0 encrypt -k "$key" one/Notes sealed.enc
    run 0 encrypt -k "$key" two/notes SEALED.enc
    run 1 decrypt -k "$key" --insecure-modes --overwrite sealed.enc SEALED.enc "$there/plain/"
    printed 'another source has the output `SEALED` already'
    [ "$(cat "$there/plain/sealed")" = one ] || fail "it has been replaced"

    # Sources that are removed.
    for how in --overwrite --resume; do
        cp -a one two three
        run 1 encrypt -k "$key" $how --remove-source three/one/Notes three/two/notes "$there/moved$how/"
        printed 'another source has the output'
        [ ! -e three/one/Notes ] || fail "the first was kept"
        [ -e three/two/notes ] || fail "the second was removed"
        opens "$there/moved$how/Notes.enc" one
    done

    # One tree, run by run.
    mkdir tree
    echo one >tree/README
    echo two >tree/Readme
    touch -d 2020-01-01 tree/*
    run 1 encrypt -k "$key" --remove-source tree "$there/tree"
    printed_times 1 'another source has the output'
    not_printed '--(overwrite|resume)'
    for how in first second; do
        run 1 encrypt -k "$key" --resume --remove-source tree "$there/tree"
        printed 'another source has the output'
        [ "$(ls tree | wc -l)" -eq 1 ] || fail "no source is left, or two"
    done
    opens "$there/tree/README.enc" "$([ -e tree/Readme ] && echo one || echo two)"
    # A source whose own output is there is removed.
    mkdir whole
    echo whole | tee whole/Name >whole/other
    run 0 encrypt -k "$key" whole "$there/whole"
    run 0 encrypt -k "$key" --resume --remove-source whole "$there/whole"
    [ -z "$(ls whole)" ] || fail "a source was kept"
}

# An encrypted file holds one line.
opens() {
    [ "$("$evener" decrypt -qk "$key" "$1" -)" = "$2" ] || fail "$1 does not hold $2"
}
