# Where a file loses its times with a new name, it gets them again.
file_systems="vfat ntfs bindfs"

scene() {
    mkdir plain
    echo one | tee plain/one >plain/two
    touch -d 2020-01-01 plain/*
    run 0 encrypt -k "$key" plain "$there/sealed"
    not_printed 'sets no times'
    # The kernel remembers times for a second.
    sleep 1.1
    run 0 encrypt -k "$key" --resume plain "$there/sealed"
    printed '2 complete already'
    not_printed 'an update gives it that of the source'
    run 0 encrypt -k "$key" --update --ignore-ctime plain "$there/sealed"
    printed '2 unchanged'
}
