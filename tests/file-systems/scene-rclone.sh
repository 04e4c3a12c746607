# Outputs get their names where a link and a rename without replacing are answered with I/O errors.
file_systems="rclone"

scene() {
    mkdir plain
    echo one >plain/one
    ln plain/one plain/two
    run 0 encrypt -k "$key" plain "$there/sealed"
    printed_times 1 "1 hard link is stored as a file of its own"
    [ "$(find "$there/sealed" -name '*.enc' | wc -l)" -eq 2 ] || fail "not all outputs are there"
    run 0 encrypt -k "$key" --update plain "$there/sealed"
    printed '2 unchanged'
}
