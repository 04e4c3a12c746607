# A tree goes there and comes back.
file_systems="local sshfs bindfs mergerfs exfat ntfs"

scene() {
    mkdir -p plain/below plain/empty
    echo one >plain/one
    head -c 3000000 /dev/urandom >plain/below/long
    run 0 encrypt -k "$key" plain "$there/sealed"
    run 0 verify -k "$key" "$there/sealed"
    run 0 decrypt -k "$key" "$there/sealed" back
    same plain back
}
