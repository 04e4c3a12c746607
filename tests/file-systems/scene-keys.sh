# A key file whose mode the file system does not take is told, and what helps is what can.
file_systems="exfat ntfs exfat_private ntfs_private ntfs_permissions vfat rclone local"

scene() {
    echo one >plain
    run 0 keygen -o "$there/key"
    case $on in
        exfat | ntfs) open_to_others ;;
        *)
            not_printed warning
            run 0 encrypt -k "$there/key" plain sealed
            not_printed warning
            ;;
    esac
}

open_to_others() {
    printed_times 1 "warning: others may read the key in $there/key: .*--insecure-key-file"
    run 2 encrypt -k "$there/key" plain sealed
    printed "may use it \(mode 0777\); its file system gives.*--insecure-key-file"
    not_printed chmod
    run 0 encrypt -k "$there/key" --insecure-key-file plain sealed
    printed "warning: the secret in $there/key .* gives all files this mode"
    not_printed chmod
    printf secret >"$there/passphrase"
    run 2 encrypt --passphrase-file "$there/passphrase" plain wrapped
    printed "its file system gives all files this mode"
    not_printed chmod
    run 0 keygen -r age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p -o "$there/wrapped"
    not_printed warning
    echo age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p >"$there/recipients"
    run 2 encrypt -R "$there/recipients" plain for-them
    not_printed chmod
}
